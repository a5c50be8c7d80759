//===- StepEmitter.cpp - One token's step on a tile of the state ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/LinAttnToTile/StepEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace dl;
using linattn::Axis;

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

RankedTensorType StepLayouts::matrix(Type element) const {
  return RankedTensorType::get({keyDim, valueTile}, element, state);
}
RankedTensorType StepLayouts::keyVector(Type element) const {
  return RankedTensorType::get({keyDim}, element, key);
}
RankedTensorType StepLayouts::keyInTile(Type element) const {
  return cast<RankedTensorType>(tile::sliceType(matrix(element), 1));
}
RankedTensorType StepLayouts::valueVector(Type element) const {
  return cast<RankedTensorType>(tile::sliceType(matrix(element), 0));
}

Type StepLayouts::place(Type type, Type element) const {
  std::optional<Axis> axis = linattn::axisOf(type);
  if (!axis || *axis == Axis::Scalar)
    return element;
  if (*axis == Axis::Key)
    return keyVector(element);
  return *axis == Axis::Value ? valueVector(element) : matrix(element);
}

//===----------------------------------------------------------------------===//
// Small pieces
//===----------------------------------------------------------------------===//

Value StepEmitter::multiply(Value a, Value b) {
  if (!a || !b)
    return a ? a : b;
  return arith::MulFOp::create(builder, a.getLoc(), a, b);
}

Value StepEmitter::scale(Value vector, Value scalar) {
  if (!scalar)
    return vector;
  if (!isa<RankedTensorType>(vector.getType()))
    return multiply(vector, scalar);
  return multiply(vector,
                  tile::SplatOp::create(builder, vector.getLoc(), vector.getType(), scalar));
}

Value StepEmitter::inTile(Value keyVector) {
  Value &known = converted[keyVector];
  if (!known)
    known = builder.createOrFold<tile::ConvertOp>(
        keyVector.getLoc(), layouts.keyInTile(builder.getF32Type()), keyVector);
  return known;
}

Value StepEmitter::expand(Value vector, int64_t axis) {
  return tile::ExpandOp::create(builder, vector.getLoc(), layouts.matrix(builder.getF32Type()),
                                vector, axis);
}

Value StepEmitter::exponential(linattn::DecayOp decay) {
  Value &known = exponentials[decay];
  if (!known)
    known = math::ExpOp::create(builder, decay.getLoc(), placed.lookup(decay.getLogDecay()));
  return known;
}

StepEmitter::History StepEmitter::historyOf(Value state) {
  History history;
  while (Operation *event = state.getDefiningOp()) {
    history.path.push_back(event);
    state = event->getOperand(0);
  }
  std::reverse(history.path.begin(), history.path.end());
  history.root = cast<BlockArgument>(state).getArgNumber() - op.getStates().front().getArgNumber();
  return history;
}

StepEmitter::Factor StepEmitter::factorOf(ArrayRef<Operation *> events) {
  Factor factor;
  for (Operation *event : events) {
    auto decay = dyn_cast<linattn::DecayOp>(event);
    if (!decay)
      continue;
    Value e = exponential(decay);
    switch (*linattn::axisOf(decay.getLogDecay().getType())) {
    case Axis::Scalar:
      factor.scalar = multiply(factor.scalar, e);
      break;
    case Axis::Key:
      factor.key = multiply(factor.key, e);
      break;
    case Axis::Value:
      factor.value = multiply(factor.value, e);
      break;
    case Axis::KeyValue:
      factor.matrix = multiply(factor.matrix, e);
      break;
    }
  }
  return factor;
}

//===----------------------------------------------------------------------===//
// Token-local maths
//===----------------------------------------------------------------------===//

void StepEmitter::classify() {
  for (Operation &operation : op.getBodyRegion().front().without_terminator()) {
    bool tainted =
        isa<linattn::ReadOp>(operation) ||
        llvm::any_of(operation.getOperands(), [&](Value v) { return afterRead.contains(v); });
    // A state is not "after a read" as such: what matters is found along its history, event by
    // event.
    if (tainted)
      for (Value result : operation.getResults())
        afterRead.insert(result);
  }
}

LogicalResult StepEmitter::emitLocal(Operation *operation) {
  Location loc = operation->getLoc();
  if (auto broadcast = dyn_cast<linattn::BroadcastOp>(operation)) {
    Value source = placed.lookup(broadcast->getOperand(0));
    Type to = layouts.place(broadcast->getResult(0).getType(), builder.getF32Type());
    if (source.getType() != to)
      source = tile::SplatOp::create(builder, loc, to, source);
    placed.map(broadcast->getResult(0), source);
    return success();
  }
  if (auto reduce = dyn_cast<linattn::ReduceOp>(operation)) {
    Value source = placed.lookup(reduce->getOperand(0));
    placed.map(
        reduce->getResult(0),
        tile::ReduceOp::create(builder, loc, TypeRange(builder.getF32Type()), ValueRange(source), 0)
            .getResult(0));
    return success();
  }
  if (!isa_and_nonnull<arith::ArithDialect, math::MathDialect>(operation->getDialect()))
    return operation->emitOpError(
        "expected linattn-set-options and linattn-expand to have run: it has no form in a block");
  OperationState state(loc, operation->getName());
  for (Value operand : operation->getOperands())
    state.operands.push_back(placed.lookup(operand));
  for (Type type : operation->getResultTypes())
    state.types.push_back(layouts.place(type, getElementTypeOrSelf(type)));
  state.addAttributes(operation->getAttrs());
  placed.map(operation->getResults(), builder.create(state)->getResults());
  return success();
}

//===----------------------------------------------------------------------===//
// Reads
//===----------------------------------------------------------------------===//

bool StepEmitter::isReady(linattn::ReadOp read) {
  if (!placed.contains(read.getKey()))
    return false;
  for (Operation *event : historyOf(read.getState()).path)
    if (auto decay = dyn_cast<linattn::DecayOp>(event);
        decay && !placed.contains(decay.getLogDecay()))
      return false;
  return true;
}

/// The dense state: one pass over its tile for all of them.
SmallVector<Value> StepEmitter::readTile(Value state, Value matrix, ArrayRef<Value> keys) {
  SmallVector<Value> vectors;
  for (Value key : keys)
    vectors.push_back(inTile(key));
  SmallVector<Type> types(keys.size(), layouts.valueVector(builder.getF32Type()));
  return tile::DotOp::create(builder, vectors.front().getLoc(), types, vectors,
                             multiply(matrix, state), 0)
      .getResults();
}

void StepEmitter::emitReadsOfBase(Reader reader, ArrayRef<linattn::ReadOp> reads) {
  // Reads of one state (and one elementwise factor) share a pass over it.
  llvm::MapVector<std::pair<unsigned, Value>, SmallVector<linattn::ReadOp>> byMatrix;
  for (linattn::ReadOp read : reads) {
    History history = historyOf(read.getState());
    byMatrix[{history.root, factorOf(history.path).matrix}].push_back(read);
  }
  for (auto &[matrix, group] : byMatrix) {
    SmallVector<Value> keys;
    for (linattn::ReadOp read : group)
      keys.push_back(
          multiply(placed.lookup(read.getKey()), factorOf(historyOf(read.getState()).path).key));
    SmallVector<Value> results = reader(matrix.first, matrix.second, keys);
    for (auto [read, result] : llvm::zip(group, results)) {
      Factor factor = factorOf(historyOf(read.getState()).path);
      ofBase[read] = multiply(scale(result, factor.scalar), factor.value);
    }
  }
}

/// How much of an earlier write's value a read gets: x . (a e^G), a number, or one per column if a
/// decay between them is elementwise.
Value StepEmitter::weightOf(linattn::ReadOp read, const History &history, size_t write) {
  Value &known = weights[{read, write}];
  if (known)
    return known;
  Location loc = read.getLoc();
  Factor factor = factorOf(ArrayRef(history.path).drop_front(write + 1));
  Value query = placed.lookup(read.getKey()),
        a = placed.lookup(cast<linattn::WriteOp>(history.path[write]).getKey());
  if (factor.matrix) {
    Value decayed = multiply(factor.matrix, expand(inTile(multiply(a, factor.key)), 1));
    auto dot =
        tile::DotOp::create(builder, loc, TypeRange(layouts.valueVector(builder.getF32Type())),
                            ValueRange(inTile(query)), decayed, 0);
    return known = scale(dot.getResult(0), factor.scalar);
  }
  Value terms = multiply(multiply(query, a), factor.key);
  Value dot =
      tile::ReduceOp::create(builder, loc, TypeRange(builder.getF32Type()), ValueRange(terms), 0)
          .getResult(0);
  return known = multiply(dot, factor.scalar);
}

void StepEmitter::finishRead(Reader reader, linattn::ReadOp read) {
  if (!ofBase.count(read))
    emitReadsOfBase(reader, read);
  Location loc = read.getLoc();
  Value sum = ofBase[read];
  History history = historyOf(read.getState());
  for (auto [index, event] : llvm::enumerate(history.path)) {
    auto write = dyn_cast<linattn::WriteOp>(event);
    if (!write)
      continue;
    Value b = multiply(placed.lookup(write.getValue()),
                       factorOf(ArrayRef(history.path).drop_front(index + 1)).value);
    Value weight = weightOf(read, history, index);
    if (weight.getType() != b.getType())
      weight = tile::SplatOp::create(builder, loc, b.getType(), weight);
    sum = math::FmaOp::create(builder, loc, weight, b, sum);
  }
  placed.map(read.getResult(), sum);
}

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

Value StepEmitter::decayed(Value state, const Factor &factor) {
  Value result = multiply(factor.matrix, state);
  if (factor.key)
    result = multiply(result, expand(inTile(scale(factor.key, factor.scalar)), 1));
  else
    result = scale(result, factor.scalar);
  return factor.value ? multiply(result, expand(factor.value, 0)) : result;
}

StepEmitter::Factor StepEmitter::decayOf(unsigned i) {
  return factorOf(historyOf(op.getYieldedStates()[i]).path);
}

Value StepEmitter::newState(Value state) {
  History history = historyOf(state);
  Location loc = state.getLoc();
  Value result = decayed(base[history.root], factorOf(history.path));
  for (auto [index, event] : llvm::enumerate(history.path)) {
    auto write = dyn_cast<linattn::WriteOp>(event);
    if (!write)
      continue;
    Factor after = factorOf(ArrayRef(history.path).drop_front(index + 1));
    Value a = expand(inTile(multiply(placed.lookup(write.getKey()), after.key)), 1);
    Value b = scale(multiply(placed.lookup(write.getValue()), after.value), after.scalar);
    result = math::FmaOp::create(builder, loc, multiply(a, after.matrix), expand(b, 0), result);
  }
  return result;
}

LogicalResult StepEmitter::emit(Reader reader, llvm::function_ref<void(unsigned, Value)> store) {
  classify();
  auto body = op.getBodyRegion().front().without_terminator();
  auto isState = [](Operation &operation) {
    return isa<linattn::DecayOp, linattn::WriteOp>(operation);
  };
  for (Operation &operation : body)
    if (!isState(operation) && !isa<linattn::ReadOp>(operation) &&
        !afterRead.contains(operation.getResult(0)))
      if (failed(emitLocal(&operation)))
        return failure();
  SmallVector<linattn::ReadOp> ready;
  for (Operation &operation : body)
    if (auto read = dyn_cast<linattn::ReadOp>(operation); read && isReady(read))
      ready.push_back(read);
  // Before the pass over the state, so that they are done while its loads are on their way and the
  // vectors can go.
  for (linattn::ReadOp read : ready) {
    History history = historyOf(read.getState());
    for (auto [index, event] : llvm::enumerate(history.path))
      if (auto write = dyn_cast<linattn::WriteOp>(event); write && placed.contains(write.getKey()))
        weightOf(read, history, index);
  }
  emitReadsOfBase(reader, ready);
  for (Operation &operation : body) {
    if (isState(operation))
      continue;
    if (auto read = dyn_cast<linattn::ReadOp>(operation))
      finishRead(reader, read);
    else if (afterRead.contains(operation.getResult(0)) && failed(emitLocal(&operation)))
      return failure();
  }
  for (auto [i, output] : llvm::enumerate(op.getYieldedOutputs()))
    store(i, placed.lookup(output));
  return success();
}

FailureOr<SmallVector<Value>> StepEmitter::emit(ValueRange states,
                                                llvm::function_ref<void(unsigned, Value)> store) {
  base = states;
  auto read = [&](unsigned state, Value matrix, ArrayRef<Value> keys) {
    return readTile(base[state], matrix, keys);
  };
  if (failed(emit(read, store)))
    return failure();
  SmallVector<Value> result;
  for (Value state : op.getYieldedStates())
    result.push_back(newState(state));
  return result;
}

LogicalResult StepEmitter::emitParamsOnly() {
  for (Operation &operation : op.getBodyRegion().front().without_terminator()) {
    bool isKnown = !isa<linattn::DecayOp, linattn::WriteOp, linattn::ReadOp>(operation) &&
                   llvm::all_of(operation.getOperands(),
                                [&](Value operand) { return placed.contains(operand); });
    if (isKnown && failed(emitLocal(&operation)))
      return failure();
  }
  return success();
}
