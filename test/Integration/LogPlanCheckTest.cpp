//===- LogPlanCheckTest.cpp - What a plan of a step refuses ---------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// In every launch: types, shapes, memory. In checked mode: the promise of LogProtocol.md. A launch
// that is refused writes nothing.
//
//===----------------------------------------------------------------------===//

#include "test/Integration/LogPlanLaunch.h"

#include <cstring>
#include <stdexcept>

using namespace dl::deltalog;
using namespace dl::test;

namespace {
/// A step that is right, to be spoilt: rows in place in slots 0 and 1, a row from slot 2 to slot 3,
/// a checkpoint of row 0 in slot 4, padding.
template <typename Index> struct Step {
  Limits limits = compiledLimits().front();
  Rows<Index> rows;
  std::vector<Cursor> cursors = std::vector<Cursor>(6);
  PlanLaunchOptions options;

  Step() {
    rows.count = 4;
    rows.src = {0, 1, 2, -1};
    rows.dst = {0, 1, 3, -1};
    rows.starts = {0, 1, 5, 7, 7};
    rows.accepted = {1, 4, 0, 1};
    rows.checkpointSlots = {4, -1, -1, -1};
    rows.checkpointOffsets = {1, 0, 0, 0};
    rows.initial = {1, 1, 1, 0};
    cursors[0] = {19, 15, 1, Merge::None};
    cursors[1] = {4, 16, 4, Merge::Before};
    cursors[2] = {0, 0, 2, Merge::None};
    options.flags = DLK_PLAN_CHECKED;
  }

  /// Empty if the launch is taken.
  std::string complaint() const {
    const PlanOutcome got = launchPlan(limits, rows, cursors, options);
    if (got.status == DLK_OK)
      return "";
    EXPECT_EQ(got.status, DLK_INVALID_ARGUMENT) << got.message;
    for (size_t slot = 0; slot < cursors.size(); ++slot)
      EXPECT_EQ(std::memcmp(&got.cursors[slot], &cursors[slot], sizeof(Cursor)), 0) << slot;
    return got.message;
  }

  /// What the model says of it.
  std::string expected() const {
    try {
      check(limits, rows, cursors, static_cast<int64_t>(cursors.size()), INT32_MAX);
    } catch (const std::invalid_argument &error) {
      return error.what();
    }
    return "";
  }

  void expect(const std::string &message) const {
    EXPECT_EQ(complaint(), message);
    EXPECT_EQ(expected(), message) << "the model";
  }
};

template <typename Index> class LogPlanCheck : public ::testing::Test {};
} // namespace

using IndexTypes = ::testing::Types<int32_t, int64_t>;
TYPED_TEST_SUITE(LogPlanCheck, IndexTypes);

//===----------------------------------------------------------------------===//
// Checked mode
//===----------------------------------------------------------------------===//

TYPED_TEST(LogPlanCheck, TakesAStepThatIsRight) {
  Step<TypeParam>().expect("");
  Step<TypeParam> step;
  step.options.placement = {2, 4, 12};
  step.expect("");
}

TYPED_TEST(LogPlanCheck, CursorsOutOfRange) {
  Step<TypeParam> step;
  step.cursors[1].length = 17;
  step.expect("cursors slot 1 length: expected 0 to 16, got 17");
  step = {};
  step.cursors[1].start = 20;
  step.expect("cursors slot 1 start: expected 0 to 19, got 20");
  step = {};
  step.cursors[1].pending = 5;
  step.expect("cursors slot 1 pending: expected 0 to 4, got 5");
  step = {};
  step.cursors[1].merge = static_cast<Merge>(-1);
  step.expect("cursors slot 1 merge: expected 0 to 2, got -1");
  step = {};
  step.cursors[1].merge = Merge::None;
  step.expect("cursors slot 1 length + pending: expected 0 to 16, got 20");
  step.rows.initial = {1, 2, 1, 0};
  step.expect("");
  step.cursors[5] = {-1, -1, -1, static_cast<Merge>(-1)}; // nobody names it
  step.expect("");
}

TYPED_TEST(LogPlanCheck, Acceptance) {
  Step<TypeParam> step;
  step.rows.accepted = {2, 4, 0, 1};
  step.expect("argument 'num_accepted_tokens' row 0: expected 0 to 1, got 2");
  step.rows.accepted = {-1, 4, 0, 1};
  step.expect("argument 'num_accepted_tokens' row 0: expected 0 to 1, got -1");
  step.cursors[0].pending = 0;
  step.rows.accepted = {1, 4, 0, 99};
  step.rows.checkpointOffsets = {};
  step.expect(""); // nothing to accept, and padding
  step = {};
  step.cursors[0].merge = Merge::After;
  step.rows.accepted = {0, 4, 0, 1};
  step.expect("argument 'num_accepted_tokens' row 0: expected 1, got 0");
}

TYPED_TEST(LogPlanCheck, Tokens) {
  Step<TypeParam> step;
  step.rows.starts = {0, 1, 6, 7, 7};
  step.expect("argument 'cu_seqlens' row 1 tokens: expected 0 to 4, got 5");
  step.rows.starts = {0, 1, 5, 7, 99}; // padding may be of any length
  step.expect("");
  step.rows.starts = {1, 1, 5, 7, 7};
  EXPECT_EQ(step.complaint(), "argument 'cu_seqlens' row 0: expected 0, got 1");
  step.rows.starts = {0, 4, 3, 7, 7};
  EXPECT_EQ(step.complaint(), "argument 'cu_seqlens' row 1: expected its end at 4 or later, got 3");
  step.rows.starts.clear();
  step.rows.tokens = 5;
  EXPECT_EQ(step.complaint(), "scalar 'tokens': expected 0 to 4, got 5");
  step.rows.tokens = -1;
  EXPECT_EQ(step.complaint(), "scalar 'tokens': expected 0 to 4, got -1");
}

TYPED_TEST(LogPlanCheck, Slots) {
  Step<TypeParam> step;
  step.rows.src = {0, 1, 6, -1};
  step.expect("argument 'src_slots' row 2: expected a slot below 6, got 6");
  step = {};
  step.rows.dst = {0, 1, 6, -1};
  step.expect("argument 'dst_slots' row 2: expected a slot below 6, got 6");
  step.rows.dst = {0, 1, 1, -1};
  step.expect("argument 'dst_slots' row 2: expected a slot of its own, got 1, which row 1 writes "
              "too");
  step.rows.dst = {0, 1, 4, -1};
  step.expect("argument 'dst_slots' row 2: expected a slot of its own, got 4, which row 0 writes "
              "too");
  step = {};
  step.rows.src = {0, 1, 1, -1};
  step.expect("argument 'src_slots' row 2: expected a slot that no other row writes, got 1, which "
              "row 1 writes");
  step.rows.initial = {1, 1, 0, 0};
  step.expect(""); // a fresh row does not read its source
  step = {};
  step.rows.src = {0, 2, 2, -1};
  step.rows.accepted = {1, 2, 0, 1};
  step.expect(""); // rows may share a source
  step = {};
  step.rows.initial = {1, 1, 3, 0};
  step.expect("argument 'initial_state' row 2: expected 0 to 2, got 3");
  step = {};
  step.rows.firstSlot = 2; // rows 0 and 1 are null now, whatever they ask for
  step.rows.accepted = {9, 9, 0, 1};
  step.rows.checkpointSlots = {};
  step.expect("");
}

TYPED_TEST(LogPlanCheck, Checkpoints) {
  Step<TypeParam> step;
  step.rows.checkpointSlots = {6, -1, -1, -1};
  step.expect("argument 'checkpoint_slots' row 0: expected a slot below 6, got 6");
  step.rows.checkpointSlots = {0, -1, -1, -1};
  step.expect("argument 'checkpoint_slots' row 0: expected a slot of its own, got 0, which row 0 "
              "writes too");
  step.rows.checkpointSlots = {2, -1, -1, -1};
  step.expect("argument 'src_slots' row 2: expected a slot that no other row writes, got 2, which "
              "row 0 writes");
  step = {};
  step.rows.checkpointSlots = {-1, -1, 2, -1};
  step.expect("argument 'src_slots' row 2: expected a slot that no other row writes, got 2, which "
              "row 2 writes");
  step = {};
  step.rows.checkpointOffsets = {99, 0, 0, 0};
  step.expect(""); // it will be reached one day
  step.rows.checkpointOffsets = {-16, 0, 0, 0};
  step.expect("argument 'checkpoint_offsets' row 0: expected -15 or more: the rest is merged, got "
              "-16");
  step.cursors[0].merge = Merge::Before;
  step.expect("argument 'checkpoint_offsets' row 0: expected 0 or more: the rest is merged, got "
              "-16");
  step.cursors[0].merge = Merge::After;
  step.expect("argument 'checkpoint_offsets' row 0: expected 1 or more: the rest is merged, got "
              "-16");
  step = {};
  step.rows.checkpointOffsets = {0, 0, 0, 0};
  step.rows.initial = {0, 1, 1, 0};
  step.expect("argument 'checkpoint_slots' row 0: expected none in a row that starts from zero, "
              "got 4");
}

//===----------------------------------------------------------------------===//
// Every launch
//===----------------------------------------------------------------------===//

TYPED_TEST(LogPlanCheck, Shapes) {
  Step<TypeParam> step;
  step.options.flags = 0;
  step.rows.accepted = {1, 4, 0};
  EXPECT_EQ(step.complaint(),
            "argument 'num_accepted_tokens' dimension 0: expected N = 4 as in 'src_slots', got 3");
  step = {};
  step.rows.starts.push_back(7);
  EXPECT_EQ(step.complaint(),
            "argument 'cu_seqlens' dimension 0: expected (N+1) = 5 as in 'src_slots', got 6");
  step = {};
  step.options.change = [](std::vector<PlanArgument> &arguments) {
    find(arguments, "descriptors").shape[1] = 11;
  };
  EXPECT_EQ(step.complaint(), "argument 'descriptors' dimension 1: expected 12, got 11");
  step.options.change = [](std::vector<PlanArgument> &arguments) {
    find(arguments, "cursors").strides[1] = 2;
  };
  EXPECT_EQ(step.complaint(), "argument 'cursors' stride 1: expected 1, got 2");
  step.options.change = [](std::vector<PlanArgument> &arguments) {
    find(arguments, "cursors").memory = nullptr;
  };
  EXPECT_EQ(step.complaint(), "argument 'cursors' data: expected memory, got NULL");
}

TYPED_TEST(LogPlanCheck, WithoutSlotsRowsNeedCursors) {
  Step<TypeParam> step;
  step.options.flags = 0;
  step.cursors.resize(3);
  for (auto *array : {&step.rows.src, &step.rows.dst}) {
    std::vector<TypeParam> kept;
    std::swap(kept, *array);
    EXPECT_EQ(step.complaint(), "argument 'cursors' dimension 0: expected at least N = 4 slots "
                                "because the slot array is null, got 3");
    std::swap(kept, *array);
  }
  step.complaint(); // slots past the pool make null rows
}

TYPED_TEST(LogPlanCheck, MemoryOfItsOwn) {
  Step<TypeParam> step;
  step.options.flags = 0;
  step.options.change = [](std::vector<PlanArgument> &arguments) {
    find(arguments, "descriptors").memory = find(arguments, "cursors").memory;
  };
  EXPECT_EQ(step.complaint(),
            "argument 'cursors': expected memory of its own, got memory that overlaps "
            "'descriptors'");
  step.options.change = [](std::vector<PlanArgument> &arguments) {
    PlanArgument &flush = find(arguments, "flush");
    flush.memory = find(arguments, "cursors").memory;
    flush.byteOffset = find(arguments, "cursors").byteOffset;
    flush.shape = {4};
    flush.strides = {1};
  };
  EXPECT_EQ(step.complaint(),
            "argument 'cursors': expected memory of its own, got memory that overlaps 'flush'");
}

/// Cursors and descriptors as parts of pages of one size, 64 bytes.
TYPED_TEST(LogPlanCheck, PartsOfAPage) {
  Step<TypeParam> step;
  auto pages = std::make_shared<Memory>(6 * 64);
  PlanArgument pool, table;
  step.options.placement = {1, 16, 16};
  step.options.change = [&](std::vector<PlanArgument> &arguments) {
    for (const char *name : {"cursors", "descriptors"})
      find(arguments, name).memory = pages;
    find(arguments, "cursors").byteOffset = 0;
    find(arguments, "descriptors").byteOffset = 16;
    pool = find(arguments, "cursors");
    table = find(arguments, "descriptors");
    for (size_t slot = 0; slot < step.cursors.size(); ++slot)
      std::memcpy(pool.at(pages->image, static_cast<int64_t>(slot)), &step.cursors[slot],
                  sizeof(Cursor));
    pages->upload();
  };
  ASSERT_EQ(step.complaint(), "");
  std::vector<unsigned char> got = pages->download();
  std::vector<Cursor> cursors = step.cursors;
  const std::vector<Descriptor> descriptors = plan(step.limits, step.rows, cursors);
  for (int64_t slot = 0; slot < 6; ++slot)
    EXPECT_EQ(std::memcmp(pool.at(got, slot), &cursors[slot], sizeof(Cursor)), 0) << slot;
  for (int64_t row = 0; row < 4; ++row)
    EXPECT_EQ(std::memcmp(table.at(got, row), &descriptors[row], sizeof(Descriptor)), 0) << row;

  // One column further to the left it would reach into them.
  step.options.change = [&](std::vector<PlanArgument> &arguments) {
    for (const char *name : {"cursors", "descriptors"})
      find(arguments, name).memory = pages;
    find(arguments, "cursors").byteOffset = 0;
    find(arguments, "descriptors").byteOffset = 12;
  };
  EXPECT_EQ(step.complaint(),
            "argument 'cursors': expected memory of its own, got memory that overlaps "
            "'descriptors'");
}
