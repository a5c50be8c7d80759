// RUN: dl-opt %s -split-input-file -verify-diagnostics
//
// tile.coordinate, tile.scan and tile.invert_unit_lower: one negative per check.

// coordinate C1: an axis of the result
#m = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  // expected-error @+1 {{C1: expected an axis of a tensor of i32, got 2 of 'tensor<4x64xi32}}
  %i = tile.coordinate axis 2 : tensor<4x64xi32, #m>
  tile.return
}

// -----

// coordinate C1: no axis before the first
#m = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  // expected-error @+1 {{C1: expected an axis of a tensor of i32, got -1 of 'tensor<4x64xi32}}
  %i = tile.coordinate axis -1 : tensor<4x64xi32, #m>
  tile.return
}

// -----

// coordinate C1: i32
#m = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  // expected-error @+1 {{C1: expected an axis of a tensor of i32, got 0 of 'tensor<4x64xf32}}
  %i = tile.coordinate axis 0 : tensor<4x64xf32, #m>
  tile.return
}

// -----

// scan C1: an axis of the operand
#m = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %v = tile.splat %f : f32 -> tensor<4x96xf32, #m>
  // expected-error @+1 {{C1: expected an axis of 'tensor<4x96xf32, #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>>', got 2}}
  %s = tile.scan %v axis 2 run 4 : tensor<4x96xf32, #m>
  tile.return
}

// -----

// scan C1: no axis before the first
#m = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %v = tile.splat %f : f32 -> tensor<4x96xf32, #m>
  // expected-error @+1 {{C1: expected an axis of 'tensor<4x96xf32, #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>>', got -1}}
  %s = tile.scan %v axis -1 run 4 reverse : tensor<4x96xf32, #m>
  tile.return
}

// -----

// scan C1: runs that divide the axis
#m = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %v = tile.splat %f : f32 -> tensor<4x96xf32, #m>
  // expected-error @+1 {{C1: expected a run that divides 96, got 64}}
  %s = tile.scan %v axis 1 run 64 : tensor<4x96xf32, #m>
  tile.return
}

// -----

// scan C1: runs of something
#m = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %v = tile.splat %f : f32 -> tensor<4x96xf32, #m>
  // expected-error @+1 {{C1: expected a run that divides 4, got 0}}
  %s = tile.scan %v axis 0 run 0 exclusive : tensor<4x96xf32, #m>
  tile.return
}

// -----

// invert_unit_lower C1: square
#m = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %a = tile.splat %f : f32 -> tensor<32x64xf32, #m>
  // expected-error @+1 {{C1: expected 16, 32, 64 or 128 rows and as many columns, got 'tensor<32x64xf32}}
  %t = tile.invert_unit_lower %a : tensor<32x64xf32, #m>
  tile.return
}

// -----

// invert_unit_lower C1: whole blocks
#m = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %a = tile.splat %f : f32 -> tensor<8x8xf32, #m>
  // expected-error @+1 {{C1: expected 16, 32, 64 or 128 rows and as many columns, got 'tensor<8x8xf32}}
  %t = tile.invert_unit_lower %a : tensor<8x8xf32, #m>
  tile.return
}

// -----

// invert_unit_lower C1: a power of two of them
#m = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %a = tile.splat %f : f32 -> tensor<48x48xf32, #m>
  // expected-error @+1 {{C1: expected 16, 32, 64 or 128 rows and as many columns, got 'tensor<48x48xf32}}
  %t = tile.invert_unit_lower %a : tensor<48x48xf32, #m>
  tile.return
}

// -----

// invert_unit_lower C1: at most 128 rows
#m = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %a = tile.splat %f : f32 -> tensor<256x256xf32, #m>
  // expected-error @+1 {{C1: expected 16, 32, 64 or 128 rows and as many columns, got 'tensor<256x256xf32}}
  %t = tile.invert_unit_lower %a : tensor<256x256xf32, #m>
  tile.return
}

// -----

// invert_unit_lower C1: a matrix
#m = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %a = tile.splat %f : f32 -> tensor<64xf32, #tile.slice<0, #m>>
  // expected-error @+1 {{C1: expected 16, 32, 64 or 128 rows and as many columns, got 'tensor<64xf32}}
  %t = tile.invert_unit_lower %a : tensor<64xf32, #tile.slice<0, #m>>
  tile.return
}
