// RUN: dl-opt %s --convert-tile-to-cpu --cse --split-input-file | FileCheck %s

// The example of the pass description: two neighbours in each thread.

#row = #tile.blocked<per_thread = [2], lanes = [32], warps = [1], order = [0], num_warps = 1>

// CHECK-LABEL: llvm.func @double(
// CHECK-SAME:    %[[PARAMS:.+]]: !llvm.ptr {llvm.noalias}, %{{.+}}: !llvm.ptr, %[[SCRATCH:.+]]: !llvm.ptr {llvm.align = 64 : i64, llvm.noalias}) -> i32
// CHECK-SAME:    attributes {dl.scratch_bytes = 512 : i64}
tile.kernel @double(%x: memref<64xf32, strided<[1]>>) attributes {threads = 32 : i64} {
  // CHECK-DAG:  %[[C0:.+]] = arith.constant 0 : i64
  // CHECK-DAG:  %[[C2:.+]] = arith.constant 2 : i64
  // CHECK-DAG:  %[[C32:.+]] = arith.constant 32 : i64
  // CHECK-DAG:  %[[C64:.+]] = arith.constant 64 : i64
  // CHECK:      %[[X:.+]] = llvm.load %[[PARAMS]] {{.*}} -> !llvm.ptr
  %c0 = arith.constant 0 : index
  // CHECK:      scf.for %[[T:.+]] = %[[C0]] to %[[C32]]
  // CHECK-NEXT:   %[[BASE:.+]] = arith.muli %[[T]], %[[C2]]
  // CHECK-NEXT:   scf.for %[[R:.+]] = %[[C0]] to %[[C2]]
  // CHECK-NEXT:     %[[AT:.+]] = arith.addi %[[BASE]], %[[R]]
  // CHECK-NEXT:     %[[FROM:.+]] = llvm.getelementptr %[[X]][%[[AT]]]
  // CHECK-NEXT:     %[[V:.+]] = llvm.load %[[FROM]]
  // CHECK-NEXT:     %[[TO:.+]] = llvm.getelementptr %[[SCRATCH]][%[[AT]]]
  // CHECK-NEXT:     llvm.store %[[V]], %[[TO]]
  %v = tile.load %x[%c0] axes [0] : memref<64xf32, strided<[1]>> -> tensor<64xf32, #row>
  // CHECK:      scf.for %[[I:.+]] = %[[C0]] to %[[C64]]
  // CHECK:        arith.addf
  // CHECK:        llvm.store
  %y = arith.addf %v, %v : tensor<64xf32, #row>
  // CHECK:      scf.for
  // CHECK:        scf.for
  tile.store %y, %x[%c0] axes [0] : tensor<64xf32, #row>, memref<64xf32, strided<[1]>>
  // CHECK:      llvm.return %{{.+}} : i32
  tile.return
}

// -----

// Parameters in order: pointer, its free strides, scalars at their alignment. The tile starts at the row of the block.

#row = #tile.blocked<per_thread = [1], lanes = [32], warps = [1], order = [0], num_warps = 1>

// CHECK-LABEL: llvm.func @parameters(
// CHECK-SAME:    %[[PARAMS:.+]]: !llvm.ptr {llvm.noalias}, %[[BLOCK:.+]]: !llvm.ptr,
tile.kernel @parameters(%f: f32, %x: memref<?x32xf32, strided<[?, 1]>>) attributes {threads = 32 : i64} {
  // CHECK-DAG:  %[[C8:.+]] = arith.constant 8 : i64
  // CHECK-DAG:  %[[C16:.+]] = arith.constant 16 : i64
  // CHECK:      %[[F:.+]] = llvm.load %[[PARAMS]] {alignment = 4 : i64} : !llvm.ptr -> f32
  // CHECK:      %[[P8:.+]] = llvm.getelementptr %[[PARAMS]][%[[C8]]]
  // CHECK:      %[[X:.+]] = llvm.load %[[P8]] {{.*}} -> !llvm.ptr
  // CHECK:      %[[P16:.+]] = llvm.getelementptr %[[PARAMS]][%[[C16]]]
  // CHECK:      %[[STRIDE32:.+]] = llvm.load %[[P16]] {{.*}} -> i32
  // CHECK:      %[[STRIDE:.+]] = arith.extui %[[STRIDE32]] : i32 to i64
  // CHECK:      %[[PY:.+]] = llvm.getelementptr %[[BLOCK]][
  // CHECK:      %[[Y32:.+]] = llvm.load %[[PY]] {{.*}} -> i32
  // CHECK:      %[[Y:.+]] = arith.index_castui %[[Y32]] : i32 to index
  %n = gpu.block_id y
  %c0 = arith.constant 0 : index
  %v = tile.splat %f : f32 -> tensor<32xf32, #row>
  // CHECK:      %[[N:.+]] = arith.index_cast %[[Y]] : index to i64
  // CHECK:      %[[ROW:.+]] = arith.muli %[[N]], %[[STRIDE]]
  // CHECK:      %[[START:.+]] = llvm.getelementptr %[[X]][%[[ROW]]]
  // CHECK:      scf.for %[[T:.+]] =
  // CHECK-NEXT:   %[[AT:.+]] = llvm.getelementptr %[[START]][%[[T]]]
  // CHECK-NEXT:   llvm.store %[[F]], %[[AT]]
  tile.store %v, %x[%n, %c0] axes [1] : tensor<32xf32, #row>, memref<?x32xf32, strided<[?, 1]>>
  tile.return
}

// -----

// 40 of 64 places are of the tensor, and the tile may reach over the end of memory. One copy of two stores.

#row = #tile.blocked<per_thread = [2], lanes = [32], warps = [1], order = [0], num_warps = 2>

// CHECK-LABEL: llvm.func @masks(
tile.kernel @masks(%x: memref<100xbf16, strided<[1]>>, %i: i64) attributes {threads = 64 : i64} {
  // CHECK-DAG:  %[[C40:.+]] = arith.constant 40 : i64
  // CHECK-DAG:  %[[C32:.+]] = arith.constant 32 : i64
  // CHECK-DAG:  %[[C100:.+]] = arith.constant 100 : i64
  // CHECK-DAG:  %[[ZERO:.+]] = arith.constant 0 : i16
  %at = arith.index_cast %i : i64 to index
  // CHECK:      %[[LEFT:.+]] = arith.subi %[[C100]],
  // CHECK:      scf.for
  // CHECK:        scf.for
  // CHECK:          %[[IN:.+]] = arith.cmpi ult, %[[C:.+]], %[[C40]]
  // CHECK-NEXT:     %[[BEFORE:.+]] = arith.cmpi slt, %[[C]], %[[LEFT]]
  // CHECK-NEXT:     %[[MASK:.+]] = arith.andi %[[IN]], %[[BEFORE]]
  // CHECK-NEXT:     scf.if %[[MASK]] -> (i16)
  // CHECK:            llvm.load %{{.+}} -> i16
  // CHECK:          } else {
  // CHECK-NEXT:       scf.yield %[[ZERO]] : i16
  %v = tile.load %x[%at] axes [0] : memref<100xbf16, strided<[1]>> -> tensor<40xbf16, #row>
  // CHECK:      scf.for %[[T:.+]] =
  // CHECK-NEXT:   %[[COPY:.+]] = arith.divui %[[T]], %[[C32]]
  // CHECK-NEXT:   %[[OWNER:.+]] = arith.cmpi eq, %[[COPY]], %
  // CHECK-NEXT:   scf.if %[[OWNER]]
  // CHECK:          scf.for
  // CHECK:            arith.cmpi ult, %{{.+}}, %[[C40]]
  // CHECK-NOT:        arith.cmpi
  // CHECK:            scf.if
  tile.store %v, %x[%at] axes [0] in_bounds [true] : tensor<40xbf16, #row>, memref<100xbf16, strided<[1]>>
  tile.return
}

// -----

// An argument that may be left out; one grid comes after the other here.

// CHECK-LABEL: llvm.func @present(
tile.kernel @present(%slots: memref<?xi32, strided<[1]>>, %out: memref<?xi32, strided<[1]>>) attributes {threads = 32 : i64} {
  tile.grid_wait
  %n = gpu.block_id x
  %itself = arith.index_cast %n : index to i32
  // CHECK:      %[[NULL:.+]] = llvm.mlir.zero : !llvm.ptr
  // CHECK:      %[[PRESENT:.+]] = llvm.icmp "ne" %[[SLOTS:.+]], %[[NULL]]
  // CHECK:      %[[SLOT:.+]] = scf.if %[[PRESENT]] -> (i32)
  // CHECK:      llvm.store %[[SLOT]]
  %there = tile.is_present %slots : memref<?xi32, strided<[1]>>
  %slot = scf.if %there -> i32 {
    %entry = memref.load %slots[%n] : memref<?xi32, strided<[1]>>
    scf.yield %entry : i32
  } else {
    scf.yield %itself : i32
  }
  memref.store %slot, %out[%n] : memref<?xi32, strided<[1]>>
  tile.return
}

// -----

// A swizzle is an exclusive or on the byte offset; rows of 256 bytes lie in two panels.

#l = #tile.blocked<per_thread = [1, 8], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
!s = !tile.shared<8x128xbf16, #tile.swizzled<128>>

// CHECK-LABEL: llvm.func @shared(
tile.kernel @shared(%x: memref<8x128xbf16, strided<[128, 1]>>) attributes {threads = 32 : i64} {
  // CHECK-DAG:  %[[C64:.+]] = arith.constant 64 : i64
  // CHECK-DAG:  %[[C128:.+]] = arith.constant 128 : i64
  // CHECK-DAG:  %[[C1024:.+]] = arith.constant 1024 : i64
  // CHECK-DAG:  %[[C7:.+]] = arith.constant 7 : i64
  // CHECK-DAG:  %[[C16:.+]] = arith.constant 16 : i64
  %c0 = arith.constant 0 : index
  %s = tile.alloc : !s
  // CHECK:      scf.for
  // CHECK:        %[[ROW:.+]] = arith.muli %{{.+}}, %[[C128]]
  // CHECK:        %[[PANEL:.+]] = arith.divui %[[COLUMN:.+]], %[[C64]]
  // CHECK-NEXT:   %[[PANEL_AT:.+]] = arith.muli %[[PANEL]], %[[C1024]]
  // CHECK-NEXT:   %[[SUM:.+]] = arith.addi %[[ROW]], %[[PANEL_AT]]
  // CHECK:        %[[OFFSET:.+]] = arith.addi %[[SUM]],
  // CHECK-NEXT:   %[[LINE:.+]] = arith.divui %[[OFFSET]], %[[C128]]
  // CHECK-NEXT:   %[[PHASE:.+]] = arith.andi %[[LINE]], %[[C7]]
  // CHECK-NEXT:   %[[FLIP:.+]] = arith.muli %[[PHASE]], %[[C16]]
  // CHECK-NEXT:   arith.xori %[[OFFSET]], %[[FLIP]]
  %y = tile.local_load %s : !s -> tensor<8x128xbf16, #l>
  tile.store %y, %x[%c0, %c0] axes [0, 1] : tensor<8x128xbf16, #l>, memref<8x128xbf16, strided<[128, 1]>>
  tile.return
}

// -----

// Rows of a ring: a step back by its length at its end, and no more than the count.

#m = #tile.blocked<per_thread = [4, 1], lanes = [1, 32], warps = [1, 1], order = [1, 0], num_warps = 1>

// CHECK-LABEL: llvm.func @ring(
tile.kernel @ring(%x: memref<6x32xf32, strided<[32, 1]>>, %s: i32, %n: i32) attributes {threads = 32 : i64} {
  // CHECK-DAG:  %[[C6:.+]] = arith.constant 6 : i64
  // CHECK-DAG:  %[[C32:.+]] = arith.constant 32 : i64
  // CHECK-DAG:  %[[START:.+]] = arith.index_cast %{{.+}} : index to i64
  // CHECK-DAG:  %[[COUNT:.+]] = arith.extsi %{{.+}} : i32 to i64
  // CHECK:      scf.for %[[T:[^ ]+]] =
  // CHECK:        scf.for %[[R:[^ ]+]] =
  // CHECK:          %[[MASK:.+]] = arith.cmpi slt, %[[R]], %[[COUNT]] : i64
  // CHECK:          scf.if %[[MASK]]
  // CHECK:            %[[AT:.+]] = arith.addi %[[START]], %[[R]]
  // CHECK:            %[[INSIDE:.+]] = arith.cmpi ult, %[[AT]], %[[C6]]
  // CHECK:            %[[LESS:.+]] = arith.subi %[[R]], %[[C6]]
  // CHECK:            %[[ROW:.+]] = arith.select %[[INSIDE]], %[[R]], %[[LESS]] : i64
  // CHECK:            arith.muli %[[ROW]], %[[C32]]
  // CHECK:            llvm.load
  %c0 = arith.constant 0 : index
  %start = arith.index_cast %s : i32 to index
  %v = tile.ring_load %x[%start, %c0] axes [0, 1] in_bounds [true, true] count %n : memref<6x32xf32, strided<[32, 1]>> -> tensor<4x32xf32, #m>
  tile.store %v, %x[%c0, %c0] axes [0, 1] : tensor<4x32xf32, #m>, memref<6x32xf32, strided<[32, 1]>>
  tile.return
}
