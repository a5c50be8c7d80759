// RUN: dl-opt %s --convert-tile-to-cpu --split-input-file --verify-diagnostics

tile.kernel @uniform_only() attributes {threads = 32 : i64} {
  // expected-error @below {{expected an op of the tile dialect, arith or math, scf.for or scf.if: it has no meaning on the host}}
  %t = gpu.thread_id x
  tile.return
}

// -----

#row = #tile.blocked<per_thread = [2], lanes = [32], warps = [1], order = [0], num_warps = 1>

tile.kernel @narrow_arithmetic() attributes {threads = 32 : i64} {
  %a = arith.constant dense<1.0> : tensor<64xbf16, #row>
  // expected-error @below {{expected bf16 and f16 only in conversions to and from f32 and in select, got 'bf16'}}
  %b = arith.addf %a, %a : tensor<64xbf16, #row>
  tile.return
}

// -----

#row = #tile.blocked<per_thread = [1], lanes = [32], warps = [1], order = [0], num_warps = 1>

tile.kernel @constants() attributes {threads = 32 : i64} {
  // expected-error @below {{expected one value for all elements of a distributed constant}}
  %a = arith.constant dense<[1.0, 2.0]> : tensor<2xf32, #row>
  tile.return
}

// -----

tile.kernel @loops() attributes {threads = 32 : i64} {
  %true = arith.constant true
  // expected-error @below {{expected an op of the tile dialect, arith or math, scf.for or scf.if: it has no meaning on the host}}
  scf.while (%c = %true) : (i1) -> () {
    scf.condition(%c)
  } do {
    scf.yield %true : i1
  }
  tile.return
}

// -----

!m = memref<64xf32, strided<[1]>>

tile.kernel @chosen_memory(%a: !m, %b: !m, %n: i32) attributes {threads = 32 : i64} {
  %zero = arith.constant 0 : i32
  %is = arith.cmpi sgt, %n, %zero : i32
  // expected-error @below {{expected results that are scalars or distributed tensors, got 'memref<64xf32, strided<[1]>>'}}
  %c = arith.select %is, %a, %b : !m
  tile.return
}

// -----

tile.kernel @plain_tensors() attributes {threads = 32 : i64} {
  // expected-error @below {{expected results that are scalars or distributed tensors, got 'tensor<64xf32>'}}
  %a = arith.constant dense<1.0> : tensor<64xf32>
  tile.return
}
