//===- Log.cpp - What a log of a state's writes costs ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Schedule/Log.h"
#include "llvm/Support/ErrorHandling.h"
#include <algorithm>
#include <cmath>
#include <tuple>

using namespace dl;
using namespace dl::schedule;

int64_t schedule::bytesOf(LogType type) { return type == LogType::BF16 ? 2 : 4; }

double schedule::meanLogLength(double window, int64_t tokens, double accepted) {
  if (tokens == 1)
    return (window - 1) / 2;
  return (std::max(window, accepted) + accepted) / 2;
}

double LogTraffic::amortised(double window, int64_t tokens, double accepted) const {
  double merges = accepted / std::max(window, accepted); // at most one in a step
  return append(meanLogLength(window, tokens, accepted), tokens) + state * merges;
}

double LogTraffic::bestWindow(double accepted) const {
  return std::sqrt(2 * state * accepted / entry);
}

int64_t schedule::ringCapacity(int64_t window, int64_t maxTokens) {
  return std::max(window, maxTokens) + maxTokens;
}

double schedule::floorMilliseconds(double bytes, int64_t heads, int64_t gigabytesPerSecond) {
  return bytes * static_cast<double>(heads) / (static_cast<double>(gigabytesPerSecond) * 1e6);
}

static int64_t elementsOf(LogAxis axis, const LogProblem &problem) {
  switch (axis) {
  case LogAxis::Head:
    return 1;
  case LogAxis::Key:
    return problem.keyDim;
  case LogAxis::Value:
    return problem.valueDim;
  }
  llvm_unreachable("an axis is one of three");
}

/// Bytes of a field in one of its forms: those of a head that holds it.
static int64_t heldBytes(const LogField &field, const LogForm &form, const LogProblem &problem) {
  int64_t element = form.elementBytes ? form.elementBytes : bytesOf(problem.type);
  return element * elementsOf(field.axis, problem);
}

/// Copies of inputs lose nothing, nor does what is held in f32.
static bool isExact(const LogForm &form, LogType type) {
  return form.elementBytes != 0 || type == LogType::F32;
}

static llvm::Error check(const LogProblem &problem) {
  for (auto [name, value] :
       {std::pair("key dimension", problem.keyDim), std::pair("value dimension", problem.valueDim),
        std::pair("states", problem.states),
        std::pair("bytes of a state's element", problem.stateBytes),
        std::pair("value heads per key head", problem.headRatio),
        std::pair("tokens of a step", problem.maxTokens)})
    if (value < 1)
      return llvm::createStringError("%s: expected at least 1, got %d", name, int(value));
  if (problem.window < 0)
    return llvm::createStringError("window: expected 0 (chosen) or more, got %d",
                                   int(problem.window));
  if (problem.fields.empty())
    return llvm::createStringError("log entry: expected a field, got none");
  for (const LogField &field : problem.fields)
    if (field.forms.empty())
      return llvm::createStringError("field of a log entry: expected a form, got none");
  return llvm::Error::success();
}

/// Chooses the cheapest form of each field.
static void chooseForms(const LogProblem &problem, LogPlan &plan) {
  auto ratio = static_cast<double>(problem.headRatio);
  for (const LogField &field : problem.fields) {
    auto price = [&](const LogForm &form) {
      auto bytes = static_cast<double>(heldBytes(field, form, problem));
      // Of two that cost the same, the one that loses nothing.
      return std::tuple(!form.isServed, form.isShared ? bytes / ratio : bytes,
                        !isExact(form, problem.type));
    };
    const auto *best =
        std::min_element(field.forms.begin(), field.forms.end(),
                         [&](const LogForm &a, const LogForm &b) { return price(a) < price(b); });
    plan.forms.push_back(best - field.forms.begin());
    plan.fieldBytes.push_back(std::get<1>(price(*best)));
    (best->isShared ? plan.sharedBytes : plan.headBytes) +=
        static_cast<double>(heldBytes(field, *best, problem));
  }
  plan.traffic.entry = plan.headBytes + plan.sharedBytes / ratio;
}

llvm::Expected<LogPlan> schedule::planLog(const LogProblem &problem) {
  if (llvm::Error error = check(problem))
    return error;
  LogPlan plan;
  chooseForms(problem, plan);
  plan.traffic.state =
      static_cast<double>(problem.states * problem.keyDim * problem.valueDim * problem.stateBytes);
  plan.traffic.io =
      problem.ioBytes + problem.sharedIoBytes / static_cast<double>(problem.headRatio);
  plan.window = problem.window;
  if (!plan.window)
    plan.window =
        std::clamp<int64_t>(std::llround(plan.traffic.bestWindow()), 1, kMaxProposedWindow);
  plan.ring = ringCapacity(plan.window, problem.maxTokens);
  return plan;
}

llvm::Expected<RecurrentPlan> schedule::planLogKernel(const RecurrentProblem &problem,
                                                      const RecurrentOverrides &overrides) {
  llvm::Expected<RecurrentPlan> plan = planRecurrent(problem, overrides);
  bool isMeasured = problem.layout == StateLayout::VK && problem.stateBytes == 4;
  if (!plan || !isMeasured || overrides.valueTile || 2 * plan->valueTile > problem.valueDim)
    return plan;
  RecurrentOverrides wide = overrides;
  wide.valueTile = 2 * plan->valueTile;
  return planRecurrent(problem, wide);
}

LogTiles schedule::logTiles(const RecurrentPlan &plan, int64_t keyDim, int64_t entries) {
  constexpr int64_t vector = 4, wide = 8; // f32 and, where the log holds 16 bits, 16 bytes
  int64_t warps = plan.warps;
  while (warps > entries || plan.warps % warps != 0)
    --warps;
  int64_t rowLanes = 1;
  while (2 * rowLanes * warps <= entries && 2 * rowLanes <= layout::kWarpSize / 4)
    rowLanes *= 2;
  int64_t keyLanes = layout::kWarpSize / rowLanes;
  LogTiles tiles;
  tiles.keys = {{1, keyDim % (keyLanes * wide) == 0 ? wide : vector},
                {rowLanes, keyLanes},
                {warps, 1},
                {1, 0},
                plan.warps};
  tiles.values = plan.state;
  tiles.values.perThread[0] = 1;
  return tiles;
}
