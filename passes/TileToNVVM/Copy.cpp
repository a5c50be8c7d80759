//===- Copy.cpp - Rows of bytes, and their copies in the background -------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// cp.async moves 16 bytes per thread. Neighbouring threads take neighbouring pieces, and a thread's
// pieces are a constant distance apart on both sides: one address for each side serves them all.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "passes/TileToNVVM/Lowering.h"

using namespace mlir;
using namespace dl;
using namespace dl::tile;

static constexpr int64_t kPieceBytes = 16;

/// The start of a row.
Value KernelLowering::rowOfBytes(Value memory, ValueRange indices) {
  const View &view = views.find(memory)->second;
  Value offset = i64(0);
  for (auto [index, stride] : llvm::zip_first(indices, view.strides))
    offset = arith::AddIOp::create(builder, loc, offset, distanceOf(scalar(index), stride));
  return gep(view.pointer, offset);
}

void KernelLowering::lowerStoreImage(StoreImageOp op) {
  Value buffer = gep(rowOfBytes(op.getMemory(), op.getIndices()), op.getOffset());
  storeToBuffer(op.getValue(), op.getBufferType(), buffer);
}

void KernelLowering::lowerCopyAsync(CopyAsyncOp op) {
  int64_t bytes = op.getBuffer().getType().getShape()[0];
  int64_t stride = kPieceBytes * static_cast<int64_t>(kernel.getThreads());
  Value first = arith::MulIOp::create(builder, loc, threadId(), i32(kPieceBytes));
  Value from = gep(rowOfBytes(op.getMemory(), op.getIndices()), toI64(first));
  Value to = gep(bufferPointer(op.getBuffer()), toI64(first));
  for (int64_t offset = 0; offset < bytes; offset += stride) {
    Value mask;
    if (offset + stride > bytes)
      mask = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, first,
                                   i32(bytes - offset));
    ifTrue(mask, [&] {
      NVVM::CpAsyncOp::create(builder, loc, gep(to, offset), gep(from, offset), kPieceBytes,
                              NVVM::LoadCacheModifierKind::CG, /*cpSize=*/Value());
    });
  }
}

void KernelLowering::lowerCopyCommit() { NVVM::CpAsyncCommitGroupOp::create(builder, loc); }

void KernelLowering::lowerCopyWait(int64_t pending) {
  NVVM::CpAsyncWaitGroupOp::create(builder, loc, static_cast<uint32_t>(pending));
}
