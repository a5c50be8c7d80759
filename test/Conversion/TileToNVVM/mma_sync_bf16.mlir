// Products by mma.sync, with sizes that no instruction divides. Names of arguments say what lies in memory: a is M x K, a_t is
// K x M, b is K x N, b_t is N x K; d = a b (+ c). tile_mma_test runs these kernels on the CPU and on GPUs.

// RUN: dl-opt %s --tile-to-nvvm | FileCheck %s
// Where ptxas is found, dl-compile also assembles; spills and warnings about wgmma are errors.
// RUN: dl-compile %s --target=sm_80,sm_90a --emit=ptx -o %t
// RUN: FileCheck %s --check-prefix=PTX < %t/product.sm_80.ptx
// RUN: FileCheck %s --check-prefix=PTX < %t/product.sm_90a.ptx

// PTX: .reqntid 128
// PTX-COUNT-12: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// PTX-NOT: mma.sync
// PTX: st.global.v2.b32

#a = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [2, 2]>
#b = #tile.fragment<"mma.m16n8k16.bf16", "b", warps = [2, 2]>
#c = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [2, 2]>

// Four warps cover 64 x 32 of a 40 x 24 result; three steps along K, none of them padded.

// CHECK-LABEL: llvm.func @product
// CHECK-SAME: nvvm.reqntid = array<i32: 128>
// Two neighbours of A are one load; a column of B is not contiguous.
// CHECK: llvm.load {{.*}} invariant {alignment = 4 : i64} : !llvm.ptr<1> -> vector<2xbf16>
// CHECK: llvm.load {{.*}} invariant {alignment = 2 : i64} : !llvm.ptr<1> -> bf16
// Accumulators start as C: two neighbours of one row at a time.
// CHECK: llvm.load {{.*}} invariant {alignment = 8 : i64} : !llvm.ptr<1> -> vector<2xf32>
// Pairs of elements are words.
// CHECK: llvm.bitcast {{.*}} : vector<2xbf16> to i32
// 2 x 2 repeats along M and N for each of three along K. The first four start from C, the rest from the sums four before.
// CHECK: %[[R0:.*]] = nvvm.mma.sync A[%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}] B[%{{.*}}, %{{.*}}] C[%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}]
// CHECK-SAME: layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>
// CHECK-SAME: multiplicandAPtxType = #nvvm.mma_type<bf16>, multiplicandBPtxType = #nvvm.mma_type<bf16>
// CHECK-SAME: shape = #nvvm.shape<m = 16, n = 8, k = 16>
// CHECK: %[[S0:.*]] = llvm.extractvalue %[[R0]][0]
// CHECK-COUNT-3: nvvm.mma.sync
// CHECK: nvvm.mma.sync {{.*}} C[%[[S0]],
// CHECK-COUNT-7: nvvm.mma.sync
// CHECK-NOT: nvvm.mma.sync
// Rows and columns beyond the result are not stored.
// CHECK: llvm.cond_br
// CHECK: llvm.store {{.*}} {alignment = 8 : i64} : vector<2xf32>, !llvm.ptr<1>
tile.kernel @product(
    %a: memref<?x40x48xbf16, strided<[?, 48, 1]>> {tile.name = "a", tile.role = "input", tile.shape = ["B", 40, 48], tile.access = "r"},
    %b: memref<?x48x24xbf16, strided<[?, 24, 1]>> {tile.name = "b", tile.role = "input", tile.shape = ["B", 48, 24], tile.access = "r"},
    %c: memref<?x40x24xf32, strided<[?, 24, 1]>> {tile.name = "c", tile.role = "input", tile.shape = ["B", 40, 24], tile.access = "r"},
    %d: memref<?x40x24xf32, strided<[?, 24, 1]>> {tile.name = "d", tile.role = "output", tile.shape = ["B", 40, 24], tile.access = "w"})
    attributes {threads = 128 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %n = gpu.block_id x
  %fa = tile.load %a[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x40x48xbf16, strided<[?, 48, 1]>> -> tensor<40x48xbf16, #a>
  %fb = tile.load %b[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x48x24xbf16, strided<[?, 24, 1]>> -> tensor<48x24xbf16, #b>
  %fc = tile.load %c[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x40x24xf32, strided<[?, 24, 1]>> -> tensor<40x24xf32, #c>
  %fd = tile.mma %fa, %fb, %fc : tensor<40x48xbf16, #a>, tensor<48x24xbf16, #b>, tensor<40x24xf32, #c>
  tile.store %fd, %d[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<40x24xf32, #c>, memref<?x40x24xf32, strided<[?, 24, 1]>>
  tile.return
}

// Tiles that reach beyond the memory: blocks of 32 x 16 over 40 x 24, and K from memory of 48 in a tile of 64.

// CHECK-LABEL: llvm.func @tiles
// CHECK-DAG: nvvm.read.ptx.sreg.ctaid.y
// CHECK-DAG: nvvm.read.ptx.sreg.ctaid.z
// Rows left of the memory's end, at most those of the tile.
// CHECK: %[[ROOM:.*]] = llvm.sub %{{.*}}, %{{.*}} : i64
// CHECK: llvm.intr.smin(%[[ROOM]], %{{.*}}) : (i64, i64) -> i64
// CHECK: llvm.icmp "slt"
// CHECK: llvm.cond_br
// B lies as N x K: its pairs along K are one load.
// CHECK-NOT: -> bf16
// CHECK-COUNT-4: nvvm.mma.sync
// CHECK-NOT: nvvm.mma.sync
tile.kernel @tiles(
    %a: memref<?x40x48xbf16, strided<[?, 48, 1]>> {tile.name = "a", tile.role = "input", tile.shape = ["B", 40, 48], tile.access = "r"},
    %b: memref<?x24x48xbf16, strided<[?, 48, 1]>> {tile.name = "b_t", tile.role = "input", tile.shape = ["B", 24, 48], tile.access = "r"},
    %d: memref<?x40x24xf32, strided<[?, 24, 1]>> {tile.name = "d", tile.role = "output", tile.shape = ["B", 40, 24], tile.access = "w"})
    attributes {threads = 128 : i64, grid = ["B", 2, 2]} {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant 0.0 : f32
  %n = gpu.block_id x
  %tm = gpu.block_id y
  %tn = gpu.block_id z
  %m0 = arith.muli %tm, %c32 : index
  %n0 = arith.muli %tn, %c16 : index
  %fa = tile.load %a[%n, %m0, %c0] axes [1, 2] : memref<?x40x48xbf16, strided<[?, 48, 1]>> -> tensor<32x64xbf16, #a>
  %fb = tile.load %b[%n, %n0, %c0] axes [2, 1] : memref<?x24x48xbf16, strided<[?, 48, 1]>> -> tensor<64x16xbf16, #b>
  %fc = tile.splat %zero : f32 -> tensor<32x16xf32, #c>
  %fd = tile.mma %fa, %fb, %fc : tensor<32x64xbf16, #a>, tensor<64x16xbf16, #b>, tensor<32x16xf32, #c>
  tile.store %fd, %d[%n, %m0, %n0] axes [1, 2] : tensor<32x16xf32, #c>, memref<?x40x24xf32, strided<[?, 24, 1]>>
  tile.return
}

// 13 of 16 along M and K, 5 of 8 along N, A transposed in memory. Both factors come through shared memory, where the
// fragments' padding reads something else than zero: along K it is taken out before the product.

#a1 = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [1, 1]>
#b1 = #tile.fragment<"mma.m16n8k16.bf16", "b", warps = [1, 1]>
#c1 = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [1, 1]>
#stage = #tile.blocked<per_thread = [1, 1], lanes = [16, 2], warps = [1, 1], order = [0, 1], num_warps = 1>

// CHECK-LABEL: llvm.func @partial
// CHECK: llvm.store {{.*}} : bf16, !llvm.ptr<3>
// CHECK: nvvm.barrier
// CHECK: llvm.load {{.*}} : !llvm.ptr<3> -> bf16
// A holds columns 2 (lane % 4) + {0, 1} + {0, 8}: those of the lower half are all inside, the others may not be.
// CHECK: %[[INSIDE:.*]] = llvm.icmp "slt" %{{.*}}, %{{.*}} : i32
// CHECK: %[[KEPT:.*]] = llvm.select %[[INSIDE]], %{{.*}}, %{{.*}} : i1, bf16
// CHECK: llvm.insertelement %[[KEPT]]
// CHECK: nvvm.mma.sync
// CHECK-NOT: nvvm.mma.sync
tile.kernel @partial(
    %a: memref<?x13x13xbf16, strided<[?, 13, 1]>> {tile.name = "a_t", tile.role = "input", tile.shape = ["B", 13, 13], tile.access = "r"},
    %b: memref<?x13x5xbf16, strided<[?, 5, 1]>> {tile.name = "b", tile.role = "input", tile.shape = ["B", 13, 5], tile.access = "r"},
    %d: memref<?x13x5xf32, strided<[?, 5, 1]>> {tile.name = "d", tile.role = "output", tile.shape = ["B", 13, 5], tile.access = "w"})
    attributes {threads = 32 : i64, grid = ["B", 1, 1]} {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = gpu.block_id x
  %ra = tile.load %a[%n, %c0, %c0] axes [2, 1] in_bounds [true, true] : memref<?x13x13xbf16, strided<[?, 13, 1]>> -> tensor<13x13xbf16, #stage>
  %rb = tile.load %b[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : memref<?x13x5xbf16, strided<[?, 5, 1]>> -> tensor<13x5xbf16, #stage>
  %sa = tile.alloc : !tile.shared<13x13xbf16, #tile.swizzled<0>>
  %sb = tile.alloc : !tile.shared<13x5xbf16, #tile.swizzled<0>>
  tile.local_store %ra, %sa : tensor<13x13xbf16, #stage>, !tile.shared<13x13xbf16, #tile.swizzled<0>>
  tile.local_store %rb, %sb : tensor<13x5xbf16, #stage>, !tile.shared<13x5xbf16, #tile.swizzled<0>>
  tile.barrier
  %fa = tile.local_load %sa : !tile.shared<13x13xbf16, #tile.swizzled<0>> -> tensor<13x13xbf16, #a1>
  %fb = tile.local_load %sb : !tile.shared<13x5xbf16, #tile.swizzled<0>> -> tensor<13x5xbf16, #b1>
  %fc = tile.splat %zero : f32 -> tensor<13x5xf32, #c1>
  %fd = tile.mma %fa, %fb, %fc : tensor<13x13xbf16, #a1>, tensor<13x5xbf16, #b1>, tensor<13x5xf32, #c1>
  tile.store %fd, %d[%n, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<13x5xf32, #c1>, memref<?x13x5xf32, strided<[?, 5, 1]>>
  tile.return
}
