//===- PlanKernel.cpp - What a step does to each slot's log ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   tile.kernel @op_plan, block n = row n:
//
//     tokens, slots, flags of the row     loads that depend on nothing
//     cursor of its source                if the row has one and reads it
//     settled start and length, merge, checkpoint
//     descriptor; cursors of the slots that the row writes
//
// The decisions, and the reason for each, are those of test/Reference/LogPlan.h; the tests compare
// the two bit by bit. What arrays hold is not trusted: slots, tokens and offsets are 64 bits wide
// until they have been compared, so that nothing is cut off, and a cursor is clamped before use.
// All of a block's threads compute the same, the first one stores.
//
//===----------------------------------------------------------------------===//

#include "passes/LinAttnToTile/PlanKernel.h"
#include "dialects/Tile/IR/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace dl;
using arith::CmpIPredicate;

namespace {

/// Arithmetic on integers of one width. Constants are as wide as the other operand.
class IntegerBuilder : public ImplicitLocOpBuilder {
public:
  using ImplicitLocOpBuilder::ImplicitLocOpBuilder;

  Value constant(int64_t value, Type type) {
    return arith::ConstantIntOp::create(*this, type, value);
  }
  Value add(Value a, Value b) { return arith::AddIOp::create(*this, a, b); }
  Value sub(Value a, Value b) { return arith::SubIOp::create(*this, a, b); }
  Value mul(Value a, Value b) { return arith::MulIOp::create(*this, a, b); }
  Value min(Value a, Value b) { return arith::MinSIOp::create(*this, a, b); }
  Value max(Value a, Value b) { return arith::MaxSIOp::create(*this, a, b); }
  Value clamp(Value a, Value low, Value high) { return min(max(a, low), high); }
  Value clamp(Value a, int64_t low, int64_t high) {
    return clamp(a, constant(low, a.getType()), constant(high, a.getType()));
  }
  Value negate(Value a) { return sub(constant(0, a.getType()), a); }
  Value compare(CmpIPredicate predicate, Value a, Value b) {
    return arith::CmpIOp::create(*this, predicate, a, b);
  }
  Value compare(CmpIPredicate predicate, Value a, int64_t b) {
    return compare(predicate, a, constant(b, a.getType()));
  }
  Value both(Value a, Value b) { return arith::AndIOp::create(*this, a, b); }
  Value either(Value a, Value b) { return arith::OrIOp::create(*this, a, b); }
  Value isNot(Value a) { return arith::XOrIOp::create(*this, a, constant(1, a.getType())); }
  Value select(Value condition, Value a, Value b) {
    return arith::SelectOp::create(*this, condition, a, b);
  }
  Value select(Value condition, Value a, int64_t b) {
    return select(condition, a, constant(b, a.getType()));
  }
  Value widen(Value a) {
    return a.getType() == getI64Type() ? a : arith::ExtSIOp::create(*this, getI64Type(), a);
  }
  /// Of a number that fits.
  Value narrow(Value a) { return arith::TruncIOp::create(*this, getI32Type(), a); }
  Value toIndex(Value a) { return arith::IndexCastUIOp::create(*this, getIndexType(), a); }
};

/// Emits the kernel of one operator.
class PlanKernel {
public:
  PlanKernel(linattn::OperatorOp op, const KernelTypes &types, const LogOptions &log)
      : op(op), types(types), log(log), b(op.getLoc(), op) {}

  void emit();

private:
  /// Positions of the arguments.
  struct Places {
    unsigned sourceSlots, destinationSlots, rowStarts, accepted, initial, flush, checkpointSlots,
        checkpointOffsets, cursors, descriptors, firstSlot, tokens, final, rows, slots;
  };
  /// What is asked of the row: i64, and conditions.
  struct Request {
    Value source, destination, token, tokens, accepted, checkpointSlot, checkpointOffset;
    Value isFresh, isBaseOnly, isFlushed;
  };
  /// Where the source's log stands, i32, and what the row does to it.
  struct Standing {
    Value start, length, committed;
  };

  Value argument(unsigned i) { return kernel.getBody().getArgument(i); }
  void addArguments(KernelArguments &arguments);
  void makeKernel();
  Value entryOr(unsigned array, Value place, Value fallback);
  Value slotOf(unsigned array);
  Value flagOf(unsigned array, int64_t fallback);
  void loadTokens(Request &request);
  Request loadRequest();
  Value isSlot(Value slot);
  Value wrap(Value position);
  Standing settle(const Request &request, Value isRead);
  Value chooseMerge(const Request &request, const Standing &now, Value moves);
  Value hasCheckpoint(const Request &request, const Standing &now);
  void emitRow();
  void storeFields(unsigned array, Value place, ArrayRef<Value> fields);
  void storeIf(Value condition, Value slot, ArrayRef<Value> cursor);

  linattn::OperatorOp op;
  const KernelTypes &types;
  const LogOptions &log;
  IntegerBuilder b;
  tile::KernelOp kernel;
  Places where = {};
  Value row; ///< index
};

void PlanKernel::addArguments(KernelArguments &arguments) {
  Attribute rows = arguments.symbol("N"), slots = arguments.symbol("slots");
  Attribute starts = arguments.expression("add", {rows, arguments.number(1)});
  auto perRow = [&](StringRef name, StringRef role, Type type, Attribute shape) {
    return arguments.addTensor(name, role, type, shape, "r", /*nullable=*/true);
  };
  where.sourceSlots = perRow("src_slots", "slots_in", types.index, rows);
  where.destinationSlots = perRow("dst_slots", "slots_out", types.index, rows);
  where.rowStarts = perRow("cu_seqlens", "row_starts", types.index, starts);
  where.accepted = perRow("num_accepted_tokens", "accepted", types.index, rows);
  where.initial = perRow("initial_state", "row_flags", b.getI8Type(), rows);
  where.flush = perRow("flush", "flush", b.getI8Type(), rows);
  where.checkpointSlots = perRow("checkpoint_slots", "checkpoint_slots", types.index, rows);
  where.checkpointOffsets = perRow("checkpoint_offsets", "checkpoint_offsets", types.index, rows);
  Type i32 = b.getI32Type();
  where.cursors = arguments.addTensor("cursors", "cursors", i32,
                                      {slots, arguments.number(CursorField::Count)}, "rw");
  where.descriptors = arguments.addTensor("descriptors", "descriptors", i32,
                                          {rows, arguments.number(DescriptorField::Count)}, "w");
  where.firstSlot = arguments.addScalar("first_slot", i32, {}, arguments.number(0));
  where.tokens = arguments.addScalar("tokens", i32, {}, arguments.number(1));
  where.final = arguments.addScalar("final", i32, {}, arguments.number(0));
  where.rows = arguments.addScalar("N", i32, rows, {});
  where.slots = arguments.addScalar("slots", i32, slots, {});
}

void PlanKernel::makeKernel() {
  KernelArguments arguments(b);
  addArguments(arguments);
  Attribute one = arguments.number(1);
  kernel = tile::KernelOp::create(
      b, (op.getSymName() + "_plan").str(), b.getFunctionType(arguments.getTypes(), {}),
      /*threads=*/32, b.getArrayAttr({arguments.symbol("N"), one, one}), /*min_blocks=*/1,
      /*max_registers=*/0, b.getArrayAttr(arguments.getAttributes()), ArrayAttr());
  Block *entry = &kernel.getBody().emplaceBlock();
  for (Type type : arguments.getTypes())
    entry->addArgument(type, b.getLoc());
  b.setInsertionPointToStart(entry);
}

//===----------------------------------------------------------------------===//
// The row's arrays
//===----------------------------------------------------------------------===//

Value PlanKernel::entryOr(unsigned array, Value place, Value fallback) {
  auto branch =
      scf::IfOp::create(b, fallback.getType(), tile::IsPresentOp::create(b, argument(array)),
                        /*withElseRegion=*/true);
  branch->setAttr(tile::kPredicatedAttrName, b.getUnitAttr());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, memref::LoadOp::create(b, argument(array), place).getResult());
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, fallback);
  return branch.getResult(0);
}

/// The row's own number where there is no array.
Value PlanKernel::slotOf(unsigned array) {
  Value itself = arith::IndexCastUIOp::create(b, types.index, row);
  return b.widen(entryOr(array, row, itself));
}

Value PlanKernel::flagOf(unsigned array, int64_t fallback) {
  return entryOr(array, row, b.constant(fallback, b.getI8Type()));
}

/// Within 0 and 2^31 - 1, whatever the array holds; the end not before the start.
void PlanKernel::loadTokens(Request &request) {
  Value one = arith::ConstantIndexOp::create(b, 1), next = arith::AddIOp::create(b, row, one);
  Value none = b.constant(0, types.index),
        isPacked = tile::IsPresentOp::create(b, argument(where.rowStarts));
  Value perRow = b.widen(argument(where.tokens));
  Value number = arith::IndexCastUIOp::create(b, b.getI64Type(), row);
  Value usual = b.mul(number, perRow);
  Value from = b.select(isPacked, b.widen(entryOr(where.rowStarts, row, none)), usual);
  Value to =
      b.select(isPacked, b.widen(entryOr(where.rowStarts, next, none)), b.add(usual, perRow));
  Value most = b.constant(INT32_MAX, b.getI64Type());
  request.token = b.clamp(from, 0, INT32_MAX);
  request.tokens = b.sub(b.clamp(to, request.token, most), request.token);
}

PlanKernel::Request PlanKernel::loadRequest() {
  Request request;
  auto numberOr = [&](unsigned array, int64_t fallback) {
    return b.widen(entryOr(array, row, b.constant(fallback, types.index)));
  };
  request.source = slotOf(where.sourceSlots);
  request.destination = slotOf(where.destinationSlots);
  loadTokens(request);
  request.accepted = numberOr(where.accepted, log.maxTokens); // all that can be pending
  request.checkpointSlot = numberOr(where.checkpointSlots, -1);
  request.checkpointOffset = numberOr(where.checkpointOffsets, 0);
  Value initial = flagOf(where.initial, 1), flush = flagOf(where.flush, 0);
  request.isFresh = b.compare(CmpIPredicate::eq, initial, 0);
  request.isBaseOnly = b.compare(CmpIPredicate::eq, initial, 2);
  request.isFlushed = b.compare(CmpIPredicate::ne, flush, 0);
  return request;
}

//===----------------------------------------------------------------------===//
// Decisions
//===----------------------------------------------------------------------===//

/// first_slot <= slot < slots, and not below 0 either.
Value PlanKernel::isSlot(Value slot) {
  Value first = b.max(b.widen(argument(where.firstSlot)), b.constant(0, slot.getType()));
  return b.both(b.compare(CmpIPredicate::sge, slot, first),
                b.compare(CmpIPredicate::slt, slot, b.widen(argument(where.slots))));
}

/// Of a position below 2 R.
Value PlanKernel::wrap(Value position) {
  Value ring = b.constant(log.ring(), position.getType());
  return b.select(b.compare(CmpIPredicate::sge, position, ring), b.sub(position, ring), position);
}

/// The cursor of the source, with the merge of its last step, then its acceptance. Zeros where it
/// is not read.
PlanKernel::Standing PlanKernel::settle(const Request &request, Value isRead) {
  Value slot = b.toIndex(request.source);
  SmallVector<Value> places, zeros(CursorField::Count, b.constant(0, b.getI32Type())), fields;
  for (int64_t i = 0; i < CursorField::Count; ++i)
    places.push_back(arith::ConstantIndexOp::create(b, i));
  auto branch = scf::IfOp::create(b, TypeRange(ValueRange(zeros)), isRead, /*withElseRegion=*/true);
  branch->setAttr(tile::kPredicatedAttrName, b.getUnitAttr());
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(branch.thenBlock());
    for (Value place : places)
      fields.push_back(memref::LoadOp::create(b, argument(where.cursors), ValueRange{slot, place}));
    scf::YieldOp::create(b, fields);
    b.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(b, zeros);
  }
  Value start = b.clamp(branch.getResult(CursorField::Start), 0, log.ring() - 1);
  Value length = b.clamp(branch.getResult(CursorField::Length), 0, log.longestLog());
  Value pending = b.clamp(branch.getResult(CursorField::Pending), 0, log.maxTokens);
  Value merge = branch.getResult(CursorField::Merge), none = zeros.front();
  Value isMerged = b.compare(CmpIPredicate::ne, merge, MergeKind::None);
  Value isAfter = b.compare(CmpIPredicate::eq, merge, MergeKind::After);

  Value accepted =
      b.narrow(b.clamp(request.accepted, b.constant(0, b.getI64Type()), b.widen(pending)));
  Value before = b.select(isMerged, none, length);
  Value most = b.constant(log.longestLog(), b.getI32Type());
  Standing now;
  now.start = b.select(isMerged, wrap(b.add(start, length)), start);
  // A token that was merged is in the base, and its entry was never written. The state before it
  // lies before the base.
  now.length = b.select(isAfter, none, b.min(b.add(before, accepted), most));
  now.committed = b.select(isAfter, b.negate(pending), before);
  return now;
}

/// `moves`: the row leaves the old log behind, so the state goes into the base.
Value PlanKernel::chooseMerge(const Request &request, const Standing &now, Value moves) {
  Value tokens = b.narrow(request.tokens), one = b.constant(1, b.getI32Type());
  Value full = b.compare(CmpIPredicate::sgt, b.add(now.length, tokens), log.window);
  Value hasLog = b.compare(CmpIPredicate::sgt, now.length, 0);
  Value isBefore = b.both(hasLog, b.either(request.isFlushed, full));
  // A last token that would fill the log goes with it, if there is room for it at all.
  Value fills = b.compare(CmpIPredicate::sge, b.add(now.length, one), log.window);
  Value hasRoom = b.compare(CmpIPredicate::slt, now.length, log.longestLog());
  Value isSure =
      b.both(b.compare(CmpIPredicate::ne, argument(where.final), 0), b.isNot(request.isFlushed));
  Value isLast = b.both(isSure, b.compare(CmpIPredicate::eq, tokens, 1));
  Value isAfter = b.both(isLast, b.both(fills, hasRoom));
  auto kind = [&](int64_t value) { return b.constant(value, b.getI32Type()); };
  Value inPlace = b.select(isAfter, kind(MergeKind::After),
                           b.select(isBefore, kind(MergeKind::Before), MergeKind::None));
  return b.select(moves, kind(MergeKind::Before), inPlace);
}

/// Whether the state that is asked for is between the base and the last accepted token.
Value PlanKernel::hasCheckpoint(const Request &request, const Standing &now) {
  Value low = b.widen(b.negate(now.committed));
  Value high = b.widen(b.sub(now.length, now.committed));
  Value inLog = b.both(b.compare(CmpIPredicate::sge, request.checkpointOffset, low),
                       b.compare(CmpIPredicate::sle, request.checkpointOffset, high));
  return b.both(b.both(isSlot(request.checkpointSlot), b.isNot(request.isFresh)), inLog);
}

//===----------------------------------------------------------------------===//
// The row
//===----------------------------------------------------------------------===//

void PlanKernel::storeFields(unsigned array, Value place, ArrayRef<Value> fields) {
  for (auto [i, field] : llvm::enumerate(fields))
    memref::StoreOp::create(
        b, field, argument(array),
        ValueRange{place, arith::ConstantIndexOp::create(b, static_cast<int64_t>(i))});
}

void PlanKernel::storeIf(Value condition, Value slot, ArrayRef<Value> cursor) {
  auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  storeFields(where.cursors, b.toIndex(slot), cursor);
}

void PlanKernel::emitRow() {
  Request request = loadRequest();
  // Too long a row would overwrite entries that it still reads.
  Value isLive = b.both(b.both(isSlot(request.source), isSlot(request.destination)),
                        b.compare(CmpIPredicate::sle, request.tokens, log.maxTokens));
  Value hasLog = b.isNot(b.either(request.isFresh, request.isBaseOnly));
  Standing now = settle(request, b.both(isLive, hasLog));
  Value moves =
      b.either(request.isFresh, b.compare(CmpIPredicate::ne, request.source, request.destination));
  Value merge = chooseMerge(request, now, moves);
  Value keeps = b.both(isLive, hasCheckpoint(request, now));

  // A merge into another slot, or of nothing, leaves no log to settle there.
  Value none = b.constant(0, b.getI32Type()), tokens = b.narrow(request.tokens);
  Value cursor[] = {b.select(moves, none, now.start), b.select(moves, none, now.length), tokens,
                    b.select(moves, none, merge)};
  Value write = wrap(b.add(cursor[CursorField::Start], cursor[CursorField::Length]));
  Value fresh = arith::ExtUIOp::create(b, b.getI32Type(), request.isFresh);
  Value count = b.add(now.committed, b.narrow(request.checkpointOffset));
  Value descriptor[] = {b.select(isLive, b.narrow(request.source), 0),
                        b.select(isLive, b.narrow(request.destination), -1),
                        b.narrow(request.token),
                        tokens,
                        b.select(isLive, now.start, 0),
                        b.select(isLive, now.length, 0),
                        b.select(isLive, write, 0),
                        b.select(isLive, merge, MergeKind::None),
                        b.select(isLive, fresh, 0),
                        b.select(keeps, b.narrow(request.checkpointSlot), -1),
                        b.select(keeps, count, -1),
                        none};
  storeFields(where.descriptors, row, descriptor);
  storeIf(isLive, request.destination, cursor);
  Value empty[] = {none, none, none, none};
  storeIf(keeps, request.checkpointSlot, empty);
}

void PlanKernel::emit() {
  makeKernel();
  row = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  Value number = arith::IndexCastUIOp::create(b, b.getI32Type(), row);
  auto inBatch = scf::IfOp::create(b, b.compare(CmpIPredicate::ult, number, argument(where.rows)),
                                   /*withElseRegion=*/false);
  tile::ReturnOp::create(b);
  b.setInsertionPointToStart(inBatch.thenBlock());
  if (types.startsEarly) {
    // Whatever comes behind waits for the descriptors, but may come in.
    tile::GridReleaseOp::create(b);
    tile::GridWaitOp::create(b);
  }
  emitRow();
  op.erase();
}

} // namespace

void dl::emitPlanKernel(linattn::OperatorOp op, const KernelTypes &types, const LogOptions &log) {
  PlanKernel(op, types, log).emit();
}
