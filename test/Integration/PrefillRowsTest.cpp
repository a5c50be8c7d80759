//===- PrefillRowsTest.cpp - Which tokens and states the rows of a prefill have ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rows one behind the other that begin anywhere, so that pieces of C tokens of all rows together
// belong to two rows; rows without tokens, null rows, rows that start from zeros; where states are
// read and written; what surrounds them in memory.
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Prefill.h"

#include <cmath>

using namespace dl::test;

static Problem packed(const Operator &op, const std::string &layout,
                      const std::vector<int64_t> &lengths, int64_t behind = 0) {
  return packRows(op, {1, 0, 1, 2, 32, 32}, layout, lengths, behind);
}

//===----------------------------------------------------------------------===//
// Rows one behind the other
//===----------------------------------------------------------------------===//

/// Each equals its own run to the last bit, and a row without tokens keeps its state.
TEST(PrefillRows, EachEqualsItsOwnRunR013R017R075) {
  forForms({"gdn", "kda", "rwkv6"}, [](const Operator &op, const std::string &layout) {
    for (const std::vector<int64_t> &lengths : {std::vector<int64_t>{37, 64, 29, 1},
                                                {0, 33, 0},
                                                {0, 0, 5, 0},
                                                {1, 1, 1, 1, 40},
                                                {31, 1, 32, 0, 1, 16},
                                                {70}}) {
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

/// A slot other than the start's gets the state of a row without tokens.
TEST(PrefillRows, AnEmptyRowMovesItsState) {
  forForms({"gdn", "kda", "rwkv6"}, [](const Operator &op, const std::string &layout) {
    Problem problem = packed(op, layout, {20, 0, 1});
    problem.pool = makeProblem(op, {1, 1, 1, 2, 32, 32}, layout, 3, 6).pool;
    problem.sources = {0, 1, 2};
    problem.destinations = {3, 4, 5};
    problem.hasState = {1, 1, 0};
    launchAndCheck(problem);
    problem.hasState = {0, 0, 1}; // zeros are moved too
    launchAndCheck(problem);
  });
}

/// Tokens behind the last row: NaN comes from none, and their outputs stay as they were, which
/// `launch` looks at.
TEST(PrefillRows, TokensBehindTheLastRowR019) {
  forForms({"gdn", "kda", "rwkv6"}, [](const Operator &op, const std::string &layout) {
    Problem problem = packed(op, layout, {18, 25}, /*behind=*/30);
    fillTokens(problem, 43, 73, NAN);
    launchAndCheck(problem);
  });
}

TEST(PrefillRows, NanStaysInItsRowR021) {
  forForms({"gdn", "kda", "rwkv6"}, [](const Operator &op, const std::string &layout) {
    const Problem clean = packed(op, layout, {63, 65, 1, 47});
    Problem problem = clean;
    fillTokens(problem, 63, 128, NAN); // row 1
    const int64_t slot = int64_t(2) * 32 * 32;
    std::fill_n(&problem.pool.values()[slot], slot, NAN);
    const Outcome want = launch(clean), got = launch(problem);
    ASSERT_EQ(got.status, DLK_OK) << got.message;
    for (size_t i = 0; i < got.o.values().size(); ++i)
      if (const int64_t t = i / (2 * 32); t < 63 || t >= 128)
        ASSERT_EQ(got.o.values()[i], want.o.values()[i]) << "token " << t;
    for (size_t i = 0; i < got.pool.values().size(); ++i)
      if (i / slot != 1)
        ASSERT_EQ(got.pool.values()[i], want.pool.values()[i]) << "slot " << i / slot;
  });
}

TEST(PrefillRows, ALongRowBesideManyShortOnesR022) {
  forPrefills([](const Operator &op, const std::string &layout) {
    for (size_t place : {0, 16}) {
      std::vector<int64_t> lengths(17, 1);
      lengths[place] = 100;
      launchAndCheck(packed(op, layout, lengths));
    }
  });
}

TEST(PrefillRows, NoTokensAtAllR037) {
  forForms({"gdn", "kda", "rwkv6"}, [](const Operator &op, const std::string &layout) {
    Problem problem = packed(op, layout, {0, 0, 0});
    launchAndCheck(problem);
    problem = packed(op, layout, {0, 0, 0}, /*behind=*/20);
    launchAndCheck(problem);
    problem.starts = {0};
    launchAndCheck(problem);
  });
}

/// Numbers in device memory that no caller should write: the kernels stay inside their tensors.
TEST(PrefillRows, BadNumbersStayInsideTheTensorsR018) {
  forForms({"gdn", "kda", "rwkv6"}, [](const Operator &op, const std::string &layout) {
    const Problem problem = packed(op, layout, {40, 40});
    for (const std::vector<int64_t> &starts : {std::vector<int64_t>{0, 40, 90},
                                               {0, 40, INT32_MAX},
                                               {0, 90, 40},
                                               {80, 0, 80},
                                               {1, 40, 80},
                                               {-30, 40, 80},
                                               {0, 40, INT32_MIN},
                                               {INT32_MIN, INT32_MIN, INT32_MAX},
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

//===----------------------------------------------------------------------===//
// Where states are
//===----------------------------------------------------------------------===//

/// The state of a row that starts from zeros is not read: it holds NaN.
TEST(PrefillRows, FreshRowsReadNoStateR032) {
  forForms({"gdn", "kda", "rwkv6"}, [](const Operator &op, const std::string &layout) {
    for (int64_t T : {1, 40}) {
      Problem problem = makeProblem(op, {3, T, 1, 2, 32, 32}, layout);
      problem.hasState = {1, 0, 1};
      const int64_t slot = int64_t(2) * 32 * 32;
      std::fill_n(&problem.pool.values()[slot], slot, NAN);
      Problem zeros = problem;
      zeros.hasState.clear();
      std::fill_n(&zeros.pool.values()[slot], slot, 0);
      const Outcome got = launch(problem), want = launch(zeros);
      check(zeros, want);
      ASSERT_EQ(got.status, DLK_OK) << got.message;
      EXPECT_TRUE(sameBits(got.o, want.o) && sameBits(got.pool, want.pool));
    }
  });
}

/// Null rows write zeros to outputs and nothing else; slots past the pool are null too.
TEST(PrefillRows, NullRowsTouchNothingR033R034) {
  forForms({"gdn", "kda", "rwkv6"}, [](const Operator &op, const std::string &layout) {
    Problem problem = packed(op, layout, {20, 33, 0, 1, 17});
    problem.pool = makeProblem(op, {1, 1, 1, 2, 32, 32}, layout, 3, 6).pool;
    problem.sources = problem.destinations = {4, -1, 2, 1000, 1};
    launchAndCheck(problem);
    problem.hasState = {0, 0, 1, 1, 1};
    launchAndCheck(problem);
    problem.destinations = {-1, 3, 2, INT32_MAX, 0}; // the source is null, or the destination
    launchAndCheck(problem);
    problem.sources = {0, 1, 2, 3, 4};
    problem.destinations.clear();
    problem.firstSlot = 1;
    launchAndCheck(problem);
  });
}

/// Rows that share a source, slots that are moved, pools apart and in place.
TEST(PrefillRows, SourceAndDestinationSlotsR038) {
  forForms({"gdn", "kda", "rwkv6"}, [](const Operator &op, const std::string &layout) {
    for (int64_t B : {2, 3}) {
      Problem problem = makeProblem(op, {B, 33, 1, 2, 32, 32}, layout, 1, 6);
      problem.sources = {4, 4, 1};
      problem.destinations = {2, 3, 0};
      problem.sources.resize(B);
      problem.destinations.resize(B);
      for (bool inPlace : {true, false})
        for (int64_t padding : {0, 1, 3}) {
          LaunchOptions options;
          options.inPlace = inPlace;
          options.padding = padding;
          launchAndCheck(problem, options);
        }
    }
  });
}

/// A prefill keeps a row's last state alone.
TEST(PrefillRows, AStatePerTokenIsRefused) {
  Problem problem = makeProblem(prefillOf("gdn"), {2, 3, 1, 2, 32, 32}, "kv", 1, 6);
  problem.destinations = {0, 1, 2, 3, 4, 5};
  expectRefused(problem, {}, DLK_UNSUPPORTED, "dst_slots must have one column");
}

/// The last accepted draft's slot is the source, as for decode.
TEST(PrefillRows, SourcesFromAcceptedDrafts) {
  forPrefills([](const Operator &op, const std::string &layout) {
    Problem problem = makeProblem(op, {3, 20, 1, 2, 32, 32}, layout, 1, 9);
    problem.sources = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    problem.destinations = {2, 3, 7};
    problem.accepted = {3, 0, 2};
    launchAndCheck(problem);
  });
}

/// The same bits whatever the type of slot numbers.
TEST(PrefillRows, WideSlotNumbersChangeNothingR039) {
  for (const char *name : {"gdn", "kda", "rwkv6"}) {
    Problem problem = packed(prefillOf(name), "kv", {20, 33, 0});
    problem.sources = problem.destinations = {2, 1, 0};
    Problem wide = problem;
    wide.op.package += "-i64";
    const Outcome a = launch(problem), b = launch(wide);
    check(problem, a);
    ASSERT_EQ(b.status, DLK_OK) << b.message;
    EXPECT_TRUE(sameBits(a.o, b.o) && sameBits(a.pool, b.pool));
    wide.sources = {int64_t(1) << 32, 1, 0}; // null, not cut off
    launchAndCheck(wide);
    LaunchOptions options;
    for (const std::vector<int64_t> &starts :
         {std::vector<int64_t>{0, 20, (int64_t(1) << 32) + 53, 53},
          {-(int64_t(1) << 32), 20, 53, 53}}) {
      options.change = [&](std::vector<Argument> &arguments) {
        for (size_t i = 0; i < starts.size(); ++i)
          find(arguments, "cu_seqlens").set(i, double(starts[i]));
      };
      EXPECT_EQ(launch(wide, options).status, DLK_OK);
    }
  }
}

//===----------------------------------------------------------------------===//
// The workspace
//===----------------------------------------------------------------------===//

/// As many bytes as its shape says are enough, and a shape of fewer chunks is refused.
TEST(PrefillRows, AWorkspaceOfFewerChunksIsRefused) {
  const Problem problem = packed(prefillOf("gdn"), "kv", {40, 40});
  LaunchOptions options;
  options.change = [](std::vector<Argument> &arguments) {
    --find(arguments, "workspace").shape[0];
  };
  expectRefused(problem, options, DLK_INVALID_ARGUMENT, "'workspace'");
  options.change = [](std::vector<Argument> &arguments) {
    find(arguments, "workspace").isAbsent = true;
  };
  expectRefused(problem, options, DLK_INVALID_ARGUMENT, "'workspace'");
}
