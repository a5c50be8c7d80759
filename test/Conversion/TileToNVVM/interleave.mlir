// Rows of tensors in turn, one tensor back, and loads that repeat elements. No data moves from thread to thread.

// RUN: dl-opt %s --convert-tile-to-nvvm --cse | FileCheck %s

#rows = #tile.blocked<per_thread = [2, 1], lanes = [1, 32], warps = [4, 1], order = [1, 0], num_warps = 4>
#double = #tile.blocked<per_thread = [4, 1], lanes = [1, 32], warps = [4, 1], order = [1, 0], num_warps = 4>
#c = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [4, 1]>
!x = memref<8x32xf32, strided<[32, 1]>>
!y = memref<16x32xf32, strided<[32, 1]>>

// Row 1 of the second tensor is row 3, the thread's last; what is picked is what was there.
// CHECK-LABEL: llvm.func @turns
// CHECK-SAME:  dl.shared_bytes = 0
// CHECK-NOT:   nvvm.shfl
// CHECK-NOT:   nvvm.barrier
// CHECK:       %[[A0:.+]] = llvm.load {{.*}} : !llvm.ptr<1> -> f32
// CHECK:       %[[A1:.+]] = llvm.load {{.*}} : !llvm.ptr<1> -> f32
// CHECK:       %[[B0:.+]] = llvm.load {{.*}} : !llvm.ptr<1> -> f32
// CHECK:       %[[B1:.+]] = llvm.load {{.*}} : !llvm.ptr<1> -> f32
// CHECK-NOT:   llvm.store
// CHECK:       llvm.store %[[A0]],
// CHECK:       llvm.store %[[B0]],
// CHECK:       llvm.store %[[A1]],
// CHECK:       llvm.store %[[B1]],
// CHECK:       llvm.store %[[B0]],
// CHECK:       llvm.store %[[B1]],
// CHECK-NOT:   llvm.store
tile.kernel @turns(%a: !x, %b: !x, %y: !y, %z: !x) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %u = tile.load %a[%c0, %c0] axes [0, 1] in_bounds [true, true] : !x -> tensor<8x32xf32, #rows>
  %v = tile.load %b[%c0, %c0] axes [0, 1] in_bounds [true, true] : !x -> tensor<8x32xf32, #rows>
  %w = tile.interleave %u, %v : tensor<8x32xf32, #rows>, tensor<8x32xf32, #rows> -> tensor<16x32xf32, #double>
  tile.store %w, %y[%c0, %c0] axes [0, 1] in_bounds [true, true] : tensor<16x32xf32, #double>, !y
  %p = tile.pick 1 of %w : tensor<16x32xf32, #double> -> tensor<8x32xf32, #rows>
  tile.store %p, %z[%c0, %c0] axes [0, 1] in_bounds [true, true] : tensor<8x32xf32, #rows>, !x
  tile.return
}

// A thread's place and the count are those of memory: two columns, which are one token, are loaded from one address.
// CHECK-LABEL: llvm.func @repeated
// CHECK-SAME:  dl.shared_bytes = 0
// CHECK:       %[[BASE:.+]] = arith.divui %{{.+}}, %c2_i32 : i32
// CHECK:       %[[P:.+]] = llvm.getelementptr inbounds %{{.+}}[%{{.+}}] : (!llvm.ptr<1>, i64)
// CHECK:       %[[PLACE:.+]] = arith.addi %[[BASE]], %{{.+}} : i32
// CHECK:       %[[MASK:.+]] = arith.cmpi slt, %[[PLACE]], %{{.+}} : i32
// CHECK:       %[[IS:.+]] = arith.extui %[[MASK]]
// CHECK:       llvm.inline_asm {{.*}} %{{.+}}, %[[IS]], %[[P]] :
// CHECK:       llvm.inline_asm {{.*}} %{{.+}}, %[[IS]], %[[P]] :
tile.kernel @repeated(%x: memref<?x64xf32, strided<[64, 1]>>, %n: i32, %y: memref<64x8xf32, strided<[8, 1]>>) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %t = tile.load %x[%c0, %c0] axes [1, 0] repeats [1, 2] in_bounds [true, false] count %n : memref<?x64xf32, strided<[64, 1]>> -> tensor<64x8xf32, #c>
  tile.store %t, %y[%c0, %c0] axes [0, 1] in_bounds [true, true] : tensor<64x8xf32, #c>, memref<64x8xf32, strided<[8, 1]>>
  tile.return
}
