// Sums in one fixed tree: registers in ascending order, lanes by a butterfly, warps in ascending order.

// RUN: dl-opt %s --convert-tile-to-nvvm --cse | FileCheck %s

#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 4>
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>

// A vector that every warp holds whole: no exchange between warps, no barrier, the sum is uniform.

// CHECK-LABEL: llvm.func @vector
// CHECK-SAME: dl.shared_bytes = 0
// CHECK: %[[LOADED:.*]] = llvm.load {{.*}} -> vector<4xf32>
// CHECK: %[[E0:.*]] = llvm.extractelement %[[LOADED]][%c0_i32
// CHECK: %[[E1:.*]] = llvm.extractelement %[[LOADED]][%c1_i32
// CHECK: %[[E2:.*]] = llvm.extractelement %[[LOADED]][%c2_i32
// CHECK: %[[E3:.*]] = llvm.extractelement %[[LOADED]][%c3_i32
// CHECK: %[[S1:.*]] = arith.addf %[[E0]], %[[E1]] : f32
// CHECK: %[[S2:.*]] = arith.addf %[[S1]], %[[E2]] : f32
// CHECK: %[[S3:.*]] = arith.addf %[[S2]], %[[E3]] : f32
// CHECK: %[[X1:.*]] = nvvm.shfl.sync bfly %{{.*}}, %[[S3]], %c1_i32, %c31_i32 : f32 -> f32
// CHECK: %[[T1:.*]] = arith.addf %[[S3]], %[[X1]] : f32
// CHECK: nvvm.shfl.sync bfly %{{.*}}, %[[T1]], %c2_i32, %c31_i32
// CHECK: nvvm.shfl.sync bfly {{.*}}, %c4_i32, %c31_i32
// CHECK: nvvm.shfl.sync bfly {{.*}}, %c8_i32, %c31_i32
// CHECK: %[[X16:.*]] = nvvm.shfl.sync bfly {{.*}}, %[[T8:.*]], %c16_i32, %c31_i32
// CHECK: %[[SUM:.*]] = arith.addf %[[T8]], %[[X16]] : f32
// CHECK-NOT: nvvm.barrier
// CHECK: llvm.store %[[SUM]]
tile.kernel @vector(%x: memref<128xf32, strided<[1]>>, %y: memref<?xf32, strided<[?]>>) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %v = tile.load %x[%c0] axes [0] in_bounds [true] : memref<128xf32, strided<[1]>> -> tensor<128xf32, #row>
  %s = tile.reduce %v axis 0 : tensor<128xf32, #row> -> f32
  memref.store %s, %y[%c0] : memref<?xf32, strided<[?]>>
  tile.return
}

// Columns of a matrix over four warps: two registers, two lanes, then through shared memory, four columns at a time. Two
// operands share one barrier: 2 x 4 warps x 64 columns x 4 bytes.

// CHECK-LABEL: llvm.func @columns
// CHECK-SAME: dl.shared_bytes = 2048
// CHECK-COUNT-8: nvvm.shfl.sync bfly {{.*}}, %c16_i32, %c31_i32
// CHECK-NOT: nvvm.shfl.sync
// Lanes that hold equal sums write once; every warp has its own row of the buffer.
// CHECK: %[[WRITES:.*]] = arith.cmpi eq, %{{.*}}, %c0_i32 : i32
// CHECK: scf.if %[[WRITES]] {
// CHECK: %[[WARP:.*]] = arith.muli %{{.*}}, %c64_i32 : i32
// CHECK-COUNT-2: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<3>
// CHECK: }
// CHECK: nvvm.barrier
// CHECK: %[[W0:.*]] = llvm.load {{.*}} {alignment = 16 : i64} : !llvm.ptr<3> -> vector<4xf32>
// CHECK: %[[A:.*]] = llvm.extractelement %[[W0]][%c0_i32
// CHECK: llvm.getelementptr inbounds %{{.*}}[256] : (!llvm.ptr<3>)
// CHECK: %[[W1:.*]] = llvm.load {{.*}} : !llvm.ptr<3> -> vector<4xf32>
// CHECK: %[[B:.*]] = llvm.extractelement %[[W1]][%c0_i32
// CHECK: arith.addf %[[A]], %[[B]] : f32
// CHECK: llvm.getelementptr inbounds %{{.*}}[512] : (!llvm.ptr<3>)
// CHECK: llvm.getelementptr inbounds %{{.*}}[768] : (!llvm.ptr<3>)
// CHECK-NOT: nvvm.barrier
// CHECK: llvm.return
tile.kernel @columns(%x: memref<16x64xf32, strided<[64, 1]>>, %y: memref<64xf32, strided<[1]>>, %z: memref<64xf32, strided<[1]>>)
    attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %m = tile.load %x[%c0, %c0] axes [0, 1] in_bounds [true, true] : memref<16x64xf32, strided<[64, 1]>> -> tensor<16x64xf32, #rows>
  %q = arith.mulf %m, %m : tensor<16x64xf32, #rows>
  %s, %t = tile.reduce %m, %q axis 0 : tensor<16x64xf32, #rows>, tensor<16x64xf32, #rows> -> tensor<64xf32, #tile.slice<0, #rows>>, tensor<64xf32, #tile.slice<0, #rows>>
  tile.store %s, %y[%c0] axes [0] in_bounds [true] : tensor<64xf32, #tile.slice<0, #rows>>, memref<64xf32, strided<[1]>>
  tile.store %t, %z[%c0] axes [0] in_bounds [true] : tensor<64xf32, #tile.slice<0, #rows>>, memref<64xf32, strided<[1]>>
  tile.return
}

// A product with a matrix: fused multiply-adds from zero in the order of the registers, then as above. Along the other axis
// one warp holds everything.

// CHECK-LABEL: llvm.func @dot
// CHECK-SAME: dl.shared_bytes = 0
// CHECK: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[F0:.*]] = llvm.intr.fma(%{{.*}}, %{{.*}}, %[[ZERO]])
// CHECK: %[[F1:.*]] = llvm.intr.fma(%{{.*}}, %{{.*}}, %[[F0]])
// CHECK: %[[F2:.*]] = llvm.intr.fma(%{{.*}}, %{{.*}}, %[[F1]])
// CHECK: llvm.intr.fma(%{{.*}}, %{{.*}}, %[[F2]])
// CHECK: llvm.intr.fma(%{{.*}}, %{{.*}}, %[[ZERO]])
// CHECK-COUNT-2: nvvm.shfl.sync bfly {{.*}}, %c1_i32, %c31_i32
// CHECK-COUNT-2: nvvm.shfl.sync bfly {{.*}}, %c2_i32, %c31_i32
// CHECK-COUNT-2: nvvm.shfl.sync bfly {{.*}}, %c4_i32, %c31_i32
// CHECK-COUNT-2: nvvm.shfl.sync bfly {{.*}}, %c8_i32, %c31_i32
// CHECK-NOT: nvvm.shfl.sync
// CHECK-NOT: nvvm.barrier
// CHECK: llvm.return
tile.kernel @dot(%x: memref<16x64xf32, strided<[64, 1]>>, %v: memref<64xf32, strided<[1]>>, %y: memref<16xf32, strided<[1]>>)
    attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %m = tile.load %x[%c0, %c0] axes [0, 1] in_bounds [true, true] : memref<16x64xf32, strided<[64, 1]>> -> tensor<16x64xf32, #rows>
  %k = tile.load %v[%c0] axes [0] in_bounds [true] : memref<64xf32, strided<[1]>> -> tensor<64xf32, #tile.slice<0, #rows>>
  %s = tile.dot %k with %m axis 1 : tensor<64xf32, #tile.slice<0, #rows>> with tensor<16x64xf32, #rows> -> tensor<16xf32, #tile.slice<1, #rows>>
  tile.store %s, %y[%c0] axes [0] in_bounds [true] : tensor<16xf32, #tile.slice<1, #rows>>, memref<16xf32, strided<[1]>>
  tile.return
}

// Two parts share the sums, and so the lanes' shuffles and the warps' exchange. Two rows of a matrix, then one of a log.

#two = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
#log = #tile.blocked<per_thread = [1, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>

// CHECK-LABEL: llvm.func @two_parts
// CHECK-SAME: dl.shared_bytes = 1024
// CHECK: %[[INSIDE:.*]] = arith.cmpi slt, %{{.*}}, %c5_i32
// CHECK: %[[S0:.*]] = llvm.intr.fma(%{{.*}}, %{{.*}}, %[[ZERO:cst[_0-9]*]])
// CHECK: %[[S1:.*]] = llvm.intr.fma(%{{.*}}, %{{.*}}, %[[S0]])
// CHECK-COUNT-6: llvm.intr.fma
// CHECK: %[[W:.*]] = arith.select %[[INSIDE]], %{{.*}}, %[[ZERO]] : f32
// CHECK: %[[N:.*]] = arith.select %[[INSIDE]], %{{.*}}, %[[ZERO]] : f32
// CHECK: llvm.intr.fma(%[[W]], %[[N]], %[[S1]])
// CHECK-COUNT-3: llvm.intr.fma
// CHECK-NOT: llvm.intr.fma
// CHECK-COUNT-4: nvvm.shfl.sync bfly {{.*}}, %c16_i32, %c31_i32
// CHECK-NOT: nvvm.shfl.sync
// CHECK: nvvm.barrier
// CHECK-NOT: nvvm.barrier
// CHECK: llvm.return
tile.kernel @two_parts(%x: memref<16x64xf32, strided<[64, 1]>>, %v: memref<16xf32, strided<[1]>>, %y: memref<64xf32, strided<[1]>>) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %m = tile.load %x[%c0, %c0] axes [0, 1] in_bounds [true, true] : memref<16x64xf32, strided<[64, 1]>> -> tensor<16x64xf32, #two>
  %n = tile.load %x[%c0, %c0] axes [0, 1] in_bounds [true, true] : memref<16x64xf32, strided<[64, 1]>> -> tensor<5x64xf32, #log>
  %k = tile.load %v[%c0] axes [0] in_bounds [true] : memref<16xf32, strided<[1]>> -> tensor<16xf32, #tile.slice<1, #two>>
  %w = tile.load %v[%c0] axes [0] in_bounds [true] : memref<16xf32, strided<[1]>> -> tensor<5xf32, #tile.slice<1, #log>>
  %s = tile.dot %k with %m and %w with %n axis 0 : tensor<16xf32, #tile.slice<1, #two>> with tensor<16x64xf32, #two> and tensor<5xf32, #tile.slice<1, #log>> with tensor<5x64xf32, #log> -> tensor<64xf32, #tile.slice<0, #two>>
  tile.store %s, %y[%c0] axes [0] in_bounds [true] : tensor<64xf32, #tile.slice<0, #two>>, memref<64xf32, strided<[1]>>
  tile.return
}

// 100 of 128: padding holds anything and takes no part.

// CHECK-LABEL: llvm.func @padded
// CHECK: %[[SIZE:.*]] = arith.constant 100 : i32
// CHECK: %[[INSIDE:.*]] = arith.cmpi slt, %{{.*}}, %[[SIZE]] : i32
// CHECK: %[[TERM:.*]] = arith.select %[[INSIDE]], %{{.*}}, %{{.*}} : f32
// CHECK: arith.addf %[[TERM]],
// CHECK: nvvm.shfl.sync
tile.kernel @padded(%x: memref<100xf32, strided<[1]>>, %y: memref<?xf32, strided<[?]>>) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %one = arith.constant 1.0 : f32
  %v = tile.load %x[%c0] axes [0] in_bounds [true] : memref<100xf32, strided<[1]>> -> tensor<100xf32, #row>
  %e = tile.splat %one : f32 -> tensor<100xf32, #row>
  %w = arith.addf %v, %e : tensor<100xf32, #row>
  %s = tile.reduce %w axis 0 : tensor<100xf32, #row> -> f32
  memref.store %s, %y[%c0] : memref<?xf32, strided<[?]>>
  tile.return
}
