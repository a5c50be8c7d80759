// RUN: dl-opt %s --split-input-file --verify-diagnostics

!counters = !tile.shared<2xi64, #tile.swizzled<0>>

// arrivals C1
tile.kernel @bad() attributes {threads = 32 : i64} {
  // expected-error @+1 {{C1: expected a row of at most 16 i64, got '!tile.shared<2xi32, #tile.swizzled<0>>'}}
  %a = tile.arrivals : !tile.shared<2xi32, #tile.swizzled<0>>
  tile.return
}

// -----

// arrivals C1
tile.kernel @bad() attributes {threads = 32 : i64} {
  // expected-error @+1 {{C1: expected a row of at most 16 i64, got '!tile.shared<17xi64, #tile.swizzled<0>>'}}
  %a = tile.arrivals : !tile.shared<17xi64, #tile.swizzled<0>>
  tile.return
}

// -----

!counters = !tile.shared<2xi64, #tile.swizzled<0>>
!row = !tile.shared<512xi8, #tile.swizzled<0>>

// copy_bulk C1: the buffer is longer than the row
tile.kernel @bad(%w: memref<?x256xi8, strided<[?, 1]>>, %i: i32) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %a = tile.arrivals : !counters
  %row = tile.alloc : !row
  // expected-error @+1 {{C1: expected rows of i8 of a multiple of 16 bytes, an index for every other dimension and a buffer of one row, got}}
  tile.copy_bulk %w[%c0] into %row arriving %a[%i] : memref<?x256xi8, strided<[?, 1]>>, !row, !counters
  tile.return
}

// -----

!counters = !tile.shared<2xi64, #tile.swizzled<0>>
!row = !tile.shared<1048576xi8, #tile.swizzled<0>>

// copy_bulk C1: more than a counter counts
tile.kernel @bad(%w: memref<?x1048576xi8, strided<[?, 1]>>, %i: i32) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %a = tile.arrivals : !counters
  %row = tile.alloc : !row
  // expected-error @+1 {{C1: expected rows of less than 2^20 bytes, got 1048576}}
  tile.copy_bulk %w[%c0] into %row arriving %a[%i] : memref<?x1048576xi8, strided<[?, 1]>>, !row, !counters
  tile.return
}

// -----

!counters = !tile.shared<2xi64, #tile.swizzled<0>>
!row = !tile.shared<256xi8, #tile.swizzled<0>>

// copy_bulk C2
tile.kernel @bad(%w: memref<?x256xi8, strided<[?, 1]>>, %i: i32) attributes {threads = 32 : i64} {
  %c0 = arith.constant 0 : index
  %a = tile.alloc : !counters
  %row = tile.alloc : !row
  // expected-error @+1 {{C2: expected counters of tile.arrivals}}
  tile.copy_bulk %w[%c0] into %row arriving %a[%i] : memref<?x256xi8, strided<[?, 1]>>, !row, !counters
  tile.return
}

// -----

!counters = !tile.shared<2xi64, #tile.swizzled<0>>

// await C1
tile.kernel @bad(%i: i32) attributes {threads = 32 : i64} {
  %a = tile.alloc : !counters
  // expected-error @+1 {{C1: expected counters of tile.arrivals}}
  tile.await %a[%i] parity %i : !counters
  tile.return
}

// -----

// local_part C2: descriptors and swizzles see addresses
tile.kernel @bad() attributes {threads = 32 : i64} {
  %row = tile.alloc : !tile.shared<4096xi8, #tile.swizzled<0>>
  // expected-error @+1 {{C2: expected a multiple of 1024 from which}}
  %b = tile.local_part %row offset 128 : !tile.shared<4096xi8, #tile.swizzled<0>> -> !tile.shared<8x64xbf16, #tile.swizzled<128>>
  tile.return
}
