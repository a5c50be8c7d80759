//===- Copy.cpp - Copies to shared memory in the background ---------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// cp.async moves 16 bytes per thread. Piece number p of a tile is piece p % P of row p / P, with P
// pieces in a row; the threads take neighbouring pieces, so that they lie side by side in memory.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "passes/TileToNVVM/Lowering.h"

using namespace mlir;
using namespace dl;
using namespace dl::tile;

static constexpr int64_t kPieceBytes = 16;

void KernelLowering::lowerCopyAsync(CopyAsyncOp op) {
  const View &view = views.find(op.getMemory())->second;
  layout::SharedLayout shared = llvm::cantFail(getLayout(op.getBuffer().getType()));
  int64_t elements = kPieceBytes / shared.elementBytes;
  int64_t perRow = shared.columns() / elements, pieces = shared.rows() * perRow;
  Value start = arith::MulIOp::create(builder, loc, elementOffset(view, op.getIndices()),
                                      i64(shared.elementBytes));
  Value memory = gep(view.pointer, start), buffer = bufferPointer(op.getBuffer());
  Value rowBytes =
      arith::MulIOp::create(builder, loc, view.strides[op.getAxes()[0]], i64(shared.elementBytes));
  int64_t threads = kernel.getThreads();
  for (int64_t first = 0; first < pieces; first += threads) {
    Value piece = arith::AddIOp::create(builder, loc, threadId(), i32(first));
    Value row = arith::DivUIOp::create(builder, loc, piece, i32(perRow));
    Value inRow = arith::RemUIOp::create(builder, loc, piece, i32(perRow));
    Value column = arith::MulIOp::create(builder, loc, inRow, i32(elements));
    Value mask;
    if (pieces - first < threads)
      mask = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, piece, i32(pieces));
    ifTrue(mask, [&] {
      Value from = arith::AddIOp::create(
          builder, loc, arith::MulIOp::create(builder, loc, toI64(row), rowBytes),
          toI64(arith::MulIOp::create(builder, loc, inRow, i32(kPieceBytes))));
      Value to = gep(buffer, toI64(sharedOffset(shared, {row, column})));
      NVVM::CpAsyncOp::create(builder, loc, to, gep(memory, from), kPieceBytes,
                              NVVM::LoadCacheModifierKind::CG, /*cpSize=*/Value());
    });
  }
}

void KernelLowering::lowerCopyCommit() { NVVM::CpAsyncCommitGroupOp::create(builder, loc); }

void KernelLowering::lowerCopyWait(int64_t pending) {
  NVVM::CpAsyncWaitGroupOp::create(builder, loc, static_cast<uint32_t>(pending));
}
