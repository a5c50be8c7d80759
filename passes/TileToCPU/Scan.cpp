//===- Scan.cpp - Running sums along an axis ------------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sums of each thread's own pieces, then the totals of the other pieces of a run, in the order of
// TileToNVVM. No run of the tensor reaches into padding, for runs divide the axis.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/TileToCPU/Lowering.h"

using namespace mlir;
using namespace dl::tile;
using dl::layout::Digit;
using dl::layout::Source;

struct LaneLowering::Scan {
  Value value;
  const Layout &layout;
  unsigned axis;
  bool reverse, exclusive;
  int64_t length; ///< elements of a piece
  int64_t perRun; ///< pieces of a run
};

LogicalResult LaneLowering::lowerScan(ScanOp op) {
  const Layout &layout = layoutOf(op.getValue().getType());
  unsigned axis = op.getAxis();
  int64_t run = op.getRun(), length = layout.pieceOfRun(axis, run);
  Scan scan{op.getValue(), layout, axis, op.getReverse(), op.getExclusive(), length, run / length};
  Arena::Buffer *result = bindNew(op.getResult()), *totals = nullptr;
  if (scan.perRun > 1)
    totals = allocate(op.getValue().getType());
  sumPieces(scan, result, totals);
  if (totals) {
    addOtherPieces(scan, result, totals);
    arena.release(totals);
  }
  return success();
}

/// With totals, the sums up to each element go there too: the last of a piece is its total.
///
/// Registers are written (s, k) as in sumRegisters. Whole pieces only: what may remain of padding
/// has no value.
void LaneLowering::sumPieces(const Scan &scan, Arena::Buffer *result, Arena::Buffer *totals) {
  SmallVector<HostBuilder::Term> others, alongAxis;
  int64_t numSlice = 1, numAlong = 1;
  for (const Digit &d : scan.layout.digitsOf(Source::Register))
    if (d.axis != scan.axis) {
      others.push_back({numSlice, d.mod, d.div});
      numSlice *= d.mod;
    }
  SmallVector<Digit> digits = scan.layout.digitsOf(Source::Register, scan.axis);
  llvm::sort(digits, [](const Digit &a, const Digit &b) { return a.stride < b.stride; });
  for (const Digit &d : digits) {
    alongAxis.push_back({numAlong, d.mod, d.div});
    numAlong *= d.mod;
  }
  Value nothing = host->constant(host->getF32FloatAttr(0.0f));
  host->loop(scan.layout.numThreads, [&](Value thread) {
    host->loop(numSlice, [&](Value s) {
      Value first = host->sum(s, numSlice, others);
      host->loop(numAlong / scan.length, [&](Value piece) {
        auto body = [&](Value i, ValueRange before) {
          if (scan.reverse)
            i = host->sub(host->i64(scan.length - 1), i);
          Value k = host->add(host->mul(piece, scan.length), i);
          Value reg = host->add(first, host->sum(k, numAlong, alongAxis));
          Value place = flat(scan.layout, thread, reg);
          Value sum =
              arith::AddFOp::create(*host, host->loc, before[0], loadElement(scan.value, place));
          storeElement(result, scan.exclusive ? before[0] : sum, place);
          if (totals)
            storeElement(totals, sum, place);
          return SmallVector<Value>{sum};
        };
        host->loop(scan.length, nothing, body);
      });
    });
  });
}

void LaneLowering::addOtherPieces(const Scan &scan, Arena::Buffer *result, Arena::Buffer *totals) {
  const Layout &layout = scan.layout;
  int64_t run = scan.length * scan.perRun, below = llvm::alignTo(layout.covered(scan.axis), run);
  Type f32 = host->getF32Type();
  Value zero = host->zero(f32);
  forEachElement(layout, [&](Value thread, Value reg, const Coordinates &coordinates) {
    Value at = coordinates[scan.axis], place = flat(layout, thread, reg), others = host->i64(0);
    for (unsigned axis = 0; axis < layout.rank(); ++axis)
      if (axis != scan.axis)
        others =
            host->add(others, shareOfPlace(layout, axis, coordinates[axis], layout.covered(axis)));
    Value inRun = host->rem(at, run), own = host->div(inRun, scan.length);
    Value first = host->add(host->sub(at, inRun), scan.reverse ? 0 : scan.length - 1);
    auto body = [&](Value piece, ValueRange sum) {
      Value last = host->add(first, host->mul(piece, scan.length));
      Value from = host->add(others, shareOfPlace(layout, scan.axis, last, below));
      Value total = host->load(host->element(pointerTo(totals), f32, from), f32);
      Value counts = arith::CmpIOp::create(
          *host, host->loc, scan.reverse ? arith::CmpIPredicate::ugt : arith::CmpIPredicate::ult,
          piece, own);
      total = arith::SelectOp::create(*host, host->loc, counts, total, zero);
      return SmallVector<Value>{arith::AddFOp::create(*host, host->loc, sum[0], total)};
    };
    Value other = host->loop(scan.perRun, zero, body).front();
    Value mine = host->load(host->element(pointerTo(result), f32, place), f32);
    storeElement(result, arith::AddFOp::create(*host, host->loc, mine, other), place);
  });
}
