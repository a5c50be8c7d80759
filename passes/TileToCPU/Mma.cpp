//===- Mma.cpp - Matrix products through fragment tables ------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each element of C sums over k in ascending order, in f32 with fused multiply-adds. (The order
// inside a tensor-core instruction is not documented; its products are exact in f32 here as there.)
// A factor in registers comes from the lane and register its fragment names, of the warps that hold
// the accumulator: where A or B is repeated over warps, from the copy in the thread's own group.
// Padding along K takes no part. Where a factor is hi + lo, each k adds hi hi, lo hi and hi lo.
//
//===----------------------------------------------------------------------===//

#include "compiler/Layout/Atoms.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/TileToCPU/Lowering.h"

using namespace mlir;
using namespace dl;
using namespace dl::tile;

namespace {
/// An element of a factor in f32, as the instruction reads it: hi and, or null, lo.
struct Input {
  Value high, rest;
};
} // namespace

/// `narrow`: what an f32 element is split into, or null.
static Input asInput(HostBuilder &host, Value element, Type type, Type narrow) {
  if (!type.isF32())
    return {host.widen(element, type), {}};
  if (!narrow)
    return {host.roundToTF32(element), {}};
  auto round = [&](Value x) { return host.widen(host.narrow(x, narrow), narrow); };
  Value high = round(element);
  return {high, round(arith::SubFOp::create(host, host.loc, element, high))};
}

/// The share of a coordinate in the place of a factor's element. Among copies of a fragment it is
/// the one in the thread's own group of warps.
Value LaneLowering::placeInFragment(const Layout &layout, Value thread, unsigned axis,
                                    Value coordinate, int64_t below) {
  SmallVector<HostBuilder::Term> copies;
  for (const layout::ThreadDigit &d : layout.replicaDigits())
    copies.push_back({d.div, d.mod, d.div * layout.numRegisters});
  Value copy = host->sum(thread, layout.numThreads, copies);
  return host->add(copy, shareOfPlace(layout, axis, coordinate, below));
}

/// The type of the row's factors.
static Type narrowTypeOf(MmaOp op) {
  auto fragment = cast<FragmentAttr>(op.getC().getType().getEncoding());
  layout::ElementKind input =
      llvm::cantFail(layout::findInstruction(fragment.getInstruction()))->input;
  return input == layout::ElementKind::BF16 ? Type(BFloat16Type::get(op.getContext()))
                                            : Float16Type::get(op.getContext());
}

LogicalResult LaneLowering::lowerMma(MmaOp op) {
  auto tensorA = dyn_cast<RankedTensorType>(op.getA().getType());
  const Layout *a = tensorA ? &layoutOf(tensorA) : nullptr, &c = layoutOf(op.getC().getType());
  auto tensorB = dyn_cast<RankedTensorType>(op.getB().getType());
  const Layout *b = tensorB ? &layoutOf(tensorB) : nullptr;
  auto sharedA = dyn_cast<SharedType>(op.getA().getType());
  Type inputA = a ? tensorA.getElementType() : sharedA.getElementType();
  Type inputB =
      b ? tensorB.getElementType() : cast<SharedType>(op.getB().getType()).getElementType();
  Type narrow = op.getHilo() ? narrowTypeOf(op) : Type();
  int64_t depth = a ? a->shape[1] : sharedA.getShape()[1];
  Arena::Buffer *result = bindNew(op.getResult());

  forEachElement(c, [&](Value thread, Value reg, const Coordinates &at) {
    Value placeA = a ? placeInFragment(*a, thread, 0, at[0], c.covered(0)) : Value();
    Value placeB = b ? placeInFragment(*b, thread, 1, at[1], c.covered(1)) : Value();
    auto fromShared = [&](Value buffer, Value k) {
      Coordinates place = {at[1], k}; // N x K
      if (op.getTransposed())
        std::swap(place[0], place[1]);
      return host->load(sharedElement(buffer, place), inputB);
    };
    auto factorA = [&](Value k) {
      Value element = a ? loadElement(op.getA(), host->add(placeA, shareOfPlace(*a, 1, k, depth)))
                        : host->load(sharedElement(op.getA(), {at[0], k}), inputA);
      Input factor = asInput(*host, element, inputA, narrow);
      if (op.getRest() && !a)
        factor.rest =
            host->widen(host->load(sharedElement(op.getRest(), {at[0], k}), inputA), inputA);
      return factor;
    };
    auto factorB = [&](Value k) {
      Value element = b ? loadElement(op.getB(), host->add(placeB, shareOfPlace(*b, 0, k, depth)))
                        : fromShared(op.getB(), k);
      Input factor = asInput(*host, element, inputB, narrow);
      if (op.getRest() && !b)
        factor.rest = host->widen(fromShared(op.getRest(), k), inputB);
      return factor;
    };
    auto body = [&](Value k, ValueRange sum) {
      Input x = factorA(k), y = factorB(k);
      Value total = sum[0];
      for (auto [f, g] : {std::pair(x.high, y.high), {x.rest, y.high}, {x.high, y.rest}})
        if (f && g)
          total = math::FmaOp::create(*host, host->loc, f, g, total);
      return SmallVector<Value>{total};
    };
    Value place = flat(c, thread, reg);
    Value start = loadElement(op.getC(), place);
    // Outside the shape there may be no row of B in shared memory.
    Value total = host->select(
        insideShape(c, at), [&] { return host->loop(depth, start, body).front(); }, start);
    storeElement(result, total, place);
  });
  return success();
}
