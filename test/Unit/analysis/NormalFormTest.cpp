//===- NormalFormTest.cpp - Structure of normal forms ---------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Unit/analysis/Operators.h"

#include <gtest/gtest.h>

using namespace dl::analysis;
using namespace dl::test;
using dl::linattn::Axis;
using dl::linattn::StepClass;
using dl::linattn::StepMap;

namespace {

//===----------------------------------------------------------------------===//
// Specs of the repository
//===----------------------------------------------------------------------===//

TEST(NormalForm, GatedDeltaRule) {
  auto step = Analysed::spec("examples/gdn.mlir", "gate=precomputed,beta=value,normalize=false");
  ASSERT_TRUE(step->isAffine());
  EXPECT_EQ(step->numFeedbackReads(), 1u);

  ASSERT_EQ(step->states.size(), 1u);
  const State &state = step->states[0];
  EXPECT_EQ(state.map, (StepMap{StepClass::DiagonalPlusLowRank, 1}));
  ASSERT_EQ(state.decays.size(), 1u);
  EXPECT_EQ(state.decays[0].axis, Axis::Scalar);
  EXPECT_EQ(text(step, state.decays[0].logDecay), "g");
  EXPECT_FALSE(state.decays[0].bound);
  EXPECT_EQ(state.values.size(), 3u);

  ASSERT_EQ(step->reads.size(), 2u);
  const Read &old = step->reads[0], &result = step->reads[1];
  EXPECT_TRUE(old.isFeedback && !old.isOutput);
  EXPECT_TRUE(!result.isFeedback && result.isOutput);
  EXPECT_EQ(old.clock, 1u);
  EXPECT_EQ(result.clock, 1u);
  EXPECT_EQ(text(step, old.key), "k");
  EXPECT_EQ(text(step, result.key), "q");

  ASSERT_EQ(step->writes.size(), 1u);
  const Write &write = step->writes[0];
  EXPECT_EQ(write.clock, 1u);
  EXPECT_EQ(text(step, write.key), "k");
  EXPECT_EQ(text(step, write.value), "-1 beta read0 + beta v");
  EXPECT_FALSE(step->sees(old, write));
  EXPECT_TRUE(step->sees(result, write));
  ASSERT_EQ(step->outputs.size(), 1u);
  EXPECT_EQ(text(step, step->outputs[0].form), "scale read1");
}

TEST(NormalForm, DecayPerKeyChannel) {
  auto softplus = Analysed::spec("examples/kda.mlir");
  EXPECT_EQ(softplus->states[0].decays[0].axis, Axis::Key);
  EXPECT_EQ(softplus->states[0].totalBound(), std::nullopt);
  EXPECT_EQ(softplus->states[0].map, (StepMap{StepClass::DiagonalPlusLowRank, 1}));
  EXPECT_EQ(softplus->numFeedbackReads(), 1u);

  auto bounded = Analysed::spec("examples/kda.mlir", "gate=bounded,lower_bound=-3");
  EXPECT_EQ(bounded->states[0].totalBound(), -3.0);
  EXPECT_EQ(bounded->numFeedbackReads(), 1u);
}

TEST(NormalForm, ReadBeforeDecayAndBonus) {
  auto step = Analysed::spec("examples/rwkv6.mlir");
  EXPECT_EQ(step->numFeedbackReads(), 0u);
  EXPECT_EQ(step->states[0].map, (StepMap{StepClass::Diagonal}));
  ASSERT_EQ(step->reads.size(), 1u);
  EXPECT_EQ(step->reads[0].clock, 0u);
  EXPECT_EQ(step->reads[0].position, 0u);
  EXPECT_EQ(step->writes[0].clock, 1u);
  EXPECT_FALSE(step->sees(step->reads[0], step->writes[0]));
  EXPECT_EQ(text(step, step->outputs[0].form), "scale read0 + scale mulf"); // bonus * v
}

TEST(NormalForm, LowRankReadOfTheUndecayedState) {
  auto step = Analysed::spec("examples/rwkv7.mlir");
  EXPECT_EQ(step->numFeedbackReads(), 1u);
  EXPECT_EQ(step->states[0].map, (StepMap{StepClass::DiagonalPlusLowRank, 1}));
  EXPECT_EQ(step->reads[0].clock, 0u);
  ASSERT_EQ(step->writes.size(), 2u);
  EXPECT_EQ(text(step, step->writes[0].value), "read0");
  EXPECT_EQ(text(step, step->writes[1].value), "v");
  EXPECT_FALSE(step->writes[1].hasFeedback());
  ASSERT_TRUE(step->states[0].totalBound());
  EXPECT_NEAR(*step->states[0].totalBound(), -0.6065307, 1e-12);
}

TEST(NormalForm, TwoDeltaStepsPerToken) {
  auto step = Analysed::spec("examples/gated_deltaproduct.mlir");
  EXPECT_EQ(step->numFeedbackReads(), 2u);
  EXPECT_EQ(step->states[0].map, (StepMap{StepClass::DiagonalPlusLowRank, 2}));
  ASSERT_EQ(step->writes.size(), 2u);
  EXPECT_NE(step->writes[0].value.find(0), nullptr);
  EXPECT_EQ(step->writes[0].value.find(1), nullptr);
  EXPECT_NE(step->writes[1].value.find(1), nullptr);
  // The second correction sees the first write.
  EXPECT_FALSE(step->sees(step->reads[0], step->writes[0]));
  EXPECT_TRUE(step->sees(step->reads[1], step->writes[0]));
  EXPECT_FALSE(step->sees(step->reads[1], step->writes[1]));
}

TEST(NormalForm, AdditiveSteps) {
  auto gla = Analysed::spec("examples/gla.mlir");
  EXPECT_EQ(gla->numFeedbackReads(), 0u);
  EXPECT_EQ(gla->states[0].map, (StepMap{StepClass::Diagonal}));
  auto ssd = Analysed::spec("examples/mamba2.mlir");
  EXPECT_EQ(ssd->numFeedbackReads(), 0u);
  EXPECT_EQ(ssd->states[0].map, (StepMap{StepClass::Scalar}));
  EXPECT_EQ(text(ssd, ssd->outputs[0].form), "read0 + mulf"); // skip D v
  auto delta = Analysed::spec("examples/deltanet.mlir");
  EXPECT_EQ(delta->numFeedbackReads(), 1u);
  EXPECT_TRUE(delta->states[0].decays.empty());
}

//===----------------------------------------------------------------------===//
// Coefficients
//===----------------------------------------------------------------------===//

/// The form of an output computed from the read %r, two more values and a gate per head.
std::string formOf(llvm::StringRef maths) {
  auto step = Analysed::text("(%k: !key, %v: !value, %w: !value, %b: !per_head, %c: !per_head)"
                             " state(%S: !state) -> (o: !value)",
                             ("%r = linattn.read %S, %k : !key -> !value\n"
                              "%bs = linattn.broadcast %b : !per_head -> !value\n"
                              "%cs = linattn.broadcast %c : !per_head -> !value\n" +
                              maths + "linattn.yield %S, %o : !state, !value\n")
                                 .str());
  return step->isAffine() ? text(step, step->outputs[0].form) : "not affine";
}

TEST(Coefficients, SumsAndProducts) {
  EXPECT_EQ(formOf("%n = arith.negf %r : !value\n"
                   "%o = arith.mulf %bs, %n : !value\n"),
            "-1 b read0");
  EXPECT_EQ(formOf("%o = math.fma %r, %w, %v : !value\n"), "w read0 + v");
  EXPECT_EQ(formOf("%o = math.fma %v, %w, %r : !value\n"), "read0 + v w");
  EXPECT_EQ(formOf("%x = arith.subf %v, %r : !value\n"
                   "%o = arith.divf %x, %bs : !value\n"),
            "-1 1/b read0 + 1/b v");
}

TEST(Coefficients, ConstantsAreFolded) {
  EXPECT_EQ(formOf("%two = arith.constant 2.0 : f32\n"
                   "%twos = linattn.broadcast %two : f32 -> !value\n"
                   "%x = arith.mulf %r, %twos : !value\n"
                   "%o = arith.addf %x, %r : !value\n"),
            "3 read0");
}

TEST(Coefficients, EqualProductsAreMerged) {
  EXPECT_EQ(formOf("%x = arith.mulf %r, %bs : !value\n"
                   "%y = arith.mulf %x, %cs : !value\n"
                   "%z = arith.mulf %r, %cs : !value\n"
                   "%t = arith.mulf %z, %bs : !value\n"
                   "%s = arith.addf %y, %t : !value\n"
                   "%o = arith.addf %s, %z : !value\n"),
            "2 c b read0 + c read0");
}

TEST(Coefficients, CancelledReadsVanish) {
  auto step = Analysed::text("(%k: !key, %v: !value) state(%S: !state) -> (o: !value)",
                             "%r = linattn.read %S, %k : !key -> !value\n"
                             "%x = arith.addf %v, %r : !value\n"
                             "%y = arith.subf %x, %r : !value\n"
                             "%S1 = linattn.write %S, %k, %y : !key, !value\n"
                             "linattn.yield %S1, %r : !state, !value\n");
  EXPECT_EQ(text(step, step->writes[0].value), "v");
  EXPECT_EQ(step->numFeedbackReads(), 0u);
  EXPECT_EQ(step->states[0].map, StepMap());
}

TEST(Coefficients, ProductsOfBroadcastNumbersArePerHead) {
  auto step = Analysed::text("(%k: !key, %v: !value, %b: !per_head, %c: !per_head)"
                             " state(%S: !state) -> (o: !value)",
                             "%r = linattn.read %S, %k : !key -> !value\n"
                             "%bs = linattn.broadcast %b : !per_head -> !value\n"
                             "%cs = linattn.broadcast %c : !per_head -> !value\n"
                             "%x = arith.divf %bs, %cs : !value\n"
                             "%y = arith.negf %x : !value\n"
                             "%z = arith.mulf %y, %r : !value\n"
                             "%S1 = linattn.write %S, %k, %z : !key, !value\n"
                             "linattn.yield %S1, %r : !state, !value\n");
  EXPECT_EQ(text(step, step->writes[0].value), "-1 b 1/c read0");
  EXPECT_FALSE(isPerValue(step->writes[0].value.reads[0].coefficient));
  EXPECT_TRUE(step->isLegal(Schedule::Chunkwise));
}

// Sums of products can grow exponentially; the analysis must not.
TEST(Coefficients, GrowthIsLimited) {
  std::string products = "%y0 = arith.mulf %bs, %cs : !value\n";
  for (int i = 0; i < 40; ++i) {
    std::string from = std::to_string(i), to = std::to_string(i + 1);
    products += "%y" + to + " = arith.mulf %y" + from + ", %y" + from + " : !value\n";
  }
  EXPECT_EQ(formOf(products + "%o = arith.mulf %y40, %r : !value\n"), "mulf read0");

  std::string doubling = "%x0 = arith.addf %r, %v : !value\n";
  for (int i = 0; i < 40; ++i) {
    std::string from = std::to_string(i), to = std::to_string(i + 1);
    doubling += "%g" + to + " = math.powf %bs, " + (i ? "%g" + from : "%cs") + " : !value\n" +
                "%p" + to + " = arith.mulf %x" + from + ", %g" + to + " : !value\n" + //
                "%x" + to + " = arith.addf %x" + from + ", %p" + to + " : !value\n";
  }
  EXPECT_EQ(formOf(doubling + "%o = arith.addf %x40, %v : !value\n"), "not affine");
}

//===----------------------------------------------------------------------===//
// Paths and branches
//===----------------------------------------------------------------------===//

TEST(Paths, ClocksBetweenDecays) {
  auto step = Analysed::text("(%q: !key, %k: !key, %v: !value, %g: !per_head, %h: !channel)"
                             " state(%S: !state) -> (o: !value, p: !value)",
                             "%S1 = linattn.decay %S, %g bound -2.0 : !per_head\n"
                             "%S2 = linattn.write %S1, %k, %v : !key, !value\n"
                             "%o = linattn.read %S2, %q : !key -> !value\n"
                             "%S3 = linattn.decay %S2, %h bound -0.5 : !channel\n"
                             "%p = linattn.read %S3, %q : !key -> !value\n"
                             "linattn.yield %S3, %o, %p : !state, !value, !value\n");
  const State &state = step->states[0];
  EXPECT_EQ(state.map, (StepMap{StepClass::Diagonal}));
  EXPECT_EQ(state.totalBound(), -2.5);
  EXPECT_TRUE(state.decaysAlong(Axis::Scalar) && state.decaysAlong(Axis::Key));
  EXPECT_FALSE(state.decaysAlong(Axis::Value));
  EXPECT_EQ(step->writes[0].clock, 1u);
  EXPECT_EQ(step->reads[0].clock, 1u);
  EXPECT_EQ(step->reads[1].clock, 2u);
  EXPECT_EQ(step->reads[0].position, 2u);
}

TEST(Paths, BranchesAreFoldedIntoReads) {
  auto step = Analysed::text(
      "(%q: !key, %k: !key, %v: !value, %u: !key, %g: !per_head, %h: !channel, %m: !value)"
      " state(%S: !state) -> (o: !value)",
      "%B1 = linattn.write %S, %u, %v : !key, !value\n"
      "%B2 = linattn.decay %B1, %h : !channel\n"
      "%B3 = linattn.decay %B2, %g : !per_head\n"
      "%B4 = linattn.decay %B3, %m : !value\n"
      "%o = linattn.read %B4, %q : !key -> !value\n"
      "%S1 = linattn.write %S, %k, %v : !key, !value\n"
      "linattn.yield %S1, %o : !state, !value\n");
  EXPECT_EQ(step->writes.size(), 1u);
  EXPECT_TRUE(step->states[0].decays.empty());
  ASSERT_EQ(step->reads.size(), 1u);
  EXPECT_EQ(step->reads[0].position, 0u);
  ASSERT_EQ(step->reads[0].keyDecays.size(), 1u);
  EXPECT_EQ(text(step, step->outputs[0].form), "e^g e^m read0 + (q . e^g e^h u) e^m v");
}

TEST(Paths, FeedbackAcrossStates) {
  auto step = Analysed::text("(%q: !key, %k: !key, %v: !value, %g: !per_head)"
                             " state(%A: !state, %B: !state) -> (o: !value)",
                             "%r = linattn.read %A, %k : !key -> !value\n"
                             "%A1 = linattn.decay %A, %g : !per_head\n"
                             "%A2 = linattn.write %A1, %k, %v : !key, !value\n"
                             "%B1 = linattn.write %B, %q, %r : !key, !value\n"
                             "%o = linattn.read %B1, %q : !key -> !value\n"
                             "linattn.yield %A2, %B1, %o : !state, !state, !value\n");
  EXPECT_EQ(step->numFeedbackReads(), 1u);
  EXPECT_EQ(step->states[0].map, (StepMap{StepClass::Scalar}));
  EXPECT_EQ(step->states[1].map, (StepMap{StepClass::DiagonalPlusLowRank, 1}));
  EXPECT_TRUE(step->states[0].sources.empty());
  EXPECT_EQ(step->states[1].sources, (llvm::SmallVector<unsigned>{0}));
  EXPECT_EQ(step->reads[0].state, 0u);
  EXPECT_EQ(step->writes[1].state, 1u);
  EXPECT_FALSE(step->sees(step->reads[1], step->writes[0]));
  EXPECT_TRUE(step->sees(step->reads[1], step->writes[1]));
}

TEST(Paths, ReadBothWays) {
  auto step = Analysed::text("(%k: !key, %v: !value) state(%S: !state) -> (o: !value)",
                             "%r = linattn.read %S, %k : !key -> !value\n"
                             "%e = arith.subf %v, %r : !value\n"
                             "%S1 = linattn.write %S, %k, %e : !key, !value\n"
                             "linattn.yield %S1, %e : !state, !value\n");
  EXPECT_TRUE(step->reads[0].isFeedback && step->reads[0].isOutput);
  EXPECT_EQ(text(step, step->outputs[0].form), "-1 read0 + v");
}

TEST(Paths, StateWithoutEvents) {
  auto step = Analysed::text("(%v: !value) state(%S: !state) -> (o: !value)",
                             "linattn.yield %S, %v : !state, !value\n");
  EXPECT_TRUE(step->states[0].map.isIdentity());
  EXPECT_TRUE(step->reads.empty() && step->writes.empty());
  EXPECT_EQ(step->states[0].totalBound(), 0.0);
  EXPECT_EQ(text(step, step->outputs[0].form), "v");
}

} // namespace
