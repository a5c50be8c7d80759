//===- Kernel.cpp - Function, arguments, control flow ---------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   tile.kernel @k(...)   ->   llvm.func @k(params, block, scratch) -> i32
//
// Ops are lowered in program order, each for all threads before the next. Elementwise ops wait in
// groups (Elementwise.cpp) until an op of another kind needs their results. Loops and branches keep
// their scalar operands and results; a tensor carried around a loop has one buffer that yields
// write, a tensor from a branch one buffer that both sides write.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "passes/TileToCPU/Lowering.h"
#include "passes/TileToCPU/Passes.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace dl::tile;

namespace dl {
#define GEN_PASS_DEF_CONVERTTILETOCPU
#include "passes/TileToCPU/Passes.h.inc"
} // namespace dl

//===----------------------------------------------------------------------===//
// Function and arguments
//===----------------------------------------------------------------------===//

LogicalResult LaneLowering::run() {
  emitFunction();
  emitCounters();
  if (failed(lowerBlock(kernel.getBody().front()))) {
    function.erase();
    return failure();
  }
  host->loc = kernel.getLoc();
  LLVM::ReturnOp::create(*host, host->loc, emitResult());
  function->setAttr(kScratchBytesAttrName, host->getI64IntegerAttr(arena.getBytes()));
  return success();
}

void LaneLowering::emitFunction() {
  MLIRContext *context = kernel.getContext();
  OpBuilder builder(kernel);
  auto pointer = LLVM::LLVMPointerType::get(context);
  auto type = LLVM::LLVMFunctionType::get(builder.getI32Type(), {pointer, pointer, pointer});
  function = LLVM::LLVMFuncOp::create(builder, kernel.getLoc(), kernel.getSymName(), type);
  Block *entry = function.addEntryBlock(builder);
  host.emplace(kernel.getLoc(), entry);
  block = entry->getArgument(1);
  scratch = entry->getArgument(2);
  // Nothing else points into the parameters or the scratch memory.
  for (unsigned i : {0, 2})
    function.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(), builder.getUnitAttr());
  function.setArgAttr(2, LLVM::LLVMDialect::getAlignAttrName(), builder.getI64IntegerAttr(64));
  emitArguments(entry->getArgument(0));
}

void LaneLowering::emitArguments(Value parameters) {
  ParameterLayout layout = getParameterLayout(kernel.getArgumentTypes());
  auto parameter = [&](int64_t offset, Type type) {
    return host->load(host->bytes(parameters, offset), type);
  };
  for (auto [argument, slot] : llvm::zip(kernel.getBody().getArguments(), layout.slots)) {
    auto memref = dyn_cast<MemRefType>(argument.getType());
    if (!memref) {
      scalars.map(argument, parameter(slot.offset, argument.getType()));
      continue;
    }
    View view;
    view.type = memref;
    view.pointer = parameter(slot.offset, parameters.getType());
    for (auto [stride, offset] : llvm::zip(memref.getStridesAndOffset().first, slot.strides)) {
      if (offset < 0)
        view.strides.push_back(host->i64(stride));
      else
        view.strides.push_back(arith::ExtUIOp::create(*host, host->loc, host->getI64Type(),
                                                      parameter(offset, host->getI32Type())));
    }
    views[argument] = view;
  }
}

//===----------------------------------------------------------------------===//
// Ops in program order
//===----------------------------------------------------------------------===//

/// Memrefs come as arguments, shared buffers from tile.alloc and as parts of such: neither is
/// carried at run time.
static LogicalResult checkTypes(Operation &op) {
  for (Type type : op.getResultTypes())
    if (!type.isIntOrIndexOrFloat() && !isDistributed(type) &&
        !isa<AllocOp, StageOp, LocalPartOp, ArrivalsOp>(op))
      return op.emitOpError("expected results that are scalars or distributed tensors, got ")
             << type;
  return success();
}

LogicalResult LaneLowering::lowerBlock(Block &source) {
  for (Operation &op : source.without_terminator()) {
    host->loc = op.getLoc();
    if (failed(checkTypes(op)))
      return failure();
    if (isElementwise(&op)) {
      if (!isa<ExpandOp>(op) && failed(checkScalar(&op)))
        return failure();
      addToGroup(&op);
      continue;
    }
    if (failed(lower(&op)))
      return failure();
    finish(&op);
  }
  flushAll();
  return success();
}

LogicalResult LaneLowering::lower(Operation *op) {
  if (auto constant = dyn_cast<arith::ConstantOp>(op))
    return bindConstant(constant);
  if (auto splat = dyn_cast<SplatOp>(op)) {
    bind(splat.getResult(), {nullptr, scalars.lookup(splat.getScalar())});
    return success();
  }
  // Scalars do not depend on what waits in groups, so they may be emitted before it.
  if (!isa_and_nonnull<TileDialect, scf::SCFDialect>(op->getDialect()))
    return lowerScalar(op);
  flushAll();
  host->loc = op->getLoc();
  return lowerCrossLane(op);
}

LogicalResult LaneLowering::lowerCrossLane(Operation *op) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](scf::ForOp loop) { return lowerFor(loop); })
      .Case([&](scf::IfOp branch) { return lowerIf(branch); })
      .Case([&](LoadOp load) { return lowerLoad(load); })
      .Case([&](RingLoadOp load) { return lowerRingLoad(load); })
      .Case([&](StoreOp store) { return lowerStore(store); })
      .Case([&](IsPresentOp present) { return lowerIsPresent(present); })
      .Case<GridWaitOp, GridReleaseOp>([](auto) { return success(); }) // one grid after another
      .Case([&](StoreImageOp store) { return lowerStoreImage(store); })
      .Case([&](LocalPartOp part) { return lowerLocalPart(part); })
      .Case([&](AllocOp alloc) { return lowerAlloc(alloc); })
      .Case([&](StageOp stage) { return lowerStage(stage); })
      .Case([&](CopyAsyncOp copy) { return lowerCopyAsync(copy); })
      .Case<CopyCommitOp, CopyWaitOp>([](auto) { return success(); })
      .Case([](ArrivalsOp) { return success(); }) // emitCounters
      .Case([&](CopyBulkOp copy) { return lowerCopyBulk(copy); })
      .Case([&](AwaitOp await) { return lowerAwait(await); })
      .Case([&](LocalStoreOp store) { return lowerLocalStore(store); })
      .Case([&](LocalLoadOp load) { return lowerLocalLoad(load); })
      .Case([&](ConvertOp op) {
        return convert(op.getValue(), op.getResult(), /*transposed=*/false), success();
      })
      .Case([&](TransposeOp op) {
        return convert(op.getValue(), op.getResult(), /*transposed=*/true), success();
      })
      .Case([&](InterleaveOp op) { return lowerInterleave(op), success(); })
      .Case([&](PickOp op) { return lowerPick(op), success(); })
      .Case([&](CoordinateOp coordinate) { return lowerCoordinate(coordinate); })
      .Case([&](InsertOp insert) { return lowerInsert(insert); })
      .Case([&](ReduceOp reduce) { return lowerReduce(reduce); })
      .Case([&](ScanOp scan) { return lowerScan(scan); })
      .Case([&](DotOp dot) { return lowerDot(dot); })
      .Case([&](RankUpdateOp update) { return lowerRankUpdate(update); })
      .Case([&](MmaOp mma) { return lowerMma(mma); })
      .Case([&](InvertUnitLowerOp invert) { return lowerInvert(invert); })
      .Case([&](GramOp gram) { return lowerGram(gram); })
      .Case([&](BarrierOp) { return success(); }) // all threads have finished what is before it
      .Default([](Operation *other) { return hasNoMeaning(other); });
}

LogicalResult LaneLowering::bindConstant(arith::ConstantOp op) {
  if (!isDistributed(op.getType())) {
    scalars.map(op.getResult(), host->elementConstant(op.getValue()));
    return success();
  }
  auto splat = dyn_cast<SplatElementsAttr>(op.getValue());
  if (!splat)
    return op.emitOpError("expected one value for all elements of a distributed constant");
  bind(op.getResult(),
       {nullptr, host->elementConstant(cast<TypedAttr>(splat.getSplatValue<Attribute>()))});
  return success();
}

LogicalResult LaneLowering::lowerScalar(Operation *op) {
  if (auto id = dyn_cast<gpu::BlockIdOp>(op)) {
    Value place = host->bytes(block, 4 * static_cast<int64_t>(id.getDimension()));
    Value index = host->load(place, host->getI32Type());
    scalars.map(id.getResult(),
                arith::IndexCastUIOp::create(*host, host->loc, host->getIndexType(), index));
    return success();
  }
  SmallVector<Value> operands;
  if (isa<memref::LoadOp, memref::StoreOp>(op)) {
    lowerScalarAccess(op);
    return success();
  }
  if (failed(checkScalar(op)))
    return failure();
  for (Value operand : op->getOperands())
    operands.push_back(scalars.lookup(operand));
  scalars.map(op->getResult(0), cloneScalar(op, operands));
  return success();
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

LogicalResult LaneLowering::lowerFor(scf::ForOp loop) {
  SmallVector<Arena::Buffer *> carried;
  SmallVector<Value> init;
  for (Value value : loop.getInitArgs()) {
    carried.push_back(nullptr);
    if (isDistributed(value.getType()))
      carried.back() = copyOf(value);
    else
      init.push_back(scalars.lookup(value));
  }
  auto lowered = scf::ForOp::create(*host, loop.getLoc(), scalars.lookup(loop.getLowerBound()),
                                    scalars.lookup(loop.getUpperBound()),
                                    scalars.lookup(loop.getStep()), init);
  {
    OpBuilder::InsertionGuard guard(*host);
    host->setInsertionPointToStart(lowered.getBody());
    scalars.map(loop.getInductionVar(), lowered.getInductionVar());
    bindCarried(loop.getRegionIterArgs(), lowered.getRegionIterArgs(), carried);
    if (failed(lowerBlock(*loop.getBody())))
      return failure();
    lowerYield(loop.getBody()->getTerminator(), carried, *lowered.getBody());
  }
  bindCarried(loop.getResults(), lowered.getResults(), carried);
  for (Arena::Buffer *buffer : carried)
    if (buffer)
      arena.release(buffer);
  return success();
}

LogicalResult LaneLowering::lowerIf(scf::IfOp branch) {
  SmallVector<Arena::Buffer *> results;
  SmallVector<Type> types;
  for (Type type : branch.getResultTypes()) {
    results.push_back(nullptr);
    if (isDistributed(type))
      results.back() = allocate(cast<RankedTensorType>(type));
    else
      types.push_back(host->stored(type));
  }
  auto lowered =
      scf::IfOp::create(*host, branch.getLoc(), types, scalars.lookup(branch.getCondition()),
                        /*addThenBlock=*/true, /*addElseBlock=*/branch.elseBlock() != nullptr);
  for (auto [from, to] : {std::pair(branch.thenBlock(), lowered.thenBlock()),
                          std::pair(branch.elseBlock(), lowered.elseBlock())}) {
    if (!from)
      continue;
    OpBuilder::InsertionGuard guard(*host);
    host->setInsertionPointToStart(to);
    if (failed(lowerBlock(*from)))
      return failure();
    lowerYield(from->getTerminator(), results, *to);
  }
  bindCarried(branch.getResults(), lowered.getResults(), results);
  for (Arena::Buffer *buffer : results)
    if (buffer)
      arena.release(buffer);
  return success();
}

/// Tensors are in their buffers, scalars are the lowered op's in order.
void LaneLowering::bindCarried(ValueRange values, ValueRange lowered,
                               ArrayRef<Arena::Buffer *> buffers) {
  for (auto [value, buffer] : llvm::zip(values, buffers)) {
    if (buffer) {
      arena.retain(buffer);
      bind(value, {buffer, {}});
      releaseIfUnused(value);
    } else {
      scalars.map(value, lowered.front());
      lowered = lowered.drop_front();
    }
  }
}

/// Writes the yielded tensors to their buffers, as if all at once, and yields the scalars.
void LaneLowering::lowerYield(Operation *yield, ArrayRef<Arena::Buffer *> targets, Block &to) {
  host->loc = yield->getLoc();
  SmallVector<std::pair<Arena::Buffer *, Arena::Buffer *>> moves; // target, source
  SmallVector<Value> plain;
  for (auto [operand, target] : llvm::zip(yield->getOperands(), targets)) {
    if (!target) {
      plain.push_back(scalars.lookup(operand));
      continue;
    }
    // A source that is itself a target must be read before it is written.
    Arena::Buffer *source = materialize(operand);
    if (source != target && llvm::is_contained(targets, source)) {
      arena.release(source);
      source = copyOf(operand);
    }
    moves.push_back({target, source});
  }
  for (auto [target, source] : moves) {
    if (target != source)
      copy(target, source);
    arena.release(source);
  }
  finish(yield);
  host->setInsertionPointToEnd(&to);
  if (!to.mightHaveTerminator())
    scf::YieldOp::create(*host, host->loc, plain);
}

//===----------------------------------------------------------------------===//
// Uses
//===----------------------------------------------------------------------===//

/// A user inside a loop or branch counts as the op around it that shares the value's block.
void LaneLowering::countUses(Value value) {
  llvm::SmallPtrSet<Operation *, 8> users;
  for (Operation *user : value.getUsers())
    users.insert(value.getParentBlock()->findAncestorOpInBlock(*user));
  remainingUses[value] = users.size();
}

void LaneLowering::finish(Operation *op) {
  llvm::SmallSetVector<Value, 8> used;
  op->walk([&](Operation *nested) {
    for (Value operand : nested->getOperands())
      if (places.count(operand) && operand.getParentBlock() == op->getBlock())
        used.insert(operand);
  });
  for (Value value : used) {
    --remainingUses[value];
    releaseIfUnused(value);
  }
  for (Value result : op->getResults())
    releaseIfUnused(result);
}

void LaneLowering::releaseIfUnused(Value value) {
  auto known = places.find(value);
  if (known == places.end() || remainingUses[value] > 0)
    return;
  if (known->second.buffer)
    arena.release(known->second.buffer);
  places.erase(known);
}

//===----------------------------------------------------------------------===//
// Pass
//===----------------------------------------------------------------------===//

namespace {
struct ConvertTileToCPU : dl::impl::ConvertTileToCPUBase<ConvertTileToCPU> {
  void runOnOperation() override {
    for (KernelOp kernel : llvm::make_early_inc_range(getOperation().getOps<KernelOp>())) {
      if (failed(LaneLowering(kernel).run()))
        return signalPassFailure();
      kernel.erase();
    }
  }
};
} // namespace
