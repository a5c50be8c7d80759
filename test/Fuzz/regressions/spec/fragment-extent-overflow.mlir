// More rows than any number of registers could hold.
!tile = tensor<9223372036854775807x9223372036854775807xf32, #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [1, 1]>>
