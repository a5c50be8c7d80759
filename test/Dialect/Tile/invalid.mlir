// RUN: dl-opt %s -split-input-file -verify-diagnostics
//
// One negative per check of the verifiers: attributes, types, then ops in the order of TileOps.td. tile.mma: mma-invalid.mlir;
// tile.coordinate, tile.scan and tile.invert_unit_lower: scan-invalid.mlir.

// blocked: factors per axis
// expected-error @+1 {{expected 2 values of lanes, one for each axis, got 1}}
#bad = #tile.blocked<per_thread = [4, 4], lanes = [32], warps = [1], order = [0], num_warps = 1>

// -----

// blocked: whole numbers above zero
// expected-error @+1 {{expected per-thread elements between 1 and 65536, got 0}}
#bad = #tile.blocked<per_thread = [0], lanes = [32], warps = [1], order = [0], num_warps = 1>

// -----

// blocked: 32 lanes
// expected-error @+1 {{expected lanes that multiply to 32, got 16}}
#bad = #tile.blocked<per_thread = [4], lanes = [16], warps = [1], order = [0], num_warps = 1>

// -----

// blocked: order
// expected-error @+1 {{expected an order that names each of the 2 axes once}}
#bad = #tile.blocked<per_thread = [1, 1], lanes = [8, 4], warps = [1, 1], order = [1, 1], num_warps = 1>

// -----

// blocked: copies of whole sets of warps
// expected-error @+1 {{expected a number of warps that is a multiple of 2, got 3}}
#bad = #tile.blocked<per_thread = [4], lanes = [32], warps = [2], order = [0], num_warps = 3>

// -----

// blocked: at most 1024 threads
// expected-error @+1 {{expected whole warps of 32 threads, at most 1024 threads, got 1056}}
#bad = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 33>

// -----

// blocked: the tensor has as many axes
#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 1>
// expected-error @+1 {{expected 2 values of per-thread elements, one for each axis, got 1}}
!bad = tensor<4x4xf32, #row>

// -----

// a layout spreads a fixed number of elements
#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 1>
// expected-error @+1 {{expected a static shape under a register layout}}
!bad = tensor<?xf32, #row>

// -----

// slice: parent
// expected-error @+1 {{expected a register layout as parent of a slice, got 7 : i64}}
#bad = #tile.slice<0, 7 : i64>

// -----

// slice: axis
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
// expected-error @+1 {{expected a slice axis of at least 0, got -1}}
#bad = #tile.slice<-1, #rows>

// -----

// slice: axis of the parent
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
// expected-error @+1 {{slice axis 2 does not exist in a parent of rank 2}}
!bad = tensor<64xf32, #tile.slice<2, #rows>>

// -----

// fragment: instruction row
// expected-error @+1 {{expected mma.m16n8k16.{bf16,f16}, mma.m16n16k16.bf16, mma.m16n8k8.tf32, wgmma.m64nNk16.{bf16,f16} or wgmma.m64nNk8.tf32 with N = 8, 16 .. 256, got "mma.m16n8k32.bf16"}}
#bad = #tile.fragment<"mma.m16n8k32.bf16", "a", warps = [1, 1]>

// -----

// fragment: operand
// expected-error @+1 {{expected operand "a", "b" or "c", got "d"}}
#bad = #tile.fragment<"mma.m16n8k16.bf16", "d", warps = [1, 1]>

// -----

// fragment: warps
// expected-error @+1 {{expected two positive warp counts (along M and N), got [2]}}
#bad = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [2]>

// -----

// fragment: matrices only
#a = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [1, 1]>
// expected-error @+1 {{expected 2 axes, got 1}}
!bad = tensor<16xbf16, #a>

// -----

// fragment: an operand that the instruction reads from shared memory has none
#b = #tile.fragment<"wgmma.m64n64k16.bf16", "b", warps = [1, 1]>
// expected-error @+1 {{expected an operand held in registers, got B of wgmma.m64n64k16.bf16, which is read from shared memory}}
!bad = tensor<64x64xbf16, #b>

// -----

// swizzled: the swizzles of the hardware
// expected-error @+1 {{expected a swizzle of 0, 32, 64 or 128 bytes, got 16}}
#bad = #tile.swizzled<16>

// -----

// shared: element
// expected-error @+1 {{expected an integer or float element in shared memory, got 'index'}}
!bad = !tile.shared<64x64xindex, #tile.swizzled<0>>

// -----

// shared: axes
// expected-error @+1 {{expected between 1 and 4 axes in shared memory, got 5}}
!bad = !tile.shared<2x2x2x2x64xbf16, #tile.swizzled<0>>

// -----

// kernel C1: memref
// expected-error @+1 {{C1: argument 0: expected a strided memref of f32, bf16, f16, i8, i32 or i64, or an f32, i32 or i64 scalar, got 'memref<64xf64, strided<[1]>>'}}
tile.kernel @bad(%x: memref<64xf64, strided<[1]>>) attributes {threads = 32 : i64} {
  tile.return
}

// -----

// kernel C1: layout without an offset
// expected-error @+1 {{C1: argument 0: expected a strided memref of f32, bf16, f16, i8, i32 or i64, or an f32, i32 or i64 scalar, got 'memref<64xf32, strided<[1], offset: 3>>'}}
tile.kernel @bad(%x: memref<64xf32, strided<[1], offset: 3>>) attributes {threads = 32 : i64} {
  tile.return
}

// -----

// kernel C1: scalar
// expected-error @+1 {{C1: argument 0: expected a strided memref of f32, bf16, f16, i8, i32 or i64, or an f32, i32 or i64 scalar, got 'index'}}
tile.kernel @bad(%n: index) attributes {threads = 32 : i64} {
  tile.return
}

// -----

// kernel C4: the name is a symbol of the assembler
// expected-error @+1 {{C4: expected an identifier as name, got 'a.b'}}
tile.kernel @"a.b"() attributes {threads = 32 : i64} {
  tile.return
}

// -----

// kernel C5: manifests are JSON
// expected-error @+1 {{C5: expected tile.shape to hold text, integers, finite numbers or arrays of them, got [f32]}}
tile.kernel @bad(%x: memref<?xf32, strided<[1]>> {tile.shape = [f32]}) attributes {threads = 32 : i64} {
  tile.return
}

// -----

// kernel C5: JSON has no infinities
// expected-error @+1 {{C5: expected tile.default to hold}}
tile.kernel @bad(%f: f32 {tile.default = 0x7F800000 : f32}) attributes {threads = 32 : i64} {
  tile.return
}

// -----

// kernel C2: whole warps
// expected-error @+1 {{C2: expected threads to be a positive multiple of 32, at most 1024, got 48}}
tile.kernel @bad() attributes {threads = 48 : i64} {
  tile.return
}

// -----

// kernel C2: at most 1024
// expected-error @+1 {{C2: expected threads to be a positive multiple of 32, at most 1024, got 1056}}
tile.kernel @bad() attributes {threads = 1056 : i64} {
  tile.return
}

// -----

// kernel C3: layouts of other sizes
#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 64 : i64} {
  // expected-error @+1 {{C3: expected a layout for the kernel's 64 threads, got one for 32}}
  %v = tile.splat %f : f32 -> tensor<128xf32, #row>
  tile.return
}

// -----

// return: in a kernel only
// expected-error @+1 {{expects parent op 'tile.kernel'}}
tile.return

// -----

// is_present C1: what the caller gives, not what the kernel makes
tile.kernel @bad() attributes {threads = 32 : i64} {
  %m = memref.alloc() : memref<8xi32>
  // expected-error @+1 {{C1: expected an argument of the kernel}}
  %r = tile.is_present %m : memref<8xi32>
  tile.return
}

// -----

// load C1: an index for each dimension
#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 1>
tile.kernel @bad(%x: memref<?x128xf32, strided<[?, 1]>>) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{C1: expected 2 indices, got 1}}
  %v = tile.load %x[%c0] axes [1] : memref<?x128xf32, strided<[?, 1]>> -> tensor<128xf32, #row>
  tile.return
}

// -----

// load C1: an axis for each axis of the tensor
#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 1>
tile.kernel @bad(%x: memref<?x128xf32, strided<[?, 1]>>) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{C1: expected 1 axes, got 2}}
  %v = tile.load %x[%c0, %c0] axes [0, 1] : memref<?x128xf32, strided<[?, 1]>> -> tensor<128xf32, #row>
  tile.return
}

// -----

// load C1: axes in range
#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 1>
tile.kernel @bad(%x: memref<?x128xf32, strided<[?, 1]>>) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{C1: expected distinct axes below 2, got 2}}
  %v = tile.load %x[%c0, %c0] axes [2] : memref<?x128xf32, strided<[?, 1]>> -> tensor<128xf32, #row>
  tile.return
}

// -----

// load C1: distinct axes
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%x: memref<64x64xf32, strided<[64, 1]>>) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{C1: expected distinct axes below 2, got 1, 1}}
  %v = tile.load %x[%c0, %c0] axes [1, 1] : memref<64x64xf32, strided<[64, 1]>> -> tensor<4x64xf32, #rows>
  tile.return
}

// -----

// load C1: a flag for each axis
#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 1>
tile.kernel @bad(%x: memref<?x128xf32, strided<[?, 1]>>) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{C1: expected 1 in_bounds flags, got 2}}
  %v = tile.load %x[%c0, %c0] axes [1] in_bounds [true, true] : memref<?x128xf32, strided<[?, 1]>> -> tensor<128xf32, #row>
  tile.return
}

// -----

// load C2: static sizes along the axes
#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 1>
tile.kernel @bad(%x: memref<?x128xf32, strided<[?, 1]>>) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{C2: expected a static size in memref dimension 0, got 'memref<?x128xf32, strided<[?, 1]>>'}}
  %v = tile.load %x[%c0, %c0] axes [0] : memref<?x128xf32, strided<[?, 1]>> -> tensor<128xf32, #row>
  tile.return
}

// -----

// load C2: a count stands for the size along the first axis alone
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%x: memref<?x?xf32, strided<[?, 1]>>, %n: i32) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{C2: expected a count to go with one dynamic dimension, got 2 among axes 1, 0 of 'memref<?x?xf32, strided<[?, 1]>>'}}
  %v = tile.load %x[%c0, %c0] axes [1, 0] count %n : memref<?x?xf32, strided<[?, 1]>> -> tensor<4x64xf32, #rows>
  tile.return
}

// -----

// load C2: element types
#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 1>
tile.kernel @bad(%x: memref<?x128xf32, strided<[?, 1]>>) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{C2: expected elements of 'f32', got 'tensor<128xbf16}}
  %v = tile.load %x[%c0, %c0] axes [1] : memref<?x128xf32, strided<[?, 1]>> -> tensor<128xbf16, #row>
  tile.return
}

// -----

// load: a tensor with a register layout
tile.kernel @bad(%x: memref<?x128xf32, strided<[?, 1]>>) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{result #0 must be statically shaped tensor with a register layout, but got 'tensor<128xf32>'}}
  %v = tile.load %x[%c0, %c0] axes [1] : memref<?x128xf32, strided<[?, 1]>> -> tensor<128xf32>
  tile.return
}

// -----

// ring_load C1: an index for each dimension
#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 1>
tile.kernel @bad(%x: memref<?x16xf32, strided<[?, 1]>>, %n: i32) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{C1: expected 2 indices, got 1}}
  %v = tile.ring_load %x[%c0] axes [1] count %n : memref<?x16xf32, strided<[?, 1]>> -> tensor<16xf32, #row>
  tile.return
}

// -----

// ring_load C2: a ring has a static size
#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 1>
tile.kernel @bad(%x: memref<?x16xf32, strided<[?, 1]>>, %n: i32) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{C2: expected a static size in memref dimension 0, got 'memref<?x16xf32, strided<[?, 1]>>'}}
  %v = tile.ring_load %x[%c0, %c0] axes [0] count %n : memref<?x16xf32, strided<[?, 1]>> -> tensor<16xf32, #row>
  tile.return
}

// -----

// ring_load C3: no row twice
#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 1>
tile.kernel @bad(%x: memref<?x16xf32, strided<[?, 1]>>, %n: i32) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{C3: expected at most the ring's 16 rows, got 'tensor<17xf32}}
  %v = tile.ring_load %x[%c0, %c0] axes [1] count %n : memref<?x16xf32, strided<[?, 1]>> -> tensor<17xf32, #row>
  tile.return
}

// -----

// store C1
#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 1>
tile.kernel @bad(%x: memref<?x128xf32, strided<[?, 1]>>, %f: f32) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %v = tile.splat %f : f32 -> tensor<128xf32, #row>
  // expected-error @+1 {{C1: expected 2 indices, got 1}}
  tile.store %v, %x[%c0] axes [1] : tensor<128xf32, #row>, memref<?x128xf32, strided<[?, 1]>>
  tile.return
}

// -----

// store C2: static sizes along the axes
#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 1>
tile.kernel @bad(%x: memref<?x128xf32, strided<[?, 1]>>, %f: f32) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %v = tile.splat %f : f32 -> tensor<128xf32, #row>
  // expected-error @+1 {{C2: expected a static size in memref dimension 0, got 'memref<?x128xf32, strided<[?, 1]>>'}}
  tile.store %v, %x[%c0, %c0] axes [0] : tensor<128xf32, #row>, memref<?x128xf32, strided<[?, 1]>>
  tile.return
}

// -----

// store C2: a count stands for the size along the first axis alone
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%x: memref<?x?xf32, strided<[?, 1]>>, %f: f32, %n: i32) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %v = tile.splat %f : f32 -> tensor<4x64xf32, #rows>
  // expected-error @+1 {{C2: expected a count to go with one dynamic dimension, got 2 among axes 0, 1 of 'memref<?x?xf32, strided<[?, 1]>>'}}
  tile.store %v, %x[%c0, %c0] axes [0, 1] count %n : tensor<4x64xf32, #rows>, memref<?x?xf32, strided<[?, 1]>>
  tile.return
}

// -----

// store C2: element types
#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 1>
tile.kernel @bad(%x: memref<?x128xf32, strided<[?, 1]>>, %f: f32) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %h = arith.truncf %f : f32 to bf16
  %v = tile.splat %h : bf16 -> tensor<128xbf16, #row>
  // expected-error @+1 {{C2: expected elements of 'f32', got 'tensor<128xbf16}}
  tile.store %v, %x[%c0, %c0] axes [1] : tensor<128xbf16, #row>, memref<?x128xf32, strided<[?, 1]>>
  tile.return
}

// -----

// splat: element type
#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  // expected-error @+1 {{expected a scalar of the element type, got 'f32' for 'tensor<128xbf16}}
  %v = tile.splat %f : f32 -> tensor<128xbf16, #row>
  tile.return
}

// -----

// expand C1: axis
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %v = tile.splat %f : f32 -> tensor<4xf32, #tile.slice<1, #rows>>
  // expected-error @+1 {{C1: expected an axis of 'tensor<4x64xf32}}
  %m = tile.expand %v axis 2 : tensor<4xf32, #tile.slice<1, #rows>> -> tensor<4x64xf32, #rows>
  tile.return
}

// -----

// expand C1: the operand is the slice of the result
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %v = tile.splat %f : f32 -> tensor<4xf32, #tile.slice<1, #rows>>
  // expected-error @+1 {{C1: expected an operand of 'tensor<64xf32, #tile.slice<0}}
  %m = tile.expand %v axis 0 : tensor<4xf32, #tile.slice<1, #rows>> -> tensor<4x64xf32, #rows>
  tile.return
}

// -----

// insert C1: axis
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32, %n: i32) attributes {threads = 32 : i64} {
  %m = tile.splat %f : f32 -> tensor<4x64xf32, #rows>
  %v = tile.splat %f : f32 -> tensor<4xf32, #tile.slice<1, #rows>>
  // expected-error @+1 {{C1: expected an axis of 'tensor<4x64xf32}}
  %r = tile.insert %v into %m[%n] axis -1 : tensor<4xf32, #tile.slice<1, #rows>> into tensor<4x64xf32, #rows>
  tile.return
}

// -----

// insert C1: the vector is the slice of the matrix
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32, %n: i32) attributes {threads = 32 : i64} {
  %m = tile.splat %f : f32 -> tensor<4x64xf32, #rows>
  %v = tile.splat %f : f32 -> tensor<4xf32, #tile.slice<1, #rows>>
  // expected-error @+1 {{C1: expected a vector of 'tensor<64xf32, #tile.slice<0}}
  %r = tile.insert %v into %m[%n] axis 0 : tensor<4xf32, #tile.slice<1, #rows>> into tensor<4x64xf32, #rows>
  tile.return
}

// -----

// reduce C1: a result for each operand
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %m = tile.splat %f : f32 -> tensor<4x64xf32, #rows>
  // expected-error @+1 {{C1: expected one result per operand and at least one, got 1 for 2}}
  %s = tile.reduce %m, %m axis 1 : tensor<4x64xf32, #rows>, tensor<4x64xf32, #rows> -> tensor<4xf32, #tile.slice<1, #rows>>
  tile.return
}

// -----

// reduce C1: axis
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %m = tile.splat %f : f32 -> tensor<4x64xf32, #rows>
  // expected-error @+1 {{C1: expected an axis of 'tensor<4x64xf32}}
  %s = tile.reduce %m axis 2 : tensor<4x64xf32, #rows> -> tensor<4xf32, #tile.slice<1, #rows>>
  tile.return
}

// -----

// reduce C1: operands of one type
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %m = tile.splat %f : f32 -> tensor<4x64xf32, #rows>
  %n = tile.splat %f : f32 -> tensor<4x32xf32, #rows>
  // expected-error @+1 {{C1: expected operands of one type, got 'tensor<4x32xf32}}
  %s, %t = tile.reduce %m, %n axis 1 : tensor<4x64xf32, #rows>, tensor<4x32xf32, #rows> -> tensor<4xf32, #tile.slice<1, #rows>>, tensor<4xf32, #tile.slice<1, #rows>>
  tile.return
}

// -----

// reduce C1: the slice of the operand
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %m = tile.splat %f : f32 -> tensor<4x64xf32, #rows>
  // expected-error @+1 {{C1: expected a result of 'tensor<64xf32, #tile.slice<0}}
  %s = tile.reduce %m axis 0 : tensor<4x64xf32, #rows> -> tensor<4xf32, #tile.slice<1, #rows>>
  tile.return
}

// -----

// reduce C1: a vector gives a scalar
#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %v = tile.splat %f : f32 -> tensor<128xf32, #row>
  // expected-error @+1 {{C1: expected a result of 'f32', got 'tensor<128xf32}}
  %s = tile.reduce %v axis 0 : tensor<128xf32, #row> -> tensor<128xf32, #row>
  tile.return
}

// -----

// reduce: f32 only
#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %h = arith.truncf %f : f32 to bf16
  %v = tile.splat %h : bf16 -> tensor<128xbf16, #row>
  // expected-error @+1 {{operand #0 must be variadic of f32 tensor with a register layout, but got 'tensor<128xbf16}}
  %s = tile.reduce %v axis 0 : tensor<128xbf16, #row> -> bf16
  tile.return
}

// -----

// dot C1: a matrix
#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %v = tile.splat %f : f32 -> tensor<128xf32, #row>
  // expected-error @+1 {{C1: expected a matrix and axis 0 or 1, got 'tensor<128xf32}}
  %s = tile.dot %v with %v axis 0 : tensor<128xf32, #row> with tensor<128xf32, #row> -> tensor<128xf32, #row>
  tile.return
}

// -----

// dot C1: axis
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %m = tile.splat %f : f32 -> tensor<4x64xf32, #rows>
  %k = tile.splat %f : f32 -> tensor<4xf32, #tile.slice<1, #rows>>
  // expected-error @+1 {{C1: expected a matrix and axis 0 or 1, got 'tensor<4x64xf32}}
  %s = tile.dot %k with %m axis 2 : tensor<4xf32, #tile.slice<1, #rows>> with tensor<4x64xf32, #rows> -> tensor<4xf32, #tile.slice<1, #rows>>
  tile.return
}

// -----

// dot C1: a result for each vector
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %m = tile.splat %f : f32 -> tensor<4x64xf32, #rows>
  %k = tile.splat %f : f32 -> tensor<4xf32, #tile.slice<1, #rows>>
  // expected-error @+1 {{C1: expected one result per vector and at least one, got 2 for 1}}
  %s, %t = tile.dot %k with %m axis 0 : tensor<4xf32, #tile.slice<1, #rows>> with tensor<4x64xf32, #rows> -> tensor<64xf32, #tile.slice<0, #rows>>, tensor<64xf32, #tile.slice<0, #rows>>
  tile.return
}

// -----

// dot C1: vectors are slices
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %m = tile.splat %f : f32 -> tensor<4x64xf32, #rows>
  %k = tile.splat %f : f32 -> tensor<4xf32, #tile.slice<1, #rows>>
  // expected-error @+1 {{C1: expected vectors of 'tensor<64xf32, #tile.slice<0}}
  %s = tile.dot %k with %m axis 1 : tensor<4xf32, #tile.slice<1, #rows>> with tensor<4x64xf32, #rows> -> tensor<4xf32, #tile.slice<1, #rows>>
  tile.return
}

// -----

// dot C1: results are slices
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %m = tile.splat %f : f32 -> tensor<4x64xf32, #rows>
  %k = tile.splat %f : f32 -> tensor<4xf32, #tile.slice<1, #rows>>
  // expected-error @+1 {{C1: expected results of 'tensor<64xf32, #tile.slice<0}}
  %s = tile.dot %k with %m axis 0 : tensor<4xf32, #tile.slice<1, #rows>> with tensor<4x64xf32, #rows> -> tensor<4xf32, #tile.slice<1, #rows>>
  tile.return
}

// -----

// dot C2: as many vectors in the second part
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [2, 1], order = [1, 0], num_warps = 2>
#log = #tile.blocked<per_thread = [1, 4], lanes = [2, 16], warps = [2, 1], order = [1, 0], num_warps = 2>
tile.kernel @bad(%f: f32) attributes {threads = 64 : i64} {
  %m = tile.splat %f : f32 -> tensor<8x64xf32, #rows>
  %k = tile.splat %f : f32 -> tensor<8xf32, #tile.slice<1, #rows>>
  %n = tile.splat %f : f32 -> tensor<5x64xf32, #log>
  %w = tile.splat %f : f32 -> tensor<5xf32, #tile.slice<1, #log>>
  // expected-error @+1 {{C2: expected a matrix and 1 vectors in the second part, got 'tensor<5x64xf32}}
  %r = tile.dot %k with %m and %w, %w with %n axis 0 : tensor<8xf32, #tile.slice<1, #rows>> with tensor<8x64xf32, #rows> and tensor<5xf32, #tile.slice<1, #log>>, tensor<5xf32, #tile.slice<1, #log>> with tensor<5x64xf32, #log> -> tensor<64xf32, #tile.slice<0, #rows>>
  tile.return
}

// -----

// dot C2: a matrix in the second part
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [2, 1], order = [1, 0], num_warps = 2>
#log = #tile.slice<0, #rows>
tile.kernel @bad(%f: f32) attributes {threads = 64 : i64} {
  %m = tile.splat %f : f32 -> tensor<8x64xf32, #rows>
  %k = tile.splat %f : f32 -> tensor<8xf32, #tile.slice<1, #rows>>
  %n = tile.splat %f : f32 -> tensor<64xf32, #log>
  %w = tile.splat %f : f32 -> tensor<64xf32, #log>
  // expected-error @+1 {{C2: expected a matrix and 1 vectors in the second part, got 'tensor<64xf32}}
  %r = tile.dot %k with %m and %w with %n axis 0 : tensor<8xf32, #tile.slice<1, #rows>> with tensor<8x64xf32, #rows> and tensor<64xf32, #log> with tensor<64xf32, #log> -> tensor<64xf32, #tile.slice<0, #rows>>
  tile.return
}

// -----

// dot C2: vectors are slices of the second matrix
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [2, 1], order = [1, 0], num_warps = 2>
#log = #tile.blocked<per_thread = [1, 4], lanes = [2, 16], warps = [2, 1], order = [1, 0], num_warps = 2>
tile.kernel @bad(%f: f32) attributes {threads = 64 : i64} {
  %m = tile.splat %f : f32 -> tensor<8x64xf32, #rows>
  %k = tile.splat %f : f32 -> tensor<8xf32, #tile.slice<1, #rows>>
  %n = tile.splat %f : f32 -> tensor<5x64xf32, #log>
  %w = tile.splat %f : f32 -> tensor<5xf32, #tile.slice<1, #rows>>
  // expected-error @+1 {{C2: expected vectors of 'tensor<5xf32}}
  %r = tile.dot %k with %m and %w with %n axis 0 : tensor<8xf32, #tile.slice<1, #rows>> with tensor<8x64xf32, #rows> and tensor<5xf32, #tile.slice<1, #rows>> with tensor<5x64xf32, #log> -> tensor<64xf32, #tile.slice<0, #rows>>
  tile.return
}

// -----

// dot C3: as many columns
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [2, 1], order = [1, 0], num_warps = 2>
#log = #tile.blocked<per_thread = [1, 4], lanes = [2, 16], warps = [2, 1], order = [1, 0], num_warps = 2>
tile.kernel @bad(%f: f32) attributes {threads = 64 : i64} {
  %m = tile.splat %f : f32 -> tensor<8x64xf32, #rows>
  %k = tile.splat %f : f32 -> tensor<8xf32, #tile.slice<1, #rows>>
  %n = tile.splat %f : f32 -> tensor<5x32xf32, #log>
  %w = tile.splat %f : f32 -> tensor<5xf32, #tile.slice<1, #log>>
  // expected-error @+1 {{C3: expected two matrices that distribute axis 1 alike, got 'tensor<8x64xf32}}
  %r = tile.dot %k with %m and %w with %n axis 0 : tensor<8xf32, #tile.slice<1, #rows>> with tensor<8x64xf32, #rows> and tensor<5xf32, #tile.slice<1, #log>> with tensor<5x32xf32, #log> -> tensor<64xf32, #tile.slice<0, #rows>>
  tile.return
}

// -----

// dot C3: columns in the same registers
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [2, 1], order = [1, 0], num_warps = 2>
#log = #tile.blocked<per_thread = [1, 2], lanes = [2, 16], warps = [2, 1], order = [1, 0], num_warps = 2>
tile.kernel @bad(%f: f32) attributes {threads = 64 : i64} {
  %m = tile.splat %f : f32 -> tensor<8x64xf32, #rows>
  %k = tile.splat %f : f32 -> tensor<8xf32, #tile.slice<1, #rows>>
  %n = tile.splat %f : f32 -> tensor<5x64xf32, #log>
  %w = tile.splat %f : f32 -> tensor<5xf32, #tile.slice<1, #log>>
  // expected-error @+1 {{C3: expected two matrices that distribute axis 1 alike, got 'tensor<8x64xf32}}
  %r = tile.dot %k with %m and %w with %n axis 0 : tensor<8xf32, #tile.slice<1, #rows>> with tensor<8x64xf32, #rows> and tensor<5xf32, #tile.slice<1, #log>> with tensor<5x64xf32, #log> -> tensor<64xf32, #tile.slice<0, #rows>>
  tile.return
}

// -----

// dot C3: columns in the same lanes
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [2, 1], order = [1, 0], num_warps = 2>
#log = #tile.blocked<per_thread = [1, 4], lanes = [4, 8], warps = [2, 1], order = [1, 0], num_warps = 2>
tile.kernel @bad(%f: f32) attributes {threads = 64 : i64} {
  %m = tile.splat %f : f32 -> tensor<8x64xf32, #rows>
  %k = tile.splat %f : f32 -> tensor<8xf32, #tile.slice<1, #rows>>
  %n = tile.splat %f : f32 -> tensor<5x64xf32, #log>
  %w = tile.splat %f : f32 -> tensor<5xf32, #tile.slice<1, #log>>
  // expected-error @+1 {{C3: expected two matrices that distribute axis 1 alike, got 'tensor<8x64xf32}}
  %r = tile.dot %k with %m and %w with %n axis 0 : tensor<8xf32, #tile.slice<1, #rows>> with tensor<8x64xf32, #rows> and tensor<5xf32, #tile.slice<1, #log>> with tensor<5x64xf32, #log> -> tensor<64xf32, #tile.slice<0, #rows>>
  tile.return
}

// -----

// dot C3: sums over the same warps
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [2, 1], order = [1, 0], num_warps = 2>
#log = #tile.blocked<per_thread = [1, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 2>
tile.kernel @bad(%f: f32) attributes {threads = 64 : i64} {
  %m = tile.splat %f : f32 -> tensor<8x64xf32, #rows>
  %k = tile.splat %f : f32 -> tensor<8xf32, #tile.slice<1, #rows>>
  %n = tile.splat %f : f32 -> tensor<5x64xf32, #log>
  %w = tile.splat %f : f32 -> tensor<5xf32, #tile.slice<1, #log>>
  // expected-error @+1 {{C3: expected two matrices spread over the same lanes and warps along axis 0, got 'tensor<8x64xf32}}
  %r = tile.dot %k with %m and %w with %n axis 0 : tensor<8xf32, #tile.slice<1, #rows>> with tensor<8x64xf32, #rows> and tensor<5xf32, #tile.slice<1, #log>> with tensor<5x64xf32, #log> -> tensor<64xf32, #tile.slice<0, #rows>>
  tile.return
}

// -----

// rank_update C1: as many rows
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32, %n: i32) attributes {threads = 32 : i64} {
  %a = tile.splat %f : f32 -> tensor<4x64xf32, #rows>
  %b = tile.splat %f : f32 -> tensor<3x32xf32, #rows>
  %c = tile.splat %f : f32 -> tensor<64x32xf32, #rows>
  // expected-error @+1 {{C1: expected R x K, R x V and K x V, got 'tensor<4x64xf32}}
  %r = tile.rank_update %a, %b, %c count %n : tensor<4x64xf32, #rows>, tensor<3x32xf32, #rows>, tensor<64x32xf32, #rows>
  tile.return
}

// -----

// rank_update C1: keys
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32, %n: i32) attributes {threads = 32 : i64} {
  %a = tile.splat %f : f32 -> tensor<4x64xf32, #rows>
  %b = tile.splat %f : f32 -> tensor<4x32xf32, #rows>
  %c = tile.splat %f : f32 -> tensor<32x32xf32, #rows>
  // expected-error @+1 {{C1: expected R x K, R x V and K x V, got 'tensor<4x64xf32}}
  %r = tile.rank_update %a, %b, %c count %n : tensor<4x64xf32, #rows>, tensor<4x32xf32, #rows>, tensor<32x32xf32, #rows>
  tile.return
}

// -----

// rank_update C1: columns
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32, %n: i32) attributes {threads = 32 : i64} {
  %a = tile.splat %f : f32 -> tensor<4x64xf32, #rows>
  %b = tile.splat %f : f32 -> tensor<4x32xf32, #rows>
  %c = tile.splat %f : f32 -> tensor<64x64xf32, #rows>
  // expected-error @+1 {{C1: expected R x K, R x V and K x V, got 'tensor<4x64xf32}}
  %r = tile.rank_update %a, %b, %c count %n : tensor<4x64xf32, #rows>, tensor<4x32xf32, #rows>, tensor<64x64xf32, #rows>
  tile.return
}

// -----

// rank_update C1: matrices
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32, %n: i32) attributes {threads = 32 : i64} {
  %a = tile.splat %f : f32 -> tensor<4x64xf32, #rows>
  %b = tile.splat %f : f32 -> tensor<32xf32, #tile.slice<0, #rows>>
  %c = tile.splat %f : f32 -> tensor<64x32xf32, #rows>
  // expected-error @+1 {{C1: expected R x K, R x V and K x V, got 'tensor<4x64xf32}}
  %r = tile.rank_update %a, %b, %c count %n : tensor<4x64xf32, #rows>, tensor<32xf32, #tile.slice<0, #rows>>, tensor<64x32xf32, #rows>
  tile.return
}

// -----

// convert: shape
#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %v = tile.splat %f : f32 -> tensor<128xf32, #row>
  // expected-error @+1 {{expected operand and result of one shape and element type, got 'tensor<128xf32}}
  %w = tile.convert %v : tensor<128xf32, #row> -> tensor<64xf32, #row>
  tile.return
}

// -----

// convert: element type
#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %v = tile.splat %f : f32 -> tensor<128xf32, #row>
  // expected-error @+1 {{expected operand and result of one shape and element type, got 'tensor<128xf32}}
  %w = tile.convert %v : tensor<128xf32, #row> -> tensor<128xbf16, #row>
  tile.return
}

// -----

// local_store: shape
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %b = tile.alloc : !tile.shared<4x32xf32, #tile.swizzled<0>>
  %v = tile.splat %f : f32 -> tensor<4x64xf32, #rows>
  // expected-error @+1 {{expected tensor and buffer of one shape and element type, got 'tensor<4x64xf32}}
  tile.local_store %v, %b : tensor<4x64xf32, #rows>, !tile.shared<4x32xf32, #tile.swizzled<0>>
  tile.return
}

// -----

// local_load: element type
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad() attributes {threads = 32 : i64} {
  %b = tile.alloc : !tile.shared<4x64xbf16, #tile.swizzled<0>>
  // expected-error @+1 {{expected tensor and buffer of one shape and element type, got 'tensor<4x64xf32}}
  %v = tile.local_load %b : !tile.shared<4x64xbf16, #tile.swizzled<0>> -> tensor<4x64xf32, #rows>
  tile.return
}
