// Loops and branches carry registers; barriers keep the iterations of a loop apart.

// RUN: dl-opt %s --convert-tile-to-nvvm --cse | FileCheck %s

#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 4>
#spread = #tile.blocked<per_thread = [1], lanes = [32], warps = [4], order = [0], num_warps = 4>
#pairs = #tile.blocked<per_thread = [2], lanes = [32], warps = [1], order = [0], num_warps = 4>

// A carried tensor is one loop value for each register. Nothing is exchanged, so there are no barriers.

// CHECK-LABEL: llvm.func @carried
// CHECK: %[[LOOP:.*]]:5 = scf.for %{{.*}} = %{{.*}} to %{{.*}} step %{{.*}} iter_args(%[[A0:.*]] = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}, %[[I:.*]] = %{{.*}}) -> (f32, f32, f32, f32, i64) : i64 {
// CHECK-NOT: barrier
// CHECK: %[[B0:.*]] = arith.addf %[[A0]], %[[A0]] : f32
// CHECK: scf.yield %[[B0]], %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : f32, f32, f32, f32, i64
// CHECK: llvm.insertelement %[[LOOP]]#0
tile.kernel @carried(%x: memref<?x128xf32, strided<[?, 1]>>, %count: i32) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.index_cast %count : i32 to index
  %v = tile.load %x[%c0, %c0] axes [1] in_bounds [true] : memref<?x128xf32, strided<[?, 1]>> -> tensor<128xf32, #row>
  %w, %j = scf.for %t = %c0 to %n step %c1 iter_args(%a = %v, %i = %c0) -> (tensor<128xf32, #row>, index) {
    %b = arith.addf %a, %a : tensor<128xf32, #row>
    %k = arith.addi %i, %t : index
    scf.yield %b, %k : tensor<128xf32, #row>, index
  }
  tile.store %w, %x[%j, %c0] axes [1] in_bounds [true] : tensor<128xf32, #row>, memref<?x128xf32, strided<[?, 1]>>
  tile.return
}

// One exchange in a loop: the next iteration must not write what others still read, so iterations after the first start
// with a barrier.

// CHECK-LABEL: llvm.func @one_exchange
// CHECK: scf.for %[[T:.*]] = %[[LOW:.*]] to
// CHECK-NEXT: %[[LATER:.*]] = arith.cmpi ne, %[[T]], %[[LOW]] : i64
// CHECK-NEXT: scf.if %[[LATER]] {
// CHECK-NEXT: nvvm.barrier
// CHECK-NEXT: }
// CHECK: llvm.store {{.*}}, !llvm.ptr<3>
// CHECK: nvvm.barrier
// CHECK: llvm.load {{.*}} : !llvm.ptr<3>
// CHECK-NOT: barrier
// CHECK: llvm.return
tile.kernel @one_exchange(%x: memref<?x128xf32, strided<[?, 1]>>, %count: i32) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.index_cast %count : i32 to index
  scf.for %t = %c0 to %n step %c1 {
    %v = tile.load %x[%t, %c0] axes [1] in_bounds [true] : memref<?x128xf32, strided<[?, 1]>> -> tensor<128xf32, #spread>
    %w = tile.convert %v : tensor<128xf32, #spread> -> tensor<128xf32, #row>
    tile.store %w, %x[%t, %c0] axes [1] in_bounds [true] : tensor<128xf32, #row>, memref<?x128xf32, strided<[?, 1]>>
  }
  tile.return
}

// The same within warps: the warp waits for itself.

// CHECK-LABEL: llvm.func @one_exchange_in_warp
// CHECK: scf.for
// CHECK-NEXT: arith.cmpi ne
// CHECK-NEXT: scf.if
// CHECK: nvvm.bar.warp.sync
// CHECK-NEXT: }
// CHECK: llvm.store {{.*}}, !llvm.ptr<3>
// CHECK: nvvm.bar.warp.sync
// CHECK-NOT: nvvm.barrier
// CHECK: llvm.return
tile.kernel @one_exchange_in_warp(%x: memref<?x128xf32, strided<[?, 1]>>, %count: i32) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.index_cast %count : i32 to index
  scf.for %t = %c0 to %n step %c1 {
    %v = tile.load %x[%t, %c0] axes [1] in_bounds [true] : memref<?x128xf32, strided<[?, 1]>> -> tensor<128xf32, #pairs>
    %w = tile.convert %v : tensor<128xf32, #pairs> -> tensor<128xf32, #row>
    tile.store %w, %x[%t, %c0] axes [1] in_bounds [true] : tensor<128xf32, #row>, memref<?x128xf32, strided<[?, 1]>>
  }
  tile.return
}

// Two exchanges in buffers of their own: each one's barrier keeps the other's iterations apart.

// CHECK-LABEL: llvm.func @two_exchanges
// CHECK: scf.for
// CHECK-NOT: arith.cmpi ne
// CHECK: llvm.store {{.*}}, !llvm.ptr<3>
// CHECK: nvvm.barrier
// CHECK: llvm.store {{.*}}, !llvm.ptr<3>
// CHECK: nvvm.barrier
// CHECK-NOT: barrier
// CHECK: llvm.return
tile.kernel @two_exchanges(%x: memref<?x128xf32, strided<[?, 1]>>, %count: i32) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.index_cast %count : i32 to index
  scf.for %t = %c0 to %n step %c1 {
    %v = tile.load %x[%t, %c0] axes [1] in_bounds [true] : memref<?x128xf32, strided<[?, 1]>> -> tensor<128xf32, #spread>
    %w = tile.convert %v : tensor<128xf32, #spread> -> tensor<128xf32, #row>
    %u = arith.addf %w, %w : tensor<128xf32, #row>
    %s = tile.reduce %v axis 0 : tensor<128xf32, #spread> -> f32
    %z = tile.splat %s : f32 -> tensor<128xf32, #row>
    %y = arith.addf %u, %z : tensor<128xf32, #row>
    tile.store %y, %x[%t, %c0] axes [1] in_bounds [true] : tensor<128xf32, #row>, memref<?x128xf32, strided<[?, 1]>>
  }
  tile.return
}

// A converted tensor is read where it is used. Behind the last barrier nothing keeps that apart from the next iteration's
// write.

// CHECK-LABEL: llvm.func @late_read
// CHECK: scf.for
// CHECK-NEXT: arith.cmpi ne
// CHECK-NEXT: scf.if
// CHECK: nvvm.barrier
// CHECK-NEXT: }
// CHECK: nvvm.barrier
// CHECK: nvvm.barrier
// CHECK: llvm.load {{.*}} : !llvm.ptr<3>
// CHECK: llvm.return
tile.kernel @late_read(%x: memref<?x128xf32, strided<[?, 1]>>, %count: i32) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.index_cast %count : i32 to index
  scf.for %t = %c0 to %n step %c1 {
    %v = tile.load %x[%t, %c0] axes [1] in_bounds [true] : memref<?x128xf32, strided<[?, 1]>> -> tensor<128xf32, #spread>
    %w = tile.convert %v : tensor<128xf32, #spread> -> tensor<128xf32, #row>
    %s = tile.reduce %v axis 0 : tensor<128xf32, #spread> -> f32
    %z = tile.splat %s : f32 -> tensor<128xf32, #row>
    %y = arith.addf %w, %z : tensor<128xf32, #row>
    tile.store %y, %x[%t, %c0] axes [1] in_bounds [true] : tensor<128xf32, #row>, memref<?x128xf32, strided<[?, 1]>>
  }
  tile.return
}

// Results of a branch are registers; a branch without results stays one. Conditions are uniform over the block.

// CHECK-LABEL: llvm.func @branch
// CHECK: %[[R:.*]]:4 = scf.if %{{.*}} -> (f32, f32, f32, f32) {
// CHECK: llvm.load {{.*}} -> vector<4xf32>
// CHECK: scf.yield %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : f32, f32, f32, f32
// CHECK: } else {
// CHECK: scf.yield %[[ONE:.*]], %[[ONE]], %[[ONE]], %[[ONE]] : f32, f32, f32, f32
// CHECK: llvm.insertelement %[[R]]#0
tile.kernel @branch(%x: memref<?x128xf32, strided<[?, 1]>>, %count: i32) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %limit = arith.constant 7 : i32
  %one = arith.constant 1.0 : f32
  %few = arith.cmpi slt, %count, %limit : i32
  %v = scf.if %few -> (tensor<128xf32, #row>) {
    %a = tile.load %x[%c0, %c0] axes [1] in_bounds [true] : memref<?x128xf32, strided<[?, 1]>> -> tensor<128xf32, #row>
    scf.yield %a : tensor<128xf32, #row>
  } else {
    %b = tile.splat %one : f32 -> tensor<128xf32, #row>
    scf.yield %b : tensor<128xf32, #row>
  }
  tile.store %v, %x[%c0, %c0] axes [1] in_bounds [true] : tensor<128xf32, #row>, memref<?x128xf32, strided<[?, 1]>>
  tile.return
}

// An explicit barrier stays where it is; with async_proxy, stores are handed to the hardware's descriptors first.

// CHECK-LABEL: llvm.func @barriers
// CHECK: nvvm.barrier
// CHECK: nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
// CHECK-NEXT: nvvm.barrier
tile.kernel @barriers() attributes {threads = 128 : i64} {
  tile.barrier
  tile.barrier async_proxy
  tile.return
}

// An inner loop may run once for each iteration of the outer one: then its exchange follows itself, and only a barrier of the
// outer loop is in between.

// CHECK-LABEL: llvm.func @nested
// CHECK: scf.for %[[T:.*]] = %[[LOW:.*]] to
// CHECK: arith.cmpi ne, %[[T]], %[[LOW]] : i64
// CHECK-NEXT: scf.if
// CHECK-NEXT: nvvm.barrier
// CHECK: scf.for %[[I:.*]] = %[[START:.*]] to
// CHECK-NEXT: arith.cmpi ne, %[[I]], %[[START]] : i64
// CHECK-NEXT: scf.if
// CHECK-NEXT: nvvm.barrier
// CHECK: llvm.store {{.*}}, !llvm.ptr<3>
// CHECK: nvvm.barrier
// CHECK-NOT: nvvm.barrier
// CHECK: llvm.return
tile.kernel @nested(%x: memref<?x128xf32, strided<[?, 1]>> {tile.name = "x", tile.role = "output", tile.shape = ["B", 128], tile.access = "w"},
                    %count: i32 {tile.name = "count", tile.role = "scalar", tile.default = 4 : i64}) attributes {threads = 128 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.index_cast %count : i32 to index
  %zero = arith.constant 0.0 : f32
  %block = gpu.block_id x
  %v = tile.load %x[%block, %c0] axes [1] in_bounds [true] : memref<?x128xf32, strided<[?, 1]>> -> tensor<128xf32, #spread>
  %sum = scf.for %t = %c0 to %n step %c1 iter_args(%a = %zero) -> (f32) {
    %b = scf.for %i = %c0 to %c1 step %c1 iter_args(%c = %a) -> (f32) {
      %s = tile.reduce %v axis 0 : tensor<128xf32, #spread> -> f32
      %d = arith.addf %c, %s : f32
      scf.yield %d : f32
    }
    scf.yield %b : f32
  }
  %w = tile.splat %sum : f32 -> tensor<128xf32, #spread>
  tile.store %w, %x[%block, %c0] axes [1] in_bounds [true] : tensor<128xf32, #spread>, memref<?x128xf32, strided<[?, 1]>>
  tile.return
}

// An exchange on each side of a branch: an iteration passes one barrier, not two.

// CHECK-LABEL: llvm.func @sides
// CHECK: scf.for %[[T:.*]] = %[[LOW:.*]] to
// CHECK: arith.cmpi ne, %[[T]], %[[LOW]] : i64
// CHECK-NEXT: scf.if
// CHECK-NEXT: nvvm.barrier
tile.kernel @sides(%x: memref<?x128xf32, strided<[?, 1]>> {tile.name = "x", tile.role = "output", tile.shape = ["B", 128], tile.access = "w"},
                   %count: i32 {tile.name = "count", tile.role = "scalar", tile.default = 4 : i64}) attributes {threads = 128 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %n = arith.index_cast %count : i32 to index
  %zero = arith.constant 0.0 : f32
  %block = gpu.block_id x
  %v = tile.load %x[%block, %c0] axes [1] in_bounds [true] : memref<?x128xf32, strided<[?, 1]>> -> tensor<128xf32, #spread>
  %sum = scf.for %t = %c0 to %n step %c1 iter_args(%a = %zero) -> (f32) {
    %few = arith.cmpi ult, %t, %c9 : index
    %b = scf.if %few -> (f32) {
      %s = tile.reduce %v axis 0 : tensor<128xf32, #spread> -> f32
      scf.yield %s : f32
    } else {
      %q = arith.mulf %v, %v : tensor<128xf32, #spread>
      %s = tile.reduce %q axis 0 : tensor<128xf32, #spread> -> f32
      scf.yield %s : f32
    }
    %d = arith.addf %a, %b : f32
    scf.yield %d : f32
  }
  %w = tile.splat %sum : f32 -> tensor<128xf32, #spread>
  tile.store %w, %x[%block, %c0] axes [1] in_bounds [true] : tensor<128xf32, #spread>, memref<?x128xf32, strided<[?, 1]>>
  tile.return
}

// A barrier on one path only does not excuse the other path: the second exchange is still read when the next iteration
// writes.

// CHECK-LABEL: llvm.func @barrier_on_one_path
// CHECK: scf.for %[[T:.*]] = %[[LOW:.*]] to
// CHECK-NEXT: arith.cmpi ne, %[[T]], %[[LOW]] : i64
// CHECK-NEXT: scf.if
// CHECK-NEXT: nvvm.barrier
tile.kernel @barrier_on_one_path(%x: memref<?x128xf32, strided<[?, 1]>>, %count: i32, %which: i32) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0 : i32
  %n = arith.index_cast %count : i32 to index
  %p = arith.cmpi eq, %which, %z : i32
  scf.for %t = %c0 to %n step %c1 {
    %v = tile.load %x[%t, %c0] axes [1] in_bounds [true] : memref<?x128xf32, strided<[?, 1]>> -> tensor<128xf32, #spread>
    %a = tile.convert %v : tensor<128xf32, #spread> -> tensor<128xf32, #row>
    %v2 = arith.addf %v, %v : tensor<128xf32, #spread>
    %b = tile.convert %v2 : tensor<128xf32, #spread> -> tensor<128xf32, #row>
    tile.store %b, %x[%t, %c0] axes [1] in_bounds [true] : tensor<128xf32, #row>, memref<?x128xf32, strided<[?, 1]>>
    scf.if %p {
      tile.store %a, %x[%t, %c0] axes [1] in_bounds [true] : tensor<128xf32, #row>, memref<?x128xf32, strided<[?, 1]>>
    } else {
      tile.barrier
    }
  }
  tile.return
}
