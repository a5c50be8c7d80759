//===- ChunkWalk.cpp - What a chunk does with the state ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/LinAttnToTile/ChunkEmitter.h"

using namespace mlir;
using namespace dl;

/// For a product that is added to `sum`; `hilo` products split it.
Value ChunkEmitter::asFirst(Value accumulator, Value sum, bool hilo) {
  Value factor = hilo ? accumulator : toBF16(accumulator);
  auto type = cast<RankedTensorType>(factor.getType());
  return tile::ConvertOp::create(
      builder, loc,
      layouts.firstFactor(type, cast<RankedTensorType>(sum.getType()), type.getElementType()),
      factor);
}

Value ChunkEmitter::asSecond(Value accumulator, bool hilo) {
  Value factor = hilo ? accumulator : toBF16(accumulator);
  auto type = cast<RankedTensorType>(factor.getType());
  return tile::TransposeOp::create(builder, loc, layouts.secondFactor(type, type.getElementType()),
                                   factor);
}

/// A factor in registers of f32 makes it hilo.
Value ChunkEmitter::product(const ProductFactor &a, const ProductFactor &b, Value c,
                            bool transposed) {
  bool hilo = llvm::any_of(ValueRange{a.value, b.value}, [](Value factor) {
    auto tensor = dyn_cast<RankedTensorType>(factor.getType());
    return tensor && tensor.getElementType().isF32();
  });
  auto create = [&](Value b, Value c, Value rest) -> Value {
    return tile::MmaOp::create(builder, loc, a.value, b, c, rest, transposed, hilo);
  };
  if (hilo || !b.rest)
    return create(b.value, c, a.rest ? a.rest : b.rest);
  return create(b.rest, create(b.value, c, {}), {});
}

/// What the writes are made of besides reads, each in its rows; null stands for zero.
Value ChunkEmitter::localWrites() {
  RankedTensorType values = layouts.values(ChunkSide::Writes, builder.getF32Type());
  if (rows.count == 1)
    return localsOf(step.writes.front().value, ChunkSide::Writes);
  Value row = coordinate(values, 1);
  Type type = row.getType();
  row = arith::AndIOp::create(builder, loc, row, integers(type, rows.count - 1));
  Value written;
  for (auto [i, write] : llvm::enumerate(step.writes))
    if (Value local = localsOf(write.value, ChunkSide::Writes))
      written = arith::SelectOp::create(builder, loc,
                                        compare(arith::CmpIPredicate::eq, row, integers(type, i)),
                                        local, written ? written : zero(values));
  return written;
}

/// The right-hand side of the system, transposed: D + sum of gamma X S0.
Value ChunkEmitter::emitRightHandSide(Value state) {
  Value written = localWrites();
  if (!written)
    written = zero(layouts.values(ChunkSide::Writes, builder.getF32Type()));
  if (!feedbackInShared.value)
    return written;
  return product(asFirst(state, written, isHiLo()), feedbackInShared, written);
}

/// B, transposed.
Value ChunkEmitter::solve(Value rightHandSide) {
  if (!inverse.value)
    return rightHandSide;
  return product(asFirst(rightHandSide, rightHandSide, isHiLo()), inverse, rightHandSide);
}

/// What a read sees of the state before the chunk, over the values of outputs. What rounding takes
/// from a state goes with this one output.
Value ChunkEmitter::readState(const OutputFactors &factors, Value state) {
  Value none = zero(layouts.values(ChunkSide::Outputs, builder.getF32Type()));
  return layouts.isTransposed(ChunkSide::Outputs)
             ? product(asFirst(state, none, /*hilo=*/false), factors.inShared, none)
             : product(factors.inShared, asSecond(state, /*hilo=*/false), none);
}

/// With what it sees of the chunk's writes. What rounding takes from writes does not get less where
/// they sum up to little.
Value ChunkEmitter::addWrites(const OutputFactors &factors, Value writes, Value sum) {
  return layouts.isTransposed(ChunkSide::Outputs)
             ? product(asFirst(writes, sum, isHiLo()), factors.pairs, sum)
             : product(factors.pairs, asSecond(writes, isHiLo()), sum);
}

/// Products of mma.sync are waited for; each value is made right before it is used, so that few are
/// in registers. Those of wgmma run on: what does not depend on one is issued behind it.
Value ChunkEmitter::emitWalk(Value state, llvm::function_ref<void(unsigned, Value)> store) {
  const bool runOn = layouts.products == schedule::Products::Wgmma;
  Value next;
  // Old accumulators of wgmma are only touched before its first product or behind a wait: ptxas
  // makes products of one loop wait for each other otherwise. With a system to solve there is one.
  if (runOn && !inverse.value)
    next = decayOfChunk(state);
  Value rightHandSide = emitRightHandSide(state);
  llvm::DenseMap<unsigned, Value> results;
  auto readStates = [&] {
    for (auto &[number, factors] : outputs)
      results[number] = readState(factors, state);
  };
  if (runOn)
    readStates();
  Value writes = solve(rightHandSide);
  if (runOn && inverse.value)
    next = decayOfChunk(state);
  if (!runOn)
    readStates();
  for (auto &[number, factors] : outputs)
    results[number] = addWrites(factors, writes, results[number]);
  auto addToState = [&] {
    next = product(asFirst(writes, next, isHiLo()), writesInShared, next, /*transposed=*/true);
  };
  if (runOn)
    addToState();
  storeOutputs(results, store);
  if (!runOn) {
    next = decayOfChunk(state);
    addToState();
  }
  return next;
}

void ChunkEmitter::storeOutputs(const llvm::DenseMap<unsigned, Value> &results,
                                llvm::function_ref<void(unsigned, Value)> store) {
  RankedTensorType values = layouts.values(ChunkSide::Outputs, builder.getF32Type());
  for (auto [i, output] : llvm::enumerate(step.outputs)) {
    Value sum = localsOf(output.form, ChunkSide::Outputs);
    for (const analysis::ReadTerm &term : output.form.reads)
      sum = add(
          sum, multiply(results.lookup(term.read), valuesOf(term.coefficient, ChunkSide::Outputs)));
    store(i, sum ? sum : zero(values));
  }
}
