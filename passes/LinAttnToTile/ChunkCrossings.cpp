//===- ChunkCrossings.cpp - One kernel for a chunk, or two ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/LinAttnToTile/ChunkCrossings.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
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

void CrossInBlock::ready() { tile::BarrierOp::create(builder, loc, /*async_proxy=*/false); }

//===----------------------------------------------------------------------===//
// Fields
//===----------------------------------------------------------------------===//

Value WorkspaceFields::next(ArrayRef<int64_t> shape, Type element) {
  constexpr int64_t dynamic = ShapedType::kDynamic;
  SmallVector<int64_t> sizes{dynamic, dynamic}, strides{dynamic, dynamic};
  llvm::append_range(sizes, shape);
  strides.resize(sizes.size());
  int64_t elements = 1;
  for (size_t i = shape.size(); i-- > 0; elements *= shape[i])
    strides[2 + i] = elements;
  auto layout = StridedLayoutAttr::get(element.getContext(), /*offset=*/0, strides);
  Value field =
      tile::PartOp::create(builder, loc, MemRefType::get(sizes, element, layout), workspace, end);
  end = llvm::alignTo(end + elements * element.getIntOrFloatBitWidth() / 8, 16);
  return field;
}

static SmallVector<int64_t> lastAxes(size_t rank) {
  return rank == 1 ? SmallVector<int64_t>{2} : SmallVector<int64_t>{2, 3};
}

//===----------------------------------------------------------------------===//
// To memory
//===----------------------------------------------------------------------===//

static void storeField(OpBuilder &builder, Location loc, Value value, Value field, Value chunk,
                       Value head) {
  size_t rank = cast<RankedTensorType>(value.getType()).getRank();
  Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
  SmallVector<Value> indices{chunk, head};
  indices.append(rank, zero);
  tile::StoreOp::create(builder, loc, value, field, indices, lastAxes(rank),
                        builder.getDenseBoolArrayAttr(SmallVector<bool>(rank, true)),
                        /*count=*/Value());
}

Value CrossToMemory::matrix(Value value, tile::SharedType type) {
  storeField(builder, loc, value, fields.next(type.getShape(), type.getElementType()), chunk, head);
  return tile::AllocOp::create(builder, loc, type);
}

Value CrossToMemory::vector(Value value, RankedTensorType type) {
  storeField(builder, loc, value, fields.next(type.getShape(), type.getElementType()), chunk, head);
  return arith::ConstantOp::create(builder, loc,
                                   DenseElementsAttr::get(type, builder.getF32FloatAttr(0)));
}

//===----------------------------------------------------------------------===//
// From memory
//===----------------------------------------------------------------------===//

CrossFromMemory::CrossFromMemory(OpBuilder &builder, Location loc, Value workspace,
                                 Value firstChunk, Value head)
    : builder(builder), loc(loc), fields(builder, loc, workspace), firstChunk(firstChunk),
      head(head) {
  firstCommit = tile::CopyCommitOp::create(builder, loc);
}

void CrossFromMemory::startChunk(Value turn, Value next) {
  nextChunk = next;
  Value one = arith::ConstantIntOp::create(builder, loc, 1, 32);
  stage = arith::AndIOp::create(builder, loc, turn, one);
  nextStage = arith::XOrIOp::create(builder, loc, stage, one);
  // Behind the barrier every thread sees what all have copied, and none still reads the buffers
  // of the chunk before.
  tile::CopyWaitOp::create(builder, loc, 0);
  tile::BarrierOp::create(builder, loc, /*async_proxy=*/false);
  nextCommit = tile::CopyCommitOp::create(builder, loc);
}

/// The buffer of the next field for this chunk.
Value CrossFromMemory::fetch(ArrayRef<int64_t> shape, Type element, tile::SwizzledAttr swizzle) {
  auto one = tile::SharedType::get(builder.getContext(), shape, element, swizzle);
  SmallVector<int64_t> ringShape{2};
  if (shape.size() == 1)
    ringShape.push_back(1);
  llvm::append_range(ringShape, shape);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(firstCommit);
  Value ring = tile::AllocOp::create(
      builder, loc, tile::SharedType::get(builder.getContext(), ringShape, element, swizzle));
  Value field = fields.next(shape, element);
  auto copy = [&](Value chunk, Value turn) {
    Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
    SmallVector<Value> indices{chunk, head};
    indices.append(shape.size(), zero);
    Value buffer = tile::StageOp::create(builder, loc, one, ring, turn);
    tile::CopyAsyncOp::create(builder, loc, field, indices, lastAxes(shape.size()), buffer);
  };
  copy(firstChunk, arith::ConstantIntOp::create(builder, loc, 0, 32));
  builder.setInsertionPoint(nextCommit);
  copy(nextChunk, nextStage);
  return tile::StageOp::create(builder, loc, one, ring, stage);
}

Value CrossFromMemory::matrix(Value, tile::SharedType type) {
  return fetch(type.getShape(), type.getElementType(), type.getLayout());
}

Value CrossFromMemory::vector(Value, RankedTensorType type) {
  auto plain = tile::SwizzledAttr::get(builder.getContext(), 0);
  Value buffer = fetch(type.getShape(), type.getElementType(), plain);
  return tile::LocalLoadOp::create(builder, loc, type, buffer);
}
