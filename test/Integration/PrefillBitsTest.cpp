//===- PrefillBitsTest.cpp - What of a prefill is the same to the last bit ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Prefill.h"
#include "test/Reference/Random.h"

#include <cmath>

using namespace dl::test;

/// Outputs of the first `tokens` tokens have the same bits in both.
static void expectSameTokens(const Outcome &a, const Outcome &b, int64_t tokens) {
  ASSERT_EQ(a.status, DLK_OK) << a.message;
  ASSERT_EQ(b.status, DLK_OK) << b.message;
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t h = 0; h < a.o.shape()[2]; ++h)
      for (int64_t v = 0; v < a.o.shape()[3]; ++v)
        ASSERT_EQ((a.o[{0, t, h, v}]), (b.o[{0, t, h, v}])) << "token " << t << ", head " << h;
}

//===----------------------------------------------------------------------===//
// Causality
//===----------------------------------------------------------------------===//

/// What comes behind a token changes nothing of it.
TEST(PrefillBits, LongerRowsBeginTheSameR011) {
  forForms({"gdn", "kda", "rwkv6"}, [](const Operator &op, const std::string &layout) {
    for (const auto &[few, many] : {std::pair<int64_t, int64_t>{17, 31}, {64, 65}, {1, 100}}) {
      const Problem longer = makeProblem(op, {1, many, 1, 2, 32, 32}, layout);
      const Outcome got = launch(longer);
      check(longer, got);
      expectSameTokens(launch(tokensOf(longer, 0, few)), got, few);
    }
  });
}

/// The same where the tokens behind decay as much as they may.
TEST(PrefillBits, SaturatedTokensBehindR011) {
  for (const char *name : {"kda-bound5", "kda-bound5-c64"})
    for (const char *layout : {"kv", "vk"})
      for (const auto &[few, many] : {std::pair<int64_t, int64_t>{17, 31}, {64, 65}}) {
        SCOPED_TRACE(std::string(name) + " " + layout + " " + std::to_string(few));
        Problem longer = makeProblem(prefillOf(name), {1, many, 1, 2, 32, 32}, layout);
        const int64_t size = longer.gate().values().size() / many;
        std::fill(&longer.gate().values()[few * size], &longer.gate().values()[many * size], 1e4);
        const Outcome got = launch(longer);
        check(longer, got);
        expectSameTokens(launch(tokensOf(longer, 0, few)), got, few);
      }
}

/// Other numbers behind token 70, among them large ones.
TEST(PrefillBits, LaterTokensDoNotMatterR012) {
  forForms({"gdn-plain", "kda-plain", "rwkv6"}, [](const Operator &op, const std::string &layout) {
    const Problem problem = makeProblem(op, {1, 130, 1, 2, 32, 32}, layout);
    Problem other = problem;
    const Problem drawn = makeProblem(op, problem.n, layout, 9);
    for (auto &[name, tensor] : other.tensors) {
      if (tensor.shape().size() < 3)
        continue;
      const size_t from = tensor.values().size() / 130 * 70;
      for (size_t i = from; i < tensor.values().size(); ++i)
        tensor.values()[i] = drawn.tensors.at(name).values()[i] * (name == "v" ? 1e3 : 1);
    }
    expectSameTokens(launch(problem), launch(other), 70);
  });
}

//===----------------------------------------------------------------------===//
// Repetition, batches, memory
//===----------------------------------------------------------------------===//

/// Whatever the workspace holds: NaN at first, then the factors of other numbers.
TEST(PrefillBits, AgainTheSameR074) {
  forForms({"gdn", "kda", "rwkv6"}, [](const Operator &op, const std::string &layout) {
    const Problem problem = makeProblem(op, {2, 65, 1, 2, 32, 32}, layout);
    const Outcome first = launch(problem);
    LaunchOptions options;
    options.inPlace = false; // else a launch goes on from the one before
    Prepared again(problem, options);
    for (int i = 0; i < 3; ++i) {
      again.launch();
      const Outcome got = again.collect();
      EXPECT_TRUE(sameBits(got.o, first.o) && sameBits(got.pool, first.pool));
    }
    const Problem other = makeProblem(op, problem.n, layout, 2);
    again.refill(other);
    again.launch();
    const Outcome got = again.collect(), want = launch(other);
    EXPECT_TRUE(sameBits(got.o, want.o) && sameBits(got.pool, want.pool));
  });
}

TEST(PrefillBits, AgainTheSameInLargeR074) {
  forPrefills([](const Operator &op, const std::string &layout) {
    const Problem problem = makeProblem(op, {1, 100, 1, 2, 128, 128}, layout);
    const Outcome first = launch(problem), again = launch(problem);
    EXPECT_TRUE(sameBits(again.o, first.o) && sameBits(again.pool, first.pool));
  });
}

TEST(PrefillBits, ARowAloneOrInABatchR028R075) {
  forForms({"gdn", "kda", "rwkv6"}, [](const Operator &op, const std::string &layout) {
    for (int64_t T : {33, 50}) { // rows begin at any place among all tokens
      Problem batch = makeProblem(op, {3, T, 1, 2, 32, 32}, layout);
      batch.sources = batch.destinations = {1, 2, 0};
      const Outcome all = launch(batch);
      check(batch, all);
      for (int64_t row = 0; row < 3; ++row)
        expectSameRow(batch, row, all, launch(rowOf(batch, row)), batch.destination(row));
    }
  });
}

TEST(PrefillBits, PackedOrAsABatchR075) {
  forForms({"gdn", "kda", "rwkv6"}, [](const Operator &op, const std::string &layout) {
    const Problem batch = makeProblem(op, {3, 33, 1, 2, 32, 32}, layout);
    const Outcome a = launch(batch), b = launch(joinRows(batch));
    ASSERT_EQ(b.status, DLK_OK) << b.message;
    EXPECT_EQ(a.o.values(), b.o.values());
    EXPECT_TRUE(sameBits(a.pool, b.pool));
  });
}

/// Value heads that share keys, or each with its own copy of them.
TEST(PrefillBits, GroupedHeadsEqualRepeatedKeysR024) {
  for (const char *name : {"gdn", "kda"})
    for (const char *layout : {"kv", "vk"}) {
      const Problem grouped = makeProblem(prefillOf(name), {2, 40, 2, 6, 32, 32}, layout);
      Problem repeated = grouped;
      repeated.n.HQ = 6;
      for (const char *vector : {"q", "k"}) {
        Tensor all({2, 40, 6, 32});
        for (int64_t b = 0; b < 2; ++b)
          for (int64_t t = 0; t < 40; ++t)
            for (int64_t h = 0; h < 6; ++h)
              all.setVector({b, t, h}, grouped.tensors.at(vector).vector({b, t, h / 3}));
        repeated.tensors[vector] = all;
      }
      const Outcome a = launch(grouped), b = launch(repeated);
      check(grouped, a);
      EXPECT_TRUE(sameBits(a.o, b.o) && sameBits(a.pool, b.pool)) << name << " " << layout;
    }
}

/// What padding there is between rows changes nothing.
TEST(PrefillBits, PaddingDoesNotMatterR045) {
  forForms({"gdn", "kda", "rwkv6"}, [](const Operator &op, const std::string &layout) {
    const Problem problem = makeProblem(op, {2, 50, 1, 2, 32, 32}, layout);
    LaunchOptions options;
    options.padding = 0;
    const Outcome dense = launch(problem, options);
    options.padding = 3;
    options.inPlace = false;
    const Outcome padded = launch(problem, options);
    EXPECT_TRUE(sameBits(dense.o, padded.o) && sameBits(dense.pool, padded.pool));
  });
}

/// Two ways to keep a state in memory, one in registers.
TEST(PrefillBits, LayoutsAgree) {
  forForms({"gdn", "kda", "rwkv6"}, [](const Operator &op, const std::string &) {
    Problem problem = makeProblem(op, {2, 50, 1, 2, 32, 32}, "kv");
    const Outcome kv = launch(problem);
    problem.layout = "vk";
    const Outcome vk = launch(problem);
    EXPECT_TRUE(sameBits(kv.o, vk.o) && sameBits(kv.pool, vk.pool));
  });
}

//===----------------------------------------------------------------------===//
// NaN
//===----------------------------------------------------------------------===//

/// A NaN of one token and head stays in its row and head, and comes into no chunk before its own.
TEST(PrefillBits, NanStaysInItsHeadR097) {
  forForms({"gdn", "kda", "rwkv6"}, [](const Operator &op, const std::string &layout) {
    constexpr int64_t B = 2, T = 150, HV = 4, token = 140;
    const Problem clean = makeProblem(op, {B, T, 2, HV, 32, 32}, layout);
    const Outcome want = launch(clean);
    for (const auto &[name, tensor] : clean.tensors) {
      if (tensor.shape().size() < 3)
        continue;
      SCOPED_TRACE(name);
      Problem problem = clean;
      Tensor &bad = problem.tensors.at(name);
      const int64_t heads = bad.shape()[2], inner = bad.values().size() / (B * T * heads);
      bad.values()[((T + token) * heads + heads / 2) * inner] = NAN; // of row 1
      const Outcome got = launch(problem);
      ASSERT_EQ(got.status, DLK_OK) << got.message;
      const int64_t first = 2, last = heads == 2 ? 3 : 2; // value heads that see it
      for (int64_t b = 0; b < B; ++b)
        for (int64_t h = 0; h < HV; ++h) {
          const bool isHit = b == 1 && h >= first && h <= last;
          for (int64_t i = 0; i < 32 * 32 && !isHit; ++i)
            ASSERT_EQ((got.pool[{b, h, i / 32, i % 32}]), (want.pool[{b, h, i / 32, i % 32}]));
          for (int64_t t = 0; t < (isHit ? 128 : T); ++t)
            for (int64_t v = 0; v < 32; ++v)
              ASSERT_EQ((got.o[{b, t, h, v}]), (want.o[{b, t, h, v}])) << b << " " << t << " " << h;
        }
      // RWKV-6 reads before the decay of its token.
      EXPECT_TRUE(std::isnan(got.o[{1, token + (name == "w"), 2, 0}]));
    }
  });
}
