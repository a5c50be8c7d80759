// RUN: dl-opt %s --convert-tile-to-cpu --cse --split-input-file | FileCheck %s

// Runs that threads hold whole: one loop over each thread's rows, here from the last on; an element leaves itself out.

#m = #tile.blocked<per_thread = [4, 1], lanes = [1, 32], warps = [2, 1], order = [1, 0], num_warps = 2>

// CHECK-LABEL: llvm.func @within(
// CHECK-SAME: dl.scratch_bytes = 2048
tile.kernel @within(%x: memref<8x32xf32, strided<[32, 1]>>) attributes {threads = 64 : i64} {
  // CHECK-DAG:  %[[C3:.+]] = arith.constant 3 : i64
  // CHECK-DAG:  %[[C4:.+]] = arith.constant 4 : i64
  // CHECK-DAG:  %[[C64:.+]] = arith.constant 64 : i64
  // CHECK-DAG:  %[[ZERO:.+]] = arith.constant 0.000000e+00 : f32
  // CHECK:      scf.for %[[T:[^ ]+]] = %{{.+}} to %[[C64]]
  // CHECK:        scf.for
  // CHECK:      scf.for %[[T:[^ ]+]] = %{{.+}} to %[[C64]]
  // CHECK:        scf.for %[[I:[^ ]+]] = %{{.+}} to %[[C4]] {{.*}} iter_args(%[[BEFORE:.+]] = %[[ZERO]]) -> (f32)
  // CHECK:          %[[REG:.+]] = arith.subi %[[C3]], %[[I]]
  // CHECK:          %[[PLACE:.+]] = arith.addi %{{.+}}, %[[REG]]
  // CHECK:          %[[X:.+]] = llvm.load
  // CHECK:          %[[SUM:.+]] = arith.addf %[[BEFORE]], %[[X]]
  // CHECK:          llvm.store %[[BEFORE]]
  // CHECK-NEXT:     scf.yield %[[SUM]]
  %c0 = arith.constant 0 : index
  %v = tile.load %x[%c0, %c0] axes [0, 1] : memref<8x32xf32, strided<[32, 1]>> -> tensor<8x32xf32, #m>
  %s = tile.scan %v axis 0 run 4 reverse exclusive : tensor<8x32xf32, #m>
  tile.store %s, %x[%c0, %c0] axes [0, 1] : tensor<8x32xf32, #m>, memref<8x32xf32, strided<[32, 1]>>
  tile.return
}

// -----

// Runs of two threads: sums are kept twice, for totals are read while results change. What every element equals is no array.

#m = #tile.blocked<per_thread = [4, 1], lanes = [1, 32], warps = [2, 1], order = [1, 0], num_warps = 2>

// CHECK-LABEL: llvm.func @across(
// CHECK-SAME: dl.scratch_bytes = 2048
tile.kernel @across(%x: memref<8x32xf32, strided<[32, 1]>>) attributes {threads = 64 : i64} {
  // CHECK-DAG:  %[[C2:.+]] = arith.constant 2 : i64
  // CHECK-DAG:  %[[C3:.+]] = arith.constant 3 : i64
  // CHECK-DAG:  %[[C4:.+]] = arith.constant 4 : i64
  // CHECK-DAG:  %[[C8:.+]] = arith.constant 8 : i64
  // CHECK-DAG:  %[[ZERO:.+]] = arith.constant 0.000000e+00 : f32
  // CHECK-DAG:  %[[ONE:.+]] = arith.constant 1.000000e+00 : f32
  // CHECK:      iter_args(%[[BEFORE:.+]] = %[[ZERO]])
  // CHECK:        %[[SUM:.+]] = arith.addf %[[BEFORE]], %[[ONE]]
  // CHECK-COUNT-2: llvm.store %[[SUM]]
  // CHECK-NEXT:   scf.yield %[[SUM]]
  // CHECK:      %[[INSIDE:.+]] = arith.remui %[[AT:.+]], %[[C8]]
  // CHECK:      %[[OWN:.+]] = arith.divui %[[INSIDE]], %[[C4]]
  // CHECK:      %[[START:.+]] = arith.subi %[[AT]], %[[INSIDE]]
  // CHECK:      %[[LAST:.+]] = arith.addi %[[START]], %[[C3]]
  // CHECK:      %[[OTHERS:.+]] = scf.for %[[PIECE:.+]] = %{{.+}} to %[[C2]] {{.*}} iter_args(%[[BEFORE:.+]] = %[[ZERO]])
  // CHECK:        %[[TOTAL:.+]] = llvm.load
  // CHECK:        %[[COUNTS:.+]] = arith.cmpi ult, %[[PIECE]], %[[OWN]]
  // CHECK:        %[[TERM:.+]] = arith.select %[[COUNTS]], %[[TOTAL]], %[[ZERO]]
  // CHECK:        arith.addf %[[BEFORE]], %[[TERM]]
  // CHECK:      %[[MINE:.+]] = llvm.load
  // CHECK:      arith.addf %[[MINE]], %[[OTHERS]]
  %c0 = arith.constant 0 : index
  %v = arith.constant dense<1.0> : tensor<8x32xf32, #m>
  %s = tile.scan %v axis 0 run 8 : tensor<8x32xf32, #m>
  tile.store %s, %x[%c0, %c0] axes [0, 1] : tensor<8x32xf32, #m>, memref<8x32xf32, strided<[32, 1]>>
  tile.return
}

// -----

// Row by row into a plain matrix; only elements below the diagonal are read.

#m = #tile.blocked<per_thread = [1, 4], lanes = [8, 4], warps = [1, 1], order = [1, 0], num_warps = 1>

// CHECK-LABEL: llvm.func @invert(
// CHECK-SAME: dl.scratch_bytes = 3072
tile.kernel @invert(%x: memref<16x16xf32, strided<[16, 1]>>) attributes {threads = 32 : i64} {
  // CHECK-DAG:  %[[C16:.+]] = arith.constant 16 : i64
  // CHECK-DAG:  %[[ZERO:.+]] = arith.constant 0.000000e+00 : f32
  // CHECK-DAG:  %[[ONE:.+]] = arith.constant 1.000000e+00 : f32
  // CHECK:      scf.for %[[I:[^ ]+]] = %{{.+}} to %[[C16]]
  // CHECK:        scf.for %[[J:[^ ]+]] = %{{.+}} to %[[C16]]
  // CHECK:          %[[DIAGONAL:.+]] = arith.cmpi eq, %[[I]], %[[J]]
  // CHECK:          %[[START:.+]] = arith.select %[[DIAGONAL]], %[[ONE]], %[[ZERO]]
  // CHECK:          %[[X:.+]] = scf.for %[[K:[^ ]+]] = %{{.+}} to %[[I]] {{.*}} iter_args(%[[SUM:.+]] = %[[START]])
  // CHECK:            %[[A:.+]] = llvm.load
  // CHECK:            %[[MINUS:.+]] = arith.negf %[[A]]
  // CHECK:            %[[ROW:.+]] = arith.muli %[[K]], %[[C16]]
  // CHECK:            arith.addi %[[ROW]], %[[J]]
  // CHECK:            math.fma %[[MINUS]], %{{.+}}, %[[SUM]]
  // CHECK:          llvm.store %[[X]]
  %c0 = arith.constant 0 : index
  %a = tile.load %x[%c0, %c0] axes [0, 1] : memref<16x16xf32, strided<[16, 1]>> -> tensor<16x16xf32, #m>
  %t = tile.invert_unit_lower %a : tensor<16x16xf32, #m>
  tile.store %t, %x[%c0, %c0] axes [0, 1] : tensor<16x16xf32, #m>, memref<16x16xf32, strided<[16, 1]>>
  tile.return
}
