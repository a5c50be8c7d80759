//===- CaseCompare.cpp - What a launch left behind beside the reference ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Case.h"

#include <algorithm>
#include <cmath>

using namespace dl;
using namespace dl::run;
using reference::Batch;

// A ratio over the whole tensor hides one wrong head: each (row, head) may be off by this much
// more.
static constexpr double headFactor = 4;
// Heads with an RMS below this share of the whole are measured against it.
static constexpr double headFloor = 1e-3;

static void failOnce(CaseResult &result, std::string message) {
  if (result.failure.empty())
    result.failure = std::move(message);
}

/// Sums of squares of error and size.
struct Sums {
  double error = 0, size = 0;
  int64_t count = 0;
  void add(double value, double expected, double expectedSize) {
    error += (value - expected) * (value - expected);
    size += expectedSize * expectedSize;
    ++count;
  }
  double rms() const { return std::sqrt(size / double(std::max<int64_t>(count, 1))); }
  /// rms(error) / (rms(size) + 1e-8); NaN stays NaN.
  double ratio(double floor) const {
    return std::sqrt(error / double(std::max<int64_t>(count, 1))) / (std::max(rms(), floor) + 1e-8);
  }
};

namespace {
/// A tensor against the reference: as a whole, and in each row and head.
class Comparison {
public:
  Comparison(const char *kind, const char *name, double limit, int64_t rows, int64_t heads)
      : kind(kind), name(name), limit(limit), heads(heads), parts(rows * heads) {}

  void add(int64_t row, int64_t head, double value, double expected, double size) {
    total.add(value, expected, size);
    parts[row * heads + head].add(value, expected, size);
  }
  void finish(double &worst, CaseResult &result) const {
    const double error = total.ratio(0);
    keepWorst(worst, error);
    if (!(error <= limit))
      return failOnce(
          result, format("%s '%s': relative error %.2g exceeds %.2g", kind, name, error, limit));
    for (size_t i = 0; i < parts.size(); ++i)
      if (double part = parts[i].ratio(headFloor * total.rms());
          parts[i].count && !(part <= headFactor * limit))
        return failOnce(result,
                        format("%s '%s' of row %zu, head %zu: relative error %.2g exceeds %.2g",
                               kind, name, i / heads, i % heads, part, headFactor * limit));
  }

private:
  const char *kind, *name;
  const double limit;
  const int64_t heads;
  Sums total;
  std::vector<Sums> parts;
};
} // namespace

void CaseRunner::compareOutput(const Problem &problem, size_t arg, CaseResult &result) const {
  const dlk_arg_info &info = kernel.args[arg];
  const HostTensor &tensor = problem.final[arg];
  const Batch &batch = problem.batch;
  const int64_t headSize = elementCount(op.outputs[ports[arg]].axis, kernel.dims());
  Comparison comparison("output", info.name, outputLimit(kernel, info.dtype),
                        int64_t(batch.rows.size()), batch.HV);
  for (int64_t n = 0, count = tensor.numElements(); n < count; ++n) {
    const int row = problem.rowOfToken[n / (batch.HV * headSize)];
    if (row < 0)
      continue;
    const double value = tensor.get(n);
    if (batch.rows[row].isNull && value != 0)
      return failOnce(
          result, format("output '%s' of null row %d: expected 0, got %g", info.name, row, value));
    comparison.add(row, n / headSize % batch.HV, value, batch.outputs[ports[arg]][n],
                   batch.sizes[ports[arg]][n]);
  }
  comparison.finish(result.outputError, result);
}

void CaseRunner::compareState(const Problem &problem, size_t arg, CaseResult &result) const {
  const dlk_arg_info &info = kernel.args[arg];
  const HostTensor &tensor = problem.final[arg];
  const Batch &batch = problem.batch;
  const int64_t headSize = kernel.dims().K * kernel.dims().V, slotSize = batch.HV * headSize;
  Comparison comparison("state", info.name, stateLimit(kernel, info.dtype), problem.numSlots,
                        batch.HV);
  const std::vector<bool> written = problem.writtenSlots();
  for (int64_t n = 0, count = tensor.numElements(); n < count; ++n)
    if (const int64_t slot = n / slotSize; written[slot]) {
      const double expected = batch.states[ports[arg]][statePlace(n)];
      comparison.add(slot, n / headSize % batch.HV, tensor.get(n), expected, expected);
    }
  comparison.finish(result.stateError, result);
}

void CaseRunner::checkUntouched(const Problem &problem, size_t arg, CaseResult &result) const {
  const dlk_arg_info &info = kernel.args[arg];
  const HostTensor &tensor = problem.final[arg];
  const std::vector<bool> written = problem.writtenSlots();
  bool isInPlace = false;
  for (int shared : problem.sharedWith)
    isInPlace |= shared == int(arg);
  const bool isState = info.role == DLK_ROLE_STATE_OUT || isInPlace;
  const bool isOutput = info.role == DLK_ROLE_OUTPUT;
  const int64_t parts = isState    ? problem.numSlots
                        : isOutput ? int64_t(problem.rowOfToken.size())
                                   : 1;
  const int64_t partSize = std::max<int64_t>(tensor.numElements() / parts, 1);
  bool same = tensor.sameExcept(problem.initial[arg], [&](int64_t n) {
    if (isState)
      return bool(written[n / partSize]);
    return isOutput ? problem.rowOfToken[n / partSize] >= 0 : info.role == DLK_ROLE_WORKSPACE;
  });
  if (!same)
    failOnce(result,
             isState ? format("pool '%s': bytes outside of the rows' slots changed", info.name)
                     : format("argument '%s': bytes that are not the kernel's changed", info.name));
}

void CaseRunner::compare(Problem &problem, CaseResult &result) const {
  reference::run(op, kernel.dims(), problem.batch);
  for (size_t i = 0; i < kernel.args.size(); ++i) {
    if (kernel.args[i].role == DLK_ROLE_OUTPUT)
      compareOutput(problem, i, result);
    if (kernel.args[i].role == DLK_ROLE_STATE_OUT)
      compareState(problem, i, result);
  }
  for (size_t i = 0; i < kernel.args.size(); ++i)
    checkUntouched(problem, i, result);
}
