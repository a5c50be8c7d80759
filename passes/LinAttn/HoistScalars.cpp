//===- HoistScalars.cpp - Scalar factors out of the products with the state ===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   read(S, x s)      ->  read(S, x) s        s a number per head
//   write(S, a s, b)  ->  write(S, a, b s)
//
// A norm is such a factor. Its sum over K then runs beside the pass over the state, not before it,
// and the vectors that meet the state are inputs as they came.
//
//===----------------------------------------------------------------------===//

#include "passes/LinAttn/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace dl::linattn {
#define GEN_PASS_DEF_LINATTNHOISTSCALARS
#include "passes/LinAttn/Passes.h.inc"
} // namespace dl::linattn

using namespace mlir;
using namespace dl::linattn;

namespace {

/// vector * broadcast(scalar), either way round.
struct Scaled {
  Value vector, scalar;
};

std::optional<Scaled> matchScaled(Value value) {
  auto product = value.getDefiningOp<arith::MulFOp>();
  if (!product)
    return std::nullopt;
  for (auto [vector, factor] : {std::pair(product.getLhs(), product.getRhs()),
                                std::pair(product.getRhs(), product.getLhs())}) {
    auto broadcast = factor.getDefiningOp<BroadcastOp>();
    if (!broadcast)
      continue;
    Value scalar = broadcast.getOperand();
    if (scalar.getType().isF32() || isOn(scalar.getType(), Axis::Scalar))
      return Scaled{vector, scalar};
  }
  return std::nullopt;
}

/// Whether a scalar can be broadcast to `type`: numbers of a value head not to what a key head
/// owns.
bool canScale(Value scalar, Type type) {
  std::optional<HeadGroup> group = groupOf(scalar.getType());
  return !group || group == groupOf(type) || groupOf(type) == HeadGroup::ValueHead;
}

Value scale(OpBuilder &b, Location loc, Value vector, Value scalar) {
  Value factor = BroadcastOp::create(b, loc, vector.getType(), scalar);
  return arith::MulFOp::create(b, loc, vector, factor);
}

struct HoistFromRead : public OpRewritePattern<ReadOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ReadOp op, PatternRewriter &b) const override {
    std::optional<Scaled> scaled = matchScaled(op.getKey());
    if (!scaled)
      return b.notifyMatchFailure(op, "expected a key vector times a broadcast number");
    Value read = ReadOp::create(b, op.getLoc(), op.getState(), scaled->vector);
    b.replaceOp(op, scale(b, op.getLoc(), read, scaled->scalar));
    return success();
  }
};

struct HoistFromWrite : public OpRewritePattern<WriteOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(WriteOp op, PatternRewriter &b) const override {
    std::optional<Scaled> scaled = matchScaled(op.getKey());
    if (!scaled)
      return b.notifyMatchFailure(op, "expected a key vector times a broadcast number");
    if (!canScale(scaled->scalar, op.getValue().getType()))
      return b.notifyMatchFailure(op, "expected a number that the value's head can see");
    Value value = scale(b, op.getLoc(), op.getValue(), scaled->scalar);
    b.replaceOpWithNewOp<WriteOp>(op, op.getState(), scaled->vector, value);
    return success();
  }
};

struct HoistScalars : public dl::linattn::impl::LinAttnHoistScalarsBase<HoistScalars> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateHoistScalarsPatterns(patterns);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace

void dl::linattn::populateHoistScalarsPatterns(RewritePatternSet &patterns) {
  patterns.add<HoistFromRead, HoistFromWrite>(patterns.getContext());
}
