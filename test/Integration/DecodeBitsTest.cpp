//===- DecodeBitsTest.cpp - What is the same to the last bit --------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Decode.h"

#include <cmath>
#include <cstring>

using namespace dl::test;

/// Part `index` of `parts` equal parts has the same bits in both.
static bool samePart(const Tensor &a, const Tensor &b, int64_t index, int64_t parts) {
  const size_t size = a.values().size() / parts;
  return a.shape() == b.shape() && std::memcmp(&a.values()[index * size], &b.values()[index * size],
                                               size * sizeof(double)) == 0;
}

//===----------------------------------------------------------------------===//
// Repetition, batches, splits
//===----------------------------------------------------------------------===//

TEST(DecodeBits, AgainTheSameR074) {
  forOperators([](const Operator &op, const std::string &layout) {
    const Problem problem = makeProblem(op, {4, 2, 2, 4, 128, 128}, layout);
    const Outcome first = launch(problem);
    for (int i = 0; i < 10; ++i) {
      const Outcome again = launch(problem);
      EXPECT_TRUE(sameBits(again.o, first.o) && sameBits(again.pool, first.pool));
    }
  });
}

TEST(DecodeBits, ARowAloneOrInABatchR075) {
  forOperators([](const Operator &op, const std::string &layout) {
    for (int64_t B : {2, 16}) {
      Problem batch = makeProblem(op, {B, 2, 2, 4, 64, 64}, layout);
      for (int64_t row = 0; row < B; ++row) { // in any order of slots
        batch.sources.push_back((row * 7 + 3) % B);
        batch.destinations = batch.sources;
      }
      const Outcome all = launch(batch);
      check(batch, all);
      for (int64_t row = 0; row < B; ++row) {
        const Outcome alone = launch(rowOf(batch, row));
        ASSERT_EQ(alone.status, DLK_OK) << alone.message;
        const size_t o = alone.o.values().size(), S = alone.pool.values().size();
        EXPECT_EQ(
            0, std::memcmp(alone.o.values().data(), &all.o.values()[row * o], o * sizeof(double)))
            << "row " << row << " of " << B;
        EXPECT_EQ(0,
                  std::memcmp(alone.pool.values().data(),
                              &all.pool.values()[batch.destination(row) * S], S * sizeof(double)))
            << "row " << row << " of " << B;
      }
    }
  });
}

/// How V is split between blocks is nobody's business but the schedule's, as long as K is dealt to
/// threads in the same way.
TEST(DecodeBits, EverySplitOfV) {
  forOperators([](const Operator &op, const std::string &layout) {
    Problem problem = makeProblem(op, {3, 3, 2, 4, 128, 128}, layout);
    std::optional<Outcome> first;
    for (const char *tile : {"32", "64", "128"}) {
      problem.op.package = op.package + "-tile" + tile + "-" + layout;
      const Outcome split = launch(problem);
      check(problem, split);
      if (!first)
        first = split;
      EXPECT_TRUE(sameBits(split.o, first->o)) << tile;
      EXPECT_TRUE(sameBits(split.pool, first->pool)) << tile;
    }
  });
}

/// A launch may take another kernel where it has few rows or, on a GPU, many.
TEST(DecodeBits, ARowAloneOrAmongMany) {
  const int64_t B = Device::get().handle.type == DLK_DEVICE_CUDA ? 420 : 5;
  forOperators([&](const Operator &op, const std::string &layout) {
    const Problem many = makeProblem(op, {B, 1, 2, 4, 128, 128}, layout);
    const Outcome all = launch(many);
    ASSERT_EQ(all.status, DLK_OK) << all.message;
    for (int64_t row : {int64_t(0), B - 1}) {
      const Outcome alone = launch(rowOf(many, row));
      ASSERT_EQ(alone.status, DLK_OK) << alone.message;
      const size_t o = alone.o.values().size(), S = alone.pool.values().size();
      EXPECT_EQ(0,
                std::memcmp(alone.o.values().data(), &all.o.values()[row * o], o * sizeof(double)));
      EXPECT_EQ(0, std::memcmp(alone.pool.values().data(), &all.pool.values()[row * S],
                               S * sizeof(double)));
    }
  });
}

/// Two ways to keep a state: other sums, the same numbers up to rounding.
TEST(DecodeBits, LayoutsAgreeUpToRounding) {
  for (const Operator &op : shippedOperators()) {
    Problem problem = makeProblem(op, {3, 3, 2, 4, 96, 192}, "kv");
    const Outcome kv = launch(problem);
    problem.layout = "vk";
    const Outcome vk = launch(problem);
    check(problem, vk);
    EXPECT_LE(rmsRatio(vk.pool, kv.pool), 1e-6) << op.package;
    EXPECT_LE(rmsRatio(vk.o, kv.o), 1e-3) << op.package; // a bf16 may round the other way
  }
}

/// What padding there is between rows changes nothing.
TEST(DecodeBits, PaddingDoesNotMatter) {
  forOperators([](const Operator &op, const std::string &layout) {
    const Problem problem = makeProblem(op, {3, 2, 2, 4, 64, 64}, layout);
    LaunchOptions options;
    options.padding = 0;
    const Outcome packed = launch(problem, options);
    options.padding = 3;
    options.inPlace = false;
    const Outcome padded = launch(problem, options);
    EXPECT_TRUE(sameBits(packed.o, padded.o) && sameBits(packed.pool, padded.pool));
  });
}

//===----------------------------------------------------------------------===//
// NaN stays where it belongs
//===----------------------------------------------------------------------===//

namespace {
/// A NaN in row 1, token 1, value head 2 (key head 1) of one input.
struct NanCase {
  Problem problem;
  Outcome clean, dirty;
  static constexpr int64_t B = 3, T = 3, HQ = 2, HV = 4, row = 1, token = 1;

  NanCase(const Operator &op, const std::string &layout, const std::string &name) {
    problem = makeProblem(op, {B, T, HQ, HV, 64, 64}, layout);
    clean = launch(problem);
    Tensor &tensor = problem.tensors.at(name);
    const int64_t heads = tensor.shape()[2];
    const int64_t inner = tensor.values().size() / (B * T * heads);
    tensor.values()[((row * T + token) * heads + heads / 2) * inner + (inner > 1 ? 5 : 0)] = NAN;
    dirty = launch(problem);
    EXPECT_EQ(dirty.status, DLK_OK) << dirty.message;
  }

  /// Whether outputs of (row, token, head) are as in the clean run.
  bool sameOutput(int64_t b, int64_t t, int64_t h) const {
    return samePart(clean.o, dirty.o, (b * T + t) * HV + h, B * T * HV);
  }
  bool sameState(int64_t b, int64_t h) const {
    return samePart(clean.pool, dirty.pool, b * HV + h, B * HV);
  }
  /// All that has nothing to do with the given heads of the row from the token on.
  void expectOthersClean(int64_t firstHead, int64_t numHeads) const {
    for (int64_t b = 0; b < B; ++b)
      for (int64_t h = 0; h < HV; ++h) {
        const bool isHit = b == row && h >= firstHead && h < firstHead + numHeads;
        if (!isHit)
          EXPECT_TRUE(sameState(b, h)) << "state of row " << b << ", head " << h;
        for (int64_t t = 0; t < T; ++t)
          if (!isHit || t < token)
            EXPECT_TRUE(sameOutput(b, t, h)) << "row " << b << ", token " << t << ", head " << h;
      }
  }
  bool isNanAt(int64_t t, int64_t h, int64_t v) const {
    return std::isnan(dirty.o[{row, t, h, v}]);
  }
};
} // namespace

TEST(DecodeBits, NanInAValueStaysInItsColumnR097) {
  forOperators([](const Operator &op, const std::string &layout) {
    const NanCase test(op, layout, "v");
    test.expectOthersClean(2, 1);
    for (int64_t v = 0; v < 64; ++v) {
      for (int64_t k = 0; k < 64; ++k)
        EXPECT_EQ(std::isnan(test.dirty.pool[{1, 2, k, v}]), v == 5);
      for (int64_t t = 1; t < 3; ++t)
        EXPECT_EQ(test.isNanAt(t, 2, v), v == 5) << "token " << t << ", column " << v;
    }
  });
}

TEST(DecodeBits, NanInAQueryStaysInItsTokenR097) {
  forOperators([](const Operator &op, const std::string &layout) {
    const NanCase test(op, layout, op.query());
    test.expectOthersClean(2, 2);
    for (int64_t h = 2; h < 4; ++h) { // both value heads of the key head
      EXPECT_TRUE(test.sameState(1, h));
      EXPECT_TRUE(test.sameOutput(1, 2, h));
      for (int64_t v = 0; v < 64; ++v)
        EXPECT_TRUE(test.isNanAt(1, h, v));
    }
  });
}

TEST(DecodeBits, NanInKeyGateOrStrengthStaysInItsHeadR097) {
  forOperators([](const Operator &op, const std::string &layout) {
    std::vector<std::string> names{"k", op.gateName()};
    if (op.isDelta())
      names.push_back(op.betaName());
    for (const std::string &name : names) {
      SCOPED_TRACE(name);
      const NanCase test(op, layout, name);
      const bool ofKeyHead = test.problem.tensors.at(name).shape()[2] == 2;
      test.expectOthersClean(2, ofKeyHead ? 2 : 1);
      for (int64_t v = 0; v < 64; ++v)
        EXPECT_TRUE(test.isNanAt(2, 2, v)) << "column " << v;
    }
  });
}

/// What one row holds is nothing to the others, NaN and infinity in its state included.
TEST(DecodeBits, NanInAStateStaysInItsRow) {
  forOperators([](const Operator &op, const std::string &layout) {
    Problem problem = makeProblem(op, {3, 2, 2, 4, 64, 64}, layout);
    const Outcome clean = launch(problem);
    for (double bad : {double(NAN), double(INFINITY)}) {
      problem.pool[{1, 2, 3, 4}] = bad;
      const Outcome dirty = launch(problem);
      for (int64_t part = 0; part < 12; ++part)
        if (part != 1 * 4 + 2)
          EXPECT_TRUE(samePart(clean.pool, dirty.pool, part, 12)) << "slot and head " << part;
      for (int64_t row : {0, 2})
        EXPECT_TRUE(samePart(clean.o, dirty.o, row, 3)) << "row " << row;
    }
  });
}
