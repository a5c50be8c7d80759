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

#include "dialects/LinAttn/IR/LinAttn.h"
#include "dialects/Tile/IR/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/LinAttnToTile/BlockEmitter.h"
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

/// Emits the kernel of one operator.
class RecurrentKernel : BlockEmitter {
public:
  using BlockEmitter::BlockEmitter;
  LogicalResult emit();

private:
  void emitRow();
  LogicalResult emitTokens(Row &row, const IRMapping &params, ValueRange firstInputs);
  LogicalResult emitToken(Row &row, const IRMapping &params, scf::ForOp loop);

  OperatorArguments where;
  LogicalResult result = success();
};

LogicalResult RecurrentKernel::emitToken(Row &row, const IRMapping &params, scf::ForOp loop) {
  ValueRange carried = loop.getRegionIterArgs();
  ValueRange states = carried.take_front(where.stateIn.size()),
             inputs = carried.drop_front(where.stateIn.size());
  Value token = loop.getInductionVar(), next = arith::AddIOp::create(builder, loc, token, i32(1));
  StepEmitter emitter(builder, op, layouts);
  bindParams(emitter, params);
  for (auto [input, value] : llvm::zip(op.getInputs(), inputs))
    emitter.bind(input, toF32(value));
  SmallVector<Value> yielded;
  auto store = [&](unsigned i, Value output) {
    storeOutput(where.outputs, i, row.batch, token, output);
    // This token's inputs are needed no more: the next ones arrive while the state is updated.
    if (i + 1 == op.getNumOutputs())
      yielded = loadInputs(where.inputs, row.batch, next, row.end, /*predicated=*/false);
  };
  FailureOr<SmallVector<Value>> after = emitter.emit(states, store);
  if (failed(after))
    return failure();
  row.ifKept(token, [&](Value slot) { storeStates(where.stateOut, *after, slot); });
  yielded.insert(yielded.begin(), after->begin(), after->end());
  scf::YieldOp::create(builder, loc, yielded);
  return success();
}

LogicalResult RecurrentKernel::emitTokens(Row &row, const IRMapping &params,
                                          ValueRange firstInputs) {
  SmallVector<Value> carried =
      loadStatesUnless(row.isFresh(), where.stateIn, [&] { return row.source(); });
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
  storeStates(where.stateOut, loop.getResults().take_front(where.stateOut.size()),
              row.destination());
  return success();
}

void RecurrentKernel::emitRow() {
  Row numbers(builder, loc, kernel, where, row);
  IRMapping params = loadParams(where.params);
  SmallVector<Value> inputs =
      loadInputs(where.inputs, numbers.batch, numbers.first, numbers.end, /*predicated=*/true);
  auto branch = scf::IfOp::create(builder, loc, numbers.isActive(), /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  result = emitTokens(numbers, params, inputs);
  builder.setInsertionPointToStart(branch.elseBlock());
  storeZeroOutputs(where.outputs, numbers.batch, numbers.first, numbers.end);
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
  createKernel(arguments, "decode");
  emitPlacement(where.headReciprocal);
  Value inBatch = compare(arith::CmpIPredicate::ult, row, argument(where.rows));
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
