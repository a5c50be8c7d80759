//===- DecodePoolTest.cpp - Which states a decode kernel reads and writes -===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `check` finds slots that changed without reason and null rows that are not zero; what is left to
// say here is which slots the rows name.
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Decode.h"

#include <cmath>
#include <cstring>

using namespace dl::test;

/// A problem on a pool, for each operator and layout.
template <typename Function> static void forPools(int64_t rows, int64_t slots, Function f) {
  for (const Operator &op : shippedOperators())
    for (const char *layout : {"kv", "vk"}) {
      SCOPED_TRACE(op.package + " " + layout);
      f(makeProblem(op, {rows, 2, 2, 4, 64, 64}, layout, 1, slots));
    }
}

/// The same with one pool updated in place, and with one read and another written.
static void checkBothWays(const Problem &problem, LaunchOptions options = {}) {
  for (bool inPlace : {true, false}) {
    SCOPED_TRACE(inPlace ? "in place" : "to another pool");
    options.inPlace = inPlace;
    launchAndCheck(problem, options);
  }
}

TEST(DecodePool, NegativeSlotsAreNullR033) {
  forPools(2, 5, [](Problem problem) {
    problem.sources = problem.destinations = {-1, 3};
    checkBothWays(problem);
    // Null on one side alone is null.
    problem.sources = {2, 3};
    checkBothWays(problem);
    problem.sources = {-1, 3};
    problem.destinations = {2, 3};
    checkBothWays(problem);
    problem.sources = problem.destinations = {INT32_MIN, 3};
    checkBothWays(problem);
  });
}

/// The memory of a null row may hold anything: NaN comes from nothing that it reads.
TEST(DecodePool, NullRowsReadNothing) {
  forPools(3, 4, [](Problem problem) {
    problem.sources = problem.destinations = {0, -1, 2};
    for (auto &[name, tensor] : problem.tensors)
      if (tensor.shape().front() == 3 && tensor.shape().size() > 2)
        std::fill_n(&tensor.values()[tensor.values().size() / 3], tensor.values().size() / 3, NAN);
    const Outcome got = launch(problem);
    ASSERT_EQ(got.status, DLK_OK) << got.message;
    for (int64_t h = 0; h < 4; ++h)
      for (int64_t v = 0; v < 64; ++v) {
        EXPECT_EQ((got.o[{1, 0, h, v}]), 0);
        EXPECT_TRUE(std::isfinite(got.o[{2, 1, h, v}]));
      }
    EXPECT_TRUE(std::all_of(got.pool.values().begin(), got.pool.values().end(),
                            [](double value) { return std::isfinite(value); }));
  });
}

TEST(DecodePool, FirstSlotSaysWhatIsNullR034) {
  forPools(3, 4, [](Problem problem) {
    problem.sources = problem.destinations = {0, -1, 2};
    checkBothWays(problem); // slot 0 is live
    problem.firstSlot = 1;  // slot 0 is reserved
    checkBothWays(problem);
    EXPECT_TRUE(problem.isNull(0));
  });
}

/// Also without slot arrays: the first rows are null then.
TEST(DecodePool, FirstSlotWithoutSlotArraysR034) {
  forPools(3, 3, [](Problem problem) {
    problem.firstSlot = 1;
    checkBothWays(problem);
  });
}

TEST(DecodePool, PaddedPoolsAreUsedWhereTheyLieR036) {
  forPools(3, 6, [](Problem problem) {
    problem.sources = problem.destinations = {4, 0, 5};
    for (int64_t units : {0, 1, 1024}) {
      LaunchOptions options;
      options.padding = units;
      checkBothWays(problem, options);
    }
  });
}

TEST(DecodePool, StridesThatNoAccessFitsAreRefusedR036) {
  forPools(2, 3, [](const Problem &problem) {
    LaunchOptions options;
    options.change = [](std::vector<Argument> &arguments) { find(arguments, "S").strides[0] += 1; };
    expectRefused(problem, options, DLK_INVALID_ARGUMENT, "stride 0: expected a multiple of 4");
    options.change = [](std::vector<Argument> &arguments) { find(arguments, "S").strides[1] += 2; };
    expectRefused(problem, options, DLK_INVALID_ARGUMENT, "stride 1: expected a multiple of 4");
    options.change = [](std::vector<Argument> &arguments) { find(arguments, "S").strides[3] = 2; };
    expectRefused(problem, options, DLK_INVALID_ARGUMENT, "stride 3: expected 1, got 2");
    options.change = [](std::vector<Argument> &arguments) { find(arguments, "S").strides[2] = 68; };
    expectRefused(problem, options, DLK_INVALID_ARGUMENT, "stride 2: expected 64, got 68");
    options.change = [](std::vector<Argument> &arguments) {
      find(arguments, "S").strides[0] = -find(arguments, "S").strides[0];
    };
    expectRefused(problem, options, DLK_INVALID_ARGUMENT, "stride 0: expected 0 to 4294967295");
  });
}

TEST(DecodePool, NoRowsR037) {
  for (const Operator &op : shippedOperators()) {
    Problem problem = makeProblem(op, {1, 1, 2, 4, 64, 64}, "kv", 1, 3);
    problem.n.B = 0;
    for (auto &[name, tensor] : problem.tensors)
      if (tensor.shape().size() > 2)
        tensor = Tensor({0});
    // No slot may be written, so `launch` finds any change.
    const Outcome got = launch(problem);
    EXPECT_EQ(got.status, DLK_OK) << got.message;
  }
}

TEST(DecodePool, AllRowsNullR037) {
  forPools(3, 2, [](Problem problem) {
    problem.sources = problem.destinations = {-1, -7, -1};
    checkBothWays(problem);
  });
}

TEST(DecodePool, SourceAndDestinationDifferR038) {
  forPools(3, 5, [](Problem problem) {
    problem.sources = {4, 4, 1}; // two rows begin with the same state
    problem.destinations = {2, 3, 1};
    checkBothWays(problem);
  });
}

TEST(DecodePool, OneSlotArrayAlone) {
  forPools(3, 6, [](Problem problem) {
    problem.destinations = {3, 4, 5}; // rows read slots 0, 1, 2
    checkBothWays(problem);
    problem.destinations.clear();
    problem.sources = {3, 4, 5}; // and write them
    checkBothWays(problem);
  });
}

/// Slot arrays that are every second number of a wider one.
TEST(DecodePool, SlotArraysMayBeStrided) {
  forPools(3, 5, [](Problem problem) {
    problem.sources = problem.destinations = {4, 0, 2};
    LaunchOptions options;
    options.change = [](std::vector<Argument> &arguments) {
      for (const char *name : {"src_slots", "dst_slots"}) {
        Argument &slots = find(arguments, name);
        slots.memory = std::make_shared<Memory>(24);
        slots.byteOffset = 0;
        slots.strides[0] = 2;
        slots.strides[1] = 1;
        const int32_t values[] = {4, 99, 0, 99, 2, 99};
        std::memcpy(slots.memory->image.data(), values, sizeof(values));
      }
    };
    checkBothWays(problem, options);
  });
}

TEST(DecodePool, SlotsOfAnotherTypeAreRefusedR039) {
  Problem problem = makeProblem(operatorOf("gdn"), {2, 1, 2, 4, 64, 64}, "kv");
  problem.sources = {0, 1};
  LaunchOptions options;
  options.change = [](std::vector<Argument> &arguments) {
    find(arguments, "src_slots").info.dtype = DLK_I64;
  };
  expectRefused(problem, options, DLK_INVALID_ARGUMENT, "dtype: expected i32, got i64");
}

TEST(DecodePool, CheckedPlansFindBadSlots) {
  Problem problem = makeProblem(operatorOf("gdn"), {2, 1, 2, 4, 64, 64}, "kv", 1, 4);
  LaunchOptions options;
  options.flags = DLK_PLAN_CHECKED;
  problem.sources = problem.destinations = {-1, 3};
  launchAndCheck(problem, options);
  problem.sources = problem.destinations = {0, 4};
  expectRefused(problem, options, DLK_INVALID_ARGUMENT, "expected a slot below 4, got 4");
  problem.sources = {0, 1};
  problem.destinations = {2, 2};
  expectRefused(problem, options, DLK_INVALID_ARGUMENT,
                "expected a slot of its own, got 2, which row 0 writes too");
  problem.destinations = {1, 2};
  expectRefused(problem, options, DLK_INVALID_ARGUMENT, "expected a slot that no other row reads");
}

TEST(DecodePool, APoolSmallerThanTheRowsIsRefused) {
  const Problem problem = makeProblem(operatorOf("gdn"), {3, 1, 2, 4, 64, 64}, "kv");
  LaunchOptions options;
  options.change = [](std::vector<Argument> &arguments) { find(arguments, "S").shape[0] = 2; };
  expectRefused(problem, options, DLK_INVALID_ARGUMENT, "expected at least N = 3 slots");
}

/// More blocks, and more rows, than a launch counts in 16 bits; nearly all rows are null, so that
/// little is moved.
TEST(DecodePool, ManyBlocksR020) {
  const std::pair<int64_t, int64_t> sizes[] = {{1023, 64}, {1024, 64}, {1025, 64}, {32768, 1},
                                               {32769, 1}, {65535, 1}, {65536, 1}, {70000, 2}};
  for (const auto &[B, HV] : sizes) {
    SCOPED_TRACE("B=" + std::to_string(B) + " HV=" + std::to_string(HV));
    Problem problem = makeProblem(operatorOf("gdn"), {B, 1, HV, HV, 64, 64}, "kv", 1, 3);
    problem.sources.assign(B, -1);
    problem.sources[0] = 0;
    problem.sources[B / 2] = 1;
    problem.sources[B - 1] = 2;
    problem.destinations = problem.sources;
    launchAndCheck(problem);
  }
}
