// Products of the rows of shared buffers. What they compute is seen by tile_gram_test, on kernels of many shapes.

// RUN: dl-opt %s --tile-to-nvvm | FileCheck %s

!k = !tile.shared<32x32xbf16, #tile.swizzled<64>>
!h = !tile.shared<32x32xf16, #tile.swizzled<64>>
!g = !tile.shared<32x32xf32, #tile.swizzled<128>>

// Three blocks for two warps: two rounds, the second one for the first warp alone. For each of two steps along K: four
// matrices of a, four of x and two products.

// CHECK-LABEL: llvm.func @triangle
// CHECK: llvm.icmp "ult"
// CHECK: llvm.cond_br
// CHECK: %[[B:.*]] = nvvm.ldmatrix {{.*}} layout = #nvvm.mma_layout<row>, num = 4 : i32
// CHECK: %[[B0:.*]] = llvm.extractvalue %[[B]][0]
// CHECK: %[[B1:.*]] = llvm.extractvalue %[[B]][1]
// CHECK: %[[B2:.*]] = llvm.extractvalue %[[B]][2]
// CHECK: %[[B3:.*]] = llvm.extractvalue %[[B]][3]
// CHECK: %[[A:.*]] = nvvm.ldmatrix {{.*}} layout = #nvvm.mma_layout<row>, num = 4 : i32
// CHECK: %[[A0:.*]] = llvm.extractvalue %[[A]][0]
// CHECK: nvvm.mma.sync A[%[[A0]], {{.*}} B[%[[B0]], %[[B1]]]
// CHECK: nvvm.mma.sync A[%[[A0]], {{.*}} B[%[[B2]], %[[B3]]]
// CHECK-COUNT-2: nvvm.ldmatrix
// CHECK-COUNT-2: nvvm.mma.sync
// CHECK-NOT: nvvm.mma.sync
// CHECK-COUNT-4: llvm.store {{.*}} {alignment = 8 : i64} : vector<2xf32>, !llvm.ptr<3>
// CHECK-NOT: llvm.store
// CHECK-NOT: nvvm.barrier
tile.kernel @triangle() attributes {threads = 64 : i64} {
  %k = tile.alloc : !k
  %g = tile.alloc : !g
  tile.gram %k with %k into %g : !k with !k into !g
  tile.return
}

// One block between the halves, and both x with the same fragments of a.

// CHECK-LABEL: llvm.func @halves
// CHECK: llvm.icmp "ult"
// CHECK: nvvm.ldmatrix
// CHECK: nvvm.ldmatrix
// CHECK-COUNT-2: nvvm.mma.sync
// CHECK: nvvm.ldmatrix
// CHECK-COUNT-2: nvvm.mma.sync
// CHECK-COUNT-3: nvvm.ldmatrix
// CHECK-NOT: nvvm.ldmatrix
// CHECK-COUNT-8: llvm.store {{.*}} : vector<2xf32>, !llvm.ptr<3>
// CHECK-NOT: llvm.store
tile.kernel @halves() attributes {threads = 64 : i64} {
  %q = tile.alloc : !h
  %k = tile.alloc : !h
  %g = tile.alloc : !g
  %h = tile.alloc : !g
  tile.gram %k, %q with %k into %g, %h half 16 : !h, !h with !h into !g, !g
  tile.return
}

// Of two blocks on the diagonal, the lower left quarters: no second fragment of a, and one store for each thread.

// CHECK-LABEL: llvm.func @quarters
// CHECK-NOT: llvm.cond_br
// CHECK: nvvm.ldmatrix {{.*}} num = 2 : i32
// CHECK: nvvm.ldmatrix {{.*}} num = 4 : i32
// CHECK: nvvm.mma.sync
// CHECK: nvvm.ldmatrix {{.*}} num = 2 : i32
// CHECK: nvvm.ldmatrix {{.*}} num = 4 : i32
// CHECK: nvvm.mma.sync
// CHECK-NOT: nvvm.mma.sync
// CHECK: llvm.store {{.*}} : vector<2xf32>, !llvm.ptr<3>
// CHECK-NOT: llvm.store
tile.kernel @quarters() attributes {threads = 64 : i64} {
  %k = tile.alloc : !k
  %g = tile.alloc : !g
  tile.gram %k with %k into %g half 8 : !k with !k into !g
  tile.return
}

// Neighbours, in the two quarters on the diagonal: some threads have one, the left of two columns.

// CHECK-LABEL: llvm.func @neighbours
// CHECK-COUNT-4: nvvm.mma.sync
// CHECK: %[[CHANGE:.*]] = llvm.xor
// CHECK: llvm.icmp "eq"
// CHECK: llvm.icmp "ne"
// CHECK: llvm.cond_br
// CHECK-COUNT-2: llvm.store {{.*}} : f32, !llvm.ptr<3>
// CHECK-NOT: llvm.store
tile.kernel @neighbours() attributes {threads = 64 : i64} {
  %k = tile.alloc : !k
  %g = tile.alloc : !g
  tile.gram %k with %k into %g half 1 : !k with !k into !g
  tile.return
}
