// RUN: dl-opt %s -split-input-file -verify-diagnostics
//
// tile.interleave, tile.pick and repeats of tile.load: one negative per check.

// interleave C1: at least one operand
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
#double = #tile.blocked<per_thread = [4, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
tile.kernel @bad(%f: f32) attributes {threads = 128 : i64} {
  // expected-error @+1 {{C1: expected at least one operand}}
  %r = "tile.interleave"() : () -> tensor<16x64xf32, #rows>
  tile.return
}

// -----

// interleave: operands of one type
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
#double = #tile.blocked<per_thread = [4, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
tile.kernel @bad(%f: f32) attributes {threads = 128 : i64} {
  %m = tile.splat %f : f32 -> tensor<16x64xf32, #rows>
  %n = tile.splat %f : f32 -> tensor<8x64xf32, #rows>
  // expected-error @+1 {{requires all operands to have the same type}}
  %r = tile.interleave %m, %n : tensor<16x64xf32, #rows>, tensor<8x64xf32, #rows> -> tensor<24x64xf32, #double>
  tile.return
}

// -----

// interleave C1: all rows
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
#double = #tile.blocked<per_thread = [4, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
tile.kernel @bad(%f: f32) attributes {threads = 128 : i64} {
  %m = tile.splat %f : f32 -> tensor<16x64xf32, #rows>
  // expected-error @+1 {{C1: expected 32 rows for 2 of 'tensor<16x64xf32}}
  %r = tile.interleave %m, %m : tensor<16x64xf32, #rows>, tensor<16x64xf32, #rows> -> tensor<16x64xf32, #rows>
  tile.return
}

// -----

// interleave C1: a number has no rows
#row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 4>
tile.kernel @bad(%f: f32) attributes {threads = 128 : i64} {
  %m = tile.splat %f : f32 -> tensor<f32, #tile.slice<0, #row>>
  // expected-error @+1 {{C1: expected tensors that differ in their number of rows only, one a multiple of the other, got 'tensor<f32}}
  %r = tile.interleave %m : tensor<f32, #tile.slice<0, #row>> -> tensor<f32, #tile.slice<0, #row>>
  tile.return
}

// -----

// interleave C1: the other axes
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
#double = #tile.blocked<per_thread = [4, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
tile.kernel @bad(%f: f32) attributes {threads = 128 : i64} {
  %m = tile.splat %f : f32 -> tensor<16x64xf32, #rows>
  // expected-error @+1 {{C1: expected tensors that differ in their number of rows only, one a multiple of the other, got 'tensor<32x32xf32}}
  %r = tile.interleave %m, %m : tensor<16x64xf32, #rows>, tensor<16x64xf32, #rows> -> tensor<32x32xf32, #double>
  tile.return
}

// -----

// interleave C1: elements
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
#double = #tile.blocked<per_thread = [4, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
tile.kernel @bad(%f: f32) attributes {threads = 128 : i64} {
  %m = tile.splat %f : f32 -> tensor<16x64xf32, #rows>
  // expected-error @+1 {{C1: expected tensors that differ in their number of rows only, one a multiple of the other, got 'tensor<32x64xi32}}
  %r = tile.interleave %m, %m : tensor<16x64xf32, #rows>, tensor<16x64xf32, #rows> -> tensor<32x64xi32, #double>
  tile.return
}

// -----

// interleave C1: rank
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
#double = #tile.blocked<per_thread = [4, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
tile.kernel @bad(%f: f32) attributes {threads = 128 : i64} {
  %m = tile.splat %f : f32 -> tensor<16x64xf32, #rows>
  // expected-error @+1 {{C1: expected tensors that differ in their number of rows only, one a multiple of the other, got 'tensor<32xf32}}
  %r = tile.interleave %m, %m : tensor<16x64xf32, #rows>, tensor<16x64xf32, #rows> -> tensor<32xf32, #tile.slice<1, #double>>
  tile.return
}

// -----

// interleave C2: rows of a token are apart
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
#double = #tile.blocked<per_thread = [4, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
tile.kernel @bad(%f: f32) attributes {threads = 128 : i64} {
  %m = tile.splat %f : f32 -> tensor<16x64xf32, #rows>
  // expected-error @+1 {{C2: expected threads to hold the same rows, got 'tensor<32x64xf32}}
  %r = tile.interleave %m, %m : tensor<16x64xf32, #rows>, tensor<16x64xf32, #rows> -> tensor<32x64xf32, #rows>
  tile.return
}

// -----

// interleave C2: three rows of padding to four, which are not six
#three = #tile.blocked<per_thread = [4, 1], lanes = [1, 32], warps = [1, 1], order = [1, 0], num_warps = 4>
#six = #tile.blocked<per_thread = [6, 1], lanes = [1, 32], warps = [1, 1], order = [1, 0], num_warps = 4>
tile.kernel @bad(%f: f32) attributes {threads = 128 : i64} {
  %m = tile.splat %f : f32 -> tensor<3x32xf32, #three>
  // expected-error @+1 {{C2: expected threads to hold the same rows, got 'tensor<6x32xf32}}
  %r = tile.interleave %m, %m : tensor<3x32xf32, #three>, tensor<3x32xf32, #three> -> tensor<6x32xf32, #six>
  tile.return
}

// -----

// pick C1: a multiple of the rows
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
#double = #tile.blocked<per_thread = [4, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
tile.kernel @bad(%f: f32) attributes {threads = 128 : i64} {
  %m = tile.splat %f : f32 -> tensor<32x64xf32, #double>
  // expected-error @+1 {{C1: expected tensors that differ in their number of rows only, one a multiple of the other, got 'tensor<32x64xf32}}
  %r = tile.pick 0 of %m : tensor<32x64xf32, #double> -> tensor<24x64xf32, #rows>
  tile.return
}

// -----

// pick C1: the other axes
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
#double = #tile.blocked<per_thread = [4, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
tile.kernel @bad(%f: f32) attributes {threads = 128 : i64} {
  %m = tile.splat %f : f32 -> tensor<32x64xf32, #double>
  // expected-error @+1 {{C1: expected tensors that differ in their number of rows only, one a multiple of the other, got 'tensor<32x64xf32}}
  %r = tile.pick 0 of %m : tensor<32x64xf32, #double> -> tensor<16x32xf32, #rows>
  tile.return
}

// -----

// pick C1: elements
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
#double = #tile.blocked<per_thread = [4, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
tile.kernel @bad(%f: f32) attributes {threads = 128 : i64} {
  %m = tile.splat %f : f32 -> tensor<32x64xf32, #double>
  // expected-error @+1 {{C1: expected tensors that differ in their number of rows only, one a multiple of the other, got 'tensor<32x64xf32}}
  %r = tile.pick 0 of %m : tensor<32x64xf32, #double> -> tensor<16x64xbf16, #rows>
  tile.return
}

// -----

// pick C1: one of the rows
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
#double = #tile.blocked<per_thread = [4, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
tile.kernel @bad(%f: f32) attributes {threads = 128 : i64} {
  %m = tile.splat %f : f32 -> tensor<32x64xf32, #double>
  // expected-error @+1 {{C1: expected a row below 2, got 2}}
  %r = tile.pick 2 of %m : tensor<32x64xf32, #double> -> tensor<16x64xf32, #rows>
  tile.return
}

// -----

// pick C1: one of the rows
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
#double = #tile.blocked<per_thread = [4, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
tile.kernel @bad(%f: f32) attributes {threads = 128 : i64} {
  %m = tile.splat %f : f32 -> tensor<32x64xf32, #double>
  // expected-error @+1 {{C1: expected a row below 2, got -1}}
  %r = tile.pick -1 of %m : tensor<32x64xf32, #double> -> tensor<16x64xf32, #rows>
  tile.return
}

// -----

// pick C2: rows of a token are apart
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
#double = #tile.blocked<per_thread = [4, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
tile.kernel @bad(%f: f32) attributes {threads = 128 : i64} {
  %m = tile.splat %f : f32 -> tensor<32x64xf32, #double>
  // expected-error @+1 {{C2: expected threads to hold the same rows, got 'tensor<32x64xf32}}
  %r = tile.pick 0 of %m : tensor<32x64xf32, #double> -> tensor<16x64xf32, #double>
  tile.return
}

// -----

// pick C2: registers of an instruction are eight rows apart
#c = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [1, 1]>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %m = tile.splat %f : f32 -> tensor<32x8xf32, #c>
  // expected-error @+1 {{C2: expected threads to hold the same rows, got 'tensor<32x8xf32}}
  %r = tile.pick 0 of %m : tensor<32x8xf32, #c> -> tensor<16x8xf32, #c>
  tile.return
}

// -----

// load C3: a number for each axis
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
!m = memref<16x64xf32, strided<[64, 1]>>
tile.kernel @bad(%x: !m) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{C3: expected 2 positive repeats, got 2}}
  %r = tile.load %x[%c0, %c0] axes [0, 1] repeats [2] : !m -> tensor<32x64xf32, #rows>
  tile.return
}

// -----

// load C3: positive numbers
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
!m = memref<16x64xf32, strided<[64, 1]>>
tile.kernel @bad(%x: !m) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{C3: expected 2 positive repeats, got 0, 1}}
  %r = tile.load %x[%c0, %c0] axes [0, 1] repeats [0, 1] : !m -> tensor<32x64xf32, #rows>
  tile.return
}

// -----

// load C3: what a thread and a register add stays below the repeats
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
!m = memref<16x64xf32, strided<[64, 1]>>
tile.kernel @bad(%x: !m) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{C3: expected a layout that adds no place among 3 to another one along axis 0, got 'tensor<32x64xf32}}
  %r = tile.load %x[%c0, %c0] axes [0, 1] repeats [3, 1] : !m -> tensor<32x64xf32, #rows>
  tile.return
}

// -----

// load C3: the same along the other axis
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
!m = memref<16x64xf32, strided<[64, 1]>>
tile.kernel @bad(%x: !m) attributes {threads = 128 : i64} {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{C3: expected a layout that adds no place among 6 to another one along axis 1, got 'tensor<32x64xf32}}
  %r = tile.load %x[%c0, %c0] axes [0, 1] repeats [2, 6] : !m -> tensor<32x64xf32, #rows>
  tile.return
}
