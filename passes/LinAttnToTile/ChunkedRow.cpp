//===- ChunkedRow.cpp - How the tokens of a row lie in chunks ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/LinAttnToTile/ChunkedRow.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace dl;

ChunkedRow::ChunkedRow(OpBuilder &builder, Location loc, tile::KernelOp kernel,
                       const OperatorArguments &where, Value row, int64_t tokensPerChunk,
                       int64_t interval)
    : Row(builder, loc, kernel, where, row), begin(first), tokensPerChunk(tokensPerChunk),
      interval(interval) {
  if (interval != 0)
    findCheckpoints();
}

/// More tokens than there can be are one too many: whatever the type, the number fits 32 bits. A
/// row without tokens has no chunk.
void ChunkedRow::findCheckpoints() {
  Type type = cast<MemRefType>(argument(where.checkpointOffsets).getType()).getElementType();
  Type i32 = builder.getI32Type();
  Value offset = entryOr(where.checkpointOffsets, row, constant(interval, type));
  Value most = arith::AddIOp::create(builder, loc, size(where.tokens, type), constant(1, type));
  offset = arith::MaxSIOp::create(builder, loc, offset, constant(0, type));
  checkpoint = toI32(arith::MinSIOp::create(builder, loc, offset, most));
  Value none = constant(0, i32);
  Value rest = arith::SubIOp::create(builder, loc, none, checkpoint); // modulo C
  rest = arith::AndIOp::create(builder, loc, rest, constant(tokensPerChunk - 1, i32));
  Value hasTokens = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sgt, end, first);
  before = arith::SelectOp::create(builder, loc, hasTokens, rest, none);
  begin = arith::SubIOp::create(builder, loc, first, before);
}

ChunkedRow::Tokens ChunkedRow::tokensOf(Value chunk) {
  Value size = constant(tokensPerChunk, builder.getI32Type());
  if (!before) {
    Value left = arith::SubIOp::create(builder, loc, end, chunk);
    return {chunk, arith::MinSIOp::create(builder, loc, left, size)};
  }
  Value from = arith::MaxSIOp::create(builder, loc, chunk, first);
  Value to = arith::AddIOp::create(builder, loc, chunk, size);
  to = arith::MinSIOp::create(builder, loc, end, to);
  return {from, arith::SubIOp::create(builder, loc, to, from)};
}

void ChunkedRow::ifCheckpoint(Value chunkEnd, llvm::function_ref<void(Value)> body) {
  Type i32 = builder.getI32Type();
  auto compare = [&](arith::CmpIPredicate predicate, Value a, Value b) -> Value {
    return arith::CmpIOp::create(builder, loc, predicate, a, b);
  };
  auto both = [&](Value a, Value b) -> Value { return arith::AndIOp::create(builder, loc, a, b); };
  auto ifTrue = [&](Value condition) {
    auto branch = scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
    builder.setInsertionPointToStart(branch.thenBlock());
  };
  Value behind = arith::SubIOp::create(
      builder, loc, arith::SubIOp::create(builder, loc, chunkEnd, first), checkpoint);
  Value distance = constant(interval, i32);
  Value rest = arith::RemUIOp::create(builder, loc, behind, distance);
  Value isDue = both(compare(arith::CmpIPredicate::sge, behind, constant(0, i32)),
                     compare(arith::CmpIPredicate::eq, rest, constant(0, i32)));
  OpBuilder::InsertionGuard guard(builder);
  ifTrue(both(isDue, compare(arith::CmpIPredicate::sle, chunkEnd, end)));
  Value number = arith::DivUIOp::create(builder, loc, behind, distance);
  Value isThere = tile::IsPresentOp::create(builder, loc, argument(where.checkpointSlots));
  ifTrue(
      both(isThere, compare(arith::CmpIPredicate::ult, number, argument(where.checkpointWidth))));
  ifSlot(where.checkpointSlots, number, body);
}
