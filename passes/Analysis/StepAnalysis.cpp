//===- StepAnalysis.cpp - The affine normal form of one token's step ------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Analysis/StepAnalysis.h"

#include "passes/Analysis/Internal.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace dl::analysis;
using namespace dl::linattn;

/// Options must be set and ops expanded: then a body has arith, math and the ops named here.
static LogicalResult checkPrepared(OperatorOp op) {
  for (Operation &inner : *op.getBody()) {
    bool isPlain = isa<arith::ArithDialect, math::MathDialect>(inner.getDialect()) ||
                   isa<StepOpInterface, ReadOp, BroadcastOp, ReduceOp, dl::linattn::YieldOp>(inner);
    auto decay = dyn_cast<DecayOp>(inner);
    if (!isPlain || (decay && decay.getBoundAttr() && !decay.getBoundValue()))
      return inner.emitOpError("expected options set and ops expanded (linattn-set-options, "
                               "linattn-expand) before the step is analysed");
  }
  return success();
}

/// Follows a state from its new value back to its argument.
static State followPath(Value value) {
  State state;
  state.values.push_back(value);
  while (auto event = state.values.back().getDefiningOp<StepOpInterface>()) {
    state.events.push_back(event);
    state.values.push_back(event.getStateBefore());
  }
  std::reverse(state.events.begin(), state.events.end());
  std::reverse(state.values.begin(), state.values.end());
  return state;
}

static void collectEvents(StepAnalysis &analysis) {
  for (auto [index, state] : llvm::enumerate(analysis.states))
    for (auto [position, event] : llvm::enumerate(state.events)) {
      if (auto decay = dyn_cast<DecayOp>(*event))
        state.decays.push_back({decay, decay.getLogDecay(), *axisOf(decay.getLogDecay().getType()),
                                decay.getBoundValue(), unsigned(position)});
      if (auto write = dyn_cast<WriteOp>(*event))
        analysis.writes.push_back({write,
                                   unsigned(index),
                                   unsigned(position),
                                   unsigned(state.decays.size()),
                                   write.getKey(),
                                   {}});
    }
  llvm::sort(analysis.writes,
             [](const Write &a, const Write &b) { return a.op->isBeforeInBlock(b.op); });
  for (auto [index, write] : llvm::enumerate(analysis.writes))
    analysis.states[write.state].writes.push_back(index);
}

static Feedback feedbackOf(const Write &write) {
  if (!write.isAffine)
    return Feedback::Other;
  if (!write.hasFeedback())
    return Feedback::None;
  bool perValue =
      llvm::any_of(write.value.reads, [](const ReadTerm &t) { return isPerValue(t.coefficient); });
  return perValue ? Feedback::PerValue : Feedback::PerHead;
}

static void composeMaps(StepAnalysis &analysis) {
  llvm::DenseMap<Operation *, Feedback> feedback; // none where there is no entry
  for (const Write &write : analysis.writes)
    feedback[write.op] = feedbackOf(write);
  for (State &state : analysis.states) {
    for (const Decay &decay : state.decays)
      feedback[decay.op] = decay.isTokenLocal ? Feedback::None : Feedback::Other;
    for (StepOpInterface event : state.events) {
      state.eventMaps.push_back(event.getStepMap(feedback.lookup(event)));
      state.map = state.map.then(state.eventMaps.back());
    }
  }
}

/// Which other states the writes of each state read.
static void findSources(StepAnalysis &analysis) {
  for (const Write &write : analysis.writes)
    for (const ReadTerm &term : write.value.reads) {
      unsigned source = analysis.reads[term.read].state;
      SmallVector<unsigned> &sources = analysis.states[write.state].sources;
      if (source != write.state && !llvm::is_contained(sources, source))
        sources.push_back(source);
    }
}

FailureOr<StepAnalysis> StepAnalysis::compute(OperatorOp op) {
  if (failed(checkPrepared(op)))
    return failure();
  StepAnalysis analysis;
  analysis.op = op;
  for (Value state : op.getYieldedStates())
    analysis.states.push_back(followPath(state));
  collectEvents(analysis);
  walkAffine(analysis);
  for (auto [index, read] : llvm::enumerate(analysis.reads))
    if (read.isFeedback)
      analysis.feedback.push_back(index);
  findSources(analysis);
  composeMaps(analysis);
  checkConditions(analysis);
  return analysis;
}

std::optional<double> State::totalBound() const {
  double total = 0;
  for (const Decay &decay : decays) {
    if (!decay.bound)
      return std::nullopt;
    total += *decay.bound;
  }
  return total;
}
