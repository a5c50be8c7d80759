//===- Recurrent.cpp - Token by token with the state in registers ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   linattn.operator @op   ->   tile.kernel @op_decode
//
// Block (x, y, z) = (value head and tile of V, row in a layer, layer of rows):
//
//   slots and tokens of the row (Row.h); params; inputs of its first token
//   if it is not null:
//     S = state tile of its slot, or zeros
//     for each token:
//       inputs -> StepEmitter -> outputs; inputs of the next token; S = new state
//       if every state is kept: store S
//     if the last one is kept: store S
//   else: outputs = 0
//
// At small batches a launch takes as long as its chain of loads, so what does not depend on the
// slot is loaded beside it, and the state before any maths of the token, which its latency covers.
//
//===----------------------------------------------------------------------===//

#include "compiler/Schedule/Recurrent.h"
#include "dialects/LinAttn/IR/LinAttn.h"
#include "dialects/Tile/IR/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/LinAttnToTile/KernelArguments.h"
#include "passes/LinAttnToTile/Passes.h"
#include "passes/LinAttnToTile/Row.h"
#include "passes/LinAttnToTile/ScheduleOptions.h"
#include "passes/LinAttnToTile/StepEmitter.h"

using namespace mlir;
using namespace dl;
using linattn::Axis;

namespace dl {
#define GEN_PASS_DEF_SCHEDULERECURRENT
#include "passes/LinAttnToTile/Passes.h.inc"
} // namespace dl

namespace {

/// Rows along y; a grid's y and z end at 65535, and a batch may not.
constexpr int64_t kRowsPerLayer = 32768;

tile::BlockedAttr toAttr(MLIRContext *context, const layout::BlockedParams &params) {
  SmallVector<int64_t> order(params.order.begin(), params.order.end());
  return tile::BlockedAttr::get(context, params.perThread, params.lanes, params.warps, order,
                                params.numWarps);
}

/// Emits the kernel of one operator.
class RecurrentKernel {
public:
  RecurrentKernel(linattn::OperatorOp op, const KernelTypes &types,
                  const schedule::RecurrentPlan &plan)
      : op(op), types(types), plan(plan), builder(op) {
    MLIRContext *context = op.getContext();
    layouts.keyDim = types.keyDim;
    layouts.valueTile = plan.valueTile;
    layouts.state = toAttr(context, plan.state);
    layouts.key = plan.keyIsSlice ? Attribute(tile::SliceAttr::get(context, 1, layouts.state))
                                  : toAttr(context, plan.key);
  }

  LogicalResult emit();

private:
  Value index(int64_t value) { return arith::ConstantIndexOp::create(builder, loc, value); }
  Value i32(int64_t value) { return arith::ConstantIntOp::create(builder, loc, value, 32); }
  Value toI32(Value number) {
    return arith::IndexCastUIOp::create(builder, loc, builder.getI32Type(), number);
  }
  Value toIndex(Value number) {
    return arith::IndexCastUIOp::create(builder, loc, builder.getIndexType(), number);
  }
  Value argument(unsigned i) { return kernel.getBody().getArgument(i); }
  Value head(Type type) {
    return *linattn::groupOf(type) == linattn::HeadGroup::KeyHead ? keyHead : valueHead;
  }
  bool wholeTiles() { return types.valueDim % plan.valueTile == 0; }

  void emitPlacement();
  void emitRow();
  Value load(Value memory, ArrayRef<Value> leading, Type type);
  Value toF32(Value value);
  Value fromF32(Value value, Type element);
  struct Access {
    SmallVector<Value> indices;
    SmallVector<int64_t> axes;
    SmallVector<bool> inBounds;
  };
  Access access(ArrayRef<Value> leading, Type type);
  IRMapping loadParams();
  Value zeroOf(Type type);
  SmallVector<Value> loadInputs(const Row &row, Value token, bool predicated);
  SmallVector<Value> loadStates(Row &row);
  void storeOutput(unsigned i, const Row &row, Value token, Value value);
  void storeStates(ValueRange states, Value slot);
  SmallVector<Value> stateIndices(Value slot);
  SmallVector<int64_t> stateAxes();
  LogicalResult emitTokens(Row &row, const IRMapping &params, ValueRange firstInputs);
  LogicalResult emitToken(Row &row, const IRMapping &params, scf::ForOp loop);
  void emitNullRow(const Row &row);

  linattn::OperatorOp op;
  const KernelTypes &types;
  const schedule::RecurrentPlan &plan;
  OpBuilder builder;
  Location loc = op.getLoc();
  StepLayouts layouts;
  OperatorArguments where;
  tile::KernelOp kernel;
  Value row, valueHead, keyHead, firstColumn;
  LogicalResult result = success();
};

void RecurrentKernel::emitPlacement() {
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
  keyHead = valueHead;
  if (where.headReciprocal) {
    // In 32 bits, as offsets take it (Row::index); a ratio of one has the reciprocal 2^32.
    Value reciprocal = arith::TruncIOp::create(builder, loc, builder.getI32Type(),
                                               argument(*where.headReciprocal));
    auto toI64 = [&](Value number) {
      return arith::ExtUIOp::create(builder, loc, builder.getI64Type(), number);
    };
    Value head = toI32(valueHead);
    Value product = arith::MulIOp::create(builder, loc, toI64(head), toI64(reciprocal));
    Value high = arith::ShRUIOp::create(
        builder, loc, product, arith::ConstantIntOp::create(builder, loc, 32, /*width=*/64));
    Value quotient = arith::TruncIOp::create(builder, loc, builder.getI32Type(), high);
    Value isOne = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, reciprocal, i32(0));
    keyHead = toIndex(arith::SelectOp::create(builder, loc, isOne, head, quotient));
  }
}

Value RecurrentKernel::toF32(Value value) {
  Type element = getElementTypeOrSelf(value.getType());
  if (element.isF32())
    return value;
  Type to = builder.getF32Type();
  if (auto tensor = dyn_cast<RankedTensorType>(value.getType()))
    to = tensor.clone(builder.getF32Type());
  return arith::ExtFOp::create(builder, loc, to, value);
}

Value RecurrentKernel::fromF32(Value value, Type element) {
  if (element.isF32())
    return value;
  Type to = element;
  if (auto tensor = dyn_cast<RankedTensorType>(value.getType()))
    to = tensor.clone(element);
  return arith::TruncFOp::create(builder, loc, to, value);
}

/// The axes of a linattn value in memory follow `leading`; the value axis starts at the block's
/// first column.
RecurrentKernel::Access RecurrentKernel::access(ArrayRef<Value> leading, Type type) {
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

Value RecurrentKernel::load(Value memory, ArrayRef<Value> leading, Type type) {
  Access at = access(leading, type);
  if (at.axes.empty())
    return memref::LoadOp::create(builder, loc, memory, at.indices);
  Type result = layouts.place(type, cast<MemRefType>(memory.getType()).getElementType());
  return tile::LoadOp::create(builder, loc, result, memory, at.indices, at.axes,
                              builder.getDenseBoolArrayAttr(at.inBounds));
}

IRMapping RecurrentKernel::loadParams() {
  IRMapping params;
  for (auto [param, i] : llvm::zip(op.getParams(), where.params))
    params.map(param, linattn::axisOf(param.getType())
                          ? load(argument(i), head(param.getType()), param.getType())
                          : argument(i));
  return params;
}

Value RecurrentKernel::zeroOf(Type type) {
  Value zero =
      arith::ConstantOp::create(builder, loc, builder.getFloatAttr(getElementTypeOrSelf(type), 0));
  return isa<RankedTensorType>(type) ? tile::SplatOp::create(builder, loc, type, zero) : zero;
}

/// In their storage types; zeros where the row has no such token.
SmallVector<Value> RecurrentKernel::loadInputs(const Row &row, Value token, bool predicated) {
  SmallVector<Type> types;
  for (auto [input, i] : llvm::zip(op.getInputs(), where.inputs))
    types.push_back(
        layouts.place(input.getType(), cast<MemRefType>(argument(i).getType()).getElementType()));
  if (types.empty())
    return {};
  Value exists = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, token, row.end);
  Value place = toIndex(token);
  auto branch = scf::IfOp::create(builder, loc, types, exists, /*withElseRegion=*/true);
  if (predicated)
    branch->setAttr(tile::kPredicatedAttrName, builder.getUnitAttr());
  OpBuilder::InsertionGuard guard(builder);
  SmallVector<Value> values, zeros;
  builder.setInsertionPointToStart(branch.thenBlock());
  for (auto [input, i] : llvm::zip(op.getInputs(), where.inputs))
    values.push_back(load(argument(i), {row.batch, place, head(input.getType())}, input.getType()));
  scf::YieldOp::create(builder, loc, values);
  builder.setInsertionPointToStart(branch.elseBlock());
  for (Type type : types)
    zeros.push_back(zeroOf(type));
  scf::YieldOp::create(builder, loc, zeros);
  return branch.getResults();
}

SmallVector<Value> RecurrentKernel::stateIndices(Value slot) {
  SmallVector<Value> indices{slot, valueHead, index(0), firstColumn};
  if (types.layout == schedule::StateLayout::VK)
    std::swap(indices[2], indices[3]);
  return indices;
}

SmallVector<int64_t> RecurrentKernel::stateAxes() {
  return types.layout == schedule::StateLayout::VK ? SmallVector<int64_t>{3, 2}
                                                   : SmallVector<int64_t>{2, 3};
}

SmallVector<Value> RecurrentKernel::loadStates(Row &row) {
  SmallVector<Type> tiles(where.stateIn.size(), layouts.matrix(types.state));
  // A branch: filling this many registers with zeros for predicated loads costs more.
  auto branch = scf::IfOp::create(builder, loc, tiles, row.isFresh(), /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(builder, loc, SmallVector<Value>(tiles.size(), zeroOf(tiles.front())));
    builder.setInsertionPointToStart(branch.elseBlock());
    SmallVector<Value> stored;
    for (unsigned i : where.stateIn)
      stored.push_back(tile::LoadOp::create(builder, loc, tiles.front(), argument(i),
                                            stateIndices(row.source()), stateAxes(),
                                            builder.getDenseBoolArrayAttr({true, wholeTiles()})));
    scf::YieldOp::create(builder, loc, stored);
  }
  SmallVector<Value> states;
  for (Value state : branch.getResults())
    states.push_back(toF32(state));
  return states;
}

void RecurrentKernel::storeOutput(unsigned i, const Row &row, Value token, Value value) {
  Value memory = argument(where.outputs[i]);
  Type type = op.getOutputType(i);
  value = fromF32(value, cast<MemRefType>(memory.getType()).getElementType());
  Access at = access({row.batch, toIndex(token), head(type)}, type);
  if (at.axes.empty())
    memref::StoreOp::create(builder, loc, value, memory, at.indices);
  else
    tile::StoreOp::create(builder, loc, value, memory, at.indices, at.axes,
                          builder.getDenseBoolArrayAttr(at.inBounds));
}

void RecurrentKernel::storeStates(ValueRange states, Value slot) {
  for (auto [i, state] : llvm::zip(where.stateOut, states))
    tile::StoreOp::create(builder, loc, fromF32(state, types.state), argument(i),
                          stateIndices(slot), stateAxes(),
                          builder.getDenseBoolArrayAttr({true, wholeTiles()}));
}

LogicalResult RecurrentKernel::emitToken(Row &row, const IRMapping &params, scf::ForOp loop) {
  ValueRange carried = loop.getRegionIterArgs();
  ValueRange states = carried.take_front(where.stateIn.size()),
             inputs = carried.drop_front(where.stateIn.size());
  Value token = loop.getInductionVar(), next = arith::AddIOp::create(builder, loc, token, i32(1));
  StepEmitter emitter(builder, op, layouts);
  for (BlockArgument param : op.getParams()) {
    Value value = params.lookup(param);
    emitter.bind(param, linattn::axisOf(param.getType()) ? toF32(value) : value);
  }
  for (auto [input, value] : llvm::zip(op.getInputs(), inputs))
    emitter.bind(input, toF32(value));
  SmallVector<Value> yielded;
  auto store = [&](unsigned i, Value output) {
    storeOutput(i, row, token, output);
    // This token's inputs are needed no more: the next ones arrive while the state is updated.
    if (i + 1 == op.getNumOutputs())
      yielded = loadInputs(row, next, /*predicated=*/false);
  };
  FailureOr<SmallVector<Value>> after = emitter.emit(states, store);
  if (failed(after))
    return failure();
  row.ifKept(token, [&](Value slot) { storeStates(*after, slot); });
  yielded.insert(yielded.begin(), after->begin(), after->end());
  scf::YieldOp::create(builder, loc, yielded);
  return success();
}

LogicalResult RecurrentKernel::emitTokens(Row &row, const IRMapping &params,
                                          ValueRange firstInputs) {
  SmallVector<Value> carried = loadStates(row);
  llvm::append_range(carried, firstInputs);
  auto loop = scf::ForOp::create(builder, loc, row.first, row.end, i32(1), carried);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    if (failed(emitToken(row, params, loop)))
      return failure();
  }
  // While the state is on its way out the next grid may come in. Earlier, its blocks would be in
  // the way of this one's.
  if (types.startsEarly)
    tile::GridReleaseOp::create(builder, loc);
  Value keepsLast = arith::XOrIOp::create(builder, loc, row.keepsAll(),
                                          arith::ConstantIntOp::create(builder, loc, 1, 1));
  auto last = scf::IfOp::create(builder, loc, keepsLast, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(last.thenBlock());
  storeStates(loop.getResults().take_front(where.stateOut.size()), row.destination());
  return success();
}

void RecurrentKernel::emitNullRow(const Row &row) {
  auto loop = scf::ForOp::create(builder, loc, row.first, row.end, i32(1));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  for (unsigned i = 0; i < op.getNumOutputs(); ++i)
    storeOutput(i, row, loop.getInductionVar(),
                zeroOf(layouts.place(op.getOutputType(i), builder.getF32Type())));
}

void RecurrentKernel::emitRow() {
  Row numbers(builder, loc, kernel, where, row);
  IRMapping params = loadParams();
  SmallVector<Value> inputs = loadInputs(numbers, numbers.first, /*predicated=*/true);
  auto branch = scf::IfOp::create(builder, loc, numbers.isActive(), /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  result = emitTokens(numbers, params, inputs);
  builder.setInsertionPointToStart(branch.elseBlock());
  emitNullRow(numbers);
}

/// The kernel's own arguments come last; a caller finds arguments by name.
static LogicalResult checkNames(linattn::OperatorOp op, ArrayRef<Attribute> arguments,
                                const OperatorArguments &where) {
  auto nameOf = [](Attribute argument) {
    return cast<DictionaryAttr>(argument).getAs<StringAttr>("tile.name");
  };
  ArrayRef<Attribute> own = arguments.drop_front(where.sourceSlots);
  for (Attribute argument : arguments.take_front(where.sourceSlots))
    if (llvm::is_contained(llvm::map_range(own, nameOf), nameOf(argument)))
      return op.emitOpError("expected other names than those of the kernel's own arguments, got ")
             << nameOf(argument);
  return success();
}

LogicalResult RecurrentKernel::emit() {
  KernelArguments arguments(builder);
  where = addOperatorArguments(arguments, op, types);
  if (failed(checkNames(op, arguments.getAttributes(), where)))
    return failure();
  int64_t tiles = plan.tiles(types.valueDim);
  Attribute rows[] = {arguments.symbol("N"), arguments.number(kRowsPerLayer)};
  auto grid = builder.getArrayAttr(
      {tiles == 1 ? arguments.symbol("HV")
                  : arguments.expression("mul", {arguments.symbol("HV"), arguments.number(tiles)}),
       arguments.expression("min", rows), arguments.expression("ceildiv", rows)});
  kernel = tile::KernelOp::create(builder, loc, (op.getSymName() + "_decode").str(),
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
  emitPlacement();
  Value inBatch =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, row, argument(where.rows));
  auto branch = scf::IfOp::create(builder, loc, inBatch, /*withElseRegion=*/false);
  tile::ReturnOp::create(builder, loc);
  builder.setInsertionPointToStart(branch.thenBlock());
  // As late as can be: places and addresses are worked out while the grid before this one ends.
  if (types.startsEarly)
    tile::GridWaitOp::create(builder, loc);
  emitRow();
  if (failed(result)) {
    kernel.erase();
    return failure();
  }
  op.erase();
  return success();
}

struct ScheduleRecurrent : dl::impl::ScheduleRecurrentBase<ScheduleRecurrent> {
  using ScheduleRecurrentBase::ScheduleRecurrentBase;
  friend struct dl::ScheduleOptions;

  LogicalResult schedule(linattn::OperatorOp op) {
    ScheduleOptions options = ScheduleOptions::of(*this);
    FailureOr<KernelTypes> types = parseKernelTypes(op, options);
    if (failed(types))
      return failure();
    FailureOr<dl::schedule::RecurrentPlan> plan = planKernel(op, *types, options);
    if (failed(plan))
      return failure();
    return RecurrentKernel(op, *types, *plan).emit();
  }

  void runOnOperation() override {
    for (linattn::OperatorOp op :
         llvm::make_early_inc_range(getOperation().getOps<linattn::OperatorOp>()))
      if (failed(schedule(op)))
        return signalPassFailure();
  }
};

} // namespace
