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
// Padding along K takes no part.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/TileToCPU/Lowering.h"

using namespace mlir;
using namespace dl::tile;

/// A factor as f32, as the instruction reads it.
static Value asInput(HostBuilder &host, Value element, Type type) {
  return type.isF32() ? host.roundToTF32(element) : host.widen(element, type);
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

LogicalResult LaneLowering::lowerMma(MmaOp op) {
  auto tensorA = dyn_cast<RankedTensorType>(op.getA().getType());
  const Layout *a = tensorA ? &layoutOf(tensorA) : nullptr, &c = layoutOf(op.getC().getType());
  auto tensorB = dyn_cast<RankedTensorType>(op.getB().getType());
  const Layout *b = tensorB ? &layoutOf(tensorB) : nullptr;
  auto sharedA = dyn_cast<SharedType>(op.getA().getType());
  Type input = a ? tensorA.getElementType() : sharedA.getElementType(); // of B too
  int64_t depth = a ? a->shape[1] : sharedA.getShape()[1];
  Arena::Buffer *result = bindNew(op.getResult());

  forEachElement(c, [&](Value thread, Value reg, const Coordinates &at) {
    Value placeA = a ? placeInFragment(*a, thread, 0, at[0], c.covered(0)) : Value();
    Value placeB = b ? placeInFragment(*b, thread, 1, at[1], c.covered(1)) : Value();
    auto factorB = [&](Value k) {
      if (b)
        return loadElement(op.getB(), host->add(placeB, shareOfPlace(*b, 0, k, depth)));
      Coordinates place = {at[1], k}; // N x K
      if (op.getTransposed())
        std::swap(place[0], place[1]);
      return host->load(sharedElement(op.getB(), place), input);
    };
    auto body = [&](Value k, ValueRange sum) {
      Value elementA = a ? loadElement(op.getA(), host->add(placeA, shareOfPlace(*a, 1, k, depth)))
                         : host->load(sharedElement(op.getA(), {at[0], k}), input);
      Value factorA = asInput(*host, elementA, input);
      Value factor = asInput(*host, factorB(k), input);
      return SmallVector<Value>{math::FmaOp::create(*host, host->loc, factorA, factor, sum[0])};
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
