//===- Legality.cpp - Which schedules a step allows -----------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Why the conditions A1 to A4 (StepAnalysis.h) are what they are:
//
//   A1  e^{G_x - G_a} must factor into what scales key vectors and what scales value vectors;
//       a decay per element has no such factors.
//   A2, A3
//       the triangular system of the feedback reads is shared by all value channels. A decay or a
//       factor per channel makes it one system per channel.
//   A4  a system that is not linear cannot be solved for many tokens at once.
//
//===----------------------------------------------------------------------===//

#include "passes/Analysis/Internal.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace dl::analysis;
using namespace dl::linattn;

/// A feedback read of the state, or one that enters a write to it; null: it takes no part.
static Operation *feedbackThrough(const StepAnalysis &analysis, unsigned state) {
  for (unsigned number : analysis.feedback)
    if (const Read &read = analysis.reads[number]; read.state == state)
      return read.op;
  for (unsigned number : analysis.states[state].writes)
    if (const Write &write = analysis.writes[number]; write.hasFeedback())
      return analysis.reads[write.value.reads.front().read].op;
  return nullptr;
}

static void checkValueDecays(StepAnalysis &analysis) {
  for (auto [index, state] : llvm::enumerate(analysis.states)) {
    Operation *read = feedbackThrough(analysis, index);
    if (!read)
      continue;
    for (const Decay &decay : state.decays)
      if (decay.axis == Axis::Value)
        analysis.refusals.push_back(
            {kNoValueDecay, decay.op,
             "expected no decay along value on a state whose reads enter writes, got one",
             "decay along scalar or key, or write values that do not depend on the state", read});
  }
}

static void checkValueGates(StepAnalysis &analysis) {
  for (const Write &write : analysis.writes)
    for (const ReadTerm &term : write.value.reads)
      for (const Product &product : term.coefficient)
        for (const Factor &factor : product.factors)
          if (factor.isPerValue())
            analysis.refusals.push_back(
                {kNoValueGate, factor.op,
                 "expected what multiplies a read on its way into a write to be one number per "
                 "head, got one per value channel",
                 "compute the factor per head and broadcast it last, or gate the token-local part "
                 "of the value only",
                 analysis.reads[term.read].op});
}

void dl::analysis::checkConditions(StepAnalysis &analysis) {
  checkValueDecays(analysis);
  checkValueGates(analysis);
  llvm::sort(analysis.refusals, [](const Refusal &a, const Refusal &b) {
    if (a.condition != b.condition)
      return a.condition < b.condition;
    return a.op == b.op ? a.text < b.text : a.op->isBeforeInBlock(b.op);
  });
}

bool StepAnalysis::isAffine() const {
  return llvm::none_of(refusals, [](const Refusal &r) { return r.condition == kAffine; });
}

StringRef dl::analysis::nameOf(Schedule schedule) {
  switch (schedule) {
  case Schedule::Recurrent:
    return "recurrent";
  case Schedule::Chunkwise:
    return "chunkwise";
  case Schedule::Log:
    return "log";
  }
  llvm_unreachable("a schedule is one of three");
}

ArrayRef<Refusal> StepAnalysis::whyNot(Schedule schedule) const {
  return schedule == Schedule::Recurrent ? ArrayRef<Refusal>() : ArrayRef(refusals);
}

/// "chunkwise schedule", "chunkwise and log schedules".
static std::string listOf(ArrayRef<Schedule> schedules) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleave(schedules, os, [&](Schedule schedule) { os << nameOf(schedule); }, " and ");
  os << (schedules.size() == 1 ? " schedule" : " schedules");
  return text;
}

LogicalResult StepAnalysis::require(ArrayRef<Schedule> schedules) const {
  auto isRefused = [&](Schedule schedule) { return !isLegal(schedule); };
  SmallVector<Schedule> refused(llvm::make_filter_range(schedules, isRefused));
  if (refused.empty())
    return success();
  // What has a condition has all of them.
  for (const Refusal &refusal : refusals) {
    InFlightDiagnostic diag = refusal.op->emitOpError("rules out the ")
                              << listOf(refused) << " of operator '" << OperatorOp(op).getSymName()
                              << "' (" << refusal.condition << "): " << refusal.text;
    diag.attachNote() << refusal.change << "; " << kWithoutChange;
    if (refusal.read)
      diag.attachNote(refusal.read->getLoc()) << "the read is here";
  }
  return failure();
}
