// RUN: dl-opt %s -split-input-file -verify-diagnostics
//
// One negative per constraint of tile.gram.

// C1: matrices
tile.kernel @bad() attributes {threads = 32 : i64} {
  %a = tile.alloc : !tile.shared<4x16x16xbf16, #tile.swizzled<32>>
  %g = tile.alloc : !tile.shared<16x16xf32, #tile.swizzled<32>>
  // expected-error @+1 {{C1: expected C x K of bf16 or f16, got '!tile.shared<4x16x16xbf16, #tile.swizzled<32>>'}}
  tile.gram %a with %a into %g : !tile.shared<4x16x16xbf16, #tile.swizzled<32>> with !tile.shared<4x16x16xbf16, #tile.swizzled<32>> into !tile.shared<16x16xf32, #tile.swizzled<32>>
  tile.return
}

// -----

// C1: element type
tile.kernel @bad() attributes {threads = 32 : i64} {
  %a = tile.alloc : !tile.shared<16x16xf32, #tile.swizzled<32>>
  %g = tile.alloc : !tile.shared<16x16xf32, #tile.swizzled<32>>
  // expected-error @+1 {{C1: expected C x K of bf16 or f16, got '!tile.shared<16x16xf32, #tile.swizzled<32>>'}}
  tile.gram %a with %a into %g : !tile.shared<16x16xf32, #tile.swizzled<32>> with !tile.shared<16x16xf32, #tile.swizzled<32>> into !tile.shared<16x16xf32, #tile.swizzled<32>>
  tile.return
}

// -----

// C1: one result for each x
tile.kernel @bad() attributes {threads = 32 : i64} {
  %a = tile.alloc : !tile.shared<16x16xbf16, #tile.swizzled<32>>
  %g = tile.alloc : !tile.shared<16x16xf32, #tile.swizzled<32>>
  // expected-error @+1 {{C1: expected one result per x and at least one, got 1 for 2}}
  tile.gram %a, %a with %a into %g : !tile.shared<16x16xbf16, #tile.swizzled<32>>, !tile.shared<16x16xbf16, #tile.swizzled<32>> with !tile.shared<16x16xbf16, #tile.swizzled<32>> into !tile.shared<16x16xf32, #tile.swizzled<32>>
  tile.return
}

// -----

// C1: shape of x
tile.kernel @bad() attributes {threads = 32 : i64} {
  %a = tile.alloc : !tile.shared<16x32xbf16, #tile.swizzled<32>>
  %x = tile.alloc : !tile.shared<16x16xbf16, #tile.swizzled<32>>
  %g = tile.alloc : !tile.shared<16x16xf32, #tile.swizzled<32>>
  %h = tile.alloc : !tile.shared<16x16xf32, #tile.swizzled<32>>
  // expected-error @+1 {{C1: expected x as a, '!tile.shared<16x32xbf16, #tile.swizzled<32>>', got '!tile.shared<16x16xbf16, #tile.swizzled<32>>'}}
  tile.gram %a, %x with %a into %g, %h : !tile.shared<16x32xbf16, #tile.swizzled<32>>, !tile.shared<16x16xbf16, #tile.swizzled<32>> with !tile.shared<16x32xbf16, #tile.swizzled<32>> into !tile.shared<16x16xf32, #tile.swizzled<32>>, !tile.shared<16x16xf32, #tile.swizzled<32>>
  tile.return
}

// -----

// C1: element type of x
tile.kernel @bad() attributes {threads = 32 : i64} {
  %a = tile.alloc : !tile.shared<16x16xbf16, #tile.swizzled<32>>
  %x = tile.alloc : !tile.shared<16x16xf16, #tile.swizzled<32>>
  %g = tile.alloc : !tile.shared<16x16xf32, #tile.swizzled<32>>
  // expected-error @+1 {{C1: expected x as a, '!tile.shared<16x16xbf16, #tile.swizzled<32>>', got '!tile.shared<16x16xf16, #tile.swizzled<32>>'}}
  tile.gram %x with %a into %g : !tile.shared<16x16xf16, #tile.swizzled<32>> with !tile.shared<16x16xbf16, #tile.swizzled<32>> into !tile.shared<16x16xf32, #tile.swizzled<32>>
  tile.return
}

// -----

// C1: shape of a result
tile.kernel @bad() attributes {threads = 32 : i64} {
  %a = tile.alloc : !tile.shared<16x32xbf16, #tile.swizzled<32>>
  %g = tile.alloc : !tile.shared<16x32xf32, #tile.swizzled<32>>
  // expected-error @+1 {{C1: expected a result of 16 x 16 f32, got '!tile.shared<16x32xf32, #tile.swizzled<32>>'}}
  tile.gram %a with %a into %g : !tile.shared<16x32xbf16, #tile.swizzled<32>> with !tile.shared<16x32xbf16, #tile.swizzled<32>> into !tile.shared<16x32xf32, #tile.swizzled<32>>
  tile.return
}

// -----

// C1: element type of a result
tile.kernel @bad() attributes {threads = 32 : i64} {
  %a = tile.alloc : !tile.shared<16x16xbf16, #tile.swizzled<32>>
  %g = tile.alloc : !tile.shared<16x16xbf16, #tile.swizzled<32>>
  // expected-error @+1 {{C1: expected a result of 16 x 16 f32, got '!tile.shared<16x16xbf16, #tile.swizzled<32>>'}}
  tile.gram %a with %a into %g : !tile.shared<16x16xbf16, #tile.swizzled<32>> with !tile.shared<16x16xbf16, #tile.swizzled<32>> into !tile.shared<16x16xbf16, #tile.swizzled<32>>
  tile.return
}

// -----

// C2: rows
tile.kernel @bad() attributes {threads = 32 : i64} {
  %a = tile.alloc : !tile.shared<24x16xbf16, #tile.swizzled<32>>
  %g = tile.alloc : !tile.shared<24x24xf32, #tile.swizzled<32>>
  // expected-error @+1 {{C2: expected multiples of 16, got '!tile.shared<24x16xbf16, #tile.swizzled<32>>'}}
  tile.gram %a with %a into %g : !tile.shared<24x16xbf16, #tile.swizzled<32>> with !tile.shared<24x16xbf16, #tile.swizzled<32>> into !tile.shared<24x24xf32, #tile.swizzled<32>>
  tile.return
}

// -----

// C2: columns
tile.kernel @bad() attributes {threads = 32 : i64} {
  %a = tile.alloc : !tile.shared<16x24xbf16, #tile.swizzled<32>>
  %g = tile.alloc : !tile.shared<16x16xf32, #tile.swizzled<32>>
  // expected-error @+1 {{C2: expected multiples of 16, got '!tile.shared<16x24xbf16, #tile.swizzled<32>>'}}
  tile.gram %a with %a into %g : !tile.shared<16x24xbf16, #tile.swizzled<32>> with !tile.shared<16x24xbf16, #tile.swizzled<32>> into !tile.shared<16x16xf32, #tile.swizzled<32>>
  tile.return
}

// -----

// C3: a positive number
tile.kernel @bad() attributes {threads = 32 : i64} {
  %a = tile.alloc : !tile.shared<16x16xbf16, #tile.swizzled<32>>
  %g = tile.alloc : !tile.shared<16x16xf32, #tile.swizzled<32>>
  // expected-error @+1 {{C3: expected half to be a power of two that divides 8, got 0}}
  tile.gram %a with %a into %g half 0 : !tile.shared<16x16xbf16, #tile.swizzled<32>> with !tile.shared<16x16xbf16, #tile.swizzled<32>> into !tile.shared<16x16xf32, #tile.swizzled<32>>
  tile.return
}

// -----

// C3: a power of two
tile.kernel @bad() attributes {threads = 32 : i64} {
  %a = tile.alloc : !tile.shared<48x16xbf16, #tile.swizzled<32>>
  %g = tile.alloc : !tile.shared<48x48xf32, #tile.swizzled<32>>
  // expected-error @+1 {{C3: expected half to be a power of two that divides 24, got 3}}
  tile.gram %a with %a into %g half 3 : !tile.shared<48x16xbf16, #tile.swizzled<32>> with !tile.shared<48x16xbf16, #tile.swizzled<32>> into !tile.shared<48x48xf32, #tile.swizzled<32>>
  tile.return
}

// -----

// C3: a divisor of C/2
tile.kernel @bad() attributes {threads = 32 : i64} {
  %a = tile.alloc : !tile.shared<48x16xbf16, #tile.swizzled<32>>
  %g = tile.alloc : !tile.shared<48x48xf32, #tile.swizzled<32>>
  // expected-error @+1 {{C3: expected half to be a power of two that divides 24, got 16}}
  tile.gram %a with %a into %g half 16 : !tile.shared<48x16xbf16, #tile.swizzled<32>> with !tile.shared<48x16xbf16, #tile.swizzled<32>> into !tile.shared<48x48xf32, #tile.swizzled<32>>
  tile.return
}

// -----

// C4: a rest of a alone
tile.kernel @bad() attributes {threads = 32 : i64} {
  %a = tile.alloc : !tile.shared<16x16xbf16, #tile.swizzled<32>>
  %g = tile.alloc : !tile.shared<16x16xf32, #tile.swizzled<32>>
  // expected-error @+1 {{C4: expected 1 rests of x, got 0}}
  tile.gram %a with %a rest %a into %g : !tile.shared<16x16xbf16, #tile.swizzled<32>> with !tile.shared<16x16xbf16, #tile.swizzled<32>> rest !tile.shared<16x16xbf16, #tile.swizzled<32>> into !tile.shared<16x16xf32, #tile.swizzled<32>>
  tile.return
}

// -----

// C4: a rest of another shape
tile.kernel @bad() attributes {threads = 32 : i64} {
  %a = tile.alloc : !tile.shared<16x16xbf16, #tile.swizzled<32>>
  %r = tile.alloc : !tile.shared<16x32xbf16, #tile.swizzled<32>>
  %g = tile.alloc : !tile.shared<16x16xf32, #tile.swizzled<32>>
  // expected-error @+1 {{C4: expected rests like a, '!tile.shared<16x16xbf16, #tile.swizzled<32>>', got '!tile.shared<16x32xbf16, #tile.swizzled<32>>' and '!tile.shared<16x16xbf16, #tile.swizzled<32>>'}}
  tile.gram %a rest %r with %a rest %a into %g : !tile.shared<16x16xbf16, #tile.swizzled<32>> rest !tile.shared<16x32xbf16, #tile.swizzled<32>> with !tile.shared<16x16xbf16, #tile.swizzled<32>> rest !tile.shared<16x16xbf16, #tile.swizzled<32>> into !tile.shared<16x16xf32, #tile.swizzled<32>>
  tile.return
}
