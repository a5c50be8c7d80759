//===- LogStatesTest.cpp - Merges, checkpoints, copies, materialize -------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Log.h"

#include <algorithm>

using namespace dl::test;

static int32_t ringOf(const Log &log) { return log.planner.limits.ring; }

//===----------------------------------------------------------------------===//
// Merges
//===----------------------------------------------------------------------===//

/// Where no token can be rejected, the one that fills the log merges with it and never enters the
/// ring: `append` looks at all bytes.
TEST(LogStates, FinalTokensMergeWithoutEnteringTheRing) {
  forKernels([](const LogKernels &kernels) {
    const int64_t W = kernels.limits.window;
    Log log(kernels, 1, 2, 1);
    States state = fillLogs(log, {0}, {ringOf(log) - 2}).front();
    Rows<int64_t> rows = inPlace(1, 1);
    rows.final = true;
    for (int64_t i = 0; i < 2 * W + 3; ++i) {
      SCOPED_TRACE("token " + std::to_string(i));
      const Tokens tokens = log.layer.draw(1, 1);
      const Tensor outputs = log.step(rows, tokens);
      state = expectSerial(log.layer, tokens, 0, 1, state, outputs).back();
      const bool merges = i % W == W - 1;
      EXPECT_EQ(int(log.planner.rows[0].merge), int(merges ? Merge::After : Merge::None));
      if (merges) {
        expectStates(kernels, log.layer.base(0), state, "base");
        expectStates(kernels, log.state(0, 0), state, "state of an empty log");
      }
    }
    expectSlots(log, {state}, "slot");
  });
}

/// A log of a whole long step, longer than the window, has no room for one more entry.
TEST(LogStates, AFinalTokenBehindALongLog) {
  forKernels([](const LogKernels &kernels) {
    const int64_t L = kernels.limits.longestLog();
    Log log(kernels, 1, 2, 2);
    std::vector<States> states = fillLogs(log, {L, L - 1});
    Rows<int64_t> rows = inPlace(2, 1);
    rows.final = true;
    const Tokens tokens = log.layer.draw(2, 1);
    const Tensor outputs = log.step(rows, tokens);
    EXPECT_EQ(int(log.planner.rows[0].merge), int(Merge::Before));
    EXPECT_EQ(int(log.planner.rows[1].merge), int(Merge::After));
    for (int64_t row = 0; row < 2; ++row)
      states[row] = expectSerial(log.layer, tokens, row, 1, states[row], outputs).back();
    expectSlots(log, states, "slot");
  });
}

/// Rows without tokens: they settle, merge, copy, and start from zeros.
TEST(LogStates, RowsWithoutTokens) {
  forKernels([](const LogKernels &kernels) {
    const int64_t T = kernels.limits.maxTokens;
    Log log(kernels, 1, 2, 7);
    const std::vector<States> before = fillLogs(log, {2, 2, 2, 2});
    const Tokens drafts = log.layer.draw(4, T);
    const Tensor outputs = log.step(inPlace(4, T), drafts);
    std::vector<std::vector<States>> states;
    for (int64_t row = 0; row < 4; ++row)
      states.push_back(expectSerial(log.layer, drafts, row * T, T, before[row], outputs));
    for (int64_t slot = 4; slot < 7; ++slot)
      log.layer.scramble(slot);

    Rows<int64_t> rows = inPlace(5, 0);
    rows.src = {0, 1, 2, 3, 6};
    rows.dst = {0, 1, 5, 4, 6};
    rows.accepted = {T, 0, 1, T, 9};
    rows.initial = {1, 1, 1, 1, 0};
    rows.flush = {1, 1, 0, 1, 0};
    log.step(rows, log.layer.draw(5, 0));
    const States zeros = log.layer.zeros();
    const States *want[] = {&states[0][T], &states[1][0], &states[2][1], &states[3][T], &zeros};
    for (int64_t row = 0; row < 5; ++row) {
      expectStates(kernels, log.layer.base(rows.dst[row]), *want[row],
                   "row " + std::to_string(row));
      EXPECT_EQ(standing(log, rows.dst[row]).length, 0) << "row " << row;
    }
    EXPECT_TRUE(sameBits(log.layer.base(6), zeros));
    // Their sources still have their drafts.
    expectStates(kernels, log.state(2), states[2][T], "source");
  });
}

/// Slots as they were, entry for entry: the log, its drafts and cursor go on elsewhere.
TEST(LogStates, AnEntryForEntryCopyGoesOn) {
  forKernels([](const LogKernels &kernels) {
    const int64_t T = kernels.limits.maxTokens;
    Log log(kernels, 1, 2, 2);
    const States before = fillLogs(log, {3}, {ringOf(log) - 1}).front();
    const Tokens drafts = log.layer.draw(1, T);
    const States state =
        expectSerial(log.layer, drafts, 0, T, before, log.step(inPlace(1, T), drafts))[T / 2];
    log.layer.scramble(1);
    log.layer.copySlot(0, 1);
    log.planner.setCursor(1, log.planner.cursor(0));
    log.layer.scramble(0);
    log.planner.setCursor(0, {-1, -1, -1, Merge::After});
    Rows<int64_t> rows = inPlace(1, T);
    rows.src = rows.dst = {1};
    rows.accepted = {T / 2};
    const Tokens next = log.layer.draw(1, T);
    expectSerial(log.layer, next, 0, T, state, log.step(rows, next));
  });
}

/// A prefill, a transfer or the host has written the base: the log that was there counts for
/// nothing.
TEST(LogStates, ABaseFromOutside) {
  forKernels([](const LogKernels &kernels) {
    const int64_t T = kernels.limits.maxTokens;
    Log log(kernels, 1, 2, 2);
    fillLogs(log, {4, 4});
    std::vector<States> states = {log.layer.fillBase(0), log.layer.fillBase(1)};
    log.planner.setCursor(1, {-7, 1000, 99, Merge::After});
    Rows<int64_t> rows = inPlace(2, T);
    rows.initial = {2, 2};
    rows.accepted = {77, -5};
    const Tokens tokens = log.layer.draw(2, T);
    const Tensor outputs = log.step(rows, tokens);
    for (int64_t row = 0; row < 2; ++row)
      states[row] = expectSerial(log.layer, tokens, row * T, T, states[row], outputs).back();
    expectSlots(log, states, "slot");
  });
}

//===----------------------------------------------------------------------===//
// Checkpoints
//===----------------------------------------------------------------------===//

TEST(LogStates, CheckpointsAtBlockBoundariesR068) {
  forKernels(
      [](const LogKernels &kernels) {
        struct Case {
          int64_t computed, accepted, block;
        };
        for (const Case &c : {Case{3, 2, 4}, Case{2, 3, 4}, Case{0, 4, 4}, Case{6, 4, 4},
                              Case{1, 1, 4}, Case{5, 4, 8}, Case{7, 4, 8}, Case{4, 4, 8}}) {
          SCOPED_TRACE("computed " + std::to_string(c.computed) + " accepted " +
                       std::to_string(c.accepted) + " block " + std::to_string(c.block));
          Log log(kernels, 1, 2, 2);
          log.layer.scramble(0);
          log.layer.scramble(1);
          States state = log.layer.zeros();
          std::vector<States> prefix = {state}; ///< after each of the computed tokens
          for (int64_t i = 0; i < c.computed; ++i) {
            Rows<int64_t> rows = inPlace(1, 1);
            rows.initial = {static_cast<uint8_t>(i > 0)};
            const Tokens token = log.layer.draw(1, 1);
            state = expectSerial(log.layer, token, 0, 1, state, log.step(rows, token)).back();
            prefix.push_back(state);
          }
          Rows<int64_t> rows = inPlace(1, 4);
          rows.initial = {static_cast<uint8_t>(c.computed > 0)};
          const Tokens drafts = log.layer.draw(1, 4);
          const std::vector<States> after =
              expectSerial(log.layer, drafts, 0, 4, state, log.step(rows, drafts));
          prefix.insert(prefix.end(), after.begin() + 1, after.end());

          const Cursor untouched = log.planner.cursor(1);
          rows = inPlace(1, 1);
          rows.accepted = {c.accepted};
          rows.checkpointSlots = {1};
          rows.checkpointOffsets = {(c.computed / c.block + 1) * c.block - c.computed};
          const Tokens next = log.layer.draw(1, 1);
          expectSerial(log.layer, next, 0, 1, after[c.accepted], log.step(rows, next));
          const bool isReached = (c.computed + c.accepted) / c.block > c.computed / c.block;
          EXPECT_EQ(log.planner.rows[0].checkpointSlot, isReached ? 1 : -1);
          if (!isReached) {
            EXPECT_EQ(log.planner.cursor(1).length, untouched.length);
            continue;
          }
          const int64_t boundary = (c.computed / c.block + 1) * c.block;
          expectStates(kernels, log.layer.base(1), prefix[boundary], "checkpoint");
          EXPECT_EQ(standing(log, 1).length, 0);
          // A row starts from it, in a slot of its own.
          Rows<int64_t> resumed = inPlace(1, 1);
          resumed.src = {1};
          resumed.dst = {0};
          const Tokens token = log.layer.draw(1, 1);
          expectSerial(log.layer, token, 0, 1, prefix[boundary], log.step(resumed, token));
        }
      },
      4);
}

/// Every entry of the log, with and without a merge in the same step.
TEST(LogStates, ACheckpointOfEveryPrefix) {
  forKernels([](const LogKernels &kernels) {
    const int64_t T = kernels.limits.maxTokens, W = kernels.limits.window;
    for (const bool merges : {false, true}) {
      const int64_t length = std::min<int64_t>(W, 6);
      Log log(kernels, 1, 2, 2 * (length + 1));
      const std::vector<States> before =
          fillLogs(log, std::vector<int64_t>(length + 1, 0),
                   std::vector<int32_t>(length + 1, ringOf(log) - 3));
      const int64_t rowsCount = length + 1;
      std::vector<std::vector<States>> prefix;
      for (const States &state : before)
        prefix.push_back({state});
      for (int64_t i = 0; i < length; ++i) {
        const Tokens tokens = log.layer.draw(rowsCount, 1);
        const Tensor outputs = log.step(inPlace(rowsCount, 1), tokens);
        for (int64_t row = 0; row < rowsCount; ++row)
          prefix[row].push_back(
              expectSerial(log.layer, tokens, row, 1, prefix[row].back(), outputs).back());
      }
      Rows<int64_t> rows = inPlace(rowsCount, T);
      for (int64_t row = 0; row < rowsCount; ++row) {
        rows.checkpointSlots.push_back(rowsCount + row);
        rows.checkpointOffsets.push_back(row - (length - 1));
        rows.flush.push_back(merges);
      }
      const Tokens tokens = log.layer.draw(rowsCount, T);
      const Tensor outputs = log.step(rows, tokens);
      for (int64_t row = 0; row < rowsCount; ++row) {
        EXPECT_EQ(log.planner.rows[row].checkpointCount, row);
        expectStates(kernels, log.layer.base(rowsCount + row), prefix[row][row],
                     "checkpoint " + std::to_string(row));
        expectSerial(log.layer, tokens, row * T, T, prefix[row].back(), outputs);
      }
    }
  });
}

TEST(LogStates, AReusedSlotR069) {
  forKernels([](const LogKernels &kernels) {
    const int64_t T = kernels.limits.maxTokens;
    Log used(kernels, 1, 2, 3), clean(kernels, 1, 2, 3);
    States state = used.layer.fillBase(0);
    for (int64_t i = 0; i < 9; ++i) { // P = 9
      const Tokens token = used.layer.draw(1, 1);
      state = expectSerial(used.layer, token, 0, 1, state, used.step(inPlace(1, 1), token)).back();
    }
    Rows<int64_t> checkpoint = inPlace(1, 0);
    checkpoint.checkpointSlots = {1};
    checkpoint.checkpointOffsets = {1};
    used.step(checkpoint, used.layer.draw(1, 0));
    expectStates(kernels, used.layer.base(1), state, "checkpoint");
    clean.layer.setBase(1, used.layer.base(1));
    for (int64_t slot : {0, 2})
      clean.layer.scramble(slot);

    // One begins in the slot, another resumes from the checkpoint.
    Rows<int64_t> rows = inPlace(2, T);
    rows.src = {0, 1};
    rows.dst = {0, 2};
    rows.initial = {0, 1};
    const Tokens tokens = used.layer.draw(2, T), more = used.layer.draw(2, T);
    const Tensor outputs = used.step(rows, tokens);
    expectSameBits(clean.step(rows, tokens), 0, outputs, 0, 2 * T);
    expectSerial(used.layer, tokens, 0, T, used.layer.zeros(), outputs);
    expectSerial(used.layer, tokens, T, T, state, outputs);
    EXPECT_EQ(used.planner.rows[1].length, 0);
    rows.src = {0, 2};
    rows.initial = {1, 1};
    expectSameBits(clean.step(rows, more), 0, used.step(rows, more), 0, 2 * T);
    for (int64_t slot : {0, 1, 2})
      EXPECT_TRUE(used.layer.baseBits(slot) == clean.layer.baseBits(slot)) << "slot " << slot;
  });
}

//===----------------------------------------------------------------------===//
// Materialize
//===----------------------------------------------------------------------===//

/// All prefixes of a log, drafts included, around the end of the ring; nothing is written but the
/// destinations, which `materialize` looks at.
TEST(LogStates, MaterializeGivesEveryPrefix) {
  forKernels([](const LogKernels &kernels) {
    const int64_t W = kernels.limits.window, T = kernels.limits.maxTokens;
    const int64_t accepted = std::max<int64_t>(W - T, 0);
    Log log(kernels, 1, 2, 3);
    std::vector<States> states = {fillLogs(log, {0, 0, 0}, {0, ringOf(log) - 2, 0})[1]};
    auto append = [&](int64_t count) {
      Rows<int64_t> rows = inPlace(1, count);
      rows.src = rows.dst = {1};
      const Tokens tokens = log.layer.draw(1, count);
      const std::vector<States> after =
          expectSerial(log.layer, tokens, 0, count, states.back(), log.step(rows, tokens));
      states.insert(states.end(), after.begin() + 1, after.end());
    };
    for (int64_t i = 0; i < accepted; ++i)
      append(1);
    append(T);
    const auto total = static_cast<int64_t>(states.size()) - 1;
    ASSERT_EQ(standing(log, 1).length, total);

    Materialization wanted;
    wanted.rows = total + 1;
    wanted.poolSlots = total + 4;
    for (int64_t count = 0; count <= total; ++count) {
      wanted.slots.push_back(1);
      wanted.counts.push_back(count);
      wanted.destinations.push_back(total + 3 - count);
    }
    const std::vector<States> got = log.layer.materialize(log.planner, wanted);
    for (int64_t count = 0; count <= total; ++count)
      expectStates(kernels, got[total + 3 - count], states[count],
                   "after " + std::to_string(count));
    EXPECT_TRUE(sameBits(got[total + 3], log.layer.base(1))) << "no entry: the base";
    expectStates(kernels, log.state(1), states.back(), "no count: all");
  });
}

/// Without destinations row n goes to slot n; null rows and slots out of range do nothing.
TEST(LogStates, MaterializeRows) {
  forKernels([](const LogKernels &kernels) {
    Log log(kernels, 1, 2, 4);
    const std::vector<States> states = fillLogs(log, {0, 3, 1, 2});
    expectSlots(log, states, "slot");
    Materialization wanted;
    wanted.rows = 5;
    wanted.poolSlots = 6;
    wanted.firstSlot = 1;
    wanted.slots = {3, 0, -1, 4, 2};
    wanted.destinations = {5, 4, 3, 2, 1};
    std::vector<States> got = log.layer.materialize(log.planner, wanted);
    expectStates(kernels, got[5], states[3], "slot 3");
    expectStates(kernels, got[1], states[2], "slot 2");
    wanted.rows = 2;
    wanted.slots = {3, 2};
    wanted.destinations = {0, 6}; // neither is a slot
    log.layer.materialize(log.planner, wanted);
    wanted.rows = 0;
    wanted.poolSlots = 1;
    wanted.slots = wanted.destinations = {};
    log.layer.materialize(log.planner, wanted);
  });
}

/// A merge in the last step: its tokens are all there is of the log, and are drafts still.
TEST(LogStates, MaterializeAfterAMerge) {
  forKernels([](const LogKernels &kernels) {
    const int64_t T = kernels.limits.maxTokens;
    Log log(kernels, 1, 2, 1);
    const States before = fillLogs(log, {kernels.limits.longestLog()}, {3}).front();
    const Tokens tokens = log.layer.draw(1, T);
    const std::vector<States> states =
        expectSerial(log.layer, tokens, 0, T, before, log.step(inPlace(1, T), tokens));
    ASSERT_EQ(int(log.planner.rows[0].merge), int(Merge::Before));
    for (int64_t count = 0; count <= T; ++count)
      expectStates(kernels, log.state(0, count), states[count], "after " + std::to_string(count));
  });
}
