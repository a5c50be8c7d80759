//===- MemoryTest.cpp - Loads, stores, shared memory, control flow --------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "HostKernel.h"
#include "compiler/Layout/Shared.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace dl::test;
using dl::layout::BlockedParams;

namespace {

BlockedParams square() { return {{1, 4}, {4, 8}, {2, 1}, {1, 0}, 0}; }
BlockedParams threeWarps() { return {{2, 1}, {8, 4}, {1, 3}, {0, 1}, 6}; }

std::string threads(const BlockedParams &p) {
  return std::to_string(32 * std::max(p.numWarps, p.warps[0] * p.warps[1]));
}

} // namespace

// A tile at (r0, c0) of a matrix goes to another one, transposed in memory; what lies outside is
// not touched.
TEST(HostMemory, TilesAreCutAtTheEdge) {
  constexpr int64_t rows = 30, columns = 50, pitch = 57;
  for (const BlockedParams &p : {square(), threeWarps()}) {
    HostKernel kernel(blockedText("#l", p) + R"(
      tile.kernel @move(%from: memref<30x50xf32, strided<[?, 1]>>, %to: memref<50x30xf32, strided<[?, 1]>>,
                        %r0: i64, %c0: i64) attributes {threads = )" +
                      threads(p) + R"( : i64} {
        %r = arith.index_cast %r0 : i64 to index
        %c = arith.index_cast %c0 : i64 to index
        %x = tile.load %from[%r, %c] axes [0, 1] : memref<30x50xf32, strided<[?, 1]>> -> tensor<24x40xf32, #l>
        %one = arith.constant dense<1.0> : tensor<24x40xf32, #l>
        %y = arith.addf %x, %one : tensor<24x40xf32, #l>
        tile.store %y, %to[%c, %r] axes [1, 0] : tensor<24x40xf32, #l>, memref<50x30xf32, strided<[?, 1]>>
        tile.return
      })");
    std::vector<float> from = randomFloats(rows * pitch);
    for (auto [r0, c0] :
         {std::pair<int64_t, int64_t>(0, 0), {6, 10}, {17, 33}, {29, 49}, {30, 50}}) {
      std::vector<float> to(columns * pitch, -7);
      kernel.run({word(from.data()), pitch, word(to.data()), pitch, uint64_t(r0), uint64_t(c0)});
      for (int64_t c = 0; c < columns; ++c)
        for (int64_t r = 0; r < pitch; ++r) {
          bool inside = r < rows && r >= r0 && r < r0 + 24 && c >= c0 && c < c0 + 40;
          ASSERT_EQ(to[c * pitch + r], inside ? from[r * pitch + c] + 1 : -7.0f) << r << " " << c;
        }
    }
  }
}

TEST(HostMemory, LoadsBeyondTheEdgeAreZero) {
  HostKernel kernel(blockedText("#l", {{4}, {32}, {1}, {0}, 2}) + R"(
    tile.kernel @tail(%from: memref<70xf16, strided<[1]>>, %to: memref<128xf32, strided<[1]>>) attributes {threads = 64 : i64} {
      %c0 = arith.constant 0 : index
      %x = tile.load %from[%c0] axes [0] : memref<70xf16, strided<[1]>> -> tensor<100xf16, #l>
      %w = arith.extf %x : tensor<100xf16, #l> to tensor<100xf32, #l>
      tile.store %w, %to[%c0] axes [0] : tensor<100xf32, #l>, memref<128xf32, strided<[1]>>
      tile.return
    })");
  std::vector<uint16_t> from(128, 0x3C00); // 1.0
  std::vector<float> to(128, -7);
  kernel.run({word(from.data()), word(to.data())});
  for (int i = 0; i < 128; ++i)
    EXPECT_EQ(to[i], i < 70 ? 1.0f : i < 100 ? 0.0f : -7.0f) << i;
}

TEST(HostMemory, SlotsAndScalars) {
  HostKernel kernel(R"(
    tile.kernel @slots(%slots: memref<?xi32, strided<[?]>>, %out: memref<?xf32, strided<[1]>>, %f: f32) attributes {threads = 32 : i64} {
      %n = gpu.block_id y
      %itself = arith.index_cast %n : index to i32
      %there = tile.is_present %slots : memref<?xi32, strided<[?]>>
      %slot = scf.if %there -> i32 {
        %entry = memref.load %slots[%n] : memref<?xi32, strided<[?]>>
        scf.yield %entry : i32
      } else {
        scf.yield %itself : i32
      }
      %i = arith.index_cast %slot : i32 to index
      %old = memref.load %out[%i] : memref<?xf32, strided<[1]>>
      %new = arith.addf %old, %f : f32
      memref.store %new, %out[%i] : memref<?xf32, strided<[1]>>
      tile.return
    })");
  std::vector<int32_t> slots{5, -1, 3, -1};
  std::vector<float> out(8, 1);
  float two = 2;
  uint64_t scalar = 0;
  std::memcpy(&scalar, &two, 4);
  kernel.run({word(slots.data()), 2, word(out.data()), scalar}, 0, 1);
  EXPECT_EQ(out, (std::vector<float>{1, 1, 1, 3, 1, 1, 1, 1}));
  kernel.run({0, 2, word(out.data()), scalar}, 7, 6); // no slots: the row itself
  EXPECT_EQ(out, (std::vector<float>{1, 1, 1, 3, 1, 1, 3, 1}));
}

// Through every swizzle, from one layout to another.
TEST(HostMemory, SharedMemoryKeepsElements) {
  for (const char *swizzle : {"0", "32", "64", "128"}) {
    std::string type = std::string("!tile.shared<40x96xbf16, #tile.swizzled<") + swizzle + ">>";
    HostKernel kernel(blockedText("#a", square()) +
                      blockedText("#b", {{8, 1}, {1, 32}, {1, 2}, {0, 1}, 0}) + R"(
      !m = memref<40x96xbf16, strided<[96, 1]>>
      tile.kernel @through(%from: !m, %to: !m) attributes {threads = 64 : i64} {
        %c0 = arith.constant 0 : index
        %s = tile.alloc : )" +
                      type + R"(
        %x = tile.load %from[%c0, %c0] axes [0, 1] : !m -> tensor<40x96xbf16, #a>
        tile.local_store %x, %s : tensor<40x96xbf16, #a>, )" +
                      type + R"(
        tile.barrier
        %y = tile.local_load %s : )" +
                      type + R"( -> tensor<40x96xbf16, #b>
        tile.store %y, %to[%c0, %c0] axes [0, 1] : tensor<40x96xbf16, #b>, !m
        tile.return
      })");
    std::vector<uint16_t> from(40 * 96), to(40 * 96);
    for (size_t i = 0; i < from.size(); ++i)
      from[i] = i;
    kernel.run({word(from.data()), word(to.data())});
    EXPECT_EQ(from, to) << swizzle;
  }
}

// Tensors carried around a loop: two of them change places, a third adds up, a scalar counts.
TEST(HostControlFlow, LoopsCarryTensors) {
  HostKernel kernel(blockedText("#l", {{2}, {32}, {1}, {0}, 0}) + R"(
    !m = memref<64xf32, strided<[1]>>
    !t = tensor<64xf32, #l>
    tile.kernel @loop(%a: !m, %b: !m, %c: !m, %n: i64) attributes {threads = 32 : i64} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %one = arith.constant 1.0 : f32
      %end = arith.index_cast %n : i64 to index
      %x = tile.load %a[%c0] axes [0] : !m -> !t
      %y = tile.load %b[%c0] axes [0] : !m -> !t
      %z = arith.constant dense<0.0> : !t
      %r:4 = scf.for %i = %c0 to %end step %c1 iter_args(%p = %x, %q = %y, %s = %z, %k = %one) -> (!t, !t, !t, f32) {
        %f = tile.splat %k : f32 -> !t
        %t = math.fma %p, %f, %s : !t
        %k1 = arith.addf %k, %one : f32
        scf.yield %q, %p, %t, %k1 : !t, !t, !t, f32
      }
      tile.store %r#0, %a[%c0] axes [0] : !t, !m
      tile.store %r#1, %b[%c0] axes [0] : !t, !m
      tile.store %r#2, %c[%c0] axes [0] : !t, !m
      tile.return
    })");
  for (uint64_t n : {0, 1, 4, 5}) {
    std::vector<float> a = randomFloats(64, 1), b = randomFloats(64, 2), c(64, -7), a0 = a, b0 = b;
    kernel.run({word(a.data()), word(b.data()), word(c.data()), n});
    for (int i = 0; i < 64; ++i) {
      float p = a0[i], q = b0[i], s = 0;
      for (uint64_t k = 1; k <= n; ++k) {
        s = std::fma(p, float(k), s);
        std::swap(p, q);
      }
      EXPECT_EQ(a[i], p);
      EXPECT_EQ(b[i], q);
      EXPECT_EQ(c[i], s);
    }
  }
}

TEST(HostControlFlow, BranchesYieldTensors) {
  HostKernel kernel(blockedText("#l", {{2}, {32}, {1}, {0}, 0}) + R"(
    !m = memref<64xf32, strided<[1]>>
    !t = tensor<64xf32, #l>
    tile.kernel @branch(%a: !m, %b: !m) attributes {threads = 32 : i64} {
      %c0 = arith.constant 0 : index
      %two = arith.constant 2 : index
      %n = gpu.block_id x
      %even = arith.cmpi ult, %n, %two : index
      %x = tile.load %a[%c0] axes [0] : !m -> !t
      %r:2 = scf.if %even -> (!t, f32) {
        %y = arith.addf %x, %x : !t
        %f = arith.constant 1.0 : f32
        scf.yield %y, %f : !t, f32
      } else {
        %f = arith.constant 5.0 : f32
        %y = tile.splat %f : f32 -> !t
        scf.yield %y, %f : !t, f32
      }
      %s = tile.splat %r#1 : f32 -> !t
      %w = arith.mulf %r#0, %s : !t
      tile.store %w, %b[%c0] axes [0] : !t, !m
      tile.return
    })");
  std::vector<float> a = randomFloats(64), b(64);
  kernel.run({word(a.data()), word(b.data())}, 1);
  for (int i = 0; i < 64; ++i)
    EXPECT_EQ(b[i], 2 * a[i]);
  kernel.run({word(a.data()), word(b.data())}, 2);
  EXPECT_EQ(b, std::vector<float>(64, 25.0f));
}

// Scratch memory is used again once a value is dead: a chain of conversions needs two buffers, not
// ten.
TEST(HostControlFlow, DeadBuffersAreUsedAgain) {
  std::string text = blockedText("#a", {{2}, {32}, {1}, {0}, 0}) +
                     blockedText("#b", {{1}, {32}, {1}, {0}, 0}) + R"(
    !m = memref<64xf32, strided<[1]>>
    tile.kernel @chain(%m: !m) attributes {threads = 32 : i64} {
      %c0 = arith.constant 0 : index
      %x0 = tile.load %m[%c0] axes [0] : !m -> tensor<64xf32, #a>
  )";
  for (int i = 0; i < 10; ++i) {
    std::string from = i % 2 ? "#b" : "#a", to = i % 2 ? "#a" : "#b";
    text += "%x" + std::to_string(i + 1) + " = tile.convert %x" + std::to_string(i) +
            " : tensor<64xf32, " + from + "> -> tensor<64xf32, " + to + ">\n";
  }
  HostKernel kernel(text +
                    "tile.store %x10, %m[%c0] axes [0] : tensor<64xf32, #a>, !m\n tile.return\n }");
  EXPECT_EQ(kernel.scratchBytes, 2 * 64 * 4);
  std::vector<float> m = randomFloats(64), before = m;
  kernel.run({word(m.data())});
  EXPECT_EQ(m, before);
}

// A buffer lives to its last use, be it inside a loop.
TEST(HostControlFlow, LiveBuffersAreKept) {
  HostKernel kernel(blockedText("#a", {{2}, {32}, {1}, {0}, 0}) +
                    blockedText("#b", {{1}, {32}, {1}, {0}, 0}) + R"(
    !m = memref<64xf32, strided<[1]>>
    !t = tensor<64xf32, #a>
    tile.kernel @live(%m: !m, %n: !m) attributes {threads = 32 : i64} {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c3 = arith.constant 3 : index
      %x = tile.load %m[%c0] axes [0] : !m -> !t
      %y = arith.addf %x, %x : !t
      %b = tile.convert %y : !t -> tensor<64xf32, #b>
      %c = tile.convert %b : tensor<64xf32, #b> -> !t
      %s = scf.for %i = %c0 to %c3 step %c1 iter_args(%p = %c) -> (!t) {
        %d = tile.convert %x : !t -> tensor<64xf32, #b>
        %e = tile.convert %d : tensor<64xf32, #b> -> !t
        %f = arith.addf %e, %p : !t
        %g = arith.addf %f, %x : !t
        scf.yield %g : !t
      }
      %z = arith.addf %s, %y : !t
      tile.store %z, %n[%c0] axes [0] : !t, !m
      tile.return
    })");
  std::vector<float> m = randomFloats(64), n(64);
  kernel.run({word(m.data()), word(n.data())});
  for (int i = 0; i < 64; ++i)
    EXPECT_FLOAT_EQ(n[i], 10 * m[i]);
}
