// A ring of two rows, each copied by one instruction while the other one is read.

// RUN: dl-opt %s --tile-to-nvvm | FileCheck %s
// RUN: dl-compile %s --target=sm_90a --emit=ptx -o %t
// RUN: FileCheck %s --check-prefix=PTX < %t

// PTX: mbarrier.init.shared
// PTX: fence.mbarrier_init
// PTX: mbarrier.arrive.expect_tx
// PTX: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes
// PTX: mbarrier.try_wait.parity.shared::cta.b64

#row = #tile.blocked<per_thread = [1], lanes = [32], warps = [4], order = [0], num_warps = 4>

// CHECK-LABEL: llvm.func @sum
// Two rows of 512 bytes and two counters.
// CHECK-SAME: dl.shared_bytes = 1040
// One thread makes the counters, and all see them.
// CHECK:      %[[FIRST:.*]] = llvm.icmp "eq" %[[THREAD:.*]], %{{.*}} : i32
// CHECK:      llvm.cond_br %[[FIRST]]
// CHECK:      nvvm.mbarrier.init %{{.*}}, %{{.*}} : !llvm.ptr<3>, i32
// CHECK:      nvvm.mbarrier.init %{{.*}}, %{{.*}} : !llvm.ptr<3>, i32
// CHECK-NEXT: nvvm.fence.mbarrier.init
// CHECK:      nvvm.barrier
// One thread orders a row, by its bytes.
// CHECK:      nvvm.mbarrier.arrive.expect_tx %[[COUNTER:.*]], %[[BYTES:.*]] : !llvm.ptr<3>, i32
// CHECK-NEXT: nvvm.cp.async.bulk.shared.cluster.global %{{.*}}, %{{.*}}, %[[COUNTER]], %[[BYTES]] : !llvm.ptr<7>, <1>
// CHECK:      nvvm.barrier
// CHECK:      nvvm.cp.async.bulk.shared.cluster.global
// All wait for the one before.
// CHECK:      mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1;{{.*}} "l,r,~{memory}" %{{.*}}, %{{.*}} : (!llvm.ptr<3>, i32)
// CHECK:      llvm.load %{{.*}} : !llvm.ptr<3> -> f32
tile.kernel @sum(
    %w: memref<?x?x512xi8, strided<[?, ?, 1]>> {tile.name = "w", tile.role = "input", tile.shape = ["B", 4, 512], tile.access = "r"},
    %o: memref<?x128xf32, strided<[?, 1]>> {tile.name = "o", tile.role = "output", tile.shape = ["B", 128], tile.access = "w"})
    attributes {threads = 128 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %i0 = arith.constant 0 : i32
  %i1 = arith.constant 1 : i32
  %i3 = arith.constant 3 : i32
  %zero = arith.constant 0.0 : f32
  %n = gpu.block_id x
  %arrivals = tile.arrivals : !tile.shared<2xi64, #tile.swizzled<0>>
  %ring = tile.alloc : !tile.shared<2x1x512xi8, #tile.swizzled<0>>
  %first = tile.stage %ring[%i0] : !tile.shared<2x1x512xi8, #tile.swizzled<0>> -> !tile.shared<512xi8, #tile.swizzled<0>>
  tile.copy_bulk %w[%n, %c0] into %first arriving %arrivals[%i0] : memref<?x?x512xi8, strided<[?, ?, 1]>>, !tile.shared<512xi8, #tile.swizzled<0>>, !tile.shared<2xi64, #tile.swizzled<0>>
  %none = tile.splat %zero : f32 -> tensor<128xf32, #row>
  %sum = scf.for %i = %i0 to %i3 step %i1 iter_args(%s = %none) -> (tensor<128xf32, #row>) : i32 {
    %stage = arith.andi %i, %i1 : i32
    %other = arith.xori %stage, %i1 : i32
    %half = arith.shrui %i, %i1 : i32
    %parity = arith.andi %half, %i1 : i32
    %next32 = arith.addi %i, %i1 : i32
    %next = arith.index_cast %next32 : i32 to index
    tile.barrier
    %behind = tile.stage %ring[%other] : !tile.shared<2x1x512xi8, #tile.swizzled<0>> -> !tile.shared<512xi8, #tile.swizzled<0>>
    tile.copy_bulk %w[%n, %next] into %behind arriving %arrivals[%other] : memref<?x?x512xi8, strided<[?, ?, 1]>>, !tile.shared<512xi8, #tile.swizzled<0>>, !tile.shared<2xi64, #tile.swizzled<0>>
    tile.await %arrivals[%stage] parity %parity : !tile.shared<2xi64, #tile.swizzled<0>>
    %here = tile.stage %ring[%stage] : !tile.shared<2x1x512xi8, #tile.swizzled<0>> -> !tile.shared<512xi8, #tile.swizzled<0>>
    %numbers = tile.local_part %here offset 0 : !tile.shared<512xi8, #tile.swizzled<0>> -> !tile.shared<128xf32, #tile.swizzled<0>>
    %x = tile.local_load %numbers : !tile.shared<128xf32, #tile.swizzled<0>> -> tensor<128xf32, #row>
    %t = arith.addf %s, %x : tensor<128xf32, #row>
    scf.yield %t : tensor<128xf32, #row>
  }
  tile.await %arrivals[%i1] parity %i1 : !tile.shared<2xi64, #tile.swizzled<0>>
  tile.store %sum, %o[%n, %c0] axes [1] in_bounds [true] : tensor<128xf32, #row>, memref<?x128xf32, strided<[?, 1]>>
  tile.return
}
