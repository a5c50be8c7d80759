//===- MmaSync.cpp - ldmatrix and mma.sync --------------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// ldmatrix takes from every thread the address of a row of 16 bytes, so a product needs one address
// for each instruction. A swizzle xors the chunk of a row with bits of the row's number that repeat
// every 8 rows (compiler/Layout/Shared.h). Steps of whole groups of 8 rows and of whole panels are
// then constants, which instructions add for nothing, and a step inside a panel is one xor, the
// same for all rows:
//
//   at(row + R, chunk + C) = (at(row, chunk) ^ (C % P) * 16) + R * pitch + C / P * panel
//
// if chunk and C have no bit in common, with P chunks in a row of a panel.
//
//===----------------------------------------------------------------------===//

#include "passes/TileToNVVM/MmaSync.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace dl;
using namespace dl::tile;
using dl::layout::ElementKind;

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

Value KernelLowering::multiplyAdd(Value a, int64_t b, Value c) {
  if (b != 1)
    a = arith::MulIOp::create(builder, loc, a, i32(b));
  return c ? arith::AddIOp::create(builder, loc, a, c) : a;
}

/// SharedLayout::byteOffset in the arithmetic of a thread.
Value KernelLowering::chunkOffset(const Chunks &at, Value chunk, int64_t chunkBits) {
  const layout::SharedLayout &layout = at.layout;
  Value offset;
  if (layout.swizzle) {
    int64_t perRow = layout.swizzle / 16;
    if (chunkBits & -perRow) { // it may lie in any panel
      Value panel = arith::DivUIOp::create(builder, loc, chunk, i32(perRow));
      offset = multiplyAdd(panel, layout.panelBytes(), {});
      chunk = arith::RemUIOp::create(builder, loc, chunk, i32(perRow));
    }
    Value turn = arith::DivUIOp::create(builder, loc, at.row, i32(128 / layout.swizzle));
    turn = arith::AndIOp::create(builder, loc, turn, i32(layout.swizzleMask()));
    chunk = arith::XOrIOp::create(builder, loc, chunk, turn);
  }
  return multiplyAdd(at.row, layout.pitch, multiplyAdd(chunk, 16, offset));
}

KernelLowering::Chunks KernelLowering::makeChunks(TypedValue<SharedType> buffer, Value row,
                                                  Value chunk, int64_t chunkBits) {
  Chunks chunks;
  chunks.layout = llvm::cantFail(getLayout(buffer.getType()));
  chunks.word = builder.getI32Type();
  if (Type element = buffer.getType().getElementType(); element.isF16())
    chunks.word = VectorType::get(2, element); // what nvvm.mma.sync takes; bf16 are plain words
  chunks.buffer = bufferPointer(buffer);
  chunks.row = row;
  chunks.chunk = chunk;
  chunks.chunkBits = chunkBits;
  chunks.offset = chunkOffset(chunks, chunk, chunkBits);
  return chunks;
}

/// The chunk that is `rows` (a multiple of 8) and `count` chunks after the thread's own.
Value KernelLowering::chunkAt(Chunks &chunks, int64_t rows, int64_t count) {
  const layout::SharedLayout &layout = chunks.layout;
  int64_t distance = rows * layout.pitch;
  Value offset = chunks.offset;
  if (!layout.swizzle) {
    distance += 16 * count;
  } else if ((count & chunks.chunkBits) == 0) {
    int64_t perRow = layout.swizzle / 16;
    distance += count / perRow * layout.panelBytes();
    if (int64_t inPanel = count % perRow) {
      Value &moved = chunks.moved[inPanel];
      if (!moved)
        moved = arith::XOrIOp::create(builder, loc, offset, i32(16 * inPanel));
      offset = moved;
    }
  } else { // a carry may go from one panel to the next
    Value &moved = chunks.moved[-count];
    if (!moved)
      moved = chunkOffset(chunks, arith::AddIOp::create(builder, loc, chunks.chunk, i32(count)),
                          /*chunkBits=*/-1);
    offset = moved;
  }
  return gep(gep(chunks.buffer, toI64(offset)), distance);
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

/// Matrices of 8 x 8 elements: lanes 8 i .. 8 i + 7 stand at the rows of number i.
KernelLowering::Registers KernelLowering::loadMatrices(Chunks &chunks, int64_t rows, int64_t count,
                                                       int64_t matrices, bool transposed) {
  Type word = builder.getI32Type();
  Type type =
      LLVM::LLVMStructType::getLiteral(builder.getContext(), SmallVector<Type>(matrices, word));
  Registers words = unpackStruct(NVVM::LdMatrixOp::create(
      builder, loc, type, chunkAt(chunks, rows, count), static_cast<uint32_t>(matrices),
      transposed ? NVVM::MMALayout::col : NVVM::MMALayout::row,
      NVVM::LdStMatrixShapeAttr::get(builder.getContext(), 8, 8), NVVM::LdStMatrixEltType::B16));
  if (chunks.word != word)
    for (Value &value : words)
      value = LLVM::BitcastOp::create(builder, loc, chunks.word, value);
  return words;
}

static NVVM::MMATypes ptxType(ElementKind kind) {
  return kind == ElementKind::BF16  ? NVVM::MMATypes::bf16
         : kind == ElementKind::F16 ? NVVM::MMATypes::f16
                                    : NVVM::MMATypes::tf32;
}

/// One instruction, or those side by side that a wider row stands for.
KernelLowering::Registers KernelLowering::mmaSync(const layout::Instruction &row, ValueRange a,
                                                  ValueRange b, ValueRange c) {
  constexpr int64_t columns = 8; // of an instruction
  if (row.n > columns) {
    const layout::Instruction &one =
        *llvm::cantFail(layout::findInstruction(("mma.m16n8k16." + stringify(row.input)).str()));
    Registers all;
    size_t count = row.n / columns;
    for (size_t t = 0; t < count; ++t)
      llvm::append_range(all, mmaSync(one, a, b.slice(t * b.size() / count, b.size() / count),
                                      c.slice(t * c.size() / count, c.size() / count)));
    return all;
  }
  Type type = LLVM::LLVMStructType::getLiteral(
      builder.getContext(), SmallVector<Type>(row.c.registers, builder.getF32Type()));
  std::array<NVVM::MMATypes, 2> types{ptxType(row.input), ptxType(row.input)};
  std::array<NVVM::MMALayout, 2> layouts{NVVM::MMALayout::row, NVVM::MMALayout::col};
  return unpackStruct(NVVM::MmaOp::create(builder, loc, type, a, b, c, {row.m, row.n, row.k},
                                          std::nullopt, std::nullopt, types, layouts));
}
