//===- Chunkwise.h - Shape of a chunkwise kernel ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The chunkwise kernel takes C tokens at a time. A block walks the tokens of one row and value head
// and holds VT columns of the state, transposed, in the accumulators of a matrix instruction:
//
//   S^T  VT x K    warps split VT, a warp holds whole rows, so that the accumulators of one product
//                  are, without leaving the thread, the factor of the next
//   O^T  VT x C    likewise; so are reads and values to be written
//
// Their other factors are made of keys, queries and decays, C x K or C x C, and lie in shared
// memory. They are computed by all threads in a layout in which a thread holds consecutive tokens,
// so that running sums over tokens are sums over registers.
//
//===----------------------------------------------------------------------===//
#ifndef COMPILER_SCHEDULE_CHUNKWISE_H
#define COMPILER_SCHEDULE_CHUNKWISE_H

#include "compiler/Layout/Layout.h"
#include "compiler/Schedule/Recurrent.h"
#include "llvm/Support/Error.h"

namespace dl::schedule {

/// Forced values for tests and tuning; 0 lets the model decide.
struct ChunkOverrides {
  int64_t chunk = 0;     ///< C, tokens taken at a time
  int64_t valueTile = 0; ///< columns of V per block
  int64_t minBlocks = 0; ///< resident blocks per SM
};

struct ChunkPlan {
  int64_t chunk = 0;
  RecurrentPlan block;          ///< the tile of V, warps; `state` serves zeros of null rows alone
  layout::BlockedParams tokens; ///< of C x K: rows are tokens
  layout::BlockedParams pairs;  ///< of C x C: rows are tokens that read, columns those that wrote
};

/// The plan for a problem, or one line that says which dimension cannot be served and what could.
llvm::Expected<ChunkPlan> planChunkwise(const RecurrentProblem &problem,
                                        const ChunkOverrides &overrides = {});

/// That of the kernel which computes the factors of all chunks, in a block for each, for a kernel
/// that walks them by `walk`. No product with the state is made here, so nothing splits V.
ChunkPlan planPreparation(const RecurrentProblem &problem, const ChunkPlan &walk);

} // namespace dl::schedule

#endif // COMPILER_SCHEDULE_CHUNKWISE_H
