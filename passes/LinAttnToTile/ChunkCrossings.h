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

/// In one kernel, by way of shared memory. `readsByDescriptor`: products read it past the caches
/// and orders of plain accesses (wgmma).
class CrossInBlock : public ChunkCrossing {
public:
  CrossInBlock(mlir::OpBuilder &builder, mlir::Location loc, bool readsByDescriptor)
      : builder(builder), loc(loc), readsByDescriptor(readsByDescriptor) {}
  void start() override;
  mlir::Value matrix(mlir::Value value, tile::SharedType type) override;
  mlir::Value vector(mlir::Value value, mlir::RankedTensorType type) override;
  void ready() override;

private:
  mlir::OpBuilder &builder;
  mlir::Location loc;
  const bool readsByDescriptor;
};

/// Where the fields of a workspace's rows are.
class WorkspaceFields {
public:
  /// The place of the next field, a buffer of this type.
  int64_t next(tile::SharedType type);
  /// Of a row.
  int64_t bytes() const;

private:
  int64_t end = 0;
};

/// Writes the fields of a chunk. What stands for them has no meaning: the products that it enters
/// are those of the other kernel, and go away here.
class CrossToMemory : public ChunkCrossing {
public:
  /// `workspace`: bytes [chunks, HV, row]; `chunk`, `head`: index, the row of it.
  CrossToMemory(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value workspace,
                mlir::Value chunk, mlir::Value head)
      : builder(builder), loc(loc), workspace(workspace), chunk(chunk), head(head) {}
  mlir::Value matrix(mlir::Value value, tile::SharedType type) override;
  mlir::Value vector(mlir::Value value, mlir::RankedTensorType type) override;
  int64_t bytes() const { return fields.bytes(); }

private:
  void store(mlir::Value value, tile::SharedType type);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  WorkspaceFields fields;
  mlir::Value workspace, chunk, head;
};

/// Reads the fields of a loop's chunks, of each one while the chunk before it is walked. Two
/// buffers take turns.
class CrossFromMemory : public ChunkCrossing {
public:
  /// The builder is before the loop, which starts with `firstChunk`, if that `exists` (i1).
  /// `isBulk`: one instruction copies all fields of a chunk, past the caches and orders of plain
  /// accesses, as descriptors read them.
  CrossFromMemory(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value workspace,
                  mlir::Value firstChunk, mlir::Value exists, mlir::Value head, bool isBulk);
  /// The builder is at the start of the loop's body: waits for the fields of its chunk, number
  /// `turn` (i32), and orders those of `nextChunk`, if that `exists` (i1).
  void startChunk(mlir::Value turn, mlir::Value nextChunk, mlir::Value exists);
  void finish(); ///< behind the loop
  mlir::Value matrix(mlir::Value value, tile::SharedType type) override;
  mlir::Value vector(mlir::Value value, mlir::RankedTensorType type) override;

private:
  mlir::Value stageOf(mlir::Value turn);
  mlir::Value integer(int64_t value); ///< i32
  void fetch(mlir::Value chunk, mlir::Value exists, mlir::Value stage);
  mlir::Value part(tile::SharedType type);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  WorkspaceFields fields;
  mlir::Value workspace, head, ring, row;
  mlir::Value arrivals; ///< null where threads copy
  tile::SharedType rowType;
};

} // namespace dl

#endif // PASSES_LINATTNTOTILE_CHUNKCROSSINGS_H
