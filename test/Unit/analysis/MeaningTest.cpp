//===- MeaningTest.cpp - The normal form computes what the operator does --===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Unit/analysis/Interpreter.h"

#include <gtest/gtest.h>

using namespace dl::analysis;
using namespace dl::test;

namespace {

constexpr int kTokens = 5;

void expectNear(const Matrix &got, const Matrix &want, const char *what) {
  for (int i = 0; i < kKeys; ++i)
    for (int j = 0; j < kValues; ++j)
      EXPECT_NEAR(got[i][j], want[i][j], 1e-10 * (1 + std::abs(want[i][j])))
          << what << " [" << i << ", " << j << "]";
}

void expectSameMeaning(const Analysed &step) {
  ASSERT_TRUE(step->isAffine());
  std::vector<Token> values;
  Run want = runOperator(step.op(), kTokens, &values), got = runNormalForm(*step, values);
  for (int t = 0; t < kTokens; ++t)
    for (auto [a, b] : llvm::zip_equal(got.outputs[t], want.outputs[t]))
      expectNear(a, b, "output");
  for (auto [a, b] : llvm::zip_equal(got.states, want.states))
    expectNear(a, b, "state");
  std::optional<LogEntry> entry = LogEntry::compute(*step);
  EXPECT_EQ(entry.has_value(), step->isLegal(Schedule::Log));
  if (!entry)
    return;
  for (auto [a, b] : llvm::zip_equal(runLog(*step, *entry, values), want.states))
    expectNear(a, b, "state from the log");
}

class SpecMeaning : public testing::TestWithParam<std::pair<const char *, const char *>> {};

TEST_P(SpecMeaning, NormalFormAgrees) {
  auto [path, settings] = GetParam();
  expectSameMeaning(Analysed::spec(path, settings));
}

INSTANTIATE_TEST_SUITE_P(
    All, SpecMeaning,
    testing::Values(std::pair("examples/gdn.mlir", ""),
                    std::pair("examples/gdn.mlir", "gate=precomputed,beta=value,normalize=false"),
                    std::pair("examples/kda.mlir", ""),
                    std::pair("examples/kda.mlir", "gate=bounded,beta_factor=2"),
                    std::pair("examples/rwkv6.mlir", ""),
                    std::pair("examples/rwkv6.mlir", "decay=raw"),
                    std::pair("examples/deltanet.mlir", ""), std::pair("examples/gla.mlir", ""),
                    std::pair("examples/mamba2.mlir", ""), std::pair("examples/rwkv7.mlir", ""),
                    std::pair("examples/gated_deltaproduct.mlir", ""),
                    std::pair("examples/retnet.mlir", ""), std::pair("examples/hgrn2.mlir", ""),
                    std::pair("examples/hgrn2.mlir", "gate=precomputed"),
                    std::pair("examples/gdn2.mlir", ""), std::pair("examples/comba.mlir", ""),
                    std::pair("examples/two_key_delta.mlir", ""),
                    // No schedule uses it, but the form is right.
                    std::pair("test/specs/elementwise.mlir", "")));

TEST(Meaning, DecaysAndWritesInterleaved) {
  expectSameMeaning(Analysed::text(
      "(%q: !key, %k: !key, %v: !value, %w: !value, %g: !per_head, %h: !channel, %m: !value)"
      " state(%S: !state) -> (o: !value, p: !value)",
      "%r0 = linattn.read %S, %k : !key -> !value\n"
      "%S1 = linattn.decay %S, %g : !per_head\n"
      "%u = arith.subf %v, %r0 : !value\n"
      "%S2 = linattn.write %S1, %k, %u : !key, !value\n"
      "%r1 = linattn.read %S2, %h : !channel -> !value\n"
      "%S3 = linattn.decay %S2, %h : !channel\n"
      "%S4 = linattn.write %S3, %h, %r1 : !channel, !value\n"
      "%S5 = linattn.decay %S4, %g : !per_head\n"
      "%o = linattn.read %S5, %q : !key -> !value\n"
      "%x = linattn.read %S2, %q : !key -> !value\n"
      "%xw = arith.mulf %x, %w : !value\n"
      "%p = arith.addf %xw, %r0 : !value\n"
      "linattn.yield %S5, %o, %p : !state, !value, !value\n"));
}

TEST(Meaning, WritesBeforeTheirDecaysAndBetween) {
  expectSameMeaning(Analysed::text(
      "(%q: !key, %k: !key, %v: !value, %w: !value, %g: !per_head, %h: !channel, %m: !value)"
      " params(%p: !value, %c: !per_head) state(%S: !state) -> (o: !value)",
      "%cs = linattn.broadcast %c : !per_head -> !channel\n"
      "%kc = linattn.broadcast %k : !key -> !channel\n"
      "%x = arith.mulf %cs, %kc : !channel\n"
      "%S1 = linattn.write %S, %x, %v : !channel, !value\n"
      "%S2 = linattn.decay %S1, %g : !per_head\n"
      "%S3 = linattn.write %S2, %k, %p : !key, !value\n"
      "%S4 = linattn.decay %S3, %h : !channel\n"
      "%S5 = linattn.write %S4, %k, %w : !key, !value\n"
      "%S6 = linattn.decay %S5, %m : !value\n"
      "%S7 = linattn.decay %S6, %c : !per_head\n"
      "%o = linattn.read %S7, %q : !key -> !value\n"
      "linattn.yield %S7, %o : !state, !value\n"));
}

TEST(Meaning, NumbersThatScaleWrites) {
  expectSameMeaning(
      Analysed::text("(%q: !key, %k: !key, %v: !value, %b: !per_head) params(%p: !per_head)"
                     " state(%S: !state) -> (o: !value)",
                     "%two = arith.constant 2.0 : f32\n"
                     "%twos = linattn.broadcast %two : f32 -> !key\n"
                     "%n = linattn.l2norm %k : !key\n"
                     "%m = arith.negf %n : !key\n"
                     "%x = arith.divf %m, %twos : !key\n"
                     "%e = math.exp %b : !per_head\n"
                     "%es = linattn.broadcast %e : !per_head -> !value\n"
                     "%y = arith.divf %v, %es : !value\n"
                     "%S1 = linattn.write %S, %x, %y : !key, !value\n"
                     "%r = linattn.read %S1, %q : !key -> !value\n"
                     "%ps = linattn.broadcast %p : !per_head -> !value\n"
                     "%u = arith.mulf %ps, %r : !value\n"
                     "%S2 = linattn.write %S1, %x, %u : !key, !value\n"
                     "%o = linattn.read %S2, %q : !key -> !value\n"
                     "linattn.yield %S2, %o : !state, !value\n"));
}

TEST(Meaning, ValueDecay) {
  expectSameMeaning(Analysed::text(
      "(%q: !key, %k: !key, %v: !value, %g: !value) state(%S: !state) -> (o: !value)",
      "%S1 = linattn.decay %S, %g : !value\n"
      "%S2 = linattn.write %S1, %k, %v : !key, !value\n"
      "%o = linattn.read %S2, %q : !key -> !value\n"
      "linattn.yield %S2, %o : !state, !value\n"));
}

TEST(Meaning, BranchOfThePath) {
  expectSameMeaning(Analysed::text(
      "(%q: !key, %k: !key, %v: !value, %u: !key, %g: !per_head, %h: !channel, %m: !value)"
      " state(%S: !state) -> (o: !value)",
      "%S1 = linattn.decay %S, %g : !per_head\n"
      "%r = linattn.read %S1, %k : !key -> !value\n"
      "%x = arith.subf %v, %r : !value\n"
      "%B1 = linattn.decay %S1, %h : !channel\n"
      "%B2 = linattn.write %B1, %u, %x : !key, !value\n"
      "%B3 = linattn.decay %B2, %g : !per_head\n"
      "%B4 = linattn.write %B3, %k, %m : !key, !value\n"
      "%B5 = linattn.decay %B4, %m : !value\n"
      "%B6 = linattn.decay %B5, %h : !channel\n"
      "%p = linattn.read %B6, %q : !key -> !value\n"
      "%y = arith.addf %p, %x : !value\n"
      "%S2 = linattn.write %S1, %k, %y : !key, !value\n"
      "%o = linattn.read %S2, %q : !key -> !value\n"
      "linattn.yield %S2, %o : !state, !value\n"));
}

TEST(Meaning, StatesThatFeedEachOther) {
  expectSameMeaning(
      Analysed::text("(%q: !key, %k: !key, %v: !value, %b: !per_head, %g: !per_head, %h: !channel)"
                     " state(%A: !state, %B: !state) -> (o: !value, p: !value)",
                     "%A1 = linattn.decay %A, %g : !per_head\n"
                     "%r = linattn.read %A1, %k : !key -> !value\n"
                     "%e = arith.subf %v, %r : !value\n"
                     "%B1 = linattn.write %B, %q, %e : !key, !value\n"
                     "%s = linattn.read %B1, %h : !channel -> !value\n"
                     "%bs = linattn.broadcast %b : !per_head -> !value\n"
                     "%t = math.fma %bs, %s, %e : !value\n"
                     "%A2 = linattn.write %A1, %k, %t : !key, !value\n"
                     "%B2 = linattn.decay %B1, %h : !channel\n"
                     "%o = linattn.read %A2, %q : !key -> !value\n"
                     "%p = linattn.read %B2, %q : !key -> !value\n"
                     "linattn.yield %A2, %B2, %o, %p : !state, !state, !value, !value\n"));
}

} // namespace
