// Running sums. tile_scan_test runs these kernels on the CPU and on GPUs; results are named after what they hold. Kernels
// differ in how rows and columns lie in threads; some put NaN where a layout has more of them than the tensor.

// RUN: dl-opt %s --convert-tile-to-nvvm --cse | FileCheck %s
// Where ptxas is found, dl-compile also assembles; spills are errors.
// RUN: dl-compile %s --target=sm_80,sm_90a --emit=ptx -o %t
// RUN: FileCheck %s --check-prefix=PTX < %t/chunk.sm_80.ptx
// RUN: FileCheck %s --check-prefix=PTX < %t/chunk.sm_90a.ptx

// PTX: st.shared.v4.b32
// PTX: bar.sync
// PTX-COUNT-3: ld.shared.v4.b32

// A chunk of tokens as its kernel holds it: eight rows in each thread, four warps along the rows.

#chunk = #tile.blocked<per_thread = [8, 4], lanes = [1, 32], warps = [4, 1], order = [1, 0], num_warps = 4>

// CHECK-LABEL: llvm.func @chunk
// CHECK-SAME: dl.shared_bytes = 8192
// Within a thread's rows no exchange, and no sum but of neighbours.
// CHECK-COUNT-28: arith.addf
// CHECK-NOT: llvm.ptr<3>
// CHECK: llvm.store {{.*}}, !llvm.ptr<1>
// Runs of four threads: totals of four columns at once, one barrier, then the three that may come before.
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<3>
// CHECK: nvvm.barrier
// CHECK: %[[PLACE:.*]] = arith.remui %{{.*}}, %c4_i32 : i32
// CHECK: %[[COUNTS:.*]] = arith.cmpi ult, %c0_i32, %[[PLACE]] : i32
// CHECK: llvm.load {{.*}} : !llvm.ptr<3> -> vector<4xf32>
// CHECK: %[[T0:.*]] = arith.select %[[COUNTS]], %{{.*}}, %cst : f32
// CHECK: arith.cmpi ult, %c1_i32, %[[PLACE]] : i32
// CHECK: %[[T1:.*]] = arith.select
// CHECK: arith.addf %[[T0]], %[[T1]] : f32
// CHECK: arith.cmpi ult, %c2_i32, %[[PLACE]] : i32
// CHECK-COUNT-32: arith.addf
// Reverse: runs of two threads, of which the second may come after. The totals are there already.
// CHECK-NOT: nvvm.barrier
// CHECK: arith.cmpi ugt, %c1_i32, %{{.*}} : i32
// CHECK-NOT: arith.cmpi ugt
// In a loop the totals may be written again once all have been read.
// CHECK: scf.for %[[I:.*]] = %[[LOW:.*]] to
// CHECK-NEXT: %[[LATER:.*]] = arith.cmpi ne, %[[I]], %[[LOW]] : i64
// CHECK-NEXT: scf.if %[[LATER]] {
// CHECK-NEXT: nvvm.barrier
// CHECK-NEXT: }
tile.kernel @chunk(
    %x: memref<?x32x128xf32, strided<[?, 128, 1]>> {tile.name = "x", tile.role = "input", tile.shape = ["B", 32, 128], tile.access = "r"},
    %axis0_run8: memref<?x32x128xf32, strided<[?, 128, 1]>> {tile.name = "axis0_run8", tile.role = "output", tile.shape = ["B", 32, 128], tile.access = "w"},
    %axis0_run32: memref<?x32x128xf32, strided<[?, 128, 1]>> {tile.name = "axis0_run32", tile.role = "output", tile.shape = ["B", 32, 128], tile.access = "w"},
    %axis0_run16_reverse_exclusive: memref<?x32x128xf32, strided<[?, 128, 1]>> {tile.name = "axis0_run16_reverse_exclusive", tile.role = "output", tile.shape = ["B", 32, 128], tile.access = "w"},
    %axis0_run32_reverse_exclusive_times3: memref<?x32x128xf32, strided<[?, 128, 1]>> {tile.name = "axis0_run32_reverse_exclusive_times3", tile.role = "output", tile.shape = ["B", 32, 128], tile.access = "w"},
    %axis1_run16: memref<?x32x128xf32, strided<[?, 128, 1]>> {tile.name = "axis1_run16", tile.role = "output", tile.shape = ["B", 32, 128], tile.access = "w"})
    attributes {threads = 128 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %n = gpu.block_id x
  %v = tile.load %x[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x32x128xf32, strided<[?, 128, 1]>> -> tensor<32x128xf32, #chunk>
  %s0 = tile.scan %v axis 0 run 8 : tensor<32x128xf32, #chunk>
  tile.store %s0, %axis0_run8[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<32x128xf32, #chunk>, memref<?x32x128xf32, strided<[?, 128, 1]>>
  %s1 = tile.scan %v axis 0 run 32 : tensor<32x128xf32, #chunk>
  tile.store %s1, %axis0_run32[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<32x128xf32, #chunk>, memref<?x32x128xf32, strided<[?, 128, 1]>>
  %s2 = tile.scan %v axis 0 run 16 reverse exclusive : tensor<32x128xf32, #chunk>
  tile.store %s2, %axis0_run16_reverse_exclusive[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<32x128xf32, #chunk>, memref<?x32x128xf32, strided<[?, 128, 1]>>
  %s3 = scf.for %i3 = %c0 to %c3 step %c1 iter_args(%w3 = %v) -> (tensor<32x128xf32, #chunk>) {
    %u3 = tile.scan %w3 axis 0 run 32 reverse exclusive : tensor<32x128xf32, #chunk>
    scf.yield %u3 : tensor<32x128xf32, #chunk>
  }
  tile.store %s3, %axis0_run32_reverse_exclusive_times3[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<32x128xf32, #chunk>, memref<?x32x128xf32, strided<[?, 128, 1]>>
  %s4 = tile.scan %v axis 1 run 16 : tensor<32x128xf32, #chunk>
  tile.store %s4, %axis1_run16[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<32x128xf32, #chunk>, memref<?x32x128xf32, strided<[?, 128, 1]>>
  tile.return
}

// Rows over registers, lanes, warps and repeats, and more columns than there are.

#spread = #tile.blocked<per_thread = [2, 4], lanes = [4, 8], warps = [2, 4], order = [1, 0], num_warps = 8>

// CHECK-LABEL: llvm.func @spread
tile.kernel @spread(
    %x: memref<?x64x64xf32, strided<[?, 64, 1]>> {tile.name = "x", tile.role = "input", tile.shape = ["B", 64, 64], tile.access = "r"},
    %axis0_run32_exclusive: memref<?x64x64xf32, strided<[?, 64, 1]>> {tile.name = "axis0_run32_exclusive", tile.role = "output", tile.shape = ["B", 64, 64], tile.access = "w"},
    %axis0_run64_reverse: memref<?x64x64xf32, strided<[?, 64, 1]>> {tile.name = "axis0_run64_reverse", tile.role = "output", tile.shape = ["B", 64, 64], tile.access = "w"},
    %axis1_run64_reverse_exclusive: memref<?x64x64xf32, strided<[?, 64, 1]>> {tile.name = "axis1_run64_reverse_exclusive", tile.role = "output", tile.shape = ["B", 64, 64], tile.access = "w"},
    %axis0_run16_times2: memref<?x64x64xf32, strided<[?, 64, 1]>> {tile.name = "axis0_run16_times2", tile.role = "output", tile.shape = ["B", 64, 64], tile.access = "w"})
    attributes {threads = 256 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = gpu.block_id x
  %loaded = tile.load %x[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x64x64xf32, strided<[?, 64, 1]>> -> tensor<64x64xf32, #spread>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #spread>
  %nan = arith.constant dense<0x7FC00000> : tensor<64x64xf32, #spread>
  %outside = arith.cmpf oeq, %loaded, %zero : tensor<64x64xf32, #spread>
  %v = arith.select %outside, %nan, %loaded : tensor<64x64xi1, #spread>, tensor<64x64xf32, #spread>
  %s0 = tile.scan %v axis 0 run 32 exclusive : tensor<64x64xf32, #spread>
  tile.store %s0, %axis0_run32_exclusive[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<64x64xf32, #spread>, memref<?x64x64xf32, strided<[?, 64, 1]>>
  %s1 = tile.scan %v axis 0 run 64 reverse : tensor<64x64xf32, #spread>
  tile.store %s1, %axis0_run64_reverse[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<64x64xf32, #spread>, memref<?x64x64xf32, strided<[?, 64, 1]>>
  %s2 = tile.scan %v axis 1 run 64 reverse exclusive : tensor<64x64xf32, #spread>
  tile.store %s2, %axis1_run64_reverse_exclusive[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<64x64xf32, #spread>, memref<?x64x64xf32, strided<[?, 64, 1]>>
  %s3 = scf.for %i3 = %c0 to %c2 step %c1 iter_args(%w3 = %v) -> (tensor<64x64xf32, #spread>) {
    %u3 = tile.scan %w3 axis 0 run 16 : tensor<64x64xf32, #spread>
    scf.yield %u3 : tensor<64x64xf32, #spread>
  }
  tile.store %s3, %axis0_run16_times2[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<64x64xf32, #spread>, memref<?x64x64xf32, strided<[?, 64, 1]>>
  tile.return
}

// One row in each lane: runs of many pieces, which are added up in a loop.

#single = #tile.blocked<per_thread = [1, 1], lanes = [32, 1], warps = [1, 4], order = [0, 1], num_warps = 4>

// CHECK-LABEL: llvm.func @single
// CHECK: nvvm.barrier
// CHECK: %[[PLACE:.*]] = arith.remui %{{.*}}, %c64_i32 : i32
// CHECK: scf.for %[[I:.*]] = %c0_i32 to %[[PLACE]] step %c1_i32 iter_args(%[[SUM:.*]] = %cst{{.*}}) -> (f32)  : i32 {
// CHECK: %[[TOTAL:.*]] = llvm.load {{.*}} : !llvm.ptr<3> -> f32
// CHECK: %[[NEXT:.*]] = arith.addf %[[SUM]], %[[TOTAL]] : f32
// CHECK-NEXT: scf.yield %[[NEXT]]
tile.kernel @single(
    %x: memref<?x64x12xf32, strided<[?, 12, 1]>> {tile.name = "x", tile.role = "input", tile.shape = ["B", 64, 12], tile.access = "r"},
    %axis0_run64: memref<?x64x12xf32, strided<[?, 12, 1]>> {tile.name = "axis0_run64", tile.role = "output", tile.shape = ["B", 64, 12], tile.access = "w"},
    %axis0_run16_reverse_exclusive: memref<?x64x12xf32, strided<[?, 12, 1]>> {tile.name = "axis0_run16_reverse_exclusive", tile.role = "output", tile.shape = ["B", 64, 12], tile.access = "w"},
    %axis1_run12_exclusive_times2: memref<?x64x12xf32, strided<[?, 12, 1]>> {tile.name = "axis1_run12_exclusive_times2", tile.role = "output", tile.shape = ["B", 64, 12], tile.access = "w"},
    %axis0_run1_exclusive: memref<?x64x12xf32, strided<[?, 12, 1]>> {tile.name = "axis0_run1_exclusive", tile.role = "output", tile.shape = ["B", 64, 12], tile.access = "w"})
    attributes {threads = 128 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = gpu.block_id x
  %v = tile.load %x[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x64x12xf32, strided<[?, 12, 1]>> -> tensor<64x12xf32, #single>
  %s0 = tile.scan %v axis 0 run 64 : tensor<64x12xf32, #single>
  tile.store %s0, %axis0_run64[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<64x12xf32, #single>, memref<?x64x12xf32, strided<[?, 12, 1]>>
  %s1 = tile.scan %v axis 0 run 16 reverse exclusive : tensor<64x12xf32, #single>
  tile.store %s1, %axis0_run16_reverse_exclusive[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<64x12xf32, #single>, memref<?x64x12xf32, strided<[?, 12, 1]>>
  %s2 = scf.for %i2 = %c0 to %c2 step %c1 iter_args(%w2 = %v) -> (tensor<64x12xf32, #single>) {
    %u2 = tile.scan %w2 axis 1 run 12 exclusive : tensor<64x12xf32, #single>
    scf.yield %u2 : tensor<64x12xf32, #single>
  }
  tile.store %s2, %axis1_run12_exclusive_times2[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<64x12xf32, #single>, memref<?x64x12xf32, strided<[?, 12, 1]>>
  %s3 = tile.scan %v axis 0 run 1 exclusive : tensor<64x12xf32, #single>
  tile.store %s3, %axis0_run1_exclusive[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<64x12xf32, #single>, memref<?x64x12xf32, strided<[?, 12, 1]>>
  tile.return
}

// Runs that are no multiple of what a thread holds: pieces of four rows. Three warps, padding in both axes.

#uneven = #tile.blocked<per_thread = [8, 2], lanes = [1, 32], warps = [3, 1], order = [1, 0], num_warps = 3>

// CHECK-LABEL: llvm.func @uneven
tile.kernel @uneven(
    %x: memref<?x36x40xf32, strided<[?, 40, 1]>> {tile.name = "x", tile.role = "input", tile.shape = ["B", 36, 40], tile.access = "r"},
    %axis0_run12_reverse: memref<?x36x40xf32, strided<[?, 40, 1]>> {tile.name = "axis0_run12_reverse", tile.role = "output", tile.shape = ["B", 36, 40], tile.access = "w"},
    %axis0_run36_exclusive: memref<?x36x40xf32, strided<[?, 40, 1]>> {tile.name = "axis0_run36_exclusive", tile.role = "output", tile.shape = ["B", 36, 40], tile.access = "w"},
    %axis1_run8_reverse_exclusive: memref<?x36x40xf32, strided<[?, 40, 1]>> {tile.name = "axis1_run8_reverse_exclusive", tile.role = "output", tile.shape = ["B", 36, 40], tile.access = "w"},
    %axis1_run5: memref<?x36x40xf32, strided<[?, 40, 1]>> {tile.name = "axis1_run5", tile.role = "output", tile.shape = ["B", 36, 40], tile.access = "w"})
    attributes {threads = 96 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %n = gpu.block_id x
  %loaded = tile.load %x[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x36x40xf32, strided<[?, 40, 1]>> -> tensor<36x40xf32, #uneven>
  %zero = arith.constant dense<0.0> : tensor<36x40xf32, #uneven>
  %nan = arith.constant dense<0x7FC00000> : tensor<36x40xf32, #uneven>
  %outside = arith.cmpf oeq, %loaded, %zero : tensor<36x40xf32, #uneven>
  %v = arith.select %outside, %nan, %loaded : tensor<36x40xi1, #uneven>, tensor<36x40xf32, #uneven>
  %s0 = tile.scan %v axis 0 run 12 reverse : tensor<36x40xf32, #uneven>
  tile.store %s0, %axis0_run12_reverse[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<36x40xf32, #uneven>, memref<?x36x40xf32, strided<[?, 40, 1]>>
  %s1 = tile.scan %v axis 0 run 36 exclusive : tensor<36x40xf32, #uneven>
  tile.store %s1, %axis0_run36_exclusive[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<36x40xf32, #uneven>, memref<?x36x40xf32, strided<[?, 40, 1]>>
  %s2 = tile.scan %v axis 1 run 8 reverse exclusive : tensor<36x40xf32, #uneven>
  tile.store %s2, %axis1_run8_reverse_exclusive[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<36x40xf32, #uneven>, memref<?x36x40xf32, strided<[?, 40, 1]>>
  %s3 = tile.scan %v axis 1 run 5 : tensor<36x40xf32, #uneven>
  tile.store %s3, %axis1_run5[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<36x40xf32, #uneven>, memref<?x36x40xf32, strided<[?, 40, 1]>>
  tile.return
}

// All rows in each thread, with more of them than there are.

#padded = #tile.blocked<per_thread = [8, 1], lanes = [1, 32], warps = [1, 4], order = [1, 0], num_warps = 4>

// CHECK-LABEL: llvm.func @padded
tile.kernel @padded(
    %x: memref<?x12x128xf32, strided<[?, 128, 1]>> {tile.name = "x", tile.role = "input", tile.shape = ["B", 12, 128], tile.access = "r"},
    %axis0_run12_exclusive: memref<?x12x128xf32, strided<[?, 128, 1]>> {tile.name = "axis0_run12_exclusive", tile.role = "output", tile.shape = ["B", 12, 128], tile.access = "w"},
    %axis0_run4_reverse: memref<?x12x128xf32, strided<[?, 128, 1]>> {tile.name = "axis0_run4_reverse", tile.role = "output", tile.shape = ["B", 12, 128], tile.access = "w"},
    %axis1_run32: memref<?x12x128xf32, strided<[?, 128, 1]>> {tile.name = "axis1_run32", tile.role = "output", tile.shape = ["B", 12, 128], tile.access = "w"})
    attributes {threads = 128 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %n = gpu.block_id x
  %loaded = tile.load %x[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x12x128xf32, strided<[?, 128, 1]>> -> tensor<12x128xf32, #padded>
  %zero = arith.constant dense<0.0> : tensor<12x128xf32, #padded>
  %nan = arith.constant dense<0x7FC00000> : tensor<12x128xf32, #padded>
  %outside = arith.cmpf oeq, %loaded, %zero : tensor<12x128xf32, #padded>
  %v = arith.select %outside, %nan, %loaded : tensor<12x128xi1, #padded>, tensor<12x128xf32, #padded>
  %s0 = tile.scan %v axis 0 run 12 exclusive : tensor<12x128xf32, #padded>
  tile.store %s0, %axis0_run12_exclusive[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<12x128xf32, #padded>, memref<?x12x128xf32, strided<[?, 128, 1]>>
  %s1 = tile.scan %v axis 0 run 4 reverse : tensor<12x128xf32, #padded>
  tile.store %s1, %axis0_run4_reverse[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<12x128xf32, #padded>, memref<?x12x128xf32, strided<[?, 128, 1]>>
  %s2 = tile.scan %v axis 1 run 32 : tensor<12x128xf32, #padded>
  tile.store %s2, %axis1_run32[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<12x128xf32, #padded>, memref<?x12x128xf32, strided<[?, 128, 1]>>
  tile.return
}

// A vector that every warp holds whole.

#vector = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 4>

// CHECK-LABEL: llvm.func @vector
tile.kernel @vector(
    %x: memref<?x128xf32, strided<[?, 1]>> {tile.name = "x", tile.role = "input", tile.shape = ["B", 128], tile.access = "r"},
    %axis0_run16: memref<?x128xf32, strided<[?, 1]>> {tile.name = "axis0_run16", tile.role = "output", tile.shape = ["B", 128], tile.access = "w"},
    %axis0_run128_reverse_exclusive: memref<?x128xf32, strided<[?, 1]>> {tile.name = "axis0_run128_reverse_exclusive", tile.role = "output", tile.shape = ["B", 128], tile.access = "w"},
    %axis0_run4_exclusive: memref<?x128xf32, strided<[?, 1]>> {tile.name = "axis0_run4_exclusive", tile.role = "output", tile.shape = ["B", 128], tile.access = "w"})
    attributes {threads = 128 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %n = gpu.block_id x
  %v = tile.load %x[%n, %c0] axes [1] in_bounds [true] : memref<?x128xf32, strided<[?, 1]>> -> tensor<128xf32, #vector>
  %s0 = tile.scan %v axis 0 run 16 : tensor<128xf32, #vector>
  tile.store %s0, %axis0_run16[%n, %c0] axes [1] in_bounds [true] : tensor<128xf32, #vector>, memref<?x128xf32, strided<[?, 1]>>
  %s1 = tile.scan %v axis 0 run 128 reverse exclusive : tensor<128xf32, #vector>
  tile.store %s1, %axis0_run128_reverse_exclusive[%n, %c0] axes [1] in_bounds [true] : tensor<128xf32, #vector>, memref<?x128xf32, strided<[?, 1]>>
  %s2 = tile.scan %v axis 0 run 4 exclusive : tensor<128xf32, #vector>
  tile.store %s2, %axis0_run4_exclusive[%n, %c0] axes [1] in_bounds [true] : tensor<128xf32, #vector>, memref<?x128xf32, strided<[?, 1]>>
  tile.return
}

// A column of the chunk: lanes hold copies.

// CHECK-LABEL: llvm.func @slice
tile.kernel @slice(
    %x: memref<?x32xf32, strided<[?, 1]>> {tile.name = "x", tile.role = "input", tile.shape = ["B", 32], tile.access = "r"},
    %axis0_run32_exclusive: memref<?x32xf32, strided<[?, 1]>> {tile.name = "axis0_run32_exclusive", tile.role = "output", tile.shape = ["B", 32], tile.access = "w"},
    %axis0_run16_reverse_times2: memref<?x32xf32, strided<[?, 1]>> {tile.name = "axis0_run16_reverse_times2", tile.role = "output", tile.shape = ["B", 32], tile.access = "w"})
    attributes {threads = 128 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = gpu.block_id x
  %v = tile.load %x[%n, %c0] axes [1] in_bounds [true] : memref<?x32xf32, strided<[?, 1]>> -> tensor<32xf32, #tile.slice<1, #chunk>>
  %s0 = tile.scan %v axis 0 run 32 exclusive : tensor<32xf32, #tile.slice<1, #chunk>>
  tile.store %s0, %axis0_run32_exclusive[%n, %c0] axes [1] in_bounds [true] : tensor<32xf32, #tile.slice<1, #chunk>>, memref<?x32xf32, strided<[?, 1]>>
  %s1 = scf.for %i1 = %c0 to %c2 step %c1 iter_args(%w1 = %v) -> (tensor<32xf32, #tile.slice<1, #chunk>>) {
    %u1 = tile.scan %w1 axis 0 run 16 reverse : tensor<32xf32, #tile.slice<1, #chunk>>
    scf.yield %u1 : tensor<32xf32, #tile.slice<1, #chunk>>
  }
  tile.store %s1, %axis0_run16_reverse_times2[%n, %c0] axes [1] in_bounds [true] : tensor<32xf32, #tile.slice<1, #chunk>>, memref<?x32xf32, strided<[?, 1]>>
  tile.return
}

// What a matrix instruction leaves.

#fragment = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [2, 2]>

// CHECK-LABEL: llvm.func @fragment
tile.kernel @fragment(
    %x: memref<?x64x32xf32, strided<[?, 32, 1]>> {tile.name = "x", tile.role = "input", tile.shape = ["B", 64, 32], tile.access = "r"},
    %axis0_run64: memref<?x64x32xf32, strided<[?, 32, 1]>> {tile.name = "axis0_run64", tile.role = "output", tile.shape = ["B", 64, 32], tile.access = "w"},
    %axis1_run16_exclusive: memref<?x64x32xf32, strided<[?, 32, 1]>> {tile.name = "axis1_run16_exclusive", tile.role = "output", tile.shape = ["B", 64, 32], tile.access = "w"},
    %axis1_run32_reverse: memref<?x64x32xf32, strided<[?, 32, 1]>> {tile.name = "axis1_run32_reverse", tile.role = "output", tile.shape = ["B", 64, 32], tile.access = "w"})
    attributes {threads = 128 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %n = gpu.block_id x
  %v = tile.load %x[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x64x32xf32, strided<[?, 32, 1]>> -> tensor<64x32xf32, #fragment>
  %s0 = tile.scan %v axis 0 run 64 : tensor<64x32xf32, #fragment>
  tile.store %s0, %axis0_run64[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<64x32xf32, #fragment>, memref<?x64x32xf32, strided<[?, 32, 1]>>
  %s1 = tile.scan %v axis 1 run 16 exclusive : tensor<64x32xf32, #fragment>
  tile.store %s1, %axis1_run16_exclusive[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<64x32xf32, #fragment>, memref<?x64x32xf32, strided<[?, 32, 1]>>
  %s2 = tile.scan %v axis 1 run 32 reverse : tensor<64x32xf32, #fragment>
  tile.store %s2, %axis1_run32_reverse[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<64x32xf32, #fragment>, memref<?x64x32xf32, strided<[?, 32, 1]>>
  tile.return
}

// A scan in a branch: the second of three iterations goes without it.

// CHECK-LABEL: llvm.func @branch
// CHECK: scf.for
// CHECK: nvvm.barrier
// CHECK: scf.if
// CHECK: nvvm.barrier
// CHECK-NOT: nvvm.barrier
tile.kernel @branch(
    %x: memref<?x32x128xf32, strided<[?, 128, 1]>> {tile.name = "x", tile.role = "input", tile.shape = ["B", 32, 128], tile.access = "r"},
    %axis0_run32_times2: memref<?x32x128xf32, strided<[?, 128, 1]>> {tile.name = "axis0_run32_times2", tile.role = "output", tile.shape = ["B", 32, 128], tile.access = "w"})
    attributes {threads = 128 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %n = gpu.block_id x
  %v = tile.load %x[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x32x128xf32, strided<[?, 128, 1]>> -> tensor<32x128xf32, #chunk>
  %s = scf.for %i = %c0 to %c3 step %c1 iter_args(%w = %v) -> (tensor<32x128xf32, #chunk>) {
    %isScanned = arith.cmpi ne, %i, %c1 : index
    %u = scf.if %isScanned -> (tensor<32x128xf32, #chunk>) {
      %sums = tile.scan %w axis 0 run 32 : tensor<32x128xf32, #chunk>
      scf.yield %sums : tensor<32x128xf32, #chunk>
    } else {
      scf.yield %w : tensor<32x128xf32, #chunk>
    }
    scf.yield %u : tensor<32x128xf32, #chunk>
  }
  tile.store %s, %axis0_run32_times2[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<32x128xf32, #chunk>, memref<?x32x128xf32, strided<[?, 128, 1]>>
  tile.return
}
