//===- ChunkCrossings.cpp - One kernel for a chunk, or two ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/LinAttnToTile/ChunkCrossings.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace dl;

//===----------------------------------------------------------------------===//
// In a block
//===----------------------------------------------------------------------===//

Value CrossInBlock::matrix(Value value, tile::SharedType type) {
  Value buffer = tile::AllocOp::create(builder, loc, type);
  tile::LocalStoreOp::create(builder, loc, value, buffer);
  return buffer;
}

Value CrossInBlock::vector(Value value, RankedTensorType type) {
  return tile::ConvertOp::create(builder, loc, type, value);
}

/// The buffers may still be read for the chunk before.
void CrossInBlock::start() { tile::BarrierOp::create(builder, loc, /*async_proxy=*/false); }

void CrossInBlock::ready() { tile::BarrierOp::create(builder, loc, readsByDescriptor); }

//===----------------------------------------------------------------------===//
// Fields
//===----------------------------------------------------------------------===//

/// Fields start where rows of banks do; rows are whole rounds of copies of 16 bytes by 128 threads.
static constexpr int64_t kFieldAlignment = 128, kRowAlignment = 2048;

int64_t WorkspaceFields::next(tile::SharedType type) {
  layout::SharedLayout layout = llvm::cantFail(tile::getLayout(type));
  int64_t start = llvm::alignTo(end, std::max(kFieldAlignment, layout.alignment()));
  end = start + layout.totalBytes();
  return start;
}

int64_t WorkspaceFields::bytes() const {
  return llvm::alignTo(std::max<int64_t>(end, 1), kRowAlignment);
}

static tile::SharedType plainRow(ArrayRef<int64_t> shape, Type element) {
  MLIRContext *context = element.getContext();
  return tile::SharedType::get(context, shape, element, tile::SwizzledAttr::get(context, 0));
}

//===----------------------------------------------------------------------===//
// To memory
//===----------------------------------------------------------------------===//

void CrossToMemory::store(Value value, tile::SharedType type) {
  tile::StoreImageOp::create(builder, loc, value, workspace, ValueRange{chunk, head},
                             fields.next(type), type);
}

Value CrossToMemory::matrix(Value value, tile::SharedType type) {
  store(value, type);
  return tile::AllocOp::create(builder, loc, type);
}

Value CrossToMemory::vector(Value value, RankedTensorType type) {
  store(value, plainRow(type.getShape(), type.getElementType()));
  return arith::ConstantOp::create(builder, loc,
                                   DenseElementsAttr::get(type, builder.getF32FloatAttr(0)));
}

//===----------------------------------------------------------------------===//
// From memory
//===----------------------------------------------------------------------===//

CrossFromMemory::CrossFromMemory(OpBuilder &builder, Location loc, Value workspace,
                                 Value firstChunk, Value exists, Value head, bool isBulk)
    : builder(builder), loc(loc), workspace(workspace), head(head) {
  int64_t bytes = cast<MemRefType>(workspace.getType()).getShape().back();
  rowType = plainRow({bytes}, builder.getI8Type());
  ring = tile::AllocOp::create(builder, loc, plainRow({2, 1, bytes}, builder.getI8Type()));
  if (isBulk)
    arrivals = tile::ArrivalsOp::create(builder, loc, plainRow({2}, builder.getI64Type()));
  fetch(firstChunk, exists, integer(0));
}

Value CrossFromMemory::integer(int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 32);
}

Value CrossFromMemory::stageOf(Value turn) {
  return tile::StageOp::create(builder, loc, rowType, ring, turn);
}

/// Threads copy some chunk in any case: that takes no branch, and the kernel waits for it. No block
/// may end before its bulk copies have arrived, so what nobody will wait for is not ordered.
void CrossFromMemory::fetch(Value chunk, Value exists, Value stage) {
  SmallVector<Value> place{chunk, head};
  if (!arrivals) {
    tile::CopyAsyncOp::create(builder, loc, workspace, place, stageOf(stage));
    tile::CopyCommitOp::create(builder, loc);
    return;
  }
  auto branch = scf::IfOp::create(builder, loc, exists, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  tile::CopyBulkOp::create(builder, loc, workspace, place, stageOf(stage), arrivals, stage);
}

void CrossFromMemory::finish() {
  if (!arrivals)
    tile::CopyWaitOp::create(builder, loc, 0);
}

void CrossFromMemory::startChunk(Value turn, Value nextChunk, Value exists) {
  Value one = integer(1);
  Value stage = arith::AndIOp::create(builder, loc, turn, one);
  Value other = arith::XOrIOp::create(builder, loc, stage, one);
  // Behind the barrier no thread still reads the buffer of the chunk before, and each one sees
  // what all have copied.
  if (!arrivals)
    tile::CopyWaitOp::create(builder, loc, 0);
  tile::BarrierOp::create(builder, loc, /*async_proxy=*/false);
  fetch(nextChunk, exists, other);
  row = stageOf(stage);
  if (!arrivals)
    return;
  Value parity =
      arith::AndIOp::create(builder, loc, arith::ShRUIOp::create(builder, loc, turn, one), one);
  tile::AwaitOp::create(builder, loc, arrivals, stage, parity);
}

Value CrossFromMemory::part(tile::SharedType type) {
  return tile::LocalPartOp::create(builder, loc, type, row, fields.next(type));
}

Value CrossFromMemory::matrix(Value, tile::SharedType type) { return part(type); }

Value CrossFromMemory::vector(Value, RankedTensorType type) {
  Value buffer = part(plainRow(type.getShape(), type.getElementType()));
  return tile::LocalLoadOp::create(builder, loc, type, buffer);
}
