// RUN: dl-opt %s --tile-expand-gram --cse | FileCheck %s

#rows = #tile.blocked<per_thread = [8, 1], lanes = [1, 32], warps = [2, 1], order = [1, 0], num_warps = 2>
#pairs = #tile.blocked<per_thread = [8, 1], lanes = [1, 32], warps = [2, 1], order = [1, 0], num_warps = 2>
#tokens = #tile.slice<1, #rows>
#wide = #tile.blocked<per_thread = [8, 1], lanes = [1, 32], warps = [4, 1], order = [1, 0], num_warps = 4>

// One decay per k: four levels for 16 tokens. On each, readers of the later half of a block and
// writers of the earlier half meet in its middle.
// CHECK-LABEL: tile.kernel @levels
// CHECK-SAME: %[[L:[a-z0-9]+]]: memref
tile.kernel @levels(%x: memref<16x32xf32>, %l: memref<16x32xf32>, %o: memref<16x16xf32>) attributes {threads = 64 : i64} {
  %c0 = arith.constant 0 : index
  %k = tile.load %x[%c0, %c0] axes [0, 1] : memref<16x32xf32> -> tensor<16x32xf32, #rows>
  %g = tile.load %l[%c0, %c0] axes [0, 1] : memref<16x32xf32> -> tensor<16x32xf32, #rows>
  // CHECK: %[[K:.+]] = tile.load
  // CHECK: %[[G:.+]] = tile.load
  // CHECK: %[[N:.+]] = tile.alloc : !tile.shared<16x16xf32
  // CHECK: %[[EVEN:.+]] = tile.alloc : !tile.shared<16x32xbf16, #tile.swizzled<64>>
  // CHECK: %[[ODD:.+]] = tile.alloc : !tile.shared<16x32xbf16, #tile.swizzled<64>>
  // CHECK: %[[G2:.+]] = arith.mulf %[[G]], %{{.+}} : tensor<16x32xf32
  // CHECK: %[[T:.+]] = tile.coordinate axis 0
  // CHECK: %[[BIT:.+]] = arith.andi %[[T]], %{{.+}} : tensor<16x32xi32
  // CHECK: %[[LATER:.+]] = arith.cmpi ne, %[[BIT]]
  // CHECK: %[[BEHIND:.+]] = tile.scan %[[G2]] axis 0 run 1 reverse exclusive
  // CHECK: %[[BEFORE:.+]] = tile.scan %[[G2]] axis 0 run 1 :
  // CHECK: %[[S:.+]] = arith.select %[[LATER]], %[[BEFORE]], %[[BEHIND]]
  // CHECK: %[[E:.+]] = math.exp2 %[[S]]
  // CHECK: %[[F:.+]] = arith.mulf %[[K]], %[[E]]
  // CHECK: %[[B:.+]] = arith.truncf %[[F]]
  // CHECK: tile.local_store %[[B]], %[[EVEN]]
  // CHECK-NEXT: tile.barrier
  // CHECK-NEXT: tile.gram %[[EVEN]] with %[[EVEN]] into %[[N]] half 1
  // CHECK: tile.scan %[[G2]] axis 0 run 2 reverse exclusive
  // CHECK: tile.local_store %{{.+}}, %[[ODD]]
  // CHECK-NEXT: tile.barrier
  // CHECK-NEXT: tile.gram %[[ODD]] with %[[ODD]] into %[[N]] half 2
  // CHECK: tile.gram %[[EVEN]] with %[[EVEN]] into %[[N]] half 4
  // CHECK: tile.gram %[[ODD]] with %[[ODD]] into %[[N]] half 8
  // CHECK-NEXT: tile.barrier
  // CHECK-NEXT: tile.local_load %[[N]]
  %n = tile.decayed_gram %k with %k decay %g inclusive [true] in bf16
      : tensor<16x32xf32, #rows> with tensor<16x32xf32, #rows> decay tensor<16x32xf32, #rows> -> tensor<16x16xf32, #pairs>
  tile.store %n, %o[%c0, %c0] axes [0, 1] : tensor<16x16xf32, #pairs>, memref<16x16xf32>
  tile.return
}

// One decay per token, read before it: the plain Gram times e^(sum before the reader - sum up to the writer).
// CHECK-LABEL: tile.kernel @plain
tile.kernel @plain(%x: memref<16x32xf32>, %l: memref<16xf32>, %o: memref<16x16xf32>) attributes {threads = 64 : i64} {
  %c0 = arith.constant 0 : index
  %k = tile.load %x[%c0, %c0] axes [0, 1] : memref<16x32xf32> -> tensor<16x32xf32, #rows>
  %g = tile.load %l[%c0] axes [0] : memref<16xf32> -> tensor<16xf32, #tokens>
  // CHECK: %[[G:.+]] = tile.load {{.*}} -> tensor<16xf32,
  // CHECK: tile.gram %[[X:.+]] with %[[X]] into %[[N:.+]] : {{.*}}16x32xbf16
  // CHECK: %[[P:.+]] = tile.local_load %[[N]]
  // CHECK: %[[B:.+]] = arith.maxnumf %[[G]]
  // CHECK: %[[C:.+]] = arith.mulf %[[B]]
  // CHECK: %[[W:.+]] = tile.scan %[[C]] axis 0 run 16 :
  // CHECK: %[[WS:.+]] = tile.expand %{{.+}} axis 0
  // CHECK: %[[R:.+]] = tile.scan %[[C]] axis 0 run 16 exclusive
  // CHECK: %[[RS:.+]] = tile.expand %{{.+}} axis 1
  // CHECK: %[[D:.+]] = arith.subf %[[RS]], %[[WS]]
  // CHECK: %[[E:.+]] = math.exp2 %[[D]]
  // CHECK: arith.mulf %[[P]], %[[E]]
  %n = tile.decayed_gram %k with %k decay %g inclusive [false] in bf16
      : tensor<16x32xf32, #rows> with tensor<16x32xf32, #rows> decay tensor<16xf32, #tokens> -> tensor<16x16xf32, #pairs>
  tile.store %n, %o[%c0, %c0] axes [0, 1] : tensor<16x16xf32, #pairs>, memref<16x16xf32>
  tile.return
}

// A bound keeps 16 tokens within 80 nats: one product for all of their pairs.
// CHECK-LABEL: tile.kernel @bounded
tile.kernel @bounded(%x: memref<32x32xf32>, %l: memref<32x32xf32>, %o: memref<32x32xf32>) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  %k = tile.load %x[%c0, %c0] axes [0, 1] : memref<32x32xf32> -> tensor<32x32xf32, #wide>
  %g = tile.load %l[%c0, %c0] axes [0, 1] : memref<32x32xf32> -> tensor<32x32xf32, #wide>
  // CHECK: %[[X:.+]] = tile.alloc : !tile.shared<32x32xbf16
  // CHECK: %[[W:.+]] = tile.alloc : !tile.shared<32x32xbf16
  // CHECK: %[[P:.+]] = tile.scan %{{.+}} axis 0 run 16 :
  // CHECK: %[[R:.+]] = arith.addf %[[P]], %cst{{.*}} : tensor<32x32xf32
  // CHECK: math.exp2 %[[R]]
  // CHECK: arith.negf %[[R]]
  // CHECK: tile.barrier
  // CHECK-NEXT: tile.gram %{{.+}} with %{{.+}} into %[[N:.+]] diagonal
  // CHECK: tile.gram %{{.+}} into %[[N]] half 16
  // CHECK-NOT: tile.gram
  %n = tile.decayed_gram %k with %k decay %g inclusive [true] bound -5.0 in bf16
      : tensor<32x32xf32, #wide> with tensor<32x32xf32, #wide> decay tensor<32x32xf32, #wide> -> tensor<32x32xf32, #wide>
  tile.store %n, %o[%c0, %c0] axes [0, 1] : tensor<32x32xf32, #wide>, memref<32x32xf32>
  tile.return
}

// With hilo each level has what rounding takes away beside its factors.
// CHECK-LABEL: tile.kernel @hilo
tile.kernel @hilo(%x: memref<16x32xf32>, %l: memref<16x32xf32>, %o: memref<16x16xf32>) attributes {threads = 64 : i64} {
  %c0 = arith.constant 0 : index
  %k = tile.load %x[%c0, %c0] axes [0, 1] : memref<16x32xf32> -> tensor<16x32xf32, #rows>
  %g = tile.load %l[%c0, %c0] axes [0, 1] : memref<16x32xf32> -> tensor<16x32xf32, #rows>
  // CHECK: %[[F:.+]] = arith.mulf %{{.+}}, %{{.+}} : tensor<16x32xf32
  // CHECK: %[[F:.+]] = arith.mulf %{{.+}}, %{{.+}} : tensor<16x32xf32
  // CHECK: %[[B:.+]] = arith.truncf %[[F]]
  // CHECK: tile.local_store %[[B]], %[[HIGH:.+]] :
  // CHECK: %[[W:.+]] = arith.extf %[[B]]
  // CHECK: %[[D:.+]] = arith.subf %[[F]], %[[W]]
  // CHECK: %[[R:.+]] = arith.truncf %[[D]]
  // CHECK: tile.local_store %[[R]], %[[REST:.+]] :
  // CHECK-NEXT: tile.barrier
  // CHECK-NEXT: tile.gram %[[HIGH]] rest %[[REST]] with %[[HIGH]] rest %[[REST]] into %{{.+}} half 1
  // CHECK-COUNT-3: tile.gram {{.*}} rest
  // CHECK-NOT: tile.gram
  %n = tile.decayed_gram %k with %k decay %g inclusive [true] in bf16 hilo
      : tensor<16x32xf32, #rows> with tensor<16x32xf32, #rows> decay tensor<16x32xf32, #rows> -> tensor<16x16xf32, #pairs>
  tile.store %n, %o[%c0, %c0] axes [0, 1] : tensor<16x16xf32, #pairs>, memref<16x16xf32>
  tile.return
}

// What comes from memory in the type of products has no rest.
// CHECK-LABEL: tile.kernel @exact
tile.kernel @exact(%x: memref<16x32xbf16>, %y: memref<16x32xf32>, %o: memref<16x16xf32>) attributes {threads = 64 : i64} {
  %c0 = arith.constant 0 : index
  %kn = tile.load %x[%c0, %c0] axes [0, 1] : memref<16x32xbf16> -> tensor<16x32xbf16, #rows>
  %k = arith.extf %kn : tensor<16x32xbf16, #rows> to tensor<16x32xf32, #rows>
  %q = tile.load %y[%c0, %c0] axes [0, 1] : memref<16x32xf32> -> tensor<16x32xf32, #rows>
  // CHECK: tile.gram %[[K:.+]] with %[[K]] into
  // CHECK: tile.gram %[[Q:.+]] rest %{{.+}} with %{{.+}} rest %{{.+}} into
  %n = tile.decayed_gram %k with %k inclusive [true] in bf16 hilo
      : tensor<16x32xf32, #rows> with tensor<16x32xf32, #rows> -> tensor<16x16xf32, #pairs>
  %m = tile.decayed_gram %q with %k inclusive [true] in bf16 hilo
      : tensor<16x32xf32, #rows> with tensor<16x32xf32, #rows> -> tensor<16x16xf32, #pairs>
  %s = arith.addf %n, %m : tensor<16x16xf32, #pairs>
  tile.store %s, %o[%c0, %c0] axes [0, 1] : tensor<16x16xf32, #pairs>, memref<16x16xf32>
  tile.return
}
