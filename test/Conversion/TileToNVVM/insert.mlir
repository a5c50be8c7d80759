// A row is chosen by each thread for itself: a compare for each of its rows, a select for each register.

// RUN: dl-opt %s --convert-tile-to-nvvm --cse | FileCheck %s

#rows = #tile.blocked<per_thread = [1, 2], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>

// CHECK-LABEL: llvm.func @insert
// CHECK-SAME: dl.shared_bytes = 0
// CHECK: %[[FIRST:.*]] = arith.divui %{{.*}}, %c16_i32 : i32
// CHECK: %[[ROW:.*]] = llvm.load %{{.*}} : !llvm.ptr -> i32
// CHECK: %[[DISTANCE:.*]] = arith.subi %[[ROW]], %[[FIRST]] : i32
// CHECK: %[[HIT0:.*]] = arith.cmpi eq, %[[DISTANCE]], %c0_i32 : i32
// CHECK: arith.select %[[HIT0]], %[[V0:.*]], %{{.*}} : bf16
// CHECK: arith.select %[[HIT0]], %[[V1:.*]], %{{.*}} : bf16
// CHECK: %[[HIT2:.*]] = arith.cmpi eq, %[[DISTANCE]], %c2_i32 : i32
// CHECK: arith.select %[[HIT2]], %[[V0]], %{{.*}} : bf16
// CHECK: arith.select %[[HIT2]], %[[V1]], %{{.*}} : bf16
// CHECK-NOT: barrier
tile.kernel @insert(%x: memref<4x32xbf16, strided<[32, 1]>>, %y: memref<32xbf16, strided<[1]>>, %n: i32) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %m = tile.load %x[%c0, %c0] axes [0, 1] in_bounds [true, true] : memref<4x32xbf16, strided<[32, 1]>> -> tensor<4x32xbf16, #rows>
  %v = tile.load %y[%c0] axes [0] in_bounds [true] : memref<32xbf16, strided<[1]>> -> tensor<32xbf16, #tile.slice<0, #rows>>
  %r = tile.insert %v into %m[%n] axis 0 : tensor<32xbf16, #tile.slice<0, #rows>> into tensor<4x32xbf16, #rows>
  tile.store %r, %x[%c0, %c0] axes [0, 1] in_bounds [true, true] : tensor<4x32xbf16, #rows>, memref<4x32xbf16, strided<[32, 1]>>
  tile.return
}
