// Products by mma.sync with b in shared memory. What they compute is seen by tile_mma_test, on kernels of many shapes.

// RUN: dl-opt %s --tile-to-nvvm | FileCheck %s
// RUN: dl-compile %s --target=sm_80 --emit=ptx -o %t
// RUN: FileCheck %s --check-prefix=PTX < %t/rows.sm_80.ptx
// RUN: FileCheck %s --check-prefix=COLUMNS < %t/columns.sm_80.ptx

#a = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [1, 1]>
#c = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [1, 1]>
#a2 = #tile.fragment<"mma.m16n8k16.f16", "a", warps = [1, 2]>
#c2 = #tile.fragment<"mma.m16n8k16.f16", "c", warps = [1, 2]>

// B as N x K: three fragments for each of two steps along K are a pair and one alone, each right before its products. The
// second pair is at another chunk of the same rows, the third fragment 16 rows after the first, which is a constant.

// CHECK-LABEL: llvm.func @rows
// CHECK: %[[B0:.*]] = nvvm.ldmatrix %{{.*}} {eltType = #nvvm.ld_st_matrix_elt_type<b16>, layout = #nvvm.mma_layout<row>, num = 4 : i32
// CHECK: %[[W0:.*]] = llvm.extractvalue %[[B0]][0]
// CHECK: %[[W1:.*]] = llvm.extractvalue %[[B0]][1]
// CHECK: %[[W2:.*]] = llvm.extractvalue %[[B0]][2]
// CHECK: %[[W3:.*]] = llvm.extractvalue %[[B0]][3]
// CHECK: nvvm.mma.sync {{.*}} B[%[[W0]], %[[W1]]]
// CHECK: nvvm.mma.sync {{.*}} B[%[[W2]], %[[W3]]]
// CHECK: nvvm.ldmatrix {{.*}} layout = #nvvm.mma_layout<row>, num = 2 : i32
// CHECK: nvvm.mma.sync
// CHECK: nvvm.ldmatrix {{.*}} num = 4 : i32
// CHECK-COUNT-2: nvvm.mma.sync
// CHECK: nvvm.ldmatrix {{.*}} num = 2 : i32
// CHECK: nvvm.mma.sync
// CHECK-NOT: nvvm.mma.sync

// PTX: ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{.*}}, [[[FIRST:%rd[0-9]+]]];
// PTX: ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{.*}}, [[[FIRST]]+1024];
// PTX: xor.b32 {{.*}}, 32;
// PTX: ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{.*}}, [[[SECOND:%rd[0-9]+]]];
// PTX: ldmatrix.sync.aligned.m8n8.x2.shared.b16 {{.*}}, [[[SECOND]]+1024];
tile.kernel @rows(%x: memref<16x32xbf16, strided<[32, 1]>> {tile.name = "x"}, %z: memref<16x24xf32, strided<[24, 1]>> {tile.name = "z"})
    attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %a = tile.load %x[%c0, %c0] axes [0, 1] : memref<16x32xbf16, strided<[32, 1]>> -> tensor<16x32xbf16, #a>
  %b = tile.alloc : !tile.shared<24x32xbf16, #tile.swizzled<64>>
  %c = tile.splat %zero : f32 -> tensor<16x24xf32, #c>
  %d = tile.mma %a, %b, %c : tensor<16x32xbf16, #a>, !tile.shared<24x32xbf16, #tile.swizzled<64>>, tensor<16x24xf32, #c>
  tile.store %d, %z[%c0, %c0] axes [0, 1] : tensor<16x24xf32, #c>, memref<16x24xf32, strided<[24, 1]>>
  tile.return
}

// B as K x N, for two warps side by side: a warp's fragments are two chunks apart, and rows along K a constant. Words of f16
// are vectors.

// CHECK-LABEL: llvm.func @columns
// CHECK: nvvm.ldmatrix {{.*}} layout = #nvvm.mma_layout<col>, num = 4 : i32
// CHECK: llvm.bitcast %{{.*}} : i32 to vector<2xf16>
// CHECK-COUNT-2: nvvm.mma.sync
// CHECK: nvvm.ldmatrix {{.*}} layout = #nvvm.mma_layout<col>, num = 4 : i32
// CHECK-COUNT-2: nvvm.mma.sync
// CHECK-NOT: nvvm.mma.sync

// COLUMNS: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {{.*}}, [[[FIRST:%rd[0-9]+]]];
// COLUMNS: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {{.*}}, [[[FIRST]]+1024];
tile.kernel @columns(%x: memref<16x32xf16, strided<[32, 1]>> {tile.name = "x"}, %z: memref<16x32xf32, strided<[32, 1]>> {tile.name = "z"})
    attributes {threads = 64 : i64} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %a = tile.load %x[%c0, %c0] axes [0, 1] : memref<16x32xf16, strided<[32, 1]>> -> tensor<16x32xf16, #a2>
  %b = tile.alloc : !tile.shared<32x32xf16, #tile.swizzled<64>>
  %c = tile.splat %zero : f32 -> tensor<16x32xf32, #c2>
  %d = tile.mma %a, %b, %c transposed : tensor<16x32xf16, #a2>, !tile.shared<32x32xf16, #tile.swizzled<64>>, tensor<16x32xf32, #c2>
  tile.store %d, %z[%c0, %c0] axes [0, 1] : tensor<16x32xf32, #c2>, memref<16x32xf32, strided<[32, 1]>>
  tile.return
}

// Of two bf16 for each factor: hi hi, lo hi on the same fragments of b, then hi lo.

// CHECK-LABEL: llvm.func @hilo
// CHECK: %[[B:.*]] = nvvm.ldmatrix {{.*}} num = 2 : i32
// CHECK: %[[W:.*]] = llvm.extractvalue %[[B]][0]
// CHECK: nvvm.mma.sync A[%[[H:.*]], %{{.*}}, %{{.*}}, %{{.*}}] B[%[[W]], %{{.*}}]
// CHECK: nvvm.mma.sync A[%[[L:.*]], %{{.*}}, %{{.*}}, %{{.*}}] B[%[[W]], %{{.*}}]
// CHECK: %[[R:.*]] = nvvm.ldmatrix {{.*}} num = 2 : i32
// CHECK: %[[V:.*]] = llvm.extractvalue %[[R]][0]
// CHECK: nvvm.mma.sync A[%[[H]], %{{.*}}, %{{.*}}, %{{.*}}] B[%[[V]], %{{.*}}]
// CHECK-NOT: nvvm.mma.sync
tile.kernel @hilo(%x: memref<16x16xf32, strided<[16, 1]>> {tile.name = "x"}, %z: memref<16x8xf32, strided<[8, 1]>> {tile.name = "z"})
    attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %a = tile.load %x[%c0, %c0] axes [0, 1] : memref<16x16xf32, strided<[16, 1]>> -> tensor<16x16xf32, #a>
  %b = tile.alloc : !tile.shared<8x16xbf16, #tile.swizzled<32>>
  %r = tile.alloc : !tile.shared<8x16xbf16, #tile.swizzled<32>>
  %c = tile.splat %zero : f32 -> tensor<16x8xf32, #c>
  %d = tile.mma %a, %b rest %r, %c hilo : tensor<16x16xf32, #a>, !tile.shared<8x16xbf16, #tile.swizzled<32>>
      rest !tile.shared<8x16xbf16, #tile.swizzled<32>>, tensor<16x8xf32, #c>
  tile.store %d, %z[%c0, %c0] axes [0, 1] : tensor<16x8xf32, #c>, memref<16x8xf32, strided<[8, 1]>>
  tile.return
}
