//===- PrefillPartsTest.cpp - A prefill in several parts is the same as in one ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The packages OPERATOR-parts take four blocks for enough to be a part, so that a few chunks are
// up to four of them; those without the suffix need 2048. A state goes from part to part in f32:
// not a bit may differ, whatever the type of states in the pool. The workspace, which is NaN before
// each launch, holds two parts.
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Prefill.h"

#include <cmath>

using namespace dl::test;

/// Tokens of a chunk.
static int64_t chunkOf(const Operator &op) { return op.kind == Operator::RWKV7 ? 16 : 32; }

/// f(operator, layout) for packages in parts. Layouts take turns.
template <typename Function> static void forParts(Function f) {
  bool isOdd = false;
  for (const char *name : {"gdn-parts", "kda-parts", "rwkv6-parts", "rwkv7-parts"})
    for (int i = 0; i < 2; ++i) {
      const std::string layout = (isOdd = !isOdd) ? "kv" : "vk";
      SCOPED_TRACE(std::string(name) + " " + layout);
      f(prefillOf(name), layout);
    }
}

/// The same bits as in one part; `minParts`: that there are so many, at least.
static Outcome expectSameInOnePart(const Problem &problem, const LaunchOptions &options = {},
                                   int64_t minParts = 3) {
  Problem whole = problem;
  whole.op.package.erase(whole.op.package.rfind("-parts"));
  const Outcome want = launch(whole, options);
  Prepared prepared(problem, options);
  const int64_t held = find(prepared.arguments, "workspace").shape[0],
                chunks = problem.n.B * problem.n.T / chunkOf(problem.op) + problem.rows();
  EXPECT_GE(2 * chunks, minParts * held) << "not cut into parts";
  prepared.launch();
  const Outcome got = prepared.collect();
  EXPECT_EQ(want.status, DLK_OK) << want.message;
  EXPECT_EQ(got.status, DLK_OK) << got.message;
  EXPECT_TRUE(sameBits(got.o, want.o)) << "outputs";
  EXPECT_TRUE(sameBits(got.pool, want.pool)) << "states";
  return got;
}

static Problem packed(const Operator &op, const std::string &layout,
                      const std::vector<int64_t> &lengths, int64_t behind = 0) {
  return packRows(op, {1, 0, 1, 2, 32, 32}, layout, lengths, behind);
}

/// A row that all parts walk, and rows of a batch that begin within chunks.
TEST(PrefillParts, Batches) {
  forParts([](const Operator &op, const std::string &layout) {
    const int64_t C = chunkOf(op);
    for (auto [B, T] :
         {std::pair<int64_t, int64_t>{1, 9 * C}, {1, 8 * C - 1}, {3, 2 * C + 7}, {7, 5}})
      check(makeProblem(op, {B, T, 1, 2, 32, 32}, layout),
            expectSameInOnePart(makeProblem(op, {B, T, 1, 2, 32, 32}, layout)));
  });
}

/// Rows that begin and end anywhere, some in a part of their own, some in several.
TEST(PrefillParts, PackedRows) {
  forParts([](const Operator &op, const std::string &layout) {
    const int64_t C = chunkOf(op);
    for (const std::vector<int64_t> &lengths :
         {std::vector<int64_t>{C + 5, 3 * C - 1, 7, 2 * C + 1, C},
          {1, 1, 8 * C, 1, 1},
          {C, C, C, C, C, C, C, C},
          {5 * C + 3, 4 * C - 3}})
      for (bool inPlace : {true, false}) {
        LaunchOptions options;
        options.inPlace = inPlace;
        const Problem problem = packed(op, layout, lengths, /*behind=*/inPlace ? 0 : 20);
        check(problem, expectSameInOnePart(problem, options));
      }
  });
}

/// Rows without tokens move their state in the part where they would begin: with so many before a
/// long row, and behind it, one of them is the first or the last chunk of a part in some run.
TEST(PrefillParts, RowsWithoutTokensAtBoundaries) {
  forParts([](const Operator &op, const std::string &layout) {
    const int64_t C = chunkOf(op);
    for (size_t before = 0; before < 5; ++before) {
      std::vector<int64_t> lengths(before, 0);
      lengths.insert(lengths.end(), {2 * C, 0, 2 * C + 1, 0, 0, C, 0});
      Problem problem = packed(op, layout, lengths);
      const auto rows = int64_t(lengths.size());
      problem.pool = makeProblem(op, {1, 1, 1, 2, 32, 32}, layout, 3, 2 * rows).pool;
      for (int64_t row = 0; row < rows; ++row) {
        problem.sources.push_back(row);
        problem.destinations.push_back(2 * rows - 1 - row);
        problem.hasState.push_back(row % 3 != 1);
      }
      check(problem, expectSameInOnePart(problem));
    }
  });
}

/// Null rows, some of them of several parts, write zeros in each and hand over nothing; rows that
/// start from zeros do so in their first part alone.
TEST(PrefillParts, NullRowsAndRowsFromZeros) {
  forParts([](const Operator &op, const std::string &layout) {
    const int64_t C = chunkOf(op);
    Problem problem = packed(op, layout, {3 * C + 1, 3 * C, 0, C - 1, 3 * C});
    problem.pool = makeProblem(op, {1, 1, 1, 2, 32, 32}, layout, 3, 6).pool;
    problem.sources = problem.destinations = {4, -1, 1000, 2, 1};
    check(problem, expectSameInOnePart(problem));
    problem.sources = problem.destinations = {-1, 3, 2, -1, 5};
    problem.hasState = {1, 0, 0, 1, 0};
    const Problem zeros = problem;
    std::fill_n(&problem.pool.values()[3 * 2 * 32 * 32], 2 * 32 * 32, NAN); // is not read
    check(zeros, expectSameInOnePart(problem));
    problem = zeros;
    problem.sources = problem.destinations = {-1, -1, -1, -1, -1};
    check(problem, expectSameInOnePart(problem));
  });
}

/// No state is rounded on its way from part to part.
TEST(PrefillParts, NarrowStatesAreHandedOverWide) {
  for (const char *layout : {"kv", "vk"}) {
    const Operator op = prefillOf("gdn-state16-parts");
    check(makeProblem(op, {1, 300, 1, 2, 32, 32}, layout),
          expectSameInOnePart(makeProblem(op, {1, 300, 1, 2, 32, 32}, layout)));
    const Problem rows = packed(op, layout, {100, 3, 150, 0, 64});
    check(rows, expectSameInOnePart(rows));
  }
}

/// Two blocks walk a row: each hands its columns over.
TEST(PrefillParts, TilesOfV) {
  for (const char *layout : {"kv", "vk"}) {
    const Problem problem =
        packRows(prefillOf("gdn-parts"), {1, 0, 1, 2, 128, 128}, layout, {150, 0, 129});
    check(problem, expectSameInOnePart(problem));
  }
}

/// What the workspace holds from the launch before does not matter.
TEST(PrefillParts, AgainTheSame) {
  forParts([](const Operator &op, const std::string &layout) {
    const Problem problem = packed(op, layout, {130, 0, 75, 90});
    const Outcome first = launch(problem);
    LaunchOptions options;
    options.inPlace = false; // else a launch goes on from the one before
    Prepared again(problem, options);
    for (int i = 0; i < 2; ++i) {
      again.launch();
      const Outcome got = again.collect();
      EXPECT_TRUE(sameBits(got.o, first.o) && sameBits(got.pool, first.pool));
    }
  });
}

/// Numbers in device memory that no caller should write: the kernels stay inside their tensors.
TEST(PrefillParts, BadNumbersStayInsideTheTensorsR018) {
  forParts([](const Operator &op, const std::string &layout) {
    const Problem problem = packed(op, layout, {150, 150});
    for (const std::vector<int64_t> &starts : {std::vector<int64_t>{0, 150, 400},
                                               {0, 290, 40},
                                               {300, 0, 300},
                                               {-30, 150, 300},
                                               {INT32_MIN, INT32_MIN, INT32_MAX},
                                               {INT32_MAX, INT32_MAX, INT32_MAX}}) {
      LaunchOptions options;
      options.change = [&](std::vector<Argument> &arguments) {
        for (size_t i = 0; i < starts.size(); ++i)
          find(arguments, "cu_seqlens").set(i, double(starts[i]));
      };
      EXPECT_EQ(launch(problem, options).status, DLK_OK); // guards and padding are looked at there
    }
  });
}
