// Every op, attribute and type of the tile dialect once.

// RUN: dl-opt %s --verify-roundtrip | FileCheck %s
// RUN: dl-opt %s --mlir-print-op-generic | dl-opt | FileCheck %s
// RUN: dl-opt %s --emit-bytecode | dl-opt | FileCheck %s

#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 4>
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
#thin = #tile.blocked<per_thread = [1, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
#double = #tile.blocked<per_thread = [4, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
#column = #tile.slice<1, #rows>
#a = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [2, 2]>
#b = #tile.fragment<"mma.m16n8k16.bf16", "b", warps = [2, 2]>
#c = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [2, 2]>
#wa = #tile.fragment<"wgmma.m64n16k16.f16", "a", warps = [1, 1]>
#wc = #tile.fragment<"wgmma.m64n16k16.f16", "c", warps = [1, 1]>

// CHECK-LABEL: tile.kernel @memory
// CHECK-SAME: (%[[X:.*]]: memref<?x128xf32, strided<[?, 1]>> {tile.access = "r", tile.name = "x", tile.role = "input", tile.shape = ["B", 128]},
// CHECK-SAME: %[[Y:.*]]: memref<?x16x64xf32, strided<[?, 64, 1]>>, %[[SLOTS:.*]]: memref<?xi32, strided<[?]>> {tile.nullable},
// CHECK-SAME: %[[F:.*]]: f32 {tile.default = 1.000000e+00 : f64}, %[[N:.*]]: i32 {tile.value = ["mul", "HV", 2]})
// CHECK-SAME: attributes {grid = ["B", 2, 1], {{.*}}min_blocks = 3 : i64, threads = 128 : i64} {
tile.kernel @memory(%x: memref<?x128xf32, strided<[?, 1]>> {tile.name = "x", tile.role = "input", tile.shape = ["B", 128], tile.access = "r"},
                    %y: memref<?x16x64xf32, strided<[?, 64, 1]>>, %slots: memref<?xi32, strided<[?]>> {tile.nullable},
                    %f: f32 {tile.default = 1.0 : f64}, %n: i32 {tile.value = ["mul", "HV", 2]})
    attributes {threads = 128 : i64, grid = ["B", 2, 1], min_blocks = 3 : i64} {
  %c0 = arith.constant 0 : index
  %i = gpu.block_id x
  // CHECK: tile.grid_wait
  tile.grid_wait
  // CHECK: tile.grid_release
  tile.grid_release
  // CHECK: %{{.*}} = tile.is_present %[[SLOTS]] : memref<?xi32, strided<[?]>>
  %there = tile.is_present %slots : memref<?xi32, strided<[?]>>
  // CHECK: %[[SLOT:.*]] = memref.load
  %slot = memref.load %slots[%i] : memref<?xi32, strided<[?]>>
  %s = arith.index_cast %slot : i32 to index
  // CHECK: %[[V:.*]] = tile.load %[[X]][%{{.*}}, %{{.*}}] axes [1] : memref<?x128xf32, strided<[?, 1]>> -> tensor<128xf32, #[[$ROW:.*]]>{{$}}
  %v = tile.load %x[%s, %c0] axes [1] : memref<?x128xf32, strided<[?, 1]>> -> tensor<128xf32, #row>
  // CHECK: %[[M:.*]] = tile.load %[[Y]][%{{.*}}, %{{.*}}, %{{.*}}] axes [1, 2] in_bounds [true, false] : memref<?x16x64xf32, strided<[?, 64, 1]>> -> tensor<16x64xf32, #[[$ROWS:.*]]>{{$}}
  %m = tile.load %y[%s, %c0, %c0] axes [1, 2] in_bounds [true, false] : memref<?x16x64xf32, strided<[?, 64, 1]>> -> tensor<16x64xf32, #rows>
  // CHECK: tile.ring_load %[[Y]][%{{.*}}, %{{.*}}, %{{.*}}] axes [1, 2] count %[[N]] : memref<?x16x64xf32, strided<[?, 64, 1]>> -> tensor<16x64xf32, #[[$ROWS]]>{{$}}
  %g = tile.ring_load %y[%s, %c0, %c0] axes [1, 2] count %n : memref<?x16x64xf32, strided<[?, 64, 1]>> -> tensor<16x64xf32, #rows>
  // CHECK: tile.ring_load %[[Y]][%{{.*}}, %{{.*}}, %{{.*}}] axes [1] in_bounds [true] count %[[N]] : memref<?x16x64xf32, strided<[?, 64, 1]>> -> tensor<10xf32, #[[$ROW]]>{{$}}
  %r = tile.ring_load %y[%s, %c0, %c0] axes [1] in_bounds [true] count %n : memref<?x16x64xf32, strided<[?, 64, 1]>> -> tensor<10xf32, #row>
  // CHECK: tile.load %[[Y]][%{{.*}}, %{{.*}}, %{{.*}}] axes [1, 2] repeats [2, 1] in_bounds [true, false] : memref<?x16x64xf32, strided<[?, 64, 1]>> -> tensor<32x64xf32, #[[$ROWS]]>{{$}}
  %twice = tile.load %y[%s, %c0, %c0] axes [1, 2] repeats [2, 1] in_bounds [true, false] : memref<?x16x64xf32, strided<[?, 64, 1]>> -> tensor<32x64xf32, #rows>
  // CHECK: tile.load %[[X]][%{{.*}}, %{{.*}}] axes [0] repeats [4] count %[[N]] : memref<?x128xf32, strided<[?, 1]>> -> tensor<128xf32, #[[$ROW]]>{{$}}
  %four = tile.load %x[%s, %c0] axes [0] repeats [4] count %n : memref<?x128xf32, strided<[?, 1]>> -> tensor<128xf32, #row>
  // CHECK: tile.store %[[V]], %[[X]][%{{.*}}, %{{.*}}] axes [1] in_bounds [true] : tensor<128xf32, #[[$ROW]]>, memref<?x128xf32, strided<[?, 1]>>
  tile.store %v, %x[%i, %c0] axes [1] in_bounds [true] : tensor<128xf32, #row>, memref<?x128xf32, strided<[?, 1]>>
  // CHECK: tile.store %[[M]], %[[Y]][%{{.*}}, %{{.*}}, %{{.*}}] axes [1, 2] : tensor<16x64xf32, #[[$ROWS]]>, memref<?x16x64xf32, strided<[?, 64, 1]>>
  tile.store %m, %y[%i, %c0, %c0] axes [1, 2] : tensor<16x64xf32, #rows>, memref<?x16x64xf32, strided<[?, 64, 1]>>
  // CHECK: tile.return
  tile.return
}

// CHECK-LABEL: tile.kernel @compute
// CHECK-SAME: (%[[F:.*]]: f32, %[[COUNT:.*]]: i32)
tile.kernel @compute(%f: f32, %n: i32) attributes {threads = 128 : i64} {
  // CHECK: %[[M:.*]] = tile.splat %[[F]] : f32 -> tensor<16x64xf32, #[[$ROWS]]>
  %m = tile.splat %f : f32 -> tensor<16x64xf32, #rows>
  // CHECK: %[[K:.*]] = tile.splat %[[F]] : f32 -> tensor<16xf32, #[[$COLUMN:.*]]>
  %k = tile.splat %f : f32 -> tensor<16xf32, #column>
  // CHECK: %[[E:.*]] = tile.expand %[[K]] axis 1 : tensor<16xf32, #[[$COLUMN]]> -> tensor<16x64xf32, #[[$ROWS]]>
  %e = tile.expand %k axis 1 : tensor<16xf32, #column> -> tensor<16x64xf32, #rows>
  // CHECK: %{{.*}}:2 = tile.reduce %[[M]], %[[E]] axis 0 : tensor<16x64xf32, #[[$ROWS]]>, tensor<16x64xf32, #[[$ROWS]]> -> tensor<64xf32, #{{slice[0-9]*}}>, tensor<64xf32, #{{slice[0-9]*}}>
  %s, %t = tile.reduce %m, %e axis 0 : tensor<16x64xf32, #rows>, tensor<16x64xf32, #rows> -> tensor<64xf32, #tile.slice<0, #rows>>, tensor<64xf32, #tile.slice<0, #rows>>
  // CHECK: tile.dot %[[K]] with %[[M]] axis 0 : tensor<16xf32, #[[$COLUMN]]> with tensor<16x64xf32, #[[$ROWS]]> -> tensor<64xf32, #{{slice[0-9]*}}>
  %d = tile.dot %k with %m axis 0 : tensor<16xf32, #column> with tensor<16x64xf32, #rows> -> tensor<64xf32, #tile.slice<0, #rows>>
  // CHECK: tile.dot %[[K]], %[[K]] with %[[M]] and %[[W:.*]], %[[W]] with %[[L:.*]] axis 0 : tensor<16xf32, #[[$COLUMN]]>, tensor<16xf32, #[[$COLUMN]]> with tensor<16x64xf32, #[[$ROWS]]> and tensor<5xf32, #{{.*}}>, tensor<5xf32, #{{.*}}> with tensor<5x64xf32, #{{.*}}> -> tensor<64xf32, #{{slice[0-9]*}}>, tensor<64xf32, #{{slice[0-9]*}}>{{$}}
  %l = tile.splat %f : f32 -> tensor<5x64xf32, #thin>
  %w = tile.splat %f : f32 -> tensor<5xf32, #tile.slice<1, #thin>>
  %d2, %d3 = tile.dot %k, %k with %m and %w, %w with %l axis 0 : tensor<16xf32, #column>, tensor<16xf32, #column> with tensor<16x64xf32, #rows> and tensor<5xf32, #tile.slice<1, #thin>>, tensor<5xf32, #tile.slice<1, #thin>> with tensor<5x64xf32, #thin> -> tensor<64xf32, #tile.slice<0, #rows>>, tensor<64xf32, #tile.slice<0, #rows>>
  // CHECK: %[[I:.*]] = tile.insert %{{.*}} into %[[M]][%[[COUNT]]] axis 0 : tensor<64xf32, #{{slice[0-9]*}}> into tensor<16x64xf32, #[[$ROWS]]>
  %i = tile.insert %s into %m[%n] axis 0 : tensor<64xf32, #tile.slice<0, #rows>> into tensor<16x64xf32, #rows>
  // CHECK: tile.rank_update %[[I]], %[[M]], %{{.*}} count %[[COUNT]] : tensor<16x64xf32, #[[$ROWS]]>, tensor<16x64xf32, #[[$ROWS]]>, tensor<64x64xf32, #[[$ROWS]]>
  %c = tile.splat %f : f32 -> tensor<64x64xf32, #rows>
  %u = tile.rank_update %i, %m, %c count %n : tensor<16x64xf32, #rows>, tensor<16x64xf32, #rows>, tensor<64x64xf32, #rows>
  // CHECK: %[[R:.*]] = tile.convert %{{.*}} : tensor<64xf32, #{{slice[0-9]*}}> -> tensor<64xf32, #[[$ROW]]>
  %r = tile.convert %s : tensor<64xf32, #tile.slice<0, #rows>> -> tensor<64xf32, #row>
  // CHECK: tile.reduce %[[R]] axis 0 : tensor<64xf32, #[[$ROW]]> -> f32
  %x = tile.reduce %r axis 0 : tensor<64xf32, #row> -> f32
  // CHECK: tile.coordinate axis 1 : tensor<16x64xi32, #[[$ROWS]]>
  %at = tile.coordinate axis 1 : tensor<16x64xi32, #rows>
  // CHECK: %[[MANY:.*]] = tile.interleave %[[M]], %[[E]] : tensor<16x64xf32, #[[$ROWS]]>, tensor<16x64xf32, #[[$ROWS]]> -> tensor<32x64xf32, #[[$DOUBLE:.*]]>
  %many = tile.interleave %m, %e : tensor<16x64xf32, #rows>, tensor<16x64xf32, #rows> -> tensor<32x64xf32, #double>
  // CHECK: tile.interleave %[[K]], %[[K]] : tensor<16xf32, #[[$COLUMN]]>, tensor<16xf32, #[[$COLUMN]]> -> tensor<32xf32, #{{slice[0-9]*}}>
  %numbers = tile.interleave %k, %k : tensor<16xf32, #column>, tensor<16xf32, #column> -> tensor<32xf32, #tile.slice<1, #double>>
  // CHECK: tile.pick 1 of %[[MANY]] : tensor<32x64xf32, #[[$DOUBLE]]> -> tensor<16x64xf32, #[[$ROWS]]>
  %second = tile.pick 1 of %many : tensor<32x64xf32, #double> -> tensor<16x64xf32, #rows>
  // CHECK: tile.scan %[[M]] axis 0 run 8 reverse exclusive : tensor<16x64xf32, #[[$ROWS]]>
  %before = tile.scan %m axis 0 run 8 reverse exclusive : tensor<16x64xf32, #rows>
  // CHECK: tile.scan %[[M]] axis 1 run 64 : tensor<16x64xf32, #[[$ROWS]]>
  %upTo = tile.scan %m axis 1 run 64 : tensor<16x64xf32, #rows>
  // CHECK: tile.invert_unit_lower %{{.*}} : tensor<64x64xf32, #[[$ROWS]]>
  %inverse = tile.invert_unit_lower %c : tensor<64x64xf32, #rows>
  tile.return
}

// CHECK-LABEL: tile.kernel @products
tile.kernel @products(%f: f32) attributes {threads = 128 : i64} {
  %x = arith.truncf %f : f32 to bf16
  %h = arith.truncf %f : f32 to f16
  // CHECK: %[[A:.*]] = tile.splat %{{.*}} : bf16 -> tensor<40x48xbf16, #[[$A:.*]]>{{$}}
  %a = tile.splat %x : bf16 -> tensor<40x48xbf16, #a>
  %b = tile.splat %x : bf16 -> tensor<48x24xbf16, #b>
  %c = tile.splat %f : f32 -> tensor<40x24xf32, #c>
  // CHECK: tile.mma %[[A]], %{{.*}}, %{{.*}} : tensor<40x48xbf16, #[[$A]]>, tensor<48x24xbf16, #{{.*}}>, tensor<40x24xf32, #{{.*}}>
  %d = tile.mma %a, %b, %c : tensor<40x48xbf16, #a>, tensor<48x24xbf16, #b>, tensor<40x24xf32, #c>
  // CHECK: %[[S:.*]] = tile.alloc : !tile.shared<32x64xf16, #tile.swizzled<128>>
  %s = tile.alloc : !tile.shared<32x64xf16, #tile.swizzled<128>>
  %v = tile.splat %h : f16 -> tensor<32x64xf16, #rows>
  // CHECK: tile.local_store %{{.*}}, %[[S]] : tensor<32x64xf16, #[[$ROWS]]>, !tile.shared<32x64xf16, #tile.swizzled<128>>
  tile.local_store %v, %s : tensor<32x64xf16, #rows>, !tile.shared<32x64xf16, #tile.swizzled<128>>
  // CHECK: tile.barrier{{$}}
  tile.barrier
  // CHECK: tile.local_load %[[S]] : !tile.shared<32x64xf16, #tile.swizzled<128>> -> tensor<32x64xf16, #[[$ROWS]]>
  %w = tile.local_load %s : !tile.shared<32x64xf16, #tile.swizzled<128>> -> tensor<32x64xf16, #rows>
  // CHECK: tile.barrier async_proxy
  tile.barrier async_proxy
  %wa = tile.splat %h : f16 -> tensor<50x64xf16, #wa>
  %wc = tile.splat %f : f32 -> tensor<50x32xf32, #wc>
  // CHECK: tile.mma %{{.*}}, %[[S]], %{{.*}} : tensor<50x64xf16, #{{.*}}>, !tile.shared<32x64xf16, #tile.swizzled<128>>, tensor<50x32xf32, #{{.*}}>
  %wd = tile.mma %wa, %s, %wc : tensor<50x64xf16, #wa>, !tile.shared<32x64xf16, #tile.swizzled<128>>, tensor<50x32xf32, #wc>
  tile.return
}

#pa = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [4, 1]>
#pc = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [4, 1]>

// CHECK-LABEL: tile.kernel @shared_factors
tile.kernel @shared_factors(%f: f32) attributes {threads = 128 : i64} {
  %x = arith.truncf %f : f32 to bf16
  %a = tile.splat %x : bf16 -> tensor<64x32xbf16, #pa>
  %c = tile.splat %f : f32 -> tensor<64x96xf32, #pc>
  // CHECK: %[[K:.*]] = tile.alloc : !tile.shared<96x32xbf16, #tile.swizzled<64>>
  %k = tile.alloc : !tile.shared<96x32xbf16, #tile.swizzled<64>>
  %t = tile.alloc : !tile.shared<32x96xbf16, #tile.swizzled<64>>
  // CHECK: tile.mma %{{.*}}, %[[K]], %{{.*}} : tensor<64x32xbf16, #{{.*}}>, !tile.shared<96x32xbf16, #tile.swizzled<64>>, tensor<64x96xf32, #{{.*}}>
  %d = tile.mma %a, %k, %c : tensor<64x32xbf16, #pa>, !tile.shared<96x32xbf16, #tile.swizzled<64>>, tensor<64x96xf32, #pc>
  // CHECK: tile.mma %{{.*}}, %{{.*}}, %{{.*}} transposed : tensor<64x32xbf16, #{{.*}}>, !tile.shared<32x96xbf16, #tile.swizzled<64>>, tensor<64x96xf32, #{{.*}}>
  %e = tile.mma %a, %t, %c transposed : tensor<64x32xbf16, #pa>, !tile.shared<32x96xbf16, #tile.swizzled<64>>, tensor<64x96xf32, #pc>
  %wide = tile.splat %f : f32 -> tensor<64x32xf32, #pa>
  // CHECK: tile.mma %{{.*}}, %[[K]] rest %[[K]], %{{.*}} hilo : tensor<64x32xf32, #{{.*}}>, !tile.shared<96x32xbf16, #tile.swizzled<64>> rest !tile.shared<96x32xbf16, #tile.swizzled<64>>, tensor<64x96xf32, #{{.*}}>
  %i = tile.mma %wide, %k rest %k, %c hilo : tensor<64x32xf32, #pa>, !tile.shared<96x32xbf16, #tile.swizzled<64>>
      rest !tile.shared<96x32xbf16, #tile.swizzled<64>>, tensor<64x96xf32, #pc>
  %g = tile.alloc : !tile.shared<96x96xf32, #tile.swizzled<0>>
  %h = tile.alloc : !tile.shared<96x96xf32, #tile.swizzled<0>>
  // CHECK: tile.gram %[[K]] with %[[K]] into %{{.*}} : !tile.shared<96x32xbf16, #tile.swizzled<64>> with !tile.shared<96x32xbf16, #tile.swizzled<64>> into !tile.shared<96x96xf32, #tile.swizzled<0>>
  tile.gram %k with %k into %g : !tile.shared<96x32xbf16, #tile.swizzled<64>> with !tile.shared<96x32xbf16, #tile.swizzled<64>> into !tile.shared<96x96xf32, #tile.swizzled<0>>
  // CHECK: tile.gram %[[K]], %[[K]] with %[[K]] into %{{.*}}, %{{.*}} half 8 :
  tile.gram %k, %k with %k into %g, %h half 8 : !tile.shared<96x32xbf16, #tile.swizzled<64>>, !tile.shared<96x32xbf16, #tile.swizzled<64>>
      with !tile.shared<96x32xbf16, #tile.swizzled<64>> into !tile.shared<96x96xf32, #tile.swizzled<0>>, !tile.shared<96x96xf32, #tile.swizzled<0>>
  // CHECK: tile.gram %[[K]] rest %[[K]] with %[[K]] rest %[[K]] into %{{.*}} : !tile.shared<96x32xbf16, #tile.swizzled<64>> rest !tile.shared<96x32xbf16, #tile.swizzled<64>> with
  tile.gram %k rest %k with %k rest %k into %g : !tile.shared<96x32xbf16, #tile.swizzled<64>> rest !tile.shared<96x32xbf16, #tile.swizzled<64>>
      with !tile.shared<96x32xbf16, #tile.swizzled<64>> rest !tile.shared<96x32xbf16, #tile.swizzled<64>> into !tile.shared<96x96xf32, #tile.swizzled<0>>
  tile.return
}
