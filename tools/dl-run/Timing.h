//===- Timing.h - Timing launches on a CUDA stream ------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_TOOLS_DLRUN_TIMING_H
#define DL_TOOLS_DLRUN_TIMING_H

#include "Session.h"

#include <functional>

namespace dl::run {

/// Milliseconds per launch over repetitions.
struct Samples {
  std::vector<double> ms;
  double median() const;
  double best() const;
  nlohmann::json json() const;
};

/// Times a sequence of launches on a stream of its own.
class Timer {
public:
  explicit Timer(const Session &session);
  ~Timer();
  Timer(const Timer &) = delete;
  Timer &operator=(const Timer &) = delete;

  /// `launch(i, stream)` issues launch number i. Times `count` launches at a time, issued one by
  /// one.
  using Launch = std::function<void(int, runtime::cuda::Stream)>;
  Samples onStream(const Launch &launch, int count, int repetitions);
  /// The same from a CUDA graph that holds `count` launches: no launch cost of the CPU.
  Samples inGraph(const Launch &launch, int count, int repetitions);

private:
  Samples sample(const std::function<void()> &issue, int count, int repetitions);

  const Session &session;
  runtime::cuda::Stream stream = nullptr;
  runtime::cuda::Event begin = nullptr, end = nullptr;
};

/// The fastest read-modify-write of memory: every thread scales 16 bytes in place.
class Ceiling {
public:
  explicit Ceiling(const Session &session);
  ~Ceiling();
  Ceiling(const Ceiling &) = delete;
  Ceiling &operator=(const Ceiling &) = delete;

  /// Milliseconds to scale `bytes` (rounded down to 16) in one launch, going through `rotations`
  /// such regions; the faster of several block sizes.
  Samples measure(Timer &timer, size_t bytes, int rotations, int count, int repetitions);

private:
  const Session &session;
  runtime::cuda::Library library = nullptr;
  runtime::cuda::KernelHandle kernel = nullptr;
};

} // namespace dl::run

#endif // DL_TOOLS_DLRUN_TIMING_H
