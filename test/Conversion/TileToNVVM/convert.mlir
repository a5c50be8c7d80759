// Layout conversions: none, within each warp, through the block; and expansion, which moves nothing.

// RUN: dl-opt %s --convert-tile-to-nvvm --cse | FileCheck %s

#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 4>
#pairs = #tile.blocked<per_thread = [2], lanes = [32], warps = [1], order = [0], num_warps = 4>
#spread = #tile.blocked<per_thread = [1], lanes = [32], warps = [4], order = [0], num_warps = 4>
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>

// Each warp holds the vector whole, before and after: each has its own 512 bytes, and only waits for itself.

// CHECK-LABEL: llvm.func @in_warp
// CHECK-SAME: dl.shared_bytes = 2048
// CHECK: arith.muli %{{.*}}, %c128_i32 : i32
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<3>
// CHECK-NOT: nvvm.barrier
// CHECK: nvvm.bar.warp.sync
// CHECK-COUNT-2: llvm.load {{.*}} {alignment = 8 : i64} : !llvm.ptr<3> -> vector<2xf32>
// CHECK-NOT: nvvm.barrier
// CHECK: llvm.return
tile.kernel @in_warp(%x: memref<128xf32, strided<[1]>>) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %v = tile.load %x[%c0] axes [0] in_bounds [true] : memref<128xf32, strided<[1]>> -> tensor<128xf32, #row>
  %w = tile.convert %v : tensor<128xf32, #row> -> tensor<128xf32, #pairs>
  tile.store %w, %x[%c0] axes [0] in_bounds [true] : tensor<128xf32, #pairs>, memref<128xf32, strided<[1]>>
  tile.return
}

// A vector spread over the warps, wanted whole by each: through one buffer, and the whole block waits.

// CHECK-LABEL: llvm.func @in_block
// CHECK-SAME: dl.shared_bytes = 512
// CHECK: llvm.store {{.*}} {alignment = 4 : i64} : f32, !llvm.ptr<3>
// CHECK-NOT: nvvm.bar.warp.sync
// CHECK: nvvm.barrier
// CHECK: llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xf32>
tile.kernel @in_block(%x: memref<128xf32, strided<[1]>>) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %v = tile.load %x[%c0] axes [0] in_bounds [true] : memref<128xf32, strided<[1]>> -> tensor<128xf32, #spread>
  %w = tile.convert %v : tensor<128xf32, #spread> -> tensor<128xf32, #row>
  tile.store %w, %x[%c0] axes [0] in_bounds [true] : tensor<128xf32, #row>, memref<128xf32, strided<[1]>>
  tile.return
}

// Two lanes hold each element of the slice; one of them writes. Elements of 16 bits go four at a time.

// CHECK-LABEL: llvm.func @copies
// CHECK-SAME: dl.shared_bytes = 512
// CHECK: %[[OWNER:.*]] = arith.cmpi eq, %{{.*}}, %c0_i32 : i32
// CHECK: scf.if %[[OWNER]] {
// CHECK: llvm.store {{.*}} {alignment = 8 : i64} : vector<4xbf16>, !llvm.ptr<3>
// CHECK: }
// CHECK: nvvm.bar.warp.sync
// CHECK: llvm.load {{.*}} {alignment = 4 : i64} : !llvm.ptr<3> -> vector<2xbf16>
tile.kernel @copies(%x: memref<64xbf16, strided<[1]>>) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %v = tile.load %x[%c0] axes [0] in_bounds [true] : memref<64xbf16, strided<[1]>> -> tensor<64xbf16, #tile.slice<0, #rows>>
  %w = tile.convert %v : tensor<64xbf16, #tile.slice<0, #rows>> -> tensor<64xbf16, #pairs>
  tile.store %w, %x[%c0] axes [0] in_bounds [true] : tensor<64xbf16, #pairs>, memref<64xbf16, strided<[1]>>
  tile.return
}

// The same elements in the same registers under another name: nothing to do. Expansion repeats registers.

// CHECK-LABEL: llvm.func @renamed
// CHECK-SAME: dl.shared_bytes = 0
// CHECK: %[[LOADED:.*]] = llvm.load {{.*}} -> vector<4xf32>
// CHECK: %[[E0:.*]] = llvm.extractelement %[[LOADED]][%c0_i32
// CHECK-NOT: llvm.ptr<3>
// CHECK: arith.addf %[[E0]], %[[E0]] : f32
// CHECK: llvm.store
#tall = #tile.blocked<per_thread = [2, 4], lanes = [1, 32], warps = [1, 1], order = [1, 0], num_warps = 1>
#flat = #tile.blocked<per_thread = [4, 1], lanes = [32, 1], warps = [1, 1], order = [0, 1], num_warps = 1>
tile.kernel @renamed(%x: memref<128xf32, strided<[1]>>, %y: memref<2x128xf32, strided<[128, 1]>>) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %v = tile.load %x[%c0] axes [0] in_bounds [true] : memref<128xf32, strided<[1]>> -> tensor<128xf32, #tile.slice<1, #flat>>
  %w = tile.convert %v : tensor<128xf32, #tile.slice<1, #flat>> -> tensor<128xf32, #tile.slice<0, #tall>>
  %m = tile.expand %w axis 0 : tensor<128xf32, #tile.slice<0, #tall>> -> tensor<2x128xf32, #tall>
  %t = arith.addf %m, %m : tensor<2x128xf32, #tall>
  tile.store %t, %y[%c0, %c0] axes [0, 1] in_bounds [true, true] : tensor<2x128xf32, #tall>, memref<2x128xf32, strided<[128, 1]>>
  tile.return
}
