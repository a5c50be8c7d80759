//===- Expand.cpp - Sigmoid, softplus and l2norm in arith and math --------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Shapes are dynamic, so a constant is an f32 arith.constant and a broadcast, never a dense one.
// Each form is exact at the ends of the range of f32:
//   sigmoid(x)  = 1 / (1 + e^-x)                     e^-x = inf gives 0, e^-x = 0 gives 1
//   softplus(x) = x > 20 ? x : log1p(e^x)            NaN stays NaN: the comparison is ordered
//   l2norm(x)   = x * rsqrt(sum x^2 + 1e-6)
//
//===----------------------------------------------------------------------===//

#include "passes/LinAttn/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Transforms/WalkPatternRewriteDriver.h"

namespace dl::linattn {
#define GEN_PASS_DEF_LINATTNEXPAND
#include "passes/LinAttn/Passes.h.inc"
} // namespace dl::linattn

using namespace mlir;
using namespace dl::linattn;

namespace {

/// `value` in f32 as a value of `type`.
Value constant(OpBuilder &b, Location loc, Type type, double value) {
  Value number = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(float(value)));
  return type.isF32() ? number : BroadcastOp::create(b, loc, type, number);
}

struct ExpandSigmoid : public OpRewritePattern<SigmoidOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SigmoidOp op, PatternRewriter &b) const override {
    Location loc = op.getLoc();
    Value x = op.getOperand();
    Value one = constant(b, loc, x.getType(), 1.0);
    Value e = math::ExpOp::create(b, loc, arith::NegFOp::create(b, loc, x));
    b.replaceOpWithNewOp<arith::DivFOp>(op, one, arith::AddFOp::create(b, loc, one, e));
    return success();
  }
};

struct ExpandSoftplus : public OpRewritePattern<SoftplusOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SoftplusOp op, PatternRewriter &b) const override {
    Location loc = op.getLoc();
    Value x = op.getOperand();
    Value threshold = constant(b, loc, x.getType(), 20.0);
    Value isLarge = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT, x, threshold);
    Value log = math::Log1pOp::create(b, loc, math::ExpOp::create(b, loc, x));
    b.replaceOpWithNewOp<arith::SelectOp>(op, isLarge, x, log);
    return success();
  }
};

struct ExpandL2Norm : public OpRewritePattern<L2NormOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(L2NormOp op, PatternRewriter &b) const override {
    Location loc = op.getLoc();
    Value x = op.getOperand();
    Value sum = ReduceOp::create(b, loc, arith::MulFOp::create(b, loc, x, x).getResult());
    Value epsilon = constant(b, loc, sum.getType(), 1e-6);
    Value inverse = math::RsqrtOp::create(b, loc, arith::AddFOp::create(b, loc, sum, epsilon));
    Value scale = BroadcastOp::create(b, loc, x.getType(), inverse);
    b.replaceOpWithNewOp<arith::MulFOp>(op, x, scale);
    return success();
  }
};

struct LinAttnExpand : public dl::linattn::impl::LinAttnExpandBase<LinAttnExpand> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateExpandPatterns(patterns);
    walkAndApplyPatterns(getOperation(), std::move(patterns));
  }
};

} // namespace

void dl::linattn::populateExpandPatterns(RewritePatternSet &patterns) {
  patterns.add<ExpandSigmoid, ExpandSoftplus, ExpandL2Norm>(patterns.getContext());
}
