//===- Chunkwise.cpp - Chunks of tokens by matrix products ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   linattn.operator @op   ->   tile.kernel @op_prefill
//
// Block (x, y, z) = (value head and tile of V, row in a layer, layer of rows):
//
//   slots and tokens of the row (Row.h); params
//   if it is not null:
//     S = state tile of its slot, transposed, or zeros
//     for each C tokens: inputs -> ChunkEmitter -> outputs, S = new state
//     store S
//   else: outputs = 0
//
//===----------------------------------------------------------------------===//

#include "dialects/LinAttn/IR/LinAttn.h"
#include "dialects/Tile/IR/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/LinAttnToTile/BlockEmitter.h"
#include "passes/LinAttnToTile/ChunkEmitter.h"
#include "passes/LinAttnToTile/Passes.h"
#include "passes/LinAttnToTile/Row.h"
#include "passes/LinAttnToTile/ScheduleOptions.h"

using namespace mlir;
using namespace dl;
using linattn::Axis;

namespace dl {
#define GEN_PASS_DEF_SCHEDULECHUNKWISE
#include "passes/LinAttnToTile/Passes.h.inc"
} // namespace dl

namespace {

/// Emits the kernel of one operator.
class ChunkKernel : BlockEmitter {
public:
  ChunkKernel(linattn::OperatorOp op, const analysis::StepAnalysis &step, const KernelTypes &types,
              const schedule::ChunkPlan &chunks)
      : BlockEmitter(op, types, chunks.block), step(step),
        places(op.getContext(), chunks, types.keyDim) {}
  LogicalResult emit();

private:
  void emitRow();
  LogicalResult emitTokens(Row &row);
  LogicalResult emitChunk(Row &row, const IRMapping &params, scf::ForOp loop);
  IRMapping loadParamsOfChunk();
  Value loadInput(unsigned i, Value batch, Value token, Value count);
  void storeOutputTile(unsigned i, Value batch, Value token, Value count, Value value);
  Value loadState(Row &row);
  void storeState(Value state, Value slot);
  SmallVector<Value> stateIndicesOf(Value slot);

  const analysis::StepAnalysis &step;
  ChunkLayouts places;
  OperatorArguments where;
  LogicalResult result = success();
};

/// Per head once, as the chunk needs them: repeated for each of its tokens.
IRMapping ChunkKernel::loadParamsOfChunk() {
  IRMapping params;
  Type f32 = builder.getF32Type();
  for (auto [param, i] : llvm::zip(op.getParams(), where.params)) {
    std::optional<Axis> axis = linattn::axisOf(param.getType());
    if (!axis) {
      params.map(param, argument(i));
      continue;
    }
    Value memory = argument(i), place = head(param.getType());
    Type element = elementOf(i);
    if (*axis == Axis::Scalar) {
      Value number = toF32(memref::LoadOp::create(builder, loc, memory, place));
      params.map(param, tile::SplatOp::create(builder, loc, places.tokens(f32), number));
      continue;
    }
    bool isKey = *axis == Axis::Key;
    Value first = isKey ? index(0) : firstColumn;
    Value vector = toF32(tile::LoadOp::create(
        builder, loc, isKey ? places.keys(element) : places.valueColumns(element), memory,
        ValueRange{place, first}, ArrayRef<int64_t>{1},
        builder.getDenseBoolArrayAttr({isKey || wholeTiles()}), /*count=*/Value()));
    RankedTensorType matrix = isKey ? places.tokenKeys(f32) : places.values(f32);
    params.map(param, tile::ExpandOp::create(builder, loc, matrix, vector, isKey ? 0 : 1));
  }
  return params;
}

/// An input of `count` tokens from `token` on, in f32; zeros behind them.
Value ChunkKernel::loadInput(unsigned i, Value batch, Value token, Value count) {
  BlockArgument input = op.getInputs()[i];
  Axis axis = *linattn::axisOf(input.getType());
  unsigned position = where.inputs[i];
  Value memory = argument(position);
  Type element = elementOf(position);
  SmallVector<Value> indices{batch, toIndex(token), head(input.getType())};
  auto load = [&](RankedTensorType type, ArrayRef<int64_t> axes, ArrayRef<bool> inBounds) -> Value {
    return tile::LoadOp::create(builder, loc, type, memory, indices, axes,
                                builder.getDenseBoolArrayAttr(inBounds), count);
  };
  if (axis == Axis::Scalar)
    return toF32(load(places.tokens(element), {1}, {false}));
  if (axis == Axis::Key) {
    indices.push_back(index(0));
    return toF32(load(places.tokenKeys(element), {1, 3}, {false, true}));
  }
  indices.push_back(firstColumn);
  Value moved = load(places.movedValues(element), {3, 1}, {wholeTiles(), false});
  return toF32(tile::ConvertOp::create(builder, loc, places.values(element), moved));
}

void ChunkKernel::storeOutputTile(unsigned i, Value batch, Value token, Value count, Value value) {
  unsigned position = where.outputs[i];
  Type element = elementOf(position);
  Value narrow = fromF32(value, element);
  Value moved = tile::ConvertOp::create(builder, loc, places.movedValues(element), narrow);
  SmallVector<Value> indices{batch, toIndex(token), head(op.getOutputType(i)), firstColumn};
  tile::StoreOp::create(builder, loc, moved, argument(position), indices, ArrayRef<int64_t>{3, 1},
                        builder.getDenseBoolArrayAttr({wholeTiles(), false}), count);
}

SmallVector<Value> ChunkKernel::stateIndicesOf(Value slot) {
  SmallVector<Value> indices{slot, valueHead, index(0), firstColumn};
  if (types.layout == schedule::StateLayout::VK)
    std::swap(indices[2], indices[3]);
  return indices;
}

/// Axes of the transposed tile in memory.
static SmallVector<int64_t> stateAxesOf(const KernelTypes &types) {
  return types.layout == schedule::StateLayout::VK ? SmallVector<int64_t>{2, 3}
                                                   : SmallVector<int64_t>{3, 2};
}

Value ChunkKernel::loadState(Row &row) {
  RankedTensorType type = places.state(types.state);
  auto branch = scf::IfOp::create(builder, loc, TypeRange(type), row.isFresh(),
                                  /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(builder, loc, zeroOf(type));
    builder.setInsertionPointToStart(branch.elseBlock());
    Value state = tile::LoadOp::create(builder, loc, type, argument(where.stateIn.front()),
                                       stateIndicesOf(row.source()), stateAxesOf(types),
                                       builder.getDenseBoolArrayAttr({wholeTiles(), true}),
                                       /*count=*/Value());
    scf::YieldOp::create(builder, loc, state);
  }
  return toF32(branch.getResult(0));
}

void ChunkKernel::storeState(Value state, Value slot) {
  tile::StoreOp::create(builder, loc, fromF32(state, types.state), argument(where.stateOut.front()),
                        stateIndicesOf(slot), stateAxesOf(types),
                        builder.getDenseBoolArrayAttr({wholeTiles(), true}), /*count=*/Value());
}

LogicalResult ChunkKernel::emitChunk(Row &row, const IRMapping &params, scf::ForOp loop) {
  Value token = loop.getInductionVar();
  Value left = arith::SubIOp::create(builder, loc, row.end, token);
  Value count = arith::MinSIOp::create(builder, loc, left, i32(places.chunk));
  ChunkEmitter emitter(builder, step, places);
  for (BlockArgument param : op.getParams())
    emitter.bind(param, params.lookup(param));
  for (auto [i, input] : llvm::enumerate(op.getInputs()))
    emitter.bind(input, loadInput(i, row.batch, token, count));
  auto store = [&](unsigned i, Value output) {
    storeOutputTile(i, row.batch, token, count, output);
  };
  FailureOr<Value> after = emitter.emit(loop.getRegionIterArg(0), count, store);
  if (failed(after))
    return failure();
  scf::YieldOp::create(builder, loc, *after);
  return success();
}

LogicalResult ChunkKernel::emitTokens(Row &row) {
  IRMapping params = loadParamsOfChunk();
  auto loop = scf::ForOp::create(builder, loc, row.first, row.end, i32(places.chunk),
                                 ValueRange(loadState(row)));
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(loop.getBody());
    if (failed(emitChunk(row, params, loop)))
      return failure();
  }
  storeState(loop.getResult(0), row.destination());
  return success();
}

void ChunkKernel::emitRow() {
  Row numbers(builder, loc, kernel, where, row);
  auto branch = scf::IfOp::create(builder, loc, numbers.isActive(), /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  result = emitTokens(numbers);
  builder.setInsertionPointToStart(branch.elseBlock());
  storeZeroOutputs(where.outputs, numbers.batch, numbers.first, numbers.end);
}

LogicalResult ChunkKernel::emit() {
  KernelArguments arguments(builder);
  where = addOperatorArguments(arguments, op, types);
  arguments.require(where.destinationWidth, arguments.symbol("dst_width"), "max", 1,
                    "a prefill keeps a row's last state: dst_slots must have one column");
  createKernel(arguments, "prefill");
  emitPlacement(where.headReciprocal);
  Value inBatch = compare(arith::CmpIPredicate::ult, row, argument(where.rows));
  auto branch = scf::IfOp::create(builder, loc, inBatch, /*withElseRegion=*/false);
  tile::ReturnOp::create(builder, loc);
  builder.setInsertionPointToStart(branch.thenBlock());
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

/// What the schedule is legal for and yet not served.
LogicalResult checkServed(analysis::StepAnalysis &step) {
  auto refuse = [](Operation *at, const Twine &text) {
    return at->emitOpError("has no chunkwise kernel yet: expected ") << text;
  };
  if (step.states.size() != 1)
    return refuse(step.op, "one state, got " + Twine(step.states.size()));
  if (step.writes.size() != 1)
    return refuse(step.writes.empty() ? step.op.getOperation() : step.writes[1].op.getOperation(),
                  "one write per token, got " + Twine(step.writes.size()));
  for (const analysis::Decay &decay : step.states.front().decays)
    if (decay.axis == Axis::Value)
      return refuse(decay.op, "decays of axis scalar or key, got value");
  WalkResult walk = WalkResult::advance();
  for (linattn::ReduceOp reduce : step.op.getBodyRegion().getOps<linattn::ReduceOp>())
    if (*linattn::axisOf(reduce->getOperand(0).getType()) != Axis::Key) {
      (void)refuse(reduce, "sums along key only");
      walk = WalkResult::interrupt();
    }
  return failure(walk.wasInterrupted());
}

struct ScheduleChunkwise : dl::impl::ScheduleChunkwiseBase<ScheduleChunkwise> {
  using ScheduleChunkwiseBase::ScheduleChunkwiseBase;
  friend struct dl::ScheduleOptions;

  LogicalResult schedule(linattn::OperatorOp op) {
    ScheduleOptions options = ScheduleOptions::of(*this);
    FailureOr<KernelTypes> types = parseKernelTypes(op, options);
    FailureOr<analysis::StepAnalysis> step = analysis::StepAnalysis::compute(op);
    if (failed(types) || failed(step) || failed(step->require(analysis::Schedule::Chunkwise)) ||
        failed(checkServed(*step)))
      return failure();
    dl::schedule::RecurrentProblem problem;
    problem.keyDim = types->keyDim;
    problem.valueDim = types->valueDim;
    llvm::Expected<dl::schedule::ChunkPlan> plan =
        dl::schedule::planChunkwise(problem, {chunk, valueTile, minBlocks});
    if (!plan)
      return op.emitError() << llvm::toString(plan.takeError());
    return ChunkKernel(op, *step, *types, *plan).emit();
  }

  void runOnOperation() override {
    for (linattn::OperatorOp op :
         llvm::make_early_inc_range(getOperation().getOps<linattn::OperatorOp>()))
      if (failed(schedule(op)))
        return signalPassFailure();
  }
};

} // namespace
