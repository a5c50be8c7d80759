// RUN: dl-opt %s --convert-tile-to-cpu --cse | FileCheck %s

#row = #tile.blocked<per_thread = [2], lanes = [32], warps = [1], order = [0], num_warps = 1>
!t = tensor<64xf32, #row>
!m = memref<64xf32, strided<[1]>>

// A carried tensor has a buffer of its own, written at each yield; scalars stay values.

// CHECK-LABEL: llvm.func @loop(
// CHECK-SAME:    %[[SCRATCH:[^ ]+]]: !llvm.ptr {llvm.align
tile.kernel @loop(%x: !m, %n: i64) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %one = arith.constant 1.0 : f32
  %end = arith.index_cast %n : i64 to index
  // CHECK:      scf.for
  // CHECK:        scf.for
  // CHECK:          llvm.store
  %v = tile.load %x[%c0] axes [0] : !m -> !t
  // CHECK:      %[[CARRIED:.+]] = llvm.getelementptr %[[SCRATCH]][
  // CHECK:      "llvm.intr.memcpy"(%[[CARRIED]], %[[SCRATCH]],
  // CHECK:      scf.for %{{.+}} = %{{.+}} to %{{.+}} step %{{.+}} iter_args(%[[K:.+]] = %{{.+}}) -> (f32) {
  // CHECK:        scf.for
  // CHECK:          arith.mulf %{{.+}}, %[[K]]
  // CHECK:        "llvm.intr.memcpy"(%[[CARRIED]],
  // CHECK:        scf.yield %{{.+}} : f32
  %r:2 = scf.for %i = %c0 to %end step %c1 iter_args(%s = %v, %k = %one) -> (!t, f32) {
    %f = tile.splat %k : f32 -> !t
    %w = arith.mulf %s, %f : !t
    %k1 = arith.addf %k, %one : f32
    scf.yield %w, %k1 : !t, f32
  }
  // CHECK:      scf.for
  tile.store %r#0, %x[%c0] axes [0] : !t, !m
  tile.return
}

// A branch without tensors keeps its form.

// CHECK-LABEL: llvm.func @branch(
tile.kernel @branch(%x: !m, %n: i32) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i32
  // CHECK:      %[[IS:.+]] = arith.cmpi sgt
  // CHECK:      scf.if %[[IS]] {
  // CHECK:        scf.for
  // CHECK:      } else {
  // CHECK:        scf.for
  %is = arith.cmpi sgt, %n, %zero : i32
  scf.if %is {
    %v = arith.constant dense<1.0> : !t
    tile.store %v, %x[%c0] axes [0] : !t, !m
  } else {
    %v = arith.constant dense<2.0> : !t
    tile.store %v, %x[%c0] axes [0] : !t, !m
  }
  tile.return
}
