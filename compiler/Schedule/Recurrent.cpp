//===- Recurrent.cpp - Shape of a recurrent kernel ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Schedule/Recurrent.h"
#include <algorithm>

using namespace dl;
using namespace dl::schedule;

namespace {
constexpr int64_t kVectorElements = 4; // of fp32: one 16-byte access
constexpr int64_t kVectorBytes = 16;
constexpr int64_t kMinDim = 16, kMaxDim = 256;
constexpr int64_t kMaxWarps = 32;
constexpr int64_t kMaxKeyWarps = 8;

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Elements of the state in one access along its contiguous axis: 16 bytes, or less where lanes
/// would lie idle beyond the end of a row.
int64_t stateVector(const RecurrentProblem &problem) {
  bool isKV = problem.layout == StateLayout::KV;
  int64_t dim = isKV ? problem.valueDim : problem.keyDim, lanes = isKV ? 8 : 1;
  int64_t vector = kVectorBytes / problem.stateBytes;
  while (vector > kVectorElements && dim % (lanes * vector) != 0)
    vector /= 2;
  return vector;
}

constexpr int64_t kFewRegisters = 32;

/// How many blocks an SM shall hold. Threads with little state want just enough of them: registers
/// that the assembler can schedule with measured better than further warps. Threads with much state
/// have registers to spare beside it.
int64_t residentBlocks(const RecurrentProblem &problem, int64_t valueTile, int64_t stateRegisters) {
  int64_t bytes = problem.keyDim * valueTile * problem.stateBytes, wanted = problem.bytesInFlight;
  return ceilDiv(stateRegisters > kFewRegisters ? wanted * 4 / 3 : wanted, bytes);
}

/// Lanes that share the sum over K: the other 8 read a full line of fp32. With 8 or 16 a warp's row
/// segments are half lines and less, and decode reaches 88 and 76 % of the ceiling instead of 93.
constexpr int64_t kUsualKeyLanes = 4;

/// Every warp computes the key vectors for itself: no barrier, and the copies cost less than one.
layout::BlockedParams keyVectorLayout(int64_t keyDim, int64_t warps) {
  int64_t vector = kVectorElements;
  while (vector > 1 && keyDim % (layout::kWarpSize * vector) != 0)
    vector /= 2;
  if (keyDim % layout::kWarpSize != 0)
    vector = kVectorElements;
  return {{vector}, {layout::kWarpSize}, {1}, {0}, warps};
}

bool isLarge(int64_t keyDim) { return keyDim >= 128; }

/// Enough warps, up to 8, that a thread holds at most 16 rows of four columns, or 8 of a small K.
/// Measured with K of 128 and 256, 16 rows beat 8 by 10 % at 8 rows of batch and by up to 1 % at 64
/// and more; with 64 they lose. Of eight columns 12 rows: with K of 96 two warps reach 91 % of the
/// ceiling, four 77.
int64_t usualKeyWarps(int64_t keyDim, int64_t keyLanes, int64_t vector) {
  int64_t rowsPerThread = vector > kVectorElements ? 12 : isLarge(keyDim) ? 16 : 8, warps = 1;
  while (warps < kMaxKeyWarps && keyDim > keyLanes * warps * rowsPerThread)
    warps *= 2;
  return warps;
}

/// V contiguous: 8 lanes read a full line of a row, 32 columns of fp32; rows are dealt to 4 lanes,
/// some warps and registers, and further warps stand side by side along V.
llvm::Expected<RecurrentPlan> planKV(const RecurrentProblem &problem,
                                     const RecurrentOverrides &overrides) {
  int64_t keyLanes = overrides.keyLanes ? overrides.keyLanes : kUsualKeyLanes;
  int64_t vector = stateVector(problem), valueLanes = 32 / keyLanes, columns = valueLanes * vector;
  // Never by the batch: it is the shape of the summation tree.
  int64_t keyWarps =
      overrides.keyWarps ? overrides.keyWarps : usualKeyWarps(problem.keyDim, keyLanes, vector);
  int64_t strips = ceilDiv(problem.valueDim, columns), valueWarps = strips;
  if (overrides.valueTile) {
    if (overrides.valueTile % columns != 0)
      return llvm::createStringError("value tile: expected a multiple of %d, got %d", int(columns),
                                     int(overrides.valueTile));
    valueWarps = overrides.valueTile / columns;
  } else if (problem.canSplitValue) {
    // 64 columns: half of a row of 128 at a time.
    valueWarps = vector == kVectorElements && strips % 2 == 0 ? 2 : 1;
  }
  // Where one block holds all of V, no other split has to give the same bits.
  while (!problem.canSplitValue && !overrides.keyWarps && keyWarps > 1 &&
         keyWarps * valueWarps > kMaxWarps)
    keyWarps /= 2;
  RecurrentPlan plan;
  plan.warps = keyWarps * valueWarps;
  if (plan.warps > kMaxWarps)
    return llvm::createStringError("value tile: %d columns take %d warps, expected at most %d",
                                   int(valueWarps * columns), int(plan.warps), int(kMaxWarps));
  int64_t keyPerThread = ceilDiv(problem.keyDim, keyLanes * keyWarps);
  // Runs of four measured best by half a percent; they also make vectors of four of a thread's
  // keys.
  int64_t run = keyPerThread % kVectorElements == 0 ? kVectorElements : keyPerThread;
  plan.valueTile = valueWarps * columns;
  plan.state = {{run, vector}, {keyLanes, valueLanes}, {keyWarps, valueWarps}, {1, 0}, plan.warps};
  plan.minBlocks = residentBlocks(problem, plan.valueTile, keyPerThread * vector);

  plan.key = keyVectorLayout(problem.keyDim, plan.warps);
  return plan;
}

/// K contiguous: lanes run along K, so a read is summed within the warp and warps split V.
llvm::Expected<RecurrentPlan> planVK(const RecurrentProblem &problem,
                                     const RecurrentOverrides &overrides) {
  RecurrentPlan plan;
  int64_t vector = stateVector(problem);
  int64_t keyLanes = 32; // the largest that K fills exactly; if none does, pad
  while (keyLanes > 4 && problem.keyDim % (vector * keyLanes) != 0)
    keyLanes /= 2;
  int64_t keyRepeats = ceilDiv(problem.keyDim, vector * keyLanes);
  int64_t valueLanes = 32 / keyLanes;
  plan.warps = 4;
  int64_t rows = valueLanes * plan.warps; // of V, held one per thread row
  int64_t tile = overrides.valueTile;
  if (!tile) {
    // Half as much, with states of 16 bits, is 83 % of the ceiling instead of 93: every warp
    // computes the key vectors for itself.
    constexpr int64_t bytesPerThread = 128;
    int64_t perThread =
        std::max<int64_t>(1, bytesPerThread / (vector * problem.stateBytes * keyRepeats));
    tile = std::min(rows * perThread, ceilDiv(problem.valueDim, rows) * rows);
    if (!problem.canSplitValue)
      tile = ceilDiv(problem.valueDim, rows) * rows;
  }
  if (tile % rows != 0)
    return llvm::createStringError("value tile: expected a multiple of %d, got %d", int(rows),
                                   int(tile));
  plan.valueTile = tile;
  plan.state = {{vector, tile / rows}, {keyLanes, valueLanes}, {1, plan.warps}, {0, 1}, plan.warps};
  plan.minBlocks = residentBlocks(problem, tile, vector * keyRepeats * tile / rows);
  // With all lanes along K the tile's own slice holds each key once; with fewer it holds copies.
  plan.keyIsSlice = keyLanes == layout::kWarpSize;
  plan.key = keyVectorLayout(problem.keyDim, plan.warps);
  return plan;
}
} // namespace

int64_t schedule::bytesInFlightFor(int64_t gigabytesPerSecond, int64_t smCount) {
  // Fewer would leave an SM without work between two blocks.
  constexpr int64_t least = 48 * 1024, granularity = 16 * 1024;
  if (gigabytesPerSecond == 0)
    return RecurrentProblem().bytesInFlight;
  int64_t bytes = gigabytesPerSecond * 2700 / smCount; // in 2.7 us
  return std::max(least, (bytes + granularity / 2) / granularity * granularity);
}

int64_t schedule::enoughBytesInFlight(const RecurrentProblem &problem) {
  return problem.stateBytes == 2 ? problem.bytesInFlight * 2 / 3 : problem.bytesInFlight;
}

llvm::SmallVector<RecurrentOverrides>
schedule::recurrentAlternatives(const RecurrentProblem &problem, const RecurrentOverrides &forced) {
  llvm::SmallVector<RecurrentOverrides> result{forced};
  if (problem.layout != StateLayout::KV || forced.keyWarps || forced.minBlocks)
    return result;
  // The other way round: few rows in many threads where usually many rows lie in few, or back. With
  // states of 16 bits the maths of key vectors, which every warp does for itself, wants few warps.
  int64_t keyLanes = forced.keyLanes ? forced.keyLanes : kUsualKeyLanes;
  int64_t vector = stateVector(problem);
  int64_t usual = usualKeyWarps(problem.keyDim, keyLanes, vector);
  int64_t other = isLarge(problem.keyDim) && vector == kVectorElements ? 2 * usual : usual / 2;
  if (other >= 1 && other <= kMaxKeyWarps) {
    result.push_back(forced);
    result.back().keyWarps = other;
  }
  return result;
}

llvm::SmallVector<RecurrentVariant> schedule::recurrentVariants(const RecurrentProblem &problem,
                                                                const RecurrentPlan &usual,
                                                                int64_t smCount) {
  constexpr const char *measured = "2026-11-30";
  // There, with f32 states of 128 x 128 and 32 heads, GDN / KDA / RWKV6, in ms: half the columns
  // per block spread a single row over twice as many SMs (B = 1: .0037 / .0038 / .0034 instead of
  // .0039 / .0040 / .0036; B = 8, one wave of blocks: no difference). A resident block less leaves
  // the assembler registers to schedule with, once there are waves enough to hide its rounding
  // (B = 64: .0702 / .0704 / .0701 instead of .0716 / .0711 / .0706; B = 8: 7 % slower).
  bool isMeasured = problem.layout == StateLayout::KV && problem.stateBytes == 4 &&
                    problem.keyDim == 128 && problem.canSplitValue && smCount > 0;
  if (!isMeasured)
    return {};
  llvm::SmallVector<RecurrentVariant> result;
  int64_t wave = smCount * usual.minBlocks / usual.tiles(problem.valueDim); // in heads
  RecurrentOverrides same;
  same.keyLanes = usual.state.lanes[0];
  same.keyWarps = usual.state.warps[0];
  if (usual.state.warps[1] % 2 == 0 && usual.valueTile % 2 == 0) {
    result.push_back({"few", same, 0, wave, measured});
    result.back().overrides.valueTile = usual.valueTile / 2;
  }
  if (usual.minBlocks > 1) {
    constexpr int64_t waves = 6;
    result.push_back({"many", same, waves * wave, INT64_MAX, measured});
    result.back().overrides.valueTile = usual.valueTile;
    result.back().overrides.minBlocks = usual.minBlocks - 1;
  }
  return result;
}

llvm::Expected<RecurrentPlan> schedule::planRecurrent(const RecurrentProblem &problem,
                                                      const RecurrentOverrides &overrides) {
  for (auto [name, dim] : {std::pair("key", problem.keyDim), std::pair("value", problem.valueDim)})
    if (dim < kMinDim || dim > kMaxDim || dim % kVectorElements != 0)
      return llvm::createStringError(
          "%s dimension: expected a multiple of 4 from 16 to 256, got %d", name, int(dim));
  if (problem.bytesInFlight < 1)
    return llvm::createStringError("bytes in flight: expected a positive number, got %lld",
                                   static_cast<long long>(problem.bytesInFlight));
  for (auto [name, value] :
       {std::pair("value tile", overrides.valueTile), std::pair("key warps", overrides.keyWarps),
        std::pair("resident blocks", overrides.minBlocks)})
    if (value < 0)
      return llvm::createStringError("%s: expected 0 (chosen) or more, got %d", name, int(value));
  if (overrides.keyLanes &&
      (problem.layout != StateLayout::KV || overrides.keyLanes < 1 || 32 % overrides.keyLanes != 0))
    return llvm::createStringError(
        "key lanes: expected a power of two up to 32 and the state layout kv, got %d",
        int(overrides.keyLanes));
  if (overrides.keyWarps && (problem.layout != StateLayout::KV || overrides.keyWarps < 0 ||
                             overrides.keyWarps > kMaxWarps))
    return llvm::createStringError(
        "key warps: expected 1 to %d and the state layout kv (with vk, warps split V only), got %d",
        int(kMaxWarps), int(overrides.keyWarps));
  if (overrides.valueTile && !problem.canSplitValue && overrides.valueTile < problem.valueDim)
    return llvm::createStringError(
        "value tile: the step sums along V, so expected at least %d, got %d", int(problem.valueDim),
        int(overrides.valueTile));
  llvm::Expected<RecurrentPlan> plan =
      problem.layout == StateLayout::KV ? planKV(problem, overrides) : planVK(problem, overrides);
  // The layout may hold more columns, but a sum along V must not see them: zeros need not stay
  // zeros on the way to it.
  if (plan && !problem.canSplitValue)
    plan->valueTile = problem.valueDim;
  if (plan && overrides.minBlocks)
    plan->minBlocks = overrides.minBlocks;
  return plan;
}
