//===- TileCopyOps.cpp - Verifiers of memory in parts and copies in the background ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Tile/IR/Tile.h"

using namespace mlir;
using namespace dl::tile;

/// Bytes of the trailing static, packed dimensions, and how many there are.
static std::pair<int64_t, int64_t> packedTail(MemRefType type) {
  SmallVector<int64_t> strides;
  int64_t offset, elements = 1, rank = 0;
  if (failed(type.getStridesAndOffset(strides, offset)))
    return {0, 0};
  for (int64_t dim = type.getRank();
       dim-- > 0 && !type.isDynamicDim(dim) && strides[dim] == elements; ++rank)
    elements *= type.getDimSize(dim);
  return {elements * type.getElementTypeBitWidth() / 8, rank};
}

LogicalResult PartOp::verify() {
  auto from = cast<MemRefType>(getMemory().getType()), to = cast<MemRefType>(getResult().getType());
  auto argument = dyn_cast<BlockArgument>(getMemory());
  auto [rowBytes, rowRank] = packedTail(from);
  if (!argument || !isa<KernelOp>(argument.getOwner()->getParentOp()) ||
      !from.getElementType().isInteger(8) || rowRank != 1)
    return emitOpError("C1: expected an argument of bytes in packed rows, got ") << from;
  auto [bytes, rank] = packedTail(to);
  int64_t leading = from.getRank() - 1;
  if (rank == 0 || to.getRank() - rank != leading ||
      to.getShape().take_front(leading) != from.getShape().take_front(leading))
    return emitOpError("C2: expected the leading dimensions of ")
           << from << " and packed ones behind them, got " << to;
  if (int64_t offset = getOffset(); offset < 0 || offset + bytes > rowBytes)
    return emitOpError("C2: expected a part of ")
           << rowBytes << " bytes, got " << bytes << " from " << offset << " on";
  if (getOffset() % 16 != 0)
    return emitOpError("C3: expected an offset that is a multiple of 16, got ") << getOffset();
  return success();
}

LogicalResult StageOp::verify() {
  SharedType ring = getRing().getType(), one = getResult().getType();
  ArrayRef<int64_t> shape = ring.getShape().drop_front();
  bool fits =
      one.getShape() == shape || (shape.front() == 1 && one.getShape() == shape.drop_front());
  if (!getRing().getDefiningOp<AllocOp>() || ring.getShape().size() != 3 || !fits ||
      one.getElementType() != ring.getElementType() || one.getLayout() != ring.getLayout())
    return emitOpError("C1: expected one of the buffers of ") << ring << ", got " << one;
  return success();
}

LogicalResult CopyAsyncOp::verify() {
  auto memory = cast<MemRefType>(getMemory().getType());
  SharedType buffer = getBuffer().getType();
  ArrayRef<int64_t> axes = getAxes();
  int64_t rank = memory.getRank();
  auto inRange = [&](int64_t axis) { return axis >= 0 && axis < rank; };
  SmallVector<int64_t> strides;
  int64_t offset;
  bool isMatrix = axes.size() == 2;
  if (static_cast<int64_t>(getIndices().size()) != rank || axes.empty() || axes.size() > 2 ||
      axes.size() != buffer.getShape().size() || !llvm::all_of(axes, inRange) ||
      (isMatrix && axes[0] == axes[1]) || failed(memory.getStridesAndOffset(strides, offset)) ||
      strides[axes.back()] != 1)
    return emitOpError("C1: expected ")
           << rank << " indices and the axes of the buffer, the last one packed, got "
           << getIndices().size() << " and " << axes << " of " << memory;
  int64_t bytes = buffer.getElementType().getIntOrFloatBitWidth() / 8;
  if (buffer.getElementType() != memory.getElementType() ||
      buffer.getShape().back() * bytes % 16 != 0)
    return emitOpError("C2: expected rows of a multiple of 16 bytes of ")
           << memory.getElementType() << ", got " << buffer;
  if (!getMemory().getDefiningOp<PartOp>())
    return emitOpError("C3: expected memory of tile.part");
  return success();
}
