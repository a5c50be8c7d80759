//===- ChunkedRow.h - How the tokens of a row lie in chunks ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Chunks of C tokens begin with a row's first token, unless the row leaves checkpoints: states
// after so many of its tokens, and after every further interval, which is a multiple of C. Then
// chunks lie so that one ends with the first checkpoint, and hence with all. The first chunk begins
// `before` tokens earlier than the row, which are not there, and a row may have one chunk more.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LINATTNTOTILE_CHUNKEDROW_H
#define PASSES_LINATTNTOTILE_CHUNKEDROW_H

#include "passes/LinAttnToTile/Row.h"

namespace dl {

class ChunkedRow : public Row {
public:
  /// `tokensPerChunk`: C, a power of two. `interval`: 0 for none.
  ChunkedRow(mlir::OpBuilder &builder, mlir::Location loc, tile::KernelOp kernel,
             const OperatorArguments &where, mlir::Value row, int64_t tokensPerChunk,
             int64_t interval);

  /// Of a chunk, i32: those that are there.
  struct Tokens {
    mlir::Value first, count;
  };
  /// Of the chunk whose place for a first token is `chunk`, i32.
  Tokens tokensOf(mlir::Value chunk);

  mlir::Value begin;  ///< i32: the first chunk's place for a first token
  mlir::Value before; ///< i32: places of it that are before the row; null: none

  /// Calls `body` with the slot for the state behind a chunk, whose tokens are before `chunkEnd`,
  /// i32, under the condition that there is one. Not without an interval.
  void ifCheckpoint(mlir::Value chunkEnd, llvm::function_ref<void(mlir::Value)> body);

private:
  void findCheckpoints();

  const int64_t tokensPerChunk, interval;
  mlir::Value checkpoint; ///< i32: tokens of the row before its first one
};

} // namespace dl

#endif // PASSES_LINATTNTOTILE_CHUNKEDROW_H
