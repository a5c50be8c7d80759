//===- BlockEmitter.cpp - What the kernels of an operator have in common ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/LinAttnToTile/BlockEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/LinAttnToTile/Passes.h"

using namespace mlir;
using namespace dl;
using linattn::Axis;

/// Rows along y; a grid's y and z end at 65535, and a batch may not.
static constexpr int64_t kRowsPerLayer = 32768;

tile::BlockedAttr dl::toAttr(MLIRContext *context, const layout::BlockedParams &params) {
  SmallVector<int64_t> order(params.order.begin(), params.order.end());
  return tile::BlockedAttr::get(context, params.perThread, params.lanes, params.warps, order,
                                params.numWarps);
}

BlockEmitter::BlockEmitter(linattn::OperatorOp op, const KernelTypes &types,
                           const schedule::RecurrentPlan &plan)
    : op(op), types(types), plan(plan), builder(op), loc(op.getLoc()) {
  MLIRContext *context = op.getContext();
  layouts.keyDim = types.keyDim;
  layouts.valueTile = plan.valueTile;
  layouts.state = toAttr(context, plan.state);
  layouts.key = plan.keyIsSlice ? Attribute(tile::SliceAttr::get(context, 1, layouts.state))
                                : toAttr(context, plan.key);
}

//===----------------------------------------------------------------------===//
// The kernel and the block's place
//===----------------------------------------------------------------------===//

void BlockEmitter::createKernel(KernelArguments &arguments, StringRef suffix, Attribute count) {
  int64_t tiles = plan.tiles(types.valueDim);
  Attribute rows[] = {count ? count : arguments.symbol("N"), arguments.number(kRowsPerLayer)};
  auto grid = builder.getArrayAttr(
      {tiles == 1 ? arguments.symbol("HV")
                  : arguments.expression("mul", {arguments.symbol("HV"), arguments.number(tiles)}),
       arguments.expression("min", rows), arguments.expression("ceildiv", rows)});
  kernel = tile::KernelOp::create(builder, loc, (op.getSymName() + "_" + suffix).str(),
                                  builder.getFunctionType(arguments.getTypes(), {}),
                                  plan.warps * 32, grid, plan.minBlocks, /*max_registers=*/0,
                                  builder.getArrayAttr(arguments.getAttributes()), ArrayAttr());
  int64_t elements = types.keyDim * plan.valueTile * op.getNumStates();
  kernel->setAttr(kStateBytesAttrName,
                  builder.getI64IntegerAttr(elements * types.state.getIntOrFloatBitWidth() / 8));
  kernel->setAttr(kStateRegistersAttrName, builder.getI64IntegerAttr(elements / (plan.warps * 32)));
  kernel->setAttr(kKeyWarpsAttrName, builder.getI64IntegerAttr(plan.state.warps[0]));
  Block *entry = &kernel.getBody().emplaceBlock();
  for (Type type : arguments.getTypes())
    entry->addArgument(type, loc);
  builder.setInsertionPointToStart(entry);
}

void BlockEmitter::emitPlacement(std::optional<unsigned> headReciprocal) {
  Value x = gpu::BlockIdOp::create(builder, loc, gpu::Dimension::x);
  Value y = toI32(gpu::BlockIdOp::create(builder, loc, gpu::Dimension::y));
  Value z = toI32(gpu::BlockIdOp::create(builder, loc, gpu::Dimension::z));
  row = arith::AddIOp::create(builder, loc,
                              arith::MulIOp::create(builder, loc, z, i32(kRowsPerLayer)), y);
  int64_t tiles = plan.tiles(types.valueDim);
  valueHead = x;
  firstColumn = index(0);
  if (tiles > 1) {
    valueHead = arith::DivUIOp::create(builder, loc, x, index(tiles));
    Value tile = arith::RemUIOp::create(builder, loc, x, index(tiles));
    firstColumn = arith::MulIOp::create(builder, loc, tile, index(plan.valueTile));
  }
  keyHead = headReciprocal ? keyHeadOf(argument(*headReciprocal)) : valueHead;
}

/// In 32 bits, as offsets take it (Row::index); a ratio of one has the reciprocal 2^32.
Value BlockEmitter::keyHeadOf(Value wideReciprocal) {
  Value reciprocal = arith::TruncIOp::create(builder, loc, builder.getI32Type(), wideReciprocal);
  auto toI64 = [&](Value number) {
    return arith::ExtUIOp::create(builder, loc, builder.getI64Type(), number);
  };
  Value head = toI32(valueHead);
  Value product = arith::MulIOp::create(builder, loc, toI64(head), toI64(reciprocal));
  Value high = arith::ShRUIOp::create(builder, loc, product,
                                      arith::ConstantIntOp::create(builder, loc, 32, /*width=*/64));
  Value quotient = arith::TruncIOp::create(builder, loc, builder.getI32Type(), high);
  Value isOne = compare(arith::CmpIPredicate::eq, reciprocal, i32(0));
  return toIndex(arith::SelectOp::create(builder, loc, isOne, head, quotient));
}

//===----------------------------------------------------------------------===//
// Small pieces
//===----------------------------------------------------------------------===//

Value BlockEmitter::index(int64_t value) {
  return arith::ConstantIndexOp::create(builder, loc, value);
}
Value BlockEmitter::i32(int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 32);
}
Value BlockEmitter::toI32(Value number) {
  return arith::IndexCastUIOp::create(builder, loc, builder.getI32Type(), number);
}
Value BlockEmitter::toIndex(Value number) {
  return arith::IndexCastUIOp::create(builder, loc, builder.getIndexType(), number);
}
Value BlockEmitter::compare(arith::CmpIPredicate predicate, Value a, Value b) {
  return arith::CmpIOp::create(builder, loc, predicate, a, b);
}
Type BlockEmitter::elementOf(unsigned i) { return getElementTypeOrSelf(argument(i).getType()); }

Value BlockEmitter::toF32(Value value) {
  Type element = getElementTypeOrSelf(value.getType());
  if (element.isF32())
    return value;
  Type to = builder.getF32Type();
  if (auto tensor = dyn_cast<RankedTensorType>(value.getType()))
    to = tensor.clone(builder.getF32Type());
  return arith::ExtFOp::create(builder, loc, to, value);
}

Value BlockEmitter::fromF32(Value value, Type element) {
  if (element.isF32())
    return value;
  Type to = element;
  if (auto tensor = dyn_cast<RankedTensorType>(value.getType()))
    to = tensor.clone(element);
  return arith::TruncFOp::create(builder, loc, to, value);
}

Value BlockEmitter::zeroOf(Type type) {
  Value zero =
      arith::ConstantOp::create(builder, loc, builder.getFloatAttr(getElementTypeOrSelf(type), 0));
  return isa<RankedTensorType>(type) ? tile::SplatOp::create(builder, loc, type, zero) : zero;
}

//===----------------------------------------------------------------------===//
// Values of the operator in memory
//===----------------------------------------------------------------------===//

/// The axes of a linattn value in memory follow `leading`; the value axis starts at the block's
/// first column.
BlockEmitter::Access BlockEmitter::access(ArrayRef<Value> leading, Type type) {
  Access result;
  result.indices.assign(leading.begin(), leading.end());
  auto append = [&](Value first, bool inBounds) {
    result.axes.push_back(result.indices.size());
    result.indices.push_back(first);
    result.inBounds.push_back(inBounds);
  };
  Axis axis = *linattn::axisOf(type);
  if (axis == Axis::Key || axis == Axis::KeyValue)
    append(index(0), true);
  if (axis == Axis::Value || axis == Axis::KeyValue)
    append(firstColumn, wholeTiles());
  return result;
}

Value BlockEmitter::load(Value memory, ArrayRef<Value> leading, Type type) {
  Access at = access(leading, type);
  if (at.axes.empty())
    return memref::LoadOp::create(builder, loc, memory, at.indices);
  Type result = layouts.place(type, cast<MemRefType>(memory.getType()).getElementType());
  return tile::LoadOp::create(builder, loc, result, memory, at.indices, at.axes,
                              builder.getDenseBoolArrayAttr(at.inBounds), /*count=*/Value());
}

void BlockEmitter::store(Value value, Value memory, ArrayRef<Value> leading, Type type) {
  Access at = access(leading, type);
  if (at.axes.empty())
    memref::StoreOp::create(builder, loc, value, memory, at.indices);
  else
    tile::StoreOp::create(builder, loc, value, memory, at.indices, at.axes,
                          builder.getDenseBoolArrayAttr(at.inBounds), /*count=*/Value());
}

IRMapping BlockEmitter::loadParams(ArrayRef<unsigned> where) {
  IRMapping params;
  for (auto [param, i] : llvm::zip(op.getParams(), where))
    params.map(param, linattn::axisOf(param.getType())
                          ? load(argument(i), head(param.getType()), param.getType())
                          : argument(i));
  return params;
}

void BlockEmitter::bindParams(StepEmitter &emitter, const IRMapping &params) {
  for (BlockArgument param : op.getParams()) {
    Value value = params.lookup(param);
    emitter.bind(param, linattn::axisOf(param.getType()) ? toF32(value) : value);
  }
}

SmallVector<Value> BlockEmitter::loadInputs(ArrayRef<unsigned> where, Value batch, Value token,
                                            Value end, bool predicated) {
  SmallVector<Type> types;
  for (auto [input, i] : llvm::zip(op.getInputs(), where))
    types.push_back(layouts.place(input.getType(), elementOf(i)));
  if (types.empty())
    return {};
  Value exists = compare(arith::CmpIPredicate::slt, token, end);
  Value place = toIndex(token);
  auto branch = scf::IfOp::create(builder, loc, types, exists, /*withElseRegion=*/true);
  if (predicated)
    branch->setAttr(tile::kPredicatedAttrName, builder.getUnitAttr());
  OpBuilder::InsertionGuard guard(builder);
  SmallVector<Value> values, zeros;
  builder.setInsertionPointToStart(branch.thenBlock());
  for (auto [input, i] : llvm::zip(op.getInputs(), where))
    values.push_back(load(argument(i), {batch, place, head(input.getType())}, input.getType()));
  scf::YieldOp::create(builder, loc, values);
  builder.setInsertionPointToStart(branch.elseBlock());
  for (Type type : types)
    zeros.push_back(zeroOf(type));
  scf::YieldOp::create(builder, loc, zeros);
  return branch.getResults();
}

void BlockEmitter::storeOutput(ArrayRef<unsigned> where, unsigned i, Value batch, Value token,
                               Value value) {
  Type type = op.getOutputType(i);
  store(fromF32(value, elementOf(where[i])), argument(where[i]),
        {batch, toIndex(token), head(type)}, type);
}

void BlockEmitter::storeZeroOutputs(ArrayRef<unsigned> where, Value batch, Value first, Value end) {
  auto loop = scf::ForOp::create(builder, loc, first, end, i32(1));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  for (unsigned i = 0; i < op.getNumOutputs(); ++i)
    storeOutput(where, i, batch, loop.getInductionVar(),
                zeroOf(layouts.place(op.getOutputType(i), builder.getF32Type())));
}

//===----------------------------------------------------------------------===//
// States
//===----------------------------------------------------------------------===//

SmallVector<Value> BlockEmitter::stateIndices(Value slot) {
  SmallVector<Value> indices{slot, valueHead, index(0), firstColumn};
  if (types.layout == schedule::StateLayout::VK)
    std::swap(indices[2], indices[3]);
  return indices;
}

SmallVector<int64_t> BlockEmitter::stateAxes() const {
  return types.layout == schedule::StateLayout::VK ? SmallVector<int64_t>{3, 2}
                                                   : SmallVector<int64_t>{2, 3};
}

SmallVector<Value> BlockEmitter::loadStates(ArrayRef<unsigned> where, Value slot) {
  SmallVector<Value> states;
  for (unsigned i : where)
    states.push_back(tile::LoadOp::create(
        builder, loc, layouts.matrix(types.state), argument(i), stateIndices(slot), stateAxes(),
        builder.getDenseBoolArrayAttr({true, wholeTiles()}), /*count=*/Value()));
  return states;
}

SmallVector<Value> BlockEmitter::loadStatesUnless(Value isZero, ArrayRef<unsigned> where,
                                                  llvm::function_ref<Value()> slot) {
  SmallVector<Type> tiles(where.size(), layouts.matrix(types.state));
  // A branch: filling this many registers with zeros for predicated loads costs more.
  auto branch = scf::IfOp::create(builder, loc, tiles, isZero, /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(builder, loc, SmallVector<Value>(tiles.size(), zeroOf(tiles.front())));
    builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(builder, loc, loadStates(where, slot()));
  }
  SmallVector<Value> states;
  for (Value state : branch.getResults())
    states.push_back(toF32(state));
  return states;
}

SmallVector<Value> BlockEmitter::loadStatesIf(Value exists, ArrayRef<unsigned> where, Value slot) {
  SmallVector<Type> tiles(where.size(), layouts.matrix(types.state));
  auto branch = scf::IfOp::create(builder, loc, tiles, exists, /*withElseRegion=*/true);
  branch->setAttr(tile::kPredicatedAttrName, builder.getUnitAttr());
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(builder, loc, loadStates(where, slot));
    builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(builder, loc, SmallVector<Value>(tiles.size(), zeroOf(tiles.front())));
  }
  SmallVector<Value> states;
  for (Value state : branch.getResults())
    states.push_back(toF32(state));
  return states;
}

void BlockEmitter::storeStates(ArrayRef<unsigned> where, ValueRange states, Value slot) {
  for (auto [i, state] : llvm::zip(where, states))
    tile::StoreOp::create(builder, loc, fromF32(state, types.state), argument(i),
                          stateIndices(slot), stateAxes(),
                          builder.getDenseBoolArrayAttr({true, wholeTiles()}), /*count=*/Value());
}
