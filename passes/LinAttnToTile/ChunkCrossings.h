//===- ChunkCrossings.h - One kernel for a chunk, or two ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the keys of a chunk come to does not depend on the state, so all chunks can be prepared at
// once, by a kernel that leaves it in memory, and walked by another one. What is handed over are
// fields of a row of the workspace, one row for each chunk and value head, in the order in which
// ChunkEmitter comes by them.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LINATTNTOTILE_CHUNKCROSSINGS_H
#define PASSES_LINATTNTOTILE_CHUNKCROSSINGS_H

#include "passes/LinAttnToTile/ChunkEmitter.h"

namespace dl {

/// In one kernel, by way of shared memory.
class CrossInBlock : public ChunkCrossing {
public:
  CrossInBlock(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), loc(loc) {}
  void start() override;
  mlir::Value matrix(mlir::Value value, tile::SharedType type) override;
  mlir::Value vector(mlir::Value value, mlir::RankedTensorType type) override;
  void ready() override;

private:
  mlir::OpBuilder &builder;
  mlir::Location loc;
};

/// Where the next field of a workspace's rows begins.
class WorkspaceFields {
public:
  /// `workspace`: bytes [chunks, HV, row bytes].
  WorkspaceFields(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value workspace)
      : builder(builder), loc(loc), workspace(workspace) {}
  /// The next field: memory [chunks, HV, shape...].
  mlir::Value next(llvm::ArrayRef<int64_t> shape, mlir::Type element);
  int64_t bytes() const { return end; }

private:
  mlir::OpBuilder &builder;
  mlir::Location loc;
  mlir::Value workspace;
  int64_t end = 0;
};

/// Writes the fields of a chunk. What stands for them has no meaning: the products that it enters
/// are those of the other kernel, and go away here.
class CrossToMemory : public ChunkCrossing {
public:
  /// `chunk`, `head`: index, the row of the workspace.
  CrossToMemory(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value workspace,
                mlir::Value chunk, mlir::Value head)
      : builder(builder), loc(loc), fields(builder, loc, workspace), chunk(chunk), head(head) {}
  mlir::Value matrix(mlir::Value value, tile::SharedType type) override;
  mlir::Value vector(mlir::Value value, mlir::RankedTensorType type) override;
  int64_t bytes() const { return fields.bytes(); }

private:
  mlir::OpBuilder &builder;
  mlir::Location loc;
  WorkspaceFields fields;
  mlir::Value chunk, head;
};

/// Reads the fields of a loop's chunks, of each one while the chunk before it is walked. Two
/// buffers per field take turns.
class CrossFromMemory : public ChunkCrossing {
public:
  /// The builder is before the loop, which starts with `firstChunk`.
  CrossFromMemory(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value workspace,
                  mlir::Value firstChunk, mlir::Value head);
  /// The builder is at the start of the loop's body: waits for the fields of its chunk, number
  /// `turn` (i32), and orders those of `nextChunk`.
  void startChunk(mlir::Value turn, mlir::Value nextChunk);
  mlir::Value matrix(mlir::Value value, tile::SharedType type) override;
  mlir::Value vector(mlir::Value value, mlir::RankedTensorType type) override;

private:
  mlir::Value fetch(llvm::ArrayRef<int64_t> shape, mlir::Type element, tile::SwizzledAttr swizzle);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  WorkspaceFields fields;
  mlir::Value firstChunk, head, nextChunk, stage, nextStage;
  mlir::Operation *firstCommit, *nextCommit = nullptr; ///< fields' copies go before them
};

} // namespace dl

#endif // PASSES_LINATTNTOTILE_CHUNKCROSSINGS_H
