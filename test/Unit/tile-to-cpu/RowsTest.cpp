//===- RowsTest.cpp - Rows of a log: rings, insertion, updates of rank one ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "HostKernel.h"
#include "gtest/gtest.h"
#include <cmath>
#include <limits>

using namespace dl::test;
using dl::layout::BlockedParams;

namespace {

constexpr float noNumber = std::numeric_limits<float>::quiet_NaN();

struct Spread {
  BlockedParams params;
  std::string threads() const {
    return std::to_string(32 * std::max(params.numWarps, params.warps[0] * params.warps[1]));
  }
};

/// Exact, padded and copied ways to spread a matrix over four warps.
std::vector<Spread> spreads() {
  return {{{{1, 4}, {1, 32}, {4, 1}, {1, 0}, 0}},
          {{{4, 2}, {8, 4}, {1, 3}, {0, 1}, 0}},
          {{{2, 4}, {2, 16}, {2, 1}, {1, 0}, 4}},
          {{{1, 1}, {32, 1}, {1, 4}, {0, 1}, 0}}};
}

} // namespace

// 16 rows of a ring of 16 (or 5 of 6, 11 of 13), 96 columns of 100 that lie in memory of 90: from
// every start, for every count. Rows beyond the count hold NaN.
TEST(HostRows, RingsWrap) {
  for (const Spread &spread : spreads())
    for (auto [ring, rows] : {std::pair<int, int>(16, 16), {16, 5}, {6, 5}, {13, 11}}) {
      std::string memory = "memref<" + std::to_string(ring) + "x90xf32, strided<[?, 1]>>";
      std::string tensor = "tensor<" + std::to_string(rows) + "x96xf32, #l>";
      std::string vector = "tensor<" + std::to_string(rows) + "xf32, #tile.slice<1, #l>>";
      std::string numbers = "memref<" + std::to_string(ring) + "xf32, strided<[?]>>";
      HostKernel kernel(blockedText("#l", spread.params) + "!m = " + memory + "\n!t = " + tensor +
                        "\n!v = " + vector + "\n!n = " + numbers + R"(
        !o = memref<16x96xf32, strided<[96, 1]>>
        !w = memref<16xf32, strided<[1]>>
        tile.kernel @rows(%x: !m, %y: !n, %to: !o, %out: !w, %s: i32, %n: i32) attributes {threads = )" +
                        spread.threads() + R"( : i64} {
          %c0 = arith.constant 0 : index
          %start = arith.index_cast %s : i32 to index
          %v = tile.ring_load %x[%start, %c0] axes [0, 1] count %n : !m -> !t
          tile.store %v, %to[%c0, %c0] axes [0, 1] : !t, !o
          %w = tile.ring_load %y[%start] axes [0] in_bounds [false] count %n : !n -> !v
          tile.store %w, %out[%c0] axes [0] : !v, !w
          tile.return
        })");
      for (int start = 0; start < ring; ++start)
        for (int count : {0, 1, 3, rows - 1, rows, rows + 7, -1}) {
          std::vector<float> x(16 * 100, noNumber), y(16 * 3, noNumber), to(16 * 96, -7),
              out(16, -7);
          for (int i = 0; i < std::min(rows, count); ++i) {
            for (int j = 0; j < 90; ++j)
              x[(start + i) % ring * 100 + j] = 100 * i + j;
            y[(start + i) % ring * 3] = i;
          }
          kernel.run({word(x.data()), 100, word(y.data()), 3, word(to.data()), word(out.data()),
                      uint64_t(start) | uint64_t(uint32_t(count)) << 32});
          for (int i = 0; i < 16; ++i) {
            for (int j = 0; j < 96; ++j)
              ASSERT_EQ(to[i * 96 + j], i >= rows             ? -7
                                        : i < count && j < 90 ? 100 * i + j
                                                              : 0)
                  << i << " " << j << " from " << start << ", " << count;
            ASSERT_EQ(out[i], i >= rows ? -7 : i < count ? i : 0) << i << " from " << start;
          }
        }
    }
}

// A row of 11, or a column of 40, of a matrix takes other numbers; one beyond the ends takes none.
TEST(HostRows, InsertedVectorsReplaceARow) {
  for (const Spread &spread : spreads())
    for (int axis : {0, 1}) {
      std::string size = axis == 0 ? "40" : "11";
      HostKernel kernel(blockedText("#l", spread.params) + "!n = memref<" + size +
                        "xbf16, strided<[1]>>\n!v = tensor<" + size + "xbf16, #tile.slice<" +
                        std::to_string(axis) + ", #l>>" + R"(
        !m = memref<11x40xbf16, strided<[40, 1]>>
        !t = tensor<11x40xbf16, #l>
        tile.kernel @insert(%x: !m, %y: !n, %i: i32) attributes {threads = )" +
                        spread.threads() + R"( : i64} {
          %c0 = arith.constant 0 : index
          %m = tile.load %x[%c0, %c0] axes [0, 1] : !m -> !t
          %v = tile.load %y[%c0] axes [0] : !n -> !v
          %r = tile.insert %v into %m[%i] axis )" +
                        std::to_string(axis) + R"( : !v into !t
          tile.store %r, %x[%c0, %c0] axes [0, 1] : !t, !m
          tile.return
        })");
      for (int at : {0, 3, 10, 11, 39, 40, -1}) {
        std::vector<uint16_t> x(11 * 40), y(40);
        for (int i = 0; i < 11 * 40; ++i)
          x[i] = i;
        for (int i = 0; i < 40; ++i)
          y[i] = 1000 + i;
        kernel.run({word(x.data()), word(y.data()), uint64_t(uint32_t(at))});
        for (int i = 0; i < 11; ++i)
          for (int j = 0; j < 40; ++j)
            ASSERT_EQ(x[i * 40 + j],
                      (axis == 0 ? i : j) == at ? 1000 + (axis == 0 ? j : i) : i * 40 + j)
                << i << " " << j << " at " << at;
      }
    }
}

// 7 rows of 96 keys and 40 columns, in layouts that have nothing to do with the matrix's: as many
// fused multiply-adds as there are rows, in order. Rows from the count on are NaN.
TEST(HostRows, RowsAddUpInOrder) {
  for (const Spread &spread : spreads()) {
    std::string warps = std::to_string(std::stoi(spread.threads()) / 32);
    HostKernel kernel(blockedText("#l", spread.params) +
                      "#a = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [1, 1], "
                      "order = [1, 0], num_warps = " +
                      warps +
                      ">\n#b = #tile.blocked<per_thread = [1, 1], lanes = [8, 4], warps = [1, " +
                      warps + "], order = [0, 1], num_warps = " + warps + ">" + R"(
      !x = memref<7x96xf32, strided<[96, 1]>>
      !y = memref<7x40xf32, strided<[40, 1]>>
      !z = memref<96x40xf32, strided<[40, 1]>>
      !a = tensor<7x96xf32, #a>
      !b = tensor<7x40xf32, #b>
      !c = tensor<96x40xf32, #l>
      tile.kernel @update(%x: !x, %y: !y, %z: !z, %n: i32) attributes {threads = )" +
                      spread.threads() + R"( : i64} {
        %c0 = arith.constant 0 : index
        %a = tile.load %x[%c0, %c0] axes [0, 1] : !x -> !a
        %b = tile.load %y[%c0, %c0] axes [0, 1] : !y -> !b
        %c = tile.load %z[%c0, %c0] axes [0, 1] : !z -> !c
        %d = tile.rank_update %a, %b, %c count %n : !a, !b, !c
        tile.store %d, %z[%c0, %c0] axes [0, 1] : !c, !z
        tile.return
      })");
    for (int count : {0, 1, 2, 5, 7, 9, -1}) {
      std::vector<float> x = randomFloats(7 * 96, 1), y = randomFloats(7 * 40, 2),
                         z = randomFloats(96 * 40, 3), before = z;
      int rows = std::max(0, std::min(count, 7));
      std::fill(x.begin() + rows * 96, x.end(), noNumber);
      std::fill(y.begin() + rows * 40, y.end(), noNumber);
      kernel.run({word(x.data()), word(y.data()), word(z.data()), uint64_t(uint32_t(count))});
      for (int k = 0; k < 96; ++k)
        for (int v = 0; v < 40; ++v) {
          float sum = before[k * 40 + v];
          for (int i = 0; i < rows; ++i)
            sum = std::fma(x[i * 96 + k], y[i * 40 + v], sum);
          ASSERT_EQ(z[k * 40 + v], sum) << k << " " << v << " of " << count;
        }
    }
  }
}

// 96 rows of a matrix and 5 of a log: exact in small integers; padding of either is not zero.
TEST(HostRows, ProductsHaveTwoParts) {
  struct Pair {
    Spread state, log;
  };
  const Pair pairs[] = {
      {{{{8, 4}, {4, 8}, {4, 1}, {1, 0}, 0}}, {{{1, 4}, {4, 8}, {4, 1}, {1, 0}, 0}}},
      {{{{4, 1}, {1, 32}, {3, 1}, {1, 0}, 0}}, {{{2, 1}, {1, 32}, {3, 1}, {1, 0}, 0}}},
      {{{{4, 1}, {8, 4}, {1, 2}, {0, 1}, 4}}, {{{1, 1}, {8, 4}, {1, 2}, {0, 1}, 4}}}};
  for (const Pair &pair : pairs) {
    HostKernel kernel(blockedText("#m", pair.state.params) + blockedText("#n", pair.log.params) +
                      R"(
      !x = memref<96x40xf32, strided<[40, 1]>>
      !y = memref<5x40xf32, strided<[40, 1]>>
      !q = memref<96xf32, strided<[1]>>
      !w = memref<5xf32, strided<[1]>>
      !o = memref<40xf32, strided<[1]>>
      #q = #tile.slice<1, #m>
      #w = #tile.slice<1, #n>
      #o = #tile.slice<0, #m>
      tile.kernel @read(%x: !x, %y: !y, %q: !q, %w: !w, %o: !o, %p: !o) attributes {threads = )" +
                      pair.state.threads() + R"( : i64} {
        %c0 = arith.constant 0 : index
        %m0 = tile.load %x[%c0, %c0] axes [0, 1] : !x -> tensor<96x40xf32, #m>
        %n0 = tile.load %y[%c0, %c0] axes [0, 1] : !y -> tensor<5x40xf32, #n>
        %q0 = tile.load %q[%c0] axes [0] : !q -> tensor<96xf32, #q>
        %w0 = tile.load %w[%c0] axes [0] : !w -> tensor<5xf32, #w>
        %m1 = arith.constant dense<1.0> : tensor<96x40xf32, #m>
        %n1 = arith.constant dense<1.0> : tensor<5x40xf32, #n>
        %q1 = arith.constant dense<1.0> : tensor<96xf32, #q>
        %w1 = arith.constant dense<1.0> : tensor<5xf32, #w>
        %m2 = arith.addf %m0, %m1 : tensor<96x40xf32, #m>
        %n2 = arith.addf %n0, %n1 : tensor<5x40xf32, #n>
        %q2 = arith.addf %q0, %q1 : tensor<96xf32, #q>
        %w2 = arith.addf %w0, %w1 : tensor<5xf32, #w>
        %r:2 = tile.dot %q2, %q1 with %m2 and %w2, %w0 with %n2 axis 0 : tensor<96xf32, #q>, tensor<96xf32, #q> with tensor<96x40xf32, #m>
            and tensor<5xf32, #w>, tensor<5xf32, #w> with tensor<5x40xf32, #n> -> tensor<40xf32, #o>, tensor<40xf32, #o>
        tile.store %r#0, %o[%c0] axes [0] : tensor<40xf32, #o>, !o
        tile.store %r#1, %p[%c0] axes [0] : tensor<40xf32, #o>, !o
        tile.return
      })");
    std::vector<float> x(96 * 40), y(5 * 40), q(96), w(5), o(40), p(40);
    for (int i = 0; i < 96; ++i)
      q[i] = i % 7 - 3;
    for (int i = 0; i < 5; ++i)
      w[i] = 3 - i;
    for (int i = 0; i < 96 * 40; ++i)
      x[i] = i % 11 - 5;
    for (int i = 0; i < 5 * 40; ++i)
      y[i] = i % 13 - 6;
    kernel.run({word(x.data()), word(y.data()), word(q.data()), word(w.data()), word(o.data()),
                word(p.data())});
    for (int v = 0; v < 40; ++v) {
      float first = 0, second = 0;
      for (int i = 0; i < 96; ++i) {
        first += (q[i] + 1) * (x[i * 40 + v] + 1);
        second += x[i * 40 + v] + 1;
      }
      for (int i = 0; i < 5; ++i) {
        first += (w[i] + 1) * (y[i * 40 + v] + 1);
        second += w[i] * (y[i * 40 + v] + 1);
      }
      ASSERT_EQ(o[v], first) << v;
      ASSERT_EQ(p[v], second) << v;
    }
  }
}

// Rows of n tensors in turn, each of them back, and the memory of one with its rows repeated: 8
// rows of 40 columns, in a layout of which a thread has two rows.
TEST(HostRows, RowsInTurnAndBack) {
  for (int n : {1, 2, 3, 4}) {
    const std::string count = std::to_string(n), rows = std::to_string(8 * n);
    std::string values, types;
    std::string body;
    for (int i = 0; i < n; ++i) {
      const std::string at = std::to_string(8 * i);
      body += "%r" + at + " = arith.constant " + at + " : index\n%x" + at + " = tile.load %x[%r" +
              at + ", %c0] axes [0, 1] : !m -> !t\n";
      values += (i ? ", %x" : "%x") + at;
      types += i ? ", !t" : "!t";
    }
    body += "%w = tile.interleave " + values + " : " + types + " -> !w\n" +
            "tile.store %w, %y[%c0, %c0] axes [0, 1] : !w, !m\n";
    for (int i = 0; i < n; ++i)
      body += "%p" + std::to_string(i) + " = tile.pick " + std::to_string(i) +
              " of %w : !w -> !t\ntile.store %p" + std::to_string(i) + ", %z[%r" +
              std::to_string(8 * i) + ", %c0] axes [0, 1] : !t, !m\n";
    body += "%d = tile.load %a[%c0, %c0] axes [0, 1] repeats [" + count +
            ", 1] count %n : !d -> !w\ntile.store %d, %u[%c0, %c0] axes [0, 1] : !w, !m\n";
    HostKernel kernel(
        "#t = #tile.blocked<per_thread = [2, 2], lanes = [1, 32], warps = [4, 1], order = [1, 0], "
        "num_warps = 4>\n#w = #tile.blocked<per_thread = [" +
        std::to_string(2 * n) +
        ", 2], lanes = [1, 32], warps = [4, 1], order = [1, 0], num_warps = 4>\n!m = memref<" +
        rows + "x40xf32, strided<[40, 1]>>\n!d = memref<?x40xf32, strided<[40, 1]>>\n" +
        "!t = tensor<8x40xf32, #t>\n!w = tensor<" + rows + "x40xf32, #w>" + R"(
        tile.kernel @turns(%a: !d, %x: !m, %y: !m, %z: !m, %u: !m, %n: i32) attributes {threads = 128 : i64} {
          %c0 = arith.constant 0 : index
        )" +
        body + "tile.return\n}");
    for (int present : {0, 1, 5, 8}) {
      const size_t size = 8 * n * 40;
      std::vector<float> x(size), y(size, -7), z(size, -7), u(size, -7), a(8 * 40, noNumber);
      for (size_t i = 0; i < size; ++i)
        x[i] = float(i);
      std::copy_n(x.begin(), present * 40, a.begin());
      kernel.run({word(a.data()), word(x.data()), word(y.data()), word(z.data()), word(u.data()),
                  uint64_t(present)});
      EXPECT_EQ(z, x) << "back";
      for (int row = 0; row < 8 * n; ++row)
        for (int column = 0; column < 40; ++column) {
          ASSERT_EQ(y[row * 40 + column], x[(row % n * 8 + row / n) * 40 + column])
              << row << " of " << n;
          ASSERT_EQ(u[row * 40 + column], row / n < present ? x[row / n * 40 + column] : 0)
              << row << " of " << n << ", " << present << " present";
        }
    }
  }
}
