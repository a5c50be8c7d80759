//===- LogReport.cpp - What --explain says of a log ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Package/LogReport.h"
#include "passes/LinAttnToTile/LogFields.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>

using namespace mlir;
using namespace dl;
using namespace dl::package;
using analysis::LogEntry;
using analysis::LogField;
using analysis::StepAnalysis;

/// The launch for which times are given: rows, and value heads of a row.
static constexpr int64_t kRows = 256, kHeads = 32;

static StringRef nameOf(Type type) { return type.isF32() ? "f32" : type.isBF16() ? "bf16" : "f16"; }

static Type floatType(MLIRContext *context, StringRef name) {
  Builder builder(context);
  return name == "f32"    ? Type(builder.getF32Type())
         : name == "bf16" ? Type(builder.getBF16Type())
                          : Type(builder.getF16Type());
}

static KernelTypes typesOf(const KernelRequest &request, MLIRContext *context) {
  KernelTypes types;
  types.keyDim = request.keyDim;
  types.valueDim = request.valueDim;
  types.state = floatType(context, request.stateType);
  types.io = floatType(context, request.ioType);
  for (StringRef given : request.types) {
    auto [argument, type] = given.split('=');
    types.given.push_back({argument.str(), floatType(context, type)});
  }
  return types;
}

static LogOptions optionsOf(const KernelRequest &request, MLIRContext *context) {
  return {request.window, request.maxTokens, floatType(context, request.logType)};
}

schedule::LogProblem dl::package::logProblem(const StepAnalysis &step, const LogEntry &entry,
                                             const KernelRequest &request) {
  MLIRContext *context = step.op->getContext();
  return dl::logProblem(step, entry, typesOf(request, context), optionsOf(request, context));
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static std::string wholeNumber(double value) {
  return llvm::formatv("{0:N}", static_cast<int64_t>(std::llround(value)));
}

static StringRef labelOf(LogField::What what) {
  switch (what) {
  case LogField::What::Key:
    return "key";
  case LogField::What::Value:
    return "value";
  case LogField::What::Factor:
    return "factor";
  case LogField::What::Decay:
    return "decay";
  }
  llvm_unreachable("a field is one of four");
}

namespace {
class Report {
public:
  Report(const StepAnalysis &step, const LogEntry &entry, ArrayRef<std::string> names,
         raw_ostream &os)
      : step(step), op(step.op), entry(entry), names(names), os(os) {}

  void print(const KernelRequest &request, ArrayRef<const target::Target *> targets);

private:
  void printFields(const KernelRequest &request, const schedule::LogPlan &plan);
  void printTraffic(const schedule::LogPlan &plan, int64_t maxTokens);
  void printTimes(const schedule::LogPlan &plan, ArrayRef<const target::Target *> targets);
  raw_ostream &line(StringRef label) {
    return os << "    " << llvm::left_justify(label, kLabelWidth);
  }

  static constexpr unsigned kLabelWidth = 8;
  const StepAnalysis &step;
  linattn::OperatorOp op;
  const LogEntry &entry;
  ArrayRef<std::string> names;
  raw_ostream &os;
};
} // namespace

void Report::printFields(const KernelRequest &request, const schedule::LogPlan &plan) {
  MLIRContext *context = op.getContext();
  std::vector<HeldField> held =
      holdFields(step, entry, plan, typesOf(request, context), optionsOf(request, context));
  SmallVector<std::string> shown;
  size_t width = 0;
  for (auto [number, chosen] : llvm::enumerate(plan.forms)) {
    const analysis::LogForm &form = entry.fields[number].forms[chosen];
    shown.push_back(form.input ? op.getArgName(form.input).str() : names[number]);
    width = std::max(width, shown.back().size());
  }
  for (auto [number, chosen] : llvm::enumerate(plan.forms)) {
    line(labelOf(entry.fields[number].what))
        << llvm::formatv("{0}  {1,-4} {2,6} B   [{3}]\n", llvm::left_justify(shown[number], width),
                         nameOf(held[number].element), wholeNumber(plan.fieldBytes[number]),
                         reasonFor(entry, number, chosen));
  }
}

void Report::printTraffic(const schedule::LogPlan &plan, int64_t maxTokens) {
  auto window = static_cast<double>(plan.window);
  double length = schedule::meanLogLength(window), gain = plan.gain();
  line("entry") << wholeNumber(plan.traffic.entry) << " B";
  if (plan.sharedBytes != 0)
    os << ", in general " << wholeNumber(plan.headBytes) << " + " << wholeNumber(plan.sharedBytes)
       << " HQ/HV";
  os << '\n';
  line("step") << llvm::formatv("dense {0} B, append to {1} entries {2} B, with merges {3} B: "
                                "{4:f2}x {5}\n",
                                wholeNumber(plan.traffic.dense()), llvm::format("%.3g", length),
                                wholeNumber(plan.traffic.append(length)),
                                wholeNumber(plan.traffic.amortised(window)),
                                gain < 1 ? 1 / gain : gain, gain < 1 ? "more" : "less");
  line("window") << llvm::formatv("W = {0}, a ring of R = {1} for up to {2} tokens a step: {3} B "
                                  "per slot\n",
                                  plan.window, plan.ring, maxTokens, wholeNumber(plan.slotBytes()));
}

void Report::printTimes(const schedule::LogPlan &plan, ArrayRef<const target::Target *> targets) {
  const schedule::LogTraffic &traffic = plan.traffic;
  for (const target::Target *row : targets) {
    if (row->memoryGBs == 0)
      continue;
    auto least = [&](double bytes) {
      return schedule::floorMilliseconds(bytes, kRows * kHeads, row->memoryGBs);
    };
    line("floor") << llvm::formatv("{0}, B = {1}, HV = {2}, {3} GB/s: dense {4:f3} ms, log {5:f3} "
                                   "ms\n",
                                   row->name, kRows, kHeads, row->memoryGBs, least(traffic.dense()),
                                   least(traffic.amortised(static_cast<double>(plan.window))));
  }
}

void Report::print(const KernelRequest &request, ArrayRef<const target::Target *> targets) {
  llvm::Expected<schedule::LogPlan> plan = schedule::planLog(logProblem(step, entry, request));
  if (!plan) {
    os << "  log: " << llvm::toString(plan.takeError()) << '\n';
    return;
  }
  os << llvm::formatv("  log, {0}x{1}, state {2}, io {3}, per value head with HQ = HV:\n",
                      request.keyDim, request.valueDim, request.stateType, request.ioType);
  printFields(request, *plan);
  printTraffic(*plan, request.maxTokens);
  printTimes(*plan, targets);
}

std::string dl::package::reportLog(const StepAnalysis &step, const LogEntry &entry,
                                   ArrayRef<std::string> names, ArrayRef<KernelRequest> requests) {
  if (entry.fields.empty())
    return "";
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::SmallSetVector<const target::Target *, 4> targets;
  for (const KernelRequest &request : requests)
    if (request.target)
      targets.insert(request.target);
  std::vector<const KernelRequest *> shown;
  for (const KernelRequest &request : requests) {
    auto isSame = [&](const KernelRequest *other) {
      return other->keyDim == request.keyDim && other->valueDim == request.valueDim &&
             other->stateType == request.stateType && other->ioType == request.ioType;
    };
    if (llvm::any_of(shown, isSame))
      continue;
    shown.push_back(&request);
    Report(step, entry, names, os).print(request, targets.getArrayRef());
  }
  return text;
}
