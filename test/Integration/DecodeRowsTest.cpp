//===- DecodeRowsTest.cpp - Which tokens and states the rows of a launch have ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows one behind the other (cu_seqlens), rows that start from zeros, from one of several slots
// (accepted drafts), and that keep the state after every token.
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Decode.h"

#include <cmath>

using namespace dl::test;

static Problem packed(const Operator &op, const std::string &layout,
                      const std::vector<int64_t> &lengths, int64_t behind = 0) {
  return packRows(op, {1, 0, 2, 4, 64, 64}, layout, lengths, behind);
}

//===----------------------------------------------------------------------===//
// Rows one behind the other
//===----------------------------------------------------------------------===//

/// Each equals its own run to the last bit, and a row without tokens keeps its state.
TEST(DecodeRows, EachEqualsItsOwnRunR013R017) {
  forOperators([](const Operator &op, const std::string &layout) {
    for (const std::vector<int64_t> &lengths :
         {std::vector<int64_t>{0, 3, 0}, {0, 0, 5, 0}, {0, 1, 4, 2}, {3}, {1, 1, 1, 1}}) {
      const Problem problem = packed(op, layout, lengths);
      for (bool inPlace : {true, false}) {
        LaunchOptions options;
        options.inPlace = inPlace;
        const Outcome got = launch(problem, options);
        check(problem, got);
        for (size_t row = 0; row < lengths.size(); ++row)
          if (lengths[row])
            expectSameRow(problem, row, got, launch(rowOf(problem, row)), row);
      }
    }
  });
}

TEST(DecodeRows, PackedOrAsABatch) {
  forOperators([](const Operator &op, const std::string &layout) {
    const Problem batch = makeProblem(op, {3, 2, 2, 4, 64, 64}, layout);
    const Outcome a = launch(batch), b = launch(joinRows(batch));
    ASSERT_EQ(b.status, DLK_OK) << b.message;
    EXPECT_EQ(a.o.values(), b.o.values());
    EXPECT_TRUE(sameBits(a.pool, b.pool));
  });
}

/// A slot other than the start's gets the state of a row without tokens.
TEST(DecodeRows, AnEmptyRowMovesItsState) {
  forOperators([](const Operator &op, const std::string &layout) {
    Problem problem = packed(op, layout, {2, 0, 1});
    problem.pool = makeProblem(op, {1, 1, 2, 4, 64, 64}, layout, 3, 6).pool;
    problem.sources = {0, 1, 2};
    problem.destinations = {3, 4, 5};
    launchAndCheck(problem);
  });
}

/// Tokens behind the last row: NaN comes from none, and their outputs stay as they were, which
/// `launch` looks at.
TEST(DecodeRows, TokensBehindTheLastRowR019) {
  forOperators([](const Operator &op, const std::string &layout) {
    Problem problem = packed(op, layout, {4, 3}, /*behind=*/5);
    fillTokens(problem, 7, 12, NAN);
    launchAndCheck(problem);
  });
}

TEST(DecodeRows, NanStaysInItsRowR021) {
  forOperators([](const Operator &op, const std::string &layout) {
    const Problem clean = packed(op, layout, {2, 3, 1, 4});
    Problem problem = clean;
    fillTokens(problem, 2, 5, NAN); // row 1
    const int64_t slot = 4 * 64 * 64;
    std::fill_n(&problem.pool.values()[slot], slot, NAN);
    const Outcome want = launch(clean), got = launch(problem);
    ASSERT_EQ(got.status, DLK_OK) << got.message;
    for (size_t i = 0; i < got.o.values().size(); ++i)
      if (const int64_t t = i / (4 * 64); t < 2 || t >= 5)
        ASSERT_EQ(got.o.values()[i], want.o.values()[i]) << "token " << t;
    for (size_t i = 0; i < got.pool.values().size(); ++i)
      if (i / slot != 1)
        ASSERT_EQ(got.pool.values()[i], want.pool.values()[i]) << "slot " << i / slot;
  });
}

TEST(DecodeRows, ALongRowBesideManyShortOnesR022) {
  forOperators([](const Operator &op, const std::string &layout) {
    std::vector<int64_t> lengths(17, 1);
    for (size_t place : {0, 16}) {
      lengths.assign(17, 1);
      lengths[place] = 70;
      launchAndCheck(packed(op, layout, lengths));
    }
  });
}

TEST(DecodeRows, NoTokensAtAllR037) {
  forOperators([](const Operator &op, const std::string &layout) {
    // Rows without tokens in a buffer without tokens, then no rows.
    Problem problem = packed(op, layout, {0, 0, 0});
    launchAndCheck(problem);
    problem.starts = {0};
    launchAndCheck(problem);
  });
}

/// Numbers in device memory that no caller should write: the kernel stays inside its tensors.
TEST(DecodeRows, BadNumbersStayInsideTheTensorsR018) {
  forOperators([](const Operator &op, const std::string &layout) {
    const Problem problem = packed(op, layout, {4, 4});
    for (const std::vector<int64_t> &starts : {std::vector<int64_t>{0, 4, 9},
                                               {0, 4, INT32_MAX},
                                               {0, 9, 4},
                                               {1, 4, 8},
                                               {-3, 4, 8},
                                               {0, 4, INT32_MIN},
                                               {INT32_MAX, INT32_MAX, INT32_MAX}}) {
      SCOPED_TRACE(std::to_string(starts[0]) + " " + std::to_string(starts[1]) + " " +
                   std::to_string(starts[2]));
      LaunchOptions options;
      options.change = [&](std::vector<Argument> &arguments) {
        for (size_t i = 0; i < starts.size(); ++i)
          find(arguments, "cu_seqlens").set(i, double(starts[i]));
      };
      EXPECT_EQ(launch(problem, options).status, DLK_OK); // guards and padding are looked at there
      options.flags = DLK_PLAN_CHECKED;
      expectRefused(problem, options, DLK_INVALID_ARGUMENT, "'cu_seqlens'");
    }
  });
}

/// The same for numbers of which 32 bits would look like tokens.
TEST(DecodeRows, WideBadNumbersStayInsideTheTensorsR018) {
  const int64_t cut = int64_t(1) << 32;
  for (const Operator &op : shippedOperators()) {
    Problem problem = packed(op, "kv", {4, 4});
    problem.op.package += "-i64";
    for (const std::vector<int64_t> &starts : {std::vector<int64_t>{0, 4, 100 - cut},
                                               {0, 4, cut + 100},
                                               {2 - cut, 4, 8},
                                               {0, 2 * cut, 2 * cut + 4}}) {
      LaunchOptions options;
      options.change = [&](std::vector<Argument> &arguments) {
        for (size_t i = 0; i < starts.size(); ++i)
          find(arguments, "cu_seqlens").set(i, double(starts[i]));
      };
      EXPECT_EQ(launch(problem, options).status, DLK_OK);
    }
  }
}

TEST(DecodeRows, PackedRowsNeedABatchOfOne) {
  Problem problem = makeProblem(operatorOf("gdn"), {2, 3, 2, 4, 64, 64}, "kv");
  problem.starts = {0, 1, 3};
  expectRefused(problem, {}, DLK_INVALID_ARGUMENT, "expected B = 1");
}

//===----------------------------------------------------------------------===//
// Where rows start
//===----------------------------------------------------------------------===//

/// The state of a row that starts from zeros is not read: it holds NaN.
TEST(DecodeRows, FreshRowsReadNoStateR032) {
  forOperators([](const Operator &op, const std::string &layout) {
    for (int64_t T : {1, 3}) {
      Problem problem = makeProblem(op, {3, T, 2, 4, 64, 64}, layout);
      problem.hasState = {1, 0, 1};
      const int64_t slot = 4 * 64 * 64;
      std::fill_n(&problem.pool.values()[slot], slot, NAN);
      Problem zeros = problem;
      zeros.hasState.clear();
      std::fill_n(&zeros.pool.values()[slot], slot, 0);
      const Outcome got = launch(problem), want = launch(zeros);
      ASSERT_EQ(got.status, DLK_OK) << got.message;
      EXPECT_TRUE(sameBits(got.o, want.o) && sameBits(got.pool, want.pool));
    }
  });
}

TEST(DecodeRows, FreshRowsMayBeNull) {
  forOperators([](const Operator &op, const std::string &layout) {
    Problem problem = makeProblem(op, {3, 2, 2, 4, 64, 64}, layout);
    problem.hasState = {0, 0, 1};
    problem.sources = problem.destinations = {1, -1, 0};
    launchAndCheck(problem);
  });
}

/// Three windows of four drafts; the number of accepted ones says where the next begins. One drafts
/// array serves as source and destination.
TEST(DecodeRows, WindowsFromAcceptedDraftsR059) {
  forOperators([](const Operator &op, const std::string &layout) {
    for (int64_t last : {1, 2, 3, 4}) {
      SCOPED_TRACE("accepted " + std::to_string(last));
      Problem problem = makeProblem(op, {2, 4, 2, 4, 64, 64}, layout, 1, 8);
      problem.sources = problem.destinations = {3, 1, 0, 2, 7, 5, 6, 4};
      problem.accepted = {1, last};
      Tensor pool = problem.pool;
      for (uint64_t window = 1; window <= 3; ++window) {
        const Problem drafts = makeProblem(op, {2, 4, 2, 4, 64, 64}, layout, window, 8);
        problem.tensors = drafts.tensors;
        problem.pool = pool;
        const Outcome got = launch(problem);
        check(problem, got);
        pool = got.pool;
        problem.accepted = {last, int64_t(window)};
      }
    }
  });
}

/// What a window leaves in slot t is, to the last bit, what t + 1 single steps leave.
TEST(DecodeRows, KeptStatesAreThoseOfSingleSteps) {
  forOperators([](const Operator &op, const std::string &layout) {
    Problem window = makeProblem(op, {2, 3, 2, 4, 64, 64}, layout, 1, 8);
    window.sources = {6, 7};
    window.destinations = {0, 1, 2, 3, 4, 5};
    const Outcome got = launch(window);
    check(window, got);
    const int64_t state = 4 * 64 * 64;
    for (int64_t row : {0, 1}) {
      Problem rest = rowOf(window, row);
      for (int64_t t = 0; t < 3; ++t) {
        Problem one = tokensOf(rest, t, 1);
        const Outcome step = launch(one);
        ASSERT_EQ(step.status, DLK_OK) << step.message;
        for (int64_t i = 0; i < state; ++i)
          ASSERT_EQ(got.pool.values()[(row * 3 + t) * state + i], step.pool.values()[i]);
        rest.pool = step.pool;
      }
    }
  });
}

/// 0 counts as 1, and numbers past the array as its last entry.
TEST(DecodeRows, AcceptedIsClampedR058) {
  forOperators([](const Operator &op, const std::string &layout) {
    Problem problem = makeProblem(op, {4, 4, 2, 4, 64, 64}, layout, 1, 16);
    for (int64_t i = 0; i < 16; ++i)
      problem.sources.push_back(15 - i);
    problem.destinations = problem.sources;
    problem.accepted = {0, 1, 4, 5};
    launchAndCheck(problem);
    problem.accepted = {-7, 2, 3, INT32_MAX};
    launchAndCheck(problem);
    LaunchOptions options;
    options.flags = DLK_PLAN_CHECKED;
    expectRefused(problem, options, DLK_INVALID_ARGUMENT, "'num_accepted_tokens' row 0");
  });
}

/// Freed rows, and slots in any order; entries that keep nothing.
TEST(DecodeRows, FreedRowsTouchNothingR060) {
  forOperators([](const Operator &op, const std::string &layout) {
    Problem problem = makeProblem(op, {8, 2, 2, 4, 64, 64}, layout, 1, 9);
    problem.sources = {7, 3, -1, 0, 5, -1, 1, 2};
    problem.destinations = problem.sources;
    launchAndCheck(problem);
    // The same with a slot per token: row 0 keeps the second state, row 1 both.
    problem.destinations.clear();
    for (int64_t row = 0; row < 8; ++row)
      for (int64_t t = 0; t < 2; ++t)
        problem.destinations.push_back(row == 0 && t == 1   ? 8
                                       : row == 1 && t == 0 ? 3
                                       : row == 1           ? 4
                                                            : -1);
    launchAndCheck(problem);
  });
}

/// Windows of different lengths in one launch.
TEST(DecodeRows, WindowsOfDifferentLengthsR061) {
  forOperators([](const Operator &op, const std::string &layout) {
    Problem problem = packed(op, layout, {4, 1, 3}, /*behind=*/4);
    fillTokens(problem, 8, 12, NAN);
    problem.pool = makeProblem(op, {1, 1, 2, 4, 64, 64}, layout, 2, 12).pool;
    for (int64_t i = 0; i < 12; ++i)
      problem.sources.push_back((i * 5 + 3) % 12);
    problem.destinations = problem.sources;
    problem.accepted = {2, 4, 1};
    launchAndCheck(problem);
  });
}

/// Arrays of another number of rows are refused, with both lengths.
TEST(DecodeRows, ArraysOfAnotherLengthR062) {
  const Problem problem = packed(operatorOf("gdn"), "kv", {2, 2, 2});
  for (int64_t rows : {2, 4}) {
    Problem bad = problem;
    bad.hasState = {1, 1, 1};
    LaunchOptions options;
    options.change = [&](std::vector<Argument> &arguments) {
      Argument &flags = find(arguments, "has_initial_state");
      flags.shape[0] = rows;
    };
    expectRefused(bad, options, DLK_INVALID_ARGUMENT, "expected N = 3");
    options.change = [&](std::vector<Argument> &arguments) {
      Argument &slots = find(arguments, "src_slots");
      slots.isAbsent = false;
      slots.shape = {rows, 1};
    };
    expectRefused(problem, options, DLK_INVALID_ARGUMENT,
                  "'cu_seqlens' dimension 0: expected (N+1) = " + std::to_string(rows + 1) +
                      " as in 'src_slots', got 4");
  }
}

/// Slots past the pool are null too; a checked plan says so.
TEST(DecodeRows, SlotsPastThePoolAreNull) {
  forOperators([](const Operator &op, const std::string &layout) {
    for (int64_t slot : {int64_t(3), int64_t(1000), int64_t(INT32_MAX)}) {
      Problem problem = makeProblem(op, {3, 2, 2, 4, 64, 64}, layout);
      problem.sources = problem.destinations = {0, slot, 2};
      launchAndCheck(problem);
      problem.sources = {0, 1, 2};
      launchAndCheck(problem);
      LaunchOptions options;
      options.flags = DLK_PLAN_CHECKED;
      expectRefused(problem, options, DLK_INVALID_ARGUMENT, "expected a slot below 3");
    }
  });
}

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

TEST(DecodeRows, TypesOfStatesArgumentsAndSlotsR031R039R085R102) {
  for (const Operator &op : typeVariants())
    for (const char *layout : {"kv", "vk"}) {
      SCOPED_TRACE(op.package + " " + layout);
      Problem problem = makeProblem(op, {3, 3, 2, 4, 64, 64}, layout, 1, 9);
      problem.sources = {0, 3, 6};
      problem.destinations = {0, 1, 2, 3, 4, 5, 6, 7, -1};
      launchAndCheck(problem);
      problem.destinations = {0, -1, 6};
      problem.hasState = {1, 1, 0};
      launchAndCheck(problem);
      Problem rows = packed(op, layout, {0, 4, 2}, 1);
      rows.accepted = {1, 1, 1};
      launchAndCheck(rows);
    }
}

/// The same bits whatever the type of slot numbers.
TEST(DecodeRows, WideSlotNumbersChangeNothingR039) {
  for (const Operator &op : shippedOperators()) {
    Problem problem = makeProblem(op, {2, 2, 2, 4, 64, 64}, "kv", 1, 4);
    problem.sources = {3, 1};
    problem.destinations = {0, 1};
    Problem wide = problem;
    wide.op.package += "-i64";
    const Outcome a = launch(problem), b = launch(wide);
    ASSERT_EQ(b.status, DLK_OK) << b.message;
    EXPECT_TRUE(sameBits(a.o, b.o) && sameBits(a.pool, b.pool));
    // Beyond 32 bits a number is null, not cut off.
    wide.sources = {int64_t(1) << 32, 1};
    launchAndCheck(wide);
    wide.sources = {INT64_MIN, 1};
    launchAndCheck(wide);
  }
}
