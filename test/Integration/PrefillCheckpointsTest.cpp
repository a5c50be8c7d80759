//===- PrefillCheckpointsTest.cpp - States that a prefill leaves on its way ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Prefill.h"

using namespace dl::test;

/// Rows of these lengths, each of which has its checkpoints in slots behind those of the rows.
static Problem makeRows(const Operator &op, const std::string &layout,
                        const std::vector<int64_t> &lengths, int64_t width, int64_t interval) {
  Problem problem = packRows(op, {0, 0, 1, 2, 32, 32}, layout, lengths);
  const auto rows = int64_t(lengths.size());
  const Problem pool = makeProblem(op, {rows * (width + 1), 1, 1, 2, 32, 32}, layout, 7);
  problem.pool = pool.pool;
  problem.checkpointInterval = interval;
  for (int64_t slot = rows; slot < rows * (width + 1); ++slot)
    problem.checkpoints.push_back(slot);
  return problem;
}

/// f(operator, layout) for operators whose packages leave a checkpoint every 64 tokens, by all
/// forms.
template <typename Function> static void forCheckpoints(Function f) {
  for (const char *name : {"gdn-every64", "kda-every64", "rwkv6-every64", "gdn-every64-parts",
                           "kda-every64-c64", "rwkv6-every64-c16", "kda-every64-fused-c16",
                           "rwkv7-every64", "gdn-every64-state16", "kda-every64-wgmma"})
    for (const char *layout : {"kv", "vk"}) {
      const Operator op = prefillOf(name);
      if (op.package.find("wgmma") != std::string::npos && !hasWgmma())
        continue;
      SCOPED_TRACE(op.package + " " + layout);
      f(op, std::string(layout));
    }
}

/// After 64 and 128 tokens of 130, and of rows that end with one, before one, and have none.
TEST(PrefillCheckpoints, EveryIntervalR070) {
  forCheckpoints([](const Operator &op, const std::string &layout) {
    launchAndCheck(makeRows(op, layout, {130, 64, 63, 0, 65, 1, 128, 200}, 3, 64));
  });
}

/// Rows that begin anywhere between two multiples of the interval, in absolute positions: each has
/// floor((start + length) / 64) - floor(start / 64) checkpoints.
TEST(PrefillCheckpoints, AbsolutePositionsR073) {
  forCheckpoints([](const Operator &op, const std::string &layout) {
    const std::vector<int64_t> starts{0, 37, 64, 100}, lengths{200, 91, 64, 28}, counts{3, 2, 1, 1};
    Problem problem = makeRows(op, layout, lengths, 4, 64);
    for (size_t row = 0; row < starts.size(); ++row) {
      problem.checkpointOffsets.push_back(64 - starts[row] % 64);
      int64_t count = 0;
      for (int64_t t = 1; t <= lengths[row]; ++t)
        count += problem.checkpointAfter(int64_t(row), t) >= 0;
      EXPECT_EQ(count, counts[row]);
    }
    launchAndCheck(problem);
  });
}

/// One checkpoint anywhere, as a prefix cache wants it: chunks lie around it.
TEST(PrefillCheckpoints, AnyOffset) {
  forCheckpoints([](const Operator &op, const std::string &layout) {
    Problem problem = makeRows(op, layout, {100, 100, 100, 100, 100, 40, 40}, 1, 64);
    problem.checkpointOffsets = {1, 16, 31, 33, 100, 41, 1000000};
    launchAndCheck(problem);
  });
}

/// Null slots are no checkpoints; offsets that mean none; rows that are null have none.
TEST(PrefillCheckpoints, NullSlots) {
  forCheckpoints([](const Operator &op, const std::string &layout) {
    Problem problem = makeRows(op, layout, {130, 130, 130}, 2, 64);
    problem.firstSlot = 1;
    problem.sources = {1, 2, 0};
    problem.destinations = {1, 2, 0};
    problem.checkpoints = {-1, 4, 0, 5, 6, 7};
    problem.checkpointOffsets = {64, -5, 64};
    launchAndCheck(problem);
  });
}

/// A prompt that is cut at a checkpoint, or at any multiple of the chunk from it on, gives the same
/// bits as one that is not, and so does one that begins with the state of the checkpoint (R071).
TEST(PrefillCheckpoints, OnePieceOrTwoR071) {
  forCheckpoints([](const Operator &op, const std::string &layout) {
    const int64_t length = 150, cut = 87;
    Problem whole = makeRows(op, layout, {length}, 1, 64);
    whole.checkpointOffsets = {cut};
    const Outcome once = launch(whole);
    check(whole, once);
    Problem rest = tokensOf(whole, cut, length - cut);
    rest.starts = {0, length - cut};
    rest.pool = once.pool;
    rest.sources = {1};
    rest.checkpoints.clear();
    rest.checkpointOffsets = {128}; // no checkpoint, and chunks from the first token on
    const Outcome second = launch(rest);
    ASSERT_EQ(second.status, DLK_OK) << second.message;
    const int64_t size = int64_t(second.o.values().size());
    const auto offset = int64_t(once.o.values().size()) - size;
    for (int64_t i = 0; i < size && op.state == DLK_F32; ++i)
      ASSERT_EQ(second.o.values()[i], once.o.values()[offset + i]) << i;
  });
}

/// In checked mode slots of checkpoints are looked at as others are.
TEST(PrefillCheckpoints, CheckedSlots) {
  Problem problem = makeRows(prefillOf("gdn-every64"), "kv", {130, 40}, 2, 64);
  LaunchOptions options;
  options.flags = DLK_PLAN_CHECKED;
  problem.checkpoints = {2, 3, 99, 99}; // the second row has no tokens for any
  launchAndCheck(problem, options);
  problem.checkpoints = {2, 6, 4, 5};
  expectRefused(problem, options, DLK_INVALID_ARGUMENT,
                "argument 'checkpoint_slots' row 0 entry 1: expected a slot below 6, got 6");
  problem.checkpoints = {2, 1, 4, 5};
  expectRefused(problem, options, DLK_INVALID_ARGUMENT, "expected a slot of its own, got 1");
}
