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

//===----------------------------------------------------------------------===//
// Rows by one instruction
//===----------------------------------------------------------------------===//

Value KernelLowering::isFirstThread() {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, threadId(), i32(0));
}

static constexpr int64_t kCounterBytes = 8;

Value KernelLowering::counter(Value arrivals, Value stage) {
  Value offset = arith::MulIOp::create(builder, loc, stage, i32(kCounterBytes));
  return gep(bufferPointer(arrivals), toI64(offset));
}

void KernelLowering::lowerArrivals(ArrivalsOp op) {
  int64_t count = op.getResult().getType().getShape()[0];
  sharedBuffers[op.getResult()] = allocateShared(count * kCounterBytes);
  ifTrue(isFirstThread(), [&] {
    for (int64_t i = 0; i < count; ++i)
      NVVM::MBarrierInitOp::create(builder, loc, counter(op.getResult(), i32(i)), i32(1), Value());
    NVVM::FenceMbarrierInitOp::create(builder, loc);
  });
  blockBarrier();
}

/// The state space of the copy's target is that of a cluster, of which this block is one.
void KernelLowering::lowerCopyBulk(CopyBulkOp op) {
  int64_t bytes = op.getBuffer().getType().getShape()[0];
  Value from = rowOfBytes(op.getMemory(), op.getIndices());
  Value to = LLVM::AddrSpaceCastOp::create(builder, loc,
                                           LLVM::LLVMPointerType::get(builder.getContext(), 7),
                                           bufferPointer(op.getBuffer()));
  Value arrival = counter(op.getArrivals(), scalar(op.getStage()));
  ifTrue(isFirstThread(), [&] {
    NVVM::MBarrierArriveExpectTxOp::create(builder, loc, /*res=*/Type(), arrival, i32(bytes),
                                           NVVM::MemScopeKind::CTA, /*relaxed=*/false,
                                           /*predicate=*/Value());
    NVVM::CpAsyncBulkGlobalToSharedClusterOp::create(builder, loc, to, from, arrival, i32(bytes),
                                                     /*multicastMask=*/Value(),
                                                     /*l2CacheHint=*/Value());
  });
}

void KernelLowering::lowerAwait(AwaitOp op) {
  Value arrival = counter(op.getArrivals(), scalar(op.getStage()));
  inlineAssembly("{\n.reg .pred p;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1;\n@!p bra again;\n}",
                 {}, {arrival, scalar(op.getParity())});
}

void KernelLowering::lowerCopyCommit() { NVVM::CpAsyncCommitGroupOp::create(builder, loc); }

void KernelLowering::lowerCopyWait(int64_t pending) {
  NVVM::CpAsyncWaitGroupOp::create(builder, loc, static_cast<uint32_t>(pending));
}
