//===- ChunkLocals.cpp - What a chunk computes without looking at other tokens ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/LinAttnToTile/ChunkEmitter.h"

using namespace mlir;
using namespace dl;
using analysis::Coefficient;
using analysis::Factor;
using analysis::Product;
using linattn::Axis;

//===----------------------------------------------------------------------===//
// Token-local maths
//===----------------------------------------------------------------------===//

/// Of numbers and key vectors.
Type ChunkEmitter::place(Type type) {
  std::optional<Axis> axis = linattn::axisOf(type);
  Type element = getElementTypeOrSelf(type);
  if (!axis)
    return element;
  return *axis == Axis::Scalar ? layouts.tokens(element) : layouts.tokenKeys(element);
}

static bool hasColumns(Value value) { return linattn::isOn(value.getType(), Axis::Value); }

/// An arith or math op on other types.
static Operation *cloneOn(OpBuilder &builder, Location loc, Operation *operation,
                          ValueRange operands, TypeRange types) {
  OperationState state(loc, operation->getName(), operands, types, operation->getAttrs());
  return builder.create(state);
}

LogicalResult ChunkEmitter::emitLocal(Operation *operation) {
  if (auto broadcast = dyn_cast<linattn::BroadcastOp>(operation)) {
    Value source = placed.lookup(broadcast->getOperand(0));
    Type to = place(broadcast->getResult(0).getType());
    if (source.getType() != to) {
      Value tokens = asTokens(source);
      source = to == tokens.getType() ? tokens : onKeys(tokens);
    }
    placed.map(broadcast->getResult(0), source);
    return success();
  }
  if (auto reduce = dyn_cast<linattn::ReduceOp>(operation)) {
    Value source = placed.lookup(reduce->getOperand(0));
    Type to = layouts.tokens(builder.getF32Type());
    placed.map(
        reduce->getResult(0),
        tile::ReduceOp::create(builder, loc, TypeRange(to), source, /*axis=*/1).getResult(0));
    return success();
  }
  SmallVector<Value> operands;
  for (Value operand : operation->getOperands())
    operands.push_back(placed.lookup(operand));
  SmallVector<Type> types;
  for (Type type : operation->getResultTypes())
    types.push_back(place(type));
  placed.map(operation->getResults(),
             cloneOn(builder, loc, operation, operands, types)->getResults());
  return success();
}

/// Computed where it is asked for, on that side alone.
Value ChunkEmitter::valueOf(Value value, ChunkSide side) {
  if (Value known = of(side).lookupOrNull(value))
    return known;
  Operation *operation = value.getDefiningOp();
  Value result;
  if (isa<linattn::BroadcastOp>(operation)) {
    Value source = operation->getOperand(0);
    result = hasColumns(source) ? valueOf(source, side)
                                : onValues(asTokens(placed.lookup(source)), side);
  } else {
    SmallVector<Value> operands;
    for (Value operand : operation->getOperands())
      operands.push_back(hasColumns(operand) ? valueOf(operand, side) : placed.lookup(operand));
    Type type = layouts.values(side, getElementTypeOrSelf(value.getType()));
    result = cloneOn(builder, loc, operation, operands, type)->getResult(0);
  }
  of(side).map(value, result);
  return result;
}

namespace {
/// What values are computed from.
class Needed {
public:
  void add(Value value) { worklist.push_back(value); }
  void add(const Product &product) {
    for (const Factor &factor : product.factors) {
      add(factor.value);
      if (factor.key)
        add(factor.key);
      llvm::append_range(worklist, factor.logDecays);
    }
  }
  void add(const analysis::AffineForm &form) {
    for (const analysis::ReadTerm &term : form.reads)
      for (const Product &product : term.coefficient)
        add(product);
    for (const analysis::LocalTerm &term : form.locals) {
      add(term.value);
      add(term.coefficient);
    }
  }
  llvm::DenseSet<Value> close() {
    llvm::DenseSet<Value> needed;
    while (!worklist.empty()) {
      Value value = worklist.pop_back_val();
      Operation *operation = value.getDefiningOp();
      if (needed.insert(value).second && operation)
        llvm::append_range(worklist, operation->getOperands());
    }
    return needed;
  }

private:
  SmallVector<Value> worklist;
};
} // namespace

SmallVector<BlockArgument> ChunkEmitter::valuesOf(const analysis::StepAnalysis &step,
                                                  ChunkSide side) {
  Needed needed;
  if (side == ChunkSide::Writes)
    for (const analysis::Write &write : step.writes)
      needed.add(write.value);
  else
    for (const analysis::Output &output : step.outputs)
      needed.add(output.form);
  llvm::DenseSet<Value> values = needed.close();
  SmallVector<BlockArgument> result;
  linattn::OperatorOp op = step.op;
  for (BlockArgument argument : op.getBodyRegion().getArguments())
    if (hasColumns(argument) && values.contains(argument))
      result.push_back(argument);
  return result;
}

/// Numbers and key vectors that the normal form is made of.
llvm::DenseSet<Value> ChunkEmitter::neededLocals() const {
  Needed needed;
  for (const analysis::Decay &decay : step.states.front().decays)
    needed.add(decay.logDecay);
  for (const analysis::Read &read : step.reads) {
    needed.add(read.key);
    for (linattn::DecayOp decay : read.keyDecays)
      needed.add(decay.getLogDecay());
  }
  for (const analysis::Write &write : step.writes) {
    needed.add(write.key);
    needed.add(write.value);
  }
  for (const analysis::Output &output : step.outputs)
    needed.add(output.form);
  return needed.close();
}

/// Without the others: a number that is only spread over the values of a token need not be handed
/// to where values are.
LogicalResult ChunkEmitter::emitLocals() {
  llvm::DenseSet<Value> needed = neededLocals();
  for (Operation &operation :
       linattn::OperatorOp(step.op).getBodyRegion().front().without_terminator()) {
    if (operation.getNumResults() != 1 || !needed.contains(operation.getResult(0)))
      continue;
    bool isMaths = isa_and_nonnull<arith::ArithDialect, math::MathDialect>(operation.getDialect());
    if (!isMaths && !isa<linattn::BroadcastOp, linattn::ReduceOp>(operation))
      return operation.emitOpError(
          "expected linattn-set-options and linattn-expand to have run: it "
          "has no form in a block");
    if (!hasColumns(operation.getResult(0)) && failed(emitLocal(&operation)))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Coefficients
//===----------------------------------------------------------------------===//

/// One number per token or, per value channel, over the values of a side.
Value ChunkEmitter::emitFactor(const Factor &factor, ChunkSide side) {
  Value x = factor.isPerValue() ? valueOf(factor.value, side) : placed.lookup(factor.value);
  if (factor.kind == Factor::Kind::Dot) {
    SmallVector<Value> decays =
        llvm::map_to_vector(factor.logDecays, [&](Value l) { return placed.lookup(l); });
    Value terms = decayedBy(multiply(x, placed.lookup(factor.key)), decays);
    return tile::ReduceOp::create(builder, loc, TypeRange(layouts.tokens(builder.getF32Type())),
                                  terms, /*axis=*/1)
        .getResult(0);
  }
  x = asTokens(x);
  if (factor.kind == Factor::Kind::Exponential)
    return exp(x);
  if (factor.kind == Factor::Kind::Plain)
    return x;
  auto type = cast<RankedTensorType>(x.getType());
  Value one = arith::ConstantOp::create(builder, loc,
                                        DenseElementsAttr::get(type, builder.getF32FloatAttr(1)));
  return arith::DivFOp::create(builder, loc, one, x);
}

Value ChunkEmitter::tokensOf(const Product &product) {
  Value result;
  for (const Factor &factor : product.factors)
    if (!factor.isPerValue())
      result = multiply(result, emitFactor(factor));
  if (product.constant == 1.0)
    return result;
  RankedTensorType type = layouts.tokens(builder.getF32Type());
  return multiply(
      result, arith::ConstantOp::create(
                  builder, loc,
                  DenseElementsAttr::get(type, builder.getF32FloatAttr(float(product.constant)))));
}

/// A sum that is one has one term that is one.
Value ChunkEmitter::tokensOf(const Coefficient &coefficient) {
  if (coefficient.size() == 1)
    return tokensOf(coefficient.front());
  RankedTensorType type = layouts.tokens(builder.getF32Type());
  Value sum;
  for (const Product &product : coefficient) {
    Value term = tokensOf(product);
    if (!term)
      term = arith::ConstantOp::create(builder, loc,
                                       DenseElementsAttr::get(type, builder.getF32FloatAttr(1)));
    sum = add(sum, term);
  }
  return sum;
}

Value ChunkEmitter::valuesOf(const Product &product, ChunkSide side) {
  Value tokens = ifThere(tokensOf(product));
  Value result = tokens ? onValues(tokens, side) : Value();
  for (const Factor &factor : product.factors)
    if (factor.isPerValue())
      result = multiply(result, side == ChunkSide::Writes ? ifThere(emitFactor(factor, side))
                                                          : emitFactor(factor, side));
  return result;
}

Value ChunkEmitter::valuesOf(const Coefficient &coefficient, ChunkSide side) {
  if (!analysis::isPerValue(coefficient)) {
    Value tokens = tokensOf(coefficient);
    return tokens ? onValues(tokens, side) : Value();
  }
  Value sum;
  for (const Product &product : coefficient)
    sum = add(sum, valuesOf(product, side));
  return sum;
}

Value ChunkEmitter::localsOf(const analysis::AffineForm &form, ChunkSide side) {
  Value sum;
  for (const analysis::LocalTerm &term : form.locals) {
    Value value = hasColumns(term.value) ? valueOf(term.value, side)
                                         : onValues(asTokens(placed.lookup(term.value)), side);
    if (side == ChunkSide::Writes)
      value = ifThere(value);
    sum = add(sum, multiply(value, valuesOf(term.coefficient, side)));
  }
  return sum;
}
