//===- Invert.cpp - Inverse of a unit lower triangular matrix ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One matrix in shared memory turns from A into the inverse T of I + A, in place:
//
//   blocks of 16 rows on the diagonal, by substitution
//   for half = 16, 32 .. rows/2, in every block of 2 half rows on the diagonal:
//     P = A21 T11        what couples its halves, into a buffer of its own
//     T21 = -T22 P       over A21, which nothing needs any more
//
// with a barrier after each step. Operand and result have one layout: after the last barrier a
// thread reads what it alone writes in the next turn of a loop, so that none is needed in between.
// Copies, and padding, read what others write.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "passes/TileToNVVM/Lowering.h"

using namespace mlir;
using namespace dl;
using namespace dl::tile;

/// Rows of a block that is inverted by substitution: half as many as a warp has lanes.
static constexpr int64_t kBlock = 16;

/// Rows start at multiples of 16 bytes, one after the other four banks further on.
static int64_t pitchOf(int64_t columns) { return columns + 4; }

struct KernelLowering::Triangle {
  layout::RegisterLayout layout; ///< of operand and result
  int64_t rows = 0, pitch = 0;   ///< in elements
  int64_t matrix = 0, product = 0;
  int64_t width = 1; ///< of an access, in elements

  /// A register's distance from the thread's first element, in elements.
  int64_t offsetOf(int64_t reg) const {
    layout::Coordinate offset = layout.offsetOfRegister(reg);
    return offset[0] * pitch + offset[1];
  }
};

void KernelLowering::lowerInvert(InvertUnitLowerOp op) {
  Triangle triangle;
  triangle.layout = llvm::cantFail(getLayout(op.getValue().getType()));
  int64_t rows = triangle.rows = triangle.layout.shape[0];
  triangle.pitch = pitchOf(rows);
  triangle.matrix = allocateShared(4 * rows * triangle.pitch);
  if (rows > kBlock)
    triangle.product = allocateShared(4 * (rows / 2) * pitchOf(rows / 2));
  int64_t limit = triangle.layout.contiguousRegisters(1);
  triangle.width = limit % 4 == 0 ? 4 : limit % 2 == 0 ? 2 : 1;

  storeTriangle(triangle, distributed(op.getValue()));
  finishExchange(/*inWarp=*/false);
  invertDiagonal(triangle);
  blockBarrier();
  for (int64_t half = kBlock; half < rows; half *= 2)
    for (bool last : {false, true}) {
      joinBlocks(triangle, half, last);
      blockBarrier();
    }
  registers[op.getResult()] = loadTriangle(triangle);
  emitted.blockReads |= triangle.layout.isPadded() || triangle.layout.replication() > 1;
}

//===----------------------------------------------------------------------===//
// Registers and shared memory
//===----------------------------------------------------------------------===//

/// The operand's elements below the diagonal, and zeros where it may hold anything.
void KernelLowering::storeTriangle(const Triangle &triangle, ValueRange values) {
  const layout::RegisterLayout &layout = triangle.layout;
  Value zero = arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0));
  Value row = threadBase(layout, 0), column = threadBase(layout, 1);
  Value below = arith::SubIOp::create(builder, loc, row, column);
  Value place = arith::AddIOp::create(
      builder, loc, arith::MulIOp::create(builder, loc, row, i32(triangle.pitch)), column);
  auto isLess = [&](Value a, int64_t b) -> Value {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, a, i32(b));
  };
  ifTrue(digitsAreZero(layout.replicaDigits()), [&] {
    Value first = gep(sharedPointer(triangle.matrix),
                      toI64(arith::MulIOp::create(builder, loc, place, i32(4))));
    for (int64_t reg = 0; reg < layout.numRegisters; reg += triangle.width) {
      layout::Coordinate offset = layout.offsetOfRegister(reg);
      Registers kept;
      for (int64_t i = 0; i < triangle.width; ++i) {
        Value isBelow = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, below,
                                              i32(offset[1] + i - offset[0]));
        kept.push_back(arith::SelectOp::create(builder, loc, isBelow, values[reg + i], zero));
      }
      Value inside; // vectors are whole or padding
      if (layout.isPadded(0))
        inside = isLess(row, triangle.rows - offset[0]);
      if (layout.isPadded(1))
        inside = both(inside, isLess(column, triangle.rows - offset[1]));
      ifTrue(inside, [&] { storeVector(gep(first, 4 * triangle.offsetOf(reg)), kept); });
    }
  });
}

/// The result in its layout. Padding reads something inside.
KernelLowering::Registers KernelLowering::loadTriangle(const Triangle &triangle) {
  const layout::RegisterLayout &layout = triangle.layout;
  Value matrix = sharedPointer(triangle.matrix);
  Value base[] = {threadBase(layout, 0), threadBase(layout, 1)};
  auto pointerTo = [&](Value row, Value column) {
    Value place = arith::AddIOp::create(
        builder, loc, arith::MulIOp::create(builder, loc, row, i32(triangle.pitch)), column);
    return gep(matrix, toI64(arith::MulIOp::create(builder, loc, place, i32(4))));
  };
  auto coordinate = [&](unsigned axis, int64_t offset, int64_t largest) -> Value {
    Value sum = arith::AddIOp::create(builder, loc, base[axis], i32(offset));
    return arith::MinUIOp::create(builder, loc, sum, i32(largest));
  };
  Value first = pointerTo(base[0], base[1]);
  Registers result;
  for (int64_t reg = 0; reg < layout.numRegisters; reg += triangle.width) {
    layout::Coordinate offset = layout.offsetOfRegister(reg);
    Value place = layout.isPadded()
                      ? pointerTo(coordinate(0, offset[0], triangle.rows - 1),
                                  coordinate(1, offset[1], triangle.rows - triangle.width))
                      : gep(first, 4 * triangle.offsetOf(reg));
    llvm::append_range(result, loadVector(place, builder.getF32Type(), triangle.width, false));
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Blocks on the diagonal
//===----------------------------------------------------------------------===//

/// Two blocks at a time by each warp, one by each half of its lanes.
void KernelLowering::invertDiagonal(const Triangle &triangle) {
  int64_t blocks = triangle.rows / kBlock, warps = kernel.getThreads() / layout::kWarpSize;
  int64_t pairs = llvm::divideCeil(blocks, 2);
  for (int64_t done = 0; done < pairs; done += warps) {
    Value pair =
        arith::AddIOp::create(builder, loc, threadDigit(layout::kWarpSize, warps), i32(done));
    Value isThere;
    if (done + warps > pairs)
      isThere = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, pair, i32(pairs));
    ifTrue(isThere, [&] {
      if (blocks == 1) // both halves do the same
        return invertBlock(triangle, pair);
      Value block = arith::AddIOp::create(
          builder, loc, arith::MulIOp::create(builder, loc, pair, i32(2)), threadDigit(kBlock, 2));
      invertBlock(triangle, block);
    });
  }
}

/// Each lane has a column x of the block's inverse: x[i] = (1 where i is the column) - sum over
/// k < i of A[i, k] x[k].
void KernelLowering::invertBlock(const Triangle &triangle, Value block) {
  Value zero = arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0));
  Value one = arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(1));
  Value distance =
      arith::MulIOp::create(builder, loc, block, i32(4 * kBlock * (triangle.pitch + 1)));
  Value first = gep(sharedPointer(triangle.matrix), toI64(distance));
  Value column = threadDigit(1, kBlock);
  Registers x;
  for (int64_t row = 0; row < kBlock; ++row) {
    Value isOne = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, column, i32(row));
    Value sum = arith::SelectOp::create(builder, loc, isOne, one, zero);
    Registers part;
    for (int64_t k = 0; k < row; ++k) {
      static constexpr int64_t width = 4;
      if (k % width == 0)
        part = loadVector(gep(first, 4 * (row * triangle.pitch + k)), builder.getF32Type(), width,
                          false);
      Value minus = arith::NegFOp::create(builder, loc, part[k % width]);
      sum = LLVM::FMAOp::create(builder, loc, minus, x[k], sum);
    }
    x.push_back(sum);
  }
  // All lanes have read the block.
  NVVM::SyncWarpOp::create(builder, loc, i32(-1));
  Value writes;
  if (triangle.rows == kBlock)
    writes = digitsAreZero({{kBlock, 2}});
  ifTrue(writes, [&] {
    Value top = gep(first, toI64(arith::MulIOp::create(builder, loc, column, i32(4))));
    for (auto [row, value] : llvm::enumerate(x))
      storeVector(gep(top, 4 * static_cast<int64_t>(row) * triangle.pitch), value);
  });
}

//===----------------------------------------------------------------------===//
// Joining
//===----------------------------------------------------------------------===//

/// Products left x right of square blocks, each in pieces for one thread.
struct KernelLowering::Join {
  /// Where block number i of a factor or result starts, and the distance of its rows, in elements.
  struct Blocks {
    Value pointer;
    int64_t start, distance, pitch;
  };
  int64_t half;          ///< rows and columns of a block
  int64_t rows, columns; ///< of a piece
  bool negated;
  Blocks left, right, result;

  int64_t across() const { return half / columns; }
  int64_t ofBlock() const { return half / rows * across(); }
};

void KernelLowering::joinBlocks(const Triangle &triangle, int64_t half, bool last) {
  int64_t threads = kernel.getThreads(), blocks = triangle.rows / (2 * half);
  int64_t each = blocks * half * half / threads; // elements per thread
  Value matrix = sharedPointer(triangle.matrix);
  int64_t distance = 2 * half * (triangle.pitch + 1);
  auto quarter = [&](int64_t i, int64_t j) {
    return Join::Blocks{matrix, half * (i * triangle.pitch + j), distance, triangle.pitch};
  };
  Join::Blocks product{sharedPointer(triangle.product), 0, half * pitchOf(half), pitchOf(half)};
  Join join{half, each >= 16 ? 4 : 2, each >= 8 ? 4 : 2, last, {}, {}, {}};
  join.left = last ? quarter(1, 1) : quarter(1, 0);
  join.right = last ? product : quarter(0, 0);
  join.result = last ? quarter(1, 0) : product;

  int64_t pieces = blocks * join.ofBlock();
  if (pieces > threads) {
    auto loop = scf::ForOp::create(builder, loc, threadId(), i32(pieces), i32(threads));
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    return joinPiece(join, loop.getInductionVar());
  }
  Value isThere;
  if (pieces < threads)
    isThere =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, threadId(), i32(pieces));
  ifTrue(isThere, [&] { joinPiece(join, threadId()); });
}

/// Neighbouring threads have neighbouring columns: they read one row of the left factor, and of
/// the right one elements side by side.
void KernelLowering::joinPiece(const Join &join, Value piece) {
  auto div = [&](Value a, int64_t b) -> Value {
    return arith::DivUIOp::create(builder, loc, a, i32(b));
  };
  auto rem = [&](Value a, int64_t b) -> Value {
    return arith::RemUIOp::create(builder, loc, a, i32(b));
  };
  auto mul = [&](Value a, int64_t b) -> Value {
    return arith::MulIOp::create(builder, loc, a, i32(b));
  };
  auto add = [&](Value a, Value b) -> Value { return arith::AddIOp::create(builder, loc, a, b); };
  Value block = div(piece, join.ofBlock()), inBlock = rem(piece, join.ofBlock());
  Value row = mul(div(inBlock, join.across()), join.rows);
  Value column = mul(rem(inBlock, join.across()), join.columns);
  auto pointerTo = [&](const Join::Blocks &blocks, Value inside) {
    Value element = add(add(mul(block, blocks.distance), i32(blocks.start)), inside);
    return gep(blocks.pointer, toI64(mul(element, 4)));
  };
  Registers sums = productOf(join, pointerTo(join.left, mul(row, join.left.pitch)),
                             pointerTo(join.right, column));
  Value result = pointerTo(join.result, add(mul(row, join.result.pitch), column));
  for (int64_t i = 0; i < join.rows; ++i) {
    Registers line(ArrayRef(sums).slice(i * join.columns, join.columns));
    if (join.negated)
      for (Value &element : line)
        element = arith::NegFOp::create(builder, loc, element);
    storeVector(gep(result, 4 * i * join.result.pitch), line);
  }
}

/// The elements of a piece, row by row: of rows from `left` on and columns from `right` on.
KernelLowering::Registers KernelLowering::productOf(const Join &join, Value left, Value right) {
  Value zero = arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0));
  Registers sums(join.rows * join.columns, zero);
  if (join.half == kBlock) {
    addToProduct(join, left, right, sums);
    return sums;
  }
  auto loop = scf::ForOp::create(builder, loc, i32(0), i32(join.half), i32(kBlock), sums);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  auto further = [&](Value pointer, int64_t pitch) {
    Value distance = arith::MulIOp::create(builder, loc, loop.getInductionVar(), i32(4 * pitch));
    return gep(pointer, toI64(distance));
  };
  sums = Registers(loop.getRegionIterArgs());
  addToProduct(join, further(left, 1), further(right, join.right.pitch), sums);
  scf::YieldOp::create(builder, loc, sums);
  return Registers(loop.getResults());
}

/// Adds the products of kBlock columns of a piece's rows with as many rows of its columns.
void KernelLowering::addToProduct(const Join &join, Value left, Value right, Registers &sums) {
  static constexpr int64_t width = 4;
  Type f32 = builder.getF32Type();
  for (int64_t first = 0; first < kBlock; first += width) {
    SmallVector<Registers> rows;
    for (int64_t i = 0; i < join.rows; ++i)
      rows.push_back(loadVector(gep(left, 4 * (i * join.left.pitch + first)), f32, width, false));
    for (int64_t k = 0; k < width; ++k) {
      Registers line =
          loadVector(gep(right, 4 * (first + k) * join.right.pitch), f32, join.columns, false);
      for (int64_t i = 0; i < join.rows; ++i)
        for (int64_t j = 0; j < join.columns; ++j) {
          Value &sum = sums[i * join.columns + j];
          sum = LLVM::FMAOp::create(builder, loc, rows[i][k], line[j], sum);
        }
    }
  }
}
