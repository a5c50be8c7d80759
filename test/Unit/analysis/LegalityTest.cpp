//===- LegalityTest.cpp - Which schedules an operator allows --------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Unit/analysis/Operators.h"

#include "mlir/IR/Diagnostics.h"

#include <gtest/gtest.h>

using namespace dl::analysis;
using namespace dl::test;

namespace {

/// The conditions an operator breaks, each with the operation: "A3 arith.mulf".
std::string broken(const Analysed &step) {
  std::string result;
  for (const Refusal &refusal : step->refusals) {
    EXPECT_FALSE(refusal.text.empty() || refusal.change.empty());
    result += (result.empty() ? "" : ", ") + refusal.condition.str() + " " +
              refusal.op->getName().getStringRef().str();
  }
  EXPECT_TRUE(step->isLegal(Schedule::Recurrent));
  EXPECT_EQ(step->isLegal(Schedule::Chunkwise), result.empty());
  EXPECT_EQ(step->isLegal(Schedule::Log), result.empty());
  return result;
}

/// A step that reads the state for %k as %r, computes %u, and writes it; %o is the read for %q.
Analysed deltaStep(llvm::StringRef correction) {
  return Analysed::text("(%q: !key, %k: !key, %v: !value, %w: !value, %b: !per_head, %g: !value)"
                        " state(%S: !state) -> (o: !value)",
                        ("%r = linattn.read %S, %k : !key -> !value\n" + correction +
                         "%S1 = linattn.write %S, %k, %u : !key, !value\n"
                         "%o = linattn.read %S1, %q : !key -> !value\n"
                         "linattn.yield %S1, %o : !state, !value\n")
                            .str());
}

/// A step whose output %y is computed from the read %o.
Analysed additiveStep(llvm::StringRef epilogue) {
  return Analysed::text("(%q: !key, %k: !key, %v: !value, %w: !value) state(%S: !state)"
                        " -> (y: !value)",
                        ("%S1 = linattn.write %S, %k, %v : !key, !value\n"
                         "%o = linattn.read %S1, %q : !key -> !value\n" +
                         epilogue + "linattn.yield %S1, %y : !state, !value\n")
                            .str());
}

TEST(Legality, Specs) {
  for (const char *name : {"comba", "deltanet", "gated_deltaproduct", "gdn", "gdn2", "gla", "hgrn2",
                           "kda", "mamba2", "retnet", "rwkv6", "rwkv7", "two_key_delta"})
    EXPECT_EQ(broken(Analysed::spec("examples/" + std::string(name) + ".mlir")), "") << name;
  EXPECT_EQ(broken(Analysed::spec("test/specs/elementwise.mlir")), "A1 linattn.decay");
}

TEST(Legality, DecayAlongValue) {
  auto decayed = [](llvm::StringRef correction) {
    return Analysed::text("(%q: !key, %k: !key, %v: !value, %g: !value) state(%S: !state)"
                          " -> (o: !value)",
                          ("%S1 = linattn.decay %S, %g : !value\n" + correction +
                           "%S2 = linattn.write %S1, %k, %u : !key, !value\n"
                           "%o = linattn.read %S2, %q : !key -> !value\n"
                           "linattn.yield %S2, %o : !state, !value\n")
                              .str());
  };
  EXPECT_EQ(broken(decayed("%u = arith.negf %v : !value\n")), "");
  EXPECT_EQ(broken(decayed("%r = linattn.read %S1, %k : !key -> !value\n"
                           "%u = arith.subf %v, %r : !value\n")),
            "A2 linattn.decay");
}

TEST(Legality, DecayAlongValueOfAStateThatFeedsAnother) {
  auto step = Analysed::text("(%q: !key, %k: !key, %v: !value, %g: !value)"
                             " state(%A: !state, %B: !state) -> (o: !value)",
                             "%A1 = linattn.decay %A, %g : !value\n"
                             "%r = linattn.read %A1, %k : !key -> !value\n"
                             "%B1 = linattn.write %B, %q, %r : !key, !value\n"
                             "%o = linattn.read %B1, %q : !key -> !value\n"
                             "linattn.yield %A1, %B1, %o : !state, !state, !value\n");
  EXPECT_EQ(broken(step), "A2 linattn.decay");
}

TEST(Legality, GatePerValueChannel) {
  EXPECT_EQ(broken(deltaStep("%e = arith.subf %v, %r : !value\n"
                             "%u = arith.mulf %w, %e : !value\n")),
            "A3 arith.mulf");
  EXPECT_EQ(broken(deltaStep("%d = arith.divf %r, %w : !value\n"
                             "%u = arith.subf %v, %d : !value\n")),
            "A3 arith.divf");
  // On the token-local part, or per head, it is none.
  EXPECT_EQ(broken(deltaStep("%wv = arith.mulf %w, %v : !value\n"
                             "%u = arith.subf %wv, %r : !value\n")),
            "");
  EXPECT_EQ(broken(deltaStep("%bs = linattn.broadcast %b : !per_head -> !value\n"
                             "%u = arith.mulf %bs, %r : !value\n")),
            "");
  EXPECT_EQ(broken(additiveStep("%y = arith.mulf %w, %o : !value\n")), "");
}

TEST(Legality, NonlinearFeedback) {
  EXPECT_EQ(broken(deltaStep("%u = math.tanh %r : !value\n")), "A4 math.tanh");
  EXPECT_EQ(broken(deltaStep("%u = arith.mulf %r, %r : !value\n")), "A4 arith.mulf");
  EXPECT_EQ(broken(deltaStep("%u = arith.divf %v, %r : !value\n")), "A4 arith.divf");
  EXPECT_EQ(broken(deltaStep("%u = math.fma %r, %r, %v : !value\n")), "A4 math.fma");
  EXPECT_EQ(broken(deltaStep("%c = arith.cmpf ogt, %v, %w : !value\n"
                             "%u = arith.select %c, %r, %v"
                             " : tensor<?xi1, #linattn.of<value, value_head>>, !value\n")),
            "A4 arith.select");
  EXPECT_EQ(broken(deltaStep("%s = linattn.reduce %r : !value -> !per_head\n"
                             "%u = linattn.broadcast %s : !per_head -> !value\n")),
            "A4 linattn.reduce");
  // The first offender is named, not what uses its result.
  EXPECT_EQ(broken(deltaStep("%t = math.tanh %r : !value\n"
                             "%x = math.exp %t : !value\n"
                             "%u = arith.mulf %x, %x : !value\n")),
            "A4 math.tanh");
}

TEST(Legality, NonlinearOutput) {
  auto step = additiveStep("%y = math.tanh %o : !value\n");
  EXPECT_EQ(broken(step), "A4 math.tanh");
  EXPECT_EQ(step->numFeedbackReads(), 0u);
  EXPECT_TRUE(step->reads[0].isOutput);
  EXPECT_TRUE(step->writes[0].isAffine);
  EXPECT_FALSE(step->outputs[0].isAffine);
}

TEST(Legality, DecayOrKeyFromARead) {
  auto step = Analysed::text("(%q: !key, %k: !key, %v: !value) state(%S: !state) -> (o: !value)",
                             "%r = linattn.read %S, %k : !key -> !value\n"
                             "%S1 = linattn.decay %S, %r : !value\n"
                             "%s = linattn.reduce %r : !value -> !per_head\n"
                             "%x = linattn.broadcast %s : !per_head -> !channel\n"
                             "%S2 = linattn.write %S1, %x, %v : !channel, !value\n"
                             "%o = linattn.read %S2, %x : !channel -> !value\n"
                             "linattn.yield %S2, %o : !state, !value\n");
  EXPECT_EQ(broken(step), "A2 linattn.decay, A4 linattn.decay, A4 linattn.write, A4 linattn.read");
  EXPECT_FALSE(step->states[0].decays[0].isTokenLocal);
  EXPECT_EQ(step->states[0].map.kind, dl::linattn::StepClass::Other);
  EXPECT_EQ(step->numFeedbackReads(), 1u);
}

TEST(Legality, DeadCodeDoesNotCount) {
  // Not removed beforehand, as the canonicalizer would: analysed as it stands.
  auto step = Analysed::text("(%q: !key, %v: !value) state(%S: !state) -> (o: !value)",
                             "%o = linattn.read %S, %q : !key -> !value\n"
                             "linattn.yield %S, %o : !state, !value\n");
  mlir::OpBuilder builder(step.op().getYield());
  mlir::Value read = dl::linattn::ReadOp(step->reads[0].op).getResult();
  dl::linattn::DecayOp::create(builder, read.getLoc(), step.op().getStates()[0], read,
                               mlir::Attribute());
  auto again = StepAnalysis::compute(step.op());
  ASSERT_TRUE(succeeded(again));
  EXPECT_TRUE(again->refusals.empty());
  EXPECT_EQ(again->numFeedbackReads(), 0u);
}

TEST(Legality, RequireSaysWhy) {
  auto step = deltaStep("%u = arith.mulf %w, %r : !value\n");
  std::string text;
  mlir::ScopedDiagnosticHandler handler(step.op().getContext(), [&](mlir::Diagnostic &diag) {
    text += diag.str() + "\n";
    for (mlir::Diagnostic &note : diag.getNotes())
      text += "note: " + note.str() + "\n";
    return mlir::success();
  });
  EXPECT_TRUE(succeeded(step->require(Schedule::Recurrent)));
  EXPECT_EQ(text, "");
  EXPECT_TRUE(failed(step->require(Schedule::Chunkwise)));
  EXPECT_NE(text.find("rules out the chunkwise schedule of operator 'op' (A3): expected"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("note: compute the factor per head"), std::string::npos) << text;
  EXPECT_NE(text.find("--kernels=decode"), std::string::npos) << text;
  EXPECT_NE(text.find("note: the read is here"), std::string::npos) << text;
  // Schedules with the same conditions share their errors; the one without is not spoken of.
  std::string alone = std::move(text);
  text.clear();
  EXPECT_TRUE(failed(step->require({Schedule::Recurrent, Schedule::Chunkwise, Schedule::Log})));
  EXPECT_NE(text.find("the chunkwise and log schedules of operator 'op' (A3)"), std::string::npos)
      << text;
  EXPECT_EQ(llvm::StringRef(text).count("\n"), llvm::StringRef(alone).count("\n"));
}

} // namespace
