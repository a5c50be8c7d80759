//===- RangesTest.cpp - How large numbers of a step can be ----------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Analysis/Ranges.h"
#include "test/Unit/analysis/Operators.h"

#include <gtest/gtest.h>

using namespace dl::analysis;
using namespace dl::test;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Of %y, a number per head that is made of %x, and of %b, which is at most 3 in size.
Interval rangeOf(llvm::StringRef body) {
  std::string step = (body + "\n" +
                      "%ys = linattn.broadcast %y : !per_head -> !value\n"
                      "%w = arith.mulf %ys, %v : !value\n"
                      "%S1 = linattn.write %S, %k, %w : !key, !value\n"
                      "%o = linattn.read %S1, %k : !key -> !value\n"
                      "linattn.yield %S1, %o : !state, !value\n")
                         .str();
  Analysed analysed = Analysed::text("(%k: !key, %v: !value, %x: !per_head, "
                                     "%b: !per_head {linattn.bound = 3.0}) state(%S: !state) "
                                     "-> (o: !value)",
                                     step);
  Ranges ranges(analysed.op());
  Interval result{1, 0};
  for (auto broadcast : analysed.op().getBody()->getOps<dl::linattn::BroadcastOp>())
    if (dl::linattn::isOn(broadcast.getType(), dl::linattn::Axis::Value))
      result = ranges.of(broadcast.getOperand());
  return result;
}

TEST(Ranges, OfElementaryFunctions) {
  EXPECT_EQ(rangeOf("%y = math.exp %x : !per_head"), (Interval{0, kInfinity}));
  EXPECT_EQ(rangeOf("%y = math.tanh %x : !per_head"), (Interval{-1, 1}));
  EXPECT_EQ(rangeOf("%y = math.absf %b : !per_head"), (Interval{0, 3}));
  EXPECT_EQ(rangeOf("%y = arith.mulf %b, %b : !per_head"), (Interval{0, 9}));
  EXPECT_EQ(rangeOf("%y = arith.mulf %x, %x : !per_head"), (Interval{0, kInfinity}));
  EXPECT_EQ(rangeOf("%e = math.exp %x : !per_head\n %y = math.log1p %e : !per_head"),
            (Interval{0, kInfinity}));
  EXPECT_EQ(rangeOf("%y = linattn.sigmoid %x : !per_head"), (Interval{0, 1}));
}

TEST(Ranges, OfArguments) {
  EXPECT_EQ(rangeOf("%y = arith.addf %x, %x : !per_head"), Interval());
  EXPECT_EQ(rangeOf("%y = arith.addf %b, %b : !per_head"), (Interval{-6, 6}));
  EXPECT_EQ(rangeOf("%y = arith.maximumf %b, %x : !per_head"), (Interval{-3, kInfinity}));
  EXPECT_EQ(rangeOf("%y = arith.minnumf %b, %x : !per_head"), (Interval{-kInfinity, 3}));
  EXPECT_EQ(rangeOf("%y = math.cos %b : !per_head"), Interval()) << "not known";
}

TEST(Ranges, OfQuotients) {
  EXPECT_EQ(rangeOf("%s = linattn.sigmoid %x : !per_head\n %y = arith.divf %b, %s : !per_head"),
            Interval())
      << "s may be zero";
  EXPECT_EQ(rangeOf("%s = linattn.sigmoid %x : !per_head\n %t = arith.addf %s, %s : !per_head\n"
                    "%e = math.exp %t : !per_head\n %y = arith.divf %b, %e : !per_head"),
            (Interval{-3, 3}));
}

/// With keys normalised in the operator and their norms where linattn-hoist-scalars leaves them.
std::optional<double> boundOf(llvm::StringRef path, llvm::StringRef settings = "") {
  std::optional<double> plain = boundOfFeedback(*Analysed::spec(path, settings)),
                        hoisted = boundOfFeedback(*Analysed::spec(path, settings, true));
  EXPECT_EQ(plain, hoisted);
  return hoisted;
}

TEST(Ranges, FeedbackOfSpecs) {
  for (const char *path : {"examples/gdn.mlir", "examples/kda.mlir"}) {
    EXPECT_EQ(boundOf(path), 1.0);
    EXPECT_EQ(boundOf(path, "beta_factor=1.5"), 1.5);
    EXPECT_EQ(boundOf(path, "beta_factor=2"), 2.0);
    EXPECT_EQ(boundOf(path, "beta_factor=2,normalize=false"), 2.0);
    EXPECT_EQ(boundOf(path, "beta=value"), std::nullopt);
  }
  EXPECT_EQ(boundOf("examples/rwkv6.mlir"), 0.0);
}

TEST(Ranges, FeedbackOfABoundInput) {
  auto bound = [](llvm::StringRef attributes) {
    return boundOfFeedback(*Analysed::text(("(%k: !key, %v: !value, %beta: !per_head" + attributes +
                                            ") state(%S: !state) -> (o: !value)")
                                               .str(),
                                           "%p = linattn.read %S, %k : !key -> !value\n"
                                           "%e = arith.subf %v, %p : !value\n"
                                           "%b = linattn.broadcast %beta : !per_head -> !value\n"
                                           "%u = arith.mulf %b, %e : !value\n"
                                           "%S1 = linattn.write %S, %k, %u : !key, !value\n"
                                           "linattn.yield %S1, %p : !state, !value\n"));
  };
  EXPECT_EQ(bound(""), std::nullopt);
  EXPECT_EQ(bound(" {linattn.bound = 2.0}"), 2.0);
  EXPECT_EQ(bound(" {linattn.bound = 0.5}"), 0.5);
}

} // namespace
