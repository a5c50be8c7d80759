// 2^80 elements of shared memory.
!tile = !tile.shared<1048576x1048576x1048576x1048576xf32, #tile.swizzled<0>>
