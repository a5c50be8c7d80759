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
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace mlir;
using namespace dl;
using analysis::Coefficient;
using linattn::Axis;

//===----------------------------------------------------------------------===//
// Layouts
//===----------------------------------------------------------------------===//

/// What products are made with: no other type of 16 bits has f32's range. Columns of V are dealt to
/// warps in sixteens on both sides.
static constexpr llvm::StringLiteral kTransposed = "mma.m16n8k16.bf16",
                                     kPlain = "mma.m16n16k16.bf16";
static constexpr int64_t kWarpsOfWgmma = 4;

ChunkLayouts::ChunkLayouts(MLIRContext *context, const schedule::ChunkPlan &plan, int64_t keyDim)
    : chunk(plan.chunk), rowsPerToken(plan.rowsPerToken), tokensPerChunk(plan.tokensPerChunk()),
      keyDim(keyDim), valueTile(plan.block.valueTile), warps(plan.block.warps),
      products(plan.products), precision(plan.precision), tokenLayout(toAttr(context, plan.tokens)),
      rowLayout(toAttr(context, plan.rows)), pairLayout(toAttr(context, plan.pairs)),
      readLayout(toAttr(context, plan.reads)) {}

/// One instruction of wgmma makes all columns of a sum.
RankedTensorType ChunkLayouts::transposedSum(int64_t columns, Type element) const {
  bool isWgmma = products == schedule::Products::Wgmma;
  std::string instruction =
      isWgmma ? llvm::formatv("wgmma.m64n{0}k16.bf16", columns).str() : kTransposed.str();
  int64_t groups = isWgmma ? warps / kWarpsOfWgmma : warps;
  return RankedTensorType::get(
      {valueTile, columns}, element,
      tile::FragmentAttr::get(element.getContext(), instruction, "c", {groups, 1}));
}

Attribute ChunkLayouts::plain(StringRef operand) const {
  return tile::FragmentAttr::get(tokenLayout.getContext(), kPlain, operand, {1, warps});
}

static RankedTensorType sliceOf(RankedTensorType type, int64_t axis) {
  return cast<RankedTensorType>(tile::sliceType(type, axis));
}

RankedTensorType ChunkLayouts::tokenKeys(Type element) const {
  return RankedTensorType::get({tokensPerChunk, keyDim}, element, tokenLayout);
}
RankedTensorType ChunkLayouts::tokens(Type element) const { return sliceOf(tokenKeys(element), 1); }
RankedTensorType ChunkLayouts::keys(Type element) const { return sliceOf(tokenKeys(element), 0); }
RankedTensorType ChunkLayouts::rowKeys(Type element) const {
  return RankedTensorType::get({chunk, keyDim}, element, rowLayout);
}
RankedTensorType ChunkLayouts::pairs(Type element) const {
  return RankedTensorType::get({chunk, chunk}, element, pairLayout);
}
RankedTensorType ChunkLayouts::reads(Type element) const {
  return RankedTensorType::get({tokensPerChunk, chunk}, element, readLayout);
}
RankedTensorType ChunkLayouts::values(ChunkSide side, Type element) const {
  if (isTransposed(side))
    return transposedSum(side == ChunkSide::Writes ? chunk : tokensPerChunk, element);
  return RankedTensorType::get({tokensPerChunk, valueTile}, element, plain("c"));
}
/// Transposed values of 16 bits are exchanged in blocks of eight tokens; of 32 bits, those of a row
/// of lanes fill a sector as they are.
RankedTensorType ChunkLayouts::valuesInMemory(ChunkSide side, Type element) const {
  RankedTensorType type = values(side, element);
  if (products != schedule::Products::Wgmma || element.getIntOrFloatBitWidth() != 16)
    return type;
  return RankedTensorType::get({type.getDimSize(1), valueTile}, element, plain("c"));
}
RankedTensorType ChunkLayouts::valueRows(ChunkSide side, Type element) const {
  return sliceOf(values(side, element), isTransposed(side) ? 0 : 1);
}
RankedTensorType ChunkLayouts::valueColumns(ChunkSide side, Type element) const {
  return sliceOf(values(side, element), isTransposed(side) ? 1 : 0);
}
RankedTensorType ChunkLayouts::state(Type element) const { return transposedSum(keyDim, element); }
RankedTensorType ChunkLayouts::firstFactor(RankedTensorType type, RankedTensorType sum,
                                           Type element) const {
  auto fragment = cast<tile::FragmentAttr>(sum.getEncoding());
  return RankedTensorType::get(type.getShape(), element,
                               tile::FragmentAttr::get(element.getContext(),
                                                       fragment.getInstruction(), "a",
                                                       fragment.getWarps()));
}
RankedTensorType ChunkLayouts::secondFactor(RankedTensorType type, Type element) const {
  return RankedTensorType::get({type.getDimSize(1), type.getDimSize(0)}, element, plain("b"));
}
tile::SharedType ChunkLayouts::shared(RankedTensorType matrix) const {
  MLIRContext *context = matrix.getContext();
  int64_t bytes = layout::widestSwizzle(matrix.getDimSize(1), matrix.getElementTypeBitWidth() / 8);
  return tile::SharedType::get(context, matrix.getShape(), matrix.getElementType(),
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

Value ChunkEmitter::integers(Type type, int32_t value) {
  return arith::ConstantOp::create(
      builder, loc,
      DenseElementsAttr::get(cast<RankedTensorType>(type), builder.getI32IntegerAttr(value)));
}

Value ChunkEmitter::asTokens(Value number) {
  if (isa<RankedTensorType>(number.getType()))
    return number;
  return tile::SplatOp::create(builder, loc, layouts.tokens(number.getType()), number);
}

Value ChunkEmitter::onKeys(Value tokens) {
  return tile::ExpandOp::create(builder, loc, layouts.tokenKeys(builder.getF32Type()), tokens, 1);
}

Value ChunkEmitter::inRows(ArrayRef<Value> tokens) {
  const Value *known = llvm::find_if(tokens, [](Value value) { return bool(value); });
  if (known == tokens.end() || tokens.size() == 1)
    return tokens.front();
  auto type = cast<RankedTensorType>(known->getType());
  SmallVector<Value> values =
      llvm::map_to_vector(tokens, [&](Value value) { return value ? value : zero(type); });
  RankedTensorType rowKeys = layouts.rowKeys(type.getElementType());
  return tile::InterleaveOp::create(builder, loc,
                                    type.getRank() == 2 ? rowKeys : sliceOf(rowKeys, 1), values);
}

Value ChunkEmitter::onValues(Value tokens, ChunkSide side) {
  Type f32 = builder.getF32Type();
  Value &result = crossed[side == ChunkSide::Outputs][tokens];
  if (!result) {
    if (side == ChunkSide::Writes)
      tokens = inRows(SmallVector<Value>(rows.count, tokens));
    Value vector = crossing.vector(tokens, layouts.valueRows(side, f32));
    result = tile::ExpandOp::create(builder, loc, layouts.values(side, f32), vector,
                                    layouts.isTransposed(side) ? 0 : 1);
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
  auto before = [&](RankedTensorType type, int64_t axis, Value limit) {
    Value place = tile::CoordinateOp::create(builder, loc, type, axis);
    Value end = tile::SplatOp::create(builder, loc, type, limit);
    return compare(arith::CmpIPredicate::slt, place, end);
  };
  tokenIsThere = before(layouts.tokens(i32), 0, count);
  keyIsThere = before(layouts.tokenKeys(i32), 0, count);
  Value rowCount = count;
  if (rows.count > 1)
    rowCount = arith::MulIOp::create(builder, loc, count,
                                     arith::ConstantIntOp::create(builder, loc, rows.count, 32));
  valueIsThere = before(layouts.values(ChunkSide::Writes, i32), 1, rowCount);
}

bool ChunkEmitter::isInput(Value value) {
  return llvm::any_of(linattn::OperatorOp(step.op).getInputs(), [&](Value input) {
    return placed.lookupOrNull(input) == value ||
           of(ChunkSide::Writes).lookupOrNull(input) == value;
  });
}

/// For what is T, T x K or, of writes, VT x C.
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

/// A key decayed by the numbers `from` to before `to` of its token's path, and by others.
Value ChunkEmitter::decayedKey(Value key, unsigned from, unsigned to,
                               ArrayRef<linattn::DecayOp> others) {
  SmallVector<Value> own;
  for (unsigned i = from; i < to; ++i)
    own.push_back(placed.lookup(step.states.front().decays[i].logDecay));
  for (linattn::DecayOp decay : others)
    own.push_back(placed.lookup(decay.getLogDecay()));
  return ifThere(decayedBy(placed.lookup(key), own));
}

Value ChunkEmitter::sumOfDecays(unsigned from, unsigned to) {
  Value perToken, perKey;
  for (unsigned i = from; i < to; ++i) {
    const analysis::Decay &decay = step.states.front().decays[i];
    Value l = asTokens(placed.lookup(decay.logDecay));
    Value &sum = decay.axis == Axis::Key ? perKey : perToken;
    sum = add(sum, l);
  }
  bool isPerKey = step.states.front().decaysAlong(Axis::Key);
  if (perToken && isPerKey)
    perKey = add(perKey, onKeys(perToken));
  return ifThere(isPerKey ? perKey : perToken);
}

/// e to the sum of log decays over the tokens of the chunk up to each one, or behind it.
Value ChunkEmitter::scan(bool reverse, bool exclusive) {
  if (!logDecay)
    return {};
  Value sum = tile::ScanOp::create(builder, loc, inBase2(), /*axis=*/0, layouts.tokensPerChunk,
                                   reverse, exclusive);
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

/// The matrices of reads and of writes, each at the end of its row or, of reads, at its start.
void ChunkEmitter::emitGrams() {
  SmallVector<Value> keys;
  SmallVector<bool> inclusive;
  for (auto [i, matrix] : llvm::enumerate(rows.matrices)) {
    SmallVector<Value> ofToken(rows.count);
    for (unsigned row = 0; row < rows.count; ++row)
      if (matrix.reads[row]) {
        const analysis::Read &read = step.reads[*matrix.reads[row]];
        auto [from, to] = rows.ownDecays(read, {unsigned(i), row});
        ofToken[row] = decayedKey(read.key, from, to, read.keyDecays);
      }
    keys.push_back(inRows(ofToken));
    inclusive.push_back(matrix.inclusive.value_or(true));
  }
  if (keys.empty())
    return;
  SmallVector<Value> writes(rows.count), decays(rows.count);
  for (auto [row, write] : llvm::enumerate(step.writes))
    writes[row] = decayedKey(write.key, write.clock, rows.decaysEnd(row));
  for (unsigned row = 0; row < rows.count; ++row)
    decays[row] = sumOfDecays(rows.decaysBegin(row), rows.decaysEnd(row));
  SmallVector<Type> types(keys.size(), layouts.pairs(builder.getF32Type()));
  FloatAttr bound; // of a token, hence of each row
  if (std::optional<double> lowest = step.states.front().totalBound(); lowest && logDecay)
    bound = builder.getF64FloatAttr(*lowest);
  auto op = tile::DecayedGramOp::create(builder, loc, types, keys, inRows(writes), inRows(decays),
                                        inclusive, bound, builder.getBF16Type(), isHiLo());
  llvm::append_range(grams, op.getGrams());
}

/// What a read gets of the write of its row.
Value ChunkEmitter::onDiagonal(const analysis::Read &read, ChunkPlace place) {
  const analysis::Write &write = step.writes[place.row];
  if (!step.sees(read, write))
    return {};
  Value terms = multiply(placed.lookup(read.key), placed.lookup(write.key));
  SmallVector<Value> between;
  for (unsigned i = write.clock; i < read.clock; ++i)
    between.push_back(placed.lookup(step.states.front().decays[i].logDecay));
  for (linattn::DecayOp decay : read.keyDecays)
    between.push_back(placed.lookup(decay.getLogDecay()));
  Value sum = tile::ReduceOp::create(builder, loc, TypeRange(layouts.tokens(builder.getF32Type())),
                                     decayedBy(terms, between), /*axis=*/1)
                  .getResult(0);
  return ifThere(sum);
}

Value ChunkEmitter::toBF16(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return arith::TruncFOp::create(builder, loc, type.clone(builder.getBF16Type()), value);
}

Value ChunkEmitter::toShared(Value matrix) {
  Value narrow = toBF16(matrix);
  return crossing.matrix(narrow, layouts.shared(cast<RankedTensorType>(narrow.getType())));
}

/// What bf16 takes from a matrix.
Value ChunkEmitter::restToShared(Value matrix) {
  Value rounded = arith::ExtFOp::create(builder, loc, matrix.getType(), toBF16(matrix));
  return toShared(arith::SubFOp::create(builder, loc, matrix, rounded));
}

/// A factor of a product with what enters writes.
ChunkEmitter::ProductFactor ChunkEmitter::bothToShared(Value matrix) {
  Value rounded = toShared(matrix);
  return {rounded, isHiLo() ? restToShared(matrix) : Value()};
}

/// X of a read.
Value ChunkEmitter::decayedRead(unsigned number) {
  const analysis::Read &read = step.reads[number];
  bool inclusive = read.clock == allDecays();
  Value &sum = scans[inclusive];
  if (!sum)
    sum = scan(/*reverse=*/false, /*exclusive=*/!inclusive);
  return multiply(decayedKey(read.key, 0, inclusive ? 0 : read.clock, read.keyDecays), sum);
}

/// X of each output read, gamma X of the feedback reads, A of the writes.
void ChunkEmitter::emitFactors() {
  SmallVector<Value> feedback(rows.count), writes(rows.count);
  for (auto [number, read] : llvm::enumerate(step.reads)) {
    if (!read.isOutput && !read.isFeedback)
      continue;
    Value decayed = decayedRead(number);
    if (read.isOutput)
      outputs[number].inShared = toShared(decayed);
    for (auto [row, write] : llvm::enumerate(step.writes))
      if (const Coefficient *gamma = write.value.find(number)) {
        Value tokens = ifThere(tokensOf(*gamma));
        feedback[row] = add(feedback[row], tokens ? multiply(decayed, onKeys(tokens)) : decayed);
      }
  }
  if (Value all = inRows(feedback))
    feedbackInShared = bothToShared(all);
  Value sum = scan(/*reverse=*/true, /*exclusive=*/true);
  for (auto [row, write] : llvm::enumerate(step.writes))
    writes[row] = multiply(decayedKey(write.key, write.clock, allDecays()), sum);
  writesInShared = bothToShared(inRows(writes));
}

/// One number per row or token, over a matrix of pairs.
Value ChunkEmitter::onPairs(Value numbers, RankedTensorType pairs) {
  auto type = cast<RankedTensorType>(numbers.getType());
  Value vector = tile::ConvertOp::create(builder, loc,
                                         sliceOf(pairs.clone(type.getElementType()), 1), numbers);
  return tile::ExpandOp::create(builder, loc, pairs.clone(type.getElementType()), vector, 1);
}

Value ChunkEmitter::coordinate(RankedTensorType type, int64_t axis) {
  return tile::CoordinateOp::create(builder, loc, type.clone(builder.getI32Type()), axis);
}

/// What a matrix of reads adds to the system: gamma N, or null.
Value ChunkEmitter::systemOf(unsigned number) {
  const ChunkRows::Matrix &matrix = rows.matrices[number];
  RankedTensorType pairs = layouts.pairs(builder.getF32Type());
  RankedTensorType tokens = layouts.tokens(builder.getF32Type());
  SmallVector<Value> factors(rows.count), unseen(rows.count);
  bool enters = false, isOne = rows.count == 1;
  for (auto [row, write] : llvm::enumerate(step.writes)) {
    unseen[row] = integers(layouts.tokens(builder.getI32Type()), matrix.unseen[row]);
    const Coefficient *gamma = matrix.reads[row] ? write.value.find(*matrix.reads[row]) : nullptr;
    if (!gamma || rows.feedback.at({unsigned(row), *matrix.reads[row]}).matrix != number)
      continue;
    enters = true;
    factors[row] = ifThere(tokensOf(*gamma));
    isOne &= !factors[row];
    if (!factors[row])
      factors[row] = arith::ConstantOp::create(
          builder, loc, DenseElementsAttr::get(tokens, builder.getF32FloatAttr(1)));
  }
  if (!enters)
    return {};
  Value gram = grams[number];
  Value term = isOne ? gram : multiply(gram, onPairs(inRows(factors), pairs));
  if (!llvm::any_of(matrix.unseen, [](unsigned rows) { return rows != 0; }))
    return term;
  Value end =
      arith::SubIOp::create(builder, loc, coordinate(pairs, 0), onPairs(inRows(unseen), pairs));
  return arith::SelectOp::create(builder, loc,
                                 compare(arith::CmpIPredicate::slt, coordinate(pairs, 1), end),
                                 term, zero(pairs));
}

/// N of an output read.
Value ChunkEmitter::pairsOf(ChunkPlace place, Value diagonal) {
  RankedTensorType reads = layouts.reads(builder.getF32Type());
  Value gram = grams[place.matrix];
  Value row = coordinate(reads, 0), column = coordinate(reads, 1);
  if (rows.count > 1) {
    gram = tile::PickOp::create(builder, loc, reads, place.row, gram);
    Type type = row.getType();
    row = arith::MulIOp::create(builder, loc, row, integers(type, rows.count));
    row = arith::AddIOp::create(builder, loc, row, integers(type, place.row));
  }
  Value rest = zero(reads);
  if (diagonal)
    rest = arith::SelectOp::create(builder, loc, compare(arith::CmpIPredicate::eq, row, column),
                                   onPairs(diagonal, reads), rest);
  return arith::SelectOp::create(builder, loc, compare(arith::CmpIPredicate::sgt, row, column),
                                 gram, rest);
}

/// The inverse of I - sum of gamma N, less I, and N of the output reads.
void ChunkEmitter::emitSystem() {
  RankedTensorType pairs = layouts.pairs(builder.getF32Type());
  for (auto &[number, factors] : outputs)
    factors.pairs = bothToShared(pairsOf(rows.outputs.at(number), factors.diagonal));
  Value system;
  for (unsigned i = 0; i < rows.matrices.size(); ++i)
    system = add(system, systemOf(i));
  if (!system)
    return;
  system = arith::NegFOp::create(builder, loc, system);
  // Less the unit matrix, which takes no product. Tokens with one key have one number along a
  // diagonal: rounded, it is wrong for all of them in the same direction, and reads add that up
  // over the chunk. So what the rounding takes away is a factor too.
  Value isBelow = compare(arith::CmpIPredicate::sgt, coordinate(pairs, 0), coordinate(pairs, 1));
  Value below = arith::SelectOp::create(
      builder, loc, isBelow, tile::InvertUnitLowerOp::create(builder, loc, system), zero(pairs));
  inverse.value = toShared(below);
  inverse.rest = restToShared(below);
}

//===----------------------------------------------------------------------===//
// All of it
//===----------------------------------------------------------------------===//

FailureOr<Value> ChunkEmitter::emit(Value state, Value count,
                                    llvm::function_ref<void(unsigned, Value)> store) {
  if (failed(emitLocals()))
    return failure();
  emitMasks(count);
  logDecay = sumOfDecays(0, allDecays());
  for (auto [number, read] : llvm::enumerate(step.reads))
    if (read.isOutput)
      outputs[number].diagonal = onDiagonal(read, rows.outputs.at(number));
  // In this order key vectors are needed in registers no longer when the Grams are computed.
  crossing.start();
  emitFactors();
  emitGrams();
  emitSystem();
  crossing.ready();
  return emitWalk(state, store);
}
