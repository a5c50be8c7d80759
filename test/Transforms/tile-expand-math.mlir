// RUN: dl-opt %s --pass-pipeline="builtin.module(tile.kernel(tile-expand-math))" | FileCheck %s

// Exponentials are base 2; log, log1p and tanh become arithmetic. What every target has stays.

#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 1>
!t = tensor<128xf32, #row>
!m = memref<128xf32, strided<[1]>>

// CHECK-LABEL: tile.kernel @exp(
// CHECK-SAME:  %[[X:.+]]: f32,
// CHECK-DAG:   %[[LOG2E:.+]] = arith.constant 1.44269502 : f32
// CHECK:       %[[T:.+]] = arith.mulf %[[X]], %[[LOG2E]] : f32
// CHECK:       %[[E:.+]] = math.exp2 %[[T]] : f32
// CHECK:       memref.store %[[E]]
tile.kernel @exp(%x: f32, %out: memref<f32, strided<[]>>) attributes {threads = 32 : i64} {
  %e = math.exp %x : f32
  memref.store %e, %out[] : memref<f32, strided<[]>>
  tile.return
}

// On a tensor the same, with constants of its layout.
// CHECK-LABEL: tile.kernel @tensor(
// CHECK-DAG:   %[[LOG2E:.+]] = arith.constant dense<1.44269502> : tensor<128xf32, #
// CHECK:       %[[V:.+]] = tile.load
// CHECK:       %[[T:.+]] = arith.mulf %[[V]], %[[LOG2E]]
// CHECK:       math.exp2 %[[T]] : tensor<128xf32, #
tile.kernel @tensor(%x: !m, %y: !m) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %v = tile.load %x[%c0] axes [0] : !m -> !t
  %e = math.exp %v : !t
  tile.store %e, %y[%c0] axes [0] : !t, !m
  tile.return
}

// The exponent by shifting, a polynomial in Horner form, and the ends: log inf = inf, log 0 = -inf, log x = NaN for x < 0
// and NaN for NaN (an unordered comparison lets NaN through).
// CHECK-LABEL: tile.kernel @log(
// CHECK-SAME:  %[[X:.+]]: f32,
// CHECK-DAG:   %[[INF:.+]] = arith.constant 0x7F800000 : f32
// CHECK-DAG:   %[[NINF:.+]] = arith.constant 0xFF800000 : f32
// CHECK-DAG:   %[[NAN:.+]] = arith.constant 0x7FC00000 : f32
// CHECK-DAG:   %[[ZERO:.+]] = arith.constant 0.000000e+00 : f32
// CHECK-DAG:   %[[SQRTHALF:.+]] = arith.constant 1060439283 : i32
// CHECK:       %[[BITS:.+]] = arith.bitcast %[[X]] : f32 to i32
// CHECK:       %[[SHIFTED:.+]] = arith.subi %[[BITS]], %[[SQRTHALF]]
// CHECK:       %[[EXPONENT:.+]] = arith.shrsi %[[SHIFTED]],
// CHECK:       arith.sitofp %[[EXPONENT]]
// CHECK-COUNT-8: math.fma
// CHECK:       %[[ATINF:.+]] = arith.cmpf oeq, %[[X]], %[[INF]]
// CHECK:       %[[R1:.+]] = arith.select %[[ATINF]], %[[INF]],
// CHECK:       %[[ATZERO:.+]] = arith.cmpf oeq, %[[X]], %[[ZERO]]
// CHECK:       %[[R2:.+]] = arith.select %[[ATZERO]], %[[NINF]], %[[R1]]
// CHECK:       %[[LEGAL:.+]] = arith.cmpf uge, %[[X]], %[[ZERO]]
// CHECK:       %[[R3:.+]] = arith.select %[[LEGAL]], %[[R2]], %[[NAN]]
// CHECK:       memref.store %[[R3]]
tile.kernel @log(%x: f32, %out: memref<f32, strided<[]>>) attributes {threads = 32 : i64} {
  %l = math.log %x : f32
  memref.store %l, %out[] : memref<f32, strided<[]>>
  tile.return
}

// What 1 + x loses is added back: (x - ((1 + x) - 1)) / (1 + x).
// CHECK-LABEL: tile.kernel @log1p(
// CHECK-SAME:  %[[X:.+]]: f32,
// CHECK-DAG:   %[[ONE:.+]] = arith.constant 1.000000e+00 : f32
// CHECK:       %[[U:.+]] = arith.addf %[[X]], %[[ONE]]
// CHECK:       %[[BACK:.+]] = arith.subf %[[U]], %[[ONE]]
// CHECK:       %[[LOST:.+]] = arith.subf %[[X]], %[[BACK]]
// CHECK:       %[[SMALL:.+]] = arith.divf %[[LOST]], %[[U]]
// CHECK:       %[[SUM:.+]] = arith.addf %{{.+}}, %[[SMALL]]
// CHECK:       %[[ATINF:.+]] = arith.cmpf oeq, %[[X]],
// CHECK:       %[[RESULT:.+]] = arith.select %[[ATINF]], %{{.+}}, %[[SUM]]
// CHECK:       memref.store %[[RESULT]]
tile.kernel @log1p(%x: f32, %out: memref<f32, strided<[]>>) attributes {threads = 32 : i64} {
  %l = math.log1p %x : f32
  memref.store %l, %out[] : memref<f32, strided<[]>>
  tile.return
}

// 1 - 2 / (e^2x + 1), which is right where e^2x overflows and where it vanishes.
// CHECK-LABEL: tile.kernel @tanh(
// CHECK:       %[[E:.+]] = math.exp2
// CHECK:       %[[D:.+]] = arith.addf %[[E]],
// CHECK:       %[[F:.+]] = arith.divf %{{.+}}, %[[D]]
// CHECK:       arith.subf %{{.+}}, %[[F]]
tile.kernel @tanh(%x: f32, %out: memref<f32, strided<[]>>) attributes {threads = 32 : i64} {
  %l = math.tanh %x : f32
  memref.store %l, %out[] : memref<f32, strided<[]>>
  tile.return
}

// CHECK-LABEL: tile.kernel @kept(
// CHECK-SAME:  %[[X:.+]]: f32,
// CHECK-NEXT:  %[[A:.+]] = math.exp2 %[[X]]
// CHECK-NEXT:  %[[B:.+]] = math.sqrt %[[A]]
// CHECK-NEXT:  %[[C:.+]] = math.rsqrt %[[B]]
// CHECK-NEXT:  %[[D:.+]] = math.absf %[[C]]
// CHECK-NEXT:  %[[E:.+]] = math.fma %[[D]], %[[D]], %[[D]]
// CHECK-NEXT:  memref.store %[[E]]
tile.kernel @kept(%x: f32, %out: memref<f32, strided<[]>>) attributes {threads = 32 : i64} {
  %a = math.exp2 %x : f32
  %b = math.sqrt %a : f32
  %c = math.rsqrt %b : f32
  %d = math.absf %c : f32
  %e = math.fma %d, %d, %d : f32
  memref.store %e, %out[] : memref<f32, strided<[]>>
  tile.return
}
