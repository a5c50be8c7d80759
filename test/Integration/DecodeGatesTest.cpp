//===- DecodeGatesTest.cpp - Decays, from resets to growth ----------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With a strength of 0 a step only decays the state: what is left of it is what the kernel takes
// for e^g.
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Decode.h"
#include "test/Reference/Random.h"

#include <cmath>

using namespace dl::test;

template <typename Function> static void forPlain(Function f) {
  for (const char *name : {"gdn-plain", "kda-plain"}) // gate=precomputed, beta=value
    for (const char *layout : {"kv", "vk"}) {
      SCOPED_TRACE(std::string(name) + " " + layout);
      f(operatorOf(name), std::string(layout));
    }
}

static void fill(Tensor &tensor, double value) {
  std::fill(tensor.values().begin(), tensor.values().end(), value);
}

//===----------------------------------------------------------------------===//
// The exponential of a decay
//===----------------------------------------------------------------------===//

/// What remains of a state of ones for each gate, in the gates' order.
static std::vector<double> decays(Operator op, const std::string &layout,
                                  const std::vector<double> &gates) {
  const int64_t perHead = op.kind == Operator::KDA ? 64 : 1, count = gates.size();
  const int64_t heads = (count + perHead - 1) / perHead;
  Problem problem = makeProblem(op, {1, 1, 1, heads, 64, 64}, layout);
  fill(problem.pool, 1);
  fill(problem.strength(), 0);
  fill(problem.gate(), 0);
  std::copy(gates.begin(), gates.end(), problem.gate().values().begin());
  const Outcome got = launch(problem);
  EXPECT_EQ(got.status, DLK_OK) << got.message;
  std::vector<double> result;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t h = i / perHead, k = i % perHead;
    result.push_back(got.pool[{0, h, k, 5}]);
    EXPECT_EQ((got.pool[{0, h, k, 63}]), result.back()) << "the same decay along V";
  }
  return result;
}

TEST(DecodeGates, ExponentialOverItsWholeRangeR083) {
  forPlain([](const Operator &op, const std::string &layout) {
    std::vector<double> gates; // ascending
    const double step = op.kind == Operator::KDA ? 0.01 : 0.25;
    for (int64_t i = std::lround(110 / step); i >= 0; --i)
      gates.push_back(-double(i) * step);
    const std::vector<double> got = decays(op, layout, gates);
    for (size_t i = 0; i < gates.size(); ++i) {
      SCOPED_TRACE("g = " + std::to_string(gates[i]));
      const double want = std::exp(double(float(gates[i])));
      ASSERT_GE(got[i], 0); // not NaN either
      if (gates[i] >= -80)
        ASSERT_NEAR(got[i] / want, 1, 1e-5);
      else if (want < 1.18e-38) // whether subnormal numbers are flushed is left to the chip
        ASSERT_LE(got[i], 1.18e-38);
      else
        ASSERT_NEAR(got[i] / want, 1, 2e-5);
      ASSERT_TRUE(i == 0 || got[i] >= got[i - 1]) << "monotone";
    }
    EXPECT_EQ(got.back(), 1);
  });
}

TEST(DecodeGates, ExponentialsThatAreExactR083) {
  forPlain([](const Operator &op, const std::string &layout) {
    const std::vector<double> got =
        decays(op, layout, {0.0, -0.0, 1e-30, -1e-30, -1e-42, -INFINITY, -1e30, -3.4e38});
    EXPECT_EQ(got, (std::vector<double>{1, 1, 1, 1, 1, 0, 0, 0}));
  });
}

//===----------------------------------------------------------------------===//
// The domain of a gate
//===----------------------------------------------------------------------===//

/// One token with any gate whose exponential is a number of f32, growth included.
TEST(DecodeGates, PositiveLogDecaysGrowR006) {
  forPlain([](const Operator &op, const std::string &layout) {
    Problem problem = makeProblem(op, {1, 1, 1, 90, 64, 64}, layout);
    const int64_t perHead = problem.gate().values().size() / 90;
    for (size_t i = 0; i < problem.gate().values().size(); ++i)
      problem.gate().values()[i] = -90 + 2 * double(i / perHead) - 0.01 * double(i % perHead);
    for (double &value : problem.pool.values()) // room for sums over K below 3.4e38
      value /= 1024;
    launchAndCheck(problem);
  });
}

/// 64 tokens of gates from -80 to 80. A token undoes what the one before it did to a head, or the
/// state would leave f32.
TEST(DecodeGates, GrowthAndDecayOver64TokensR006) {
  forPlain([](const Operator &op, const std::string &layout) {
    Problem problem = makeProblem(op, {1, 64, 1, 4, 64, 64}, layout);
    std::vector<double> &gates = problem.gate().values();
    const size_t token = gates.size() / 64, perHead = token / 4;
    Random random(7);
    for (size_t t = 0; t < 64; t += 2)
      for (size_t i = 0; i < token; ++i) {
        gates[t * token + i] = i % perHead ? gates[t * token + i - 1] : random.uniform(0, 80);
        gates[(t + 1) * token + i] = -gates[t * token + i];
      }
    launchAndCheck(problem);
  });
}

/// A state that leaves f32 is not finite, and no other state or output sees it.
TEST(DecodeGates, OverflowStaysInItsHeadR006) {
  forPlain([](const Operator &op, const std::string &layout) {
    Problem problem = makeProblem(op, {2, 1, 1, 4, 64, 64}, layout);
    fill(problem.pool, 2);
    const Outcome clean = launch(problem);
    const int64_t perHead = problem.gate().values().size() / 8;
    std::fill_n(&problem.gate().values()[5 * perHead], perHead, 90.0); // row 1, head 1
    const Outcome got = launch(problem);
    for (int64_t b = 0; b < 2; ++b)
      for (int64_t h = 0; h < 4; ++h)
        for (int64_t v = 0; v < 64; ++v) {
          const double o = got.o[{b, 0, h, v}], S = got.pool[{b, h, 63 - v, v}];
          if (b == 1 && h == 1)
            ASSERT_FALSE(std::isfinite(S)) << "column " << v;
          else
            ASSERT_TRUE(o == (clean.o[{b, 0, h, v}]) && S == (clean.pool[{b, h, 63 - v, v}]))
                << "row " << b << ", head " << h;
        }
  });
}

/// One decay, given as a logarithm and as the argument of a softplus. The keys have length one
/// already, so that the packages differ in nothing else.
TEST(DecodeGates, OneDecayInEveryDomainR006) {
  for (const std::string name : {"gdn", "kda"})
    for (const char *layout : {"kv", "vk"}) {
      SCOPED_TRACE(name + " " + layout);
      Problem plain = makeProblem(operatorOf(name + "-plain"), {1, 64, 2, 4, 64, 64}, layout);
      for (const char *vector : {"q", "k"})
        for (double &value : plain.tensors.at(vector).values())
          value = std::copysign(0.125, value);
      fill(plain.strength(), 0.5);
      Problem softplus = plain;
      softplus.op = operatorOf(name);
      softplus.tensors = makeProblem(softplus.op, plain.n, layout).tensors;
      for (const char *shared : {"q", "k", "v"})
        softplus.tensors[shared] = plain.tensors.at(shared);
      fill(plain.gate(), std::log(0.9));
      fill(softplus.gate(), 0);
      fill(softplus.strength(), 0); // a half
      fill(softplus.tensors.at("dt_bias"), 30);
      fill(softplus.tensors.at("A_log"), std::log(-std::log(0.9) / 30));
      const Outcome a = launch(plain), b = launch(softplus);
      check(plain, a);
      check(softplus, b);
      EXPECT_LE(rmsRatio(b.pool, a.pool), 1e-5);
    }
}

TEST(DecodeGates, RawDecaysOfRWKV6R006) {
  for (const char *layout : {"kv", "vk"}) {
    Problem log = makeProblem(operatorOf("rwkv6"), {1, 64, 2, 2, 64, 64}, layout), raw = log;
    raw.op = operatorOf("rwkv6-raw");
    for (size_t i = 0; i < log.gate().values().size(); ++i) {
      log.gate().values()[i] = i % 2 ? -1 : 0; // e^-1 and no decay, which bf16 holds both ways
      raw.gate().values()[i] = i % 2 ? 0 : -INFINITY;
    }
    const Outcome a = launch(log), b = launch(raw);
    check(log, a);
    EXPECT_LE(rmsRatio(b.pool, a.pool), 1e-6);
    EXPECT_LE(rmsRatio(b.o, a.o), 1e-3); // a bf16 may round the other way
  }
}

//===----------------------------------------------------------------------===//
// What becomes of the start state
//===----------------------------------------------------------------------===//

/// The state counts up to 1.57 million.
static Problem counting(const Operator &op, const std::string &layout, int64_t T) {
  Problem problem = makeProblem(op, {1, T, 4, 96, 64, 64}, layout, 1, 2);
  for (int64_t i = 0; i < 96 * 64 * 64; ++i)
    problem.pool.values()[i] = 4.0 * double(i);
  problem.starts = {0, T, T}; // the second row has no tokens
  fill(problem.strength(), 0);
  return problem;
}

TEST(DecodeGates, WithoutDecayAndWriteTheStateStaysR093) {
  forPlain([](const Operator &op, const std::string &layout) {
    Problem problem = counting(op, layout, 16);
    fill(problem.gate(), 0);
    EXPECT_TRUE(sameBits(launch(problem).pool, expected(problem).pool));
  });
}

/// One decay of e^-1 within 1e-6, and sixteen of them within 16 times what one may be off.
TEST(DecodeGates, TheStateDecaysEvenlyR093) {
  forPlain([](const Operator &op, const std::string &layout) {
    for (const auto &[T, limit] : {std::pair<int64_t, double>{1, 1e-6}, {16, 6e-6}}) {
      Problem problem = counting(op, layout, T);
      fill(problem.gate(), -1);
      const Outcome got = launch(problem);
      ASSERT_EQ(got.status, DLK_OK) << got.message;
      double worst = 0;
      for (int64_t i = 0; i < 96 * 64 * 64; ++i)
        worst = std::max(worst, std::fabs(got.pool.values()[i] -
                                          std::exp(-double(T)) * problem.pool.values()[i]) /
                                    std::max(1.0, problem.pool.values()[i]));
      EXPECT_LE(worst / std::exp(-double(T)), limit) << T << " tokens";
    }
  });
}

/// A long call, and the same without a start state, shorter, and without a decay.
TEST(DecodeGates, OneCallAndItsThreeControlsR099) {
  struct Variant {
    bool hasState;
    int64_t T;
    double gate;
  };
  forPlain([](const Operator &op, const std::string &layout) {
    for (const Variant &x :
         {Variant{true, 130, -0.2}, {false, 130, -0.2}, {true, 64, -0.2}, {true, 130, 0.0}}) {
      SCOPED_TRACE("T = " + std::to_string(x.T) + ", g = " + std::to_string(x.gate));
      Problem problem = makeProblem(op, {2, x.T, 2, 4, 64, 64}, layout);
      fill(problem.gate(), x.gate);
      fill(problem.strength(), 0.7);
      if (!x.hasState)
        fill(problem.pool, 0);
      launchAndCheck(problem);
    }
  });
}
