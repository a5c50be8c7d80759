//===- Expression.cpp - Token-local values as formulas --------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Analysis/Expression.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace dl::analysis;
using namespace dl::linattn;

/// A formula is cut off beyond this many operations: shared values are printed where they are used.
static constexpr unsigned kMaxOperations = 48;

std::string dl::analysis::formatConstant(double value) {
  // Constants are f32: the fewest digits that tell this one from its neighbours.
  for (int digits = 1; digits < 9; ++digits) {
    std::string text = llvm::formatv("{0}", llvm::format("%.*g", digits, value)).str();
    double parsed;
    if (!StringRef(text).getAsDouble(parsed) && float(parsed) == float(value))
      return text;
  }
  return llvm::formatv("{0}", llvm::format("%.9g", value)).str();
}

//===----------------------------------------------------------------------===//
// Expanded operations
//===----------------------------------------------------------------------===//

static bool isConstant(Value value, double constant) {
  std::optional<double> known = constantOf(value);
  return known && float(*known) == float(constant);
}

/// The operation behind broadcasts, if it is of this kind.
template <typename Op> static Op definingOp(Value value) {
  return stripBroadcasts(value).getDefiningOp<Op>();
}

/// x of 1 / (1 + e^-x).
static Value matchSigmoid(arith::DivFOp quotient) {
  if (!isConstant(quotient.getLhs(), 1.0))
    return {};
  auto sum = definingOp<arith::AddFOp>(quotient.getRhs());
  if (!sum || !isConstant(sum.getLhs(), 1.0))
    return {};
  auto exp = definingOp<math::ExpOp>(sum.getRhs());
  auto negative = exp ? definingOp<arith::NegFOp>(exp.getOperand()) : nullptr;
  return negative ? negative.getOperand() : Value();
}

/// x of x > 20 ? x : log1p(e^x).
static Value matchSoftplus(arith::SelectOp select) {
  auto log = definingOp<math::Log1pOp>(select.getFalseValue());
  auto exp = log ? definingOp<math::ExpOp>(log.getOperand()) : nullptr;
  auto isLarge = definingOp<arith::CmpFOp>(select.getCondition());
  Value x = select.getTrueValue();
  bool matches = exp && isLarge && exp.getOperand() == x && isLarge.getLhs() == x &&
                 isLarge.getPredicate() == arith::CmpFPredicate::OGT;
  return matches ? x : Value();
}

/// x of x rsqrt(sum x^2 + 1e-6).
static Value matchL2Norm(arith::MulFOp product) {
  Value x = product.getLhs();
  auto inverse = definingOp<math::RsqrtOp>(product.getRhs());
  auto sum = inverse ? definingOp<arith::AddFOp>(inverse.getOperand()) : nullptr;
  if (!sum || !isConstant(sum.getRhs(), 1e-6))
    return {};
  auto reduce = definingOp<ReduceOp>(sum.getLhs());
  auto square = reduce ? definingOp<arith::MulFOp>(reduce.getOperand()) : nullptr;
  return square && square.getLhs() == x && square.getRhs() == x ? x : Value();
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

FormulaPrinter::FormulaPrinter(OperatorOp op) {
  for (BlockArgument argument : op.getArgs())
    names[argument] = op.getArgName(argument).str();
  params.insert_range(op.getParams());
}

Formula FormulaPrinter::call(StringRef name, ValueRange operands) {
  std::string text = name.str() + "(";
  llvm::ListSeparator separator;
  for (Value operand : operands)
    text += (StringRef(separator) + print(operand).text).str();
  return {text + ")", Formula::Atom};
}

std::optional<Formula> FormulaPrinter::printKnown(Operation *op) {
  if (auto quotient = dyn_cast<arith::DivFOp>(op))
    if (Value x = matchSigmoid(quotient))
      return call("sigmoid", x);
  if (auto select = dyn_cast<arith::SelectOp>(op))
    if (Value x = matchSoftplus(select))
      return call("softplus", x);
  if (auto product = dyn_cast<arith::MulFOp>(op)) {
    if (Value x = matchL2Norm(product))
      return call("l2norm", x);
    for (auto [factor, other] : {std::pair(product.getLhs(), product.getRhs()),
                                 std::pair(product.getRhs(), product.getLhs())})
      if (isConstant(factor, 1.0))
        return print(other);
  }
  return std::nullopt;
}

Formula FormulaPrinter::printOp(Operation *op) {
  if (std::optional<Formula> known = printKnown(op))
    return *known;
  auto binary = [&](StringRef sign, Formula::Binding binding, Formula::Binding right) -> Formula {
    std::string lhs = print(op->getOperand(0)).in(binding);
    return {lhs + sign.str() + print(op->getOperand(1)).in(right), binding};
  };
  if (isa<arith::AddFOp>(op))
    return binary(" + ", Formula::Sum, Formula::Sum);
  if (isa<arith::SubFOp>(op))
    return binary(" - ", Formula::Sum, Formula::Product);
  if (isa<arith::MulFOp>(op))
    return binary(" * ", Formula::Product, Formula::Product);
  if (isa<arith::DivFOp>(op))
    return binary(" / ", Formula::Product, Formula::Atom);
  if (isa<arith::NegFOp>(op))
    return {"-" + print(op->getOperand(0)).in(Formula::Product), Formula::Product};
  if (isa<ReduceOp>(op))
    return call("sum", op->getOperands());
  return call(op->getName().stripDialect(), op->getOperands());
}

Formula FormulaPrinter::print(Value value) {
  value = stripBroadcasts(value);
  if (auto it = names.find(value); it != names.end())
    return {it->second + (token.empty() || params.contains(value) ? "" : "_" + token),
            Formula::Atom};
  if (std::optional<double> constant = constantOf(value))
    return {formatConstant(*constant), *constant < 0 ? Formula::Product : Formula::Atom};
  Operation *op = value.getDefiningOp();
  if (depth == 0)
    size = 0;
  if (!op || ++size > kMaxOperations)
    return {"...", Formula::Atom};
  ++depth;
  llvm::scope_exit leave([&] { --depth; });
  return printOp(op);
}

//===----------------------------------------------------------------------===//
// Forms
//===----------------------------------------------------------------------===//

Formula FormulaPrinter::printFactor(const Factor &factor) {
  Formula value = print(factor.value);
  switch (factor.kind) {
  case Factor::Kind::Plain:
  case Factor::Kind::Inverse:
    return value;
  case Factor::Kind::Exponential:
    return {"e^" + value.in(Formula::Atom), Formula::Atom};
  case Factor::Kind::Dot:
    std::string text = "(" + value.in(Formula::Atom) + " . ";
    for (Value decay : factor.logDecays)
      text += "e^" + print(decay).in(Formula::Atom) + " ";
    return {text + print(factor.key).in(Formula::Atom) + ")", Formula::Atom};
  }
  llvm_unreachable("a factor has one of four kinds");
}

/// Puts one more factor behind a product; `product` may be empty.
static void append(std::string &product, StringRef factor, bool inverse = false) {
  if (product.empty())
    product = inverse ? "1" : factor.str();
  else if (!inverse)
    product += (" * " + factor).str();
  if (inverse)
    product += (" / " + factor).str();
}

Formula FormulaPrinter::print(const dl::analysis::Product &product) {
  std::string text;
  double size = std::abs(product.constant);
  if (size != 1.0 || product.factors.empty())
    text = formatConstant(size);
  for (const Factor &factor : product.factors) {
    bool inverse = factor.kind == Factor::Kind::Inverse;
    append(text, printFactor(factor).in(inverse ? Formula::Atom : Formula::Product), inverse);
  }
  return {(product.constant < 0 ? "-" : "") + text,
          product.constant >= 0 && product.factors.size() + (size != 1.0) <= 1 ? Formula::Atom
                                                                               : Formula::Product};
}

namespace {
/// One summand of a form: a product, then the read or vector it multiplies.
struct Summand {
  dl::analysis::Product product;
  Formula vector;
};
} // namespace

static Factor *findFactor(dl::analysis::Product &product, const Factor &factor) {
  auto *it = llvm::find_if(product.factors, [&](const Factor &f) { return f == factor; });
  return it == product.factors.end() ? nullptr : it;
}

/// Takes the factors that all summands share out of them.
static dl::analysis::Product takeCommon(MutableArrayRef<Summand> summands) {
  dl::analysis::Product common;
  if (summands.size() < 2)
    return common;
  for (const Factor &factor : llvm::to_vector(summands.front().product.factors)) {
    if (!llvm::all_of(summands, [&](Summand &s) { return findFactor(s.product, factor); }))
      continue;
    common.factors.push_back(factor);
    for (Summand &summand : summands)
      summand.product.factors.erase(findFactor(summand.product, factor));
  }
  return common;
}

/// Reads before vectors, but what is added before what is subtracted.
static SmallVector<Summand> orderSummands(ArrayRef<Summand> summands) {
  SmallVector<Summand> ordered;
  for (bool negative : {false, true})
    for (const Summand &summand : summands)
      if ((summand.product.constant < 0) == negative)
        ordered.push_back(summand);
  return ordered;
}

Formula FormulaPrinter::print(const AffineForm &form, ArrayRef<Formula> reads) {
  SmallVector<Summand> summands;
  for (const ReadTerm &term : form.reads)
    for (const dl::analysis::Product &product : term.coefficient)
      summands.push_back({product, reads[term.read]});
  for (const LocalTerm &term : form.locals)
    summands.push_back({term.coefficient, print(term.value)});
  summands = orderSummands(summands);
  dl::analysis::Product common = takeCommon(summands);

  if (summands.empty())
    return {"0", Formula::Atom};
  if (summands.size() == 1 && summands[0].product.isOne())
    return summands[0].vector;
  std::string sum;
  for (Summand &summand : summands) {
    bool negative = summand.product.constant < 0;
    if (!sum.empty())
      sum += negative ? " - " : " + ";
    else if (negative)
      sum += "-";
    summand.product.constant = std::abs(summand.product.constant);
    std::string text = summand.product.isOne() ? "" : print(summand.product).text;
    // A difference needs a sum after it in parentheses, a product any sum.
    bool inside = negative || !text.empty();
    append(text, summand.vector.in(inside ? Formula::Product : Formula::Sum));
    sum += text;
  }
  if (common.isOne())
    return {sum, summands.size() > 1 ? Formula::Sum : Formula::Product};
  return {print(common).text + " * (" + sum + ")", Formula::Product};
}
