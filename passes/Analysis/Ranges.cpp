//===- Ranges.cpp - How large numbers of a step can be ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Analysis/Ranges.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;
using namespace dl;
using namespace dl::analysis;

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

static constexpr double kInfinity = std::numeric_limits<double>::infinity();

static Interval negate(Interval x) { return {-x.high, -x.low}; }

static Interval add(Interval x, Interval y) { return {x.low + y.low, x.high + y.high}; }

/// An end that is infinite stands for numbers of any size: zero times one is zero.
static double multiply(double x, double y) { return x == 0 || y == 0 ? 0 : x * y; }

static Interval multiply(Interval x, Interval y) {
  auto [low, high] = std::minmax({multiply(x.low, y.low), multiply(x.low, y.high),
                                  multiply(x.high, y.low), multiply(x.high, y.high)});
  return {low, high};
}

static Interval square(Interval x) {
  double most = multiply(x.magnitude(), x.magnitude());
  double least = x.low <= 0 && x.high >= 0 ? 0 : std::min(std::fabs(x.low), std::fabs(x.high));
  return {multiply(least, least), most};
}

static Interval invert(Interval x) {
  if (x.low > 0 || x.high < 0)
    return {1 / x.high, 1 / x.low};
  if (x.low == 0)
    return {1 / x.high, kInfinity};
  if (x.high == 0)
    return {-kInfinity, 1 / x.low};
  return {};
}

static Interval join(Interval x, Interval y) {
  return {std::min(x.low, y.low), std::max(x.high, y.high)};
}

/// Of a function that never falls, at numbers that it is defined for from `least` on.
static Interval raise(double (*function)(double), Interval x, double least = -kInfinity) {
  return {function(std::max(x.low, least)), function(std::max(x.high, least))};
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

Interval Ranges::of(Value value) {
  value = stripBroadcasts(value);
  auto it = known.find(value);
  if (it != known.end())
    return it->second;
  Interval result = compute(value);
  known[value] = result;
  return result;
}

Interval Ranges::compute(Value value) {
  if (std::optional<double> constant = constantOf(value))
    return {*constant, *constant};
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    std::optional<double> bound = op.getBound(argument.getArgNumber());
    return bound ? Interval{-*bound, *bound} : Interval();
  }
  Operation *operation = value.getDefiningOp();
  return operation ? compute(operation) : Interval();
}

/// What is not here may be anything.
Interval Ranges::compute(Operation *operation) {
  auto operand = [&](unsigned i) { return of(operation->getOperand(i)); };
  return llvm::TypeSwitch<Operation *, Interval>(operation)
      .Case([&](arith::NegFOp) { return negate(operand(0)); })
      .Case([&](arith::AddFOp) { return add(operand(0), operand(1)); })
      .Case([&](arith::SubFOp) { return add(operand(0), negate(operand(1))); })
      .Case([&](arith::MulFOp op) {
        return op.getLhs() == op.getRhs() ? square(operand(0)) : multiply(operand(0), operand(1));
      })
      .Case([&](arith::DivFOp) { return multiply(operand(0), invert(operand(1))); })
      .Case<arith::MaximumFOp, arith::MaxNumFOp>([&](auto) {
        Interval x = operand(0), y = operand(1);
        return Interval{std::max(x.low, y.low), std::max(x.high, y.high)};
      })
      .Case<arith::MinimumFOp, arith::MinNumFOp>([&](auto) {
        Interval x = operand(0), y = operand(1);
        return Interval{std::min(x.low, y.low), std::min(x.high, y.high)};
      })
      .Case([&](arith::SelectOp) { return join(operand(1), operand(2)); })
      .Case([&](math::AbsFOp) {
        Interval x = operand(0);
        double least =
            x.low <= 0 && x.high >= 0 ? 0 : std::min(std::fabs(x.low), std::fabs(x.high));
        return Interval{least, x.magnitude()};
      })
      .Case([&](math::ExpOp) { return raise(std::exp, operand(0)); })
      .Case([&](math::Exp2Op) { return raise(std::exp2, operand(0)); })
      .Case([&](math::Log1pOp) { return raise(std::log1p, operand(0), -1); })
      .Case([&](math::TanhOp) { return raise(std::tanh, operand(0)); })
      .Case([&](math::SqrtOp) { return raise(std::sqrt, operand(0), 0); })
      .Case([&](math::RsqrtOp) { return invert(raise(std::sqrt, operand(0), 0)); })
      .Case([&](linattn::ReduceOp) { // a sum of some numbers
        Interval x = operand(0);
        return Interval{x.low >= 0 ? 0 : -kInfinity, x.high <= 0 ? 0 : kInfinity};
      })
      .Default([](Operation *) { return Interval(); });
}

Interval Ranges::of(const Factor &factor) {
  switch (factor.kind) {
  case Factor::Kind::Plain:
    return of(factor.value);
  case Factor::Kind::Inverse:
    return invert(of(factor.value));
  case Factor::Kind::Exponential:
    return raise(std::exp, of(factor.value));
  case Factor::Kind::Dot:
    return {};
  }
  llvm_unreachable("a factor is of one of four kinds");
}

//===----------------------------------------------------------------------===//
// Feedback
//===----------------------------------------------------------------------===//

/// Whether a number is (sum of key^2 + something that is not negative)^-1/2.
static bool isInverseNorm(Ranges &ranges, Value number, Value key) {
  auto root = number.getDefiningOp<math::RsqrtOp>();
  if (!root)
    return false;
  Value sum = stripBroadcasts(root.getOperand());
  if (auto more = sum.getDefiningOp<arith::AddFOp>()) {
    bool isSecond = stripBroadcasts(more.getRhs()).getDefiningOp<linattn::ReduceOp>() != nullptr;
    if (!(ranges.of(isSecond ? more.getLhs() : more.getRhs()).low >= 0))
      return false;
    sum = stripBroadcasts(isSecond ? more.getRhs() : more.getLhs());
  }
  auto reduce = sum.getDefiningOp<linattn::ReduceOp>();
  auto squares = reduce ? reduce.getOperand().getDefiningOp<arith::MulFOp>() : arith::MulFOp();
  return squares && squares.getLhs() == key && squares.getRhs() == key;
}

/// Of a product in the coefficient of a read at `x` for a write at `a`. Scalars have been taken out
/// of keys (linattn-hoist-scalars), so a key's norm is among the factors: both together are a
/// vector of length one at most.
static Interval rangeOf(Ranges &ranges, const Product &product, Value x, Value a) {
  SmallVector<bool> isUsed(product.factors.size());
  for (Value key : {x, a})
    for (auto [factor, used] : llvm::zip(product.factors, isUsed))
      if (!used && factor.kind == Factor::Kind::Plain && isInverseNorm(ranges, factor.value, key)) {
        used = true;
        break;
      }
  Interval result{product.constant, product.constant};
  for (auto [factor, used] : llvm::zip(product.factors, isUsed))
    if (!used)
      result = multiply(result, ranges.of(factor));
  return result;
}

std::optional<double> dl::analysis::boundOfFeedback(const StepAnalysis &step) {
  Ranges ranges(step.op);
  double largest = 0;
  for (const Write &write : step.writes)
    for (const ReadTerm &term : write.value.reads) {
      Interval sum{0, 0};
      for (const Product &product : term.coefficient)
        sum = add(sum, rangeOf(ranges, product, step.reads[term.read].key, write.key));
      largest = std::max(largest, sum.magnitude());
    }
  return std::isfinite(largest) ? std::optional(largest) : std::nullopt;
}
