//===- Bench.h - What a benchmark found, and how it is shown --------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_TOOLS_DLRUN_BENCH_H
#define DL_TOOLS_DLRUN_BENCH_H

#include "Timing.h"

#include <optional>

namespace dl::run {

/// Worst errors of a kernel against the fp64 recurrence, from a check before it is timed.
struct CheckResult {
  double outputError = 0, stateError = 0;
  std::string failure; // empty: passed
};

/// What the rows of an append launch find and do: all the same.
struct LogCase {
  int64_t length = -1; // entries; -1: not a kernel of the log
  int32_t merge = 0;   // as in a descriptor: 1 before, 2 with the token
  std::string str() const;
};

/// One kernel at one shape.
struct BenchResult {
  std::string kernel, target;
  Shape shape;
  LogCase log;
  Samples graph, stream, ceiling; // on the CPU only `stream`
  int rotations = 1, count = 1;
  size_t trafficBytes = 0, stateBytes = 0;
  std::optional<CheckResult> check;
  std::string skipped; // why it was not timed
};

/// A table for a terminal.
void printBenchTable(const Session &session, const std::vector<BenchResult> &results);
/// Everything, with all samples.
void printBenchJson(const Session &session, const std::vector<BenchResult> &results);

} // namespace dl::run

#endif // DL_TOOLS_DLRUN_BENCH_H
