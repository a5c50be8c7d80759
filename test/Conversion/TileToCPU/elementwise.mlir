// RUN: dl-opt %s --convert-tile-to-cpu --cse --split-input-file | FileCheck %s

// A run of ops is one loop; only what is used later is stored. Splats never are.

#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 1>
!t = tensor<128xf32, #row>
!m = memref<128xf32, strided<[1]>>

// CHECK-LABEL: llvm.func @run(
tile.kernel @run(%x: !m, %f: f32) attributes {threads = 32 : i64} {
  // CHECK-DAG:  %[[TWO:.+]] = arith.constant 2.000000e+00 : f32
  // CHECK-DAG:  %[[C128:.+]] = arith.constant 128 : i64
  // CHECK:      %[[F:.+]] = llvm.load %{{.+}} -> f32
  %c0 = arith.constant 0 : index
  %v = tile.load %x[%c0] axes [0] : !m -> !t
  // CHECK:      scf.for %{{.+}} to %[[C128]]
  // CHECK-NOT:  scf.for
  // CHECK:        %[[V:.+]] = llvm.load
  // CHECK:        %[[A:.+]] = arith.mulf %[[V]], %[[TWO]]
  // CHECK-NEXT:   %[[B:.+]] = math.exp2 %[[A]]
  // CHECK-NEXT:   %[[L:.+]] = arith.cmpf olt, %[[B]], %[[V]]
  // CHECK-NEXT:   %[[S:.+]] = arith.select %[[L]], %[[B]], %[[F]]
  // CHECK:        llvm.store %[[S]]
  // CHECK-NOT:    llvm.store
  // CHECK:      }
  %two = arith.constant dense<2.0> : !t
  %a = arith.mulf %v, %two : !t
  %b = math.exp2 %a : !t
  %s = tile.splat %f : f32 -> !t
  %g = arith.addf %f, %f : f32
  %l = arith.cmpf olt, %b, %v : !t
  %y = arith.select %l, %b, %s : tensor<128xi1, #row>, !t
  tile.store %y, %x[%c0] axes [0] : !t, !m
  tile.return
}

// -----

// An expand reads the vector in the matrix' loop; the vector's own ops come in a loop before.

#m = #tile.blocked<per_thread = [1, 4], lanes = [4, 8], warps = [1, 1], order = [1, 0], num_warps = 1>
#v = #tile.slice<0, #m>

// CHECK-LABEL: llvm.func @expand(
tile.kernel @expand(%x: memref<16x32xf32, strided<[32, 1]>>, %y: memref<32xf32, strided<[1]>>) attributes {threads = 32 : i64} {
  // CHECK-DAG:  %[[C4:.+]] = arith.constant 4 : i64
  // CHECK-DAG:  %[[C16:.+]] = arith.constant 16 : i64
  // CHECK-DAG:  %[[C32:.+]] = arith.constant 32 : i64
  // CHECK-DAG:  %[[C128:.+]] = arith.constant 128 : i64
  %c0 = arith.constant 0 : index
  %a = tile.load %x[%c0, %c0] axes [0, 1] : memref<16x32xf32, strided<[32, 1]>> -> tensor<16x32xf32, #m>
  %b = tile.load %y[%c0] axes [0] : memref<32xf32, strided<[1]>> -> tensor<32xf32, #v>
  // CHECK:      scf.for %{{.+}} = %{{.+}} to %[[C128]]
  // CHECK:        %[[SUM:.+]] = arith.addf
  // CHECK:        llvm.store %[[SUM]]
  // CHECK:      scf.for %[[T:[^ ]+]] = %{{.+}} to %[[C32]]
  // CHECK-NEXT:   scf.for %[[R:[^ ]+]] = %{{.+}} to %[[C16]]
  // CHECK:          %[[R4:.+]] = arith.remui %[[R]], %[[C4]]
  // CHECK:          %[[T4:.+]] = arith.muli %[[T]], %[[C4]]
  // CHECK:          %[[AT:.+]] = arith.addi %[[T4]], %[[R4]]
  // CHECK:          %[[PLACE:.+]] = llvm.getelementptr %{{.+}}[%[[AT]]]
  // CHECK:          %[[E:.+]] = llvm.load %[[PLACE]]
  // CHECK:          arith.mulf %{{.+}}, %[[E]]
  %d = arith.addf %b, %b : tensor<32xf32, #v>
  %e = tile.expand %d axis 0 : tensor<32xf32, #v> -> tensor<16x32xf32, #m>
  %f = arith.mulf %a, %e : tensor<16x32xf32, #m>
  tile.store %f, %x[%c0, %c0] axes [0, 1] : tensor<16x32xf32, #m>, memref<16x32xf32, strided<[32, 1]>>
  tile.return
}

// -----

// bf16 is 16 bits wherever it is held: widened by a shift, rounded to nearest even, NaN stays NaN.

#row = #tile.blocked<per_thread = [1], lanes = [32], warps = [1], order = [0], num_warps = 1>
!m = memref<32xbf16, strided<[1]>>

// CHECK-LABEL: llvm.func @narrow(
// CHECK-NOT:     bf16
tile.kernel @narrow(%x: !m) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %v = tile.load %x[%c0] axes [0] : !m -> tensor<32xbf16, #row>
  // CHECK:      %[[BITS:.+]] = llvm.load %{{.+}} -> i16
  // CHECK:      %[[WIDE:.+]] = arith.extui %{{.+}} : i16 to i32
  // CHECK-NEXT: %[[HIGH:.+]] = arith.shli %[[WIDE]]
  // CHECK-NEXT: %[[F:.+]] = arith.bitcast %[[HIGH]] : i32 to f32
  // CHECK-NEXT: %[[G:.+]] = arith.mulf %[[F]], %[[F]]
  // CHECK-NEXT: %[[B:.+]] = arith.bitcast %[[G]] : f32 to i32
  // CHECK:      %[[NAN:.+]] = arith.cmpi ugt
  // CHECK:      %[[ROUNDED:.+]] = arith.select %[[NAN]]
  // CHECK-NEXT: arith.trunci %[[ROUNDED]] : i32 to i16
  %w = arith.extf %v : tensor<32xbf16, #row> to tensor<32xf32, #row>
  %y = arith.mulf %w, %w : tensor<32xf32, #row>
  %n = arith.truncf %y : tensor<32xf32, #row> to tensor<32xbf16, #row>
  tile.store %n, %x[%c0] axes [0] : tensor<32xbf16, #row>, !m
  tile.return
}
