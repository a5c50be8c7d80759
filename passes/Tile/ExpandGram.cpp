//===- ExpandGram.cpp - Decayed Grams by products that cannot overflow ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Layout/Shared.h"
#include "compiler/Schedule/Chunkwise.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/Tile/Passes.h"
#include <cmath>

using namespace mlir;
using namespace dl;
using namespace dl::tile;

namespace dl {
#define GEN_PASS_DEF_TILEEXPANDGRAM
#include "passes/Tile/Passes.h.inc"
} // namespace dl

namespace {

/// e^-104 is 0 in f32.
constexpr float kLowestLogDecay = -104;

constexpr int64_t kBlock = schedule::kGramBlock;

class GramExpansion {
public:
  explicit GramExpansion(DecayedGramOp op)
      : op(op), builder(op), loc(op.getLoc()), isHiLo(op.getHilo()), type(op.getA().getType()),
        pairs(cast<RankedTensorType>(op.getGrams().front().getType())) {}

  void run() {
    for (size_t i = 0; i < op.getX().size(); ++i)
      grams.push_back(alloc(
          SharedType::get(op.getContext(), pairs.getShape(), builder.getF32Type(), swizzle(0))));
    bool isPerKey = op.getDecay() && op.getDecay().getType() == type;
    SmallVector<Value> results = isPerKey ? expandLevels() : expandPlain();
    op.replaceAllUsesWith(results);
    op.erase();
  }

private:
  SwizzledAttr swizzle(int64_t bytes) { return SwizzledAttr::get(op.getContext(), bytes); }
  Value alloc(SharedType buffer) { return AllocOp::create(builder, loc, buffer); }
  Value allocFactor() {
    int64_t bytes = layout::widestSwizzle(type.getDimSize(1), 2);
    return alloc(
        SharedType::get(op.getContext(), type.getShape(), op.getProduct(), swizzle(bytes)));
  }
  /// Buffers of factors of a tile.gram, and of what their rounding takes away if that counts.
  struct Factors {
    SmallVector<Value> rounded, rests;
  };
  void addTo(Factors &factors) {
    factors.rounded.push_back(allocFactor());
    if (isHiLo)
      factors.rests.push_back(allocFactor());
  }
  void store(Value value, const Factors &factors, size_t number) {
    auto wide = cast<RankedTensorType>(value.getType());
    auto toNarrow = [&](Value x) {
      return arith::TruncFOp::create(builder, loc, wide.clone(op.getProduct()), x);
    };
    Value narrow = toNarrow(value);
    LocalStoreOp::create(builder, loc, narrow, factors.rounded[number]);
    if (!isHiLo)
      return;
    Value rest = arith::SubFOp::create(builder, loc, value,
                                       arith::ExtFOp::create(builder, loc, wide, narrow));
    LocalStoreOp::create(builder, loc, toNarrow(rest), factors.rests[number]);
  }
  /// `x`, `a`: numbers of factors.
  void gram(const Factors &factors, ArrayRef<size_t> x, size_t a, IntegerAttr half, bool diagonal) {
    auto xOf = [&](ArrayRef<Value> buffers) {
      return llvm::map_to_vector(x, [&](size_t i) { return buffers[i]; });
    };
    GramOp::create(builder, loc, xOf(factors.rounded),
                   isHiLo ? xOf(factors.rests) : SmallVector<Value>(), factors.rounded[a],
                   isHiLo ? factors.rests[a] : Value(), grams, half, diagonal);
  }
  /// Numbers of all x.
  SmallVector<size_t> all() { return llvm::to_vector(llvm::seq<size_t>(0, op.getX().size())); }
  void barrier() { BarrierOp::create(builder, loc, /*async_proxy=*/false); }
  SmallVector<Value> loadGrams() {
    barrier();
    SmallVector<Value> results;
    for (Value gram : grams)
      results.push_back(LocalLoadOp::create(builder, loc, pairs, gram));
    return results;
  }
  Value splat(RankedTensorType type, TypedAttr value) {
    return arith::ConstantOp::create(builder, loc,
                                     DenseElementsAttr::get(type.clone(value.getType()), value));
  }
  Value scan(Value value, int64_t run, bool reverse, bool exclusive) {
    return ScanOp::create(builder, loc, value, /*axis=*/0, run, reverse, exclusive);
  }
  Value multiply(Value a, Value b) { return arith::MulFOp::create(builder, loc, a, b); }
  Value exp2(Value x) { return math::Exp2Op::create(builder, loc, x); }
  /// Of base 2, which the machine raises: one product for all sums that decays are in.
  Value inBase2(Value decay) {
    return multiply(decay, splat(cast<RankedTensorType>(decay.getType()),
                                 builder.getF32FloatAttr(float(M_LOG2E))));
  }

  SmallVector<Value> expandLevels();
  bool isBoundInBlocks();
  void expandBlocks(Value decay, const Factors &factors);
  SmallVector<Value> expandPlain();
  /// Whether a vector comes from memory in the type of products.
  bool isExact(Value vector) {
    auto extension = vector.getDefiningOp<arith::ExtFOp>();
    return extension && getElementTypeOrSelf(extension.getIn()) == op.getProduct();
  }
  void stageVectors();
  Value vector(Value x);
  SmallVector<Value> factorsOf(Value decay, int64_t half);
  Value isLater(int64_t half);
  Value asRows(Value tokens, unsigned axis);

  DecayedGramOp op;
  OpBuilder builder;
  Location loc;
  bool isHiLo;
  RankedTensorType type, pairs;
  SmallVector<Value> grams;
  llvm::DenseMap<Value, Value> staged; ///< buffers of vectors that have the type of products
};

/// Whether a token lies in the later half of its block.
Value GramExpansion::isLater(int64_t half) {
  RankedTensorType integers = type.clone(builder.getI32Type());
  Value token = CoordinateOp::create(builder, loc, integers, /*axis=*/0);
  Value bit =
      arith::AndIOp::create(builder, loc, token, splat(integers, builder.getI32IntegerAttr(half)));
  return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, bit,
                               splat(integers, builder.getI32IntegerAttr(0)));
}

/// Vectors that come from memory in the type of products lie in shared memory between levels,
/// exactly: in registers they would be alive through all of them.
void GramExpansion::stageVectors() {
  SmallVector<Value> vectors(op.getX());
  vectors.push_back(op.getA());
  for (Value vector : vectors) {
    if (!isExact(vector))
      continue;
    Value &buffer = staged[vector];
    if (buffer)
      continue;
    buffer = allocFactor();
    LocalStoreOp::create(builder, loc, vector.getDefiningOp<arith::ExtFOp>().getIn(), buffer);
  }
}

/// Each thread reads what it has written.
Value GramExpansion::vector(Value x) {
  Value buffer = staged.lookup(x);
  if (!buffer)
    return x;
  Value narrow = LocalLoadOp::create(builder, loc, type.clone(op.getProduct()), buffer);
  return arith::ExtFOp::create(builder, loc, type, narrow);
}

/// For each x its factor at readers; the first one has that of a at writers.
SmallVector<Value> GramExpansion::factorsOf(Value decay, int64_t half) {
  Value later = isLater(half);
  Value behind = scan(decay, half, /*reverse=*/true, /*exclusive=*/true);
  std::array<Value, 2> exponentials; // by whether readers see their own decay
  SmallVector<Value> factors;
  for (auto [x, inclusive] : llvm::zip(op.getX(), op.getInclusive())) {
    Value &e = exponentials[inclusive];
    if (!e) {
      Value before = scan(decay, half, /*reverse=*/false, /*exclusive=*/!inclusive);
      e = exp2(arith::SelectOp::create(builder, loc, later, before, behind));
    }
    Value chosen = vector(x);
    if (factors.empty() && x != op.getA())
      chosen = arith::SelectOp::create(builder, loc, later, chosen, vector(op.getA()));
    factors.push_back(multiply(chosen, e));
  }
  return factors;
}

bool GramExpansion::isBoundInBlocks() {
  return op.getBound() && schedule::isBoundInGramBlocks(op.getBound()->convertToDouble());
}

/// One product for all pairs of a block: with P the sum of decays from the block's start on, and c
/// half of what it can be at most, x e^(P + c) and a e^(-P - c). No token's numbers depend on later
/// ones; pairs of a reader with a later writer, which may overflow, mean nothing.
void GramExpansion::expandBlocks(Value decay, const Factors &factors) {
  float middle = float(-kBlock * op.getBound()->convertToDouble() / 2 * M_LOG2E);
  Value shift = splat(type, builder.getF32FloatAttr(middle));
  std::array<Value, 2> sums; // by whether they have the token's own decay
  auto sumOf = [&](bool inclusive) {
    Value &sum = sums[inclusive];
    if (!sum)
      sum = arith::AddFOp::create(builder, loc, scan(decay, kBlock, false, !inclusive), shift);
    return sum;
  };
  for (auto [i, x, inclusive] : llvm::enumerate(op.getX(), op.getInclusive()))
    store(multiply(vector(x), exp2(sumOf(inclusive))), factors, i);
  Value negated = arith::NegFOp::create(builder, loc, sumOf(true));
  size_t last = op.getX().size();
  store(multiply(vector(op.getA()), exp2(negated)), factors, last);
  barrier();
  gram(factors, all(), last, IntegerAttr(), /*diagonal=*/true);
}

SmallVector<Value> GramExpansion::expandLevels() {
  // Two sets of buffers take turns, and a level need not wait for the products of the one before
  // it. Of factors that are two each there would be too many.
  SmallVector<Factors, 2> sets(isHiLo ? 1 : 2);
  for (Factors &set : sets)
    for (size_t i = 0; i < op.getX().size(); ++i)
      addTo(set);
  stageVectors();
  unsigned level = 0;
  Value decay = inBase2(op.getDecay());
  int64_t first = 1;
  if (isBoundInBlocks()) {
    Factors factors = sets[level++ % sets.size()];
    addTo(factors);
    expandBlocks(decay, factors);
    first = kBlock;
  }
  for (int64_t half = first; half < type.getDimSize(0); half *= 2, ++level) {
    const Factors &set = sets[level % sets.size()];
    if (isHiLo && level > 0)
      barrier();
    for (auto [i, factor] : llvm::enumerate(factorsOf(decay, half)))
      store(factor, set, i);
    barrier();
    gram(set, all(), 0, builder.getI64IntegerAttr(half), /*diagonal=*/false);
  }
  return loadGrams();
}

/// One number per token, over the rows (axis 1 is new) or columns of the pairs.
Value GramExpansion::asRows(Value tokens, unsigned axis) {
  Value vector = builder.createOrFold<ConvertOp>(loc, sliceType(pairs, axis), tokens);
  return ExpandOp::create(builder, loc, pairs, vector, axis);
}

SmallVector<Value> GramExpansion::expandPlain() {
  llvm::MapVector<Value, size_t> numbers;
  for (Value vector :
       llvm::concat<Value>(SmallVector<Value>(op.getX()), SmallVector<Value>{op.getA()}))
    numbers.insert({vector, numbers.size()});
  isHiLo &= !llvm::all_of(numbers, [&](auto &entry) { return isExact(entry.first); });
  Factors factors;
  for (auto [vector, number] : numbers) {
    addTo(factors);
    store(vector, factors, number);
  }
  barrier();
  gram(factors, llvm::map_to_vector(op.getX(), [&](Value x) { return numbers.lookup(x); }),
       numbers.lookup(op.getA()), IntegerAttr(), /*diagonal=*/false);
  SmallVector<Value> results = loadGrams();
  if (!op.getDecay())
    return results;
  auto tokens = cast<RankedTensorType>(op.getDecay().getType());
  Value lowest = splat(tokens, builder.getF32FloatAttr(kLowestLogDecay));
  Value decay = inBase2(arith::MaxNumFOp::create(builder, loc, op.getDecay(), lowest));
  int64_t chunk = type.getDimSize(0);
  Value after = scan(decay, chunk, /*reverse=*/false, /*exclusive=*/false), before;
  Value written = asRows(after, 0);
  for (auto [gram, inclusive] : llvm::zip(results, op.getInclusive())) {
    if (!inclusive && !before)
      before = scan(decay, chunk, /*reverse=*/false, /*exclusive=*/true);
    Value read = asRows(inclusive ? after : before, 1);
    gram = multiply(gram, exp2(arith::SubFOp::create(builder, loc, read, written)));
  }
  return results;
}

struct TileExpandGram : dl::impl::TileExpandGramBase<TileExpandGram> {
  void runOnOperation() override {
    SmallVector<DecayedGramOp> grams;
    getOperation().walk([&](DecayedGramOp op) { grams.push_back(op); });
    for (DecayedGramOp op : grams)
      GramExpansion(op).run();
  }
};

} // namespace
