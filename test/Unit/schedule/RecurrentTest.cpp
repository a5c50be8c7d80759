//===- RecurrentTest.cpp - Shapes of recurrent kernels --------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Schedule/Recurrent.h"
#include "gtest/gtest.h"
#include <functional>
#include <string>
#include <tuple>
#include <vector>

using namespace dl;
using namespace dl::schedule;
using layout::RegisterLayout;
using layout::Source;

static RecurrentOverrides forced(int64_t valueTile, int64_t keyLanes, int64_t keyWarps,
                                 int64_t minBlocks) {
  RecurrentOverrides result;
  result.valueTile = valueTile;
  result.keyLanes = keyLanes;
  result.keyWarps = keyWarps;
  result.minBlocks = minBlocks;
  return result;
}

static const char *name(StateLayout layout) { return layout == StateLayout::KV ? "kv" : "vk"; }

static RecurrentProblem problemOf(int64_t key, int64_t value, StateLayout layout,
                                  int64_t stateBytes = 4) {
  RecurrentProblem problem;
  problem.stateBytes = stateBytes;
  problem.keyDim = key;
  problem.valueDim = value;
  problem.layout = layout;
  return problem;
}

/// The plan; an empty one, and a failure, if there is none.
static RecurrentPlan planOf(const RecurrentProblem &problem,
                            const RecurrentOverrides &overrides = {}) {
  llvm::Expected<RecurrentPlan> plan = planRecurrent(problem, overrides);
  if (plan)
    return *plan;
  ADD_FAILURE() << name(problem.layout) << " " << problem.keyDim << "x" << problem.valueDim << ": "
                << llvm::toString(plan.takeError());
  return {};
}

static std::string errorOf(const RecurrentProblem &problem, const RecurrentOverrides &overrides) {
  llvm::Expected<RecurrentPlan> plan = planRecurrent(problem, overrides);
  return plan ? "no error" : llvm::toString(plan.takeError());
}

static RegisterLayout stateLayout(const RecurrentProblem &problem, const RecurrentPlan &plan) {
  llvm::Expected<RegisterLayout> result =
      layout::blocked({problem.keyDim, plan.valueTile}, plan.state);
  if (result)
    return *result;
  ADD_FAILURE() << llvm::toString(result.takeError());
  return {};
}

/// All K and V that kernels are compiled for, in both layouts and both widths of states.
static void forAllDims(const std::function<void(const RecurrentProblem &)> &check) {
  for (StateLayout layout : {StateLayout::KV, StateLayout::VK})
    for (int64_t key = 16; key <= 256; key += 4)
      for (int64_t value = 16; value <= 256; value += 4)
        for (int64_t bytes : {4, 2})
          check(problemOf(key, value, layout, bytes));
}

/// In which order a read is summed along K: within a thread, over lanes, over warps. How many
/// coordinates each partner is away says which numbers meet at each level.
using Tree = std::tuple<std::vector<int64_t>, std::vector<std::pair<int64_t, int64_t>>,
                        std::vector<std::pair<int64_t, int64_t>>>;

static Tree treeOf(const RecurrentProblem &problem, const RecurrentPlan &plan) {
  Tree tree;
  auto &[registers, lanes, warps] = tree;
  RegisterLayout state = stateLayout(problem, plan);
  if (state.digits.empty())
    return tree;
  const auto groups = state.reductionGroups(0);
  for (int64_t reg : groups.front())
    registers.push_back(state.coordinate(0, reg)[0]);
  for (const layout::Digit &digit : state.digitsOf(Source::Thread, 0))
    (digit.div < layout::kWarpSize ? lanes : warps).push_back({digit.mod, digit.stride});
  return tree;
}

//===----------------------------------------------------------------------===//
// All dims
//===----------------------------------------------------------------------===//

TEST(Recurrent, EveryDimIsCoveredByAKernelThatFitsABlock) {
  forAllDims([](const RecurrentProblem &problem) {
    SCOPED_TRACE(std::string(name(problem.layout)) + " " + std::to_string(problem.keyDim) + "x" +
                 std::to_string(problem.valueDim));
    RecurrentPlan plan = planOf(problem);
    RegisterLayout state = stateLayout(problem, plan);
    ASSERT_EQ(state.rank(), 2u);
    EXPECT_GE(plan.warps, 1);
    EXPECT_LE(plan.warps, 32);
    EXPECT_EQ(state.numThreads, plan.warps * layout::kWarpSize);
    EXPECT_GE(plan.minBlocks, 1);
    // K is never split between blocks; the tiles of V cover it, and none is idle.
    EXPECT_GE(state.covered(0), problem.keyDim);
    EXPECT_GE(state.covered(1), plan.valueTile);
    EXPECT_GE(plan.tiles(problem.valueDim) * plan.valueTile, problem.valueDim);
    EXPECT_LT((plan.tiles(problem.valueDim) - 1) * plan.valueTile, problem.valueDim);
    // With kv no warp is idle: less than the 32 columns of a warp are beyond V.
    if (problem.layout == StateLayout::KV)
      EXPECT_LT(plan.tiles(problem.valueDim) * plan.valueTile - problem.valueDim, 32);
    // Every element has one owner: no thread adds to a sum what another one adds too.
    EXPECT_EQ(state.replication(), 1);
    // The state goes to and from memory in 16-byte accesses along the contiguous axis.
    unsigned contiguous = problem.layout == StateLayout::KV ? 1 : 0;
    EXPECT_EQ(state.contiguousRegisters(contiguous) % 4, 0);
  });
}

TEST(Recurrent, KeyVectorsHaveALayoutOfTheirOwnOrThatOfTheTile) {
  forAllDims([](const RecurrentProblem &problem) {
    RecurrentPlan plan = planOf(problem);
    if (plan.keyIsSlice) {
      // Then no lane of a warp computes what another one does.
      for (const layout::ThreadDigit &copy : stateLayout(problem, plan).slice(1).replicaDigits())
        EXPECT_GE(copy.div, layout::kWarpSize);
      return;
    }
    llvm::Expected<RegisterLayout> key = layout::blocked({problem.keyDim}, plan.key);
    ASSERT_TRUE(bool(key)) << llvm::toString(key.takeError());
    EXPECT_GE(key->covered(0), problem.keyDim);
    EXPECT_EQ(key->numThreads, plan.warps * layout::kWarpSize);
    // Each warp holds the whole vector, so its sums need no barrier.
    EXPECT_TRUE(key->reductionWarpDigits(0).empty());
  });
}

//===----------------------------------------------------------------------===//
// The summation tree
//===----------------------------------------------------------------------===//

TEST(Recurrent, EverySplitOfVSumsAlongTheSameTree) {
  forAllDims([](const RecurrentProblem &problem) {
    const Tree tree = treeOf(problem, planOf(problem));
    for (int64_t tile : {32, 64, 96, 128, 256}) {
      llvm::Expected<RecurrentPlan> plan = planRecurrent(problem, forced(tile, 0, 0, 0));
      if (!plan) { // too many warps; what may be refused is tested below
        llvm::consumeError(plan.takeError());
        continue;
      }
      EXPECT_EQ(plan->valueTile, tile);
      EXPECT_EQ(treeOf(problem, *plan), tree) << name(problem.layout) << " " << problem.keyDim
                                              << "x" << problem.valueDim << " by " << tile;
    }
  });
}

TEST(Recurrent, TheTreeDependsOnKAndTheLayoutAlone) {
  for (StateLayout layout : {StateLayout::KV, StateLayout::VK})
    for (int64_t key = 16; key <= 256; key += 4) {
      const RecurrentProblem first = problemOf(key, 16, layout);
      const Tree tree = treeOf(first, planOf(first));
      for (int64_t value = 20; value <= 256; value += 4) {
        const RecurrentProblem other = problemOf(key, value, layout);
        EXPECT_EQ(treeOf(other, planOf(other)), tree)
            << name(layout) << " K = " << key << ", V = " << value;
      }
    }
}

TEST(Recurrent, OverridesOfTheKeyAxisChangeTheTree) {
  // A test of the tests above: treeOf sees what it should.
  const RecurrentProblem problem = problemOf(128, 128, StateLayout::KV);
  const Tree tree = treeOf(problem, planOf(problem));
  EXPECT_NE(treeOf(problem, planOf(problem, forced(0, 8, 0, 0))), tree);
  EXPECT_NE(treeOf(problem, planOf(problem, forced(0, 0, 4, 0))), tree);
}

//===----------------------------------------------------------------------===//
// A step that sums along V
//===----------------------------------------------------------------------===//

TEST(Recurrent, AStepThatSumsAlongVHoldsExactlyV) {
  forAllDims([](RecurrentProblem problem) {
    problem.canSplitValue = false;
    RecurrentPlan plan = planOf(problem);
    EXPECT_EQ(plan.valueTile, problem.valueDim);
    EXPECT_EQ(plan.tiles(problem.valueDim), 1);
    EXPECT_LE(plan.warps, 32);
    EXPECT_GE(stateLayout(problem, plan).covered(1), problem.valueDim);
  });
}

TEST(Recurrent, AStepThatSumsAlongVCannotBeSplit) {
  RecurrentProblem problem = problemOf(64, 128, StateLayout::KV);
  problem.canSplitValue = false;
  EXPECT_EQ(errorOf(problem, forced(64, 0, 0, 0)),
            "value tile: the step sums along V, so expected at least 128, got 64");
  EXPECT_EQ(planOf(problem, forced(128, 0, 0, 0)).valueTile, 128);
}

//===----------------------------------------------------------------------===//
// Overrides and errors
//===----------------------------------------------------------------------===//

TEST(Recurrent, OverridesAreObeyed) {
  const RecurrentProblem problem = problemOf(128, 256, StateLayout::KV);
  RecurrentPlan plan = planOf(problem, forced(64, 8, 2, 7));
  EXPECT_EQ(plan.valueTile, 64);
  EXPECT_EQ(plan.state.lanes[0], 8);
  EXPECT_EQ(plan.state.warps[0], 2);
  EXPECT_EQ(plan.minBlocks, 7);
  EXPECT_EQ(plan.warps, 2 * (64 / (32 / 8 * 4)));
  // One alone leaves the rest to the model.
  EXPECT_EQ(planOf(problem, forced(64, 0, 0, 0)).state.lanes[0], planOf(problem).state.lanes[0]);
  EXPECT_EQ(planOf(problem, forced(0, 0, 0, 3)).valueTile, planOf(problem).valueTile);
}

TEST(Recurrent, FewerColumnsLeaveRoomForMoreBlocks) {
  const RecurrentProblem problem = problemOf(128, 128, StateLayout::VK);
  EXPECT_GT(planOf(problem, forced(16, 0, 0, 0)).minBlocks,
            planOf(problem, forced(128, 0, 0, 0)).minBlocks);
}

TEST(Recurrent, DimsThatCannotBeServedAreNamed) {
  const StateLayout kv = StateLayout::KV;
  EXPECT_EQ(errorOf(problemOf(12, 64, kv), {}),
            "key dimension: expected a multiple of 4 from 16 to 256, got 12");
  EXPECT_EQ(errorOf(problemOf(64, 260, kv), {}),
            "value dimension: expected a multiple of 4 from 16 to 256, got 260");
  EXPECT_EQ(errorOf(problemOf(64, 66, StateLayout::VK), {}),
            "value dimension: expected a multiple of 4 from 16 to 256, got 66");
  EXPECT_EQ(errorOf(problemOf(0, 64, kv), {}),
            "key dimension: expected a multiple of 4 from 16 to 256, got 0");
  EXPECT_EQ(errorOf(problemOf(-64, 64, kv), {}),
            "key dimension: expected a multiple of 4 from 16 to 256, got -64");
}

TEST(Recurrent, OverridesThatCannotBeServedAreNamed) {
  const RecurrentProblem kv = problemOf(128, 128, StateLayout::KV);
  const RecurrentProblem vk = problemOf(128, 128, StateLayout::VK);
  EXPECT_EQ(errorOf(kv, forced(48, 0, 0, 0)), "value tile: expected a multiple of 32, got 48");
  EXPECT_EQ(errorOf(vk, forced(6, 0, 0, 0)), "value tile: expected a multiple of 4, got 6");
  EXPECT_EQ(errorOf(kv, forced(1024, 0, 0, 0)),
            "value tile: 1024 columns take 64 warps, expected at most 32");
  EXPECT_EQ(errorOf(kv, forced(0, 3, 0, 0)),
            "key lanes: expected a power of two up to 32 and the state layout kv, got 3");
  EXPECT_EQ(errorOf(vk, forced(0, 8, 0, 0)),
            "key lanes: expected a power of two up to 32 and the state layout kv, got 8");
  EXPECT_EQ(errorOf(kv, forced(0, 0, 33, 0)),
            "key warps: expected 1 to 32 and the state layout kv (with "
            "vk, warps split V only), got 33");
  EXPECT_EQ(errorOf(vk, forced(0, 0, 2, 0)),
            "key warps: expected 1 to 32 and the state layout kv (with "
            "vk, warps split V only), got 2");
}

//===----------------------------------------------------------------------===//
// Alternatives
//===----------------------------------------------------------------------===//

TEST(Recurrent, AlternativesDealKTheOtherWayRound) {
  // Usually many rows lie in few threads where K is large, few in many where it is small.
  const std::pair<int64_t, int64_t> others[] = {{128, 4}, {64, 1}};
  for (auto [key, other] : others) {
    const RecurrentProblem problem = problemOf(key, 128, StateLayout::KV);
    auto ways = recurrentAlternatives(problem, forced(64, 0, 0, 0));
    ASSERT_EQ(ways.size(), 2u);
    EXPECT_EQ(ways[0].keyWarps, 0); // the usual number, which is two for both
    EXPECT_EQ(planOf(problem).state.warps[0], 2);
    EXPECT_EQ(ways[1].keyWarps, other);
    for (const RecurrentOverrides &way : ways) {
      EXPECT_EQ(way.valueTile, 64);
      planOf(problem, way); // can be scheduled
    }
  }
}

TEST(Recurrent, StatesOf16BitsLieInAccessesOf16BytesToo) {
  for (StateLayout layout : {StateLayout::KV, StateLayout::VK})
    for (auto [dim, vector] : {std::pair<int64_t, int64_t>{128, 8}, {192, 8}, {100, 4}, {20, 4}}) {
      const RecurrentPlan plan = planOf(problemOf(dim, dim, layout, 2));
      const int axis = layout == StateLayout::KV; // the contiguous one
      EXPECT_EQ(plan.state.perThread[axis], vector) << dim;
      EXPECT_EQ(plan.state.order[0], axis);
    }
  // Half of the lanes would have nothing in the last strip of 96 columns.
  EXPECT_EQ(planOf(problemOf(96, 96, StateLayout::KV, 2)).state.perThread[1], 4);
  EXPECT_EQ(planOf(problemOf(96, 96, StateLayout::VK, 2)).state.perThread[0], 8);
  // A warp reads whole lines of 128 bytes: 8 lanes of 16 bytes.
  const RecurrentPlan kv = planOf(problemOf(128, 128, StateLayout::KV, 2));
  EXPECT_EQ(kv.state.lanes[1] * kv.state.perThread[1] * 2, 128);
  // As many bytes per thread as of f32, so twice the registers.
  EXPECT_EQ(planOf(problemOf(128, 128, StateLayout::VK, 2)).valueTile, 64);
  EXPECT_EQ(planOf(problemOf(128, 128, StateLayout::VK)).valueTile, 32);
  // Fewer warps are worth trying, not more.
  auto ways = recurrentAlternatives(problemOf(128, 128, StateLayout::KV, 2), {});
  ASSERT_EQ(ways.size(), 2u);
  EXPECT_EQ(kv.state.warps[0], 4);
  EXPECT_EQ(ways[1].keyWarps, 2);
}

TEST(Recurrent, ThreadsWithMuchStateWantMoreOfItOnItsWay) {
  EXPECT_EQ(planOf(problemOf(64, 64, StateLayout::KV)).minBlocks, 6);   // of 16 KiB
  EXPECT_EQ(planOf(problemOf(128, 128, StateLayout::KV)).minBlocks, 4); // of 32 KiB
}

TEST(Recurrent, FasterMemoryWantsMoreBlocks) {
  EXPECT_EQ(bytesInFlightFor(4800, 132), 96 * 1024); // H200
  EXPECT_EQ(bytesInFlightFor(8000, 148), 144 * 1024);
  EXPECT_EQ(bytesInFlightFor(600, 72), 48 * 1024); // the least
  EXPECT_EQ(bytesInFlightFor(0, 1), 96 * 1024);    // nothing known
  RecurrentProblem problem = problemOf(128, 128, StateLayout::VK);
  EXPECT_EQ(planOf(problem).minBlocks, 6); // of 16 KiB
  problem.bytesInFlight = 128 * 1024;
  EXPECT_EQ(planOf(problem).minBlocks, 8);
  problem.bytesInFlight = 0;
  EXPECT_EQ(errorOf(problem, {}), "bytes in flight: expected a positive number, got 0");
}

TEST(Recurrent, WhatIsForcedHasNoAlternative) {
  const RecurrentProblem kv = problemOf(128, 128, StateLayout::KV);
  EXPECT_EQ(recurrentAlternatives(kv, forced(0, 0, 4, 0)).size(), 1u);
  EXPECT_EQ(recurrentAlternatives(kv, forced(0, 0, 0, 2)).size(), 1u);
  EXPECT_EQ(recurrentAlternatives(problemOf(128, 128, StateLayout::VK), {}).size(), 1u);
  EXPECT_EQ(recurrentAlternatives(problemOf(16, 128, StateLayout::KV), {}).size(), 1u); // one warp
}

//===----------------------------------------------------------------------===//
// Variants for launches of certain sizes
//===----------------------------------------------------------------------===//

TEST(Recurrent, VariantsGiveTheUsualBits) {
  const RecurrentProblem problem = problemOf(128, 128, StateLayout::KV);
  RecurrentPlan usual = planOf(problem);
  usual.minBlocks = 4; // what the assembler reached
  auto variants = recurrentVariants(problem, usual, /*smCount=*/132);
  ASSERT_EQ(variants.size(), 2u);
  for (const RecurrentVariant &variant : variants) {
    const RecurrentPlan plan = planOf(problem, variant.overrides);
    EXPECT_EQ(plan.state.lanes[0], usual.state.lanes[0]);
    EXPECT_EQ(plan.state.warps[0], usual.state.warps[0]);
    EXPECT_EQ(plan.state.perThread[0], usual.state.perThread[0]);
    EXPECT_STRNE(variant.measured, "");
  }
  // Two tiles per head: 264 heads are one wave of four blocks on each of 132 SMs.
  EXPECT_STREQ(variants[0].name, "few");
  EXPECT_EQ(variants[0].minHeads, 0);
  EXPECT_EQ(variants[0].maxHeads, 264);
  EXPECT_EQ(planOf(problem, variants[0].overrides).valueTile, usual.valueTile / 2);
  EXPECT_STREQ(variants[1].name, "many");
  EXPECT_EQ(variants[1].minHeads, 6 * 264);
  EXPECT_EQ(variants[1].maxHeads, INT64_MAX);
  EXPECT_EQ(planOf(problem, variants[1].overrides).minBlocks, 3);
}

TEST(Recurrent, NoVariantsWhereNothingWasMeasured) {
  RecurrentProblem sums = problemOf(128, 128, StateLayout::KV);
  sums.canSplitValue = false;
  for (const RecurrentProblem &problem :
       {problemOf(128, 128, StateLayout::VK), problemOf(64, 64, StateLayout::KV),
        problemOf(128, 128, StateLayout::KV, /*stateBytes=*/2), sums})
    EXPECT_TRUE(recurrentVariants(problem, planOf(problem), 132).empty());
}

TEST(Recurrent, OneBlockCannotBecomeFewer) {
  const RecurrentProblem problem = problemOf(128, 128, StateLayout::KV);
  RecurrentPlan usual = planOf(problem);
  usual.minBlocks = 1;
  auto variants = recurrentVariants(problem, usual, 132);
  ASSERT_EQ(variants.size(), 1u);
  EXPECT_STREQ(variants[0].name, "few");
}
