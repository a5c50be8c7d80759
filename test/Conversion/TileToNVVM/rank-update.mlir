// Factors lie in shared memory, rows at multiples of 16 bytes; each thread adds its share of one row after the other.

// RUN: dl-opt %s --convert-tile-to-nvvm --cse | FileCheck %s

#log = #tile.blocked<per_thread = [1, 2], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 2>
#state = #tile.blocked<per_thread = [2, 4], lanes = [16, 2], warps = [1, 2], order = [1, 0], num_warps = 2>

// 5 rows of 32 keys take 6 x 128 bytes, for the layout covers 6 rows. So do 5 rows of 16 columns, for it covers 32. The
// second warp holds copies and stores nothing. One barrier, then a loop over the rows.

// CHECK-LABEL: llvm.func @update
// CHECK-SAME: dl.shared_bytes = 1536
// CHECK: scf.if
// CHECK: llvm.store {{.*}} {alignment = 8 : i64} : vector<2xf32>, !llvm.ptr<3>
// CHECK: scf.if
// CHECK: llvm.store {{.*}} {alignment = 8 : i64} : vector<2xf32>, !llvm.ptr<3>
// CHECK: nvvm.barrier
// CHECK: %[[END:.*]] = arith.minsi %{{.*}}, %c5_i32 : i32
// CHECK: %[[SUMS:.*]]:8 = scf.for %[[I:.*]] = %c0_i32 to %[[END]] step %c1_i32 iter_args(%[[S0:[^ ]*]] = %{{[^,]*}}, %[[S1:[^ ]*]] = %{{[^,]*}}, {{.*}}) -> (f32, f32, f32, f32, f32, f32, f32, f32) : i32 {
// CHECK: %[[DISTANCE:.*]] = arith.muli %[[I]], %c128_i32 : i32
// CHECK: %[[KEYS:.*]] = llvm.load {{.*}} {alignment = 8 : i64} : !llvm.ptr<3> -> vector<2xf32>
// CHECK: %[[K0:.*]] = llvm.extractelement %[[KEYS]][%c0_i32
// CHECK: %[[K1:.*]] = llvm.extractelement %[[KEYS]][%c1_i32
// CHECK: %[[COLUMNS:.*]] = llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xf32>
// CHECK: %[[V0:.*]] = llvm.extractelement %[[COLUMNS]][%c0_i32
// CHECK: %[[V1:.*]] = llvm.extractelement %[[COLUMNS]][%c1_i32
// CHECK-NOT: llvm.load
// CHECK: llvm.intr.fma(%[[K0]], %[[V0]], %[[S0]])
// CHECK: llvm.intr.fma(%[[K0]], %[[V1]], %[[S1]])
// CHECK: llvm.intr.fma(%[[K1]], %[[V0]],
// CHECK-COUNT-3: llvm.intr.fma(%[[K1]],
// CHECK-NEXT: scf.yield
// CHECK-NOT: barrier
tile.kernel @update(%x: memref<5x32xf32, strided<[32, 1]>>, %y: memref<5x16xf32, strided<[16, 1]>>, %z: memref<32x16xf32, strided<[16, 1]>>, %n: i32)
    attributes {threads = 64 : i64} {
  %c0 = arith.constant 0 : index
  %a = tile.load %x[%c0, %c0] axes [0, 1] in_bounds [true, true] : memref<5x32xf32, strided<[32, 1]>> -> tensor<5x32xf32, #log>
  %b = tile.load %y[%c0, %c0] axes [0, 1] in_bounds [true, true] : memref<5x16xf32, strided<[16, 1]>> -> tensor<5x16xf32, #log>
  %c = tile.load %z[%c0, %c0] axes [0, 1] in_bounds [true, true] : memref<32x16xf32, strided<[16, 1]>> -> tensor<32x16xf32, #state>
  %d = tile.rank_update %a, %b, %c count %n : tensor<5x32xf32, #log>, tensor<5x16xf32, #log>, tensor<32x16xf32, #state>
  tile.store %d, %z[%c0, %c0] axes [0, 1] in_bounds [true, true] : tensor<32x16xf32, #state>, memref<32x16xf32, strided<[16, 1]>>
  tile.return
}

// In a loop, and there in a branch: the buffers may be written again when all have read them, so iterations after the
// first start with a barrier.

// CHECK-LABEL: llvm.func @again
// CHECK: scf.for %[[T:.*]] = %[[LOW:.*]] to
// CHECK-NEXT: %[[LATER:.*]] = arith.cmpi ne, %[[T]], %[[LOW]] : i64
// CHECK-NEXT: scf.if %[[LATER]] {
// CHECK-NEXT: nvvm.barrier
// CHECK-NEXT: }
// CHECK: scf.if
// CHECK: llvm.store {{.*}}, !llvm.ptr<3>
// CHECK: nvvm.barrier
// CHECK: scf.for
// CHECK: llvm.load {{.*}} : !llvm.ptr<3>
// CHECK-NOT: barrier
// CHECK: llvm.return
tile.kernel @again(%x: memref<5x32xf32, strided<[32, 1]>>, %y: memref<5x16xf32, strided<[16, 1]>>, %z: memref<32x16xf32, strided<[16, 1]>>, %n: i32, %m: i32)
    attributes {threads = 64 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0 : i32
  %end = arith.index_cast %m : i32 to index
  %a = tile.load %x[%c0, %c0] axes [0, 1] in_bounds [true, true] : memref<5x32xf32, strided<[32, 1]>> -> tensor<5x32xf32, #log>
  %b = tile.load %y[%c0, %c0] axes [0, 1] in_bounds [true, true] : memref<5x16xf32, strided<[16, 1]>> -> tensor<5x16xf32, #log>
  %c = tile.load %z[%c0, %c0] axes [0, 1] in_bounds [true, true] : memref<32x16xf32, strided<[16, 1]>> -> tensor<32x16xf32, #state>
  %some = arith.cmpi ne, %n, %zero : i32
  %d = scf.for %t = %c0 to %end step %c1 iter_args(%s = %c) -> (tensor<32x16xf32, #state>) {
    %e = scf.if %some -> (tensor<32x16xf32, #state>) {
      %u = tile.rank_update %a, %b, %s count %n : tensor<5x32xf32, #log>, tensor<5x16xf32, #log>, tensor<32x16xf32, #state>
      scf.yield %u : tensor<32x16xf32, #state>
    } else {
      scf.yield %s : tensor<32x16xf32, #state>
    }
    scf.yield %e : tensor<32x16xf32, #state>
  }
  tile.store %d, %z[%c0, %c0] axes [0, 1] in_bounds [true, true] : tensor<32x16xf32, #state>, memref<32x16xf32, strided<[16, 1]>>
  tile.return
}
