//===- ChunkParts.cpp - Preparing one part while another one is walked ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/LinAttnToTile/ChunkParts.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace dl;

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

/// Of all rows, at most.
Attribute ChunkParts::countOf(KernelArguments &arguments) {
  Attribute tokens = arguments.expression("mul", {arguments.symbol("B"), arguments.symbol("T")});
  Attribute whole = arguments.expression("div", {tokens, arguments.number(tokensPerChunk)});
  Attribute rows = arguments.symbol("N");
  if (chunksWithin > 1)
    rows = arguments.expression("mul", {rows, arguments.number(chunksWithin)});
  return arguments.expression("add", {whole, rows});
}

Attribute ChunkParts::sizeOf(KernelArguments &arguments) {
  auto expression = [&](StringRef operation, ArrayRef<Attribute> operands) {
    return arguments.expression(operation, operands);
  };
  Attribute one = arguments.number(1), heads = arguments.symbol("HV");
  Attribute count = countOf(arguments);
  Attribute prepares = expression("mul", {count, heads});
  Attribute walks = expression("mul", {arguments.symbol("N"), heads, arguments.number(tiles)});
  Attribute parts = expression(
      "min",
      {arguments.number(split.maxParts),
       expression("div", {prepares, arguments.number(split.blocksPerPart)}),
       expression("div", {arguments.number(split.walkBlocks), expression("max", {walks, one})})});
  return expression("ceildiv", {count, expression("max", {parts, one})});
}

void ChunkParts::addWorkspaces(KernelArguments &arguments, const KernelTypes &types,
                               int64_t rowBytes) {
  Attribute two = arguments.number(2), heads = arguments.symbol("HV");
  Attribute held = arguments.expression(
      "min", {countOf(arguments), arguments.expression("mul", {sizeOf(arguments), two})});
  workspace = arguments.addTensor("workspace", "workspace", builder.getI8Type(),
                                  {held, heads, arguments.number(rowBytes)}, "w");
  carried = arguments.addTensor(
      "carried", "workspace", builder.getF32Type(),
      {two, heads, arguments.number(types.valueDim), arguments.number(types.keyDim)}, "w");
}

void ChunkParts::addScalars(KernelArguments &arguments) {
  Type i32 = builder.getI32Type();
  Attribute count = countOf(arguments), size = sizeOf(arguments);
  chunks = arguments.addScalar("chunks", i32, count, {});
  chunksPerPart = arguments.addScalar("chunks_per_part", i32, size, {});
  part = arguments.addPart("part", arguments.expression("ceildiv", {count, size}));
}

//===----------------------------------------------------------------------===//
// In the kernel
//===----------------------------------------------------------------------===//

Value ChunkParts::constant(int64_t value) {
  return arith::ConstantIntOp::create(builder, loc, value, 32);
}
Value ChunkParts::toIndex(Value number) {
  return arith::IndexCastUIOp::create(builder, loc, builder.getIndexType(), number);
}
Value ChunkParts::add(Value a, Value b) { return arith::AddIOp::create(builder, loc, a, b); }
Value ChunkParts::sub(Value a, Value b) { return arith::SubIOp::create(builder, loc, a, b); }
Value ChunkParts::mul(Value a, Value b) { return arith::MulIOp::create(builder, loc, a, b); }

Value ChunkParts::isOdd() {
  return arith::AndIOp::create(builder, loc, argument(part), constant(1));
}

Value ChunkParts::isFirst() {
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, argument(part), constant(0));
}

Value ChunkParts::chunkOf(Value number, Value &exists) {
  Value chunk = add(number, mul(argument(part), argument(chunksPerPart)));
  auto isBelow = [&](Value a, Value b) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, a, b);
  };
  exists = arith::AndIOp::create(builder, loc, isBelow(number, argument(chunksPerPart)),
                                 isBelow(chunk, argument(chunks)));
  return chunk;
}

Value ChunkParts::rowOfWorkspace(Value number) {
  return toIndex(add(number, mul(isOdd(), argument(chunksPerPart))));
}

Value ChunkParts::carriedTo() { return toIndex(isOdd()); }
Value ChunkParts::carriedFrom() { return toIndex(sub(constant(1), isOdd())); }

/// A row without tokens is one chunk here: its state is where the row begins.
ChunkSpan ChunkParts::spanOf(ChunkedRow &row, Value firstChunk) {
  Value size = constant(tokensPerChunk);
  Value tokens = arith::MaxSIOp::create(builder, loc, sub(row.end, row.first), constant(0));
  if (row.before)
    tokens = add(tokens, row.before);
  Value count = arith::CeilDivUIOp::create(builder, loc, tokens, size);
  Value behind = add(firstChunk, arith::MaxUIOp::create(builder, loc, count, constant(1)));
  Value partBegin = mul(argument(part), argument(chunksPerPart));
  Value partEnd = add(partBegin, argument(chunksPerPart));
  Value begin = arith::MaxUIOp::create(builder, loc, firstChunk, partBegin);
  Value end = arith::MinUIOp::create(builder, loc, behind, partEnd);
  auto compare = [&](arith::CmpIPredicate predicate, Value a, Value b) {
    return arith::CmpIOp::create(builder, loc, predicate, a, b);
  };
  auto tokenOf = [&](Value chunk) { return add(row.begin, mul(sub(chunk, firstChunk), size)); };
  ChunkSpan span;
  span.isHere = compare(arith::CmpIPredicate::ult, begin, end);
  span.begins = compare(arith::CmpIPredicate::uge, firstChunk, partBegin);
  span.ends = compare(arith::CmpIPredicate::ule, behind, partEnd);
  span.chunk = rowOfWorkspace(sub(begin, partBegin));
  span.first = tokenOf(begin);
  span.end = arith::MinSIOp::create(builder, loc, row.end, tokenOf(end));
  return span;
}
