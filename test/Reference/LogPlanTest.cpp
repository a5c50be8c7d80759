//===- LogPlanTest.cpp - What a step does to cursors, and what it refuses -===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Reference/LogPlan.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <stdexcept>
#include <string>

using namespace dl::deltalog;

static const Limits limits{16, 4, 20};

/// One row, in place in slot 2 of 4, of `tokens` tokens.
static Rows<int32_t> oneRow(int32_t tokens) {
  Rows<int32_t> rows;
  rows.count = 1;
  rows.src = rows.dst = {2};
  rows.tokens = tokens;
  return rows;
}

static std::vector<Cursor> cursorsWith(const Cursor &cursor) {
  std::vector<Cursor> cursors(4);
  cursors[2] = cursor;
  return cursors;
}

static std::string text(const Cursor &c) {
  return std::to_string(c.start) + "+" + std::to_string(c.length) + "+" +
         std::to_string(c.pending) + (c.merge == Merge::None ? "" : " merged");
}

//===----------------------------------------------------------------------===//
// When a row merges
//===----------------------------------------------------------------------===//

TEST(LogPlan, MergesWhereTheWindowWouldBeExceeded) {
  struct Case {
    int32_t history, tokens;
    Merge merge;
  };
  for (const Case &c :
       {Case{12, 4, Merge::None}, Case{13, 4, Merge::Before}, Case{13, 1, Merge::None},
        Case{15, 1, Merge::None}, Case{16, 1, Merge::Before}, Case{16, 0, Merge::None},
        Case{0, 4, Merge::None}, Case{0, 0, Merge::None}}) {
    std::vector<Cursor> cursors = cursorsWith({7, c.history, 0});
    Descriptor d = plan(limits, oneRow(c.tokens), cursors).front();
    EXPECT_EQ(d.merge, c.merge) << c.history << " " << c.tokens;
    EXPECT_EQ(d.length, c.history);
    EXPECT_EQ(d.start, 7);
    EXPECT_EQ(d.write, (7 + c.history) % 20);
  }
}

TEST(LogPlan, ALogThatCannotHoldAStepMergesBeforeEachOfThem) {
  Limits narrow{1, 16, 32};
  std::vector<Cursor> cursors(4);
  Descriptor first = plan(narrow, oneRow(16), cursors).front();
  EXPECT_EQ(first.merge, Merge::None) << "there is nothing to merge yet";
  Descriptor second = plan(narrow, oneRow(16), cursors).front();
  EXPECT_EQ(second.merge, Merge::Before);
  EXPECT_EQ(second.length, 16);
  EXPECT_EQ(second.write, 16);
  Descriptor third = plan(narrow, oneRow(1), cursors).front();
  EXPECT_EQ(third.merge, Merge::Before);
  EXPECT_EQ(third.start, 16);
  EXPECT_EQ(third.write, 0) << "positions wrap";
}

TEST(LogPlan, ZeroAcceptanceDropsDraftsAndDecidesAnew) {
  std::vector<Cursor> cursors = cursorsWith({5, 12, 0});
  Rows<int32_t> rows = oneRow(4);
  EXPECT_EQ(plan(limits, rows, cursors).front().merge, Merge::None);
  rows.accepted = {0};
  for (int32_t step = 0; step < 3; ++step) {
    Descriptor d = plan(limits, rows, cursors).front();
    EXPECT_EQ(d.merge, Merge::None);
    EXPECT_EQ(d.length, 12);
    EXPECT_EQ(d.write, 17) << "rejected drafts are overwritten";
  }
  rows.accepted = {1};
  EXPECT_EQ(plan(limits, rows, cursors).front().merge, Merge::Before);
}

TEST(LogPlan, ZeroAcceptanceAfterAMergeKeepsTheMerge) {
  std::vector<Cursor> cursors = cursorsWith({5, 13, 0});
  Rows<int32_t> rows = oneRow(4);
  EXPECT_EQ(plan(limits, rows, cursors).front().merge, Merge::Before);
  rows.accepted = {0};
  for (int32_t step = 0; step < 3; ++step) {
    Descriptor d = plan(limits, rows, cursors).front();
    EXPECT_EQ(d.merge, Merge::None) << "a merge is not done twice";
    EXPECT_EQ(d.start, 18) << "nor settled twice";
    EXPECT_EQ(d.length, 0);
    EXPECT_EQ(d.write, 18);
  }
}

TEST(LogPlan, AFlushMergesAtAnyLengthButNothing) {
  Rows<int32_t> rows = oneRow(1);
  rows.flush = {1};
  std::vector<Cursor> cursors = cursorsWith({5, 1, 0});
  EXPECT_EQ(plan(limits, rows, cursors).front().merge, Merge::Before);
  cursors = cursorsWith({5, 0, 0});
  EXPECT_EQ(plan(limits, rows, cursors).front().merge, Merge::None);
}

TEST(LogPlan, AFinalTokenThatFillsTheLogIsMergedWithIt) {
  Rows<int32_t> rows = oneRow(1);
  rows.final = true;
  std::vector<Cursor> cursors = cursorsWith({5, 14, 0});
  EXPECT_EQ(plan(limits, rows, cursors).front().merge, Merge::None);
  EXPECT_EQ(plan(limits, rows, cursors).front().merge, Merge::After);
  Descriptor d = plan(limits, rows, cursors).front();
  EXPECT_EQ(d.merge, Merge::None);
  EXPECT_EQ(d.length, 0);

  // A full log has no room for it, even if it is full for a longer step.
  cursors = cursorsWith({5, 16, 0});
  EXPECT_EQ(plan(limits, rows, cursors).front().merge, Merge::Before);
  for (int32_t length : {0, 14, 15, 16}) {
    std::vector<Cursor> longSteps = cursorsWith({5, length, 0});
    EXPECT_EQ(plan({1, 16, 32}, rows, longSteps).front().merge,
              length < 16 ? Merge::After : Merge::Before);
  }

  // Drafts can be taken back, several tokens are not one, a flush sees a base.
  cursors = cursorsWith({5, 16, 0});
  rows.final = false;
  EXPECT_EQ(plan(limits, rows, cursors).front().merge, Merge::Before);
  cursors = cursorsWith({5, 15, 0});
  rows.final = true;
  rows.tokens = 2;
  EXPECT_EQ(plan(limits, rows, cursors).front().merge, Merge::Before);
  cursors = cursorsWith({5, 15, 0});
  rows.tokens = 1;
  rows.flush = {1};
  EXPECT_EQ(plan(limits, rows, cursors).front().merge, Merge::Before);
}

//===----------------------------------------------------------------------===//
// Slots
//===----------------------------------------------------------------------===//

TEST(LogPlan, FreshRowsAndBasesReadNoCursor) {
  for (Initial initial : {Zero, BaseOnly}) {
    Rows<int32_t> rows = oneRow(3);
    rows.initial = {initial};
    rows.accepted = {2};
    std::vector<Cursor> cursors = cursorsWith({999, -7, 123456789, Merge::Before});
    Descriptor d = plan(limits, rows, cursors).front();
    EXPECT_EQ(d.fresh, initial == Zero ? 1 : 0);
    EXPECT_EQ(d.merge, initial == Zero ? Merge::Before : Merge::None);
    EXPECT_EQ(d.length, 0);
    EXPECT_EQ(d.write, 0);
    EXPECT_EQ(text(cursors[2]), "0+0+3");
  }
}

TEST(LogPlan, AMoveLeavesItsSourceForOthers) {
  Rows<int32_t> rows;
  rows.count = 2;
  rows.src = {1, 1};
  rows.dst = {3, 0};
  rows.tokens = 2;
  rows.accepted = {3, 0};
  std::vector<Cursor> cursors(4);
  cursors[1] = {18, 5, 4};
  cursors[3] = {77, 77, 77, Merge::Before};
  std::vector<Descriptor> d = plan(limits, rows, cursors);
  EXPECT_EQ(d[0].length, 8) << "each accepts what it wants";
  EXPECT_EQ(d[1].length, 5);
  for (const Descriptor &row : d) {
    EXPECT_EQ(row.merge, Merge::Before);
    EXPECT_EQ(row.start, 18);
    EXPECT_EQ(row.write, 0);
    EXPECT_EQ(text(cursors[row.dst]), "0+0+2");
  }
  EXPECT_EQ(text(cursors[1]), "18+5+4");
}

TEST(LogPlan, NullRowsTouchNothing) {
  for (int32_t firstSlot : {0, 1}) {
    Rows<int32_t> rows;
    rows.count = 5;
    rows.src = {firstSlot - 1, 3, 4, firstSlot - 1, 1};
    rows.dst = {firstSlot - 1, firstSlot - 1, 2, 2, INT32_MAX};
    rows.starts = {0, 4, 4, 5, 6, 7};
    rows.accepted = {-1, 99, 1, 1, 1};
    rows.checkpointSlots = {1, 1, 1, 1, 1};
    rows.firstSlot = firstSlot;
    std::vector<Cursor> cursors(4, Cursor{3, 2, 1});
    std::vector<Descriptor> d = plan(limits, rows, cursors);
    for (size_t row = 0; row < d.size(); ++row) {
      EXPECT_TRUE(d[row].isNull());
      EXPECT_EQ(d[row].checkpointSlot, -1);
      EXPECT_EQ(d[row].token, rows.starts[row]) << "their outputs become zero";
      EXPECT_EQ(d[row].tokens, rows.starts[row + 1] - rows.starts[row]);
    }
    for (const Cursor &cursor : cursors)
      EXPECT_EQ(text(cursor), "3+2+1");
  }
}

TEST(LogPlan, WideIndicesAreNotCutOff) {
  Rows<int64_t> rows;
  rows.count = 3;
  int64_t wide = (int64_t(1) << 32) + 2;
  rows.src = {wide, 2, wide};
  rows.dst = {wide, wide, 2};
  std::vector<Cursor> cursors(4, Cursor{3, 2, 1});
  for (const Descriptor &d : plan(limits, rows, cursors))
    EXPECT_TRUE(d.isNull());
  rows.count = 1;
  rows.src = rows.dst = {2};
  rows.accepted = {(int64_t(1) << 32)};
  EXPECT_EQ(plan(limits, rows, cursors).front().length, 3) << "clamped, not wrapped to 0";
}

TEST(LogPlan, CursorsAreClamped) {
  for (const Cursor &garbage :
       {Cursor{INT32_MIN, INT32_MIN, INT32_MIN}, Cursor{INT32_MAX, INT32_MAX, INT32_MAX},
        Cursor{INT32_MAX, INT32_MAX, INT32_MAX, Merge::Before}, Cursor{20, 17, 5, Merge::After},
        Cursor{-1, 16, 4}, Cursor{19, 16, 4, static_cast<Merge>(-7)}})
    for (int32_t tokens = 0; tokens <= 4; ++tokens) {
      std::vector<Cursor> cursors = cursorsWith(garbage);
      Descriptor d = plan(limits, oneRow(tokens), cursors).front();
      EXPECT_GE(d.start, 0);
      EXPECT_LT(d.start, 20);
      EXPECT_GE(d.length, 0);
      EXPECT_LE(d.length, 16);
      EXPECT_GE(d.write, 0);
      EXPECT_LT(d.write, 20);
    }
}

TEST(LogPlan, TokensAreNeverNegative) {
  Rows<int64_t> rows;
  rows.count = 5;
  rows.starts = {INT64_MIN, INT64_MAX, 3, 2, -1, INT64_MIN};
  std::vector<Cursor> cursors(5);
  std::vector<Descriptor> d = plan(limits, rows, cursors);
  EXPECT_EQ(d[0].token, 0);
  EXPECT_EQ(d[0].tokens, INT32_MAX);
  EXPECT_TRUE(d[0].isNull());
  for (int row : {1, 2, 3, 4}) {
    EXPECT_GE(d[row].token, 0);
    EXPECT_EQ(d[row].tokens, 0);
    EXPECT_FALSE(d[row].isNull());
  }
}

TEST(LogPlan, TooLongARowIsNull) {
  std::vector<Cursor> cursors = cursorsWith({5, 3, 1});
  Descriptor d = plan(limits, oneRow(5), cursors).front();
  EXPECT_TRUE(d.isNull());
  EXPECT_EQ(d.tokens, 5) << "their outputs become zero";
  EXPECT_EQ(text(cursors[2]), "5+3+1");
}

TEST(LogPlan, RowsNeedNoOrder) {
  Rows<int32_t> rows;
  rows.count = 4;
  rows.src = {1, 2, 2, 5};
  rows.dst = {1, 3, 4, 5};
  rows.starts = {0, 4, 5, 5, 7};
  rows.accepted = {2, 1, 4, 0};
  rows.checkpointSlots = {6, -1, 7, -1};
  rows.checkpointOffsets = {1, 0, 3, 0};
  std::vector<Cursor> before = {{},        {19, 12, 4}, {3, 14, 4, Merge::Before},
                                {9, 9, 9}, {9, 9, 9},   {0, 16, 1},
                                {9, 9, 9}, {9, 9, 9}};
  std::vector<Cursor> forward = before;
  std::vector<Descriptor> d = plan(limits, rows, forward);

  Rows<int32_t> backward = rows;
  for (auto *array : {&backward.src, &backward.dst, &backward.accepted, &backward.checkpointSlots,
                      &backward.checkpointOffsets})
    std::reverse(array->begin(), array->end());
  backward.starts = {0, 2, 2, 3, 7};
  std::vector<Cursor> cursors = before;
  std::vector<Descriptor> reversed = plan(limits, backward, cursors);
  for (size_t i = 0; i < cursors.size(); ++i)
    EXPECT_EQ(text(cursors[i]), text(forward[i])) << i;
  for (size_t i = 0; i < d.size(); ++i) {
    EXPECT_EQ(reversed[3 - i].length, d[i].length);
    EXPECT_EQ(reversed[3 - i].write, d[i].write);
    EXPECT_EQ(reversed[3 - i].checkpointCount, d[i].checkpointCount);
  }
  EXPECT_EQ(d[2].checkpointCount, 3);
}

//===----------------------------------------------------------------------===//
// Checkpoints
//===----------------------------------------------------------------------===//

TEST(LogPlan, CheckpointsAreTakenAtTheBoundaryThatWasCrossed) {
  struct Case {
    int32_t computed, accepted, block;
  };
  for (const Case &c :
       {Case{3, 2, 4}, Case{2, 3, 4}, Case{0, 4, 4}, Case{6, 4, 4}, Case{1, 1, 4}, Case{5, 4, 8},
        Case{7, 4, 8}, Case{4, 4, 8}, Case{4, 0, 4}, Case{3, 1, 4}}) {
    // The engine names the next boundary before it knows the acceptance.
    int32_t boundary = (c.computed / c.block + 1) * c.block;
    Rows<int32_t> rows = oneRow(0);
    rows.accepted = {c.accepted};
    rows.checkpointSlots = {3};
    rows.checkpointOffsets = {boundary - c.computed};
    std::vector<Cursor> cursors = cursorsWith({18, c.computed, 4});
    cursors[3] = {9, 9, 9};
    Descriptor d = plan(limits, rows, cursors).front();
    bool crossed = (c.computed + c.accepted) / c.block > c.computed / c.block;
    EXPECT_EQ(d.checkpointSlot, crossed ? 3 : -1) << c.computed << " " << c.accepted;
    EXPECT_EQ(d.checkpointCount, crossed ? boundary : -1);
    EXPECT_EQ(text(cursors[3]), crossed ? "0+0+0" : "9+9+9");
    EXPECT_EQ(text(cursors[2]), "18+" + std::to_string(c.computed + c.accepted) + "+0")
        << "the row does not move";
  }
}

TEST(LogPlan, AFinalTokenThatWasMergedMayBeABoundary) {
  for (int32_t offset : {0, 1, 2}) {
    Rows<int32_t> rows = oneRow(1);
    rows.checkpointSlots = {3};
    rows.checkpointOffsets = {offset};
    std::vector<Cursor> cursors = cursorsWith({5, 15, 1, Merge::After});
    Descriptor d = plan(limits, rows, cursors).front();
    EXPECT_EQ(d.checkpointCount, offset == 1 ? 0 : -1) << "the base itself, or nothing";
  }
}

TEST(LogPlan, CheckpointsReachBackToTheBase) {
  for (int32_t offset = -6; offset <= 3; ++offset) {
    Rows<int32_t> rows = oneRow(1);
    rows.accepted = {2};
    rows.checkpointSlots = {3};
    rows.checkpointOffsets = {offset};
    std::vector<Cursor> cursors = cursorsWith({5, 5, 3});
    Descriptor d = plan(limits, rows, cursors).front();
    EXPECT_EQ(d.checkpointCount, offset >= -5 && offset <= 2 ? 5 + offset : -1) << offset;
  }
}

//===----------------------------------------------------------------------===//
// What is refused
//===----------------------------------------------------------------------===//

static std::string complaint(const Limits &limits) {
  try {
    check(limits);
  } catch (const std::invalid_argument &error) {
    return error.what();
  }
  return "";
}

TEST(LogCheck, Limits) {
  EXPECT_EQ(complaint({16, 4, 20}), "");
  EXPECT_EQ(complaint({1, 16, 32}), "");
  EXPECT_EQ(complaint({1, 1, 2}), "");
  EXPECT_EQ(complaint({0, 4, 20}), "window: expected 1 or more, got 0");
  EXPECT_EQ(complaint({16, 17, 64}), "max-tokens: expected 1 to 16, got 17");
  EXPECT_EQ(complaint({16, 4, 19}),
            "ring: expected at least max(window, max-tokens) + max-tokens = 20, got 19");
  EXPECT_EQ(complaint({1, 16, 31}),
            "ring: expected at least max(window, max-tokens) + max-tokens = 32, got 31");
}

namespace {
/// A step that is right, to be spoilt: rows in place in slots 0 and 1, a row from
/// slot 2 to slot 3, a checkpoint of row 0 in slot 4, padding.
struct Step {
  Rows<int32_t> rows;
  std::vector<Cursor> cursors = std::vector<Cursor>(6);
  int64_t slots = 6;
  int64_t packed = 7;

  Step() {
    rows.count = 4;
    rows.src = {0, 1, 2, -1};
    rows.dst = {0, 1, 3, -1};
    rows.starts = {0, 1, 5, 7, 7};
    rows.accepted = {1, 4, 0, 1};
    rows.checkpointSlots = {4, -1, -1, -1};
    rows.checkpointOffsets = {1, 0, 0, 0};
    rows.initial = {1, 1, 1, 0};
    cursors[0] = {19, 15, 1};
    cursors[1] = {4, 16, 4, Merge::Before};
    cursors[2] = {0, 0, 2};
  }

  std::string complaint() const {
    try {
      check(limits, rows, cursors, slots, packed);
    } catch (const std::invalid_argument &error) {
      return error.what();
    }
    return "";
  }
};
} // namespace

TEST(LogCheck, AStepThatIsRight) { EXPECT_EQ(Step().complaint(), ""); }

TEST(LogCheck, LengthsOfArrays) {
  Step step;
  step.rows.accepted = {1, 4, 0};
  EXPECT_EQ(step.complaint(),
            "argument 'num_accepted_tokens': expected 4 entries for 4 rows, got 3");
  step = Step();
  step.rows.starts.push_back(7);
  EXPECT_EQ(step.complaint(), "argument 'cu_seqlens': expected 5 entries for 4 rows, got 6");
  step = Step();
  step.rows.dst = {0, 1, 3, -1, 5, 5, 5, 5};
  EXPECT_EQ(step.complaint(), "argument 'dst_slots': expected 4 entries for 4 rows, got 8");
  step = Step();
  step.cursors.clear();
  EXPECT_EQ(step.complaint(), "argument 'cursors': expected 6 entries, one per slot, got 0");
}

TEST(LogCheck, CursorsOutOfRange) {
  Step step;
  step.cursors[1].length = 17;
  EXPECT_EQ(step.complaint(), "cursors slot 1 length: expected 0 to 16, got 17");
  step = Step();
  step.cursors[1].start = 20;
  EXPECT_EQ(step.complaint(), "cursors slot 1 start: expected 0 to 19, got 20");
  step = Step();
  step.cursors[1].pending = 5;
  EXPECT_EQ(step.complaint(), "cursors slot 1 pending: expected 0 to 4, got 5");
  step = Step();
  step.cursors[1].merge = Merge::None;
  EXPECT_EQ(step.complaint(), "cursors slot 1 length + pending: expected 0 to 16, got 20");
  step.rows.initial = {1, 2, 1, 0};
  EXPECT_EQ(step.complaint(), "") << "a cursor that is not read may hold anything";
}

TEST(LogCheck, Acceptance) {
  Step step;
  step.rows.accepted = {2, 4, 0, 1};
  EXPECT_EQ(step.complaint(), "argument 'num_accepted_tokens' row 0: expected 0 to 1, got 2");
  step.rows.accepted = {-1, 4, 0, 1};
  EXPECT_EQ(step.complaint(), "argument 'num_accepted_tokens' row 0: expected 0 to 1, got -1");
  step.cursors[0].pending = 0;
  step.rows.accepted = {1, 4, 0, 99};
  step.rows.checkpointOffsets = {};
  EXPECT_EQ(step.complaint(), "") << "nothing to accept, and padding";
  step = Step();
  step.cursors[0].merge = Merge::After;
  step.rows.accepted = {0, 4, 0, 1};
  EXPECT_EQ(step.complaint(), "argument 'num_accepted_tokens' row 0: expected 1, got 0")
      << "it is in the base";
}

TEST(LogCheck, Tokens) {
  Step step;
  step.rows.starts = {0, 1, 6, 7, 7};
  EXPECT_EQ(step.complaint(), "argument 'cu_seqlens' row 1 tokens: expected 0 to 4, got 5");
  step.rows.starts = {1, 1, 5, 7, 7};
  EXPECT_EQ(step.complaint(), "argument 'cu_seqlens' entry 0: expected 0, got 1");
  step.rows.starts = {0, 4, 3, 7, 7};
  EXPECT_EQ(step.complaint(), "argument 'cu_seqlens' row 1 end: expected 4 to 7, got 3");
  step.rows.starts = {0, 1, 5, 7, 8};
  EXPECT_EQ(step.complaint(), "argument 'cu_seqlens' row 3 end: expected 7, got 8");
  step.packed = 100;
  step.rows.starts = {0, 1, 5, 7, 100};
  EXPECT_EQ(step.complaint(), "") << "padding may be of any length";
  step.rows.starts.clear();
  step.rows.tokens = 5;
  EXPECT_EQ(step.complaint(), "tokens per row: expected 0 to 4, got 5");
}

TEST(LogCheck, Slots) {
  Step step;
  step.rows.dst = {0, 1, 6, -1};
  EXPECT_EQ(step.complaint(), "argument 'dst_slots' row 2: expected a slot below 6, got 6");
  step.rows.dst = {0, 1, 1, -1};
  EXPECT_EQ(step.complaint(), "argument 'dst_slots' row 2: expected a slot of its own, got 1, "
                              "which row 1 writes too");
  step.rows.dst = {0, 1, 4, -1};
  EXPECT_EQ(step.complaint(), "argument 'dst_slots' row 2: expected a slot of its own, got 4, "
                              "which row 0 writes too");
  step = Step();
  step.rows.src = {0, 1, 1, -1};
  EXPECT_EQ(step.complaint(), "argument 'src_slots' row 2: expected a slot that no other row "
                              "writes, got 1, which row 1 writes");
  step.rows.initial = {1, 1, 0, 0};
  EXPECT_EQ(step.complaint(), "") << "a fresh row does not read its source";
  step = Step();
  step.rows.src = {0, 2, 2, -1};
  EXPECT_EQ(step.complaint(), "argument 'num_accepted_tokens' row 1: expected 0 to 2, got 4");
  step.rows.accepted = {1, 2, 0, 1};
  EXPECT_EQ(step.complaint(), "") << "rows may share a source";
  step = Step();
  step.rows.initial = {1, 1, 3, 0};
  EXPECT_EQ(step.complaint(), "argument 'initial_state' row 2: expected 0 to 2, got 3");
}

TEST(LogCheck, Checkpoints) {
  Step step;
  step.rows.checkpointSlots = {0, -1, -1, -1};
  EXPECT_EQ(step.complaint(), "argument 'checkpoint_slots' row 0: expected a slot of its own, "
                              "got 0, which row 0 writes too");
  step.rows.checkpointSlots = {2, -1, -1, -1};
  EXPECT_EQ(step.complaint(), "argument 'src_slots' row 2: expected a slot that no other row "
                              "writes, got 2, which row 0 writes");
  step = Step();
  step.rows.checkpointSlots = {-1, -1, 2, -1};
  EXPECT_EQ(step.complaint(), "argument 'src_slots' row 2: expected a slot that no other row "
                              "writes, got 2, which row 2 writes");
  step = Step();
  step.rows.checkpointOffsets = {99, 0, 0, 0};
  EXPECT_EQ(step.complaint(), "") << "it will be reached one day";
  step.rows.checkpointOffsets = {-16, 0, 0, 0};
  EXPECT_EQ(step.complaint(), "argument 'checkpoint_offsets' row 0: expected -15 or more: the rest "
                              "is merged, got -16");
  step.rows.checkpointOffsets = {0, 0, 0, 0};
  step.rows.initial = {0, 1, 1, 0};
  EXPECT_EQ(step.complaint(), "argument 'checkpoint_slots' row 0: expected none in a row that "
                              "starts from zero, got 4");
}
