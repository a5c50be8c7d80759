//===- Elementwise.cpp - Runs of elementwise ops as one loop --------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Elementwise ops (arith, math, and tile.expand, which only renames registers) wait in groups, one
// for each layout. An op that moves data between lanes or touches memory flushes all groups first.
// A group becomes
//
//   for thread: for register: op; op; op; store what is used elsewhere
//
// or one flat loop if no expand in it needs to know the register. Groups depend on each other
// through expand alone: its operand's group is flushed before the op joins its own.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/TileToCPU/Lowering.h"

using namespace mlir;
using namespace dl::tile;

bool LaneLowering::isElementwise(Operation *op) {
  return op->getNumResults() == 1 && isDistributed(op->getResult(0).getType()) &&
         (isa<ExpandOp>(op) || OpTrait::hasElementwiseMappableTraits(op));
}

void LaneLowering::addToGroup(Operation *op) {
  if (auto expand = dyn_cast<ExpandOp>(op)) {
    for (auto group = groups.begin(); group != groups.end(); ++group)
      if (llvm::is_contained(group->ops, expand.getValue().getDefiningOp())) {
        flush(group);
        break;
      }
    if (Value splat = places.lookup(expand.getValue()).splat) {
      bind(expand.getResult(), {nullptr, splat});
      return finish(op);
    }
  }
  auto key = cast<RankedTensorType>(op->getResult(0).getType()).clone(host->getI1Type());
  auto group = llvm::find_if(groups, [&](const Group &g) { return g.key == key; });
  if (group == groups.end())
    group = groups.insert(group, {key, {}});
  group->ops.push_back(op);
}

void LaneLowering::flushAll() {
  while (!groups.empty())
    flush(groups.begin());
}

void LaneLowering::flush(std::list<Group>::iterator which) {
  Group group = std::move(*which);
  groups.erase(which);
  for (Operation *op : group.ops)
    if (llvm::any_of(op->getUsers(),
                     [&](Operation *user) { return !llvm::is_contained(group.ops, user); }))
      bindNew(op->getResult(0));
  const Layout &layout = layoutOf(group.key);
  host->loc = group.ops.front()->getLoc();
  if (llvm::any_of(group.ops, [](Operation *op) { return isa<ExpandOp>(op); }))
    host->loop(layout.numThreads, [&](Value thread) {
      host->loop(layout.numRegisters, [&](Value reg) { emitGroupBody(group, thread, reg); });
    });
  else
    host->loop(layout.numThreads * layout.numRegisters,
               [&](Value place) { emitGroupBody(group, {}, place); });
  for (Operation *op : group.ops)
    finish(op);
}

/// Without a thread, `reg` counts the places of all threads.
void LaneLowering::emitGroupBody(const Group &group, Value thread, Value reg) {
  const Layout &layout = layoutOf(group.key);
  Value place = thread ? flat(layout, thread, reg) : reg;
  llvm::DenseMap<Value, Value> here;
  auto elementOf = [&](Value operand) {
    if (!isDistributed(operand.getType()))
      return scalars.lookup(operand);
    auto [entry, isNew] = here.try_emplace(operand);
    if (isNew)
      entry->second = loadElement(operand, place);
    return entry->second;
  };
  for (Operation *op : group.ops) {
    host->loc = op->getLoc();
    Value element;
    if (auto expand = dyn_cast<ExpandOp>(op)) {
      const Layout &slice = layoutOf(expand.getValue().getType());
      element = loadElement(expand.getValue(),
                            flat(slice, thread, sliceRegister(layout, expand.getAxis(), reg)));
    } else {
      SmallVector<Value> operands = llvm::map_to_vector(op->getOperands(), elementOf);
      element = cloneScalar(op, operands);
    }
    here[op->getResult(0)] = element;
    if (Arena::Buffer *buffer = places.lookup(op->getResult(0)).buffer)
      storeElement(buffer, element, place);
  }
}

/// The op on scalars. Conversions of narrow floats are written out.
Value LaneLowering::cloneScalar(Operation *op, ValueRange operands) {
  Type from = getElementTypeOrSelf(op->getOperand(0)), to = getElementTypeOrSelf(op->getResult(0));
  if (isa<arith::ExtFOp>(op))
    return host->widen(operands[0], from);
  if (isa<arith::TruncFOp>(op))
    return host->narrow(operands[0], to);
  OperationState state(op->getLoc(), op->getName(), operands, to, op->getAttrs());
  if (isa<arith::SelectOp>(op)) // between narrow floats it is one of their bits
    state.types = {operands[1].getType()};
  return host->create(state)->getResult(0);
}

LogicalResult LaneLowering::hasNoMeaning(Operation *op) {
  return op->emitOpError(
      "expected an op of the tile dialect, arith or math, scf.for or scf.if: it has no "
      "meaning on the host");
}

/// Whether cloneScalar knows what to do.
LogicalResult LaneLowering::checkScalar(Operation *op) {
  auto fails = [&](Type type) {
    return op->emitOpError("expected ")
           << "bf16 and f16 only in conversions to and from f32 and in select, got " << type;
  };
  auto isNarrow = [](Type type) { return type.isBF16() || type.isF16(); };
  if (!isa_and_nonnull<arith::ArithDialect, math::MathDialect>(op->getDialect()) ||
      op->getNumResults() != 1)
    return hasNoMeaning(op);
  Type result = getElementTypeOrSelf(op->getResult(0));
  if (op->getNumOperands() == 0 || isa<arith::SelectOp>(op))
    return success();
  Type operand = getElementTypeOrSelf(op->getOperand(0));
  if (isa<arith::ExtFOp>(op))
    return isNarrow(operand) && result.isF32() ? success() : fails(operand);
  if (isa<arith::TruncFOp>(op))
    return isNarrow(result) && operand.isF32() ? success() : fails(result);
  for (Type type : {operand, result})
    if (isNarrow(type))
      return fails(type);
  return success();
}
