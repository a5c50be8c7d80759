//===- LogEmitter.cpp - A state as a base and a log, in one block ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/LinAttnToTile/LogEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace dl;
using analysis::LogWrite;
using linattn::Axis;
using linattn::HeadGroup;

/// e^-104 is 0 in f32. Beyond it lies nothing but -inf - -inf = NaN.
static constexpr double kLowestLogDecay = -104;

LogEmitter::LogEmitter(linattn::OperatorOp op, const analysis::StepAnalysis &step,
                       const analysis::LogEntry &entry, ArrayRef<HeldField> fields,
                       const KernelTypes &types, const schedule::RecurrentPlan &plan,
                       const LogOptions &options)
    : BlockEmitter(op, types, plan), step(step), entry(entry), fields(fields), options(options) {
  schedule::LogTiles tiles = schedule::logTiles(plan, types.keyDim, options.longestLog());
  keysLayout = toAttr(op.getContext(), tiles.keys);
  valuesLayout = toAttr(op.getContext(), tiles.values);
  for (auto [state, held] : llvm::enumerate(entry.decays))
    for (int field : held)
      clocks.push_back({unsigned(state), entry.fields[field].axis, field});
}

//===----------------------------------------------------------------------===//
// Shapes and small pieces
//===----------------------------------------------------------------------===//

RankedTensorType LogEmitter::keysType(Type element) const {
  return RankedTensorType::get({options.longestLog(), types.keyDim}, element, keysLayout);
}
RankedTensorType LogEmitter::valuesType(Type element) const {
  return RankedTensorType::get({options.longestLog(), plan.valueTile}, element, valuesLayout);
}

Value LogEmitter::wrap(Value position) {
  Value ring = i32(options.ring());
  Value isPast = compare(arith::CmpIPredicate::uge, position, ring);
  Value wrapped = arith::SubIOp::create(builder, loc, position, ring);
  return arith::SelectOp::create(builder, loc, isPast, wrapped, position);
}

/// Of what may be anything: unsigned, so that negative numbers are large.
Value LogEmitter::minimum(Value a, int64_t b) {
  return arith::MinUIOp::create(builder, loc, a, i32(b));
}

Value LogEmitter::isSlot(Value slot, unsigned pool) {
  return compare(arith::CmpIPredicate::ult, slot, argument(pool));
}

SmallVector<Value> LogEmitter::Log::flatten() const {
  SmallVector<Value> values{length};
  llvm::append_range(values, keys);
  llvm::append_range(values, this->values);
  llvm::append_range(values, clocks);
  return values;
}

LogEmitter::Log LogEmitter::unflatten(ValueRange flat) const {
  size_t writes = entry.writes.size();
  Log log;
  log.length = flat.front();
  log.keys = llvm::to_vector(flat.slice(1, writes));
  log.values = llvm::to_vector(flat.slice(1 + writes, writes));
  log.clocks = llvm::to_vector(flat.drop_front(1 + 2 * writes));
  return log;
}

LogEmitter::Log LogEmitter::emptyLog() {
  Type f32 = builder.getF32Type();
  Log log;
  log.length = i32(0);
  log.keys.assign(entry.writes.size(), zeroOf(keysType(f32)));
  log.values.assign(entry.writes.size(), zeroOf(valuesType(f32)));
  for (const Clock &clock : clocks)
    log.clocks.push_back(zeroOf(clock.axis == Axis::Key     ? layouts.keyVector(f32)
                                : clock.axis == Axis::Value ? Type(layouts.valueVector(f32))
                                                            : f32));
  return log;
}

/// One number per entry, over a matrix.
Value LogEmitter::rowsOf(RankedTensorType matrix, Value rows) {
  return tile::ExpandOp::create(builder, loc, matrix, rows, 1);
}

/// One vector for all entries.
Value LogEmitter::alongRows(RankedTensorType matrix, Value vector) {
  Value row = builder.createOrFold<tile::ConvertOp>(loc, tile::sliceType(matrix, 0), vector);
  return tile::ExpandOp::create(builder, loc, matrix, row, 0);
}

Value LogEmitter::asVector(Value value, Type like) {
  return value.getType() == like ? value
                                 : tile::SplatOp::create(builder, loc, like, value).getResult();
}

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

/// The field of `count` entries, one behind the other; zeros behind them.
Value LogEmitter::loadRows(unsigned field, Type type, Value slot, Value start, Value count) {
  const HeldField &held = fields[field];
  SmallVector<Value> indices{slot, head(held.group), toIndex(start)};
  SmallVector<int64_t> axes{2};
  SmallVector<bool> inBounds{true};
  if (held.axis != Axis::Scalar) {
    indices.push_back(held.axis == Axis::Value ? firstColumn : index(0));
    axes.push_back(3);
    inBounds.push_back(held.axis == Axis::Key || wholeTiles());
  }
  auto result = cast<RankedTensorType>(type).clone(held.element);
  return toF32(tile::RingLoadOp::create(builder, loc, result, argument(logArguments[field]),
                                        indices, axes, builder.getDenseBoolArrayAttr(inBounds),
                                        count));
}

/// The field of the newest of `count` entries, or zeros.
Value LogEmitter::loadNewest(unsigned field, Value slot, Value start, Value count) {
  const HeldField &held = fields[field];
  Type f32 = builder.getF32Type();
  Type type = held.axis == Axis::Key     ? Type(layouts.keyVector(f32))
              : held.axis == Axis::Value ? Type(layouts.valueVector(f32))
                                         : f32;
  Value hasAny = compare(arith::CmpIPredicate::ne, count, i32(0));
  auto branch = scf::IfOp::create(builder, loc, TypeRange(type), hasAny, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(builder, loc, zeroOf(type));
  builder.setInsertionPointToStart(branch.thenBlock());
  Value last = arith::SubIOp::create(builder, loc, count, i32(1));
  Value position = toIndex(wrap(arith::AddIOp::create(builder, loc, start, last)));
  Type like = linattn::getTensorType(builder.getContext(), held.axis, held.group);
  Value loaded = load(argument(logArguments[field]), {slot, head(held.group), position}, like);
  scf::YieldOp::create(builder, loc, toF32(loaded));
  return branch.getResult(0);
}

/// An emitter that knows what params alone set.
std::optional<StepEmitter> LogEmitter::emitterOfParams() {
  std::optional<StepEmitter> emitter(std::in_place, builder, op, layouts);
  bindParams(*emitter, params);
  if (failed(emitter->emitParamsOnly()))
    emitter.reset();
  return emitter;
}

LogEmitter::Log LogEmitter::loadLog(Value slot, Value start, Value count) {
  Log log = emptyLog();
  log.length = count;
  for (auto [number, clock] : llvm::enumerate(clocks))
    log.clocks[number] = loadNewest(clock.field, slot, start, count);
  std::optional<StepEmitter> known = emitterOfParams();
  if (!known)
    return log;
  for (unsigned write = 0; write < entry.writes.size(); ++write) {
    loadWrite(log, write, slot, start, count, *known);
    decayRows(log, write, slot, start, count);
  }
  return log;
}

/// a_i and b_i of a write.
void LogEmitter::loadWrite(Log &log, unsigned number, Value slot, Value start, Value count,
                           StepEmitter &known) {
  const LogWrite &write = entry.writes[number];
  RankedTensorType keys = keysType(builder.getF32Type()), values = valuesType(builder.getF32Type());
  Value &a = log.keys[number], &b = log.values[number];
  a = write.key == LogWrite::kNone ? alongRows(keys, known.lookup(write.keyVector))
                                   : loadRows(write.key, keys, slot, start, count);
  b = write.value == LogWrite::kNone ? alongRows(values, known.lookup(write.valueVector))
                                     : loadRows(write.value, values, slot, start, count);
  if (write.factor != LogWrite::kNone) {
    Value rows = loadRows(write.factor, tile::sliceType(keys, 1), slot, start, count);
    a = arith::MulFOp::create(builder, loc, a, rowsOf(keys, rows));
  } else if (!write.isScaleInValue) {
    a = known.scale(a, product(known, write.scale));
  }
}

/// From a_i to e^{L - L_i} a_i, and likewise along V.
void LogEmitter::decayRows(Log &log, unsigned number, Value slot, Value start, Value count) {
  Type f32 = builder.getF32Type();
  auto since = [&](RankedTensorType type, Value newest, Value rows) {
    Value difference = arith::SubFOp::create(builder, loc, newest, rows);
    return math::ExpOp::create(builder, loc, type, difference);
  };
  for (auto [clock, newest] : llvm::zip(clocks, log.clocks)) {
    if (clock.state != step.writes[number].state)
      continue;
    Value &matrix = clock.axis == Axis::Value ? log.values[number] : log.keys[number];
    auto type = clock.axis == Axis::Value ? valuesType(f32) : keysType(f32);
    Value factor;
    if (clock.axis == Axis::Scalar) {
      auto rows = cast<RankedTensorType>(tile::sliceType(type, 1));
      factor = rowsOf(type, since(rows, asVector(newest, rows),
                                  loadRows(clock.field, rows, slot, start, count)));
    } else {
      factor =
          since(type, alongRows(type, newest), loadRows(clock.field, type, slot, start, count));
    }
    matrix = arith::MulFOp::create(builder, loc, matrix, factor);
  }
}

//===----------------------------------------------------------------------===//
// Reading and merging
//===----------------------------------------------------------------------===//

/// e^L of a state.
StepEmitter::Factor LogEmitter::factorOf(const Log &log, unsigned state) {
  StepEmitter::Factor factor;
  for (auto [clock, value] : llvm::zip(clocks, log.clocks)) {
    if (clock.state != state)
      continue;
    Value &place = clock.axis == Axis::Key     ? factor.key
                   : clock.axis == Axis::Value ? factor.value
                                               : factor.scalar;
    place = math::ExpOp::create(builder, loc, value);
  }
  return factor;
}

/// A x of a write for each x, as B takes it.
SmallVector<Value> LogEmitter::weigh(const Log &log, unsigned write, ArrayRef<Value> keys) {
  RankedTensorType a = keysType(builder.getF32Type()), b = valuesType(builder.getF32Type());
  SmallVector<Value> vectors, weights;
  for (Value key : keys)
    vectors.push_back(builder.createOrFold<tile::ConvertOp>(loc, tile::sliceType(a, 0), key));
  SmallVector<Type> rows(keys.size(), tile::sliceType(a, 1));
  auto dots = tile::DotOp::create(builder, loc, rows, vectors, log.keys[write], 1);
  for (Value weight : dots.getResults())
    weights.push_back(builder.createOrFold<tile::ConvertOp>(loc, tile::sliceType(b, 1), weight));
  return weights;
}

/// Base and entries are summed up together where nothing per column comes between: so entries cost
/// their products, and neither shuffles nor barriers.
SmallVector<Value> LogEmitter::readLog(ValueRange base, const Log &log, unsigned state,
                                       ArrayRef<Value> keys) {
  Type f32 = builder.getF32Type();
  StepEmitter::Factor factor = factorOf(log, state);
  SmallVector<unsigned> writes;
  for (unsigned write = 0; write < entry.writes.size(); ++write)
    if (step.writes[write].state == state)
      writes.push_back(write);
  StepEmitter local(builder, op, layouts); // for this region alone: it keeps conversions
  SmallVector<Value> queries, weights;
  for (Value key : keys)
    queries.push_back(local.inTile(local.scale(local.multiply(key, factor.key), factor.scalar)));
  SmallVector<Type> types(keys.size(), layouts.valueVector(f32));
  bool isJoint = !factor.value && !writes.empty();
  if (isJoint)
    weights = weigh(log, writes.front(), keys);
  auto dots = tile::DotOp::create(builder, loc, types, queries, base[state], weights,
                                  isJoint ? log.values[writes.front()] : Value(), 0);
  SmallVector<Value> sums;
  for (Value dot : dots.getResults())
    sums.push_back(local.multiply(dot, factor.value));
  for (unsigned write : ArrayRef(writes).drop_front(isJoint ? 1 : 0)) {
    SmallVector<Type> columns(keys.size(), tile::sliceType(valuesType(f32), 0));
    auto parts =
        tile::DotOp::create(builder, loc, columns, weigh(log, write, keys), log.values[write], 0);
    for (auto [sum, part] : llvm::zip(sums, parts.getResults()))
      sum = arith::AddFOp::create(builder, loc, sum,
                                  builder.createOrFold<tile::ConvertOp>(loc, sum.getType(), part));
  }
  return sums;
}

SmallVector<Value> LogEmitter::read(ValueRange base, const Log &log, unsigned state,
                                    ArrayRef<Value> keys) {
  SmallVector<Type> types(keys.size(), layouts.valueVector(builder.getF32Type()));
  // An empty log is a dense state, to the bit and in time.
  Value hasAny = compare(arith::CmpIPredicate::ne, log.length, i32(0));
  auto branch = scf::IfOp::create(builder, loc, types, hasAny, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(builder, loc,
                       StepEmitter(builder, op, layouts).readTile(base[state], {}, keys));
  builder.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(builder, loc, readLog(base, log, state, keys));
  return branch.getResults();
}

SmallVector<Value> LogEmitter::merged(ValueRange base, const Log &log) {
  StepEmitter emitter(builder, op, layouts); // for this region alone: it keeps conversions
  SmallVector<Value> states;
  for (auto [number, tile] : llvm::enumerate(base))
    states.push_back(emitter.decayed(tile, factorOf(log, number)));
  for (unsigned write = 0; write < entry.writes.size(); ++write) {
    Value &state = states[step.writes[write].state];
    state = tile::RankUpdateOp::create(builder, loc, state.getType(), log.keys[write],
                                       log.values[write], state, log.length);
  }
  for (Value &state : states)
    state = toF32(fromF32(state, types.state));
  return states;
}

//===----------------------------------------------------------------------===//
// One more entry
//===----------------------------------------------------------------------===//

/// The number that a product of token-local numbers is; null for one.
Value LogEmitter::product(StepEmitter &emitter, const analysis::Product &product) {
  Value result;
  auto constant = [&](double value) -> Value {
    return arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(float(value)));
  };
  for (const analysis::Factor &factor : product.factors) {
    Value value = emitter.lookup(factor.value);
    if (factor.kind == analysis::Factor::Kind::Exponential)
      value = math::ExpOp::create(builder, loc, value);
    if (factor.kind == analysis::Factor::Kind::Inverse)
      value = arith::DivFOp::create(builder, loc, constant(1), value);
    result = emitter.multiply(result, value);
  }
  return product.constant == 1 ? result : emitter.multiply(result, constant(product.constant));
}

/// a_w without its scale.
Value LogEmitter::heldKey(StepEmitter &emitter, unsigned number) {
  const analysis::Write &write = step.writes[number];
  if (Value vector = entry.writes[number].keyVector)
    return emitter.lookup(vector);
  Value result = emitter.lookup(write.key);
  for (const analysis::Decay &decay :
       ArrayRef(step.states[write.state].decays).drop_front(write.clock))
    if (decay.axis == Axis::Key)
      result = emitter.multiply(result,
                                math::ExpOp::create(builder, loc, emitter.lookup(decay.logDecay)));
  return result;
}

/// b_w, with its scale where that belongs there.
Value LogEmitter::heldValue(StepEmitter &emitter, unsigned number) {
  const analysis::Write &write = step.writes[number];
  const LogWrite &logged = entry.writes[number];
  Value result = emitter.lookup(logged.valueVector ? logged.valueVector
                                                   : linattn::WriteOp(write.op).getValue());
  if (!logged.valueVector)
    for (const analysis::Decay &decay :
         ArrayRef(step.states[write.state].decays).drop_front(write.clock))
      if (decay.axis == Axis::Value)
        result = emitter.multiply(
            result, math::ExpOp::create(builder, loc, emitter.lookup(decay.logDecay)));
  return logged.isScaleInValue ? emitter.scale(result, product(emitter, logged.scale)) : result;
}

/// L after the token.
Value LogEmitter::clockAfter(StepEmitter &emitter, const Log &log, unsigned number) {
  Value sum = log.clocks[number];
  for (Value decay : entry.fields[clocks[number].field].decays) {
    Value term = asVector(emitter.lookup(decay), sum.getType());
    Value lowest =
        arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(float(kLowestLogDecay)));
    term = arith::MaximumFOp::create(builder, loc, term, asVector(lowest, sum.getType()));
    sum = arith::AddFOp::create(builder, loc, sum, term);
  }
  return sum;
}

SmallVector<Value> LogEmitter::makeEntry(StepEmitter &emitter, ValueRange inputs, const Log &log) {
  SmallVector<Value> held(fields.size());
  for (auto [number, field] : llvm::enumerate(fields))
    if (field.input)
      held[number] = inputs[field.input.getArgNumber()];
  auto keep = [&](int field, llvm::function_ref<Value()> make) {
    if (field != LogWrite::kNone && !held[field])
      held[field] = fromF32(make(), fields[field].element);
  };
  for (unsigned number = 0; number < entry.writes.size(); ++number) {
    const LogWrite &write = entry.writes[number];
    keep(write.key, [&] { return heldKey(emitter, number); });
    keep(write.value, [&] { return heldValue(emitter, number); });
    keep(write.factor, [&] {
      Value scale = product(emitter, write.scale);
      Value one = arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(1));
      return scale ? scale : one;
    });
  }
  for (unsigned number = 0; number < clocks.size(); ++number)
    keep(clocks[number].field, [&] { return clockAfter(emitter, log, number); });
  return held;
}

void LogEmitter::storeEntry(ArrayRef<Value> held, Value slot, Value position) {
  // What value heads or tiles of V have in common is written once.
  Value isFirstTile = compare(arith::CmpIPredicate::eq, firstColumn, index(0)), isFirstHead;
  if (headRatio) {
    Value first = arith::MulIOp::create(builder, loc, toI32(keyHead), argument(*headRatio));
    isFirstHead = compare(arith::CmpIPredicate::eq, toI32(valueHead), first);
  }
  for (auto [number, field] : llvm::enumerate(fields)) {
    Value condition = field.axis == Axis::Value ? Value() : isFirstTile;
    if (field.group == HeadGroup::KeyHead && isFirstHead)
      condition =
          condition ? arith::AndIOp::create(builder, loc, condition, isFirstHead) : isFirstHead;
    OpBuilder::InsertionGuard guard(builder);
    if (condition) {
      auto branch = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
      builder.setInsertionPointToStart(branch.thenBlock());
    }
    Type like = linattn::getTensorType(builder.getContext(), field.axis, field.group);
    store(held[number], argument(logArguments[number]), {slot, head(field.group), position}, like);
  }
}

LogEmitter::Log LogEmitter::advance(StepEmitter &emitter, const Log &log, ArrayRef<Value> held) {
  Type f32 = builder.getF32Type();
  RankedTensorType keys = keysType(f32), values = valuesType(f32);
  Log next = log;
  for (auto [number, write] : llvm::enumerate(entry.writes)) {
    StepEmitter::Factor factor = emitter.decayOf(step.writes[number].state);
    Value &a = next.keys[number], &b = next.values[number];
    a = emitter.scale(a, factor.scalar);
    if (factor.key)
      a = arith::MulFOp::create(builder, loc, a, alongRows(keys, factor.key));
    if (factor.value)
      b = arith::MulFOp::create(builder, loc, b, alongRows(values, factor.value));
    Value key =
        write.key == LogWrite::kNone ? emitter.lookup(write.keyVector) : toF32(held[write.key]);
    if (write.factor != LogWrite::kNone)
      key = emitter.scale(key, held[write.factor]);
    else if (!write.isScaleInValue)
      key = emitter.scale(key, product(emitter, write.scale));
    Value value = write.value == LogWrite::kNone ? emitter.lookup(write.valueVector)
                                                 : toF32(held[write.value]);
    auto insert = [&](Value vector, Value matrix) -> Value {
      auto type = cast<RankedTensorType>(matrix.getType());
      Value row = builder.createOrFold<tile::ConvertOp>(loc, tile::sliceType(type, 0), vector);
      return tile::InsertOp::create(builder, loc, type, row, matrix, log.length, 0);
    };
    a = insert(key, a);
    b = insert(value, b);
  }
  for (auto [number, clock] : llvm::enumerate(clocks))
    next.clocks[number] = held[clock.field];
  next.length = arith::AddIOp::create(builder, loc, log.length, i32(1));
  return next;
}
