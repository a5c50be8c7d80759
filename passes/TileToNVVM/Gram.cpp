//===- Gram.cpp - Products of the rows of shared buffers ------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The pairs of a tile.gram are cut into blocks of 16 x 16, which the warps share out: warp w takes
// blocks w, w + warps .. A block is two instructions m16n8k16 for each step along K. Both factors
// lie with K contiguous, which is how the instruction wants them, so ldmatrix reads them as they
// are. Where blocks are larger than what `half` names, stores are masked.
//
//===----------------------------------------------------------------------===//

#include "compiler/Layout/Atoms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "passes/TileToNVVM/MmaSync.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace dl;
using namespace dl::tile;

static constexpr int64_t kBlock = 16; ///< rows and columns

namespace {
/// The blocks of a tile.gram that hold pairs, in an order of their own.
struct BlockOrder {
  int64_t rows; ///< blocks along each axis
  int64_t half; ///< in blocks; 0 where `half` is smaller than a block, -1 without it

  int64_t count() const {
    return half > 0 ? rows / 2 * half : half == 0 ? rows : rows * (rows + 1) / 2;
  }
  std::pair<Value, Value> find(OpBuilder &builder, Location loc, Value number) const;
};
} // namespace

/// Row and column of a block. Two rows of a triangle, one from each end, together have as many
/// blocks as any other two: they are the rows of a rectangle.
///
///   0                         rows = 4:   6 7 8 9 0      rows = 3:   3 4 5
///   1 2                                   3 4 5 1 2                  1 2 0
///   3 4 5
///   6 7 8 9
std::pair<Value, Value> BlockOrder::find(OpBuilder &builder, Location loc, Value number) const {
  auto constant = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(builder, loc, value, 32);
  };
  auto apply = [&](auto tag, Value a, Value b) -> Value {
    return decltype(tag)::create(builder, loc, a, b);
  };
  if (half == 0)
    return {number, number};
  int64_t width = half > 0 ? half : rows | 1;
  Value row = apply(arith::DivUIOp(), number, constant(width));
  Value column = apply(arith::RemUIOp(), number, constant(width));
  if (half > 0) { // `row` counts rows of later halves
    Value group = apply(arith::DivUIOp(), row, constant(half));
    Value first = apply(arith::MulIOp(), group, constant(half));
    row = apply(arith::AddIOp(), row, apply(arith::AddIOp(), first, constant(half)));
    column = apply(arith::AddIOp(), column, apply(arith::AddIOp(), first, first));
    return {row, column};
  }
  Value length = apply(arith::SubIOp(), constant(rows), row);
  Value isLonger = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, column, length);
  Value rest = apply(arith::SubIOp(), column, length);
  Value longer = apply(arith::SubIOp(), constant(rows - 1), row);
  Value shorter = apply(arith::SubIOp(), row, constant(rows % 2));
  return {arith::SelectOp::create(builder, loc, isLonger, longer, shorter),
          arith::SelectOp::create(builder, loc, isLonger, column, rest)};
}

/// Stores a block's pairs, two neighbours of a row at once: halves of less than a block are below
/// one another on the block's diagonal, so that all four places of a thread agree on the mask.
void KernelLowering::storeGram(TypedValue<SharedType> gram, Value row, Value column,
                               ArrayRef<Registers> tiles, int64_t half) {
  Value laneRow = threadDigit(4, 8), lanePair = threadDigit(1, 4); // of an 8 x 8 quarter
  Value chunk = multiplyAdd(column, kBlock / 4, threadDigit(2, 2));
  Chunks chunks = makeChunks(gram, multiplyAdd(row, kBlock, laneRow), chunk, /*chunkBits=*/~2);
  chunks.offset = multiplyAdd(threadDigit(1, 2), 8, chunks.offset);
  Value mask;
  if (half > 0 && half < 8) { // one bit is set in the row and not in the column, none above differ
    Value first = multiplyAdd(lanePair, 2, {});
    Value change =
        arith::ShRUIOp::create(builder, loc, arith::XOrIOp::create(builder, loc, laneRow, first),
                               i32(llvm::Log2_64(half)));
    Value isLater = arith::AndIOp::create(builder, loc, laneRow, i32(half));
    mask = both(arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, change, i32(1)),
                arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, isLater, i32(0)));
  }
  ifTrue(mask, [&] {
    for (auto [t, tile] : llvm::enumerate(tiles))
      for (size_t lower : {0, 1}) {
        bool holdsPairs = half == 8 ? lower > t : half == 0 || half > 8 || lower == t;
        if (holdsPairs)
          storeVector(chunkAt(chunks, 8 * lower, 2 * t),
                      ValueRange(tile).slice(2 * lower, half == 1 ? 1 : 2));
      }
  });
  if (mask) // ldmatrix of the next block is for whole warps
    NVVM::SyncWarpOp::create(builder, loc, i32(-1));
}

void KernelLowering::emitGramBlock(GramOp op, Value row, Value column) {
  auto type = op.getA().getType();
  int64_t half = op.getHalf().value_or(0);
  size_t numTiles = half == 8 ? 1 : 2; // the pairs of 8 rows with 8 are in the left one
  const layout::Instruction &instruction = *llvm::cantFail(layout::findInstruction(
      type.getElementType().isBF16() ? "mma.m16n8k16.bf16" : "mma.m16n8k16.f16"));
  // Matrices of A: rows 0-7 and 8-15 of the first half of k, then of the second. Of B: the halves
  // of k of rows 0-7, then those of rows 8-15.
  SmallVector<Chunks> xs, restsOfX;
  auto chunksOfX = [&](Value x) {
    return makeChunks(cast<TypedValue<SharedType>>(x), multiplyAdd(row, kBlock, threadDigit(1, 16)),
                      threadDigit(16, 2),
                      /*chunkBits=*/1);
  };
  for (Value x : op.getX())
    xs.push_back(chunksOfX(x));
  for (Value rest : op.getXRest())
    restsOfX.push_back(chunksOfX(rest));
  Value laneRow = multiplyAdd(threadDigit(16, 2), 8, threadDigit(1, 8));
  auto chunksOfA = [&](TypedValue<SharedType> a) {
    return makeChunks(a, multiplyAdd(column, kBlock, laneRow), threadDigit(8, 2), /*chunkBits=*/1);
  };
  Chunks as = chunksOfA(op.getA()), restOfA;
  if (op.getARest())
    restOfA = chunksOfA(op.getARest());
  Value zero = arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0));
  SmallVector<SmallVector<Registers>> sums(
      xs.size(), SmallVector<Registers>(numTiles, Registers(instruction.c.registers, zero)));
  for (int64_t chunk = 0; chunk < type.getShape()[1] / 8; chunk += 2) {
    Registers b = loadMatrices(as, 0, chunk, 2 * numTiles, /*transposed=*/false);
    auto addAll = [&](Chunks &x, ValueRange b, MutableArrayRef<Registers> tiles) {
      Registers a = loadMatrices(x, 0, chunk, 4, /*transposed=*/false);
      for (auto [t, tile] : llvm::enumerate(tiles))
        tile = mmaSync(instruction, a, b.slice(2 * t, 2), tile);
    };
    for (auto [x, tiles] : llvm::zip(xs, sums))
      addAll(x, b, tiles);
    if (restsOfX.empty())
      continue;
    for (auto [rest, tiles] : llvm::zip(restsOfX, sums))
      addAll(rest, b, tiles);
    b = loadMatrices(restOfA, 0, chunk, 2 * numTiles, /*transposed=*/false);
    for (auto [x, tiles] : llvm::zip(xs, sums))
      addAll(x, b, tiles);
  }
  for (auto [gram, tiles] : llvm::zip(op.getGram(), sums))
    storeGram(cast<TypedValue<SharedType>>(gram), row, column, tiles, half);
}

LogicalResult KernelLowering::lowerGram(GramOp op) {
  int64_t half = op.getHalf()       ? static_cast<int64_t>(*op.getHalf()) / kBlock
                 : op.getDiagonal() ? 0
                                    : -1;
  BlockOrder order{op.getA().getType().getShape()[0] / kBlock, half};
  int64_t warps = kernel.getThreads() / layout::kWarpSize;
  int64_t rounds = llvm::divideCeil(order.count(), warps);
  Value warp = threadDigit(layout::kWarpSize, warps);
  auto emitRound = [&](Value number) {
    Value exists;
    if (order.count() % warps != 0)
      exists = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, number,
                                     i32(order.count()));
    ifTrue(exists, [&] {
      auto [row, column] = order.find(builder, loc, number);
      emitGramBlock(op, row, column);
    });
  };
  if (rounds == 1)
    return emitRound(warp), success();
  auto loop = scf::ForOp::create(builder, loc, i32(0), i32(rounds), i32(1));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  emitRound(multiplyAdd(loop.getInductionVar(), warps, warp));
  return success();
}
