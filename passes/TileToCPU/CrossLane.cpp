//===- CrossLane.cpp - Conversions and sums over lanes --------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/TileToCPU/Lowering.h"

using namespace mlir;
using namespace dl::tile;
using dl::layout::Digit;
using dl::layout::Source;

//===----------------------------------------------------------------------===//
// Conversion
//===----------------------------------------------------------------------===//

/// Every register fetches its element from the owner in the other layout. Places of padding that
/// only the result has are wrapped into the operand's by the digits: they read something, which is
/// all they may.
void LaneLowering::convert(TypedValue<RankedTensorType> value,
                           TypedValue<RankedTensorType> converted, bool transposed) {
  if (Value splat = places.lookup(value).splat)
    return bind(converted, {nullptr, splat});
  const Layout &from = layoutOf(value.getType()), &to = layoutOf(converted.getType());
  Arena::Buffer *result = bindNew(converted);
  forEachElement(to, [&](Value thread, Value reg, const Coordinates &coordinates) {
    Value source = host->i64(0);
    for (unsigned axis = 0; axis < to.rank(); ++axis)
      source = host->add(source, shareOfPlace(from, transposed ? 1 - axis : axis, coordinates[axis],
                                              to.covered(axis)));
    Value element = loadElement(value, source);
    storeElement(result, element, flat(to, thread, reg));
  });
}

/// An element by its coordinates, from the thread that owns it.
Value LaneLowering::loadPlaced(Value tensor, const Coordinates &coordinates) {
  const Layout &layout = layoutOf(cast<RankedTensorType>(tensor.getType()));
  Value place = host->i64(0);
  for (auto [axis, coordinate] : llvm::enumerate(coordinates))
    place = host->add(place, shareOfPlace(layout, axis, coordinate, layout.covered(axis)));
  return loadElement(tensor, place);
}

void LaneLowering::lowerInterleave(InterleaveOp op) {
  const Layout &layout = layoutOf(op.getResult().getType());
  Arena::Buffer *result = bindNew(op.getResult());
  int64_t count = op.getValues().size();
  forEachElement(layout, [&](Value thread, Value reg, const Coordinates &coordinates) {
    Coordinates inOperand = coordinates;
    inOperand[0] = host->div(coordinates[0], count);
    Value which = host->rem(coordinates[0], count), element;
    for (auto [i, value] : llvm::enumerate(op.getValues())) {
      Value candidate = loadPlaced(value, inOperand);
      element = element ? arith::SelectOp::create(*host, host->loc, host->less(which, i), element,
                                                  candidate)
                        : candidate;
    }
    storeElement(result, element, flat(layout, thread, reg));
  });
}

void LaneLowering::lowerPick(PickOp op) {
  const Layout &layout = layoutOf(op.getResult().getType());
  Arena::Buffer *result = bindNew(op.getResult());
  int64_t count = op.getValue().getType().getDimSize(0) / op.getResult().getType().getDimSize(0);
  forEachElement(layout, [&](Value thread, Value reg, const Coordinates &coordinates) {
    Coordinates inOperand = coordinates;
    inOperand[0] = host->add(host->mul(coordinates[0], count), host->i64(op.getWhich()));
    storeElement(result, loadPlaced(op.getValue(), inOperand), flat(layout, thread, reg));
  });
}

LogicalResult LaneLowering::lowerCoordinate(CoordinateOp op) {
  const Layout &layout = layoutOf(op.getResult().getType());
  Arena::Buffer *result = bindNew(op.getResult());
  forEachElement(layout, [&](Value thread, Value reg, const Coordinates &coordinates) {
    Value coordinate =
        arith::TruncIOp::create(*host, host->loc, host->getI32Type(), coordinates[op.getAxis()]);
    storeElement(result, coordinate, flat(layout, thread, reg));
  });
  return success();
}

//===----------------------------------------------------------------------===//
// Insertion
//===----------------------------------------------------------------------===//

LogicalResult LaneLowering::lowerInsert(InsertOp op) {
  unsigned axis = op.getAxis();
  const Layout &layout = layoutOf(op.getMatrix().getType());
  const Layout &slice = layoutOf(op.getVector().getType());
  Value row = host->toI64(scalars.lookup(op.getRow()));
  Arena::Buffer *result = bindNew(op.getResult());
  forEachElement(layout, [&](Value thread, Value reg, const Coordinates &coordinates) {
    Value hit =
        arith::CmpIOp::create(*host, host->loc, arith::CmpIPredicate::eq, coordinates[axis], row);
    Value place = flat(layout, thread, reg);
    Value inserted =
        loadElement(op.getVector(), flat(slice, thread, sliceRegister(layout, axis, reg)));
    Value kept = loadElement(op.getMatrix(), place);
    storeElement(result, arith::SelectOp::create(*host, host->loc, hit, inserted, kept), place);
  });
  return success();
}

//===----------------------------------------------------------------------===//
// Sums: registers, lanes, warps
//===----------------------------------------------------------------------===//

LogicalResult LaneLowering::lowerReduce(ReduceOp op) {
  unsigned axis = op.getAxis();
  const Layout &layout = layoutOf(cast<RankedTensorType>(op.getValues().front().getType()));
  Value zero = host->zero(host->getF32Type());
  auto term = [&](unsigned i, Value thread, Value reg, Value inside, Value sum) -> Value {
    Value value = loadElement(op.getValues()[i], flat(layout, thread, reg));
    if (inside)
      value = arith::SelectOp::create(*host, host->loc, inside, value, zero);
    return arith::AddFOp::create(*host, host->loc, sum, value);
  };
  SmallVector<Arena::Buffer *> sums = allocateSums(layout, axis, op.getResults().size());
  sumRegisters(layout, axis, sums, -0.0f, term); // -0 + x = x for every x
  combine(layout, axis, op.getResults(), sums);
  return success();
}

LogicalResult LaneLowering::lowerDot(DotOp op) {
  unsigned axis = op.getAxis();
  const Layout &layout = layoutOf(op.getMatrix().getType());
  SmallVector<Arena::Buffer *> sums = allocateSums(layout, axis, op.getResults().size());
  addProducts(op.getVectors(), op.getMatrix(), axis, sums, 0.0f);
  if (TypedValue<RankedTensorType> more = op.getMoreMatrix())
    addProducts(op.getMoreVectors(), more, axis, sums, std::nullopt);
  combine(layout, axis, op.getResults(), sums);
  return success();
}

void LaneLowering::addProducts(ValueRange vectors, TypedValue<RankedTensorType> matrix,
                               unsigned axis, ArrayRef<Arena::Buffer *> sums,
                               std::optional<float> start) {
  const Layout &layout = layoutOf(matrix.getType());
  Value zero = host->zero(host->getF32Type());
  auto term = [&](unsigned i, Value thread, Value reg, Value inside, Value sum) -> Value {
    Value vector = vectors[i];
    const Layout &slice = layoutOf(cast<RankedTensorType>(vector.getType()));
    Value factor = loadElement(vector, flat(slice, thread, sliceRegister(layout, 1 - axis, reg)));
    Value element = loadElement(matrix, flat(layout, thread, reg));
    if (inside) {
      factor = arith::SelectOp::create(*host, host->loc, inside, factor, zero);
      element = arith::SelectOp::create(*host, host->loc, inside, element, zero);
    }
    return math::FmaOp::create(*host, host->loc, factor, element, sum);
  };
  sumRegisters(layout, axis, sums, start, term);
}

SmallVector<Arena::Buffer *> LaneLowering::allocateSums(const Layout &layout, unsigned axis,
                                                        size_t count) {
  SmallVector<Arena::Buffer *> sums;
  int64_t bytes = 4 * layout.numThreads * layout.slice(axis).numRegisters;
  for (size_t i = 0; i < count; ++i)
    sums.push_back(arena.allocate(bytes));
  return sums;
}

void LaneLowering::combine(const Layout &layout, unsigned axis, ResultRange results,
                           MutableArrayRef<Arena::Buffer *> sums) {
  combineLanes(layout, axis, sums);
  combineWarps(layout, axis, sums);
  for (auto [result, sum] : llvm::zip(results, sums)) {
    if (isDistributed(result.getType())) {
      bind(result, {sum, {}});
      continue;
    }
    scalars.map(result, host->load(pointerTo(sum),
                                   result.getType())); // all threads hold it: take the first
    arena.release(sum);
  }
}

/// Registers of the parent are written (s, k): s counts those of the slice, k those along the axis
/// in ascending order of the coordinate. Without a start, sums go on from what they are.
void LaneLowering::sumRegisters(const Layout &layout, unsigned axis, ArrayRef<Arena::Buffer *> sums,
                                std::optional<float> start, Term term) {
  SmallVector<HostBuilder::Term> others, alongAxis, coordinates;
  int64_t numSlice = 1, numAlong = 1;
  for (const Digit &d : layout.digitsOf(Source::Register))
    if (d.axis != axis) {
      others.push_back({numSlice, d.mod, d.div});
      numSlice *= d.mod;
    }
  SmallVector<Digit> digits = layout.digitsOf(Source::Register, axis);
  llvm::sort(digits, [](const Digit &a, const Digit &b) { return a.stride < b.stride; });
  for (const Digit &d : digits) {
    alongAxis.push_back({numAlong, d.mod, d.div});
    coordinates.push_back({numAlong, d.mod, d.stride});
    numAlong *= d.mod;
  }
  Type f32 = host->getF32Type();
  host->loop(layout.numThreads, [&](Value thread) {
    Value base = layout.isPadded(axis) ? digitSum(layout, Source::Thread, axis, thread) : Value();
    host->loop(numSlice, [&](Value s) {
      Value first = host->sum(s, numSlice, others);
      auto body = [&](Value k, ValueRange before) {
        Value reg = host->add(first, host->sum(k, numAlong, alongAxis));
        Value inside;
        if (base)
          inside =
              host->less(host->add(base, host->sum(k, numAlong, coordinates)), layout.shape[axis]);
        SmallVector<Value> after;
        for (auto [i, sum] : llvm::enumerate(before))
          after.push_back(term(i, thread, reg, inside, sum));
        return after;
      };
      Value place = host->add(host->mul(thread, numSlice), s);
      SmallVector<Value> init;
      for (Arena::Buffer *buffer : sums)
        init.push_back(start ? host->constant(host->getF32FloatAttr(*start))
                             : host->load(host->element(pointerTo(buffer), f32, place), f32));
      for (auto [buffer, sum] : llvm::zip(sums, host->loop(numAlong, init, body)))
        storeElement(buffer, sum, place);
    });
  });
}

/// A butterfly: in each step every lane adds what its partner held before.
void LaneLowering::combineLanes(const Layout &layout, unsigned axis,
                                MutableArrayRef<Arena::Buffer *> sums) {
  int64_t registers = layout.slice(axis).numRegisters;
  Type f32 = host->getF32Type();
  for (int64_t mask : layout.reductionLaneMasks(axis))
    for (Arena::Buffer *&sum : sums) {
      Arena::Buffer *next = arena.allocate(sum->bytes);
      Value before = pointerTo(sum);
      host->loop(layout.numThreads, [&](Value thread) {
        Value partner = host->bitXor(thread, host->i64(mask));
        host->loop(registers, [&](Value reg) {
          Value place = host->add(host->mul(thread, registers), reg);
          Value other = host->add(host->mul(partner, registers), reg);
          Value mine = host->load(host->element(before, f32, place), f32);
          Value theirs = host->load(host->element(before, f32, other), f32);
          storeElement(next, arith::AddFOp::create(*host, host->loc, mine, theirs), place);
        });
      });
      arena.release(sum);
      sum = next;
    }
}

/// Every thread adds up all warps along the axis, the fastest digit of the warp number first.
void LaneLowering::combineWarps(const Layout &layout, unsigned axis,
                                MutableArrayRef<Arena::Buffer *> sums) {
  int64_t registers = layout.slice(axis).numRegisters, warps = 1;
  SmallVector<HostBuilder::Term> ofWarp, ofThread;
  for (const layout::ThreadDigit &d : layout.reductionWarpDigits(axis)) {
    ofWarp.push_back({warps, d.mod, d.div});
    ofThread.push_back({d.div, d.mod, d.div});
    warps *= d.mod;
  }
  if (warps == 1)
    return;
  Type f32 = host->getF32Type();
  Value nothing = host->constant(host->getF32FloatAttr(-0.0f));
  for (Arena::Buffer *&sum : sums) {
    Arena::Buffer *next = arena.allocate(sum->bytes);
    Value before = pointerTo(sum);
    host->loop(layout.numThreads, [&](Value thread) {
      Value first = host->sub(thread, host->sum(thread, layout.numThreads, ofThread));
      host->loop(registers, [&](Value reg) {
        auto body = [&](Value warp, ValueRange total) {
          Value other = host->add(first, host->sum(warp, warps, ofWarp));
          Value place = host->add(host->mul(other, registers), reg);
          Value part = host->load(host->element(before, f32, place), f32);
          return SmallVector<Value>{arith::AddFOp::create(*host, host->loc, total[0], part)};
        };
        Value total = host->loop(warps, nothing, body).front();
        storeElement(next, total, host->add(host->mul(thread, registers), reg));
      });
    });
    arena.release(sum);
    sum = next;
  }
}

//===----------------------------------------------------------------------===//
// Sums of outer products
//===----------------------------------------------------------------------===//

/// As in conversions, padding that only c has reads something.
LogicalResult LaneLowering::lowerRankUpdate(RankUpdateOp op) {
  const Layout &a = layoutOf(op.getA().getType()), &b = layoutOf(op.getB().getType());
  const Layout &c = layoutOf(op.getC().getType());
  int64_t rows = a.shape[0];
  Value end = arith::MinSIOp::create(*host, host->loc, host->toI64(scalars.lookup(op.getCount())),
                                     host->i64(rows));
  Arena::Buffer *result = bindNew(op.getResult());
  forEachElement(c, [&](Value thread, Value reg, const Coordinates &at) {
    Value placeA = shareOfPlace(a, 1, at[0], c.covered(0));
    Value placeB = shareOfPlace(b, 1, at[1], c.covered(1));
    Value place = flat(c, thread, reg);
    auto loop = scf::ForOp::create(*host, host->loc, host->i64(0), end, host->i64(1),
                                   loadElement(op.getC(), place));
    {
      OpBuilder::InsertionGuard guard(*host);
      host->setInsertionPointToStart(loop.getBody());
      Value row = loop.getInductionVar();
      Value x = loadElement(op.getA(), host->add(placeA, shareOfPlace(a, 0, row, rows)));
      Value y = loadElement(op.getB(), host->add(placeB, shareOfPlace(b, 0, row, rows)));
      Value sum = loop.getRegionIterArg(0);
      scf::YieldOp::create(*host, host->loc,
                           ValueRange{math::FmaOp::create(*host, host->loc, x, y, sum)});
    }
    storeElement(result, loop.getResult(0), place);
  });
  return success();
}
