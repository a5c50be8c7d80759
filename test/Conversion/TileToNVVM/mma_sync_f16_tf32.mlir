// The other two element types of mma.sync; tile_mma_test runs these kernels (see mma_sync_bf16.mlir for the names).

// RUN: dl-opt %s --tile-to-nvvm | FileCheck %s
// RUN: dl-compile %s --target=sm_80,sm_90a --emit=ptx -o %t
// RUN: FileCheck %s --check-prefix=PTX16 < %t/half.sm_80.ptx
// RUN: FileCheck %s --check-prefix=PTX32 < %t/single.sm_80.ptx

// PTX16: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
// PTX32: cvt.rna.tf32.f32
// PTX32-COUNT-6: mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32

// 13 of 16 along M and K, 5 of 8 along N, straight from memory.

#ha = #tile.fragment<"mma.m16n8k16.f16", "a", warps = [1, 1]>
#hb = #tile.fragment<"mma.m16n8k16.f16", "b", warps = [1, 1]>
#hc = #tile.fragment<"mma.m16n8k16.f16", "c", warps = [1, 1]>

// CHECK-LABEL: llvm.func @half
// Rows of 13 elements are not aligned to pairs.
// CHECK-NOT: -> vector<2xf16>
// CHECK: nvvm.mma.sync
// CHECK-SAME: : (vector<2xf16>, vector<2xf16>, f32) -> !llvm.struct<(f32, f32, f32, f32)>
// CHECK-NOT: nvvm.mma.sync
tile.kernel @half(
    %a: memref<?x13x13xf16, strided<[?, 13, 1]>> {tile.name = "a", tile.role = "input", tile.shape = ["B", 13, 13], tile.access = "r"},
    %b: memref<?x5x13xf16, strided<[?, 13, 1]>> {tile.name = "b_t", tile.role = "input", tile.shape = ["B", 5, 13], tile.access = "r"},
    %d: memref<?x13x5xf32, strided<[?, 5, 1]>> {tile.name = "d", tile.role = "output", tile.shape = ["B", 13, 5], tile.access = "w"})
    attributes {threads = 32 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = gpu.block_id x
  %fa = tile.load %a[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x13x13xf16, strided<[?, 13, 1]>> -> tensor<13x13xf16, #ha>
  %fb = tile.load %b[%n, %c0, %c0] axes [2, 1] in_bounds [true, true] : memref<?x5x13xf16, strided<[?, 13, 1]>> -> tensor<13x5xf16, #hb>
  %fc = tile.splat %zero : f32 -> tensor<13x5xf32, #hc>
  %fd = tile.mma %fa, %fb, %fc : tensor<13x13xf16, #ha>, tensor<13x5xf16, #hb>, tensor<13x5xf32, #hc>
  tile.store %fd, %d[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<13x5xf32, #hc>, memref<?x13x5xf32, strided<[?, 5, 1]>>
  tile.return
}

// Six warps, 3 x 2, over 40 x 24; K = 21 in steps of 8; factors are rounded to tf32.

#ta = #tile.fragment<"mma.m16n8k8.tf32", "a", warps = [3, 2]>
#tb = #tile.fragment<"mma.m16n8k8.tf32", "b", warps = [3, 2]>
#tc = #tile.fragment<"mma.m16n8k8.tf32", "c", warps = [3, 2]>

// CHECK-LABEL: llvm.func @single
// CHECK-SAME: nvvm.reqntid = array<i32: 192>
// Columns 20 + lane % 4 of A: only the first lies before 21.
// CHECK: %[[KEPT:.*]] = llvm.select {{.*}} : i1, f32
// CHECK: nvvm.convert.float.to.tf32 %{{.*}} {rnd = #nvvm.fp_rnd_mode<rna>}
// CHECK-COUNT-6: nvvm.mma.sync {{.*}} multiplicandAPtxType = #nvvm.mma_type<tf32>, multiplicandBPtxType = #nvvm.mma_type<tf32>, shape = #nvvm.shape<m = 16, n = 8, k = 8>
// CHECK-NOT: nvvm.mma.sync
tile.kernel @single(
    %a: memref<?x21x40xf32, strided<[?, 40, 1]>> {tile.name = "a_t", tile.role = "input", tile.shape = ["B", 21, 40], tile.access = "r"},
    %b: memref<?x21x24xf32, strided<[?, 24, 1]>> {tile.name = "b", tile.role = "input", tile.shape = ["B", 21, 24], tile.access = "r"},
    %c: memref<?x40x24xf32, strided<[?, 24, 1]>> {tile.name = "c", tile.role = "input", tile.shape = ["B", 40, 24], tile.access = "r"},
    %d: memref<?x40x24xf32, strided<[?, 24, 1]>> {tile.name = "d", tile.role = "output", tile.shape = ["B", 40, 24], tile.access = "w"})
    attributes {threads = 192 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %n = gpu.block_id x
  %fa = tile.load %a[%n, %c0, %c0] axes [2, 1] in_bounds [true, true] : memref<?x21x40xf32, strided<[?, 40, 1]>> -> tensor<40x21xf32, #ta>
  %fb = tile.load %b[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x21x24xf32, strided<[?, 24, 1]>> -> tensor<21x24xf32, #tb>
  %fc = tile.load %c[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x40x24xf32, strided<[?, 24, 1]>> -> tensor<40x24xf32, #tc>
  %fd = tile.mma %fa, %fb, %fc : tensor<40x21xf32, #ta>, tensor<21x24xf32, #tb>, tensor<40x24xf32, #tc>
  tile.store %fd, %d[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<40x24xf32, #tc>, memref<?x40x24xf32, strided<[?, 24, 1]>>
  tile.return
}
