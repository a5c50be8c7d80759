//===- ComputeTest.cpp - Elementwise ops, sums, conversions, products -----===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "HostKernel.h"
#include "compiler/Layout/Atoms.h"
#include "llvm/ADT/APFloat.h"
#include "gtest/gtest.h"
#include <cmath>
#include <cstring>

using namespace dl::test;
using namespace dl::layout;
using llvm::SmallVector;

namespace {

std::string replaceAll(std::string text,
                       const std::vector<std::pair<std::string, std::string>> &values) {
  for (const auto &[name, value] : values)
    for (size_t at; (at = text.find(name)) != std::string::npos;)
      text.replace(at, name.size(), value);
  return text;
}

/// The layout #l of a matrix, as text and as the compiler's own.
struct Case {
  std::string text;
  RegisterLayout layout;
  int64_t rows() const { return layout.shape[0]; }
  int64_t columns() const { return layout.shape[1]; }
  std::string threads() const { return std::to_string(layout.numThreads); }
};

Case blockedCase(llvm::ArrayRef<int64_t> shape, const BlockedParams &p) {
  return {blockedText("#l", p), llvm::cantFail(blocked(shape, p))};
}

/// Exact and padded axes, one to eight warps, copies, two digits of warps on one axis.
std::vector<Case> cases() {
  const Instruction &wgmma = *llvm::cantFail(findInstruction("wgmma.m64n16k16.bf16"));
  return {
      blockedCase({64, 32}, {{1, 4}, {4, 8}, {1, 1}, {1, 0}, 0}),
      blockedCase({40, 24}, {{2, 4}, {8, 4}, {3, 1}, {1, 0}, 0}),
      blockedCase({96, 40}, {{4, 2}, {2, 16}, {3, 2}, {0, 1}, 0}),
      blockedCase({30, 64}, {{1, 1}, {32, 1}, {1, 2}, {0, 1}, 4}),
      blockedCase({16, 16}, {{1, 4}, {8, 4}, {1, 1}, {1, 0}, 2}),
      {"#l = #tile.fragment<\"wgmma.m64n16k16.bf16\", \"c\", warps = [2, 1]>\n",
       llvm::cantFail(atom({120, 32}, wgmma, {Operand::C, 2, 1, 0}))},
  };
}

/// The fixed tree: registers ascending, lanes by butterfly, warps ascending. `term(thread, reg,
/// sum)`.
template <typename Fn>
std::vector<float> treeSum(const RegisterLayout &layout, unsigned axis, float start, Fn term) {
  RegisterLayout slice = layout.slice(axis);
  auto groups = layout.reductionGroups(axis);
  std::vector<float> result(slice.covered(0));
  for (size_t s = 0; s < groups.size(); ++s) {
    std::vector<float> sums(layout.numThreads, start);
    for (int64_t t = 0; t < layout.numThreads; ++t)
      for (int64_t r : groups[s])
        if (layout.coordinate(t, r)[axis] < layout.shape[axis])
          sums[t] = term(t, r, sums[t]);
    for (int64_t mask : layout.reductionLaneMasks(axis)) {
      std::vector<float> before = sums;
      for (int64_t t = 0; t < layout.numThreads; ++t)
        sums[t] = before[t] + before[t ^ mask];
    }
    SmallVector<int64_t> warps{0}; // distances from the first warp along the axis, ascending
    for (const ThreadDigit &d : layout.reductionWarpDigits(axis))
      for (int64_t v = 1, known = warps.size(); v < d.mod; ++v)
        for (int64_t i = 0; i < known; ++i)
          warps.push_back(warps[i] + v * d.div);
    std::vector<float> before = sums;
    for (int64_t t = 0; t < layout.numThreads; ++t) {
      int64_t first = t;
      for (const ThreadDigit &d : layout.reductionWarpDigits(axis))
        first -= d.value(t) * d.div;
      sums[t] = -0.0f;
      for (int64_t warp : warps)
        sums[t] += before[first + warp];
    }
    for (int64_t t = 0; t < layout.numThreads; ++t)
      result[slice.coordinate(t, s)[0]] = sums[t];
  }
  return result;
}

} // namespace

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

TEST(HostCompute, ExpandMeetsMatrix) {
  for (const Case &c : cases()) {
    std::string text = replaceAll(R"(
      #c = #tile.slice<0, #l>
      #r = #tile.slice<1, #l>
      tile.kernel @outer(%m: memref<ROWSxCOLSxf32, strided<[COLS, 1]>>, %a: memref<ROWSxf32, strided<[1]>>,
                         %b: memref<COLSxf32, strided<[1]>>) attributes {threads = THREADS : i64} {
        %c0 = arith.constant 0 : index
        %x = tile.load %m[%c0, %c0] axes [0, 1] : memref<ROWSxCOLSxf32, strided<[COLS, 1]>> -> tensor<ROWSxCOLSxf32, #l>
        %u = tile.load %a[%c0] axes [0] : memref<ROWSxf32, strided<[1]>> -> tensor<ROWSxf32, #r>
        %v = tile.load %b[%c0] axes [0] : memref<COLSxf32, strided<[1]>> -> tensor<COLSxf32, #c>
        %x2 = arith.addf %x, %x : tensor<ROWSxCOLSxf32, #l>
        %u2 = arith.addf %u, %u : tensor<ROWSxf32, #r>
        %eu = tile.expand %u2 axis 1 : tensor<ROWSxf32, #r> -> tensor<ROWSxCOLSxf32, #l>
        %ev = tile.expand %v axis 0 : tensor<COLSxf32, #c> -> tensor<ROWSxCOLSxf32, #l>
        %y = math.fma %eu, %ev, %x2 : tensor<ROWSxCOLSxf32, #l>
        tile.store %y, %m[%c0, %c0] axes [0, 1] : tensor<ROWSxCOLSxf32, #l>, memref<ROWSxCOLSxf32, strided<[COLS, 1]>>
        tile.return
      })",
                                  {{"ROWS", std::to_string(c.rows())},
                                   {"COLS", std::to_string(c.columns())},
                                   {"THREADS", c.threads()}});
    HostKernel kernel(c.text + text);
    std::vector<float> m = randomFloats(c.rows() * c.columns(), 1), a = randomFloats(c.rows(), 2),
                       b = randomFloats(c.columns(), 3);
    std::vector<float> before = m;
    kernel.run({word(m.data()), word(a.data()), word(b.data())});
    for (int64_t i = 0; i < c.rows(); ++i)
      for (int64_t j = 0; j < c.columns(); ++j)
        ASSERT_EQ(m[i * c.columns() + j],
                  std::fma(a[i] + a[i], b[j], 2 * before[i * c.columns() + j]))
            << i << " " << j;
  }
}

static HostKernel narrowKernel(const std::string &type) {
  return HostKernel(replaceAll(blockedText("#l", {{8}, {32}, {2}, {0}, 0}) + R"(
    tile.kernel @narrow(%f: memref<512xf32, strided<[1]>>, %h: memref<512xHALF, strided<[1]>>, %w: memref<512xf32, strided<[1]>>)
        attributes {threads = 64 : i64} {
      %c0 = arith.constant 0 : index
      %x = tile.load %f[%c0] axes [0] : memref<512xf32, strided<[1]>> -> tensor<512xf32, #l>
      %y = tile.load %h[%c0] axes [0] : memref<512xHALF, strided<[1]>> -> tensor<512xHALF, #l>
      %n = arith.truncf %x : tensor<512xf32, #l> to tensor<512xHALF, #l>
      %e = arith.extf %y : tensor<512xHALF, #l> to tensor<512xf32, #l>
      tile.store %n, %h[%c0] axes [0] : tensor<512xHALF, #l>, memref<512xHALF, strided<[1]>>
      tile.store %e, %w[%c0] axes [0] : tensor<512xf32, #l>, memref<512xf32, strided<[1]>>
      tile.return
    })",
                               {{"HALF", type}}));
}

static bool isNaNBits(uint32_t bits) { return (bits & 0x7FFFFFFF) > 0x7F800000; }

// All 65536 narrow numbers widen as they should and come back; numbers on and between them round to
// even.
TEST(HostCompute, NarrowFloats) {
  for (const char *type : {"bf16", "f16"}) {
    HostKernel kernel = narrowKernel(type);
    const llvm::fltSemantics &semantics =
        *type == 'b' ? llvm::APFloat::BFloat() : llvm::APFloat::IEEEhalf();
    for (uint32_t first = 0; first < 65536; first += 512) {
      std::vector<uint32_t> f(512), w(512), expectedWide(512);
      std::vector<uint16_t> h(512), expected(512);
      for (uint32_t i = 0; i < 512; ++i) {
        h[i] = first + i;
        llvm::APFloat number(semantics, llvm::APInt(16, h[i]));
        bool inexact;
        number.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &inexact);
        expectedWide[i] = number.bitcastToAPInt().getZExtValue();
        // Its neighbourhood: the number, a half, a little less and more than a half of the last
        // place on.
        int shift = *type == 'b' ? 16 : 13;
        uint32_t half = 1u << (shift - 1), offsets[] = {0, half, half - 1, half + 1, 1, 0u - 1};
        f[i] = expectedWide[i] + offsets[(first / 512 + i) % 6];
        llvm::APFloat single(llvm::APFloat::IEEEsingle(), llvm::APInt(32, f[i]));
        single.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &inexact);
        expected[i] = single.bitcastToAPInt().getZExtValue();
      }
      kernel.run({word(f.data()), word(h.data()), word(w.data())});
      uint32_t narrowInfinity = *type == 'b' ? 0x7F80 : 0x7C00;
      for (uint32_t i = 0; i < 512; ++i) {
        if (isNaNBits(f[i]))
          ASSERT_GT(h[i] & 0x7FFFu, narrowInfinity) << type << " " << std::hex << f[i];
        else
          ASSERT_EQ(h[i], expected[i]) << type << " " << std::hex << f[i];
        if (isNaNBits(expectedWide[i]))
          ASSERT_TRUE(isNaNBits(w[i]));
        else
          ASSERT_EQ(w[i], expectedWide[i]) << type << " " << first + i;
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

// Bit for bit the tree of the layout. Padding holds e^0 = 1 when it is summed: it must not take
// part.
TEST(HostCompute, ReduceIsTheFixedTree) {
  for (const Case &c : cases())
    for (unsigned axis : {0u, 1u}) {
      int64_t out = axis == 0 ? c.columns() : c.rows();
      std::string text = replaceAll(R"(
        #s = #tile.slice<AXIS, #l>
        tile.kernel @sum(%m: memref<ROWSxCOLSxf32, strided<[COLS, 1]>>, %o: memref<OUTxf32, strided<[1]>>,
                         %p: memref<OUTxf32, strided<[1]>>) attributes {threads = THREADS : i64} {
          %c0 = arith.constant 0 : index
          %one = arith.constant dense<1.0> : tensor<ROWSxCOLSxf32, #l>
          %x = tile.load %m[%c0, %c0] axes [0, 1] : memref<ROWSxCOLSxf32, strided<[COLS, 1]>> -> tensor<ROWSxCOLSxf32, #l>
          %y = arith.addf %x, %one : tensor<ROWSxCOLSxf32, #l>
          %s, %q = tile.reduce %x, %y axis AXIS : tensor<ROWSxCOLSxf32, #l>, tensor<ROWSxCOLSxf32, #l>
              -> tensor<OUTxf32, #s>, tensor<OUTxf32, #s>
          tile.store %s, %o[%c0] axes [0] : tensor<OUTxf32, #s>, memref<OUTxf32, strided<[1]>>
          tile.store %q, %p[%c0] axes [0] : tensor<OUTxf32, #s>, memref<OUTxf32, strided<[1]>>
          tile.return
        })",
                                    {{"ROWS", std::to_string(c.rows())},
                                     {"COLS", std::to_string(c.columns())},
                                     {"OUT", std::to_string(out)},
                                     {"AXIS", std::to_string(axis)},
                                     {"THREADS", c.threads()}});
      HostKernel kernel(c.text + text);
      std::vector<float> m = randomFloats(c.rows() * c.columns()), o(out), p(out);
      kernel.run({word(m.data()), word(o.data()), word(p.data())});
      const RegisterLayout &layout = c.layout;
      for (bool plusOne : {false, true}) {
        std::vector<float> expected =
            treeSum(layout, axis, -0.0f, [&](int64_t t, int64_t r, float sum) {
              Coordinate at = layout.coordinate(t, r);
              if (!layout.isInBounds(at))
                return sum;
              float x = m[at[0] * c.columns() + at[1]];
              return sum + (plusOne ? x + 1 : x);
            });
        for (int64_t i = 0; i < out; ++i)
          ASSERT_EQ((plusOne ? p : o)[i], expected[i]) << "axis " << axis << " at " << i;
      }
    }
}

TEST(HostCompute, ReduceToScalar) {
  HostKernel kernel(blockedText("#l", {{2}, {32}, {3}, {0}, 6}) + R"(
    tile.kernel @norm(%x: memref<100xf32, strided<[1]>>, %o: memref<1xf32, strided<[1]>>) attributes {threads = 192 : i64} {
      %c0 = arith.constant 0 : index
      %v = tile.load %x[%c0] axes [0] : memref<100xf32, strided<[1]>> -> tensor<100xf32, #l>
      %s = tile.reduce %v axis 0 : tensor<100xf32, #l> -> f32
      memref.store %s, %o[%c0] : memref<1xf32, strided<[1]>>
      tile.return
    })");
  std::vector<float> x = randomFloats(100), o(1);
  kernel.run({word(x.data()), word(o.data())});
  double sum = 0;
  for (float v : x)
    sum += v;
  EXPECT_NEAR(o[0], sum, 1e-4);
}

TEST(HostCompute, DotIsTheFixedTree) {
  for (const Case &c : cases())
    for (unsigned axis : {0u, 1u}) {
      int64_t out = axis == 0 ? c.columns() : c.rows(), in = axis == 0 ? c.rows() : c.columns();
      std::string text = replaceAll(R"(
        #s = #tile.slice<AXIS, #l>
        #v = #tile.slice<OTHER, #l>
        tile.kernel @dot(%m: memref<ROWSxCOLSxf32, strided<[COLS, 1]>>, %a: memref<INxf32, strided<[1]>>,
                         %o: memref<OUTxf32, strided<[1]>>, %p: memref<OUTxf32, strided<[1]>>) attributes {threads = THREADS : i64} {
          %c0 = arith.constant 0 : index
          %x = tile.load %m[%c0, %c0] axes [0, 1] : memref<ROWSxCOLSxf32, strided<[COLS, 1]>> -> tensor<ROWSxCOLSxf32, #l>
          %u = tile.load %a[%c0] axes [0] : memref<INxf32, strided<[1]>> -> tensor<INxf32, #v>
          %w = math.exp2 %u : tensor<INxf32, #v>
          %one = arith.constant dense<1.0> : tensor<ROWSxCOLSxf32, #l>
          %y = arith.addf %x, %one : tensor<ROWSxCOLSxf32, #l>
          %s, %q = tile.dot %u, %w with %y axis AXIS : tensor<INxf32, #v>, tensor<INxf32, #v>
              with tensor<ROWSxCOLSxf32, #l> -> tensor<OUTxf32, #s>, tensor<OUTxf32, #s>
          tile.store %s, %o[%c0] axes [0] : tensor<OUTxf32, #s>, memref<OUTxf32, strided<[1]>>
          tile.store %q, %p[%c0] axes [0] : tensor<OUTxf32, #s>, memref<OUTxf32, strided<[1]>>
          tile.return
        })",
                                    {{"ROWS", std::to_string(c.rows())},
                                     {"COLS", std::to_string(c.columns())},
                                     {"OUT", std::to_string(out)},
                                     {"INx", std::to_string(in) + "x"},
                                     {"AXIS", std::to_string(axis)},
                                     {"OTHER", std::to_string(1 - axis)},
                                     {"THREADS", c.threads()}});
      HostKernel kernel(c.text + text);
      std::vector<float> m = randomFloats(c.rows() * c.columns(), 1), a = randomFloats(in, 2),
                         o(out), p(out);
      kernel.run({word(m.data()), word(a.data()), word(o.data()), word(p.data())});
      const RegisterLayout &layout = c.layout;
      for (bool second : {false, true}) {
        std::vector<float> expected =
            treeSum(layout, axis, 0.0f, [&](int64_t t, int64_t r, float sum) {
              Coordinate at = layout.coordinate(t, r);
              if (!layout.isInBounds(at))
                return sum;
              float x = a[at[axis]];
              return std::fma(second ? std::exp2(x) : x, m[at[0] * c.columns() + at[1]] + 1, sum);
            });
        for (int64_t i = 0; i < out; ++i)
          ASSERT_EQ((second ? p : o)[i], expected[i]) << "axis " << axis << " at " << i;
      }
    }
}

//===----------------------------------------------------------------------===//
// Conversions
//===----------------------------------------------------------------------===//

TEST(HostCompute, ConvertKeepsElements) {
  const std::string others[] = {
      blockedText("#b", {{4, 1}, {8, 4}, {1, 1}, {0, 1}, 6}),
      blockedText("#b", {{1, 2}, {1, 32}, {2, 3}, {1, 0}, 0}),
      "#b = #tile.fragment<\"mma.m16n8k16.bf16\", \"c\", warps = [3, 2]>\n",
      "#p = #tile.blocked<per_thread = [1, 2, 1], lanes = [2, 4, 4], warps = [1, 2, 3], order = "
      "[2, 1, 0], num_warps = 6>\n"
      "#b = #tile.slice<0, #p>\n",
  };
  const BlockedParams from{{2, 4}, {8, 4}, {3, 1}, {1, 0}, 6};
  for (auto [rows, columns] : {std::pair(48, 64), {40, 24}, {17, 5}})
    for (const std::string &other : others) {
      std::string text =
          replaceAll(R"(
        !m = memref<ROWSxCOLSxf32, strided<[COLS, 1]>>
        tile.kernel @convert(%x: !m, %y: !m) attributes {threads = 192 : i64} {
          %c0 = arith.constant 0 : index
          %a = tile.load %x[%c0, %c0] axes [0, 1] : !m -> tensor<ROWSxCOLSxf32, #a>
          %b = tile.convert %a : tensor<ROWSxCOLSxf32, #a> -> tensor<ROWSxCOLSxf32, #b>
          tile.store %b, %y[%c0, %c0] axes [0, 1] : tensor<ROWSxCOLSxf32, #b>, !m
          tile.return
        })",
                     {{"ROWS", std::to_string(rows)}, {"COLS", std::to_string(columns)}});
      HostKernel kernel(blockedText("#a", from) + other + text);
      std::vector<float> x = randomFloats(rows * columns), y(x.size());
      kernel.run({word(x.data()), word(y.data())});
      ASSERT_EQ(x, y) << other;
    }
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

static float roundTF32(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  bits = (bits + 0x1000) & ~0x1FFFu;
  std::memcpy(&value, &bits, 4);
  return value;
}

namespace {
struct Product {
  const char *instruction;
  int64_t m, n, k;
  int64_t warpsM, warpsN, threads;
  const char *swizzle; ///< of B in shared memory, or null
};
} // namespace

static std::string productText(const Product &p, const std::string &element) {
  std::string b = p.swizzle ? R"(
        %s = tile.alloc : !s
        %b0 = tile.load %B[%c0, %c0] axes [1, 0] : !mb -> tensor<NDIMxKDIMxELEM, #l>
        tile.local_store %b0, %s : tensor<NDIMxKDIMxELEM, #l>, !s
        tile.barrier async_proxy
        %d = tile.mma %a, %s, %c : !ta, !s, !tc)"
                            : R"(
        %b = tile.load %B[%c0, %c0] axes [0, 1] : !mb -> !tb
        %d = tile.mma %a, %b, %c : !ta, !tb, !tc)";
  std::string text = R"(
      #l = #tile.blocked<per_thread = [1, 2], lanes = [8, 4], warps = [WARPS, 1], order = [1, 0], num_warps = WARPS>
      !ma = memref<MDIMxKDIMxELEM, strided<[KDIM, 1]>>
      !mb = memref<KDIMxNDIMxELEM, strided<[NDIM, 1]>>
      !mc = memref<MDIMxNDIMxf32, strided<[NDIM, 1]>>
      !ta = tensor<MDIMxKDIMxELEM, #tile.fragment<"ROW", "a", warps = [GROUPSM, GROUPSN]>>
      !tc = tensor<MDIMxNDIMxf32, #tile.fragment<"ROW", "c", warps = [GROUPSM, GROUPSN]>>
      BTYPE
      tile.kernel @mma(%A: !ma, %B: !mb, %C: !mc) attributes {threads = THREADS : i64} {
        %c0 = arith.constant 0 : index
        %a = tile.load %A[%c0, %c0] axes [0, 1] : !ma -> !ta
        %c = tile.load %C[%c0, %c0] axes [0, 1] : !mc -> !tc)" +
                     b + R"(
        tile.store %d, %C[%c0, %c0] axes [0, 1] : !tc, !mc
        tile.return
      })";
  std::string bType = p.swizzle ? "!s = !tile.shared<NDIMxKDIMxELEM, #tile.swizzled<SWIZZLE>>"
                                : "!tb = tensor<KDIMxNDIMxELEM, #tile.fragment<\"ROW\", \"b\", "
                                  "warps = [GROUPSM, GROUPSN]>>";
  return replaceAll(text, {{"BTYPE", bType},
                           {"MDIM", std::to_string(p.m)},
                           {"NDIM", std::to_string(p.n)},
                           {"KDIM", std::to_string(p.k)},
                           {"ELEM", element},
                           {"ROW", p.instruction},
                           {"GROUPSM", std::to_string(p.warpsM)},
                           {"GROUPSN", std::to_string(p.warpsN)},
                           {"WARPS", std::to_string(p.threads / 32)},
                           {"THREADS", std::to_string(p.threads)},
                           {"SWIZZLE", p.swizzle ? p.swizzle : ""}});
}

static void expectProduct(const Product &p) {
  std::string name = p.instruction, element = name.substr(name.rfind('.') + 1);
  bool tf32 = element == "tf32";
  HostKernel kernel(productText(p, tf32 ? "f32" : element));
  std::vector<float> a = randomFloats(p.m * p.k, 1), b = randomFloats(p.k * p.n, 2),
                     c = randomFloats(p.m * p.n, 3), d = c;
  std::vector<uint16_t> a16(a.size()), b16(b.size());
  for (auto [from, to] : {std::pair(&a, &a16), std::pair(&b, &b16)})
    for (size_t i = 0; i < from->size(); ++i) {
      if (tf32) {
        continue;
      }
      bool inexact;
      llvm::APFloat number((*from)[i]);
      number.convert(element == "bf16" ? llvm::APFloat::BFloat() : llvm::APFloat::IEEEhalf(),
                     llvm::APFloat::rmNearestTiesToEven, &inexact);
      (*to)[i] = number.bitcastToAPInt().getZExtValue();
      number.convert(llvm::APFloat::IEEEsingle(), llvm::APFloat::rmNearestTiesToEven, &inexact);
      (*from)[i] = number.convertToFloat();
    }
  kernel.run({tf32 ? word(a.data()) : word(a16.data()), tf32 ? word(b.data()) : word(b16.data()),
              word(d.data())});
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) {
      float sum = c[i * p.n + j];
      for (int64_t k = 0; k < p.k; ++k) {
        float x = a[i * p.k + k], y = b[k * p.n + j];
        sum = tf32 ? std::fma(roundTF32(x), roundTF32(y), sum) : std::fma(x, y, sum);
      }
      ASSERT_EQ(d[i * p.n + j], sum) << p.instruction << " at " << i << " " << j;
    }
}

TEST(HostCompute, ProductsThroughFragments) {
  expectProduct({"mma.m16n8k16.bf16", 32, 16, 32, 1, 1, 32, nullptr});
  expectProduct({"mma.m16n8k16.f16", 64, 48, 32, 2, 3, 192, nullptr});
  expectProduct({"mma.m16n8k8.tf32", 32, 32, 24, 2, 2, 128, nullptr});
  expectProduct({"mma.m16n8k16.bf16", 40, 20, 40, 2, 1, 64, nullptr}); // padded along M, N and K
}

TEST(HostCompute, ProductsWithSharedOperand) {
  expectProduct({"wgmma.m64n32k16.bf16", 64, 32, 64, 1, 1, 128, "128"});
  expectProduct({"wgmma.m64n16k16.f16", 128, 32, 48, 2, 1, 256, "32"});
  expectProduct({"wgmma.m64n24k8.tf32", 64, 24, 32, 1, 1, 128, "64"});
  expectProduct({"wgmma.m64n24k16.bf16", 50, 24, 48, 1, 1, 128, "32"}); // padded along M
}
