//===- PrefillGatesTest.cpp - Decays and strengths in a chunk -------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A decay between two tokens of a chunk is the exponential of a difference of sums: what the sums
// or the factors of the difference cannot hold would show here. So would entries of the inverse of
// a chunk's triangular matrix that are larger than the inverse is.
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Prefill.h"
#include "test/Reference/Random.h"

#include <cmath>

using namespace dl::test;

static void fill(Tensor &tensor, double value) {
  std::fill(tensor.values().begin(), tensor.values().end(), value);
}

//===----------------------------------------------------------------------===//
// Strong decays
//===----------------------------------------------------------------------===//

/// All channels at the bound, at each token: a chunk of 128 tokens spans up to 640 nats.
TEST(PrefillGates, SaturatedBoundedGateR001) {
  for (const char *bound : {"2.5", "3", "4", "5"})
    for (const char *layout : {"kv", "vk"})
      for (const std::string &form : {std::string(), std::string("-c64")}) {
        const Operator op = prefillOf("kda-bound" + std::string(bound) + form);
        SCOPED_TRACE(op.package + " " + layout);
        Problem problem = makeProblem(op, {1, 100, 2, 2, 32, 32}, layout);
        fill(problem.tensors.at("A_log"), 0);
        fill(problem.tensors.at("dt_bias"), 0);
        fill(problem.strength(), 0); // beta = 0.5
        for (double gate : {30.0, 0.0, -3.0}) {
          fill(problem.gate(), gate);
          launchAndCheck(problem);
        }
        // Each channel its own, and from token to token another.
        Random random(7);
        problem.gate() = random.uniform(problem.gate().shape(), -30, 30);
        launchAndCheck(problem);
      }
}

/// Half of the channels forget at the first token of a piece of 16, which is seen one token later.
TEST(PrefillGates, ResetsAtTheFirstTokensOfPiecesR002) {
  forForms({"rwkv6"}, [](const Operator &op, const std::string &layout) {
    Problem problem = makeProblem(op, {1, 128, 2, 2, 32, 32}, layout);
    for (int64_t t = 0; t < 128; ++t)
      for (int64_t h = 0; h < 2; ++h)
        for (int64_t k = 0; k < 32; ++k)
          problem.gate()[{0, t, h, k}] =
              k % 2 == 0 && (t == 0 || t == 16 || t == 32 || t == 64) ? -30 : -0.01;
    launchAndCheck(problem);
  });
}

/// Most of the entries, of all rows or of some channels, are resets, each exact.
TEST(PrefillGates, DecaysBeyondTheExponentAreResetsR003) {
  forForms({"gdn-plain", "kda-plain", "rwkv6"}, [](const Operator &op, const std::string &layout) {
    for (double share : {0.1, 0.5, 0.9})
      for (double reset : {-1000.0, double(-INFINITY)}) {
        SCOPED_TRACE(std::to_string(share) + " at " + std::to_string(reset));
        Problem problem = packRows(op, {1, 0, 1, 2, 32, 32}, layout, {25, 33, 40});
        Random random(11);
        setDecays(problem, [&](size_t) {
          const double other = std::log(sigmoid(random.normal()));
          return random.uniform(0, 1) < share ? reset : other;
        });
        const Outcome got = launch(problem);
        check(problem, got);
        for (int64_t row = 0; row < problem.rows(); ++row)
          expectSameRow(problem, row, got, launch(rowOf(problem, row)), row);
      }
  });
}

/// A reset of all channels: what came before does not matter, not to the last bit.
TEST(PrefillGates, NothingPassesAResetR003) {
  forForms({"gdn-plain", "kda-plain", "rwkv6"}, [](const Operator &op, const std::string &layout) {
    for (int64_t at : {0, 5, 16, 33})
      for (double reset : {-1000.0, double(-INFINITY)}) {
        Problem problem = makeProblem(op, {1, 50, 1, 2, 32, 32}, layout);
        const int64_t size = problem.gate().values().size() / 50;
        std::fill_n(&problem.gate().values()[at * size], size, reset);
        Problem other = problem;
        other.pool = makeProblem(op, {1, 1, 1, 2, 32, 32}, layout, 5).pool;
        for (double &value : other.pool.values())
          value *= 1000;
        const Outcome a = launch(problem), b = launch(other);
        check(problem, a);
        EXPECT_TRUE(sameBits(a.pool, b.pool)) << "reset of token " << at;
        // RWKV-6 reads before the decay of its token.
        const int64_t from = (at + (op.isDelta() ? 0 : 1)) * 2 * 32;
        EXPECT_TRUE(std::equal(a.o.values().begin() + from, a.o.values().end(),
                               b.o.values().begin() + from))
            << "reset of token " << at;
      }
  });
}

//===----------------------------------------------------------------------===//
// Weak decays
//===----------------------------------------------------------------------===//

/// The start state is still there at the end, and right.
TEST(PrefillGates, NoDecayOrATinyOneR007) {
  for (const char *name : {"gdn-given", "kda-given", "rwkv6"})
    for (const char *layout : {"kv", "vk"})
      for (double decay : {0.0, -1e-3, -0.05}) {
        SCOPED_TRACE(std::string(name) + " " + layout + " " + std::to_string(decay));
        const Operator op = prefillOf(name);
        const int64_t T = decay == 0 ? 509 : 512;
        Problem problem = makeProblem(op, {1, T, 1, 1, 32, 32}, layout);
        if (!op.isDelta()) // such keys are no units, and the state grows
          for (double &value : problem.tensors.at("k").values())
            value /= std::sqrt(32);
        setDecays(problem, [&](size_t) { return decay; });
        const Outcome got = launch(problem);
        check(problem, got);
        if (decay < -1e-2)
          continue;
        Problem empty = problem;
        empty.pool = Tensor(problem.pool.shape());
        const Outcome without = launch(empty), want = expected(problem),
                      wantWithout = expected(empty);
        Tensor difference = got.pool, wanted = want.pool;
        for (size_t i = 0; i < wanted.values().size(); ++i) {
          difference.values()[i] -= without.pool.values()[i];
          wanted.values()[i] -= wantWithout.pool.values()[i];
        }
        if (!op.isDelta()) // corrections leave little of it, and errors of sums are as large
          EXPECT_LE(rmsRatio(difference, wanted), 2e-2) << "of the start state";
      }
}

//===----------------------------------------------------------------------===//
// Strengths
//===----------------------------------------------------------------------===//

/// One key for all tokens: p = (1 - beta) p + beta.
TEST(PrefillGates, OneKeyForAllTokensR008) {
  forForms({"gdn-plain", "kda-plain"}, [](const Operator &op, const std::string &layout) {
    for (double beta : {0.3, 1.0, 1.37, 1.9, 2.0})
      for (int64_t T : {16, 33, 128}) {
        SCOPED_TRACE("beta " + std::to_string(beta) + " T " + std::to_string(T));
        Problem problem = makeProblem(op, {1, T, 1, 1, 32, 32}, layout);
        problem.pool = Tensor({1, 1, 32, 32});
        problem.scale = 1;
        setDecays(problem, [](size_t) { return 0.0; });
        fill(problem.strength(), beta);
        fill(problem.tensors.at("v"), 1);
        for (const char *vector : {"q", "k"}) // 1/4 in half of the channels: a unit vector
          for (size_t i = 0; i < problem.tensors.at(vector).values().size(); ++i)
            problem.tensors.at(vector).values()[i] = i % 2 ? 0.25 : 0;
        const Outcome got = launch(problem);
        ASSERT_EQ(got.status, DLK_OK) << got.message;
        const double rounded = expected(tokensOf(problem, 0, 1)).o.values()[0]; // beta in bf16
        double p = 0, worst = 0;
        for (int64_t t = 0; t < T; ++t) {
          p = (1 - rounded) * p + rounded;
          for (int64_t v = 0; v < 32; ++v)
            if (const double error = std::fabs(got.o[{0, t, 0, v}] - p); !(error <= worst))
              worst = error;
        }
        EXPECT_LE(worst, 2e-2);
      }
  });
}

/// Full strength in even heads, none in odd ones, and a decay that is the same for all.
static void setStrengthsAndDecay(Problem &problem, double decay) {
  for (size_t i = 0; i < problem.strength().values().size(); ++i)
    problem.strength().values()[i] = i % 2 ? -30 : 30;
  // exp(A_log) softplus(30) = -decay
  fill(problem.tensors.at("A_log"), decay == 0 ? -INFINITY : std::log(-decay / 30));
  fill(problem.tensors.at("dt_bias"), 0);
  fill(problem.gate(), 30);
}

/// With factor 2 a full strength reflects, and none keeps: without a decay nothing is forgotten,
/// nor is what rounding the factors of products takes.
static void checkReflections(const Operator &op, const std::string &layout, int64_t size) {
  constexpr int64_t T = 200;
  for (double decay : {0.0, -1e-3, -0.1})
    for (const char *keys : {"random keys", "axes", "one key"}) {
      SCOPED_TRACE(std::to_string(size) + " " + std::to_string(decay) + " " + keys);
      Problem problem = makeProblem(op, {1, T, 1, 2, size, size}, layout);
      setStrengthsAndDecay(problem, decay);
      Tensor &k = problem.tensors.at("k");
      for (int64_t t = 0; t < T; ++t)
        for (int64_t i = 0; i < size; ++i)
          if (*keys == 'a')
            k[{0, t, 0, i}] = i == t % size ? 4 : 0;
          else if (*keys == 'o')
            k[{0, t, 0, i}] = k[{0, 0, 0, i}];
      const Outcome got = launch(problem);
      check(problem, got);
      for (int64_t i = 0; i < size; ++i) { // head 1 only decays
        const double before = static_cast<float>(problem.pool[{0, 1, i, 9}]);
        EXPECT_NEAR((got.pool[{0, 1, i, 9}]), std::exp(T * decay) * before,
                    1e-5 * std::fabs(before));
      }
    }
}

TEST(PrefillGates, StrengthTwoReflectsAndZeroKeepsR010) {
  forForms({"gdn-factor2", "kda-factor2"},
           [](const Operator &op, const std::string &layout) { checkReflections(op, layout, 32); });
}

TEST(PrefillGates, LongerKeysReflectR010) {
  for (const char *op : {"gdn", "kda"})
    for (const char *form : {"", "-c16", "-c64"}) {
      if (form == std::string("-c64") && Device::get().handle.type != DLK_DEVICE_CPU)
        continue;
      for (int64_t size : {64, 128})
        checkReflections(prefillOf(std::string(op) + "-factor2-wide" + form), "kv", size);
    }
}
