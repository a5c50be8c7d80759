//===- Arrivals.cpp - Copies that arrive when they are waited for ---------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A bulk copy may arrive at any time up to its wait, so here it arrives there: until then its
// buffer holds NaN, and what is read too early shows. A counter is
//
//   phases that have ended, source, target, bytes of the copy under way or 0
//
// A wait for a phase that nothing is on the way to end would never return on a GPU, as would a
// second copy on a counter that still waits for its first, or a block that ends before its copies:
// the kernel then returns an error.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/TileToCPU/Lowering.h"

using namespace mlir;
using namespace dl::tile;

namespace {
enum Field : int64_t { Ended, Source, Target, Bytes, Fields };
constexpr int64_t kWord = 8;
constexpr int32_t kFault = 1; ///< what such a kernel returns
} // namespace

static Value equal(HostBuilder &host, Value a, Value b) {
  return arith::CmpIOp::create(host, host.loc, arith::CmpIPredicate::eq, a, b);
}

Value LaneLowering::field(Value arrivals, Value stage, int64_t number) {
  Value first = host->mul(stage, Fields * kWord);
  return host->bytes(scratch, host->add(first, counters.lookup(arrivals) + number * kWord));
}

Value LaneLowering::isUnderWay(Value arrivals, Value stage) {
  return arith::CmpIOp::create(*host, host->loc, arith::CmpIPredicate::ne,
                               host->load(field(arrivals, stage, Bytes), host->getI64Type()),
                               host->i64(0));
}

void LaneLowering::faultIf(Value condition) {
  host->ifTrue(condition,
               [&] { host->store(host->i64(kFault), host->bytes(scratch, *faultOffset)); });
}

/// `count` words of 8 bytes.
void LaneLowering::forEachWord(Value count, llvm::function_ref<void(Value)> body) {
  auto loop = scf::ForOp::create(*host, host->loc, host->i64(0), count, host->i64(1));
  OpBuilder::InsertionGuard guard(*host);
  host->setInsertionPointToStart(loop.getBody());
  body(host->mul(loop.getInductionVar(), kWord));
}

/// At the kernel's start, whatever of it runs. All of this is held for good.
void LaneLowering::emitCounters() {
  kernel.walk([&](ArrivalsOp op) {
    if (!faultOffset) {
      faultOffset = arena.allocate(kWord)->offset;
      host->store(host->i64(0), host->bytes(scratch, *faultOffset));
    }
    int64_t count = op.getResult().getType().getShape()[0];
    counters[op.getResult()] = arena.allocate(count * Fields * kWord)->offset;
    host->loop(count, [&](Value stage) {
      for (int64_t number : {Ended, Bytes})
        host->store(host->i64(0), field(op.getResult(), stage, number));
    });
  });
}

LogicalResult LaneLowering::lowerCopyBulk(CopyBulkOp op) {
  Type word = host->getI64Type();
  Value stage = host->toI64(scalars.lookup(op.getStage()));
  auto at = [&](Field number) { return field(op.getArrivals(), stage, number); };
  auto address = [&](Value pointer) {
    return LLVM::PtrToIntOp::create(*host, host->loc, word, pointer);
  };
  faultIf(isUnderWay(op.getArrivals(), stage));
  int64_t bytes = op.getBuffer().getType().getShape()[0];
  Value target = sharedElement(op.getBuffer(), {host->i64(0)});
  host->store(address(rowOfBytes(op.getMemory(), op.getIndices())), at(Source));
  host->store(address(target), at(Target));
  host->store(host->i64(bytes), at(Bytes));
  forEachWord(host->i64(bytes / kWord),
              [&](Value offset) { host->store(host->i64(-1), host->bytes(target, offset)); });
  return success();
}

LogicalResult LaneLowering::lowerAwait(AwaitOp op) {
  Type word = host->getI64Type();
  Value stage = host->toI64(scalars.lookup(op.getStage()));
  auto at = [&](Field number) { return field(op.getArrivals(), stage, number); };
  Value ended = host->load(at(Ended), word);
  Value parity = host->toI64(scalars.lookup(op.getParity()));
  host->ifTrue(equal(*host, host->bitAnd(ended, 1), parity), [&] {
    Value bytes = host->load(at(Bytes), word);
    faultIf(host->isZero(bytes));
    auto pointer = [&](Field number) {
      return LLVM::IntToPtrOp::create(*host, host->loc,
                                      LLVM::LLVMPointerType::get(host->getContext()),
                                      host->load(at(number), word));
    };
    Value source = pointer(Source), target = pointer(Target);
    forEachWord(host->div(bytes, kWord), [&](Value offset) {
      host->store(host->load(host->bytes(source, offset), word), host->bytes(target, offset));
    });
    host->store(host->i64(0), at(Bytes));
    host->store(host->add(ended, 1), at(Ended));
  });
  return success();
}

/// i32: what the kernel returns.
Value LaneLowering::emitResult() {
  if (!faultOffset)
    return host->constant(host->getI32IntegerAttr(0));
  for (const auto &entry : counters)
    host->loop(cast<SharedType>(entry.first.getType()).getShape()[0],
               [&](Value stage) { faultIf(isUnderWay(entry.first, stage)); });
  Value code = host->load(host->bytes(scratch, *faultOffset), host->getI64Type());
  return arith::TruncIOp::create(*host, host->loc, host->getI32Type(), code);
}
