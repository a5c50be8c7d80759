//===- LogEntryTest.cpp - What is logged of a token -----------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Analysis/LogEntry.h"
#include "test/Unit/analysis/Operators.h"

#include <gtest/gtest.h>

using namespace dl::analysis;
using namespace dl::test;
using dl::linattn::HeadGroup;

namespace {

std::string formText(const Analysed &step, const LogForm &form) {
  std::string text = form.group == HeadGroup::KeyHead ? "shared " : "";
  switch (form.kind) {
  case LogForm::Kind::Input:
    return text + "input " + dl::test::text(step, form.input);
  case LogForm::Kind::Recompute:
    return text + "from " + dl::test::text(step, form.input);
  case LogForm::Kind::Computed:
    return text + "computed";
  case LogForm::Kind::Snapshot:
    return text + "sum";
  }
  llvm_unreachable("a form has one of four kinds");
}

/// Fields as "key: shared input k; decay key: sum or shared from a".
std::string fields(const Analysed &step) {
  std::optional<LogEntry> entry = LogEntry::compute(*step);
  if (!entry)
    return "not legal";
  constexpr const char *names[] = {"key", "value", "factor", "decay"};
  std::string result;
  for (const LogField &field : entry->fields) {
    result += (result.empty() ? "" : "; ") + std::string(names[int(field.what)]);
    if (field.what == LogField::What::Decay)
      result += (" " + dl::linattn::stringifyAxis(field.axis)).str();
    result += field.hasFeedback ? " with feedback:" : ":";
    for (const LogForm &form : field.forms)
      result += (&form == field.forms.begin() ? " " : " or ") + formText(step, form);
  }
  return result;
}

/// What is logged of a decay by %l, computed from %a, %b (channels), %c (a number), a param %p and
/// a key vector %k.
std::string decayFields(llvm::StringRef gate) {
  std::string all = fields(
      Analysed::text("(%q: !key, %k: !key, %v: !value, %a: !channel, %b: !channel, %c: !per_head)"
                     " params(%p: !per_head, %pc: !channel) state(%S: !state) -> (o: !value)",
                     (gate + "%S1 = linattn.decay %S, %l : !channel\n"
                             "%S2 = linattn.write %S1, %k, %v : !key, !value\n"
                             "%o = linattn.read %S2, %q : !key -> !value\n"
                             "linattn.yield %S2, %o : !state, !value\n")
                         .str()));
  llvm::StringRef rest = all;
  EXPECT_TRUE(rest.consume_front("key: shared input k; value: input v")) << all;
  rest.consume_front("; ");
  return rest.str();
}

/// What is logged of a write of %x and %y, computed from vectors of keys and values, numbers and
/// params.
std::string writeFields(llvm::StringRef vectors, llvm::StringRef type = "!key") {
  return fields(Analysed::text(
      "(%q: !key, %k: !key, %h: !key, %v: !value, %w: !value, %b: !per_head)"
      " params(%p: !per_head, %pk: !key, %pv: !value) state(%S: !state) -> (o: !value)",
      (vectors + "%S1 = linattn.write %S, %x, %y : " + type +
       ", !value\n"
       "%o = linattn.read %S1, %q : !key -> !value\n"
       "linattn.yield %S1, %o : !state, !value\n")
          .str()));
}

//===----------------------------------------------------------------------===//
// Specs
//===----------------------------------------------------------------------===//

TEST(LogEntry, DeltaRules) {
  // A normalised key is the input times a number, which goes into the correction.
  const char *scalar = "key: shared input k; value with feedback: computed; decay scalar: sum";
  EXPECT_EQ(fields(Analysed::spec("examples/gdn.mlir")), scalar);
  EXPECT_EQ(fields(Analysed::spec("examples/gdn.mlir", "normalize=false")), scalar);
  EXPECT_EQ(fields(Analysed::spec("examples/kda.mlir", "gate=bounded")),
            "key: shared input k; value with feedback: computed; decay key: sum or from a");
  EXPECT_EQ(fields(Analysed::spec("examples/kda.mlir", "gate=precomputed")),
            "key: shared input k; value with feedback: computed; decay key: sum or input g");
  EXPECT_EQ(fields(Analysed::spec("examples/deltanet.mlir")),
            "key: shared input k; value with feedback: computed");
  EXPECT_EQ(fields(Analysed::spec("examples/gated_deltaproduct.mlir")),
            "key: shared input k0; value with feedback: computed; "
            "key: shared input k1; value with feedback: computed; decay scalar: sum");
  EXPECT_EQ(fields(Analysed::spec("examples/rwkv7.mlir")),
            "key: shared computed; value with feedback: computed; "
            "key: shared input k; value: input v; decay key: shared sum or shared from w");
  // What a correction reads for needs no field, wherever it comes from.
  EXPECT_EQ(fields(Analysed::spec("examples/comba.mlir")), scalar);
  EXPECT_EQ(fields(Analysed::spec("examples/gdn2.mlir")),
            "key: shared input k; value with feedback: computed; decay key: shared sum or "
            "shared from a");
  EXPECT_EQ(fields(Analysed::spec("examples/two_key_delta.mlir")),
            "key: shared input k; value with feedback: computed; decay key: sum or input g");
}

TEST(LogEntry, AdditiveRules) {
  EXPECT_EQ(fields(Analysed::spec("examples/rwkv6.mlir")),
            "key: shared input k; value: input v; decay key: shared sum or shared input w");
  EXPECT_EQ(fields(Analysed::spec("examples/rwkv6.mlir", "decay=raw")),
            "key: shared input k; value: input v; decay key: shared sum or shared from w");
  EXPECT_EQ(fields(Analysed::spec("examples/mamba2.mlir")),
            "key: shared input k; value: input v; factor: computed; decay scalar: sum");
  EXPECT_EQ(fields(Analysed::spec("examples/retnet.mlir")),
            "key: shared input k; value: input v; decay scalar: sum");
  EXPECT_EQ(fields(Analysed::spec("examples/hgrn2.mlir")),
            "key: shared computed or shared from f; value: input v; "
            "decay key: shared sum or shared from f");
}

TEST(LogEntry, NotLegal) {
  EXPECT_EQ(fields(Analysed::spec("test/specs/elementwise.mlir")), "not legal");
}

TEST(LogEntry, TheScaleOfAKey) {
  auto gdn = Analysed::spec("examples/gdn.mlir");
  std::optional<LogEntry> entry = LogEntry::compute(*gdn);
  const LogWrite &write = entry->writes.front();
  EXPECT_EQ(text(gdn, write.scale), "rsqrt");
  EXPECT_TRUE(write.isScaleInValue);
  EXPECT_EQ(write.factor, LogWrite::kNone);
  EXPECT_EQ(text(gdn, write.keyVector), "k");
  EXPECT_FALSE(write.valueVector);
  EXPECT_EQ(entry->decays.front().front(), 2);
}

//===----------------------------------------------------------------------===//
// Writes
//===----------------------------------------------------------------------===//

TEST(LogEntry, NumbersComeOutOfVectors) {
  // Constants and params need no field, other numbers need one.
  EXPECT_EQ(writeFields("%x = arith.negf %k : !key\n"
                        "%ps = linattn.broadcast %p : !per_head -> !value\n"
                        "%y = arith.divf %v, %ps : !value\n"),
            "key: shared input k; value: input v");
  EXPECT_EQ(writeFields("%x = arith.negf %k : !key\n"
                        "%bs = linattn.broadcast %b : !per_head -> !value\n"
                        "%y = arith.divf %v, %bs : !value\n"),
            "key: shared input k; value: input v; factor: computed");
  EXPECT_EQ(writeFields("%x = linattn.l2norm %k : !key\n"
                        "%y = arith.negf %v : !value\n"),
            "key: shared input k; value: input v; factor: shared computed");
  // A number over a vector is no number times a vector.
  EXPECT_EQ(writeFields("%x = arith.negf %k : !key\n"
                        "%bs = linattn.broadcast %b : !per_head -> !value\n"
                        "%y = arith.divf %bs, %v : !value\n"),
            "key: shared input k; value: computed");
}

TEST(LogEntry, FunctionsOfOneInput) {
  EXPECT_EQ(writeFields("%x = math.exp %k : !key\n"
                        "%y = linattn.sigmoid %v : !value\n"),
            "key: shared computed or shared from k; value: computed or from v");
  EXPECT_EQ(writeFields("%x = arith.mulf %k, %h : !key\n"
                        "%y = arith.mulf %v, %w : !value\n"),
            "key: shared computed; value: computed");
  EXPECT_EQ(writeFields("%x = arith.addf %k, %pk : !key\n"
                        "%y = arith.mulf %v, %pv : !value\n"),
            "key: shared computed or shared from k; value: computed or from v");
  // An element that depends on all elements of the input.
  EXPECT_EQ(
      writeFields("%e = math.exp %k : !key\n"
                  "%s = linattn.reduce %e : !key -> tensor<f32, #linattn.of<scalar, key_head>>\n"
                  "%ss = linattn.broadcast %s : tensor<f32, #linattn.of<scalar, key_head>>"
                  " -> !key\n"
                  "%x = arith.subf %k, %ss : !key\n"
                  "%y = arith.negf %v : !value\n"),
      "key: shared computed; value: input v");
}

TEST(LogEntry, ParamsAreNotLogged) {
  EXPECT_EQ(writeFields("%x = math.exp %pk : !key\n"
                        "%y = arith.negf %v : !value\n"),
            "value: input v");
  // An entry without vectors still counts.
  EXPECT_EQ(writeFields("%x = math.exp %pk : !key\n"
                        "%y = math.exp %pv : !value\n"),
            "factor: shared computed");
}

TEST(LogEntry, KeysWidenedToValueHeadsAreStillShared) {
  EXPECT_EQ(writeFields("%x = linattn.broadcast %k : !key -> !channel\n"
                        "%y = arith.negf %v : !value\n",
                        "!channel"),
            "key: shared input k; value: input v");
}

TEST(LogEntry, WhatTwoWritesHaveInCommonIsHeldOnce) {
  auto twoStates = [](llvm::StringRef decay) {
    return fields(Analysed::text("(%q: !key, %k: !key, %v: !value, %w: !value, %g: !per_head,"
                                 " %h: !per_head) state(%A: !state, %B: !state) -> (o: !value)",
                                 ("%A1 = linattn.decay %A, %g : !per_head\n"
                                  "%A2 = linattn.write %A1, %k, %v : !key, !value\n"
                                  "%B1 = linattn.decay %B, " +
                                  decay +
                                  " : !per_head\n"
                                  "%B2 = linattn.write %B1, %k, %w : !key, !value\n"
                                  "%p = linattn.read %A2, %q : !key -> !value\n"
                                  "%r = linattn.read %B2, %q : !key -> !value\n"
                                  "%o = arith.addf %p, %r : !value\n"
                                  "linattn.yield %A2, %B2, %o : !state, !state, !value\n")
                                     .str()));
  };
  EXPECT_EQ(twoStates("%g"),
            "key: shared input k; value: input v; value: input w; decay scalar: sum");
  EXPECT_EQ(twoStates("%h"), "key: shared input k; value: input v; value: input w; "
                             "decay scalar: sum; decay scalar: sum");
}

TEST(LogEntry, WritesBetweenDecays) {
  // The key is held as the decays of its token leave it, numbers per head apart.
  EXPECT_EQ(fields(Analysed::text("(%q: !key, %k: !key, %v: !value, %g: !per_head, %h: !channel)"
                                  " state(%S: !state) -> (o: !value)",
                                  "%S1 = linattn.write %S, %q, %v : !key, !value\n"
                                  "%S2 = linattn.decay %S1, %g : !per_head\n"
                                  "%S3 = linattn.write %S2, %k, %v : !key, !value\n"
                                  "%S4 = linattn.decay %S3, %h : !channel\n"
                                  "%o = linattn.read %S4, %q : !key -> !value\n"
                                  "linattn.yield %S4, %o : !state, !value\n")),
            "key: computed; value: input v; factor: computed; key: computed; decay key: sum");
}

//===----------------------------------------------------------------------===//
// Decays
//===----------------------------------------------------------------------===//

TEST(LogEntry, RawGates) {
  EXPECT_EQ(decayFields("%l = arith.negf %a : !channel\n"), "decay key: sum or from a");
  EXPECT_EQ(decayFields("%ps = linattn.broadcast %p : !per_head -> !channel\n"
                        "%l = arith.mulf %a, %ps : !channel\n"),
            "decay key: sum or from a");
  // The sum differs between the value heads of a key head, the input does not.
  EXPECT_EQ(decayFields("%ps = linattn.broadcast %p : !per_head -> !channel\n"
                        "%ks = linattn.broadcast %k : !key -> !channel\n"
                        "%l = arith.mulf %ks, %ps : !channel\n"),
            "decay key: sum or shared from k");
}

TEST(LogEntry, GatesOfMoreThanOneInput) {
  EXPECT_EQ(decayFields("%l = arith.mulf %a, %b : !channel\n"), "decay key: sum");
  EXPECT_EQ(decayFields("%cs = linattn.broadcast %c : !per_head -> !channel\n"
                        "%l = arith.mulf %a, %cs : !channel\n"),
            "decay key: sum");
  EXPECT_EQ(decayFields("%l = linattn.broadcast %c : !per_head -> !channel\n"), "decay key: sum");
}

TEST(LogEntry, DecayOfParamsAlone) {
  EXPECT_EQ(decayFields("%l = math.exp %pc : !channel\n"), "decay key: sum");
}

TEST(LogEntry, DecaysAlongBothAxes) {
  EXPECT_EQ(fields(Analysed::text(
                "(%q: !key, %k: !key, %v: !value, %c: !per_head, %a: !channel, %m: !value)"
                " state(%S: !state) -> (o: !value)",
                "%S1 = linattn.decay %S, %m : !value\n"
                "%S2 = linattn.decay %S1, %c : !per_head\n"
                "%S3 = linattn.decay %S2, %a : !channel\n"
                "%S4 = linattn.write %S3, %k, %v : !key, !value\n"
                "%o = linattn.read %S4, %q : !key -> !value\n"
                "linattn.yield %S4, %o : !state, !value\n")),
            "key: shared input k; value: input v; decay key: sum; decay value: sum or input m");
}

//===----------------------------------------------------------------------===//
// Reasons
//===----------------------------------------------------------------------===//

TEST(LogEntry, Reasons) {
  auto kda = Analysed::spec("examples/kda.mlir");
  std::optional<LogEntry> entry = LogEntry::compute(*kda);
  EXPECT_EQ(reasonFor(*entry, 0, 0), "the input, exact; one per key head");
  EXPECT_EQ(reasonFor(*entry, 1, 0),
            "with what scales the key; depends on the state: rounding would feed back");
  EXPECT_EQ(reasonFor(*entry, 2, 0), "running sum of the log decay");
  EXPECT_EQ(reasonFor(*entry, 2, 1), "the input it is recomputed from");
  auto raw = Analysed::spec("examples/kda.mlir", "normalize=false");
  EXPECT_EQ(reasonFor(*LogEntry::compute(*raw), 1, 0),
            "depends on the state: rounding would feed back");
}

} // namespace
