// Numbers of warps whose product, or 32 times that, leaves 64 bits.
#row = #tile.blocked<per_thread = [1], lanes = [32], warps = [1], order = [0], num_warps = 9223372036854775807>
