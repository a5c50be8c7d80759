// Products of wgmma are waited for where their results are used, not where they are issued.

// RUN: dl-opt %s --tile-to-nvvm | FileCheck %s
// Where ptxas is found, dl-compile also assembles; warnings about serialised wgmma are errors.
// RUN: dl-compile %s --target=sm_90a --emit=ptx -o %t
// RUN: FileCheck %s --check-prefix=PTX < %t

#a = #tile.fragment<"wgmma.m64n32k16.bf16", "a", warps = [1, 1]>
#c = #tile.fragment<"wgmma.m64n32k16.bf16", "c", warps = [1, 1]>
#t = #tile.fragment<"mma.m16n16k16.bf16", "c", warps = [1, 4]>
#rows = #tile.blocked<per_thread = [1, 8], lanes = [8, 4], warps = [4, 1], order = [1, 0], num_warps = 4>
!b = !tile.shared<32x32xbf16, #tile.swizzled<64>>

// CHECK-LABEL: llvm.func @two
// The first product starts with zeros: no registers, and a scale of zero at its first step alone.
// CHECK: "wgmma.fence.sync.aligned;", "{{(=r,)+[0-9,]+}}~{memory}"
// CHECK: setp.ne.b32 p, 0, 0;{{.*}}{$0, {{.*}}$15}, {$16, $17, $18, $19}, $20, p, 1, 1, 0;{{.*}}"=&f,
// CHECK: setp.ne.b32 p, 1, 0;{{.*}}{$32, $33, $34, $35}, $36, p, 1, 1, 0;
// CHECK: nvvm.wgmma.commit.group.sync.aligned
// So does the second one, which reads a transposed.
// CHECK: setp.ne.b32 p, 0, 0;{{.*}} p, 1, 1, 1;
// CHECK: setp.ne.b32 p, 1, 0;{{.*}} p, 1, 1, 1;
// CHECK: nvvm.wgmma.commit.group.sync.aligned
// Its factor is the first one's result: that is waited for, and the second goes on.
// CHECK-NEXT: nvvm.wgmma.wait.group.sync.aligned 1
// Accumulators pass through assembly behind the wait: nothing uses them before it.
// CHECK-NEXT: %[[DONE:.*]] = llvm.inline_asm has_side_effects asm_dialect = att "", "{{(=f,)+(=r,)+0,1,2}}
// CHECK: llvm.fptrunc
// What it is added to is still at work, and does not pass through the fence.
// CHECK: "wgmma.fence.sync.aligned;", "{{(=r,)+[0-9,]+}}~{memory}"
// CHECK-NOT: wait.group
// CHECK: setp.ne.b32 p, 1, 0;
// CHECK: setp.ne.b32 p, 1, 0;
// CHECK: nvvm.wgmma.commit.group.sync.aligned
// CHECK-NEXT: nvvm.wgmma.wait.group.sync.aligned 0
// Blocks of 8 x 8 change their axes within a warp.
// CHECK-COUNT-8: "movmatrix.sync.aligned.m8n8.trans.b16 $0, $0;"
// CHECK-NOT: nvvm.barrier
// CHECK: llvm.store {{.*}} : vector<2xbf16>, !llvm.ptr<1>

// PTX: wgmma.wait_group.sync.aligned {{.*}}1;
// PTX: wgmma.wait_group.sync.aligned {{.*}}0;
// PTX: movmatrix
tile.kernel @two(
    %a: memref<?x64x32xbf16, strided<[?, 32, 1]>> {tile.name = "a", tile.role = "input", tile.shape = ["B", 64, 32], tile.access = "r"},
    %b: memref<?x32x32xbf16, strided<[?, 32, 1]>> {tile.name = "b", tile.role = "input", tile.shape = ["B", 32, 32], tile.access = "r"},
    %o: memref<?x32x64xbf16, strided<[?, 64, 1]>> {tile.name = "o", tile.role = "output", tile.shape = ["B", 32, 64], tile.access = "w"})
    attributes {threads = 128 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant dense<0.0> : tensor<64x32xf32, #c>
  %n = gpu.block_id x
  %rb = tile.load %b[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x32x32xbf16, strided<[?, 32, 1]>> -> tensor<32x32xbf16, #rows>
  %sb = tile.alloc : !b
  tile.local_store %rb, %sb : tensor<32x32xbf16, #rows>, !b
  tile.barrier async_proxy
  %fa = tile.load %a[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x64x32xbf16, strided<[?, 32, 1]>> -> tensor<64x32xbf16, #a>
  %first = tile.mma %fa, %sb, %zero : tensor<64x32xbf16, #a>, !b, tensor<64x32xf32, #c>
  %second = tile.mma %fa, %sb, %zero transposed : tensor<64x32xbf16, #a>, !b, tensor<64x32xf32, #c>
  %narrow = arith.truncf %first : tensor<64x32xf32, #c> to tensor<64x32xbf16, #c>
  %factor = tile.convert %narrow : tensor<64x32xbf16, #c> -> tensor<64x32xbf16, #a>
  %sum = tile.mma %factor, %sb, %second : tensor<64x32xbf16, #a>, !b, tensor<64x32xf32, #c>
  %out = arith.truncf %sum : tensor<64x32xf32, #c> to tensor<64x32xbf16, #c>
  %turned = tile.transpose %out : tensor<64x32xbf16, #c> -> tensor<32x64xbf16, #t>
  tile.store %turned, %o[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<32x64xbf16, #t>, memref<?x32x64xbf16, strided<[?, 64, 1]>>
  tile.return
}
