//===- Convert.cpp - Tensors from one layout to another ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Nothing moves where threads already hold what they need; blocks of 8 x 8 change their axes within
// a warp; all else goes through shared memory.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/TileToNVVM/Lowering.h"

using namespace mlir;
using namespace dl;
using namespace dl::tile;

//===----------------------------------------------------------------------===//
// Conversion
//===----------------------------------------------------------------------===//

/// Whether every warp already holds, in `from`, all elements that its threads need in `to`.
static bool staysInWarp(const layout::RegisterLayout &from, const layout::RegisterLayout &to) {
  for (int64_t first = 0; first < from.numThreads; first += layout::kWarpSize) {
    llvm::DenseSet<int64_t> held;
    auto flat = [&](const layout::RegisterLayout &layout, int64_t thread, int64_t reg) -> int64_t {
      layout::Coordinate at = layout.coordinate(thread, reg);
      if (!layout.isInBounds(at))
        return -1;
      int64_t result = 0;
      for (unsigned axis = 0; axis < layout.rank(); ++axis)
        result = result * layout.shape[axis] + at[axis];
      return result;
    };
    for (int64_t lane = 0; lane < layout::kWarpSize; ++lane)
      for (int64_t reg = 0; reg < from.numRegisters; ++reg)
        held.insert(flat(from, first + lane, reg));
    for (int64_t lane = 0; lane < layout::kWarpSize; ++lane)
      for (int64_t reg = 0; reg < to.numRegisters; ++reg)
        if (int64_t at = flat(to, first + lane, reg); at >= 0 && !held.contains(at))
          return false;
  }
  return true;
}

/// The register in `from` of each one in `to`, if every thread holds in the one what it holds in
/// the other. So it is with the accumulators of a matrix product that become a factor of the next.
static std::optional<SmallVector<int64_t>> withinThreads(const layout::RegisterLayout &from,
                                                         const layout::RegisterLayout &to) {
  if (from.digitsOf(layout::Source::Thread) != to.digitsOf(layout::Source::Thread))
    return std::nullopt;
  SmallVector<int64_t> result;
  for (int64_t reg = 0; reg < to.numRegisters; ++reg) {
    layout::Coordinate offset = to.offsetOfRegister(reg);
    auto holds = [&](int64_t other) { return from.offsetOfRegister(other) == offset; };
    auto same = llvm::find_if(llvm::seq<int64_t>(0, from.numRegisters), holds);
    if (same == llvm::seq<int64_t>(0, from.numRegisters).end())
      return std::nullopt;
    result.push_back(*same);
  }
  return result;
}

/// The pair of registers in `from` of each pair in `to`, if the ones are blocks of 8 x 8 elements
/// and the others the same with their axes exchanged: element (i, j) of a block is in lane 4 i +
/// j/2, register j % 2. So it is with accumulators that are transposed.
static std::optional<SmallVector<int64_t>> transposedBlocks(const layout::RegisterLayout &from,
                                                            const layout::RegisterLayout &to) {
  if (from.numThreads != to.numThreads || from.numRegisters != to.numRegisters ||
      from.numRegisters % 2 != 0)
    return std::nullopt;
  auto holds = [&](int64_t pair, int64_t pairOfFrom, int64_t thread) {
    int64_t lane = thread % layout::kWarpSize, row = lane / 4;
    return llvm::all_of(llvm::seq<int64_t>(0, 2), [&](int64_t i) {
      int64_t source = thread - lane + 4 * (2 * (lane % 4) + i) + row / 2;
      return to.coordinate(thread, 2 * pair + i) ==
             from.coordinate(source, 2 * pairOfFrom + row % 2);
    });
  };
  auto pairs = llvm::seq<int64_t>(0, to.numRegisters / 2);
  SmallVector<int64_t> result;
  for (int64_t pair : pairs) {
    auto found = llvm::find_if(pairs, [&](int64_t other) { return holds(pair, other, 0); });
    if (found == pairs.end() || !llvm::all_of(llvm::seq<int64_t>(0, to.numThreads),
                                              [&](int64_t t) { return holds(pair, *found, t); }))
      return std::nullopt;
    result.push_back(*found);
  }
  return result;
}

/// Pairs of elements of 16 bits, each of the block that `pairs` names.
KernelLowering::Registers KernelLowering::transposeBlocks(ValueRange source,
                                                          ArrayRef<int64_t> pairs) {
  Registers result;
  auto type = VectorType::get(2, source.front().getType());
  for (int64_t pair : pairs) {
    Value block = LLVM::PoisonOp::create(builder, loc, type);
    for (int64_t i : {0, 1})
      block = LLVM::InsertElementOp::create(builder, loc, block, source[2 * pair + i], i32(i));
    block = LLVM::BitcastOp::create(builder, loc, builder.getI32Type(), block);
    block = inlineAssembly("movmatrix.sync.aligned.m8n8.trans.b16 $0, $0;", block, {}).front();
    block = LLVM::BitcastOp::create(builder, loc, type, block);
    for (int64_t i : {0, 1})
      result.push_back(LLVM::ExtractElementOp::create(builder, loc, block, i32(i)));
  }
  return result;
}

/// Where the elements of a tensor lie in shared memory: row-major, with room for the padding of the
/// layout they come from and of those that read them, so that nothing needs a mask.
struct KernelLowering::Exchange {
  SmallVector<int64_t> pitch;
  int64_t elements = 1, bytes = 1, region = 0;
  bool inWarp = false; ///< each warp has a copy of its own

  /// `reach`: what readers cover of each axis, at least.
  Exchange(const layout::RegisterLayout &from, ArrayRef<int64_t> reach, Type element, bool inWarp)
      : pitch(from.rank(), 1), bytes(element.getIntOrFloatBitWidth() / 8), inWarp(inWarp) {
    for (unsigned axis = from.rank(); axis-- > 0;) {
      pitch[axis] = elements;
      elements *= std::max(from.covered(axis), reach[axis]);
    }
  }
  /// Byte offset of a register's element from the thread's first.
  int64_t offsetOf(const layout::RegisterLayout &layout, int64_t reg) const {
    int64_t offset = 0;
    for (auto [axis, distance] : llvm::enumerate(layout.offsetOfRegister(reg)))
      offset += distance * pitch[axis];
    return offset * bytes;
  }
  /// Width of an access in elements.
  int64_t widthOf(const layout::RegisterLayout &layout) const {
    int64_t width = 1, limit = layout.contiguousRegisters(layout.rank() - 1);
    auto aligned = [&](int64_t w) {
      return llvm::all_of(ArrayRef(pitch).drop_back(), [&](int64_t p) { return p % w == 0; }) &&
             elements % w == 0;
    };
    while (limit % (2 * width) == 0 && 2 * width * bytes <= 16 && aligned(2 * width))
      width *= 2;
    return width;
  }
};

/// Address of the thread's first element.
Value KernelLowering::placeOf(const Exchange &exchange, const layout::RegisterLayout &layout) {
  auto scaled = [&](Value index, int64_t factor) -> Value {
    return arith::MulIOp::create(builder, loc, index, i32(factor));
  };
  Value base = i32(0);
  for (unsigned axis = 0; axis < layout.rank(); ++axis)
    base = arith::AddIOp::create(builder, loc, base,
                                 scaled(threadBase(layout, axis), exchange.pitch[axis]));
  if (exchange.inWarp) {
    Value warp = threadDigit(layout::kWarpSize, kernel.getThreads() / layout::kWarpSize);
    base = arith::AddIOp::create(builder, loc, base, scaled(warp, exchange.elements));
  }
  return gep(sharedPointer(exchange.region), toI64(scaled(base, exchange.bytes)));
}

/// Makes room for it and stores there, each element once.
void KernelLowering::fillExchange(Exchange &exchange, const layout::RegisterLayout &from,
                                  ValueRange source) {
  int64_t copiesOfBuffer = exchange.inWarp ? kernel.getThreads() / layout::kWarpSize : 1;
  exchange.region = allocateShared(copiesOfBuffer * exchange.elements * exchange.bytes);
  SmallVector<layout::ThreadDigit> copies;
  for (layout::ThreadDigit digit : from.replicaDigits())
    if (!exchange.inWarp || digit.div < layout::kWarpSize)
      copies.push_back(digit);
  ifTrue(digitsAreZero(copies), [&] {
    Value base = placeOf(exchange, from);
    int64_t width = exchange.widthOf(from);
    for (int64_t reg = 0; reg < from.numRegisters; reg += width)
      storeVector(gep(base, exchange.offsetOf(from, reg)), source.slice(reg, width));
  });
}

/// `from`: the layout in which `value` is seen, its own or that with its axes exchanged.
void KernelLowering::convert(Value value, const layout::RegisterLayout &from,
                             TypedValue<RankedTensorType> result) {
  layout::RegisterLayout to = llvm::cantFail(getLayout(result.getType()));
  auto sameDigits = [&](layout::Source source) {
    return from.digitsOf(source) == to.digitsOf(source);
  };
  Registers source = distributed(value);
  if (sameDigits(layout::Source::Thread) && sameDigits(layout::Source::Register)) {
    registers[result] = std::move(source);
    return;
  }
  if (std::optional<SmallVector<int64_t>> moved = withinThreads(from, to)) {
    registers[result] = llvm::map_to_vector(*moved, [&](int64_t reg) { return source[reg]; });
    return;
  }
  Type element = result.getType().getElementType();
  if (element.getIntOrFloatBitWidth() == 16)
    if (std::optional<SmallVector<int64_t>> blocks = transposedBlocks(from, to)) {
      registers[result] = transposeBlocks(source, *blocks);
      return;
    }
  SmallVector<int64_t> reach;
  for (unsigned axis = 0; axis < to.rank(); ++axis)
    reach.push_back(to.covered(axis));
  Exchange exchange(from, reach, element, staysInWarp(from, to));
  fillExchange(exchange, from, source);
  finishExchange(exchange.inWarp);
  converted[result] = [this, exchange, to, element] {
    (exchange.inWarp ? emitted.warpReads : emitted.blockReads) = true;
    Value base = placeOf(exchange, to);
    int64_t width = exchange.widthOf(to);
    Registers result;
    for (int64_t reg = 0; reg < to.numRegisters; reg += width)
      llvm::append_range(result,
                         loadVector(gep(base, exchange.offsetOf(to, reg)), element, width, false));
    return result;
  };
}

void KernelLowering::lowerRows(InterleaveOp op) {
  auto narrow = cast<RankedTensorType>(op.getValues().front().getType());
  SmallVector<Registers> sources;
  for (Value value : op.getValues())
    sources.push_back(distributed(value));
  auto places = *layout::interleavedRegisters(llvm::cantFail(getLayout(op.getResult().getType())),
                                              llvm::cantFail(getLayout(narrow)));
  registers[op.getResult()] = llvm::map_to_vector(places, [&](std::pair<int64_t, int64_t> place) {
    return sources[place.first][place.second];
  });
}

void KernelLowering::lowerRows(PickOp op) {
  RankedTensorType narrow = op.getResult().getType();
  Registers source = distributed(op.getValue());
  Registers result(llvm::cantFail(getLayout(narrow)).numRegisters);
  auto places = *layout::interleavedRegisters(llvm::cantFail(getLayout(op.getValue().getType())),
                                              llvm::cantFail(getLayout(narrow)));
  for (auto [value, place] : llvm::zip(source, places))
    if (place.first == int64_t(op.getWhich()))
      result[place.second] = value;
  registers[op.getResult()] = std::move(result);
}

//===----------------------------------------------------------------------===//
// Sums of outer products
//===----------------------------------------------------------------------===//

LogicalResult KernelLowering::lowerRankUpdate(RankUpdateOp op) {
  layout::RegisterLayout layout = llvm::cantFail(getLayout(op.getC().getType()));
  Registers sums = distributed(op.getC());
  struct Factor {
    layout::RegisterLayout slice; ///< a thread's share of a row
    SmallVector<int64_t> inSlice; ///< the register of it that each register of c needs
    int64_t width = 1, rowBytes = 0;
    Value place; ///< the thread's first element of row 0
  };
  SmallVector<Factor, 2> factors;
  Value operands[] = {op.getA(), op.getB()};
  for (auto [axis, operand] : llvm::enumerate(operands)) {
    layout::RegisterLayout from =
        llvm::cantFail(getLayout(cast<RankedTensorType>(operand.getType())));
    Factor factor;
    factor.slice = layout.slice(1 - axis);
    factor.inSlice = layout.sliceRegisters(1 - axis);
    // Rows start at multiples of 16 bytes.
    int64_t columns = llvm::alignTo(std::max(from.covered(1), factor.slice.covered(0)), 4);
    Exchange exchange(from, {from.shape[0], columns}, builder.getF32Type(), /*inWarp=*/false);
    fillExchange(exchange, from, distributed(operand));
    int64_t limit = factor.slice.contiguousRegisters(0);
    factor.width = limit % 4 == 0 ? 4 : limit % 2 == 0 ? 2 : 1;
    factor.rowBytes = 4 * columns;
    Value first = arith::MulIOp::create(builder, loc, threadBase(factor.slice, 0), i32(4));
    factor.place = gep(sharedPointer(exchange.region), toI64(first));
    factors.push_back(std::move(factor));
  }
  finishExchange(/*inWarp=*/false);
  Value end = arith::MinSIOp::create(builder, loc, scalar(op.getCount()),
                                     i32(op.getA().getType().getDimSize(0)));
  auto rows = scf::ForOp::create(builder, loc, i32(0), end, i32(1), sums);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(rows.getBody());
  SmallVector<Registers, 2> values(2);
  for (auto [factor, loaded] : llvm::zip(factors, values)) {
    Value distance =
        arith::MulIOp::create(builder, loc, rows.getInductionVar(), i32(factor.rowBytes));
    Value row = gep(factor.place, toI64(distance));
    for (int64_t reg = 0; reg < factor.slice.numRegisters; reg += factor.width)
      llvm::append_range(loaded, loadVector(gep(row, 4 * factor.slice.offsetOfRegister(reg)[0]),
                                            builder.getF32Type(), factor.width, false));
  }
  for (auto [reg, sum] : llvm::enumerate(rows.getRegionIterArgs()))
    sums[reg] = LLVM::FMAOp::create(builder, loc, values[0][factors[0].inSlice[reg]],
                                    values[1][factors[1].inSlice[reg]], sum);
  scf::YieldOp::create(builder, loc, sums);
  registers[op.getResult()] = Registers(rows.getResults());
  return success();
}
