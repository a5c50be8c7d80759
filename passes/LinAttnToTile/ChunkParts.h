//===- ChunkParts.h - Preparing one part while another one is walked ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The kernel that prepares chunks and the one that walks them are launched in turn for one part of
// the chunks after the other: while a part is walked, which keeps few SMs busy, the next one is
// prepared. The workspace holds two parts. A row that goes on in the next part, and of each part
// there is one at most, hands its state over in f32.
//
// A preparation but for the first one does not wait for the walk before it: that reads the other
// half of the workspace. Yet one of its blocks stays until that walk is done, so that whoever waits
// for the preparation waits for both.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LINATTNTOTILE_CHUNKPARTS_H
#define PASSES_LINATTNTOTILE_CHUNKPARTS_H

#include "compiler/Schedule/Chunkwise.h"
#include "passes/LinAttnToTile/ChunkedRow.h"

namespace dl {

/// What of a row a launch walks: all of it, or its chunks of one part.
struct ChunkSpan {
  mlir::Value first, end;   ///< i32: tokens; the row may begin within the first chunk
  mlir::Value chunk;        ///< index: row of the workspace of the first one
  mlir::Value isHere;       ///< i1: there is something to do; null: always
  mlir::Value begins, ends; ///< i1: of the row; null: always
};

class ChunkParts {
public:
  /// `tiles`: of V, blocks that walk a row and value head. `beginsWithin`: rows may begin, as they
  /// may end, within a chunk.
  ChunkParts(mlir::OpBuilder &builder, mlir::Location loc, const schedule::ChunkPlan &plan,
             int64_t tiles, bool beginsWithin)
      : chunksWithin(beginsWithin ? 2 : 1), builder(builder), loc(loc), split(plan.split),
        tokensPerChunk(plan.tokensPerChunk()), tiles(tiles) {}

  /// Of a row, beside whole ones, at most.
  const int64_t chunksWithin;

  /// Adds the workspace, of rows of so many bytes, and the states handed over.
  void addWorkspaces(KernelArguments &arguments, const KernelTypes &types, int64_t rowBytes);
  /// Adds the numbers of chunks, in all and of a part, and of the part.
  void addScalars(KernelArguments &arguments);
  /// Chunks of a part, an expression of the sizes.
  mlir::Attribute sizeOf(KernelArguments &arguments);

  /// From here on there is a kernel with these arguments.
  void setKernel(tile::KernelOp op) { kernel = op; }
  mlir::Value getWorkspace() { return argument(workspace); }
  mlir::Value getCarried() { return argument(carried); } ///< f32 [2, HV, V, K]
  mlir::Value countChunks() { return argument(chunks); } ///< i32
  mlir::Value isFirst();                                 ///< i1
  /// i32: the chunk that is number `number` of this part; `exists`, i1: whether it is one of it.
  mlir::Value chunkOf(mlir::Value number, mlir::Value &exists);
  /// index: its row of the workspace.
  mlir::Value rowOfWorkspace(mlir::Value number);
  /// index: which of the states handed over this part leaves, or finds.
  mlir::Value carriedTo();
  mlir::Value carriedFrom();
  /// Of a row whose chunks begin with `firstChunk`, i32.
  ChunkSpan spanOf(ChunkedRow &row, mlir::Value firstChunk);

private:
  mlir::Value argument(unsigned i) { return kernel.getBody().getArgument(i); }
  mlir::Value constant(int64_t value);
  mlir::Value toIndex(mlir::Value number);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value isOdd();
  mlir::Attribute countOf(KernelArguments &arguments);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  const schedule::ChunkSplit split;
  const int64_t tokensPerChunk, tiles;
  tile::KernelOp kernel;
  unsigned workspace = 0, carried = 0, chunks = 0, chunksPerPart = 0, part = 0; ///< arguments
};

} // namespace dl

#endif // PASSES_LINATTNTOTILE_CHUNKPARTS_H
