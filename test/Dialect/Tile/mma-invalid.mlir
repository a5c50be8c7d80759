// RUN: dl-opt %s -split-input-file -verify-diagnostics
//
// One negative per constraint of tile.mma.

// C1: M
#a = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [1, 1]>
#b = #tile.fragment<"mma.m16n8k16.bf16", "b", warps = [1, 1]>
#c = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [1, 1]>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %as = arith.truncf %f : f32 to bf16
  %a = tile.splat %as : bf16 -> tensor<32x16xbf16, #a>
  %bs = arith.truncf %f : f32 to bf16
  %b = tile.splat %bs : bf16 -> tensor<16x8xbf16, #b>
  %c = tile.splat %f : f32 -> tensor<16x8xf32, #c>
  // expected-error @+1 {{C1: expected M x K, K x N and M x N, got 'tensor<32x16xbf16}}
  %d = tile.mma %a, %b, %c : tensor<32x16xbf16, #a>, tensor<16x8xbf16, #b>, tensor<16x8xf32, #c>
  tile.return
}

// -----

// C1: N
#a = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [1, 1]>
#b = #tile.fragment<"mma.m16n8k16.bf16", "b", warps = [1, 1]>
#c = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [1, 1]>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %as = arith.truncf %f : f32 to bf16
  %a = tile.splat %as : bf16 -> tensor<16x16xbf16, #a>
  %bs = arith.truncf %f : f32 to bf16
  %b = tile.splat %bs : bf16 -> tensor<16x16xbf16, #b>
  %c = tile.splat %f : f32 -> tensor<16x8xf32, #c>
  // expected-error @+1 {{C1: expected M x K, K x N and M x N, got 'tensor<16x16xbf16}}
  %d = tile.mma %a, %b, %c : tensor<16x16xbf16, #a>, tensor<16x16xbf16, #b>, tensor<16x8xf32, #c>
  tile.return
}

// -----

// C1: K
#a = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [1, 1]>
#b = #tile.fragment<"mma.m16n8k16.bf16", "b", warps = [1, 1]>
#c = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [1, 1]>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %as = arith.truncf %f : f32 to bf16
  %a = tile.splat %as : bf16 -> tensor<16x16xbf16, #a>
  %bs = arith.truncf %f : f32 to bf16
  %b = tile.splat %bs : bf16 -> tensor<24x8xbf16, #b>
  %c = tile.splat %f : f32 -> tensor<16x8xf32, #c>
  // expected-error @+1 {{C1: expected M x K, K x N and M x N, got 'tensor<16x16xbf16}}
  %d = tile.mma %a, %b, %c : tensor<16x16xbf16, #a>, tensor<24x8xbf16, #b>, tensor<16x8xf32, #c>
  tile.return
}

// -----

// C1: shared b is N x K
#a = #tile.fragment<"wgmma.m64n16k16.bf16", "a", warps = [1, 1]>
#c = #tile.fragment<"wgmma.m64n16k16.bf16", "c", warps = [1, 1]>
tile.kernel @bad(%f: f32) attributes {threads = 128 : i64} {
  %as = arith.truncf %f : f32 to bf16
  %a = tile.splat %as : bf16 -> tensor<64x16xbf16, #a>
  %b = tile.alloc : !tile.shared<16x32xbf16, #tile.swizzled<32>>
  %c = tile.splat %f : f32 -> tensor<64x16xf32, #c>
  // expected-error @+1 {{C1: expected M x K, N x K and M x N, got 'tensor<64x16xbf16}}
  %d = tile.mma %a, %b, %c : tensor<64x16xbf16, #a>, !tile.shared<16x32xbf16, #tile.swizzled<32>>, tensor<64x16xf32, #c>
  tile.return
}

// -----

// C2: a is an "a" fragment
#a = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [1, 1]>
#b = #tile.fragment<"mma.m16n8k16.bf16", "b", warps = [1, 1]>
#c = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [1, 1]>
#rows = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], order = [1, 0], num_warps = 1>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %as = arith.truncf %f : f32 to bf16
  %a = tile.splat %as : bf16 -> tensor<16x16xbf16, #rows>
  %bs = arith.truncf %f : f32 to bf16
  %b = tile.splat %bs : bf16 -> tensor<16x8xbf16, #b>
  %c = tile.splat %f : f32 -> tensor<16x8xf32, #c>
  // expected-error @+1 {{C2: expected fragment "a", got 'tensor<16x16xbf16}}
  %d = tile.mma %a, %b, %c : tensor<16x16xbf16, #rows>, tensor<16x8xbf16, #b>, tensor<16x8xf32, #c>
  tile.return
}

// -----

// C2: c is a "c" fragment
#a = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [1, 1]>
#b = #tile.fragment<"mma.m16n8k16.bf16", "b", warps = [1, 1]>
#c = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [1, 1]>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %as = arith.truncf %f : f32 to bf16
  %a = tile.splat %as : bf16 -> tensor<16x16xbf16, #a>
  %bs = arith.truncf %f : f32 to bf16
  %b = tile.splat %bs : bf16 -> tensor<16x8xbf16, #b>
  %c = tile.splat %f : f32 -> tensor<16x8xf32, #b>
  // expected-error @+1 {{C2: expected fragment "c", got 'tensor<16x8xf32}}
  %d = tile.mma %a, %b, %c : tensor<16x16xbf16, #a>, tensor<16x8xbf16, #b>, tensor<16x8xf32, #b>
  tile.return
}

// -----

// C2: b is a "b" fragment
#a = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [1, 1]>
#b = #tile.fragment<"mma.m16n8k16.bf16", "b", warps = [1, 1]>
#c = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [1, 1]>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %as = arith.truncf %f : f32 to bf16
  %a = tile.splat %as : bf16 -> tensor<16x16xbf16, #a>
  %bs = arith.truncf %f : f32 to bf16
  %b = tile.splat %bs : bf16 -> tensor<16x8xbf16, #c>
  %c = tile.splat %f : f32 -> tensor<16x8xf32, #c>
  // expected-error @+1 {{C2: expected fragment "b", got 'tensor<16x8xbf16}}
  %d = tile.mma %a, %b, %c : tensor<16x16xbf16, #a>, tensor<16x8xbf16, #c>, tensor<16x8xf32, #c>
  tile.return
}

// -----

// C2: one row
#a = #tile.fragment<"mma.m16n8k16.f16", "a", warps = [1, 1]>
#b = #tile.fragment<"mma.m16n8k16.bf16", "b", warps = [1, 1]>
#c = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [1, 1]>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %as = arith.truncf %f : f32 to f16
  %a = tile.splat %as : f16 -> tensor<16x16xf16, #a>
  %bs = arith.truncf %f : f32 to bf16
  %b = tile.splat %bs : bf16 -> tensor<16x8xbf16, #b>
  %c = tile.splat %f : f32 -> tensor<16x8xf32, #c>
  // expected-error @+1 {{C2: expected one instruction row and one split over warps, got #tile.fragment<"mma.m16n8k16.f16", "a", warps = [1, 1]> and #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [1, 1]>}}
  %d = tile.mma %a, %b, %c : tensor<16x16xf16, #a>, tensor<16x8xbf16, #b>, tensor<16x8xf32, #c>
  tile.return
}

// -----

// C2: one row for b
#a = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [1, 1]>
#b = #tile.fragment<"mma.m16n8k16.f16", "b", warps = [1, 1]>
#c = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [1, 1]>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %as = arith.truncf %f : f32 to bf16
  %a = tile.splat %as : bf16 -> tensor<16x16xbf16, #a>
  %bs = arith.truncf %f : f32 to f16
  %b = tile.splat %bs : f16 -> tensor<16x8xf16, #b>
  %c = tile.splat %f : f32 -> tensor<16x8xf32, #c>
  // expected-error @+1 {{C2: expected one instruction row and one split over warps, got #tile.fragment<"mma.m16n8k16.f16", "b", warps = [1, 1]> and #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [1, 1]>}}
  %d = tile.mma %a, %b, %c : tensor<16x16xbf16, #a>, tensor<16x8xf16, #b>, tensor<16x8xf32, #c>
  tile.return
}

// -----

// C2: one split over warps
#a = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [2, 2]>
#b = #tile.fragment<"mma.m16n8k16.bf16", "b", warps = [4, 1]>
#c = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [2, 2]>
tile.kernel @bad(%f: f32) attributes {threads = 128 : i64} {
  %as = arith.truncf %f : f32 to bf16
  %a = tile.splat %as : bf16 -> tensor<16x16xbf16, #a>
  %bs = arith.truncf %f : f32 to bf16
  %b = tile.splat %bs : bf16 -> tensor<16x8xbf16, #b>
  %c = tile.splat %f : f32 -> tensor<16x8xf32, #c>
  // expected-error @+1 {{C2: expected one instruction row and one split over warps, got #tile.fragment<"mma.m16n8k16.bf16", "b", warps = [4, 1]> and #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [2, 2]>}}
  %d = tile.mma %a, %b, %c : tensor<16x16xbf16, #a>, tensor<16x8xbf16, #b>, tensor<16x8xf32, #c>
  tile.return
}

// -----

// C1: transposed b is K x N
#a = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [1, 1]>
#c = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [1, 1]>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %as = arith.truncf %f : f32 to bf16
  %a = tile.splat %as : bf16 -> tensor<16x16xbf16, #a>
  %b = tile.alloc : !tile.shared<8x16xbf16, #tile.swizzled<32>>
  %c = tile.splat %f : f32 -> tensor<16x8xf32, #c>
  // expected-error @+1 {{C1: expected M x K, K x N and M x N, got 'tensor<16x16xbf16}}
  %d = tile.mma %a, %b, %c transposed : tensor<16x16xbf16, #a>, !tile.shared<8x16xbf16, #tile.swizzled<32>>, tensor<16x8xf32, #c>
  tile.return
}

// -----

// C2: wgmma has no b in registers
#a = #tile.fragment<"wgmma.m64n16k16.bf16", "a", warps = [1, 1]>
#c = #tile.fragment<"wgmma.m64n16k16.bf16", "c", warps = [1, 1]>
#b = #tile.fragment<"mma.m16n8k16.bf16", "b", warps = [4, 1]>
tile.kernel @bad(%f: f32) attributes {threads = 128 : i64} {
  %as = arith.truncf %f : f32 to bf16
  %a = tile.splat %as : bf16 -> tensor<64x16xbf16, #a>
  %bs = arith.truncf %f : f32 to bf16
  %b = tile.splat %bs : bf16 -> tensor<16x16xbf16, #b>
  %c = tile.splat %f : f32 -> tensor<64x16xf32, #c>
  // expected-error @+1 {{C2: expected one instruction row and one split over warps, got #tile.fragment<"mma.m16n8k16.bf16", "b", warps = [4, 1]> and #tile.fragment<"wgmma.m64n16k16.bf16", "c", warps = [1, 1]>}}
  %d = tile.mma %a, %b, %c : tensor<64x16xbf16, #a>, tensor<16x16xbf16, #b>, tensor<64x16xf32, #c>
  tile.return
}

// -----

// C3: f16 accumulators of bf16 factors
#a = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [1, 1]>
#b = #tile.fragment<"mma.m16n8k16.bf16", "b", warps = [1, 1]>
#c = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [1, 1]>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %as = arith.truncf %f : f32 to bf16
  %a = tile.splat %as : bf16 -> tensor<16x16xbf16, #a>
  %bs = arith.truncf %f : f32 to bf16
  %b = tile.splat %bs : bf16 -> tensor<16x8xbf16, #b>
  %cs = arith.truncf %f : f32 to f16
  %c = tile.splat %cs : f16 -> tensor<16x8xf16, #c>
  // expected-error @+1 {{C3: expected inputs of bf16 and accumulators of f32, got 'bf16', 'bf16' and 'f16'}}
  %d = tile.mma %a, %b, %c : tensor<16x16xbf16, #a>, tensor<16x8xbf16, #b>, tensor<16x8xf16, #c>
  tile.return
}

// -----

// C3: factors
#a = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [1, 1]>
#b = #tile.fragment<"mma.m16n8k16.bf16", "b", warps = [1, 1]>
#c = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [1, 1]>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %as = arith.truncf %f : f32 to f16
  %a = tile.splat %as : f16 -> tensor<16x16xf16, #a>
  %bs = arith.truncf %f : f32 to bf16
  %b = tile.splat %bs : bf16 -> tensor<16x8xbf16, #b>
  %c = tile.splat %f : f32 -> tensor<16x8xf32, #c>
  // expected-error @+1 {{C3: expected inputs of bf16 and accumulators of f32, got 'f16', 'bf16' and 'f32'}}
  %d = tile.mma %a, %b, %c : tensor<16x16xf16, #a>, tensor<16x8xbf16, #b>, tensor<16x8xf32, #c>
  tile.return
}

// -----

// C3: shared b
#a = #tile.fragment<"wgmma.m64n16k16.bf16", "a", warps = [1, 1]>
#c = #tile.fragment<"wgmma.m64n16k16.bf16", "c", warps = [1, 1]>
tile.kernel @bad(%f: f32) attributes {threads = 128 : i64} {
  %as = arith.truncf %f : f32 to bf16
  %a = tile.splat %as : bf16 -> tensor<64x16xbf16, #a>
  %b = tile.alloc : !tile.shared<16x16xf16, #tile.swizzled<32>>
  %c = tile.splat %f : f32 -> tensor<64x16xf32, #c>
  // expected-error @+1 {{C3: expected inputs of bf16 and accumulators of f32, got 'bf16', 'f16' and 'f32'}}
  %d = tile.mma %a, %b, %c : tensor<64x16xbf16, #a>, !tile.shared<16x16xf16, #tile.swizzled<32>>, tensor<64x16xf32, #c>
  tile.return
}

// -----

// C4: shared b is swizzled
#a = #tile.fragment<"wgmma.m64n16k16.bf16", "a", warps = [1, 1]>
#c = #tile.fragment<"wgmma.m64n16k16.bf16", "c", warps = [1, 1]>
tile.kernel @bad(%f: f32) attributes {threads = 128 : i64} {
  %as = arith.truncf %f : f32 to bf16
  %a = tile.splat %as : bf16 -> tensor<64x16xbf16, #a>
  %b = tile.alloc : !tile.shared<16x16xbf16, #tile.swizzled<0>>
  %c = tile.splat %f : f32 -> tensor<64x16xf32, #c>
  // expected-error @+1 {{C4: expected an operand of wgmma with a swizzle of 32, 64 or 128 bytes, got none}}
  %d = tile.mma %a, %b, %c : tensor<64x16xbf16, #a>, !tile.shared<16x16xbf16, #tile.swizzled<0>>, tensor<64x16xf32, #c>
  tile.return
}

// -----

// C4: N
#a = #tile.fragment<"wgmma.m64n16k16.bf16", "a", warps = [1, 1]>
#c = #tile.fragment<"wgmma.m64n16k16.bf16", "c", warps = [1, 1]>
tile.kernel @bad(%f: f32) attributes {threads = 128 : i64} {
  %as = arith.truncf %f : f32 to bf16
  %a = tile.splat %as : bf16 -> tensor<64x16xbf16, #a>
  %b = tile.alloc : !tile.shared<24x16xbf16, #tile.swizzled<32>>
  %c = tile.splat %f : f32 -> tensor<64x24xf32, #c>
  // expected-error @+1 {{C4: expected b with a multiple of 16 along N and of 16 along K, got '!tile.shared<24x16xbf16, #tile.swizzled<32>>'}}
  %d = tile.mma %a, %b, %c : tensor<64x16xbf16, #a>, !tile.shared<24x16xbf16, #tile.swizzled<32>>, tensor<64x24xf32, #c>
  tile.return
}

// -----

// C4: N for every group of warps
#a = #tile.fragment<"wgmma.m64n16k16.bf16", "a", warps = [1, 2]>
#c = #tile.fragment<"wgmma.m64n16k16.bf16", "c", warps = [1, 2]>
tile.kernel @bad(%f: f32) attributes {threads = 256 : i64} {
  %as = arith.truncf %f : f32 to bf16
  %a = tile.splat %as : bf16 -> tensor<64x16xbf16, #a>
  %b = tile.alloc : !tile.shared<16x16xbf16, #tile.swizzled<32>>
  %c = tile.splat %f : f32 -> tensor<64x16xf32, #c>
  // expected-error @+1 {{C4: expected b with a multiple of 32 along N and of 16 along K, got '!tile.shared<16x16xbf16, #tile.swizzled<32>>'}}
  %d = tile.mma %a, %b, %c : tensor<64x16xbf16, #a>, !tile.shared<16x16xbf16, #tile.swizzled<32>>, tensor<64x16xf32, #c>
  tile.return
}

// -----

// C4: K
#a = #tile.fragment<"wgmma.m64n16k16.bf16", "a", warps = [1, 1]>
#c = #tile.fragment<"wgmma.m64n16k16.bf16", "c", warps = [1, 1]>
tile.kernel @bad(%f: f32) attributes {threads = 128 : i64} {
  %as = arith.truncf %f : f32 to bf16
  %a = tile.splat %as : bf16 -> tensor<64x40xbf16, #a>
  %b = tile.alloc : !tile.shared<16x40xbf16, #tile.swizzled<32>>
  %c = tile.splat %f : f32 -> tensor<64x16xf32, #c>
  // expected-error @+1 {{C4: expected b with a multiple of 16 along N and of 16 along K, got '!tile.shared<16x40xbf16, #tile.swizzled<32>>'}}
  %d = tile.mma %a, %b, %c : tensor<64x40xbf16, #a>, !tile.shared<16x40xbf16, #tile.swizzled<32>>, tensor<64x16xf32, #c>
  tile.return
}

// -----

// C4: N of mma.sync, for every group of warps
#a = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [1, 2]>
#c = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [1, 2]>
tile.kernel @bad(%f: f32) attributes {threads = 64 : i64} {
  %as = arith.truncf %f : f32 to bf16
  %a = tile.splat %as : bf16 -> tensor<16x16xbf16, #a>
  %b = tile.alloc : !tile.shared<16x24xbf16, #tile.swizzled<0>>
  %c = tile.splat %f : f32 -> tensor<16x24xf32, #c>
  // expected-error @+1 {{C4: expected b with a multiple of 16 along N and of 16 along K, got '!tile.shared<16x24xbf16, #tile.swizzled<0>>'}}
  %d = tile.mma %a, %b, %c transposed : tensor<16x16xbf16, #a>, !tile.shared<16x24xbf16, #tile.swizzled<0>>, tensor<16x24xf32, #c>
  tile.return
}

// -----

// C4: 16-bit elements for mma.sync
#a = #tile.fragment<"mma.m16n8k8.tf32", "a", warps = [1, 1]>
#c = #tile.fragment<"mma.m16n8k8.tf32", "c", warps = [1, 1]>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %a = tile.splat %f : f32 -> tensor<16x8xf32, #a>
  %b = tile.alloc : !tile.shared<8x8xf32, #tile.swizzled<32>>
  %c = tile.splat %f : f32 -> tensor<16x8xf32, #c>
  // expected-error @+1 {{C4: expected elements of 16 bits and n of 8 with b in shared memory for mma.m16n8k8.tf32, got '!tile.shared<8x8xf32, #tile.swizzled<32>>'}}
  %d = tile.mma %a, %b, %c : tensor<16x8xf32, #a>, !tile.shared<8x8xf32, #tile.swizzled<32>>, tensor<16x8xf32, #c>
  tile.return
}

// -----

// C5: registers are not transposed
#a = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [1, 1]>
#b = #tile.fragment<"mma.m16n8k16.bf16", "b", warps = [1, 1]>
#c = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [1, 1]>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %as = arith.truncf %f : f32 to bf16
  %a = tile.splat %as : bf16 -> tensor<16x16xbf16, #a>
  %b = tile.splat %as : bf16 -> tensor<16x8xbf16, #b>
  %c = tile.splat %f : f32 -> tensor<16x8xf32, #c>
  // expected-error @+1 {{C5: expected a shared b with elements of 16 bits to be transposed, got 'tensor<16x8xbf16}}
  %d = tile.mma %a, %b, %c transposed : tensor<16x16xbf16, #a>, tensor<16x8xbf16, #b>, tensor<16x8xf32, #c>
  tile.return
}

// -----

// C5: nor are elements of 32 bits
#a = #tile.fragment<"wgmma.m64n16k8.tf32", "a", warps = [1, 1]>
#c = #tile.fragment<"wgmma.m64n16k8.tf32", "c", warps = [1, 1]>
tile.kernel @bad(%f: f32) attributes {threads = 128 : i64} {
  %a = tile.splat %f : f32 -> tensor<64x16xf32, #a>
  %b = tile.alloc : !tile.shared<16x16xf32, #tile.swizzled<32>>
  %c = tile.splat %f : f32 -> tensor<64x16xf32, #c>
  // expected-error @+1 {{C5: expected a shared b with elements of 16 bits to be transposed, got '!tile.shared<16x16xf32, #tile.swizzled<32>>' for wgmma.m64n16k8.tf32}}
  %d = tile.mma %a, %b, %c transposed : tensor<64x16xf32, #a>, !tile.shared<16x16xf32, #tile.swizzled<32>>, tensor<64x16xf32, #c>
  tile.return
}

// -----

// C3: hilo splits what is f32
#a = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [1, 1]>
#c = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [1, 1]>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %as = arith.truncf %f : f32 to bf16
  %a = tile.splat %as : bf16 -> tensor<16x16xbf16, #a>
  %b = tile.alloc : !tile.shared<8x16xbf16, #tile.swizzled<32>>
  %c = tile.splat %f : f32 -> tensor<16x8xf32, #c>
  // expected-error @+1 {{C3: expected inputs of bf16, in registers of f32, and accumulators of f32, got 'bf16', 'bf16' and 'f32'}}
  %d = tile.mma %a, %b, %c hilo : tensor<16x16xbf16, #a>, !tile.shared<8x16xbf16, #tile.swizzled<32>>, tensor<16x8xf32, #c>
  tile.return
}

// -----

// C7: hilo of factors of 32 bits
#a = #tile.fragment<"wgmma.m64n16k8.tf32", "a", warps = [1, 1]>
#c = #tile.fragment<"wgmma.m64n16k8.tf32", "c", warps = [1, 1]>
tile.kernel @bad(%f: f32) attributes {threads = 128 : i64} {
  %a = tile.splat %f : f32 -> tensor<64x16xf32, #a>
  %b = tile.alloc : !tile.shared<16x16xf32, #tile.swizzled<32>>
  %c = tile.splat %f : f32 -> tensor<64x16xf32, #c>
  // expected-error @+1 {{C7: expected factors of 16 bits for hilo, got wgmma.m64n16k8.tf32}}
  %d = tile.mma %a, %b, %c hilo : tensor<64x16xf32, #a>, !tile.shared<16x16xf32, #tile.swizzled<32>>, tensor<64x16xf32, #c>
  tile.return
}

// -----

// C7: a rest without hilo
#a = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [1, 1]>
#c = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [1, 1]>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %as = arith.truncf %f : f32 to bf16
  %a = tile.splat %as : bf16 -> tensor<16x16xbf16, #a>
  %b = tile.alloc : !tile.shared<8x16xbf16, #tile.swizzled<32>>
  %c = tile.splat %f : f32 -> tensor<16x8xf32, #c>
  // expected-error @+1 {{C7: expected a rest like the factor in shared memory, with hilo, got '!tile.shared<8x16xbf16, #tile.swizzled<32>>'}}
  %d = tile.mma %a, %b rest %b, %c : tensor<16x16xbf16, #a>, !tile.shared<8x16xbf16, #tile.swizzled<32>> rest !tile.shared<8x16xbf16, #tile.swizzled<32>>, tensor<16x8xf32, #c>
  tile.return
}

// -----

// C7: a rest of another shape
#a = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [1, 1]>
#c = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [1, 1]>
tile.kernel @bad(%f: f32) attributes {threads = 32 : i64} {
  %a = tile.splat %f : f32 -> tensor<16x16xf32, #a>
  %b = tile.alloc : !tile.shared<8x16xbf16, #tile.swizzled<32>>
  %r = tile.alloc : !tile.shared<16x16xbf16, #tile.swizzled<32>>
  %c = tile.splat %f : f32 -> tensor<16x8xf32, #c>
  // expected-error @+1 {{C7: expected a rest like the factor in shared memory, with hilo, got '!tile.shared<16x16xbf16, #tile.swizzled<32>>' for '!tile.shared<8x16xbf16, #tile.swizzled<32>>'}}
  %d = tile.mma %a, %b rest %r, %c hilo : tensor<16x16xf32, #a>, !tile.shared<8x16xbf16, #tile.swizzled<32>> rest !tile.shared<16x16xbf16, #tile.swizzled<32>>, tensor<16x8xf32, #c>
  tile.return
}
