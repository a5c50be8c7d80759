//===- Served.cpp - Which legal schedules have kernels ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/LinAttnToTile/Served.h"
#include "compiler/Schedule/Chunkwise.h"

using namespace mlir;
using namespace dl;
using analysis::Refusal;
using analysis::Schedule;
using linattn::Axis;

/// Adds what breaks a condition to a list.
using Refuse = llvm::function_ref<void(StringRef condition, Operation *at, const Twine &text,
                                       StringRef change)>;

static void checkChunks(const analysis::StepAnalysis &step, Refuse refuse) {
  if (step.states.size() != 1)
    refuse(
        "B1", step.op, "expected one state, got " + Twine(step.states.size()),
        "make an operator of each state, if none reads another's, or append to a log, which serves "
        "several");
  for (const analysis::State &state : step.states)
    for (const analysis::Decay &decay : state.decays)
      if (decay.axis == Axis::Value)
        refuse("B2", decay.op, "expected decays along scalar or key, got one along value",
               "decay along scalar or key, or append to a log, which serves this");
  linattn::OperatorOp op = step.op;
  for (linattn::ReduceOp reduce : op.getBodyRegion().getOps<linattn::ReduceOp>())
    if (linattn::isOn(reduce->getOperand(0).getType(), Axis::Value))
      refuse("B3", reduce, "expected sums over key vectors only, got one over a value vector",
             "compute what the sum is for, as a norm, outside and make it an input");
}

/// What ChunkRows relies on.
static void checkRows(const analysis::StepAnalysis &step, Refuse refuse) {
  constexpr size_t mostWrites = schedule::kMostRowsPerToken;
  if (step.writes.empty())
    refuse("B5", step.op, "expected a write, got none", "write to the state");
  else if (step.writes.size() > mostWrites)
    refuse("B5", step.writes[mostWrites].op,
           "expected at most " + Twine(mostWrites) + " writes per token, got " +
               Twine(step.writes.size()),
           "split the token into several");
  for (size_t i = 1; i < step.writes.size(); ++i)
    for (const analysis::ReadTerm &term : step.writes[i].value.reads) {
      const analysis::Read &read = step.reads[term.read];
      const analysis::Write &before = step.writes[i - 1];
      if (!step.sees(read, before) && read.clock < before.clock)
        refuse("B6", step.writes[i].op,
               "expected no decay between an earlier write and a read before it, got one behind a "
               "read that this write needs",
               "read after the decay");
    }
}

static void checkLog(const analysis::StepAnalysis &step, Refuse refuse) {
  auto isChanged = [](const analysis::State &state) { return !state.events.empty(); };
  if (llvm::none_of(step.states, isChanged))
    refuse("B4", step.op, "expected a step that changes a state, got one that changes none",
           "write to the state or decay it");
}

std::vector<Refusal> dl::findNotServed(const analysis::StepAnalysis &step, Schedule schedule) {
  std::vector<Refusal> found;
  auto refuse = [&](StringRef condition, Operation *at, const Twine &text, StringRef change) {
    found.push_back({condition, at, text.str(), change.str(), nullptr});
  };
  if (step.isLegal(schedule) && schedule == Schedule::Chunkwise)
    checkChunks(step, refuse), checkRows(step, refuse);
  if (step.isLegal(schedule) && schedule == Schedule::Log)
    checkLog(step, refuse);
  return found;
}

LogicalResult dl::requireServed(const analysis::StepAnalysis &step, Schedule schedule) {
  std::vector<Refusal> refusals = findNotServed(step, schedule);
  for (const Refusal &refusal : refusals) {
    InFlightDiagnostic diag = refusal.op->emitOpError("has no ")
                              << analysis::nameOf(schedule) << " kernel yet (" << refusal.condition
                              << "): " << refusal.text;
    diag.attachNote() << refusal.change << "; " << analysis::kWithoutChange;
  }
  return success(refusals.empty());
}
