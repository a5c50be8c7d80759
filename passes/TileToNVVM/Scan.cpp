//===- Scan.cpp - Running sums along an axis ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each thread sums up its own pieces of the runs. Where a run has several pieces, their totals go
// through shared memory, and everyone adds those that come before its own (after it, in reverse).
//
// Padding needs no care: runs divide the axis, so that no run of the tensor reaches into it.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/TileToNVVM/Lowering.h"

using namespace mlir;
using namespace dl;
using namespace dl::tile;

/// Where a thread reads more totals than this it adds them up in loops: all at once they would need
/// too many registers.
static constexpr int64_t kMaxUnrolled = 32;

struct KernelLowering::Scan {
  layout::RegisterLayout layout, slice;
  unsigned axis;
  bool reverse, exclusive;
  int64_t length;    ///< elements of a piece
  int64_t perRun;    ///< pieces of a run
  int64_t numPieces; ///< of a thread, for each register of the slice
  SmallVector<SmallVector<int64_t>> groups;
  SmallVector<int64_t> pitch; ///< of the totals in shared memory, which are row-major
  int64_t elements = 1;

  explicit Scan(ScanOp op)
      : layout(llvm::cantFail(getLayout(op.getValue().getType()))), axis(op.getAxis()),
        reverse(op.getReverse()), exclusive(op.getExclusive()) {
    slice = layout.slice(axis);
    groups = layout.reductionGroups(axis);
    int64_t run = op.getRun();
    length = layout.pieceOfRun(axis, run);
    perRun = run / length;
    numPieces = llvm::divideCeil(groups.front().size(), length);
    // Runs of padding are whole here too.
    pitch.resize(layout.rank());
    for (unsigned i = layout.rank(); i-- > 0;) {
      pitch[i] = elements;
      elements *= i == axis ? llvm::alignTo(layout.covered(i), run) / length : layout.covered(i);
    }
  }

  int64_t totalsRead() const {
    return numPieces * static_cast<int64_t>(groups.size()) * (perRun - 1);
  }
  /// The thread's registers in a piece, in ascending order of the coordinate.
  ArrayRef<int64_t> registersOf(int64_t sliceRegister, int64_t piece) const {
    return ArrayRef(groups[sliceRegister]).drop_front(piece * length).take_front(length);
  }
  /// A piece's number along the axis, from the thread's first.
  int64_t distanceOf(int64_t piece) const {
    return layout.offsetOfRegister(registersOf(0, piece).front())[axis] / length;
  }
  unsigned axisOf(unsigned axisOfSlice) const { return axisOfSlice + (axisOfSlice >= axis); }
  /// Elements between the totals of a register of the slice and those of the thread's first.
  int64_t offsetOf(int64_t sliceRegister) const {
    int64_t offset = 0;
    for (auto [i, distance] : llvm::enumerate(slice.offsetOfRegister(sliceRegister)))
      offset += distance * pitch[axisOf(i)];
    return offset;
  }
  /// Totals side by side.
  int64_t width() const {
    if (slice.rank() == 0 || axis == slice.rank())
      return 1;
    int64_t limit = slice.contiguousRegisters(slice.rank() - 1);
    return limit % 4 == 0 ? 4 : limit % 2 == 0 ? 2 : 1;
  }
};

void KernelLowering::lowerScan(ScanOp op) {
  Scan scan(op);
  Registers values = distributed(op.getValue()), sums(values.size());
  SmallVector<Registers> totals(scan.numPieces, Registers(scan.groups.size()));
  for (size_t column = 0; column < scan.groups.size(); ++column)
    for (int64_t piece = 0; piece < scan.numPieces; ++piece) {
      SmallVector<int64_t> order(scan.registersOf(column, piece));
      if (scan.reverse)
        std::reverse(order.begin(), order.end());
      Value sum; // null: of nothing
      for (int64_t reg : order) {
        Value before = sum;
        sum = sum ? Value(arith::AddFOp::create(builder, loc, sum, values[reg])) : values[reg];
        sums[reg] = scan.exclusive ? before : sum;
      }
      totals[piece][column] = sum;
    }
  if (scan.perRun > 1)
    addOtherPieces(op, scan, totals, sums);
  Value zero = arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0));
  for (Value &sum : sums)
    sum = sum ? sum : zero;
  registers[op.getResult()] = std::move(sums);
}

/// Scans of one tensor in pieces of one length have the same totals, whatever their runs and
/// directions: those of a block of code share what the first of them has left in memory.
void KernelLowering::addOtherPieces(ScanOp op, const Scan &scan, ArrayRef<Registers> totals,
                                    Registers &sums) {
  auto [known, isNew] = totalsOf.try_emplace(
      {op.getValue().getAsOpaquePointer(), op->getBlock(), scan.axis, scan.length, scan.elements},
      0);
  int64_t &region = known->second;
  if (isNew)
    region = allocateShared(4 * scan.elements);
  int64_t width = scan.width(), pitch = scan.pitch[scan.axis];
  Value others = i32(0);
  for (unsigned i = 0; i < scan.slice.rank(); ++i)
    others = arith::AddIOp::create(builder, loc, others,
                                   arith::MulIOp::create(builder, loc, threadBase(scan.slice, i),
                                                         i32(scan.pitch[scan.axisOf(i)])));
  /// Where the thread's first register of the slice has the total of a piece.
  auto totalOf = [&](Value piece) {
    Value element = arith::AddIOp::create(builder, loc, others,
                                          arith::MulIOp::create(builder, loc, piece, i32(pitch)));
    return gep(sharedPointer(region), toI64(arith::MulIOp::create(builder, loc, element, i32(4))));
  };
  Value first =
      arith::DivUIOp::create(builder, loc, threadBase(scan.layout, scan.axis), i32(scan.length));
  int64_t columns = scan.groups.size();
  auto storeTotals = [&] {
    Value own = totalOf(first);
    for (int64_t piece = 0; piece < scan.numPieces; ++piece)
      for (int64_t column = 0; column < columns; column += width)
        storeVector(gep(own, 4 * (scan.distanceOf(piece) * pitch + scan.offsetOf(column))),
                    ValueRange(totals[piece]).slice(column, width));
  };
  if (isNew) {
    ifTrue(digitsAreZero(scan.layout.replicaDigits()), storeTotals);
    finishExchange(/*inWarp=*/false);
  } else {
    emitted.blockReads = true; // behind other barriers
  }
  for (int64_t piece = 0; piece < scan.numPieces; ++piece) {
    Value own = arith::AddIOp::create(builder, loc, first, i32(scan.distanceOf(piece)));
    Value place = arith::RemUIOp::create(builder, loc, own, i32(scan.perRun));
    Value run = totalOf(arith::SubIOp::create(builder, loc, own, place));
    for (int64_t column = 0; column < columns; column += width)
      for (auto [i, other] :
           llvm::enumerate(sumOfPieces(scan, gep(run, 4 * scan.offsetOf(column)), place, width)))
        for (int64_t reg : scan.registersOf(column + i, piece))
          sums[reg] =
              sums[reg] ? Value(arith::AddFOp::create(builder, loc, sums[reg], other)) : other;
  }
}

/// The totals of a run's pieces before number `place`, or after it in reverse, in ascending order.
/// Where there are few, all are read, so that no load waits for the place, and what counts is
/// chosen: a product with zero would let infinities through.
KernelLowering::Registers KernelLowering::sumOfPieces(const Scan &scan, Value run, Value place,
                                                      int64_t width) {
  Value zero = arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0));
  int64_t pitchBytes = 4 * scan.pitch[scan.axis];
  Registers sums(width, zero);
  auto add = [&](ValueRange totals) {
    for (auto [sum, total] : llvm::zip(sums, totals))
      sum = sum == zero ? total : arith::AddFOp::create(builder, loc, sum, total);
  };
  if (scan.totalsRead() <= kMaxUnrolled) {
    // Nothing comes before the first piece or after the last.
    for (int64_t piece = scan.reverse; piece < scan.perRun - !scan.reverse; ++piece) {
      Value counts = arith::CmpIOp::create(
          builder, loc, scan.reverse ? arith::CmpIPredicate::ugt : arith::CmpIPredicate::ult,
          i32(piece), place);
      Registers totals = loadVector(gep(run, piece * pitchBytes), zero.getType(), width, false);
      for (Value &total : totals)
        total = arith::SelectOp::create(builder, loc, counts, total, zero);
      add(totals);
    }
    return sums;
  }
  Value one = i32(1);
  Value begin = scan.reverse ? arith::AddIOp::create(builder, loc, place, one) : i32(0);
  Value end = scan.reverse ? i32(scan.perRun) : place;
  auto loop = scf::ForOp::create(builder, loc, begin, end, one, sums);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  Value distance = arith::MulIOp::create(builder, loc, loop.getInductionVar(), i32(pitchBytes));
  sums = Registers(loop.getRegionIterArgs());
  add(loadVector(gep(run, toI64(distance)), zero.getType(), width, false));
  scf::YieldOp::create(builder, loc, sums);
  return Registers(loop.getResults());
}
