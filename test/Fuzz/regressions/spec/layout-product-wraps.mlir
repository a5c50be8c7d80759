// 65536^4 is 0 in 64 bits.
#row = #tile.blocked<per_thread = [1, 1, 1, 1], lanes = [32, 1, 1, 1], warps = [65536, 65536, 65536, 65536], order = [0, 1, 2, 3], num_warps = 1>
