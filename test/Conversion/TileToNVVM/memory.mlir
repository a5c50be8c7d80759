// How tiles meet memory: width of the accesses, what is left out, who stores.

// RUN: dl-opt %s --convert-tile-to-nvvm --cse | FileCheck %s

#row8 = #tile.blocked<per_thread = [8], lanes = [32], warps = [1], order = [0], num_warps = 1>
#row4 = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 1>
#row2 = #tile.blocked<per_thread = [2], lanes = [32], warps = [1], order = [0], num_warps = 1>

// Every argument is read once from the parameter struct: a pointer, then its free strides.

// CHECK-LABEL: llvm.func @wide
// CHECK-SAME: (%[[P:.*]]: !llvm.ptr {llvm.align = 8 : i64, llvm.byval = !llvm.array<32 x i8>, nvvm.grid_constant})
// CHECK-SAME: attributes {dl.shared_bytes = 0 : i64, nvvm.kernel, nvvm.minctasm = 2 : i32, nvvm.reqntid = array<i32: 32>}
// CHECK: %[[X:.*]] = llvm.load %[[P]] {alignment = 8 : i64} : !llvm.ptr -> !llvm.ptr<1>
// CHECK: %[[AT8:.*]] = llvm.getelementptr inbounds %[[P]][8]
// CHECK: %[[STRIDE:.*]] = llvm.load %[[AT8]] {alignment = 4 : i64} : !llvm.ptr -> i32
// An index and a stride of 32 bits make a 64-bit offset in one instruction.
// CHECK: llvm.inline_asm {{.*}}"mul.wide.u32 $0, $1, $2;", "=l,r,r" %{{.*}}, %[[STRIDE]] : (i32, i32) -> i64
// Sixteen bytes at a time; memory that nothing writes is read past the coherent cache.
// CHECK: llvm.load {{.*}} invariant {alignment = 16 : i64} : !llvm.ptr<1> -> vector<8xbf16>
// State pools may be read and written at once, so their loads are plain.
// CHECK: llvm.load %{{[0-9]+}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK-NOT: scf.if
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
tile.kernel @wide(%x: memref<?x256xbf16, strided<[?, 1]>> {tile.name = "x", tile.role = "input", tile.access = "r"},
                  %s: memref<?x128xf32, strided<[?, 1]>> {tile.name = "S", tile.role = "state_in", tile.access = "r"})
    attributes {threads = 32 : i64, min_blocks = 2 : i64} {
  %c0 = arith.constant 0 : index
  %n = gpu.block_id x
  %a = tile.load %x[%n, %c0] axes [1] in_bounds [true] : memref<?x256xbf16, strided<[?, 1]>> -> tensor<256xbf16, #row8>
  %f = tile.load %s[%n, %c0] axes [1] in_bounds [true] : memref<?x128xf32, strided<[?, 1]>> -> tensor<128xf32, #row4>
  tile.store %f, %s[%n, %c0] axes [1] in_bounds [true] : tensor<128xf32, #row4>, memref<?x128xf32, strided<[?, 1]>>
  tile.return
}

// A run of four never crosses the end of a row of 6, nor starts in its middle: two at a time. Rows of 13 allow one.

// CHECK-LABEL: llvm.func @narrow
// CHECK-NOT: -> vector<4xf32>
// CHECK-COUNT-2: llvm.load {{.*}} {alignment = 8 : i64} : !llvm.ptr<1> -> vector<2xf32>
// CHECK-COUNT-4: llvm.load {{.*}} {alignment = 4 : i64} : !llvm.ptr<1> -> f32
// CHECK-NOT: llvm.load
// CHECK-COUNT-2: llvm.store {{.*}} {alignment = 8 : i64} : vector<2xf32>, !llvm.ptr<1>
#rows4 = #tile.blocked<per_thread = [1, 4], lanes = [8, 4], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @narrow(%x: memref<8x6xf32, strided<[6, 1]>>, %y: memref<8x13xf32, strided<[13, 1]>>) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %a = tile.load %x[%c0, %c0] axes [0, 1] in_bounds [true, true] : memref<8x6xf32, strided<[6, 1]>> -> tensor<8x6xf32, #rows4>
  %b = tile.load %y[%c0, %c0] axes [0, 1] in_bounds [true, true] : memref<8x13xf32, strided<[13, 1]>> -> tensor<8x13xf32, #rows4>
  tile.store %a, %x[%c0, %c0] axes [0, 1] in_bounds [true, true] : tensor<8x6xf32, #rows4>, memref<8x6xf32, strided<[6, 1]>>
  tile.store %b, %y[%c0, %c0] axes [0, 1] in_bounds [true, true] : tensor<8x13xf32, #rows4>, memref<8x13xf32, strided<[13, 1]>>
  tile.return
}

// A tile of 64 over memory of 96, from a run-time start: what lies at or past the end loads as zero and is not stored.

// CHECK-LABEL: llvm.func @masked
// CHECK-DAG: %[[SIZE:.*]] = arith.constant 96 : i64
// CHECK-DAG: %[[TILE:.*]] = arith.constant 64 : i64
// CHECK: %[[ROOM:.*]] = arith.subi %[[SIZE]], %[[START:.*]] : i64
// CHECK: %[[LEFT:.*]] = arith.minsi %[[ROOM]], %[[TILE]] : i64
// CHECK: %[[LIMIT:.*]] = arith.trunci %[[LEFT]] : i64 to i32
// CHECK: %[[INSIDE:.*]] = arith.cmpi slt, %{{.*}}, %[[LIMIT]] : i32
// CHECK: %[[LOADED:.*]]:2 = scf.if %[[INSIDE]] -> (bf16, bf16) {
// CHECK: llvm.load {{.*}} -> vector<2xbf16>
// CHECK: } else {
// CHECK: scf.yield %[[ZERO:.*]], %[[ZERO]] : bf16, bf16
// CHECK: scf.if %[[INSIDE]] {
// CHECK: llvm.insertelement %[[LOADED]]#0
// CHECK: llvm.store {{.*}} : vector<2xbf16>, !llvm.ptr<1>
tile.kernel @masked(%x: memref<96xbf16, strided<[1]>>, %y: memref<96xbf16, strided<[1]>>) attributes {threads = 32 : i64} {
  %c64 = arith.constant 64 : index
  %n = gpu.block_id x
  %start = arith.muli %n, %c64 : index
  %a = tile.load %x[%start] axes [0] : memref<96xbf16, strided<[1]>> -> tensor<64xbf16, #row2>
  tile.store %a, %y[%start] axes [0] : tensor<64xbf16, #row2>, memref<96xbf16, strided<[1]>>
  tile.return
}

// Padding of the layout (40 of 64) is left out even where the memory goes on.

// CHECK-LABEL: llvm.func @padded
// CHECK-NOT: arith.minsi
// CHECK: %[[SHAPE:.*]] = arith.constant 40 : i32
// CHECK: %[[INSIDE:.*]] = arith.cmpi slt, %{{.*}}, %[[SHAPE]] : i32
// CHECK: scf.if %[[INSIDE]] -> (f32, f32)
// CHECK: scf.if %[[INSIDE]] {
// CHECK: llvm.store
tile.kernel @padded(%x: memref<?x64xf32, strided<[?, 1]>>) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %a = tile.load %x[%c0, %c0] axes [1] in_bounds [true] : memref<?x64xf32, strided<[?, 1]>> -> tensor<40xf32, #row2>
  tile.store %a, %x[%c0, %c0] axes [1] in_bounds [true] : tensor<40xf32, #row2>, memref<?x64xf32, strided<[?, 1]>>
  tile.return
}

// Of a vector that two lanes and four warps hold alike, lane 0 of 2 and warp 0 store.

#rows = #tile.blocked<per_thread = [4, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>

// CHECK-LABEL: llvm.func @owner
// CHECK-DAG: %[[THREAD:.*]] = nvvm.read.ptx.sreg.tid.x range <i32, 0, 128>
// CHECK-DAG: %[[SIXTEEN:.*]] = arith.constant 16 : i32
// CHECK-DAG: %[[UPPER:.*]] = arith.divui %[[THREAD]], %[[SIXTEEN]] : i32
// CHECK-DAG: %[[HALF:.*]] = arith.remui %[[UPPER]], %{{.*}} : i32
// CHECK-DAG: %[[WARP:.*]] = arith.divui %[[THREAD]], %{{.*}} : i32
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %[[HALF]], %{{.*}} : i32
// CHECK: %[[ZERO:.*]] = arith.cmpi eq, %[[WARP]], %{{.*}} : i32
// CHECK: %[[OWNER:.*]] = arith.andi %[[FIRST]], %[[ZERO]] : i1
// CHECK: scf.if %[[OWNER]] {
// CHECK: llvm.store {{.*}} : vector<4xf32>, !llvm.ptr<1>
tile.kernel @owner(%y: memref<64xf32, strided<[1]>>) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %one = arith.constant 1.0 : f32
  %v = tile.splat %one : f32 -> tensor<64xf32, #tile.slice<0, #rows>>
  tile.store %v, %y[%c0] axes [0] in_bounds [true] : tensor<64xf32, #tile.slice<0, #rows>>, memref<64xf32, strided<[1]>>
  tile.return
}

// Along an axis whose stride is a parameter, registers are multiples of it away; the other axis has constant offsets.

// CHECK-LABEL: llvm.func @strided
// CHECK: %[[STRIDE32:.*]] = llvm.load %{{.*}} : !llvm.ptr -> i32
// CHECK: %[[STRIDE:.*]] = llvm.zext %[[STRIDE32]] : i32 to i64
// CHECK: llvm.load {{.*}} -> vector<2xf32>
// CHECK: %[[BYTES:.*]] = arith.muli %[[STRIDE]], %{{.*}} : i64
// CHECK: llvm.getelementptr inbounds %{{.*}}[%[[BYTES]]]
#two = #tile.blocked<per_thread = [2, 2], lanes = [8, 4], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @strided(%x: memref<16x8xf32, strided<[?, 1]>>) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %a = tile.load %x[%c0, %c0] axes [0, 1] in_bounds [true, true] : memref<16x8xf32, strided<[?, 1]>> -> tensor<16x8xf32, #two>
  tile.store %a, %x[%c0, %c0] axes [0, 1] in_bounds [true, true] : tensor<16x8xf32, #two>, memref<16x8xf32, strided<[?, 1]>>
  tile.return
}

// Scalars: every thread loads, one stores. An argument that may be left out is a pointer that may be null.

// CHECK-LABEL: llvm.func @scalars
// CHECK: %[[SLOTS:.*]] = llvm.load {{.*}} -> !llvm.ptr<1>
// CHECK-NOT: griddepcontrol
// CHECK: %[[NULL:.*]] = llvm.mlir.zero : !llvm.ptr<1>
// CHECK: %[[PRESENT:.*]] = llvm.icmp "ne" %{{.*}}, %[[NULL]] : !llvm.ptr<1>
// CHECK: scf.if %[[PRESENT]] -> (i32) {
// CHECK: llvm.load {{.*}}invariant{{.*}} : !llvm.ptr<1> -> i32
// CHECK: llvm.load {{.*}} : !llvm.ptr<1> -> f32
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %{{.*}}, %{{.*}} : i32
// CHECK: scf.if %[[FIRST]] {
// CHECK: llvm.store {{.*}} : f32, !llvm.ptr<1>
tile.kernel @scalars(%slots: memref<?xi32, strided<[?]>> {tile.access = "r", tile.role = "slots_in"}, %x: memref<?xf32, strided<[?]>>) attributes {threads = 64 : i64} {
  %n = gpu.block_id x
  %itself = arith.index_cast %n : index to i32
  %there = tile.is_present %slots : memref<?xi32, strided<[?]>>
  %slot = scf.if %there -> i32 {
    %entry = memref.load %slots[%n] : memref<?xi32, strided<[?]>>
    scf.yield %entry : i32
  } else {
    scf.yield %itself : i32
  }
  %i = arith.index_cast %slot : i32 to index
  %v = memref.load %x[%i] : memref<?xf32, strided<[?]>>
  memref.store %v, %x[%n] : memref<?xf32, strided<[?]>>
  tile.return
}

// A grid that may have been launched early waits. What the grid before it may still write is no
// constant; parameters are.

// CHECK-LABEL: llvm.func @early
// CHECK: nvvm.griddepcontrol wait
// CHECK: llvm.load %{{[^i]*}} {alignment = 4 : i64} : !llvm.ptr<1> -> f32
// CHECK: llvm.load {{.*}}invariant{{.*}} : !llvm.ptr<1> -> f32
tile.kernel @early(%x: memref<?xf32, strided<[?]>> {tile.access = "r", tile.role = "input"},
                   %p: memref<?xf32, strided<[?]>> {tile.access = "r", tile.role = "param"},
                   %y: memref<?xf32, strided<[?]>>) attributes {threads = 64 : i64} {
  tile.grid_wait
  %n = gpu.block_id x
  %a = memref.load %x[%n] : memref<?xf32, strided<[?]>>
  %b = memref.load %p[%n] : memref<?xf32, strided<[?]>>
  %v = arith.addf %a, %b : f32
  memref.store %v, %y[%n] : memref<?xf32, strided<[?]>>
  tile.return
}

// Shared buffers: one allocation each, aligned to the swizzle's period (12 rows of 128 bytes take 2048). Sixteen bytes are one chunk, which the swizzle moves
// whole; padding is not stored, and reads some element of the buffer.

#chunks = #tile.blocked<per_thread = [1, 8], lanes = [4, 8], warps = [1, 1], order = [1, 0], num_warps = 1>
#column = #tile.blocked<per_thread = [1, 2], lanes = [8, 4], warps = [1, 1], order = [1, 0], num_warps = 1>

// CHECK-LABEL: llvm.func @shared
// CHECK-SAME: dl.shared_bytes = 2384 : i64
// CHECK: llvm.mlir.addressof @dl_shared : !llvm.ptr<3>
// CHECK: arith.xori
// CHECK: llvm.store {{.*}} {alignment = 16 : i64} : vector<8xbf16>, !llvm.ptr<3>
// CHECK: nvvm.barrier
// CHECK: llvm.getelementptr inbounds %{{.*}}[2048] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
// CHECK: scf.if
// CHECK: llvm.store {{.*}} {alignment = 2 : i64} : bf16, !llvm.ptr<3>
// CHECK: arith.minui
// CHECK: llvm.load {{.*}} : !llvm.ptr<3> -> bf16
tile.kernel @shared(%x: memref<12x64xbf16, strided<[64, 1]>>) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %a = tile.load %x[%c0, %c0] axes [0, 1] in_bounds [true, true] : memref<12x64xbf16, strided<[64, 1]>> -> tensor<12x64xbf16, #chunks>
  %s = tile.alloc : !tile.shared<12x64xbf16, #tile.swizzled<128>>
  tile.local_store %a, %s : tensor<12x64xbf16, #chunks>, !tile.shared<12x64xbf16, #tile.swizzled<128>>
  tile.barrier
  %b = tile.load %x[%c0, %c0] axes [0, 1] in_bounds [true, true] : memref<12x64xbf16, strided<[64, 1]>> -> tensor<11x15xbf16, #column>
  %t = tile.alloc : !tile.shared<11x15xbf16, #tile.swizzled<0>>
  tile.local_store %b, %t : tensor<11x15xbf16, #column>, !tile.shared<11x15xbf16, #tile.swizzled<0>>
  tile.barrier
  %c = tile.local_load %t : !tile.shared<11x15xbf16, #tile.swizzled<0>> -> tensor<11x15xbf16, #column>
  tile.store %c, %x[%c0, %c0] axes [0, 1] in_bounds [true, true] : tensor<11x15xbf16, #column>, memref<12x64xbf16, strided<[64, 1]>>
  tile.return
}
