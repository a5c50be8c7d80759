// Rows of a ring: a step back at its end, predicated loads, no branches.

// RUN: dl-opt %s --convert-tile-to-nvvm --cse | FileCheck %s

// Two rows of a thread, four columns each: the row of lane / 16 plus 0 or 2, in a ring of 16 rows of 256 bytes.

#rows = #tile.blocked<per_thread = [1, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>

// CHECK-LABEL: llvm.func @matrix
// CHECK: llvm.getelementptr inbounds %{{.*}}[20]
// CHECK: %[[COUNT:.*]] = llvm.load %{{.*}} : !llvm.ptr -> i32
// CHECK: %[[START:.*]] = arith.trunci %{{.*}} : i64 to i32
// CHECK: %[[FIRST:.*]] = arith.addi %[[START]], %[[ROW:.*]] : i32
// CHECK: %[[STEP:.*]] = arith.muli %{{.*}}, %c-64_i64 : i64
// CHECK: %[[WRAPS0:.*]] = arith.cmpi sge, %[[FIRST]], %c16_i32 : i32
// CHECK: %[[STEP0:.*]] = arith.select %[[WRAPS0]], %[[STEP]], %c0_i64 : i64
// CHECK: %[[AT0:.*]] = llvm.getelementptr inbounds %{{.*}}[%[[STEP0]]]
// CHECK: arith.cmpi slt, %{{.*}}, %[[COUNT]] : i32
// CHECK-NOT: scf.if
// CHECK: llvm.inline_asm {{.*}}@p ld.global.v4.b32 {{.*}} %[[AT0]] :
// CHECK: %[[WRAPS2:.*]] = arith.cmpi sge, %[[FIRST]], %c14_i32 : i32
// CHECK: %[[STEP2:.*]] = arith.select %[[WRAPS2]], %[[STEP]], %c0_i64 : i64
// CHECK: %[[AT2:.*]] = llvm.getelementptr inbounds %{{.*}}[%[[STEP2]]]
// CHECK: %[[THIRD:.*]] = arith.addi %[[ROW]], %c2_i32 : i32
// CHECK: arith.cmpi slt, %[[THIRD]], %[[COUNT]] : i32
// CHECK: llvm.inline_asm {{.*}}@p ld.global.v4.b32 {{.*}} %[[AT2]] :
tile.kernel @matrix(%x: memref<?x16x64xf32, strided<[?, ?, 1]>>, %s: i32, %n: i32) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %b = gpu.block_id x
  %start = arith.index_cast %s : i32 to index
  %v = tile.ring_load %x[%b, %start, %c0] axes [1, 2] in_bounds [true, true] count %n : memref<?x16x64xf32, strided<[?, ?, 1]>> -> tensor<4x64xf32, #rows>
  tile.store %v, %x[%b, %c0, %c0] axes [1, 2] in_bounds [true, true] : tensor<4x64xf32, #rows>, memref<?x16x64xf32, strided<[?, ?, 1]>>
  tile.return
}

// A vector of numbers, 10 of a padded 32: the ring's neighbours are not loaded as one, for the end may be between them.

#pairs = #tile.blocked<per_thread = [2], lanes = [32], warps = [1], order = [0], num_warps = 1>

// CHECK-LABEL: llvm.func @vector
// CHECK: %[[LIMIT:.*]] = arith.minsi %{{.*}}, %c10_i32 : i32
// CHECK-COUNT-2: llvm.inline_asm {{.*}}@p ld.global.b16
// CHECK-NOT: @p ld.global
tile.kernel @vector(%x: memref<16xbf16, strided<[1]>>, %s: i32, %n: i32) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %start = arith.index_cast %s : i32 to index
  %v = tile.ring_load %x[%start] axes [0] count %n : memref<16xbf16, strided<[1]>> -> tensor<10xbf16, #pairs>
  tile.store %v, %x[%c0] axes [0] : tensor<10xbf16, #pairs>, memref<16xbf16, strided<[1]>>
  tile.return
}

// Bytes travel in words.

#bytes = #tile.blocked<per_thread = [1, 8], lanes = [16, 2], warps = [1, 1], order = [1, 0], num_warps = 1>

// CHECK-LABEL: llvm.func @bytes
// CHECK: llvm.inline_asm {{.*}}@p ld.global.v2.b32
// CHECK: llvm.bitcast %{{.*}} : i32 to vector<4xi8>
tile.kernel @bytes(%x: memref<16x16xi8, strided<[16, 1]>>, %s: i32, %n: i32) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %start = arith.index_cast %s : i32 to index
  %v = tile.ring_load %x[%start, %c0] axes [0, 1] in_bounds [true, true] count %n : memref<16x16xi8, strided<[16, 1]>> -> tensor<16x16xi8, #bytes>
  tile.store %v, %x[%c0, %c0] axes [0, 1] in_bounds [true, true] : tensor<16x16xi8, #bytes>, memref<16x16xi8, strided<[16, 1]>>
  tile.return
}
