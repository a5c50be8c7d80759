//===- Recurrent.cpp - Token by token with the state in registers ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   linattn.operator @op   ->   tile.kernel @op_decode
//
// Block (x, y) = (value head and tile of V, row):
//
//   src, dst = slots of the row
//   if neither is null:
//     S = load state tile
//     for each token: inputs -> StepEmitter -> outputs; S = new state
//     store S
//   else: outputs = 0
//
// The state is loaded before anything else of the token, so that its latency covers the token-local
// maths.
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
#include "passes/LinAttnToTile/StepEmitter.h"

using namespace mlir;
using namespace dl;
using linattn::Axis;

namespace dl {
#define GEN_PASS_DEF_SCHEDULERECURRENT
#include "passes/LinAttnToTile/Passes.h.inc"
} // namespace dl

namespace {

tile::BlockedAttr toAttr(MLIRContext *context, const layout::BlockedParams &params) {
  SmallVector<int64_t> order(params.order.begin(), params.order.end());
  return tile::BlockedAttr::get(context, params.perThread, params.lanes, params.warps, order,
                                params.numWarps);
}

bool sumsAlongValue(linattn::OperatorOp op) {
  WalkResult walk = op.walk([](linattn::ReduceOp reduce) {
    Axis axis = *linattn::axisOf(reduce->getOperand(0).getType());
    return axis == Axis::Key ? WalkResult::advance() : WalkResult::interrupt();
  });
  return walk.wasInterrupted();
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
  Value toIndex(Value integer) {
    return arith::IndexCastOp::create(builder, loc, builder.getIndexType(), integer);
  }
  Value argument(unsigned i) { return kernel.getBody().getArgument(i); }
  Value head(Type type) {
    return *linattn::groupOf(type) == linattn::HeadGroup::KeyHead ? keyHead : valueHead;
  }
  bool wholeTiles() { return types.valueDim % plan.valueTile == 0; }

  void emitPlacement();
  Value emitActive(Value source, Value destination);
  Value load(Value memory, ArrayRef<Value> leading, Type type);
  Value toF32(Value value);
  Value fromF32(Value value, Type element);
  struct Access {
    SmallVector<Value> indices;
    SmallVector<int64_t> axes;
    SmallVector<bool> inBounds;
  };
  Access access(ArrayRef<Value> leading, Type type);
  void storeOutput(unsigned i, Value token, Value value);
  SmallVector<Value> stateIndices(Value slot);
  LogicalResult emitTokens(Value source, Value destination);
  void emitNullRow();

  linattn::OperatorOp op;
  const KernelTypes &types;
  const schedule::RecurrentPlan &plan;
  OpBuilder builder;
  Location loc = op.getLoc();
  StepLayouts layouts;
  OperatorArguments where;
  tile::KernelOp kernel;
  Value row, valueHead, keyHead, firstColumn;
};

void RecurrentKernel::emitPlacement() {
  Value x = gpu::BlockIdOp::create(builder, loc, gpu::Dimension::x);
  row = gpu::BlockIdOp::create(builder, loc, gpu::Dimension::y);
  int64_t tiles = plan.tiles(types.valueDim);
  valueHead = x;
  firstColumn = index(0);
  if (tiles > 1) {
    valueHead = arith::DivUIOp::create(builder, loc, x, index(tiles));
    Value tile = arith::RemUIOp::create(builder, loc, x, index(tiles));
    firstColumn = arith::MulIOp::create(builder, loc, tile, index(plan.valueTile));
  }
}

Value RecurrentKernel::emitActive(Value source, Value destination) {
  Value first =
      arith::ExtSIOp::create(builder, loc, builder.getI64Type(), argument(where.firstSlot));
  auto notNull = [&](Value slot) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, slot, first);
  };
  Value readable = notNull(source);
  return arith::AndIOp::create(builder, loc, readable, notNull(destination));
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
    return toF32(memref::LoadOp::create(builder, loc, memory, at.indices));
  Type result = layouts.place(type, cast<MemRefType>(memory.getType()).getElementType());
  return toF32(tile::LoadOp::create(builder, loc, result, memory, at.indices, at.axes,
                                    builder.getDenseBoolArrayAttr(at.inBounds)));
}

void RecurrentKernel::storeOutput(unsigned i, Value token, Value value) {
  Value memory = argument(where.outputs[i]);
  Type type = op.getOutputType(i);
  value = fromF32(value, cast<MemRefType>(memory.getType()).getElementType());
  Access at = access({row, token, head(type)}, type);
  if (at.axes.empty())
    memref::StoreOp::create(builder, loc, value, memory, at.indices);
  else
    tile::StoreOp::create(builder, loc, value, memory, at.indices, at.axes,
                          builder.getDenseBoolArrayAttr(at.inBounds));
}

SmallVector<Value> RecurrentKernel::stateIndices(Value slot) {
  SmallVector<Value> indices{toIndex(slot), valueHead, index(0), firstColumn};
  if (types.layout == schedule::StateLayout::VK)
    std::swap(indices[2], indices[3]);
  return indices;
}

LogicalResult RecurrentKernel::emitTokens(Value source, Value destination) {
  SmallVector<int64_t> axes{2, 3};
  if (types.layout == schedule::StateLayout::VK)
    std::swap(axes[0], axes[1]);
  auto inBounds = builder.getDenseBoolArrayAttr({true, wholeTiles()});
  SmallVector<Value> states;
  for (unsigned i : where.stateIn)
    states.push_back(
        toF32(tile::LoadOp::create(builder, loc, layouts.matrix(types.state), argument(i),
                                   stateIndices(source), axes, inBounds)));
  IRMapping params;
  for (auto [param, i] : llvm::zip(op.getParams(), where.params))
    params.map(param, linattn::axisOf(param.getType())
                          ? load(argument(i), head(param.getType()), param.getType())
                          : argument(i));
  auto loop =
      scf::ForOp::create(builder, loc, index(0), toIndex(argument(where.tokens)), index(1), states);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    Value token = loop.getInductionVar();
    StepEmitter emitter(builder, op, layouts);
    for (BlockArgument param : op.getParams())
      emitter.bind(param, params.lookup(param));
    for (auto [input, i] : llvm::zip(op.getInputs(), where.inputs))
      emitter.bind(input, load(argument(i), {row, token, head(input.getType())}, input.getType()));
    auto store = [&](unsigned i, Value output) { storeOutput(i, token, output); };
    FailureOr<SmallVector<Value>> next = emitter.emit(loop.getRegionIterArgs(), store);
    if (failed(next))
      return failure();
    scf::YieldOp::create(builder, loc, *next);
  }
  for (auto [i, state] : llvm::zip(where.stateOut, loop.getResults()))
    tile::StoreOp::create(builder, loc, fromF32(state, types.state), argument(i),
                          stateIndices(destination), axes, inBounds);
  return success();
}

void RecurrentKernel::emitNullRow() {
  auto loop = scf::ForOp::create(builder, loc, index(0), toIndex(argument(where.tokens)), index(1));
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  Value zero = arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0));
  for (unsigned i = 0; i < op.getNumOutputs(); ++i) {
    Type type = layouts.place(op.getOutputType(i), builder.getF32Type());
    Value value =
        isa<RankedTensorType>(type) ? tile::SplatOp::create(builder, loc, type, zero) : zero;
    storeOutput(i, loop.getInductionVar(), value);
  }
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
  auto grid = builder.getArrayAttr(
      {tiles == 1 ? arguments.symbol("HV")
                  : arguments.expression("mul", {arguments.symbol("HV"), arguments.number(tiles)}),
       arguments.symbol("B"), arguments.number(1)});
  kernel = tile::KernelOp::create(builder, loc, (op.getSymName() + "_decode").str(),
                                  builder.getFunctionType(arguments.getTypes(), {}),
                                  plan.warps * 32, grid, plan.minBlocks, /*max_registers=*/0,
                                  builder.getArrayAttr(arguments.getAttributes()), ArrayAttr());
  int64_t stateBytes =
      types.keyDim * plan.valueTile * static_cast<int64_t>(sizeof(float) * op.getNumStates());
  kernel->setAttr(kStateBytesAttrName, builder.getI64IntegerAttr(stateBytes));
  kernel->setAttr(kKeyWarpsAttrName, builder.getI64IntegerAttr(plan.state.warps[0]));
  Block *entry = &kernel.getBody().emplaceBlock();
  for (Type type : arguments.getTypes())
    entry->addArgument(type, loc);
  builder.setInsertionPointToStart(entry);
  emitPlacement();
  auto slot = [&](unsigned i) { return tile::SlotOp::create(builder, loc, argument(i), row); };
  Value source = slot(where.sourceSlots), destination = slot(where.destinationSlots);
  keyHead = valueHead;
  if (where.headRatio) {
    // Done while the slots are on their way. In 32 bits: a wide division would be a branch.
    Value head = arith::IndexCastOp::create(builder, loc, builder.getI32Type(), valueHead);
    head = arith::DivUIOp::create(builder, loc, head, argument(*where.headRatio));
    keyHead = arith::IndexCastUIOp::create(builder, loc, builder.getIndexType(), head);
  }
  auto branch =
      scf::IfOp::create(builder, loc, emitActive(source, destination), /*withElseRegion=*/true);
  tile::ReturnOp::create(builder, loc);
  builder.setInsertionPointToStart(branch.thenBlock());
  if (failed(emitTokens(source, destination))) {
    kernel.erase();
    return failure();
  }
  builder.setInsertionPointToStart(branch.elseBlock());
  emitNullRow();
  op.erase();
  return success();
}

FailureOr<Type> parseFloatType(Operation *at, StringRef option, StringRef name) {
  Builder builder(at->getContext());
  if (name == "f32")
    return Type(builder.getF32Type());
  if (name == "bf16")
    return Type(builder.getBF16Type());
  if (name == "f16")
    return Type(builder.getF16Type());
  at->emitError() << option << ": expected f32, bf16 or f16, got '" << name << "'";
  return failure();
}

struct ScheduleRecurrent : dl::impl::ScheduleRecurrentBase<ScheduleRecurrent> {
  using ScheduleRecurrentBase::ScheduleRecurrentBase;

  LogicalResult schedule(linattn::OperatorOp op) {
    FailureOr<Type> state = parseFloatType(op, "state-type", stateType),
                    io = parseFloatType(op, "io-type", ioType);
    if (failed(state) || failed(io))
      return failure();
    if (stateLayout != "kv" && stateLayout != "vk")
      return op.emitError() << "state-layout: expected kv or vk, got '" << stateLayout << "'";
    KernelTypes types{keyDim, valueDim,
                      stateLayout == "kv" ? schedule::StateLayout::KV : schedule::StateLayout::VK,
                      *state, *io};
    dl::schedule::RecurrentProblem problem;
    problem.keyDim = keyDim;
    problem.valueDim = valueDim;
    problem.layout = types.layout;
    problem.canSplitValue = !sumsAlongValue(op);
    llvm::Expected<dl::schedule::RecurrentPlan> plan =
        dl::schedule::planRecurrent(problem, {valueTile, keyLanes, keyWarps, minBlocks});
    if (!plan)
      return op.emitError() << llvm::toString(plan.takeError());
    return RecurrentKernel(op, types, *plan).emit();
  }

  void runOnOperation() override {
    for (linattn::OperatorOp op :
         llvm::make_early_inc_range(getOperation().getOps<linattn::OperatorOp>()))
      if (failed(schedule(op)))
        return signalPassFailure();
  }
};

} // namespace
