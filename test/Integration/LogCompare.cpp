//===- LogCompare.cpp - Steps of one layer, and what must come of them ----===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Log.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace dl::test {

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

Tensor Log::step(const Rows<int64_t> &rows, const Tokens &tokens, const LaunchOptions &options) {
  planner.plan(rows);
  if (tokens.count() == 0) {
    layer.merge(planner, options);
    return Tensor();
  }
  return layer.append(planner, tokens, options);
}

States Log::state(int64_t slot, int64_t count) {
  Materialization wanted;
  wanted.rows = 1;
  wanted.slots = {slot};
  if (count >= 0)
    wanted.counts = {count};
  return layer.materialize(planner, wanted).front();
}

static void copyBuffer(const Array &from, Array &to) {
  ASSERT_EQ(from.buffer->image.size(), to.buffer->image.size());
  to.buffer->image = from.buffer->image;
  to.buffer->isChanged = true;
}

void Log::copyFrom(const Log &other) {
  copyBuffer(other.planner.cursors, planner.cursors);
  copyBuffer(other.layer.pool, layer.pool);
  for (auto &[name, field] : layer.log)
    copyBuffer(other.layer.log.at(name), field);
}

Rows<int64_t> inPlace(int64_t count, int64_t tokens) {
  Rows<int64_t> rows;
  rows.count = count;
  rows.tokens = tokens;
  return rows;
}

Rows<int64_t> packed(const std::vector<int64_t> &lengths) {
  Rows<int64_t> rows;
  rows.count = static_cast<int64_t>(lengths.size());
  rows.starts = {0};
  for (int64_t length : lengths)
    rows.starts.push_back(rows.starts.back() + length);
  return rows;
}

std::vector<States> fillLogs(Log &log, const std::vector<int64_t> &lengths,
                             const std::vector<int32_t> &starts) {
  const auto count = static_cast<int64_t>(lengths.size());
  std::vector<States> states;
  for (int64_t slot = 0; slot < count; ++slot) {
    log.layer.scramble(slot);
    states.push_back(log.layer.fillBase(slot));
    log.planner.setCursor(slot, {starts.empty() ? 0 : starts[slot], 0, 0, Merge::None});
  }
  std::vector<int64_t> left = lengths;
  while (std::any_of(left.begin(), left.end(), [](int64_t n) { return n > 0; })) {
    std::vector<int64_t> now;
    for (int64_t &n : left) {
      now.push_back(std::min<int64_t>(n, log.planner.limits.maxTokens));
      n -= now.back();
    }
    const Rows<int64_t> rows = packed(now);
    const Tokens tokens = log.layer.draw(1, rows.starts.back());
    const Tensor outputs = log.step(rows, tokens);
    for (int64_t slot = 0; slot < count; ++slot)
      states[slot] =
          expectSerial(log.layer, tokens, rows.starts[slot], now[slot], states[slot], outputs)
              .back();
  }
  return states;
}

deltalog::Standing standing(const Log &log, int64_t slot, int64_t accepted) {
  return deltalog::settle(log.planner.limits, log.planner.cursor(slot), accepted);
}

void expectSlots(Log &log, const std::vector<States> &want, const std::string &what) {
  Materialization wanted;
  wanted.rows = static_cast<int64_t>(want.size());
  const std::vector<States> got = log.layer.materialize(log.planner, wanted);
  for (size_t slot = 0; slot < want.size(); ++slot)
    expectStates(log.layer.kernels, got[slot], want[slot], what + " " + std::to_string(slot));
}

//===----------------------------------------------------------------------===//
// Comparing
//===----------------------------------------------------------------------===//

namespace {
/// Sums of squares, over as many vectors as are added.
struct Squares {
  double errors = 0, sizes = 0;
  size_t count = 0;
  bool isFinite = true;

  void add(const double *got, const double *want, size_t length) {
    for (size_t i = 0; i < length; ++i) {
      isFinite &= std::isfinite(got[i]);
      errors += (got[i] - want[i]) * (got[i] - want[i]);
      sizes += want[i] * want[i];
    }
    count += length;
  }
  double ratio() const { return error(1, 0); }
  /// The root mean square of the error, as a part of a limit that is relative to the numbers' and
  /// one that is not.
  double error(double relative, double absolute) const {
    const auto n = static_cast<double>(std::max<size_t>(count, 1));
    return isFinite ? std::sqrt(errors / n) / (relative * (std::sqrt(sizes / n) + 1e-8) + absolute)
                    : INFINITY;
  }
};
} // namespace

double rmsRatio(const Vector &got, const Vector &want) {
  Squares squares;
  squares.add(&got[0], &want[0], want.size());
  return got.size() == want.size() ? squares.ratio() : INFINITY;
}

double rmsRatio(const States &got, const States &want) {
  Squares squares;
  for (size_t h = 0; h < want.size(); ++h)
    squares.add(&got.at(h).values[0], &want[h].values[0], want[h].values.size());
  return squares.ratio();
}

double outputLimit(const LogKernels &kernels) {
  if (kernels.state != DLK_F32 || kernels.isNarrowLog)
    return 2e-2;
  return kernels.io == DLK_F32 ? 1e-4 : 5e-3;
}

double stateLimit(const LogKernels &kernels) {
  return kernels.state != DLK_F32 || kernels.isNarrowLog ? 2e-2 : 1e-4;
}

double stateError(const LogKernels &kernels, const States &got, const States &want) {
  const double limit = stateLimit(kernels);
  double error = rmsRatio(got, want) / limit;
  for (size_t h = 0; h < want.size(); ++h)
    error = std::max(error, rmsRatio(got[h].values, want[h].values) / (4 * limit));
  return error;
}

/// Sums are f32: so much may be left of terms that cancel.
static constexpr double roundingOfSums = 5e-6;

/// `usual` is the size of each head's terms, or empty: nothing cancels.
static double outputError(const LogLayer &layer, int64_t token, const std::vector<Vector> &want,
                          const Tensor &got, const std::vector<double> &usual) {
  const double limit = outputLimit(layer.kernels);
  Squares all;
  double error = 0, usualOfAll = 0;
  for (size_t h = 0; h < want.size(); ++h) {
    const size_t size = want[h].size();
    const double *values = &got.values()[(token * want.size() + h) * size];
    const double more = usual.empty() ? 0 : usual[h] * roundingOfSums;
    all.add(values, &want[h][0], size);
    usualOfAll = std::max(usualOfAll, more);
    Squares head;
    head.add(values, &want[h][0], size);
    error = std::max(error, head.error(4 * limit, more));
  }
  return std::max(error, all.error(limit, usualOfAll));
}

double outputError(const LogLayer &layer, const Tokens &tokens, int64_t token, const States &before,
                   const std::vector<Vector> &want, const Tensor &got) {
  const double error = outputError(layer, token, want, got, {});
  return error <= 1
             ? error
             : outputError(layer, token, want, got, layer.usualOutputs(tokens, token, before));
}

void expectStates(const LogKernels &kernels, const States &got, const States &want,
                  const std::string &what) {
  EXPECT_LE(stateError(kernels, got, want), 1)
      << what << ", as a part of the limit " << stateLimit(kernels);
}

std::vector<States> expectSerial(const LogLayer &layer, const Tokens &tokens, int64_t first,
                                 int64_t count, States states, const Tensor &outputs) {
  std::vector<States> all = {states};
  for (int64_t t = first; t < first + count; ++t) {
    const States before = states;
    const std::vector<Vector> want = layer.step(tokens, t, states);
    EXPECT_LE(outputError(layer, tokens, t, before, want, outputs), 1)
        << "output of token " << t << ", as a part of the limit " << outputLimit(layer.kernels);
    all.push_back(states);
  }
  return all;
}

void expectZeros(const Tensor &outputs, int64_t first, int64_t count) {
  const int64_t size = outputs.shape()[1] * outputs.shape()[2];
  for (int64_t i = first * size; i < (first + count) * size; ++i)
    ASSERT_EQ(outputs.values()[i], 0) << "token " << i / size;
}

void expectSameBits(const Tensor &a, int64_t firstOfA, const Tensor &b, int64_t firstOfB,
                    int64_t count) {
  const int64_t size = a.shape()[1] * a.shape()[2];
  for (int64_t t = 0; t < count; ++t)
    EXPECT_EQ(0, std::memcmp(&a.values()[(firstOfA + t) * size], &b.values()[(firstOfB + t) * size],
                             size * sizeof(double)))
        << "token " << firstOfA + t;
}

bool sameBits(const States &a, const States &b) {
  bool same = a.size() == b.size();
  for (size_t h = 0; same && h < a.size(); ++h)
    same = a[h].values.size() == b[h].values.size() &&
           std::memcmp(&a[h].values[0], &b[h].values[0], a[h].values.size() * sizeof(double)) == 0;
  return same;
}

} // namespace dl::test
