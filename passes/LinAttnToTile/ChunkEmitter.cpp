//===- ChunkEmitter.cpp - The maths of a chunk of tokens in one block ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/LinAttnToTile/ChunkEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/LinAttnToTile/BlockEmitter.h"
#include <cmath>

using namespace mlir;
using namespace dl;
using analysis::Coefficient;
using analysis::Factor;
using analysis::Product;
using linattn::Axis;

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

/// What products are made with: no other type of 16 bits has f32's range. Columns of V are dealt to
/// warps in sixteens on both sides.
static constexpr llvm::StringLiteral kTransposed = "mma.m16n8k16.bf16",
                                     kPlain = "mma.m16n16k16.bf16";

ChunkLayouts::ChunkLayouts(MLIRContext *context, const schedule::ChunkPlan &plan, int64_t keyDim)
    : chunk(plan.chunk), keyDim(keyDim), valueTile(plan.block.valueTile),
      tokenLayout(toAttr(context, plan.tokens)), pairLayout(toAttr(context, plan.pairs)) {
  auto fragment = [&](StringRef instruction, StringRef operand, ArrayRef<int64_t> warps) {
    return tile::FragmentAttr::get(context, instruction, operand, warps);
  };
  transposedSum = fragment(kTransposed, "c", {plan.block.warps, 1});
  transposedFirst = fragment(kTransposed, "a", {plan.block.warps, 1});
  sum = fragment(kPlain, "c", {1, plan.block.warps});
  second = fragment(kPlain, "b", {1, plan.block.warps});
}

static RankedTensorType sliceOf(RankedTensorType type, int64_t axis) {
  return cast<RankedTensorType>(tile::sliceType(type, axis));
}

RankedTensorType ChunkLayouts::tokenKeys(Type element) const {
  return RankedTensorType::get({chunk, keyDim}, element, tokenLayout);
}
RankedTensorType ChunkLayouts::tokens(Type element) const { return sliceOf(tokenKeys(element), 1); }
RankedTensorType ChunkLayouts::keys(Type element) const { return sliceOf(tokenKeys(element), 0); }
RankedTensorType ChunkLayouts::pairs(Type element) const {
  return RankedTensorType::get({chunk, chunk}, element, pairLayout);
}
RankedTensorType ChunkLayouts::values(ChunkSide side, Type element) const {
  return side == ChunkSide::Writes
             ? RankedTensorType::get({valueTile, chunk}, element, transposedSum)
             : RankedTensorType::get({chunk, valueTile}, element, sum);
}
RankedTensorType ChunkLayouts::valueTokens(ChunkSide side, Type element) const {
  return sliceOf(values(side, element), side == ChunkSide::Writes ? 0 : 1);
}
RankedTensorType ChunkLayouts::valueColumns(ChunkSide side, Type element) const {
  return sliceOf(values(side, element), side == ChunkSide::Writes ? 1 : 0);
}
RankedTensorType ChunkLayouts::state(Type element) const {
  return RankedTensorType::get({valueTile, keyDim}, element, transposedSum);
}
RankedTensorType ChunkLayouts::firstFactor(RankedTensorType type, Type element) const {
  return RankedTensorType::get(type.getShape(), element, transposedFirst);
}
RankedTensorType ChunkLayouts::secondFactor(RankedTensorType type, Type element) const {
  return RankedTensorType::get({type.getDimSize(1), type.getDimSize(0)}, element, second);
}
tile::SharedType ChunkLayouts::shared(int64_t columns, Type element) const {
  MLIRContext *context = element.getContext();
  int64_t bytes = layout::widestSwizzle(columns, element.getIntOrFloatBitWidth() / 8);
  return tile::SharedType::get(context, {chunk, columns}, element,
                               tile::SwizzledAttr::get(context, bytes));
}

//===----------------------------------------------------------------------===//
// Small pieces
//===----------------------------------------------------------------------===//

Value ChunkEmitter::multiply(Value a, Value b) {
  if (!a || !b)
    return a ? a : b;
  return arith::MulFOp::create(builder, loc, a, b);
}

Value ChunkEmitter::add(Value a, Value b) {
  if (!a || !b)
    return a ? a : b;
  return arith::AddFOp::create(builder, loc, a, b);
}

Value ChunkEmitter::exp(Value x) {
  Value &result = raised[x];
  if (!result)
    result = math::ExpOp::create(builder, loc, x);
  return result;
}

Value ChunkEmitter::zero(RankedTensorType type) {
  return arith::ConstantOp::create(
      builder, loc, DenseElementsAttr::get(type, builder.getZeroAttr(type.getElementType())));
}

Value ChunkEmitter::asTokens(Value number) {
  if (isa<RankedTensorType>(number.getType()))
    return number;
  return tile::SplatOp::create(builder, loc, layouts.tokens(number.getType()), number);
}

Value ChunkEmitter::onKeys(Value tokens) {
  return tile::ExpandOp::create(builder, loc, layouts.tokenKeys(builder.getF32Type()), tokens, 1);
}

Value ChunkEmitter::onValues(Value tokens, ChunkSide side) {
  Type f32 = builder.getF32Type();
  Value &result = crossed[side == ChunkSide::Outputs][tokens];
  if (!result) {
    Value vector = crossing.vector(tokens, layouts.valueTokens(side, f32));
    result = tile::ExpandOp::create(builder, loc, layouts.values(side, f32), vector,
                                    side == ChunkSide::Writes ? 0 : 1);
  }
  return result;
}

Value ChunkEmitter::compare(arith::CmpIPredicate predicate, Value a, Value b) {
  return arith::CmpIOp::create(builder, loc, predicate, a, b);
}

//===----------------------------------------------------------------------===//
// Tokens that are not there
//===----------------------------------------------------------------------===//

/// Behind a row's last token no value is what the operator meant: whatever it makes of zeros, such
/// tokens neither decay, write nor read.
void ChunkEmitter::emitMasks(Value count) {
  Type i32 = builder.getI32Type();
  auto before = [&](RankedTensorType type, int64_t axis) {
    Value token = tile::CoordinateOp::create(builder, loc, type, axis);
    Value end = tile::SplatOp::create(builder, loc, type, count);
    return compare(arith::CmpIPredicate::slt, token, end);
  };
  tokenIsThere = before(layouts.tokens(i32), 0);
  keyIsThere = before(layouts.tokenKeys(i32), 0);
  valueIsThere = before(layouts.values(ChunkSide::Writes, i32), 1);
}

bool ChunkEmitter::isInput(Value value) {
  return llvm::any_of(linattn::OperatorOp(step.op).getInputs(), [&](Value input) {
    return placed.lookupOrNull(input) == value ||
           of(ChunkSide::Writes).lookupOrNull(input) == value;
  });
}

/// For what is C, C x K or, of writes, VT x C.
Value ChunkEmitter::ifThere(Value value) {
  if (!value || isInput(value))
    return value;
  auto type = cast<RankedTensorType>(value.getType());
  Value mask = type == layouts.tokenKeys(type.getElementType()) ? keyIsThere
               : type == layouts.tokens(type.getElementType())  ? tokenIsThere
                                                                : valueIsThere;
  return arith::SelectOp::create(builder, loc, mask, value, zero(type));
}

//===----------------------------------------------------------------------===//
// Decays
//===----------------------------------------------------------------------===//

/// Keys times e^l for each l, which are one number per token or one per key.
Value ChunkEmitter::decayedBy(Value keys, ArrayRef<Value> logDecays) {
  for (Value l : logDecays) {
    Value e = exp(asTokens(l));
    keys = multiply(keys, e.getType() == keys.getType() ? e : onKeys(e));
  }
  return keys;
}

/// Log decays of a token's path, from number `from` to before number `to`.
SmallVector<Value> ChunkEmitter::decaysBetween(unsigned from, unsigned to) {
  SmallVector<Value> result;
  for (unsigned i = from; i < to; ++i)
    result.push_back(placed.lookup(step.states.front().decays[i].logDecay));
  return result;
}

void ChunkEmitter::sumDecays() {
  Value perToken, perKey;
  for (const analysis::Decay &decay : step.states.front().decays) {
    Value l = asTokens(placed.lookup(decay.logDecay));
    Value &sum = decay.axis == Axis::Key ? perKey : perToken;
    sum = add(sum, l);
  }
  if (perKey && perToken)
    perKey = add(perKey, onKeys(perToken));
  logDecay = ifThere(perKey ? perKey : perToken);
}

/// e to the sum of log decays over the tokens of the chunk up to each one, or behind it.
Value ChunkEmitter::scan(bool reverse, bool exclusive) {
  if (!logDecay)
    return {};
  Value sum =
      tile::ScanOp::create(builder, loc, inBase2(), /*axis=*/0, layouts.chunk, reverse, exclusive);
  Value e = math::Exp2Op::create(builder, loc, sum);
  return e.getType() == layouts.tokens(builder.getF32Type()) ? onKeys(e) : e;
}

/// The log decays of base 2, as tile-expand-gram has them.
Value ChunkEmitter::inBase2() {
  auto type = cast<RankedTensorType>(logDecay.getType());
  Value log2e = arith::ConstantOp::create(
      builder, loc, DenseElementsAttr::get(type, builder.getF32FloatAttr(float(M_LOG2E))));
  return multiply(logDecay, log2e);
}

/// One decay per key, also where there is one per token: a number alone could not be handed over.
Value ChunkEmitter::decayOfChunk(Value state) {
  if (!logDecay)
    return state;
  Type f32 = builder.getF32Type();
  auto matrix = cast<RankedTensorType>(state.getType());
  bool isPerKey = logDecay.getType() == layouts.tokenKeys(f32);
  Type sumType = isPerKey ? Type(layouts.keys(f32)) : f32;
  Value sum =
      tile::ReduceOp::create(builder, loc, TypeRange(sumType), logDecay, /*axis=*/0).getResult(0);
  Value e = exp(sum);
  if (!isPerKey)
    e = tile::SplatOp::create(builder, loc, layouts.keys(f32), e);
  e = crossing.vector(e, sliceOf(matrix, 0));
  return multiply(state, tile::ExpandOp::create(builder, loc, matrix, e, 0));
}

//===----------------------------------------------------------------------===//
// Factors
//===----------------------------------------------------------------------===//

/// Keys of reads, at their token's start or end, and of the write, at its token's end.
void ChunkEmitter::emitReads() {
  for (const analysis::Read &read : step.reads) {
    ReadFactors factors;
    factors.number = reads.size();
    factors.inclusive = read.clock == allDecays();
    SmallVector<Value> own =
        factors.inclusive ? SmallVector<Value>() : decaysBetween(0, read.clock);
    for (linattn::DecayOp decay : read.keyDecays)
      own.push_back(placed.lookup(decay.getLogDecay()));
    factors.key = ifThere(decayedBy(placed.lookup(read.key), own));
    if (read.isOutput)
      factors.diagonal = onDiagonal(factors);
    reads.push_back(factors);
  }
  SmallVector<Value> own = decaysBetween(write().clock, allDecays());
  writeKey = ifThere(decayedBy(placed.lookup(write().key), own));
}

void ChunkEmitter::emitGrams() {
  SmallVector<Value> keys;
  SmallVector<bool> inclusive;
  for (const ReadFactors &read : reads) {
    keys.push_back(read.key);
    inclusive.push_back(read.inclusive);
  }
  if (keys.empty())
    return;
  SmallVector<Type> types(keys.size(), layouts.pairs(builder.getF32Type()));
  FloatAttr bound;
  if (std::optional<double> lowest = step.states.front().totalBound(); lowest && logDecay)
    bound = builder.getF64FloatAttr(*lowest);
  auto grams = tile::DecayedGramOp::create(builder, loc, types, keys, writeKey, logDecay, inclusive,
                                           bound, builder.getBF16Type());
  for (auto [read, gram] : llvm::zip(reads, grams.getGrams()))
    read.gram = gram;
}

/// What a read gets of its own token's write.
Value ChunkEmitter::onDiagonal(const ReadFactors &factors) {
  const analysis::Read &read = step.reads[factors.number];
  if (!step.sees(read, write()))
    return {};
  SmallVector<Value> between = decaysBetween(write().clock, read.clock);
  for (linattn::DecayOp decay : read.keyDecays)
    between.push_back(placed.lookup(decay.getLogDecay()));
  Value terms = multiply(placed.lookup(read.key), placed.lookup(write().key));
  Value sum = tile::ReduceOp::create(builder, loc, TypeRange(layouts.tokens(builder.getF32Type())),
                                     decayedBy(terms, between), /*axis=*/1)
                  .getResult(0);
  return ifThere(sum);
}

static Value toBF16(OpBuilder &builder, Location loc, Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return arith::TruncFOp::create(builder, loc, type.clone(builder.getBF16Type()), value);
}

Value ChunkEmitter::toShared(Value matrix) {
  Value narrow = toBF16(builder, loc, matrix);
  auto type = cast<RankedTensorType>(narrow.getType());
  return crossing.matrix(narrow, layouts.shared(type.getDimSize(1), type.getElementType()));
}

/// X of each output read, gamma X of the feedback reads, A of the write.
void ChunkEmitter::emitFactors() {
  Value inclusive, exclusive, feedback;
  for (ReadFactors &read : reads) {
    Value &sum = read.inclusive ? inclusive : exclusive;
    if (!sum)
      sum = scan(/*reverse=*/false, !read.inclusive);
    Value decayed = multiply(read.key, sum);
    if (step.reads[read.number].isOutput)
      read.inShared = toShared(decayed);
    if (const Coefficient *gamma = write().value.find(read.number)) {
      Value tokens = ifThere(tokensOf(*gamma));
      feedback = add(feedback, tokens ? multiply(decayed, onKeys(tokens)) : decayed);
    }
  }
  if (feedback)
    feedbackInShared = toShared(feedback);
  writesInShared = toShared(multiply(writeKey, scan(/*reverse=*/true, /*exclusive=*/true)));
}

/// The inverse of I - sum of gamma N, less I, and N of the output reads.
void ChunkEmitter::emitSystem() {
  Type f32 = builder.getF32Type(), i32 = builder.getI32Type();
  RankedTensorType pairs = layouts.pairs(f32);
  Value row = tile::CoordinateOp::create(builder, loc, layouts.pairs(i32), 0);
  Value column = tile::CoordinateOp::create(builder, loc, layouts.pairs(i32), 1);
  auto onRows = [&](Value tokens) -> Value {
    Value vector = tile::ConvertOp::create(builder, loc, sliceOf(pairs, 1), tokens);
    return tile::ExpandOp::create(builder, loc, pairs, vector, 1);
  };
  Value system;
  for (ReadFactors &read : reads) {
    if (const Coefficient *gamma = write().value.find(read.number)) {
      Value tokens = ifThere(tokensOf(*gamma));
      system = add(system, tokens ? multiply(read.gram, onRows(tokens)) : read.gram);
    }
    if (!step.reads[read.number].isOutput)
      continue;
    Value rest = zero(pairs);
    if (Value own = read.diagonal)
      rest = arith::SelectOp::create(builder, loc, compare(arith::CmpIPredicate::eq, row, column),
                                     onRows(own), rest);
    Value earlier = compare(arith::CmpIPredicate::sgt, row, column);
    read.pairs = toShared(arith::SelectOp::create(builder, loc, earlier, read.gram, rest));
  }
  if (!system)
    return;
  system = arith::NegFOp::create(builder, loc, system);
  // Less the unit matrix, which takes no product. Tokens with one key have one number along a
  // diagonal: rounded, it is wrong for all of them in the same direction, and reads add that up
  // over the chunk. So what the rounding takes away is a factor too.
  Value isBelow = compare(arith::CmpIPredicate::sgt, row, column);
  Value below = arith::SelectOp::create(
      builder, loc, isBelow, tile::InvertUnitLowerOp::create(builder, loc, system), zero(pairs));
  inverse = toShared(below);
  Value rounded = arith::ExtFOp::create(builder, loc, pairs, toBF16(builder, loc, below));
  inverseRest = toShared(arith::SubFOp::create(builder, loc, below, rounded));
}

//===----------------------------------------------------------------------===//
// The walk
//===----------------------------------------------------------------------===//

Value ChunkEmitter::asFirst(Value accumulator) {
  Value narrow = toBF16(builder, loc, accumulator);
  auto type = cast<RankedTensorType>(narrow.getType());
  return tile::ConvertOp::create(builder, loc, layouts.firstFactor(type, type.getElementType()),
                                 narrow);
}

Value ChunkEmitter::asSecond(Value accumulator) {
  Value narrow = toBF16(builder, loc, accumulator);
  auto type = cast<RankedTensorType>(narrow.getType());
  return tile::TransposeOp::create(builder, loc, layouts.secondFactor(type, type.getElementType()),
                                   narrow);
}

Value ChunkEmitter::product(Value a, Value b, Value c, bool transposed) {
  return tile::MmaOp::create(builder, loc, a, b, c, transposed);
}

/// B, transposed.
Value ChunkEmitter::emitWrites(Value state) {
  RankedTensorType values = layouts.values(ChunkSide::Writes, builder.getF32Type());
  Value written = localsOf(write().value, ChunkSide::Writes);
  if (!written)
    written = zero(values);
  if (!feedbackInShared)
    return written;
  written = product(asFirst(state), feedbackInShared, written);
  Value factor = asFirst(written);
  return product(factor, inverseRest, product(factor, inverse, written));
}

FailureOr<Value> ChunkEmitter::emit(Value state, Value count,
                                    llvm::function_ref<void(unsigned, Value)> store) {
  if (failed(emitLocals()))
    return failure();
  emitMasks(count);
  sumDecays();
  emitReads();
  // In this order key vectors are needed in registers no longer when the Grams are computed.
  crossing.start();
  emitFactors();
  emitGrams();
  emitSystem();
  crossing.ready();
  RankedTensorType values = layouts.values(ChunkSide::Outputs, builder.getF32Type());
  Value writes = emitWrites(state);
  Value stateFactor = asSecond(state), writesFactor = asSecond(writes);
  SmallVector<Value> results(reads.size());
  for (ReadFactors &read : reads)
    if (read.inShared)
      results[read.number] =
          product(read.pairs, writesFactor, product(read.inShared, stateFactor, zero(values)));
  for (auto [i, output] : llvm::enumerate(step.outputs)) {
    Value sum = localsOf(output.form, ChunkSide::Outputs);
    for (const analysis::ReadTerm &term : output.form.reads)
      sum = add(sum, multiply(results[term.read], valuesOf(term.coefficient, ChunkSide::Outputs)));
    store(i, sum ? sum : zero(values));
  }
  return product(asFirst(writes), writesInShared, decayOfChunk(state), /*transposed=*/true);
}
