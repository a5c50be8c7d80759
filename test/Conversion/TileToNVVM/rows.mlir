// Rows of a log, from a ring of 16 into a state of 96 x 40 and into what is read of it. tile_rows_test runs these kernels on the
// CPU and on GPUs; what they compute stands there. They differ in how a state lies in threads.

// RUN: dl-opt %s --tile-to-nvvm | FileCheck %s
// Where ptxas is found, dl-compile also assembles; spills are errors.
// RUN: dl-compile %s --target=sm_80,sm_90a --emit=ptx -o %t
// RUN: FileCheck %s --check-prefix=PTX < %t/rows16.sm_80.ptx
// RUN: FileCheck %s --check-prefix=PTX < %t/rows16.sm_90a.ptx

// Keys come four at a time, without a branch; the rows of a log add up between two barriers.
// PTX: @p ld.global.nc.v2.b32
// PTX: bar.sync
// PTX: st.shared.v4
// PTX: bar.sync
// PTX: ld.shared.v4
// PTX: fma.rn.f32

// Keys over registers, lanes and warps; a padded state.

#load0 = #tile.blocked<per_thread = [1, 4], lanes = [4, 8], warps = [4, 1], order = [1, 0], num_warps = 4>
#state0 = #tile.blocked<per_thread = [8, 4], lanes = [4, 8], warps = [4, 1], order = [1, 0], num_warps = 4>
#log0 = #tile.blocked<per_thread = [1, 4], lanes = [4, 8], warps = [4, 1], order = [1, 0], num_warps = 4>

// CHECK-LABEL: llvm.func @rows16
tile.kernel @rows16(
    %k: memref<?x16x96xbf16, strided<[?, ?, 1]>> {tile.name = "k", tile.role = "input", tile.shape = ["B", 16, 96], tile.access = "r"},
    %u: memref<?x16x40xf32, strided<[?, 40, 1]>> {tile.name = "u", tile.role = "input", tile.shape = ["B", 16, 40], tile.access = "r"},
    %w: memref<?x16xf32, strided<[?, 1]>> {tile.name = "w", tile.role = "input", tile.shape = ["B", 16], tile.access = "r"},
    %q: memref<?x96xf32, strided<[?, 1]>> {tile.name = "q", tile.role = "input", tile.shape = ["B", 96], tile.access = "r"},
    %r: memref<?x40xf32, strided<[?, 1]>> {tile.name = "r", tile.role = "input", tile.shape = ["B", 40], tile.access = "r"},
    %s: memref<?x96x40xf32, strided<[?, 40, 1]>> {tile.name = "s", tile.role = "input", tile.shape = ["B", 96, 40], tile.access = "r"},
    %starts: memref<?xi32, strided<[?]>> {tile.name = "start", tile.role = "input", tile.shape = ["B"], tile.access = "r"},
    %counts: memref<?xi32, strided<[?]>> {tile.name = "count", tile.role = "input", tile.shape = ["B"], tile.access = "r"},
    %places: memref<?xi32, strided<[?]>> {tile.name = "at", tile.role = "input", tile.shape = ["B"], tile.access = "r"},
    %t: memref<?x96x40xf32, strided<[?, 40, 1]>> {tile.name = "t", tile.role = "output", tile.shape = ["B", 96, 40], tile.access = "w"},
    %o: memref<?x40xf32, strided<[?, 1]>> {tile.name = "o", tile.role = "output", tile.shape = ["B", 40], tile.access = "w"})
    attributes {threads = 128 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %first = arith.constant 1.0 : f32
  %n = gpu.block_id x
  %start32 = memref.load %starts[%n] : memref<?xi32, strided<[?]>>
  %start = arith.index_cast %start32 : i32 to index
  %count = memref.load %counts[%n] : memref<?xi32, strided<[?]>>
  %at = memref.load %places[%n] : memref<?xi32, strided<[?]>>
  %keys = tile.ring_load %k[%n, %start, %c0] axes [1, 2] in_bounds [true, true] count %count : memref<?x16x96xbf16, strided<[?, ?, 1]>> -> tensor<16x96xbf16, #load0>
  %a = arith.extf %keys : tensor<16x96xbf16, #load0> to tensor<16x96xf32, #load0>
  %b = tile.ring_load %u[%n, %start, %c0] axes [1, 2] count %count : memref<?x16x40xf32, strided<[?, 40, 1]>> -> tensor<16x40xf32, #load0>
  %old = tile.load %s[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x96x40xf32, strided<[?, 40, 1]>> -> tensor<96x40xf32, #state0>
  %new, %end = scf.for %i = %c0 to %c3 step %c1 iter_args(%x = %old, %f = %first) -> (tensor<96x40xf32, #state0>, f32) {
    %scale = tile.splat %f : f32 -> tensor<16x96xf32, #load0>
    %scaled = arith.mulf %a, %scale : tensor<16x96xf32, #load0>
    %y = tile.rank_update %scaled, %b, %x count %count : tensor<16x96xf32, #load0>, tensor<16x40xf32, #load0>, tensor<96x40xf32, #state0>
    %g = arith.addf %f, %first : f32
    scf.yield %y, %g : tensor<96x40xf32, #state0>, f32
  }
  tile.store %new, %t[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<96x40xf32, #state0>, memref<?x96x40xf32, strided<[?, 40, 1]>>
  %entries = tile.ring_load %u[%n, %start, %c0] axes [1, 2] in_bounds [true, true] count %count : memref<?x16x40xf32, strided<[?, 40, 1]>> -> tensor<16x40xf32, #log0>
  %row = tile.load %r[%n, %c0] axes [1] in_bounds [true] : memref<?x40xf32, strided<[?, 1]>> -> tensor<40xf32, #tile.slice<0, #log0>>
  %own = tile.insert %row into %entries[%at] axis 0 : tensor<40xf32, #tile.slice<0, #log0>> into tensor<16x40xf32, #log0>
  %weights = tile.ring_load %w[%n, %start] axes [1] count %count : memref<?x16xf32, strided<[?, 1]>> -> tensor<16xf32, #tile.slice<1, #log0>>
  %one = arith.constant dense<1.0> : tensor<16xf32, #tile.slice<1, #log0>>
  %factors = arith.addf %weights, %one : tensor<16xf32, #tile.slice<1, #log0>>
  %query = tile.load %q[%n, %c0] axes [1] in_bounds [true] : memref<?x96xf32, strided<[?, 1]>> -> tensor<96xf32, #tile.slice<1, #state0>>
  %read = tile.dot %query with %new and %factors with %own axis 0 : tensor<96xf32, #tile.slice<1, #state0>> with tensor<96x40xf32, #state0>
      and tensor<16xf32, #tile.slice<1, #log0>> with tensor<16x40xf32, #log0> -> tensor<40xf32, #tile.slice<0, #state0>>
  tile.store %read, %o[%n, %c0] axes [1] in_bounds [true] : tensor<40xf32, #tile.slice<0, #state0>>, memref<?x40xf32, strided<[?, 1]>>
  tile.return
}

// Keys over three warps, with padding in the log.

#load1 = #tile.blocked<per_thread = [1, 4], lanes = [4, 8], warps = [3, 1], order = [1, 0], num_warps = 3>
#state1 = #tile.blocked<per_thread = [4, 1], lanes = [1, 32], warps = [3, 1], order = [1, 0], num_warps = 3>
#log1 = #tile.blocked<per_thread = [2, 1], lanes = [1, 32], warps = [3, 1], order = [1, 0], num_warps = 3>

// CHECK-LABEL: llvm.func @rows11
tile.kernel @rows11(
    %k: memref<?x16x96xbf16, strided<[?, ?, 1]>> {tile.name = "k", tile.role = "input", tile.shape = ["B", 16, 96], tile.access = "r"},
    %u: memref<?x16x40xf32, strided<[?, 40, 1]>> {tile.name = "u", tile.role = "input", tile.shape = ["B", 16, 40], tile.access = "r"},
    %w: memref<?x16xf32, strided<[?, 1]>> {tile.name = "w", tile.role = "input", tile.shape = ["B", 16], tile.access = "r"},
    %q: memref<?x96xf32, strided<[?, 1]>> {tile.name = "q", tile.role = "input", tile.shape = ["B", 96], tile.access = "r"},
    %r: memref<?x40xf32, strided<[?, 1]>> {tile.name = "r", tile.role = "input", tile.shape = ["B", 40], tile.access = "r"},
    %s: memref<?x96x40xf32, strided<[?, 40, 1]>> {tile.name = "s", tile.role = "input", tile.shape = ["B", 96, 40], tile.access = "r"},
    %starts: memref<?xi32, strided<[?]>> {tile.name = "start", tile.role = "input", tile.shape = ["B"], tile.access = "r"},
    %counts: memref<?xi32, strided<[?]>> {tile.name = "count", tile.role = "input", tile.shape = ["B"], tile.access = "r"},
    %places: memref<?xi32, strided<[?]>> {tile.name = "at", tile.role = "input", tile.shape = ["B"], tile.access = "r"},
    %t: memref<?x96x40xf32, strided<[?, 40, 1]>> {tile.name = "t", tile.role = "output", tile.shape = ["B", 96, 40], tile.access = "w"},
    %o: memref<?x40xf32, strided<[?, 1]>> {tile.name = "o", tile.role = "output", tile.shape = ["B", 40], tile.access = "w"})
    attributes {threads = 96 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %first = arith.constant 1.0 : f32
  %n = gpu.block_id x
  %start32 = memref.load %starts[%n] : memref<?xi32, strided<[?]>>
  %start = arith.index_cast %start32 : i32 to index
  %count = memref.load %counts[%n] : memref<?xi32, strided<[?]>>
  %at = memref.load %places[%n] : memref<?xi32, strided<[?]>>
  %keys = tile.ring_load %k[%n, %start, %c0] axes [1, 2] in_bounds [true, true] count %count : memref<?x16x96xbf16, strided<[?, ?, 1]>> -> tensor<11x96xbf16, #load1>
  %a = arith.extf %keys : tensor<11x96xbf16, #load1> to tensor<11x96xf32, #load1>
  %b = tile.ring_load %u[%n, %start, %c0] axes [1, 2] count %count : memref<?x16x40xf32, strided<[?, 40, 1]>> -> tensor<11x40xf32, #load1>
  %old = tile.load %s[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x96x40xf32, strided<[?, 40, 1]>> -> tensor<96x40xf32, #state1>
  %new, %end = scf.for %i = %c0 to %c3 step %c1 iter_args(%x = %old, %f = %first) -> (tensor<96x40xf32, #state1>, f32) {
    %scale = tile.splat %f : f32 -> tensor<11x96xf32, #load1>
    %scaled = arith.mulf %a, %scale : tensor<11x96xf32, #load1>
    %y = tile.rank_update %scaled, %b, %x count %count : tensor<11x96xf32, #load1>, tensor<11x40xf32, #load1>, tensor<96x40xf32, #state1>
    %g = arith.addf %f, %first : f32
    scf.yield %y, %g : tensor<96x40xf32, #state1>, f32
  }
  tile.store %new, %t[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<96x40xf32, #state1>, memref<?x96x40xf32, strided<[?, 40, 1]>>
  %entries = tile.ring_load %u[%n, %start, %c0] axes [1, 2] in_bounds [true, true] count %count : memref<?x16x40xf32, strided<[?, 40, 1]>> -> tensor<11x40xf32, #log1>
  %row = tile.load %r[%n, %c0] axes [1] in_bounds [true] : memref<?x40xf32, strided<[?, 1]>> -> tensor<40xf32, #tile.slice<0, #log1>>
  %own = tile.insert %row into %entries[%at] axis 0 : tensor<40xf32, #tile.slice<0, #log1>> into tensor<11x40xf32, #log1>
  %weights = tile.ring_load %w[%n, %start] axes [1] count %count : memref<?x16xf32, strided<[?, 1]>> -> tensor<11xf32, #tile.slice<1, #log1>>
  %one = arith.constant dense<1.0> : tensor<11xf32, #tile.slice<1, #log1>>
  %factors = arith.addf %weights, %one : tensor<11xf32, #tile.slice<1, #log1>>
  %query = tile.load %q[%n, %c0] axes [1] in_bounds [true] : memref<?x96xf32, strided<[?, 1]>> -> tensor<96xf32, #tile.slice<1, #state1>>
  %read = tile.dot %query with %new and %factors with %own axis 0 : tensor<96xf32, #tile.slice<1, #state1>> with tensor<96x40xf32, #state1>
      and tensor<11xf32, #tile.slice<1, #log1>> with tensor<11x40xf32, #log1> -> tensor<40xf32, #tile.slice<0, #state1>>
  tile.store %read, %o[%n, %c0] axes [1] in_bounds [true] : tensor<40xf32, #tile.slice<0, #state1>>, memref<?x40xf32, strided<[?, 1]>>
  tile.return
}

// Keys fastest, columns over warps, copies of both.

#load2 = #tile.blocked<per_thread = [1, 4], lanes = [4, 8], warps = [4, 1], order = [1, 0], num_warps = 4>
#state2 = #tile.blocked<per_thread = [4, 1], lanes = [8, 4], warps = [1, 2], order = [0, 1], num_warps = 4>
#log2 = #tile.blocked<per_thread = [1, 1], lanes = [8, 4], warps = [1, 2], order = [0, 1], num_warps = 4>

// CHECK-LABEL: llvm.func @rows5
tile.kernel @rows5(
    %k: memref<?x16x96xbf16, strided<[?, ?, 1]>> {tile.name = "k", tile.role = "input", tile.shape = ["B", 16, 96], tile.access = "r"},
    %u: memref<?x16x40xf32, strided<[?, 40, 1]>> {tile.name = "u", tile.role = "input", tile.shape = ["B", 16, 40], tile.access = "r"},
    %w: memref<?x16xf32, strided<[?, 1]>> {tile.name = "w", tile.role = "input", tile.shape = ["B", 16], tile.access = "r"},
    %q: memref<?x96xf32, strided<[?, 1]>> {tile.name = "q", tile.role = "input", tile.shape = ["B", 96], tile.access = "r"},
    %r: memref<?x40xf32, strided<[?, 1]>> {tile.name = "r", tile.role = "input", tile.shape = ["B", 40], tile.access = "r"},
    %s: memref<?x96x40xf32, strided<[?, 40, 1]>> {tile.name = "s", tile.role = "input", tile.shape = ["B", 96, 40], tile.access = "r"},
    %starts: memref<?xi32, strided<[?]>> {tile.name = "start", tile.role = "input", tile.shape = ["B"], tile.access = "r"},
    %counts: memref<?xi32, strided<[?]>> {tile.name = "count", tile.role = "input", tile.shape = ["B"], tile.access = "r"},
    %places: memref<?xi32, strided<[?]>> {tile.name = "at", tile.role = "input", tile.shape = ["B"], tile.access = "r"},
    %t: memref<?x96x40xf32, strided<[?, 40, 1]>> {tile.name = "t", tile.role = "output", tile.shape = ["B", 96, 40], tile.access = "w"},
    %o: memref<?x40xf32, strided<[?, 1]>> {tile.name = "o", tile.role = "output", tile.shape = ["B", 40], tile.access = "w"})
    attributes {threads = 128 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %first = arith.constant 1.0 : f32
  %n = gpu.block_id x
  %start32 = memref.load %starts[%n] : memref<?xi32, strided<[?]>>
  %start = arith.index_cast %start32 : i32 to index
  %count = memref.load %counts[%n] : memref<?xi32, strided<[?]>>
  %at = memref.load %places[%n] : memref<?xi32, strided<[?]>>
  %keys = tile.ring_load %k[%n, %start, %c0] axes [1, 2] in_bounds [true, true] count %count : memref<?x16x96xbf16, strided<[?, ?, 1]>> -> tensor<5x96xbf16, #load2>
  %a = arith.extf %keys : tensor<5x96xbf16, #load2> to tensor<5x96xf32, #load2>
  %b = tile.ring_load %u[%n, %start, %c0] axes [1, 2] count %count : memref<?x16x40xf32, strided<[?, 40, 1]>> -> tensor<5x40xf32, #load2>
  %old = tile.load %s[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x96x40xf32, strided<[?, 40, 1]>> -> tensor<96x40xf32, #state2>
  %new, %end = scf.for %i = %c0 to %c3 step %c1 iter_args(%x = %old, %f = %first) -> (tensor<96x40xf32, #state2>, f32) {
    %scale = tile.splat %f : f32 -> tensor<5x96xf32, #load2>
    %scaled = arith.mulf %a, %scale : tensor<5x96xf32, #load2>
    %y = tile.rank_update %scaled, %b, %x count %count : tensor<5x96xf32, #load2>, tensor<5x40xf32, #load2>, tensor<96x40xf32, #state2>
    %g = arith.addf %f, %first : f32
    scf.yield %y, %g : tensor<96x40xf32, #state2>, f32
  }
  tile.store %new, %t[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<96x40xf32, #state2>, memref<?x96x40xf32, strided<[?, 40, 1]>>
  %entries = tile.ring_load %u[%n, %start, %c0] axes [1, 2] in_bounds [true, true] count %count : memref<?x16x40xf32, strided<[?, 40, 1]>> -> tensor<5x40xf32, #log2>
  %row = tile.load %r[%n, %c0] axes [1] in_bounds [true] : memref<?x40xf32, strided<[?, 1]>> -> tensor<40xf32, #tile.slice<0, #log2>>
  %own = tile.insert %row into %entries[%at] axis 0 : tensor<40xf32, #tile.slice<0, #log2>> into tensor<5x40xf32, #log2>
  %weights = tile.ring_load %w[%n, %start] axes [1] count %count : memref<?x16xf32, strided<[?, 1]>> -> tensor<5xf32, #tile.slice<1, #log2>>
  %one = arith.constant dense<1.0> : tensor<5xf32, #tile.slice<1, #log2>>
  %factors = arith.addf %weights, %one : tensor<5xf32, #tile.slice<1, #log2>>
  %query = tile.load %q[%n, %c0] axes [1] in_bounds [true] : memref<?x96xf32, strided<[?, 1]>> -> tensor<96xf32, #tile.slice<1, #state2>>
  %read = tile.dot %query with %new and %factors with %own axis 0 : tensor<96xf32, #tile.slice<1, #state2>> with tensor<96x40xf32, #state2>
      and tensor<5xf32, #tile.slice<1, #log2>> with tensor<5x40xf32, #log2> -> tensor<40xf32, #tile.slice<0, #state2>>
  tile.store %read, %o[%n, %c0] axes [1] in_bounds [true] : tensor<40xf32, #tile.slice<0, #state2>>, memref<?x40xf32, strided<[?, 1]>>
  tile.return
}
