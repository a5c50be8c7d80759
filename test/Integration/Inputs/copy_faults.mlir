// Kernels that a GPU would wait in for ever, or whose result it does not define; the cpu target returns an error
// (tile_copy_test).

#row = #tile.blocked<per_thread = [1], lanes = [32], warps = [4], order = [0], num_warps = 4>
!counters = !tile.shared<2xi64, #tile.swizzled<0>>
!row = !tile.shared<512xi8, #tile.swizzled<0>>

// The counter's first phase is that of parity 0: it has not ended, and one of parity 1 is taken for ended.
tile.kernel @fault_parity(
    %w: memref<?x?x512xi8, strided<[?, ?, 1]>> {tile.name = "w", tile.role = "input", tile.shape = ["B", 4, 512], tile.access = "r"},
    %o: memref<?x128xf32, strided<[?, 1]>> {tile.name = "o", tile.role = "output", tile.shape = ["B", 128], tile.access = "w"})
    attributes {threads = 128 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %i0 = arith.constant 0 : i32
  %i1 = arith.constant 1 : i32
  %n = gpu.block_id x
  %arrivals = tile.arrivals : !counters
  %row = tile.alloc : !row
  tile.copy_bulk %w[%n, %c0] into %row arriving %arrivals[%i0] : memref<?x?x512xi8, strided<[?, ?, 1]>>, !row, !counters
  tile.await %arrivals[%i0] parity %i1 : !counters
  %numbers = tile.local_part %row offset 0 : !row -> !tile.shared<128xf32, #tile.swizzled<0>>
  %x = tile.local_load %numbers : !tile.shared<128xf32, #tile.swizzled<0>> -> tensor<128xf32, #row>
  tile.store %x, %o[%n, %c0] axes [1] in_bounds [true] : tensor<128xf32, #row>, memref<?x128xf32, strided<[?, 1]>>
  tile.return
}

// Nothing is on the way to this counter.
tile.kernel @fault_counter(
    %w: memref<?x?x512xi8, strided<[?, ?, 1]>> {tile.name = "w", tile.role = "input", tile.shape = ["B", 4, 512], tile.access = "r"},
    %o: memref<?x128xf32, strided<[?, 1]>> {tile.name = "o", tile.role = "output", tile.shape = ["B", 128], tile.access = "w"})
    attributes {threads = 128 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %i0 = arith.constant 0 : i32
  %i1 = arith.constant 1 : i32
  %n = gpu.block_id x
  %arrivals = tile.arrivals : !counters
  %row = tile.alloc : !row
  tile.copy_bulk %w[%n, %c0] into %row arriving %arrivals[%i0] : memref<?x?x512xi8, strided<[?, ?, 1]>>, !row, !counters
  tile.await %arrivals[%i1] parity %i0 : !counters
  %numbers = tile.local_part %row offset 0 : !row -> !tile.shared<128xf32, #tile.swizzled<0>>
  %x = tile.local_load %numbers : !tile.shared<128xf32, #tile.swizzled<0>> -> tensor<128xf32, #row>
  tile.store %x, %o[%n, %c0] axes [1] in_bounds [true] : tensor<128xf32, #row>, memref<?x128xf32, strided<[?, 1]>>
  tile.return
}

// The first copy is still on its way.
tile.kernel @fault_twice(
    %w: memref<?x?x512xi8, strided<[?, ?, 1]>> {tile.name = "w", tile.role = "input", tile.shape = ["B", 4, 512], tile.access = "r"},
    %o: memref<?x128xf32, strided<[?, 1]>> {tile.name = "o", tile.role = "output", tile.shape = ["B", 128], tile.access = "w"})
    attributes {threads = 128 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %i0 = arith.constant 0 : i32
  %i1 = arith.constant 1 : i32
  %n = gpu.block_id x
  %arrivals = tile.arrivals : !counters
  %row = tile.alloc : !row
  tile.copy_bulk %w[%n, %c0] into %row arriving %arrivals[%i0] : memref<?x?x512xi8, strided<[?, ?, 1]>>, !row, !counters
  tile.copy_bulk %w[%n, %c0] into %row arriving %arrivals[%i0] : memref<?x?x512xi8, strided<[?, ?, 1]>>, !row, !counters
  tile.await %arrivals[%i0] parity %i0 : !counters
  %numbers = tile.local_part %row offset 0 : !row -> !tile.shared<128xf32, #tile.swizzled<0>>
  %x = tile.local_load %numbers : !tile.shared<128xf32, #tile.swizzled<0>> -> tensor<128xf32, #row>
  tile.store %x, %o[%n, %c0] axes [1] in_bounds [true] : tensor<128xf32, #row>, memref<?x128xf32, strided<[?, 1]>>
  tile.return
}

// So it is when the block ends.
tile.kernel @fault_end(
    %w: memref<?x?x512xi8, strided<[?, ?, 1]>> {tile.name = "w", tile.role = "input", tile.shape = ["B", 4, 512], tile.access = "r"},
    %o: memref<?x128xf32, strided<[?, 1]>> {tile.name = "o", tile.role = "output", tile.shape = ["B", 128], tile.access = "w"})
    attributes {threads = 128 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %i0 = arith.constant 0 : i32
  %i1 = arith.constant 1 : i32
  %n = gpu.block_id x
  %arrivals = tile.arrivals : !counters
  %row = tile.alloc : !row
  tile.copy_bulk %w[%n, %c0] into %row arriving %arrivals[%i0] : memref<?x?x512xi8, strided<[?, ?, 1]>>, !row, !counters
  %numbers = tile.local_part %row offset 0 : !row -> !tile.shared<128xf32, #tile.swizzled<0>>
  %x = tile.local_load %numbers : !tile.shared<128xf32, #tile.swizzled<0>> -> tensor<128xf32, #row>
  tile.store %x, %o[%n, %c0] axes [1] in_bounds [true] : tensor<128xf32, #row>, memref<?x128xf32, strided<[?, 1]>>
  tile.return
}
