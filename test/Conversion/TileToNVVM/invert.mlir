// Inverses of unit lower triangular matrices. tile_scan_test runs these kernels on the CPU and on GPUs, with NaN on and above
// the diagonal. Kernels differ in size, in how a matrix lies in threads and in how many of these there are.

// RUN: dl-opt %s --convert-tile-to-nvvm --cse | FileCheck %s
// Where ptxas is found, dl-compile also assembles; spills are errors.
// RUN: dl-compile %s --target=sm_80,sm_90a --emit=ptx -o %t
// RUN: FileCheck %s --check-prefix=PTX < %t/invert128.sm_80.ptx
// RUN: FileCheck %s --check-prefix=PTX < %t/invert128.sm_90a.ptx

// PTX: bar.sync
// PTX: ld.shared.v4
// PTX: fma.rn.f32
// PTX: bar.warp.sync
// PTX: ld.shared.v4

// One block, four lanes for each row; one warp.

#m16 = #tile.blocked<per_thread = [2, 4], lanes = [8, 4], warps = [1, 1], order = [1, 0], num_warps = 1>

// CHECK-LABEL: llvm.func @invert16
tile.kernel @invert16(
    %a: memref<?x16x16xf32, strided<[?, 16, 1]>> {tile.name = "a", tile.role = "input", tile.shape = ["B", 16, 16], tile.access = "r"},
    %t: memref<?x16x16xf32, strided<[?, 16, 1]>> {tile.name = "t", tile.role = "output", tile.shape = ["B", 16, 16], tile.access = "w"})
    attributes {threads = 32 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %n = gpu.block_id x
  %m = tile.load %a[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x16x16xf32, strided<[?, 16, 1]>> -> tensor<16x16xf32, #m16>
  %r = tile.invert_unit_lower %m : tensor<16x16xf32, #m16>
  tile.store %r, %t[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<16x16xf32, #m16>, memref<?x16x16xf32, strided<[?, 16, 1]>>
  tile.return
}

// One block in a layout for more; the first of eight warps inverts it; in a loop.

#p16 = #tile.blocked<per_thread = [2, 4], lanes = [1, 32], warps = [8, 1], order = [1, 0], num_warps = 8>

// CHECK-LABEL: llvm.func @invert16_padded
tile.kernel @invert16_padded(
    %a: memref<?x16x16xf32, strided<[?, 16, 1]>> {tile.name = "a", tile.role = "input", tile.shape = ["B", 16, 16], tile.access = "r"},
    %t_times3: memref<?x16x16xf32, strided<[?, 16, 1]>> {tile.name = "t_times3", tile.role = "output", tile.shape = ["B", 16, 16], tile.access = "w"})
    attributes {threads = 256 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %n = gpu.block_id x
  %m = tile.load %a[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x16x16xf32, strided<[?, 16, 1]>> -> tensor<16x16xf32, #p16>
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%w = %m) -> (tensor<16x16xf32, #p16>) {
    %u = tile.invert_unit_lower %w : tensor<16x16xf32, #p16>
    scf.yield %u : tensor<16x16xf32, #p16>
  }
  tile.store %r, %t_times3[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<16x16xf32, #p16>, memref<?x16x16xf32, strided<[?, 16, 1]>>
  tile.return
}

// As a chunk of 32 tokens holds it; in a loop.

#m32 = #tile.blocked<per_thread = [2, 4], lanes = [4, 8], warps = [4, 1], order = [1, 0], num_warps = 4>

// CHECK-LABEL: llvm.func @invert32
// 32 rows of 36 for the matrix, 16 of 20 for a product.
// CHECK-SAME: dl.shared_bytes = 5888
// What a thread reads in the end it alone writes in the next iteration: no barrier in between.
// CHECK: scf.for
// CHECK-NOT: nvvm.barrier
// Only what lies below the diagonal is looked at.
// CHECK: %[[BELOW:.*]] = arith.cmpi sgt,
// CHECK: arith.select %[[BELOW]], %{{.*}}, %cst : f32
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<3>
// CHECK: nvvm.barrier
// The first warp has both blocks. The first row of an inverse is that of I, the second needs one product.
// CHECK: scf.if
// CHECK: %[[FIRST:.*]] = arith.select %{{.*}}, %[[ONE:.*]], %cst
// CHECK: %[[A:.*]] = llvm.load {{.*}} : !llvm.ptr<3> -> vector<4xf32>
// CHECK: %[[A10:.*]] = llvm.extractelement %[[A]][%c0_i32
// CHECK: %[[MINUS:.*]] = arith.negf %[[A10]] : f32
// CHECK: llvm.intr.fma(%[[MINUS]], %[[FIRST]],
// CHECK: nvvm.bar.warp.sync
// CHECK-COUNT-16: llvm.store {{.*}} : f32, !llvm.ptr<3>
// CHECK: nvvm.barrier
// Two products of 16 x 16, four elements for each of 64 threads.
// CHECK: scf.if
// CHECK-COUNT-64: llvm.intr.fma
// CHECK-NOT: llvm.intr.fma
// CHECK: nvvm.barrier
// CHECK: scf.if
// CHECK-COUNT-64: llvm.intr.fma
// CHECK-NOT: llvm.intr.fma
// CHECK: arith.negf
// CHECK: nvvm.barrier
// CHECK: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xf32>
// CHECK-NOT: nvvm.barrier
// CHECK: scf.yield
tile.kernel @invert32(
    %a: memref<?x32x32xf32, strided<[?, 32, 1]>> {tile.name = "a", tile.role = "input", tile.shape = ["B", 32, 32], tile.access = "r"},
    %t_times3: memref<?x32x32xf32, strided<[?, 32, 1]>> {tile.name = "t_times3", tile.role = "output", tile.shape = ["B", 32, 32], tile.access = "w"})
    attributes {threads = 128 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %n = gpu.block_id x
  %m = tile.load %a[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x32x32xf32, strided<[?, 32, 1]>> -> tensor<32x32xf32, #m32>
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%w = %m) -> (tensor<32x32xf32, #m32>) {
    %u = tile.invert_unit_lower %w : tensor<32x32xf32, #m32>
    scf.yield %u : tensor<32x32xf32, #m32>
  }
  tile.store %r, %t_times3[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<32x32xf32, #m32>, memref<?x32x32xf32, strided<[?, 32, 1]>>
  tile.return
}

// Columns side by side in registers; in a loop.

#m64 = #tile.blocked<per_thread = [1, 4], lanes = [8, 4], warps = [4, 1], order = [1, 0], num_warps = 4>

// CHECK-LABEL: llvm.func @invert64
tile.kernel @invert64(
    %a: memref<?x64x64xf32, strided<[?, 64, 1]>> {tile.name = "a", tile.role = "input", tile.shape = ["B", 64, 64], tile.access = "r"},
    %t_times3: memref<?x64x64xf32, strided<[?, 64, 1]>> {tile.name = "t_times3", tile.role = "output", tile.shape = ["B", 64, 64], tile.access = "w"})
    attributes {threads = 128 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %n = gpu.block_id x
  %m = tile.load %a[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x64x64xf32, strided<[?, 64, 1]>> -> tensor<64x64xf32, #m64>
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%w = %m) -> (tensor<64x64xf32, #m64>) {
    %u = tile.invert_unit_lower %w : tensor<64x64xf32, #m64>
    scf.yield %u : tensor<64x64xf32, #m64>
  }
  tile.store %r, %t_times3[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<64x64xf32, #m64>, memref<?x64x64xf32, strided<[?, 64, 1]>>
  tile.return
}

// Six of eight warps hold copies, and neighbours in registers are those of a column; in a loop.

#c64 = #tile.blocked<per_thread = [4, 1], lanes = [16, 2], warps = [1, 2], order = [0, 1], num_warps = 8>

// CHECK-LABEL: llvm.func @invert64_copies
// Copies read what others write: before the next matrix comes a barrier.
// CHECK: scf.for %[[I:.*]] = %[[LOW:.*]] to
// CHECK-NEXT: %[[LATER:.*]] = arith.cmpi ne, %[[I]], %[[LOW]] : i64
// CHECK-NEXT: scf.if %[[LATER]] {
// CHECK-NEXT: nvvm.barrier
// CHECK-NEXT: }
tile.kernel @invert64_copies(
    %a: memref<?x64x64xf32, strided<[?, 64, 1]>> {tile.name = "a", tile.role = "input", tile.shape = ["B", 64, 64], tile.access = "r"},
    %t_times2: memref<?x64x64xf32, strided<[?, 64, 1]>> {tile.name = "t_times2", tile.role = "output", tile.shape = ["B", 64, 64], tile.access = "w"})
    attributes {threads = 256 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = gpu.block_id x
  %m = tile.load %a[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x64x64xf32, strided<[?, 64, 1]>> -> tensor<64x64xf32, #c64>
  %r = scf.for %i = %c0 to %c2 step %c1 iter_args(%w = %m) -> (tensor<64x64xf32, #c64>) {
    %u = tile.invert_unit_lower %w : tensor<64x64xf32, #c64>
    scf.yield %u : tensor<64x64xf32, #c64>
  }
  tile.store %r, %t_times2[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<64x64xf32, #c64>, memref<?x64x64xf32, strided<[?, 64, 1]>>
  tile.return
}

// As a product leaves it.

#f64 = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [4, 2]>

// CHECK-LABEL: llvm.func @invert64_fragment
tile.kernel @invert64_fragment(
    %a: memref<?x64x64xf32, strided<[?, 64, 1]>> {tile.name = "a", tile.role = "input", tile.shape = ["B", 64, 64], tile.access = "r"},
    %t_times2: memref<?x64x64xf32, strided<[?, 64, 1]>> {tile.name = "t_times2", tile.role = "output", tile.shape = ["B", 64, 64], tile.access = "w"})
    attributes {threads = 256 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = gpu.block_id x
  %m = tile.load %a[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x64x64xf32, strided<[?, 64, 1]>> -> tensor<64x64xf32, #f64>
  %r = scf.for %i = %c0 to %c2 step %c1 iter_args(%w = %m) -> (tensor<64x64xf32, #f64>) {
    %u = tile.invert_unit_lower %w : tensor<64x64xf32, #f64>
    scf.yield %u : tensor<64x64xf32, #f64>
  }
  tile.store %r, %t_times2[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<64x64xf32, #f64>, memref<?x64x64xf32, strided<[?, 64, 1]>>
  tile.return
}

// More pieces than threads.

#m128 = #tile.blocked<per_thread = [2, 4], lanes = [4, 8], warps = [4, 1], order = [1, 0], num_warps = 4>

// CHECK-LABEL: llvm.func @invert128
tile.kernel @invert128(
    %a: memref<?x128x128xf32, strided<[?, 128, 1]>> {tile.name = "a", tile.role = "input", tile.shape = ["B", 128, 128], tile.access = "r"},
    %t: memref<?x128x128xf32, strided<[?, 128, 1]>> {tile.name = "t", tile.role = "output", tile.shape = ["B", 128, 128], tile.access = "w"})
    attributes {threads = 128 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %n = gpu.block_id x
  %m = tile.load %a[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x128x128xf32, strided<[?, 128, 1]>> -> tensor<128x128xf32, #m128>
  %r = tile.invert_unit_lower %m : tensor<128x128xf32, #m128>
  tile.store %r, %t[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<128x128xf32, #m128>, memref<?x128x128xf32, strided<[?, 128, 1]>>
  tile.return
}

// Eight warps; in a loop.

#n128 = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [8, 1], order = [1, 0], num_warps = 8>

// CHECK-LABEL: llvm.func @invert128_loop
tile.kernel @invert128_loop(
    %a: memref<?x128x128xf32, strided<[?, 128, 1]>> {tile.name = "a", tile.role = "input", tile.shape = ["B", 128, 128], tile.access = "r"},
    %t_times3: memref<?x128x128xf32, strided<[?, 128, 1]>> {tile.name = "t_times3", tile.role = "output", tile.shape = ["B", 128, 128], tile.access = "w"})
    attributes {threads = 256 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %n = gpu.block_id x
  %m = tile.load %a[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x128x128xf32, strided<[?, 128, 1]>> -> tensor<128x128xf32, #n128>
  %r = scf.for %i = %c0 to %c3 step %c1 iter_args(%w = %m) -> (tensor<128x128xf32, #n128>) {
    %u = tile.invert_unit_lower %w : tensor<128x128xf32, #n128>
    scf.yield %u : tensor<128x128xf32, #n128>
  }
  tile.store %r, %t_times3[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<128x128xf32, #n128>, memref<?x128x128xf32, strided<[?, 128, 1]>>
  tile.return
}

// Three warps, which divide nothing.

#t64 = #tile.blocked<per_thread = [1, 2], lanes = [1, 32], warps = [3, 1], order = [1, 0], num_warps = 3>

// CHECK-LABEL: llvm.func @invert64_three
tile.kernel @invert64_three(
    %a: memref<?x64x64xf32, strided<[?, 64, 1]>> {tile.name = "a", tile.role = "input", tile.shape = ["B", 64, 64], tile.access = "r"},
    %t_times2: memref<?x64x64xf32, strided<[?, 64, 1]>> {tile.name = "t_times2", tile.role = "output", tile.shape = ["B", 64, 64], tile.access = "w"})
    attributes {threads = 96 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %n = gpu.block_id x
  %m = tile.load %a[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x64x64xf32, strided<[?, 64, 1]>> -> tensor<64x64xf32, #t64>
  %r = scf.for %i = %c0 to %c2 step %c1 iter_args(%w = %m) -> (tensor<64x64xf32, #t64>) {
    %u = tile.invert_unit_lower %w : tensor<64x64xf32, #t64>
    scf.yield %u : tensor<64x64xf32, #t64>
  }
  tile.store %r, %t_times2[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<64x64xf32, #t64>, memref<?x64x64xf32, strided<[?, 64, 1]>>
  tile.return
}
