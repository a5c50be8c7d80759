//===- Explain.cpp - What --explain says of an operator ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Analysis/Explain.h"
#include "compiler/Package/LogReport.h"
#include "compiler/Package/Session.h"
#include "passes/LinAttnToTile/Served.h"

using namespace mlir;
using namespace dl;
using namespace dl::package;
using analysis::Refusal;
using analysis::Schedule;

namespace {
struct Explained {
  analysis::StepAnalysis step;
  analysis::Explanation explanation;
  std::string log; ///< what one costs
};
} // namespace

static FailureOr<Explained> explain(Session &session, ArrayRef<KernelRequest> requests) {
  FailureOr<analysis::StepAnalysis> step = session.analyze(requests.front());
  if (failed(step))
    return failure();
  std::optional<analysis::LogEntry> entry = analysis::LogEntry::compute(*step);
  Explained result{*step, analysis::explain(*step, entry ? &*entry : nullptr), ""};
  if (entry)
    result.log = reportLog(*step, *entry, result.explanation.fields, requests);
  return result;
}

FailureOr<std::string> dl::package::explainSpec(const Spec &spec, ArrayRef<KernelRequest> requests,
                                                std::string &diagnostics) {
  Session session(spec, diagnostics);
  FailureOr<Explained> explained = explain(session, requests);
  if (failed(explained))
    return failure();
  for (analysis::ScheduleText &text : explained->explanation.schedules)
    for (const Refusal &refusal : findNotServed(explained->step, text.schedule))
      text.lines.push_back({"no kernel",
                            analysis::describe(refusal.op) + ": " + refusal.text + " (" +
                                refusal.condition.str() + "); " + refusal.change,
                            "", /*isSentence=*/true});
  return explained->explanation.text() + explained->log;
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static llvm::json::Array toJson(ArrayRef<analysis::Equation> lines) {
  llvm::json::Array result;
  for (const analysis::Equation &line : lines) {
    llvm::json::Object entry{{line.isSentence ? "label" : "name", line.name}};
    if (!line.formula.empty())
      entry[line.isSentence ? "text" : "formula"] = line.formula;
    if (!line.note.empty())
      entry["note"] = line.note;
    result.push_back(std::move(entry));
  }
  return result;
}

static llvm::json::Array toJson(ArrayRef<Refusal> refusals) {
  llvm::json::Array result;
  for (const Refusal &refusal : refusals) {
    llvm::json::Object entry{{"condition", refusal.condition},
                             {"op", refusal.op->getName().getStringRef()},
                             {"text", refusal.text},
                             {"change", refusal.change}};
    if (auto loc = refusal.op->getLoc()->findInstanceOf<FileLineColLoc>())
      entry["line"] = loc.getLine();
    result.push_back(std::move(entry));
  }
  return result;
}

FailureOr<llvm::json::Value> dl::package::explainSpecAsJson(const Spec &spec,
                                                            ArrayRef<KernelRequest> requests,
                                                            std::string &diagnostics) {
  Session session(spec, diagnostics);
  FailureOr<Explained> explained = explain(session, requests);
  if (failed(explained))
    return failure();
  llvm::json::Array schedules;
  for (Schedule schedule : {Schedule::Recurrent, Schedule::Chunkwise, Schedule::Log}) {
    llvm::json::Object entry{{"schedule", analysis::nameOf(schedule)},
                             {"legal", explained->step.isLegal(schedule)}};
    if (!explained->step.isLegal(schedule))
      entry["refusals"] = toJson(explained->step.whyNot(schedule));
    for (const analysis::ScheduleText &text : explained->explanation.schedules)
      if (text.schedule == schedule)
        entry["equations"] = toJson(text.lines);
    if (std::vector<Refusal> missing = findNotServed(explained->step, schedule); !missing.empty())
      entry["not_served"] = toJson(missing);
    schedules.push_back(std::move(entry));
  }
  llvm::json::Object result{{"operator", requests.front().symbol},
                            {"step", toJson(explained->explanation.step)},
                            {"feedback_reads", explained->step.numFeedbackReads()},
                            {"schedules", std::move(schedules)}};
  if (!explained->log.empty())
    result["log_costs"] = explained->log;
  return llvm::json::Value(std::move(result));
}
