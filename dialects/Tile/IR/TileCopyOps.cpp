//===- TileCopyOps.cpp - Verifiers of rows of bytes and copies in the background ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/Tile/IR/Tile.h"

using namespace mlir;
using namespace dl::tile;

/// The length of the memory's rows of bytes; 0 if it has none, or not one index for each dimension
/// but that of the row.
static int64_t rowBytes(MemRefType memory, ValueRange indices) {
  SmallVector<int64_t> strides;
  int64_t offset, rank = memory.getRank();
  bool hasRows = rank > 0 && memory.getElementType().isInteger(8) &&
                 static_cast<int64_t>(indices.size()) == rank - 1 &&
                 succeeded(memory.getStridesAndOffset(strides, offset)) && strides.back() == 1 &&
                 !memory.isDynamicDim(rank - 1);
  return hasRows ? memory.getDimSize(rank - 1) : 0;
}

static int64_t alignmentOf(SharedType buffer) {
  return llvm::cantFail(getLayout(buffer)).alignment();
}

/// Whether a buffer lies in a row.
static bool liesInside(int64_t offset, SharedType buffer, int64_t bytes) {
  return offset >= 0 && offset % alignmentOf(buffer) == 0 &&
         offset + llvm::cantFail(getLayout(buffer)).totalBytes() <= bytes;
}

static bool isRowOfBytes(SharedType type) {
  return type.getShape().size() == 1 && type.getElementType().isInteger(8);
}

LogicalResult StoreImageOp::verify() {
  auto memory = cast<MemRefType>(getMemory().getType());
  int64_t bytes = rowBytes(memory, getIndices());
  if (bytes == 0)
    return emitOpError("C1: expected rows of i8 and an index for every other dimension, got ")
           << memory << " and " << getIndices().size() << " indices";
  auto image = dyn_cast<SharedType>(getImage());
  RankedTensorType tensor = getValue().getType();
  if (!image || image.getShape() != tensor.getShape() ||
      image.getElementType() != tensor.getElementType())
    return emitOpError("C2: expected a buffer for ") << tensor << ", got " << getImage();
  if (!liesInside(getOffset(), image, bytes))
    return emitOpError("C3: expected a multiple of ")
           << alignmentOf(image) << " from which " << image << " fits into " << bytes
           << " bytes, got " << getOffset();
  return success();
}

LogicalResult LocalPartOp::verify() {
  if (!isRowOfBytes(getBytes().getType()))
    return emitOpError("C1: expected a row of i8, got ") << getBytes().getType();
  if (!liesInside(getOffset(), getResult().getType(), getBytes().getType().getShape()[0]))
    return emitOpError("C2: expected a multiple of ")
           << alignmentOf(getResult().getType()) << " from which " << getResult().getType()
           << " fits into " << getBytes().getType() << ", got " << getOffset();
  return success();
}

LogicalResult StageOp::verify() {
  SharedType ring = getRing().getType(), one = getResult().getType();
  ArrayRef<int64_t> shape = ring.getShape().drop_front();
  bool fits = one.getShape() == shape ||
              (shape.size() == 2 && shape.front() == 1 && one.getShape() == shape.drop_front());
  if (!getRing().getDefiningOp<AllocOp>() || ring.getShape().size() != 3 || !fits ||
      one.getElementType() != ring.getElementType() || one.getLayout() != ring.getLayout())
    return emitOpError("C1: expected one of the buffers of ") << ring << ", got " << one;
  return success();
}

/// C1 of copies.
template <typename Copy> static LogicalResult verifyCopy(Copy op) {
  auto memory = cast<MemRefType>(op.getMemory().getType());
  int64_t bytes = rowBytes(memory, op.getIndices());
  SharedType buffer = op.getBuffer().getType();
  if (bytes == 0 || bytes % 16 != 0 || !isRowOfBytes(buffer) || buffer.getShape()[0] != bytes)
    return op.emitOpError(
               "C1: expected rows of i8 of a multiple of 16 bytes, an index for every other "
               "dimension and a buffer of one row, got ")
           << memory << ", " << op.getIndices().size() << " indices and " << buffer;
  return success();
}

LogicalResult CopyAsyncOp::verify() { return verifyCopy(*this); }

static LogicalResult verifyCounters(Operation *op, Value arrivals, StringRef constraint) {
  if (!arrivals.getDefiningOp<ArrivalsOp>())
    return op->emitOpError(constraint) << ": expected counters of tile.arrivals";
  return success();
}

LogicalResult ArrivalsOp::verify() {
  SharedType type = getResult().getType();
  if (type.getShape().size() != 1 || type.getShape()[0] > 16 ||
      !type.getElementType().isInteger(64))
    return emitOpError("C1: expected a row of at most 16 i64, got ") << type;
  return success();
}

LogicalResult CopyBulkOp::verify() {
  if (failed(verifyCopy(*this)))
    return failure();
  if (int64_t bytes = getBuffer().getType().getShape()[0]; bytes >= 1 << 20)
    return emitOpError("C1: expected rows of less than 2^20 bytes, got ") << bytes;
  return verifyCounters(*this, getArrivals(), "C2");
}

LogicalResult AwaitOp::verify() { return verifyCounters(*this, getArrivals(), "C1"); }
