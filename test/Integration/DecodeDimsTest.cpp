//===- DecodeDimsTest.cpp - Sizes that fill no tile, and large ones -------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Between the rows of every tensor and behind its end lies NaN, and `launch` compares what lies
// there before and after: columns beyond V are neither read nor written.
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Decode.h"

#include <cstring>

using namespace dl::test;

//===----------------------------------------------------------------------===//
// K and V
//===----------------------------------------------------------------------===//

using Dims = std::pair<int64_t, int64_t>;

/// KDA with the odd sizes, of which packages hold these four for a GPU.
static Operator withOddDims() {
  Operator op = operatorOf("kda");
  op.package = Device::get().driver ? "kda-dims-gpu" : "kda-dims";
  return op;
}
static const Dims dimsOnGPU[] = {{16, 16}, {20, 252}, {60, 104}, {252, 20}};

static void checkPaddedAndPacked(const Operator &op, const std::string &layout, Dims dims) {
  const auto [K, V] = dims;
  SCOPED_TRACE(op.package + " " + layout + " " + std::to_string(K) + "x" + std::to_string(V));
  for (int64_t padding : {1, 0}) {
    LaunchOptions options;
    options.padding = padding;
    launchAndCheck(makeProblem(op, {2, 3, 3, 3, K, V}, layout), options);
  }
}

TEST(DecodeDims, EachOnceAsKAndOnceAsVR016R087) {
  if (Device::get().driver)
    GTEST_SKIP() << "packages hold them for the CPU";
  const Dims dims[] = {{16, 256}, {20, 252}, {40, 192}, {48, 112}, {60, 104}, {80, 100}, {96, 96},
                       {100, 80}, {104, 60}, {112, 48}, {192, 40}, {252, 20}, {256, 16}};
  forOperators([&](Operator op, const std::string &layout) {
    op.package += "-dims";
    for (Dims both : dims)
      checkPaddedAndPacked(op, layout, both);
  });
}

TEST(DecodeDims, OddDimsOnAnyDeviceR016) {
  for (const char *layout : {"kv", "vk"})
    for (Dims both : dimsOnGPU)
      checkPaddedAndPacked(withOddDims(), layout, both);
}

TEST(DecodeDims, LargestR025) {
  forOperators([](const Operator &op, const std::string &layout) {
    launchAndCheck(makeProblem(op, {8, 1, 1, 2, 256, 256}, layout));
  });
}

/// Numbers of warps that are no power of two, and tiles that V does not fill.
TEST(DecodeDims, ForcedWarpsR087) {
  Operator op = operatorOf("gdn");
  for (const char *warps : {"3", "6", "12"})
    for (int64_t V : {104, 112, 192}) {
      SCOPED_TRACE(std::string(warps) + " warps, V = " + std::to_string(V));
      op.package = std::string("gdn-warps") + warps;
      const Problem problem = makeProblem(op, {2, 3, 2, 4, 64, V}, "kv");
      dlk_kernel_info info;
      ASSERT_EQ(dlk_kernel_get_info(kernelOf(problem), &info), DLK_OK);
      EXPECT_EQ(std::to_string(info.threads / 32), warps);
      launchAndCheck(problem);
    }
}

//===----------------------------------------------------------------------===//
// Memory that ends where the numbers end
//===----------------------------------------------------------------------===//

/// Moves every argument into memory of its exact size with a fence at one end.
static void moveToExactMemory(std::vector<Argument> &arguments, Fence fence) {
  std::map<Memory *, std::shared_ptr<Memory>> moved;
  for (Argument &argument : arguments) {
    const std::vector<unsigned char> &image = argument.memory->image;
    std::shared_ptr<Memory> &exact = moved[argument.memory.get()];
    if (!exact) {
      exact = std::make_shared<Memory>(image.size() - 2 * argument.byteOffset, fence);
      std::copy_n(&image[argument.byteOffset], exact->image.size(), exact->image.begin());
    }
    argument.memory = exact;
    argument.byteOffset = 0;
  }
}

/// Odd numbers of tokens, as a batch and as rows one of which is empty.
TEST(DecodeDims, NothingBesideTheTensorsIsTouchedR015) {
  forOperators([](const Operator &op, const std::string &layout) {
    for (int64_t T : {65, 100, 127})
      for (Fence fence : {Fence::Before, Fence::After}) {
        LaunchOptions options;
        options.padding = 0;
        options.change = [&](std::vector<Argument> &arguments) {
          moveToExactMemory(arguments, fence);
        };
        Problem problem = makeProblem(op, {1, T, 1, 2, 64, 64}, layout, 1, 3);
        launchAndCheck(problem, options);
        problem.starts = {0, T / 2, T / 2, T};
        problem.sources = problem.destinations = {2, 0, 1};
        problem.hasState = {1, 1, 0};
        launchAndCheck(problem, options);
      }
  });
}

/// The same with dims that fill neither tiles nor vectors.
TEST(DecodeDims, NothingBesideOddDimsIsTouchedR015R016) {
  for (const char *layout : {"kv", "vk"})
    for (const auto &[K, V] : dimsOnGPU)
      for (Fence fence : {Fence::Before, Fence::After}) {
        LaunchOptions options;
        options.padding = 0;
        options.change = [&](std::vector<Argument> &arguments) {
          moveToExactMemory(arguments, fence);
        };
        launchAndCheck(makeProblem(withOddDims(), {2, 3, 1, 3, K, V}, layout), options);
      }
}

//===----------------------------------------------------------------------===//
// Batches and pools
//===----------------------------------------------------------------------===//

TEST(DecodeDims, EachEntryEqualsItsOwnRunR028) {
  forOperators([](const Operator &op, const std::string &layout) {
    Problem problem = makeProblem(op, {3, 33, 2, 2, 64, 64}, layout);
    const size_t state = problem.pool.values().size() / 3;
    for (size_t i = 0; i < 3 * state; ++i) {
      const size_t entry = i / state;
      problem.pool.values()[i] *= double(entry + 1);
    }
    const Outcome all = launch(problem);
    check(problem, all);
    for (int64_t row = 0; row < 3; ++row) {
      const Outcome alone = launch(rowOf(problem, row));
      const size_t o = alone.o.values().size();
      EXPECT_EQ(0,
                std::memcmp(alone.o.values().data(), &all.o.values()[row * o], o * sizeof(double)));
      EXPECT_EQ(0, std::memcmp(alone.pool.values().data(), &all.pool.values()[row * state],
                               state * sizeof(double)));
    }
  });
}

/// The first launch of all that a plan makes, in a large pool: `check` would find a state that two
/// steps, or none, went into, and any slot that nobody named.
TEST(DecodeDims, OneStepOfTheFirstLaunchR103) {
  for (const char *layout : {"kv", "vk"}) {
    Problem problem = makeProblem(withOddDims(), {3, 1, 1, 1, 16, 16}, layout, 1, 4096);
    problem.sources = problem.destinations = {4095, 17, 2048};
    launchAndCheck(problem);
  }
}
