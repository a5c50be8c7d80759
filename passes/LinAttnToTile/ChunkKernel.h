//===- ChunkKernel.h - Chunks of tokens in one kernel or two ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LINATTNTOTILE_CHUNKKERNEL_H
#define PASSES_LINATTNTOTILE_CHUNKKERNEL_H

#include "compiler/Schedule/Chunkwise.h"
#include "passes/LinAttnToTile/ChunkRows.h"
#include "passes/LinAttnToTile/KernelArguments.h"

namespace dl {

enum class ChunkPart {
  All,     ///< everything, chunk after chunk
  Prepare, ///< what does not depend on the state, for all chunks at once, to the workspace
  Walk,    ///< the rest, from the workspace; takes the same arguments
};

/// Replaces the operator (options set, ops expanded, chunkwise legal) by its kernel. Fails, with a
/// diagnostic at the op, on maths that has no place in a block.
mlir::LogicalResult emitChunkKernel(ChunkPart part, linattn::OperatorOp op,
                                    const analysis::StepAnalysis &step, const ChunkRows &rows,
                                    const KernelTypes &types, const schedule::ChunkPlan &plan);

} // namespace dl

#endif // PASSES_LINATTNTOTILE_CHUNKKERNEL_H
