// Products by wgmma with A in registers and B, N x K, in swizzled shared memory; tile_mma_test runs these kernels (see
// mma_sync_bf16.mlir for the names of arguments).

// RUN: dl-opt %s --tile-to-nvvm | FileCheck %s
// Where ptxas is found, dl-compile also assembles; spills and warnings about serialised wgmma are errors.
// RUN: dl-compile %s --target=sm_90a --emit=ptx -o %t
// RUN: FileCheck %s --check-prefix=PTX < %t/square.sm_90a.ptx

// PTX: st.shared.v4.b32
// PTX: fence.proxy.async.shared::cta
// PTX-NEXT: bar{{(rier)?}}.{{(cta.)?}}sync
// PTX: wgmma.fence.sync.aligned;
// PTX-COUNT-4: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
// PTX: wgmma.commit_group.sync.aligned;
// PTX: wgmma.wait_group.sync.aligned 0;
// PTX: st.global

// 64 x 64 x 64 by one group of four warps: four instructions along K.

#a = #tile.fragment<"wgmma.m64n64k16.bf16", "a", warps = [1, 1]>
#c = #tile.fragment<"wgmma.m64n64k16.bf16", "c", warps = [1, 1]>
#rows = #tile.blocked<per_thread = [1, 8], lanes = [4, 8], warps = [4, 1], order = [1, 0], num_warps = 4>
!b = !tile.shared<64x64xbf16, #tile.swizzled<128>>

// CHECK-LABEL: llvm.func @square
// CHECK-SAME: dl.shared_bytes = 8192
// CHECK-SAME: nvvm.reqntid = array<i32: 128>
// B goes to shared memory by 16 bytes, swizzled by bits 7 to 9 of the address, and is made visible to descriptors.
// CHECK: llvm.load {{.*}} -> vector<8xbf16>
// CHECK: %[[SEVEN:.*]] = llvm.lshr %[[OFFSET:.*]], %{{.*}} : i32
// CHECK: %[[BITS:.*]] = llvm.and %[[SEVEN]], %{{.*}} : i32
// CHECK: %[[CHUNK:.*]] = llvm.shl %[[BITS]], %{{.*}} : i32
// CHECK: llvm.xor %[[OFFSET]], %[[CHUNK]] : i32
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<8xbf16>, !llvm.ptr<3>
// CHECK: nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}
// CHECK-NEXT: nvvm.barrier
// The descriptor: address >> 4 in 14 bits; 128-byte swizzle, 1024 bytes between groups of eight rows.
// CHECK: %[[ADDRESS:.*]] = llvm.ptrtoint %{{.*}} : !llvm.ptr<3> to i64
// CHECK: %[[SHIFTED:.*]] = llvm.lshr %[[ADDRESS]], %{{.*}} : i64
// CHECK: %[[FIELD:.*]] = llvm.and %[[SHIFTED]], %{{.*}} : i64
// CHECK: %[[DESCRIPTOR:.*]] = llvm.or %[[FIELD]], %{{.*}} : i64
// 32 accumulators and 16 words of A pass through the fence.
// CHECK: %[[FENCED:.*]] = llvm.inline_asm has_side_effects asm_dialect = att "wgmma.fence.sync.aligned;", "{{(=f,)+(=r,)+0,1,2}}
// CHECK: llvm.inline_asm has_side_effects asm_dialect = att "{\0A.reg .pred p;\0Asetp.ne.b32 p, 1, 0;\0Awgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {$0, $1,
// CHECK-SAME: $31}, {$64, $65, $66, $67}, $68, p, 1, 1, 0;\0A}"
// CHECK-SAME: ,r,r,r,r,l,~{memory}"
// The next 16 columns of K are 32 bytes on.
// CHECK: %[[NEXT:.*]] = llvm.add %[[DESCRIPTOR]], %{{.*}} : i64
// CHECK: wgmma.mma_async{{.*}} %[[NEXT]]
// CHECK-COUNT-2: wgmma.mma_async
// CHECK: nvvm.wgmma.commit.group.sync.aligned
// Accumulators pass through assembly behind the wait: nothing uses them before it.
// CHECK: nvvm.wgmma.wait.group.sync.aligned 0
// CHECK-NEXT: %[[DONE:.*]] = llvm.inline_asm has_side_effects asm_dialect = att "", "{{(=f,)+(=r,)+0,1,2}}
// CHECK: %[[D0:.*]] = llvm.extractvalue %[[DONE]][0]
// CHECK: llvm.insertelement %[[D0]]
// CHECK: llvm.store {{.*}} : vector<2xf32>, !llvm.ptr<1>
tile.kernel @square(
    %a: memref<?x64x64xbf16, strided<[?, 64, 1]>> {tile.name = "a", tile.role = "input", tile.shape = ["B", 64, 64], tile.access = "r"},
    %b: memref<?x64x64xbf16, strided<[?, 64, 1]>> {tile.name = "b_t", tile.role = "input", tile.shape = ["B", 64, 64], tile.access = "r"},
    %d: memref<?x64x64xf32, strided<[?, 64, 1]>> {tile.name = "d", tile.role = "output", tile.shape = ["B", 64, 64], tile.access = "w"})
    attributes {threads = 128 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = gpu.block_id x
  %rb = tile.load %b[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x64x64xbf16, strided<[?, 64, 1]>> -> tensor<64x64xbf16, #rows>
  %sb = tile.alloc : !b
  tile.local_store %rb, %sb : tensor<64x64xbf16, #rows>, !b
  tile.barrier async_proxy
  %fa = tile.load %a[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x64x64xbf16, strided<[?, 64, 1]>> -> tensor<64x64xbf16, #a>
  %fc = tile.splat %zero : f32 -> tensor<64x64xf32, #c>
  %fd = tile.mma %fa, %sb, %fc : tensor<64x64xbf16, #a>, !b, tensor<64x64xf32, #c>
  tile.store %fd, %d[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<64x64xf32, #c>, memref<?x64x64xf32, strided<[?, 64, 1]>>
  tile.return
}

// Four groups of warps, 2 x 2, repeated 1 x 3 x 5 over 100 x 96 x 80: the last rows are padding, K spans five panels of
// 32 bytes, and each group finds its own rows of B.

#ga = #tile.fragment<"wgmma.m64n16k16.f16", "a", warps = [2, 2]>
#gc = #tile.fragment<"wgmma.m64n16k16.f16", "c", warps = [2, 2]>
#groups = #tile.blocked<per_thread = [1, 8], lanes = [32, 1], warps = [1, 2], order = [1, 0], num_warps = 16>
!gb = !tile.shared<96x80xf16, #tile.swizzled<32>>

// CHECK-LABEL: llvm.func @groups
// CHECK-SAME: dl.shared_bytes = 15360
// CHECK-SAME: nvvm.reqntid = array<i32: 512>
// Warps 8 and up start at row 16 of B: 512 bytes.
// CHECK-DAG: %[[WIDTH:.*]] = llvm.mlir.constant(512 : i32) : i32
// CHECK-DAG: %[[THREADS:.*]] = llvm.mlir.constant(256 : i32) : i32
// CHECK-DAG: %[[THREAD:.*]] = nvvm.read.ptx.sreg.tid.x
// CHECK-DAG: %[[GROUP:.*]] = llvm.udiv %[[THREAD]], %[[THREADS]] : i32
// CHECK: %[[BYTES:.*]] = llvm.mul %[[GROUP]], %[[WIDTH]] : i32
// CHECK: %[[WIDE:.*]] = llvm.zext %[[BYTES]] : i32 to i64
// CHECK: llvm.add %{{.*}}, %[[WIDE]] : i64
// CHECK-COUNT-15: wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16
// CHECK-NOT: wgmma.mma_async
tile.kernel @groups(
    %a: memref<?x100x80xf16, strided<[?, 80, 1]>> {tile.name = "a", tile.role = "input", tile.shape = ["B", 100, 80], tile.access = "r"},
    %b: memref<?x96x80xf16, strided<[?, 80, 1]>> {tile.name = "b_t", tile.role = "input", tile.shape = ["B", 96, 80], tile.access = "r"},
    %c: memref<?x100x96xf32, strided<[?, 96, 1]>> {tile.name = "c", tile.role = "input", tile.shape = ["B", 100, 96], tile.access = "r"},
    %d: memref<?x100x96xf32, strided<[?, 96, 1]>> {tile.name = "d", tile.role = "output", tile.shape = ["B", 100, 96], tile.access = "w"})
    attributes {threads = 512 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %n = gpu.block_id x
  %rb = tile.load %b[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x96x80xf16, strided<[?, 80, 1]>> -> tensor<96x80xf16, #groups>
  %sb = tile.alloc : !gb
  tile.local_store %rb, %sb : tensor<96x80xf16, #groups>, !gb
  tile.barrier async_proxy
  %fa = tile.load %a[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x100x80xf16, strided<[?, 80, 1]>> -> tensor<100x80xf16, #ga>
  %fc = tile.load %c[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x100x96xf32, strided<[?, 96, 1]>> -> tensor<100x96xf32, #gc>
  %fd = tile.mma %fa, %sb, %fc : tensor<100x80xf16, #ga>, !gb, tensor<100x96xf32, #gc>
  tile.store %fd, %d[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<100x96xf32, #gc>, memref<?x100x96xf32, strided<[?, 96, 1]>>
  tile.return
}

// A loop over K that stages the next tile of B in the same buffer: accumulators stay in registers around the loop. 128 rows
// are two repeats along M; A lies as K x M.

#la = #tile.fragment<"wgmma.m64n64k16.bf16", "a", warps = [1, 1]>
#lc = #tile.fragment<"wgmma.m64n64k16.bf16", "c", warps = [1, 1]>

// CHECK-LABEL: llvm.func @loop
// CHECK: llvm.br ^[[HEAD:bb[0-9]+]](
// CHECK: nvvm.barrier
// CHECK: llvm.store {{.*}}, !llvm.ptr<3>
// CHECK: nvvm.fence.proxy
// CHECK-NEXT: nvvm.barrier
// CHECK-COUNT-8: wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16
// CHECK-NOT: wgmma.mma_async
// CHECK: nvvm.wgmma.wait.group
// CHECK: llvm.br ^[[HEAD]](
tile.kernel @loop(
    %a: memref<?x256x128xbf16, strided<[?, 128, 1]>> {tile.name = "a_t", tile.role = "input", tile.shape = ["B", 256, 128], tile.access = "r"},
    %b: memref<?x64x256xbf16, strided<[?, 256, 1]>> {tile.name = "b_t", tile.role = "input", tile.shape = ["B", 64, 256], tile.access = "r"},
    %d: memref<?x128x64xf32, strided<[?, 64, 1]>> {tile.name = "d", tile.role = "output", tile.shape = ["B", 128, 64], tile.access = "w"})
    attributes {threads = 128 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %c64 = arith.constant 64 : index
  %c256 = arith.constant 256 : index
  %zero = arith.constant 0.0 : f32
  %n = gpu.block_id x
  %sb = tile.alloc : !b
  %fc = tile.splat %zero : f32 -> tensor<128x64xf32, #lc>
  %fd = scf.for %k = %c0 to %c256 step %c64 iter_args(%sum = %fc) -> (tensor<128x64xf32, #lc>) {
    %rb = tile.load %b[%n, %c0, %k] axes [1, 2] in_bounds [true, true] : memref<?x64x256xbf16, strided<[?, 256, 1]>> -> tensor<64x64xbf16, #rows>
    %fa = tile.load %a[%n, %k, %c0] axes [2, 1] in_bounds [true, true] : memref<?x256x128xbf16, strided<[?, 128, 1]>> -> tensor<128x64xbf16, #la>
    tile.barrier
    tile.local_store %rb, %sb : tensor<64x64xbf16, #rows>, !b
    tile.barrier async_proxy
    %next = tile.mma %fa, %sb, %sum : tensor<128x64xbf16, #la>, !b, tensor<128x64xf32, #lc>
    scf.yield %next : tensor<128x64xf32, #lc>
  }
  tile.store %fd, %d[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<128x64xf32, #lc>, memref<?x128x64xf32, strided<[?, 64, 1]>>
  tile.return
}

// tf32: 32-bit elements, K = 40 in steps of 8 over three panels of 64 bytes, the last of them half full; B lies as K x N.

#ta = #tile.fragment<"wgmma.m64n24k8.tf32", "a", warps = [1, 1]>
#tc = #tile.fragment<"wgmma.m64n24k8.tf32", "c", warps = [1, 1]>
#turned = #tile.blocked<per_thread = [1, 4], lanes = [8, 4], warps = [1, 1], order = [0, 1], num_warps = 4>
!tb = !tile.shared<24x40xf32, #tile.swizzled<64>>

// CHECK-LABEL: llvm.func @single
// CHECK-SAME: dl.shared_bytes = 4608
// CHECK: nvvm.convert.float.to.tf32
// 32-bit elements have no transposition bit.
// CHECK-COUNT-5: wgmma.mma_async.sync.aligned.m64n24k8.f32.tf32.tf32 {$0, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11}, {$24, $25, $26, $27}, $28, p, 1, 1;\0A}"
// CHECK-NOT: wgmma.mma_async
tile.kernel @single(
    %a: memref<?x50x40xf32, strided<[?, 40, 1]>> {tile.name = "a", tile.role = "input", tile.shape = ["B", 50, 40], tile.access = "r"},
    %b: memref<?x40x24xf32, strided<[?, 24, 1]>> {tile.name = "b", tile.role = "input", tile.shape = ["B", 40, 24], tile.access = "r"},
    %d: memref<?x50x24xf32, strided<[?, 24, 1]>> {tile.name = "d", tile.role = "output", tile.shape = ["B", 50, 24], tile.access = "w"})
    attributes {threads = 128 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = gpu.block_id x
  %rb = tile.load %b[%n, %c0, %c0] axes [2, 1] in_bounds [true, true] : memref<?x40x24xf32, strided<[?, 24, 1]>> -> tensor<24x40xf32, #turned>
  %sb = tile.alloc : !tb
  tile.local_store %rb, %sb : tensor<24x40xf32, #turned>, !tb
  tile.barrier async_proxy
  %fa = tile.load %a[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x50x40xf32, strided<[?, 40, 1]>> -> tensor<50x40xf32, #ta>
  %fc = tile.splat %zero : f32 -> tensor<50x24xf32, #tc>
  %fd = tile.mma %fa, %sb, %fc : tensor<50x40xf32, #ta>, !tb, tensor<50x24xf32, #tc>
  tile.store %fd, %d[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<50x24xf32, #tc>, memref<?x50x24xf32, strided<[?, 24, 1]>>
  tile.return
}
