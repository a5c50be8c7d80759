//===- log_plan_test.cpp - The compiled plan of a step, against the model -===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   DL_TEST_DEVICE=cuda log_plan_test FOLDER        (default device: cpu)
//
// FOLDER holds the packages, built here or elsewhere. Descriptors and cursors have to be those of
// test/Reference/LogPlan.cpp, bit by bit, and nothing else may be written. Names with R and three
// digits are rows of the project's list of robustness requirements. LogPlanCheckTest.cpp: what is
// refused.
//
//===----------------------------------------------------------------------===//

#include "test/Integration/LogPlanLaunch.h"
#include "test/Reference/Random.h"

#include <cstring>
#include <map>

using namespace dl::deltalog;
using namespace dl::test;
using dl::recurrence::Random;

static std::string text(const Descriptor &d) {
  int32_t numbers[12];
  std::memcpy(numbers, &d, sizeof numbers);
  std::string result;
  for (int32_t number : numbers)
    result += (result.empty() ? "" : " ") + std::to_string(number);
  return result;
}

static std::string text(const Cursor &c) {
  return std::to_string(c.start) + " " + std::to_string(c.length) + " " +
         std::to_string(c.pending) + " " + std::to_string(static_cast<int32_t>(c.merge));
}

/// Launches and compares with the model. Returns what it did; `cursors` are as after it.
template <typename Index>
static std::vector<Descriptor> launchAndCompare(const Limits &limits, const Rows<Index> &rows,
                                                std::vector<Cursor> &cursors,
                                                const PlanLaunchOptions &options = {}) {
  const PlanOutcome got = launchPlan(limits, rows, cursors, options);
  EXPECT_EQ(got.status, DLK_OK) << got.message;
  const std::vector<Cursor> before = cursors;
  const std::vector<Descriptor> expected = plan(limits, rows, cursors);
  for (size_t row = 0; row < expected.size(); ++row)
    EXPECT_EQ(text(got.descriptors[row]), text(expected[row])) << "row " << row;
  for (size_t slot = 0; slot < cursors.size(); ++slot)
    EXPECT_EQ(text(got.cursors[slot]), text(cursors[slot]))
        << "slot " << slot << ", was " << text(before[slot]);
  return got.descriptors;
}

//===----------------------------------------------------------------------===//
// Rows of all kinds
//===----------------------------------------------------------------------===//

namespace {
/// Random steps in which no row writes what another one reads. Slots of N rows: one of each row
/// that it may stay in, one to move to, one for a checkpoint, then some that are only read.
template <typename Index> class Steps {
public:
  Steps(const Limits &limits, uint64_t seed) : limits(limits), random(seed) {}

  Rows<Index> rows(int64_t count);
  std::vector<Cursor> cursors(int64_t count, bool isGarbage);
  static int64_t slotsFor(int64_t count) { return 3 * count + 5; }

private:
  int64_t pick(int64_t low, int64_t high) {
    return static_cast<int64_t>(
        std::floor(random.uniform(static_cast<double>(low), static_cast<double>(high) + 1)));
  }
  bool chance(double p) { return random.uniform(0, 1) < p; }
  /// A number that is no slot.
  Index noSlot(int64_t count, int32_t firstSlot);
  Index extreme() {
    const Index all[] = {std::numeric_limits<Index>::min(), -1, 0,
                         std::numeric_limits<Index>::max()};
    return all[pick(0, 3)];
  }
  void addSlots(Rows<Index> &rows);
  void addTokens(Rows<Index> &rows);
  void addRequests(Rows<Index> &rows);

  const Limits limits;
  Random random;
};
} // namespace

template <typename Index> Index Steps<Index>::noSlot(int64_t count, int32_t firstSlot) {
  const int64_t wide = int64_t(1) << 32;
  const int64_t all[] = {-1,
                         slotsFor(count),
                         std::numeric_limits<Index>::max(),
                         std::numeric_limits<Index>::min(),
                         firstSlot - 1,
                         sizeof(Index) == 8 ? wide + 2 : -2,
                         sizeof(Index) == 8 ? 2 - wide : -3};
  return static_cast<Index>(all[pick(0, 6)]);
}

template <typename Index> void Steps<Index>::addSlots(Rows<Index> &rows) {
  const int64_t count = rows.count;
  const bool hasSources = chance(0.8), hasDestinations = chance(0.8);
  for (int64_t row = 0; row < count; ++row) {
    int64_t src = row, dst = row;
    if (hasDestinations && chance(0.3))
      dst = count + row;
    if (hasSources && chance(0.3))
      src = 3 * count + pick(0, 4);
    rows.src.push_back(hasSources && chance(0.06) ? noSlot(count, rows.firstSlot) : Index(src));
    rows.dst.push_back(hasDestinations && chance(0.06) ? noSlot(count, rows.firstSlot)
                                                       : Index(dst));
  }
  if (!hasSources)
    rows.src.clear();
  if (!hasDestinations)
    rows.dst.clear();
}

template <typename Index> void Steps<Index>::addTokens(Rows<Index> &rows) {
  rows.tokens = static_cast<int32_t>(pick(0, limits.maxTokens));
  if (chance(0.05))
    rows.tokens = static_cast<int32_t>(chance(0.5) ? limits.maxTokens + 1 : -3);
  if (chance(0.2))
    return;
  rows.starts = {0};
  for (int64_t row = 0; row < rows.count; ++row) {
    int64_t tokens = chance(0.4) ? 1 : pick(0, limits.maxTokens);
    if (chance(0.04))
      tokens = chance(0.5) ? limits.maxTokens + 1 : -2;
    rows.starts.push_back(rows.starts.back() + static_cast<Index>(tokens));
  }
  if (chance(0.05))
    rows.starts[pick(0, rows.count)] = extreme();
}

template <typename Index> void Steps<Index>::addRequests(Rows<Index> &rows) {
  auto maybe = [&](auto &array, auto value) {
    if (!chance(0.75))
      return;
    for (int64_t row = 0; row < rows.count; ++row)
      array.push_back(static_cast<typename std::decay_t<decltype(array)>::value_type>(value(row)));
  };
  maybe(rows.accepted, [&](int64_t) {
    return chance(0.05) ? int64_t(extreme()) : pick(-1, limits.maxTokens + 1);
  });
  maybe(rows.initial, [&](int64_t) {
    const int64_t all[] = {Zero, BaseOnly, 3, 255};
    return chance(0.8) ? int64_t(Stored) : all[pick(0, 3)];
  });
  maybe(rows.flush, [&](int64_t) { return chance(0.85) ? 0 : chance(0.5) ? 1 : 128; });
  maybe(rows.checkpointSlots, [&](int64_t row) {
    return chance(0.5) ? int64_t(2 * rows.count + row)
                       : int64_t(noSlot(rows.count, rows.firstSlot));
  });
  maybe(rows.checkpointOffsets, [&](int64_t) {
    const int64_t longest = limits.longestLog();
    return chance(0.05) ? int64_t(extreme()) : pick(-longest - 1, limits.maxTokens + 1);
  });
}

template <typename Index> Rows<Index> Steps<Index>::rows(int64_t count) {
  Rows<Index> rows;
  rows.count = count;
  rows.firstSlot = static_cast<int32_t>(pick(-1, 2));
  rows.final = chance(0.5);
  addSlots(rows);
  addTokens(rows);
  addRequests(rows);
  return rows;
}

template <typename Index> std::vector<Cursor> Steps<Index>::cursors(int64_t count, bool isGarbage) {
  std::vector<Cursor> all(slotsFor(count));
  for (Cursor &cursor : all) {
    // Often close to the end, where things happen.
    auto number = [&](int64_t high) {
      const int64_t wrong[] = {INT32_MIN, -1, high + 1, INT32_MAX};
      const int64_t low = chance(0.4) ? std::max<int64_t>(high - 2, 0) : 0;
      return static_cast<int32_t>(isGarbage && chance(0.5) ? wrong[pick(0, 3)] : pick(low, high));
    };
    cursor = {number(limits.ring - 1), number(limits.longestLog()), number(limits.maxTokens),
              static_cast<Merge>(number(2))};
    if (!isGarbage && cursor.merge == Merge::None)
      cursor.pending = std::min(cursor.pending, limits.longestLog() - cursor.length);
  }
  return all;
}

/// What random steps have to come by.
static void note(const std::vector<Descriptor> &descriptors, const Limits &limits,
                 std::map<std::string, int> &seen) {
  for (const Descriptor &d : descriptors) {
    if (d.isNull()) {
      ++seen[d.tokens > limits.maxTokens ? "null: too long" : "null: no slot"];
      continue;
    }
    ++seen[d.merge == Merge::None ? "no merge" : d.merge == Merge::Before ? "before" : "after"];
    seen["fresh"] += d.fresh;
    seen["moved"] += !d.fresh && d.src != d.dst;
    seen["no tokens"] += d.tokens == 0;
    seen["longest row"] += d.tokens == limits.maxTokens;
    seen["longest log"] += d.length == limits.longestLog();
    seen["wrapped"] += d.start + d.length >= limits.ring;
    seen["checkpoint of the base"] += d.checkpointSlot >= 0 && d.checkpointCount == 0;
    seen["checkpoint at the end"] += d.checkpointSlot >= 0 && d.checkpointCount == d.length;
  }
}

static const char *const everything[] = {"null: too long",
                                         "null: no slot",
                                         "no merge",
                                         "before",
                                         "after",
                                         "fresh",
                                         "moved",
                                         "no tokens",
                                         "longest row",
                                         "longest log",
                                         "wrapped",
                                         "checkpoint of the base",
                                         "checkpoint at the end"};

template <typename Index> class LogPlanKernel : public ::testing::Test {};
using IndexTypes = ::testing::Types<int32_t, int64_t>;
TYPED_TEST_SUITE(LogPlanKernel, IndexTypes);

TYPED_TEST(LogPlanKernel, DecidesAsTheModel) {
  for (const Limits &limits : compiledLimits()) {
    SCOPED_TRACE("W " + std::to_string(limits.window) + " T " + std::to_string(limits.maxTokens));
    std::map<std::string, int> seen;
    for (uint64_t seed = 1; seed <= 300 && !this->HasFailure(); ++seed) {
      SCOPED_TRACE(seed);
      Steps<TypeParam> steps(limits, seed);
      const int64_t count = 1 + static_cast<int64_t>(seed % 37);
      PlanLaunchOptions options;
      if (seed % 3 == 0)
        options.placement = {3, 9, 17};
      std::vector<Cursor> cursors = steps.cursors(count, /*isGarbage=*/seed % 2 == 0);
      note(launchAndCompare(limits, steps.rows(count), cursors, options), limits, seen);
    }
    if (this->HasFailure())
      return;
    for (const char *what : everything)
      EXPECT_GT(seen[what], 0) << what;
  }
}

/// Steps that go on from what the kernel itself left.
TYPED_TEST(LogPlanKernel, GoesOnFromItsOwnCursors) {
  for (const Limits &limits : compiledLimits()) {
    SCOPED_TRACE("W " + std::to_string(limits.window) + " T " + std::to_string(limits.maxTokens));
    Steps<TypeParam> steps(limits, 77);
    std::vector<Cursor> cursors(Steps<TypeParam>::slotsFor(8)); // zeroed once
    for (int step = 0; step < 60 && !this->HasFailure(); ++step) {
      SCOPED_TRACE(step);
      launchAndCompare(limits, steps.rows(8), cursors);
    }
  }
}

TYPED_TEST(LogPlanKernel, ManyRows) {
  const Limits limits = compiledLimits().front();
  Steps<TypeParam> steps(limits, 5);
  std::vector<Cursor> cursors = steps.cursors(3000, /*isGarbage=*/false);
  launchAndCompare(limits, steps.rows(3000), cursors);
}

TYPED_TEST(LogPlanKernel, NoRows) {
  const Limits limits = compiledLimits().front();
  Rows<TypeParam> rows;
  std::vector<Cursor> cursors(3, Cursor{7, 3, 1, Merge::None});
  launchAndCompare(limits, rows, cursors);
}

/// Rows that start from zeros or from their base alone look at no cursor, null rows at none and
/// write none, whatever the rest of the row says.
TYPED_TEST(LogPlanKernel, GarbageThatNobodyNames) {
  const Limits limits = compiledLimits().front();
  Rows<TypeParam> rows;
  rows.count = 4;
  rows.src = rows.dst = {2, 5, -1, 4};
  rows.starts = {0, 4, 5, 9, 20};
  rows.initial = {Zero, BaseOnly, Stored, Stored};
  rows.accepted = {3, 3, 3, 3};
  rows.checkpointSlots = {0, -1, 1, 3};
  std::vector<Cursor> cursors(6, Cursor{INT32_MAX, INT32_MIN, -7, static_cast<Merge>(99)});
  const std::vector<Descriptor> d = launchAndCompare(limits, rows, cursors);
  EXPECT_EQ(text(cursors[2]), "0 0 4 0");
  EXPECT_EQ(text(cursors[5]), "0 0 1 0");
  for (int slot : {0, 1, 3, 4})
    EXPECT_EQ(cursors[slot].start, INT32_MAX) << slot;
  EXPECT_TRUE(d[2].isNull() && d[3].isNull());
  EXPECT_EQ(d[3].tokens, 11) << "that many outputs become zero";
}

//===----------------------------------------------------------------------===//
// Rows of the list
//===----------------------------------------------------------------------===//

/// One row in place in slot 2 of 4.
template <typename Index> static Rows<Index> oneRow(int32_t tokens) {
  Rows<Index> rows;
  rows.count = 1;
  rows.src = rows.dst = {2};
  rows.tokens = tokens;
  return rows;
}

TYPED_TEST(LogPlanKernel, MergesWhereTheWindowWouldBeExceededR065) {
  const Limits limits = compiledLimits().front();
  ASSERT_EQ(limits.window, 16);
  struct Case {
    int32_t history, tokens;
    bool merges;
  };
  for (const Case &c :
       {Case{12, 4, false}, Case{13, 4, true}, Case{13, 1, false}, Case{16, 1, true}}) {
    SCOPED_TRACE(c.history);
    std::vector<Cursor> cursors(4);
    cursors[2] = {5, c.history, 0, Merge::None};
    Rows<TypeParam> rows = oneRow<TypeParam>(c.tokens);
    const Descriptor first = launchAndCompare(limits, rows, cursors).front();
    EXPECT_EQ(first.merge, c.merges ? Merge::Before : Merge::None);
    EXPECT_EQ(first.length, c.history);
    // Nothing is accepted: the logical state is what it was, and whether it has to be merged is
    // found anew. A merge stays, and is not applied again.
    rows.accepted = {0};
    for (int step = 0; step < 3; ++step) {
      const Descriptor next = launchAndCompare(limits, rows, cursors).front();
      EXPECT_EQ(next.merge, Merge::None);
      EXPECT_EQ(next.length, c.merges ? 0 : c.history);
      EXPECT_EQ(next.start, c.merges ? (5 + c.history) % limits.ring : 5);
      EXPECT_EQ(next.write, (5 + c.history) % limits.ring);
    }
  }
}

TYPED_TEST(LogPlanKernel, CheckpointsAreTakenAtTheBoundaryThatWasCrossedR068) {
  const Limits limits = compiledLimits().front();
  struct Case {
    int32_t computed, accepted, block;
  };
  for (const Case &c : {Case{3, 2, 4}, Case{2, 3, 4}, Case{0, 4, 4}, Case{6, 4, 4}, Case{1, 1, 4},
                        Case{5, 4, 8}, Case{7, 4, 8}, Case{4, 4, 8}}) {
    SCOPED_TRACE(std::to_string(c.computed) + " " + std::to_string(c.accepted));
    const int32_t boundary = (c.computed / c.block + 1) * c.block;
    Rows<TypeParam> rows = oneRow<TypeParam>(4);
    rows.accepted = {c.accepted};
    rows.checkpointSlots = {3};
    rows.checkpointOffsets = {boundary - c.computed};
    std::vector<Cursor> cursors(4);
    cursors[2] = {18, c.computed, 4, Merge::None};
    cursors[3] = {9, 9, 9, Merge::None};
    const Descriptor d = launchAndCompare(limits, rows, cursors).front();
    const bool isCrossed = (c.computed + c.accepted) / c.block > c.computed / c.block;
    EXPECT_EQ(d.checkpointSlot, isCrossed ? 3 : -1);
    EXPECT_EQ(d.checkpointCount, isCrossed ? boundary : -1) << "entries since the base";
    EXPECT_EQ(text(cursors[3]), isCrossed ? "0 0 0 0" : "9 9 9 0");
    EXPECT_EQ(text(cursors[2]), "18 " + std::to_string(c.computed + c.accepted) + " 4 0")
        << "the row does not move";
  }
}

int main(int argc, char **argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const char *device = std::getenv("DL_TEST_DEVICE");
  Device::get().open(device ? device : "cpu");
  if (::testing::Test::HasFailure() || argc != 2) {
    std::fprintf(stderr, "usage: [DL_TEST_DEVICE=cuda] log_plan_test FOLDER_OF_PACKAGES\n");
    return 2;
  }
  setPlanFolder(argv[1]);
  return RUN_ALL_TESTS();
}
