//===- LogTest.cpp - Bytes of a log and of steps with it ------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Schedule/Log.h"
#include "gtest/gtest.h"
#include <cmath>
#include <string>

using namespace dl;
using namespace dl::schedule;

namespace {

constexpr bool kPerKeyHead = true;

/// An input of 16 bits; a vector computed in the log's type; a running sum.
LogField input(LogAxis axis, bool isShared = false) { return {axis, {{2, isShared}}}; }
LogField computed(LogAxis axis, bool isShared = false) { return {axis, {{0, isShared}}}; }
LogField snapshot(LogAxis axis) { return {axis, {{4, false}}}; }
LogField rawGate(LogAxis axis, bool isShared = false) {
  return {axis, {{4, isShared}, {2, isShared}}};
}

LogProblem problemOf(int64_t keyDim, int64_t valueDim, std::initializer_list<LogField> fields) {
  LogProblem problem;
  problem.keyDim = keyDim;
  problem.valueDim = valueDim;
  problem.fields.assign(fields);
  return problem;
}

/// A delta rule with one decay per head, one with a decay per key channel as running sums or as raw
/// gates, and an additive rule with such a decay per key head.
LogProblem scalarDelta(int64_t dim = 128) {
  return problemOf(
      dim, dim,
      {input(LogAxis::Key, kPerKeyHead), computed(LogAxis::Value), snapshot(LogAxis::Head)});
}
LogProblem channelDelta(bool hasRawGate, LogType type = LogType::F32) {
  LogProblem problem = problemOf(128, 128,
                                 {input(LogAxis::Key, kPerKeyHead), computed(LogAxis::Value),
                                  hasRawGate ? rawGate(LogAxis::Key) : snapshot(LogAxis::Key)});
  problem.type = type;
  return problem;
}
LogProblem additive(int64_t dim, bool hasRawGate) {
  return problemOf(dim, dim,
                   {input(LogAxis::Key, kPerKeyHead), input(LogAxis::Value),
                    hasRawGate ? rawGate(LogAxis::Key, kPerKeyHead) : snapshot(LogAxis::Key)});
}

LogPlan planOf(const LogProblem &problem) {
  llvm::Expected<LogPlan> plan = planLog(problem);
  if (plan)
    return *plan;
  ADD_FAILURE() << llvm::toString(plan.takeError());
  return {};
}

std::string errorOf(const LogProblem &problem) {
  llvm::Expected<LogPlan> plan = planLog(problem);
  return plan ? "no error" : llvm::toString(plan.takeError());
}

LogTraffic trafficOf(double state, double entry, double io = 0) { return {state, entry, io}; }

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

TEST(LogEntryBytes, FormsThatNoKernelHoldsAreNotChosen) {
  LogProblem problem = channelDelta(/*hasRawGate=*/true);
  for (LogField &field : problem.fields)
    if (field.forms.size() > 1)
      field.forms.back().isServed = false; // the raw gate
  EXPECT_EQ(planOf(problem).traffic.entry, 1280);
}

TEST(LogKernelPlan, WiderTilesWhereKIsContiguous) {
  RecurrentProblem problem;
  problem.keyDim = problem.valueDim = 128;
  for (StateLayout layout : {StateLayout::KV, StateLayout::VK}) {
    problem.layout = layout;
    RecurrentPlan usual = llvm::cantFail(planRecurrent(problem));
    RecurrentPlan log = llvm::cantFail(planLogKernel(problem));
    EXPECT_EQ(log.valueTile, layout == StateLayout::VK ? 2 * usual.valueTile : usual.valueTile);
    EXPECT_EQ(log.state.lanes, usual.state.lanes); // the same sums along K
    EXPECT_EQ(log.state.warps[0], usual.state.warps[0]);
    RecurrentOverrides forced;
    forced.valueTile = usual.valueTile;
    EXPECT_EQ(llvm::cantFail(planLogKernel(problem, forced)).valueTile, usual.valueTile);
  }
}

TEST(LogKernelPlan, TilesOfEntriesGoWithThoseOfTheState) {
  for (StateLayout layout : {StateLayout::KV, StateLayout::VK})
    for (auto [K, V] : {std::pair(16, 16), std::pair(96, 192), std::pair(128, 128)})
      for (int64_t entries : {1, 3, 4, 16, 17, 64}) {
        RecurrentProblem problem;
        problem.keyDim = K, problem.valueDim = V, problem.layout = layout;
        RecurrentPlan plan = llvm::cantFail(planLogKernel(problem));
        LogTiles tiles = logTiles(plan, K, entries);
        auto keys = llvm::cantFail(dl::layout::blocked({entries, K}, tiles.keys));
        auto values = llvm::cantFail(dl::layout::blocked({entries, plan.valueTile}, tiles.values));
        auto state = llvm::cantFail(dl::layout::blocked({K, plan.valueTile}, plan.state));
        EXPECT_EQ(keys.numThreads, state.numThreads);
        // What tile.dot asks of its two matrices.
        EXPECT_EQ(values.slice(0), state.slice(0));
        EXPECT_EQ(values.reductionLaneMasks(0), state.reductionLaneMasks(0));
        EXPECT_EQ(values.reductionWarpDigits(0), state.reductionWarpDigits(0));
      }
}

TEST(LogEntryBytes, OfTheRulesThatEnginesRun) {
  EXPECT_EQ(planOf(scalarDelta()).traffic.entry, 772); // 256 + 512 + 4
  EXPECT_EQ(planOf(channelDelta(/*hasRawGate=*/false)).traffic.entry, 1280);
  EXPECT_EQ(planOf(channelDelta(/*hasRawGate=*/true)).traffic.entry, 1024);
  EXPECT_EQ(planOf(channelDelta(/*hasRawGate=*/true, LogType::BF16)).traffic.entry, 768);
  EXPECT_EQ(planOf(additive(128, /*hasRawGate=*/false)).traffic.entry, 1024);
  EXPECT_EQ(planOf(additive(128, /*hasRawGate=*/true)).traffic.entry, 768);
  EXPECT_EQ(planOf(additive(64, /*hasRawGate=*/false)).traffic.entry, 512);
  EXPECT_EQ(planOf(additive(64, /*hasRawGate=*/true)).traffic.entry, 384);
}

TEST(LogEntryBytes, KeysAreSharedByTheValueHeadsOfAKeyHead) {
  LogProblem problem = scalarDelta();
  problem.headRatio = 3;
  LogPlan plan = planOf(problem);
  EXPECT_NEAR(plan.traffic.entry, 516 + 256 / 3.0, 1e-9);
  EXPECT_EQ(std::lround(plan.traffic.entry), 601);
  EXPECT_EQ(plan.headBytes, 516);
  EXPECT_EQ(plan.sharedBytes, 256);
  // With values in bf16, four value heads: 516 B shrink to 324.
  problem.type = LogType::BF16;
  problem.headRatio = 1;
  EXPECT_EQ(planOf(problem).traffic.entry, 516);
  problem.headRatio = 4;
  EXPECT_EQ(planOf(problem).traffic.entry, 324);
}

TEST(LogEntryBytes, ASharedGateCostsItsPart) {
  LogProblem problem = additive(128, /*hasRawGate=*/true);
  problem.headRatio = 4;
  LogPlan plan = planOf(problem);
  EXPECT_EQ(plan.traffic.entry, 256 + (256 + 256) / 4);
  EXPECT_EQ(plan.fieldBytes[2], 64);
}

TEST(LogEntryBytes, TypesOfComputedVectors) {
  LogProblem problem = scalarDelta();
  problem.type = LogType::HiLo;
  EXPECT_EQ(planOf(problem).traffic.entry, 772);
  problem.type = LogType::BF16;
  LogPlan plan = planOf(problem);
  EXPECT_EQ(plan.fieldBytes[0], 256); // inputs stay as they are
  EXPECT_EQ(plan.fieldBytes[1], 256);
  EXPECT_EQ(plan.fieldBytes[2], 4); // and so do running sums
}

TEST(LogEntryBytes, KeyAndValueDimensionDiffer) {
  LogProblem problem = channelDelta(/*hasRawGate=*/true);
  problem.keyDim = 96;
  problem.valueDim = 192;
  LogPlan plan = planOf(problem);
  EXPECT_EQ(plan.fieldBytes[0], 192);
  EXPECT_EQ(plan.fieldBytes[1], 768);
  EXPECT_EQ(plan.fieldBytes[2], 192);
  EXPECT_EQ(plan.traffic.state, 96 * 192 * 4);
  EXPECT_EQ(plan.window, 11); // sqrt(2 * 73728 / 1152) = 11.31
}

TEST(LogEntryBytes, TheCheapestFormIsChosen) {
  auto chosen = [](LogType type, std::initializer_list<LogForm> forms, int64_t ratio = 1) {
    LogProblem problem = problemOf(128, 128, {{LogAxis::Key, forms}});
    problem.type = type;
    problem.headRatio = ratio;
    return planOf(problem).forms.front();
  };
  EXPECT_EQ(chosen(LogType::F32, {{0, false}, {2, false}}), 1u);
  // Of two that cost the same the first, but not if it loses bits and the other does not.
  EXPECT_EQ(chosen(LogType::F32, {{0, false}, {4, false}}), 0u);
  EXPECT_EQ(chosen(LogType::BF16, {{0, false}, {2, false}}), 1u);
  EXPECT_EQ(chosen(LogType::HiLo, {{0, false}, {4, false}}), 1u);
  EXPECT_EQ(chosen(LogType::BF16, {{0, false}, {4, false}}), 0u);
  // Sharing decides by the ratio of heads.
  EXPECT_EQ(chosen(LogType::F32, {{2, false}, {4, true}}), 0u);
  EXPECT_EQ(chosen(LogType::F32, {{2, false}, {4, true}}, 3), 1u);
}

//===----------------------------------------------------------------------===//
// Traffic
//===----------------------------------------------------------------------===//

/// States of 128 x 128 in f32 and bf16; q, k, v, o in bf16, a logit and a log decay are 1030 B.
constexpr double kF32 = 65536, kBF16 = 32768, kIO = 1030;

TEST(LogTraffic, AmortisedOverMergeIntervals) {
  struct Row {
    double window, f32, f32Gain, bf16, bf16Gain;
  };
  for (const Row &row : {Row{4, 84240, 1.57, 43280, 1.54}, Row{8, 77080, 1.71, 40216, 1.66},
                         Row{16, 75048, 1.76, 40232, 1.65}, Row{32, 77128, 1.71, 43336, 1.54}}) {
    LogTraffic f32 = trafficOf(kF32, 516, kIO), bf16 = trafficOf(kBF16, 516, kIO);
    EXPECT_EQ(f32.amortised(row.window), row.f32);
    EXPECT_EQ(bf16.amortised(row.window), row.bf16);
    EXPECT_NEAR(f32.dense() / row.f32, row.f32Gain, .0055);
    EXPECT_NEAR(bf16.dense() / row.bf16, row.bf16Gain, .0055);
  }
}

TEST(LogTraffic, DenseAndAppend) {
  LogTraffic traffic = trafficOf(kF32, 516, kIO);
  EXPECT_EQ(traffic.dense(), 132102);
  EXPECT_EQ(traffic.append(0), kF32 + 516 + kIO);
  EXPECT_EQ(traffic.append(15), kF32 + 16 * 516 + kIO);
  EXPECT_EQ(traffic.append(8, 4), kF32 + 12 * 516 + 4 * kIO);
  EXPECT_EQ(traffic.snapshots(1), traffic.dense());
  EXPECT_EQ(traffic.snapshots(4), 5 * kF32 + 4 * kIO);
}

/// State and entry, best interval, gain over dense in the same type and over dense f32.
TEST(LogTraffic, BestIntervals) {
  struct Row {
    double state, entry, best, gain, f32State, f32Gain;
  };
  const double gva = 516 + 256 / 3.0;
  for (const Row &row :
       {Row{kF32, 772, 13, 1.72, kF32, 1.72}, Row{kF32, gva, 15, 1.75, kF32, 1.75},
        Row{kBF16, gva, 10, 1.66, kF32, 3.3}, Row{kBF16 / 2, gva, 7, 1.55, kF32, 6.2},
        Row{kF32, 1280, 10, 1.65, kF32, 1.65}, Row{kBF16, 768, 9, 1.63, kF32, 3.3},
        Row{kF32 / 4, 512, 8, 1.58, kF32 / 4, 1.58}, Row{kBF16 / 4, 512, 6, 1.44, kF32 / 4, 2.9}}) {
    LogTraffic traffic = trafficOf(row.state, row.entry);
    EXPECT_EQ(std::lround(traffic.bestWindow()), row.best) << row.state << " " << row.entry;
    double bytes = traffic.amortised(row.best);
    EXPECT_NEAR(traffic.dense() / bytes, row.gain, .0075) << row.state << " " << row.entry;
    EXPECT_NEAR(2 * row.f32State / bytes, row.f32Gain, row.f32Gain < 2 ? .0075 : .05);
  }
  EXPECT_EQ(std::lround(trafficOf(kF32, 516).bestWindow()), 16);
  EXPECT_EQ(std::lround(trafficOf(kBF16, 516).bestWindow()), 11);
}

TEST(LogTraffic, TheBestIntervalIsAMinimum) {
  for (double state : {kF32, kBF16, 96.0 * 192 * 4})
    for (double entry : {324.0, 772.0, 1280.0}) {
      LogTraffic traffic = trafficOf(state, entry, kIO);
      double best = traffic.bestWindow(), least = traffic.amortised(best);
      EXPECT_LT(least, traffic.amortised(best * .9));
      EXPECT_LT(least, traffic.amortised(best * 1.1));
      double drafts = traffic.bestWindow(/*accepted=*/3);
      EXPECT_NEAR(drafts, best * std::sqrt(3), 1e-9);
      EXPECT_LT(traffic.amortised(drafts, 4, 3), traffic.amortised(drafts * .9, 4, 3));
      EXPECT_LT(traffic.amortised(drafts, 4, 3), traffic.amortised(drafts * 1.1, 4, 3));
    }
}

/// Three value heads per key head, windows of 16, half of one read: against a state per draft.
TEST(LogTraffic, VerificationOfDrafts) {
  struct Row {
    int64_t tokens;
    double accepted, snapshots, log, gain;
  };
  LogTraffic traffic = trafficOf(kF32, 601);
  for (const Row &row : {Row{2, 1.6, 196608, 78100, 2.5}, Row{4, 3, 327680, 85036, 3.9},
                         Row{8, 5, 589824, 95632, 6.2}}) {
    double bytes = traffic.append(8, row.tokens) + kF32 * row.accepted / 16;
    EXPECT_EQ(traffic.snapshots(row.tokens), row.snapshots);
    EXPECT_NEAR(bytes, row.log, .5);
    EXPECT_NEAR(row.snapshots / bytes, row.gain, .05);
    // That a row is merged only when it holds a window lengthens what is read by half a step's
    // acceptance.
    EXPECT_NEAR(traffic.amortised(16, row.tokens, row.accepted), bytes + 601 * row.accepted / 2,
                .5);
  }
}

TEST(LogTraffic, WindowsShorterThanAStep) {
  LogTraffic traffic = trafficOf(kF32, 772, kIO);
  // Every step merges what the one before left: no more than once.
  EXPECT_EQ(meanLogLength(2, 8, 5), 5);
  EXPECT_EQ(traffic.amortised(2, 8, 5), 2 * kF32 + (5 + 8) * 772 + 8 * kIO);
  EXPECT_EQ(traffic.amortised(5, 8, 5), traffic.amortised(2, 8, 5));
  EXPECT_LT(traffic.amortised(6, 8, 5), traffic.amortised(5, 8, 5));
  // Merging after every token writes the state each time, and the entry for nothing.
  EXPECT_EQ(traffic.amortised(1), traffic.dense() + 772);
}

TEST(LogTraffic, LengthOfTheLog) {
  EXPECT_EQ(meanLogLength(1), 0);
  EXPECT_EQ(meanLogLength(16), 7.5);
  EXPECT_EQ(meanLogLength(16, 4, 2), 9); // 2, 4, ..., 16
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

TEST(LogPlan, WindowAndGain) {
  LogProblem problem = scalarDelta();
  LogPlan plan = planOf(problem);
  EXPECT_EQ(plan.window, 13);
  EXPECT_NEAR(plan.gain(), 1.725, .0005);
  problem.stateBytes = 2;
  problem.headRatio = 3;
  plan = planOf(problem);
  EXPECT_EQ(plan.window, 10);
  EXPECT_NEAR(plan.gain(), 1.665, .0005);
  EXPECT_EQ(plan.traffic.state, 32768);
}

TEST(LogPlan, WindowIsClamped) {
  LogProblem wide = problemOf(256, 256, {input(LogAxis::Key), input(LogAxis::Value)});
  EXPECT_GT(planOf(wide).traffic.bestWindow(), 22);
  EXPECT_EQ(planOf(wide).window, 16);
  // Entries that are larger than the state: a log does not pay.
  LogProblem small = problemOf(4, 4,
                               {computed(LogAxis::Key), computed(LogAxis::Value),
                                snapshot(LogAxis::Key), snapshot(LogAxis::Value)});
  small.stateBytes = 1;
  LogPlan plan = planOf(small);
  EXPECT_LT(plan.traffic.bestWindow(), .75);
  EXPECT_EQ(plan.window, 1);
  EXPECT_LT(plan.gain(), 1);
}

TEST(LogPlan, GivenWindow) {
  LogProblem problem = scalarDelta();
  problem.window = 24; // more than would be proposed
  problem.maxTokens = 4;
  LogPlan plan = planOf(problem);
  EXPECT_EQ(plan.window, 24);
  EXPECT_EQ(plan.ring, 28);
  EXPECT_EQ(plan.slotBytes(), 28 * 772);
}

TEST(LogPlan, Ring) {
  EXPECT_EQ(ringCapacity(16, 4), 20);
  EXPECT_EQ(ringCapacity(16, 1), 17);
  EXPECT_EQ(ringCapacity(13, 16), 32); // a window shorter than a step
  EXPECT_EQ(ringCapacity(8, 8), 16);
}

TEST(LogPlan, InputsAndOutputs) {
  LogProblem problem = scalarDelta();
  problem.ioBytes = 2 * 256 + 4 + 2;
  problem.sharedIoBytes = 2 * 256;
  EXPECT_EQ(planOf(problem).traffic.dense(), 132102);
  problem.headRatio = 4;
  EXPECT_EQ(planOf(problem).traffic.io, 518 + 128);
}

TEST(LogPlan, SeveralStates) {
  LogProblem problem = scalarDelta();
  problem.states = 2;
  EXPECT_EQ(planOf(problem).traffic.state, 2 * kF32);
}

TEST(LogPlan, Refusals) {
  LogProblem problem = scalarDelta();
  problem.keyDim = 0;
  EXPECT_EQ(errorOf(problem), "key dimension: expected at least 1, got 0");
  problem = scalarDelta();
  problem.headRatio = 0;
  EXPECT_EQ(errorOf(problem), "value heads per key head: expected at least 1, got 0");
  problem = scalarDelta();
  problem.maxTokens = -1;
  EXPECT_EQ(errorOf(problem), "tokens of a step: expected at least 1, got -1");
  problem = scalarDelta();
  problem.window = -3;
  EXPECT_EQ(errorOf(problem), "window: expected 0 (chosen) or more, got -3");
  problem.window = 0;
  problem.fields.emplace_back();
  EXPECT_EQ(errorOf(problem), "field of a log entry: expected a form, got none");
  problem.fields.clear();
  EXPECT_EQ(errorOf(problem), "log entry: expected a field, got none");
}

TEST(LogPlan, Floor) {
  // 256 rows of 32 heads at 4.3 TB/s.
  LogTraffic f32 = trafficOf(kF32, 516, kIO), bf16 = trafficOf(kBF16, 516, kIO);
  constexpr int64_t heads = 256 * 32;
  EXPECT_NEAR(floorMilliseconds(f32.dense(), heads, 4300), .2517, .00005);
  EXPECT_NEAR(floorMilliseconds(bf16.dense(), heads, 4300), .1268, .00005);
  EXPECT_NEAR(floorMilliseconds(f32.amortised(16), heads, 4300), .1430, .00005);
  EXPECT_NEAR(floorMilliseconds(bf16.amortised(16), heads, 4300), .0766, .0001);
}

} // namespace
