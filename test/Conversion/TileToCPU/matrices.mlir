// RUN: dl-opt %s --convert-tile-to-cpu --cse --split-input-file | FileCheck %s

// Transposed b is read at row k and column n: rows of 16 bytes.

#a = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [1, 1]>
#c = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [1, 1]>

// CHECK-LABEL: llvm.func @transposed(
tile.kernel @transposed(%x: memref<16x16xbf16, strided<[16, 1]>>, %z: memref<16x8xf32, strided<[8, 1]>>) attributes {threads = 32 : i64} {
  // CHECK-DAG:  %[[C16:.+]] = arith.constant 16 : i64
  %c0 = arith.constant 0 : index
  %a = tile.load %x[%c0, %c0] axes [0, 1] : memref<16x16xbf16, strided<[16, 1]>> -> tensor<16x16xbf16, #a>
  %b = tile.alloc : !tile.shared<16x8xbf16, #tile.swizzled<0>>
  %c = arith.constant dense<0.0> : tensor<16x8xf32, #c>
  // CHECK:      scf.for %[[K:.+]] = %{{.+}} to %[[C16]] {{.*}} iter_args(%[[S:.+]] =
  // CHECK:        arith.muli %[[K]], %[[C16]]
  // CHECK:        math.fma %{{.+}}, %{{.+}}, %[[S]]
  %d = tile.mma %a, %b, %c transposed : tensor<16x16xbf16, #a>, !tile.shared<16x8xbf16, #tile.swizzled<0>>, tensor<16x8xf32, #c>
  tile.store %d, %z[%c0, %c0] axes [0, 1] : tensor<16x8xf32, #c>, memref<16x8xf32, strided<[8, 1]>>
  tile.return
}

// -----

// Pairs on and below the diagonal, with both x in one loop over K.

!k = !tile.shared<32x48xf16, #tile.swizzled<32>>
!g = !tile.shared<32x32xf32, #tile.swizzled<0>>

// CHECK-LABEL: llvm.func @gram(
tile.kernel @gram() attributes {threads = 32 : i64} {
  // CHECK-DAG:  %[[C0:.+]] = arith.constant 0 : i64
  // CHECK-DAG:  %[[C1:.+]] = arith.constant 1 : i64
  // CHECK-DAG:  %[[C32:.+]] = arith.constant 32 : i64
  // CHECK-DAG:  %[[C48:.+]] = arith.constant 48 : i64
  // CHECK-DAG:  %[[ZERO:.+]] = arith.constant 0.000000e+00 : f32
  // CHECK:      scf.for %[[I:.+]] = %[[C0]] to %[[C32]]
  // CHECK:        %[[END:.+]] = arith.addi %[[I]], %[[C1]]
  // CHECK:        scf.for %[[J:.+]] = %[[C0]] to %[[END]]
  // CHECK:          %[[SUMS:.+]]:2 = scf.for %{{.+}} = %[[C0]] to %[[C48]] {{.*}} iter_args(%[[S:.+]] = %[[ZERO]], %[[T:.+]] = %[[ZERO]])
  // CHECK:            math.fma %{{.+}}, %[[A:.+]], %[[S]]
  // CHECK:            math.fma %{{.+}}, %[[A]], %[[T]]
  // CHECK:          llvm.store %[[SUMS]]#0
  // CHECK:          llvm.store %[[SUMS]]#1
  %q = tile.alloc : !k
  %k = tile.alloc : !k
  %g = tile.alloc : !g
  %h = tile.alloc : !g
  tile.gram %k, %q with %k into %g, %h : !k, !k with !k into !g, !g
  tile.return
}

// -----

// Four blocks of 8 rows, each with pairs of its later four and its earlier four.

!k = !tile.shared<32x16xbf16, #tile.swizzled<32>>
!g = !tile.shared<32x32xf32, #tile.swizzled<0>>

// CHECK-LABEL: llvm.func @half(
tile.kernel @half() attributes {threads = 32 : i64} {
  // CHECK-DAG:  %[[C4:.+]] = arith.constant 4 : i64
  // CHECK-DAG:  %[[C8:.+]] = arith.constant 8 : i64
  // CHECK:      scf.for %[[BLOCK:.+]] = %{{.+}} to %[[C4]]
  // CHECK:        %[[FIRST:.+]] = arith.muli %[[BLOCK]], %[[C8]]
  // CHECK:        scf.for %[[I:.+]] = %{{.+}} to %[[C4]]
  // CHECK:          %[[LATER:.+]] = arith.addi %[[FIRST]], %[[C4]]
  // CHECK:          arith.addi %[[LATER]], %[[I]]
  // CHECK:          scf.for %[[J:.+]] = %{{.+}} to %[[C4]]
  // CHECK:            arith.addi %[[FIRST]], %[[J]]
  // CHECK:            math.fma
  %k = tile.alloc : !k
  %g = tile.alloc : !g
  tile.gram %k with %k into %g half 4 : !k with !k into !g
  tile.return
}

// -----

// Two bf16 for each factor: three products for each k.

#a = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [1, 1]>
#c = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [1, 1]>

// CHECK-LABEL: llvm.func @hilo(
tile.kernel @hilo(%f: f32) attributes {threads = 32 : i64} {
  // CHECK:         arith.subf
  // CHECK-COUNT-3: math.fma
  // CHECK-NOT:     math.fma
  %a = tile.splat %f : f32 -> tensor<16x16xf32, #a>
  %b = tile.alloc : !tile.shared<8x16xbf16, #tile.swizzled<32>>
  %r = tile.alloc : !tile.shared<8x16xbf16, #tile.swizzled<32>>
  %c = tile.splat %f : f32 -> tensor<16x8xf32, #c>
  %d = tile.mma %a, %b rest %r, %c hilo : tensor<16x16xf32, #a>, !tile.shared<8x16xbf16, #tile.swizzled<32>>
      rest !tile.shared<8x16xbf16, #tile.swizzled<32>>, tensor<16x8xf32, #c>
  tile.return
}
