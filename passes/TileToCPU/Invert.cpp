//===- Invert.cpp - Inverse of a unit lower triangular matrix -------------===//
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

/// By substitution, row by row into a plain matrix: x[i, j] = (1 where i = j) - sum over k < i of
/// a[i, k] x[k, j].
LogicalResult LaneLowering::lowerInvert(InvertUnitLowerOp op) {
  const Layout &layout = layoutOf(op.getValue().getType());
  int64_t rows = layout.shape[0];
  Type f32 = host->getF32Type();
  Value zero = host->zero(f32), one = host->constant(host->getF32FloatAttr(1));
  Arena::Buffer *result = bindNew(op.getResult()), *inverse = arena.allocate(4 * rows * rows);
  auto element = [&](Value row, Value column) {
    return host->element(pointerTo(inverse), f32, host->add(host->mul(row, rows), column));
  };
  host->loop(rows, [&](Value i) {
    Value ofRow = shareOfPlace(layout, 0, i, rows);
    host->loop(rows, [&](Value j) {
      Value isOne = arith::CmpIOp::create(*host, host->loc, arith::CmpIPredicate::eq, i, j);
      Value start = arith::SelectOp::create(*host, host->loc, isOne, one, zero);
      auto loop = scf::ForOp::create(*host, host->loc, host->i64(0), i, host->i64(1), start);
      {
        OpBuilder::InsertionGuard guard(*host);
        host->setInsertionPointToStart(loop.getBody());
        Value k = loop.getInductionVar();
        Value a = loadElement(op.getValue(), host->add(ofRow, shareOfPlace(layout, 1, k, rows)));
        Value minus = arith::NegFOp::create(*host, host->loc, a);
        Value x = host->load(element(k, j), f32);
        Value sum = loop.getRegionIterArg(0);
        scf::YieldOp::create(*host, host->loc,
                             ValueRange{math::FmaOp::create(*host, host->loc, minus, x, sum)});
      }
      host->store(loop.getResult(0), element(i, j));
    });
  });
  forEachElement(layout, [&](Value thread, Value reg, const Coordinates &at) {
    auto load = [&] { return host->load(element(at[0], at[1]), f32); };
    storeElement(result, host->select(insideShape(layout, at), load, zero),
                 flat(layout, thread, reg));
  });
  arena.release(inverse);
  return success();
}
