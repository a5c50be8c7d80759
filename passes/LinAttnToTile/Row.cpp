//===- Row.cpp - Which tokens and states a row of a launch has ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/LinAttnToTile/Row.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace dl;

Row::Row(OpBuilder &builder, Location loc, tile::KernelOp kernel, const OperatorArguments &where,
         Value row)
    : builder(builder), loc(loc), kernel(kernel), where(where), number(row), row(index(row)),
      zero(arith::ConstantIndexOp::create(builder, loc, 0)) {
  loadNumbers();
  loadSlots();
  // Clamped last: this waits.
  Value tokens = size(where.tokens, from.getType()), none = constant(0, from.getType());
  Value begin = arith::MaxSIOp::create(builder, loc, from, none);
  Value behind = arith::MinSIOp::create(builder, loc, to, tokens);
  if (from.getType() != number.getType()) { // both within 0 and T: what is cut off is zero
    begin = arith::MinSIOp::create(builder, loc, begin, tokens);
    behind = arith::MaxSIOp::create(builder, loc, behind, none);
  }
  first = toI32(begin);
  end = toI32(behind);
}

/// Of a number that is not negative: two unsigned 32-bit factors make a 64-bit offset in one
/// instruction.
Value Row::index(Value integer) {
  return arith::IndexCastUIOp::create(builder, loc, builder.getIndexType(), integer);
}

Value Row::toI32(Value integer) {
  Type i32 = builder.getI32Type();
  return integer.getType() == i32 ? integer
                                  : arith::TruncIOp::create(builder, loc, i32, integer).getResult();
}

Value Row::constant(int64_t value, Type type) {
  return arith::ConstantIntOp::create(builder, loc, value, type.getIntOrFloatBitWidth());
}
/// A 32-bit size among the kernel's scalars, as wide as `like`.
Value Row::size(unsigned i, Type like) {
  Value value = argument(i);
  return like == value.getType() ? value : arith::ExtSIOp::create(builder, loc, like, value);
}

/// The entry as it lies in memory: widening it here would wait for it.
Value Row::entryOr(unsigned array, ValueRange indices, Value fallback) {
  Value memory = argument(array);
  auto branch = scf::IfOp::create(builder, loc, fallback.getType(),
                                  tile::IsPresentOp::create(builder, loc, memory),
                                  /*withElseRegion=*/true);
  branch->setAttr(tile::kPredicatedAttrName, builder.getUnitAttr());
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(builder, loc,
                       memref::LoadOp::create(builder, loc, memory, indices).getResult());
  builder.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(builder, loc, fallback);
  return branch.getResult(0);
}

/// A plain decode step has none of these arrays, and then looks at none of their strides.
void Row::loadNumbers() {
  Value isPacked, given;
  for (unsigned i : {where.rowStarts, where.hasInitialState, where.acceptedTokens}) {
    Value present = tile::IsPresentOp::create(builder, loc, argument(i));
    isPacked = i == where.rowStarts ? present : isPacked;
    given = given ? arith::OrIOp::create(builder, loc, given, present).getResult() : present;
  }
  Type type = cast<MemRefType>(argument(where.rowStarts).getType()).getElementType();
  Value none = constant(0, type), yes = constant(1, builder.getI8Type());
  SmallVector<Value> usual{constant(0, number.getType()), number, none, size(where.tokens, type),
                           yes};
  auto branch = scf::IfOp::create(builder, loc, TypeRange(ValueRange(usual)), given,
                                  /*withElseRegion=*/true);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(builder, loc, usual);
    builder.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(builder, loc, loadGiven(isPacked, /*tokens=*/usual[3], yes));
  }
  column = index(branch.getResult(0));
  batch = index(branch.getResult(1));
  from = branch.getResult(2);
  to = branch.getResult(3);
  rawFlag = branch.getResult(4);
}

SmallVector<Value> Row::loadGiven(Value isPacked, Value tokens, Value yes) {
  Type type = tokens.getType();
  Value none = constant(0, type), one = constant(1, type);
  Value next =
      arith::AddIOp::create(builder, loc, row, arith::ConstantIndexOp::create(builder, loc, 1));
  Value begins = entryOr(where.rowStarts, row, none), ends = entryOr(where.rowStarts, next, tokens);
  Value flag = entryOr(where.hasInitialState, row, yes);
  Value accepted = entryOr(where.acceptedTokens, row, one);
  accepted = arith::MinSIOp::create(builder, loc, accepted, size(where.sourceWidth, type));
  accepted = arith::MaxSIOp::create(builder, loc, accepted, one);
  Value place = toI32(arith::SubIOp::create(builder, loc, accepted, one));
  Value entry =
      arith::SelectOp::create(builder, loc, isPacked, constant(0, number.getType()), number);
  return {place, entry, begins, ends, flag};
}

void Row::loadSlots() {
  Type type = cast<MemRefType>(argument(where.sourceSlots).getType()).getElementType();
  Value itself = number.getType() == type
                     ? number
                     : arith::ExtUIOp::create(builder, loc, type, number).getResult();
  rawSource = entryOr(where.sourceSlots, {row, column}, itself);
  rawDestination = entryOr(where.destinationSlots, {row, zero}, itself);
}

Value Row::source() { return index(rawSource); }
Value Row::destination() { return index(rawDestination); }

Value Row::isFresh() {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, rawFlag,
                               constant(0, rawFlag.getType()));
}

Value Row::keepsAll() {
  Value width = argument(where.destinationWidth);
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, width,
                               constant(1, width.getType()));
}

/// first_slot <= slot < size of the pool
Value Row::isSlot(Value slot, unsigned pool) {
  Type type = slot.getType();
  Value low = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, slot,
                                    size(where.firstSlot, type));
  Value high =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, slot, size(pool, type));
  return arith::AndIOp::create(builder, loc, low, high);
}

Value Row::isActive() {
  Value kept =
      arith::OrIOp::create(builder, loc, isSlot(rawDestination, where.destinationPool), keepsAll());
  return arith::AndIOp::create(builder, loc, isSlot(rawSource, where.sourcePool), kept);
}

void Row::ifKept(Value token, llvm::function_ref<void(Value)> body) {
  Value step = arith::SubIOp::create(builder, loc, token, first);
  Value width = argument(where.destinationWidth);
  Value hasEntry = arith::AndIOp::create(
      builder, loc, keepsAll(),
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, step, width));
  auto entry = scf::IfOp::create(builder, loc, hasEntry, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(entry.thenBlock());
  ifSlot(where.destinationSlots, step, body);
}

/// `array`: [N, width].
void Row::ifSlot(unsigned array, Value entry, llvm::function_ref<void(Value)> body) {
  Value slot = memref::LoadOp::create(builder, loc, argument(array), ValueRange{row, index(entry)});
  auto branch = scf::IfOp::create(builder, loc, isSlot(slot, where.destinationPool),
                                  /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  body(index(slot));
}
