//===- Recurrent.h - Shape of a recurrent kernel ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The recurrent kernel holds a K x VT tile of the state in registers, reads it once for all queries
// of a token and writes it back after the last token. Blocks split V only. What is chosen here, as
// numbers, from the dims and the memory layout:
//
//  * how the K axis is dealt to lanes, warps and registers. This alone fixes the tree in which a
//  read is summed, so for one dealing every split of V gives the same bits. The usual dealing
//  depends on K and the state's layout and type only; a kernel for which another one is chosen says
//  so in its package;
//  * how wide a V tile is, in 16-byte accesses along the contiguous axis;
//  * the layout in which token-local key vectors are computed before they meet the tile.
//
//===----------------------------------------------------------------------===//
#ifndef COMPILER_SCHEDULE_RECURRENT_H
#define COMPILER_SCHEDULE_RECURRENT_H

#include "compiler/Layout/Layout.h"
#include "llvm/Support/Error.h"
#include <cstdint>

namespace dl::schedule {

/// Which of the two axes of a state matrix is contiguous in memory.
enum class StateLayout { KV, VK };

struct RecurrentProblem {
  int64_t keyDim = 0, valueDim = 0;
  StateLayout layout = StateLayout::KV;
  int64_t stateBytes = 4;            ///< of an element of the state in memory
  int64_t bytesInFlight = 96 * 1024; ///< of state, that an SM should have on the way at once
  /// False if a token's step sums along V: then one block must hold all of V.
  bool canSplitValue = true;
};

struct RecurrentPlan {
  int64_t valueTile = 0;       ///< columns of V per block
  int64_t warps = 0;           ///< per block
  int64_t minBlocks = 0;       ///< resident blocks per SM the register budget is set for
  layout::BlockedParams state; ///< of the K x valueTile tile, axes (key, value)
  layout::BlockedParams key;   ///< of token-local key vectors; unused if `keyIsSlice`
  bool keyIsSlice =
      false; ///< key vectors are computed as the slice of the state tile: no conversion

  int64_t tiles(int64_t valueDim) const { return (valueDim + valueTile - 1) / valueTile; }
};

/// Forced values for tests and tuning; 0 lets the model decide.
struct RecurrentOverrides {
  int64_t valueTile = 0; ///< columns of V per block
  int64_t keyLanes =
      0; ///< lanes of a warp that share the sum over K (layout kv); changes the summation tree
  int64_t keyWarps = 0; ///< warps that share the sum over K (layout kv); changes the summation tree
  int64_t minBlocks = 0; ///< resident blocks per SM
};

/// The ways to deal K to warps worth trying, best first, given as overrides on top of `forced`:
/// with more registers per thread, or more warps. Which one keeps enough of the state on its way to
/// memory shows only in the assembler's report.
llvm::SmallVector<RecurrentOverrides> recurrentAlternatives(const RecurrentProblem &problem,
                                                            const RecurrentOverrides &forced);

/// A kernel beside the usual one, for launches whose grid is small or large. K is dealt the same
/// way, so both give the same bits.
struct RecurrentVariant {
  const char *name;
  RecurrentOverrides overrides;
  int64_t minHeads = 0, maxHeads = INT64_MAX; ///< rows times value heads that it is for
  const char *measured = "";                  ///< when it was seen to be faster
};
/// The variants that are worth having beside `usual`, whose register budget was set for
/// `usual.minBlocks`, on a chip of `smCount` SMs whose target has a `measuredOn`. None where
/// nothing was measured.
llvm::SmallVector<RecurrentVariant> recurrentVariants(const RecurrentProblem &problem,
                                                      const RecurrentPlan &usual, int64_t smCount);

/// Bytes of state that an SM should have on the way at once, for memory of `gigabytesPerSecond`
/// that `smCount` of them share. From the first load of a block to its last store pass about
/// 2.7 us, measured on an H200: there, with 96 KiB and more, decode of f32 states runs at 92 % of
/// the read-modify-write ceiling or better, with 64 KiB at 76 to 94 %.
int64_t bytesInFlightFor(int64_t gigabytesPerSecond, int64_t smCount);
/// How many are enough not to look for another way. States of 16 bits take two registers for four
/// bytes, so that many are out of reach: with 64 KiB they run at 85 to 94 %, with 48 at 75 %.
int64_t enoughBytesInFlight(const RecurrentProblem &problem);

/// The plan for a problem, or one line that says which dimension cannot be served and what could.
llvm::Expected<RecurrentPlan> planRecurrent(const RecurrentProblem &problem,
                                            const RecurrentOverrides &overrides = {});

} // namespace dl::schedule

#endif // COMPILER_SCHEDULE_RECURRENT_H
