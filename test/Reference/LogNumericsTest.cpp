//===- LogNumericsTest.cpp - How errors grow in a log, and in its bases ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The model in fp64, but for what is stored: what any kernel with these formats
// has to live with. DL_LOG_STEPS sets the length of the long generation.
//
//===----------------------------------------------------------------------===//

#include "test/Reference/LogProtocol.h"
#include "test/Reference/LogTestOperators.h"

#include <cmath>
#include <cstdlib>
#include <gtest/gtest.h>

using namespace dl::deltalog;
using namespace dl::recurrence;

namespace {
/// One row that generates in place.
class Generation {
public:
  Generation(const Limits &limits, int64_t K, int64_t V, const Storage &storage)
      : pool(limits, 1, K, V, storage), cursors(1) {}

  std::vector<Vector> step(const std::vector<AffineToken> &tokens, int32_t accepted) {
    Rows<int32_t> rows;
    rows.count = 1;
    rows.tokens = static_cast<int32_t>(tokens.size());
    rows.accepted = {accepted};
    std::vector<Vector> outputs(tokens.size());
    append(pool, plan(pool.limits, rows, cursors), tokens, outputs);
    return outputs;
  }

  /// After the last step's tokens.
  Matrix state() const {
    int32_t count = settle(pool.limits, cursors[0], AllPending).length;
    return materialize(pool, cursors[0], 0, count);
  }

  Matrix &base() { return pool.base[0]; }

private:
  Pool pool;
  std::vector<Cursor> cursors;
};
} // namespace

static double rms(const Vector &x) { return std::sqrt((x * x).sum() / double(x.size())); }

static double rmsRatio(const Matrix &got, const Matrix &expected) {
  return rms(got.values - expected.values) / (rms(expected.values) + 1e-8);
}

/// bf16 inputs, unit keys and a weak decay: the state remembers about 100 tokens,
/// so every error stays for a while.
static GatedDeltaNet weaklyDecaying(int64_t tokens, int64_t K, int64_t V) {
  Random random(66);
  GatedDeltaNet x;
  x.sizes = {1, tokens, 1, 1, K, V};
  x.q = random.normal({1, tokens, 1, K});
  x.k = random.normal({1, tokens, 1, K});
  x.v = random.normal({1, tokens, 1, V});
  x.a = Tensor({1, tokens, 1}, -0.01);
  x.b = random.uniform({1, tokens, 1}, 0.1, 1.0);
  for (Tensor *input : {&x.q, &x.k, &x.v})
    for (double &value : input->values())
      value = stored(Format::BF16, value);
  x.gate = Gate::Precomputed;
  x.beta = Beta::Value;
  return x;
}

/// The error of the state after so many fills of a log of 16.
static double errorAfter(int64_t cycles, const Storage &storage) {
  GatedDeltaNet x = weaklyDecaying(cycles * 16, 32, 32);
  Generation generation({16, 1, 17}, 32, 32, storage);
  for (int64_t t = 0; t < x.sizes.T; ++t)
    generation.step({affine(x, {0, t, 0, 0})}, 1);
  return rmsRatio(generation.state(), run(x).S.matrix({0, 0}));
}

/// The same where a dense state is rounded after every token.
static double errorOfDense(int64_t cycles, Format format) {
  GatedDeltaNet x = weaklyDecaying(cycles * 16, 32, 32);
  Matrix S(32, 32);
  for (int64_t t = 0; t < x.sizes.T; ++t) {
    step(affine(x, {0, t, 0, 0}), S);
    S.values = stored(format, S.values);
  }
  return rmsRatio(S, run(x).S.matrix({0, 0}));
}

TEST(LogNumerics, Formats) {
  EXPECT_EQ(stored(Format::BF16, 1.0 + 1.0 / 256), 1.0) << "ties to even";
  EXPECT_EQ(stored(Format::BF16, 1.0 + 3.0 / 256), 1.0 + 4.0 / 256);
  EXPECT_EQ(stored(Format::BF16, -3.0e-20), -3.0e-20 + (stored(Format::BF16, -3.0e-20) + 3.0e-20));
  EXPECT_EQ(stored(Format::HiLo, 1.0 + 1.0 / 256), 1.0 + 1.0 / 256);
  EXPECT_EQ(stored(Format::F32, 0.1), double(0.1F));
  EXPECT_EQ(stored(Format::F64, 0.1), 0.1);
  EXPECT_EQ(stored(Format::BF16, 0.0), 0.0);
}

TEST(LogNumerics, ErrorsDoNotGrowWithTheNumberOfMerges) {
  struct Case {
    const char *name;
    Storage storage;
    double allowed;
  };
  for (const Case &c :
       {Case{"b f32", {Format::F32, Format::F64, Format::F32, Format::F32}, 1e-6},
        Case{"b hi/lo", {Format::F32, Format::F64, Format::HiLo, Format::F32}, 1e-4},
        Case{"b bf16", {Format::F32, Format::F64, Format::BF16, Format::F32}, 5e-3},
        Case{"base bf16", {Format::BF16, Format::F64, Format::F32, Format::F32}, 2e-2}}) {
    double after16 = errorAfter(16, c.storage);
    double after64 = errorAfter(64, c.storage);
    EXPECT_LE(after16, c.allowed) << c.name;
    EXPECT_LE(after64, c.allowed) << c.name;
    EXPECT_LE(after64, 1.5 * after16) << c.name;
    RecordProperty(c.name, std::to_string(after64 * 1e6) + "e-6");
  }
}

TEST(LogNumerics, ANarrowBaseIsRoundedOncePerMerge) {
  Storage narrow{Format::BF16, Format::F64, Format::F32, Format::F32};
  EXPECT_LT(errorAfter(64, narrow), errorOfDense(64, Format::BF16));
}

/// The largest distance of any output from the recurrence, over a generation with
/// 1 to 4 tokens a step of which any number is accepted. Decays include resets.
static double worstOutput(const TestOperator &op, int64_t steps, const Storage &storage) {
  Random random(64);
  Generation generation({16, 4, 20}, op.K, op.V, storage);
  Matrix S = randomState(random, op.K, op.V);
  generation.base() = S;
  std::vector<Matrix> states = {S};
  double worst = 0.0;
  for (int64_t i = 0; i < steps; ++i) {
    auto accepted = static_cast<size_t>(random.uniform(0.0, double(states.size())));
    S = states[accepted];
    states = {S};
    std::vector<DrawnToken> drawn;
    std::vector<AffineToken> tokens;
    for (int64_t t = 0; t < 1 + i % 4; ++t) {
      drawn.push_back(op.draw(random));
      tokens.push_back(drawn.back().token);
    }
    std::vector<Vector> outputs = generation.step(tokens, static_cast<int32_t>(accepted));
    for (size_t t = 0; t < tokens.size(); ++t) {
      worst = std::max(worst, distance(outputs[t], drawn[t].step(S)));
      states.push_back(S);
    }
  }
  return worst;
}

TEST(LogNumerics, ALongGeneration) {
  const char *given = std::getenv("DL_LOG_STEPS"); // NOLINT(concurrency-mt-unsafe)
  int64_t steps = given ? std::strtoll(given, nullptr, 10) : 4096;
  for (const TestOperator &op : testOperators()) {
    double worst = worstOutput(op, steps, {});
    EXPECT_LE(worst, 1e-12) << op.name;
    RecordProperty(op.name, std::to_string(worst * 1e15) + "e-15");
  }
}

TEST(LogNumerics, AClockInF32LosesBitsToResets) {
  // Sixteen tokens that all reset the state put the clock at -1664, where fp32 has
  // steps of 1.2e-4: so much may a term be off that still counts after them.
  Storage storage{Format::F64, Format::F64, Format::F64, Format::F32};
  for (const char *name : {"GatedDeltaNet", "KimiDeltaAttention", "RWKV6"}) {
    double worst = worstOutput(testOperator(name), 4096, storage);
    EXPECT_LE(worst, 1e-4) << name;
    RecordProperty(name, std::to_string(worst * 1e6) + "e-6");
  }
}
