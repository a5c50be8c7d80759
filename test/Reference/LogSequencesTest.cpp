//===- LogSequencesTest.cpp - Long random lives of requests with a log ----===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// DL_LOG_STEPS sets the steps of each sequence. The default takes seconds, 65536
// steps take minutes.
//
//===----------------------------------------------------------------------===//

#include "test/Reference/LogModelLayers.h"
#include "test/Reference/LogTestEngine.h"

#include <cstdlib>
#include <gtest/gtest.h>

using namespace dl::deltalog;

namespace {
struct Sequence {
  Limits limits;
  uint64_t seed;
};

class LogSequences : public testing::TestWithParam<Sequence> {};
} // namespace

static int64_t stepsToRun() {
  const char *given = std::getenv("DL_LOG_STEPS"); // NOLINT(concurrency-mt-unsafe)
  return given ? std::strtoll(given, nullptr, 10) : 1024;
}

TEST_P(LogSequences, AgreeWithTheRecurrences) {
  const Sequence &sequence = GetParam();
  ModelLayers layers(sequence.limits, /*slots=*/14, 100 + sequence.seed);
  TestEngine engine(layers, sequence.seed);
  for (int64_t step = 0; step < stepsToRun(); ++step) {
    engine.step();
    ASSERT_FALSE(HasFailure()) << "in step " << step;
  }
  RecordProperty("worst", std::to_string(layers.worst * 1e15) + "e-15");
  if (stepsToRun() >= 512)
    engine.expectEverythingSeen();
}

INSTANTIATE_TEST_SUITE_P(Limits, LogSequences,
                         testing::Values(Sequence{{16, 4, 20}, 1}, Sequence{{16, 4, 37}, 2},
                                         Sequence{{16, 16, 32}, 3}, Sequence{{1, 16, 32}, 4},
                                         Sequence{{1, 1, 2}, 5}, Sequence{{3, 2, 5}, 6},
                                         Sequence{{8, 1, 9}, 7}),
                         [](const testing::TestParamInfo<Sequence> &info) {
                           const Limits &limits = info.param.limits;
                           return "W" + std::to_string(limits.window) + "T" +
                                  std::to_string(limits.maxTokens) + "R" +
                                  std::to_string(limits.ring);
                         });
