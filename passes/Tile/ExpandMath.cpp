//===- ExpandMath.cpp - exp, log, log1p and tanh by what every target has ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "passes/Tile/Passes.h"
#include <cmath>

using namespace mlir;
using namespace dl;

namespace dl {
#define GEN_PASS_DEF_TILEEXPANDMATH
#include "passes/Tile/Passes.h.inc"
} // namespace dl

namespace {

/// Arithmetic on values of one type: f32 or a distributed f32 tensor.
class Maths {
public:
  Maths(OpBuilder &builder, Location loc, Type type) : builder(builder), loc(loc), type(type) {}

  Value constant(float value) { return constant(builder.getF32FloatAttr(value)); }
  Value integer(int32_t value) { return constant(builder.getI32IntegerAttr(value)); }
  template <typename Op> Value make(Value a, Value b) { return Op::create(builder, loc, a, b); }
  Value add(Value a, Value b) { return make<arith::AddFOp>(a, b); }
  Value sub(Value a, Value b) { return make<arith::SubFOp>(a, b); }
  Value mul(Value a, Value b) { return make<arith::MulFOp>(a, b); }
  Value div(Value a, Value b) { return make<arith::DivFOp>(a, b); }
  Value fma(Value a, Value b, Value c) { return math::FmaOp::create(builder, loc, a, b, c); }
  Value asInteger(Value x) { return arith::BitcastOp::create(builder, loc, integerType(), x); }
  Value asFloat(Value x) { return arith::BitcastOp::create(builder, loc, type, x); }
  Value toFloat(Value x) { return arith::SIToFPOp::create(builder, loc, type, x); }
  Value choose(arith::CmpFPredicate predicate, Value a, Value b, Value yes, Value no) {
    Value condition = arith::CmpFOp::create(builder, loc, predicate, a, b);
    return arith::SelectOp::create(builder, loc, condition, yes, no);
  }

  Value exp(Value x) {
    return math::Exp2Op::create(builder, loc, mul(x, constant(float(M_LOG2E))));
  }
  Value log(Value x);
  Value log1p(Value x);
  Value tanh(Value x);

private:
  Type integerType() {
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      return tensor.clone(builder.getI32Type());
    return builder.getI32Type();
  }
  Value constant(TypedAttr scalar) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor)
      return arith::ConstantOp::create(builder, loc, scalar);
    return arith::ConstantOp::create(
        builder, loc, DenseElementsAttr::get(tensor.clone(scalar.getType()), scalar));
  }

  OpBuilder &builder;
  Location loc;
  Type type;
};

/// x = m 2^e with m in [sqrt(1/2), sqrt(2)); log x = e log 2 + log m by the polynomial of Cephes
/// logf.
Value Maths::log(Value x) {
  constexpr int32_t sqrtHalf = 0x3f3504f3;
  Value bits = asInteger(x);
  Value exponent = make<arith::ShRSIOp>(make<arith::SubIOp>(bits, integer(sqrtHalf)), integer(23));
  Value mantissa = asFloat(make<arith::SubIOp>(bits, make<arith::ShLIOp>(exponent, integer(23))));
  Value e = toFloat(exponent), f = sub(mantissa, constant(1)), square = mul(f, f);
  constexpr float coefficients[] = {7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,
                                    -1.2420140846e-1f, 1.4249322787e-1f,  -1.6668057665e-1f,
                                    2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f};
  Value poly = constant(coefficients[0]);
  for (float c : ArrayRef(coefficients).drop_front())
    poly = fma(poly, f, constant(c));
  Value y = mul(mul(f, square), poly);
  y = fma(e, constant(-2.12194440e-4f),
          y); // log 2 = 0.693359375 - 2.1219444e-4, the first part exact times e
  y = fma(square, constant(-0.5f), y);
  Value result = fma(e, constant(0.693359375f), add(f, y));
  Value infinity = constant(INFINITY), zero = constant(0);
  result = choose(arith::CmpFPredicate::OEQ, x, infinity, infinity, result);
  result = choose(arith::CmpFPredicate::OEQ, x, zero, constant(-INFINITY), result);
  return choose(arith::CmpFPredicate::UGE, x, zero, result, constant(NAN));
}

Value Maths::log1p(Value x) {
  Value one = constant(1), u = add(x, one), lost = sub(x, sub(u, one));
  Value result = add(log(u), div(lost, u));
  Value infinity = constant(INFINITY);
  return choose(arith::CmpFPredicate::OEQ, x, infinity, infinity, result);
}

/// 1 - 2 / (e^2x + 1): right at both ends, absolute error 1e-7.
Value Maths::tanh(Value x) {
  Value one = constant(1), two = constant(2);
  return sub(one, div(two, add(exp(mul(x, two)), one)));
}

template <typename Op, Value (Maths::*expansion)(Value)> struct Expand : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getType()).isF32())
      return rewriter.notifyMatchFailure(op, "expected f32 elements");
    Maths maths(rewriter, op.getLoc(), op.getType());
    rewriter.replaceOp(op, (maths.*expansion)(op.getOperand()));
    return success();
  }
};

struct TileExpandMath : dl::impl::TileExpandMathBase<TileExpandMath> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<Expand<math::ExpOp, &Maths::exp>, Expand<math::LogOp, &Maths::log>,
                 Expand<math::Log1pOp, &Maths::log1p>, Expand<math::TanhOp, &Maths::tanh>>(
        &getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
