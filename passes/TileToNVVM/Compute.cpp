//===- Compute.cpp - Elementwise and cross-thread work of a lowered kernel ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/TileToNVVM/Lowering.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace dl;
using namespace dl::tile;

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

/// One scalar instance of an arith or math op. Where NVPTX has no instruction of the op's
/// exactness, the fast one with a documented error is named here: ex2.approx and rsqrt.approx (2
/// ulp), div.full (2 ulp); denormal results flush to zero.
FailureOr<Value> KernelLowering::cloneScalar(Operation *op, ValueRange operands) {
  auto intrinsic = [&](StringRef name) -> Value {
    return LLVM::CallIntrinsicOp::create(builder, loc, builder.getF32Type(),
                                         builder.getStringAttr(name), operands)
        .getResult(0);
  };
  if (operands.size() > 0 && operands.front().getType().isF32()) {
    if (isa<math::Exp2Op>(op))
      return intrinsic("llvm.nvvm.ex2.approx.ftz.f32");
    if (isa<math::RsqrtOp>(op))
      return intrinsic("llvm.nvvm.rsqrt.approx.f");
    if (isa<math::SqrtOp>(op))
      return intrinsic("llvm.nvvm.sqrt.rn.f");
    if (isa<arith::DivFOp>(op))
      return intrinsic("llvm.nvvm.div.full");
    if (isa<math::FmaOp>(op))
      return Value(LLVM::FMAOp::create(builder, loc, operands[0], operands[1], operands[2]));
    if (isa<math::AbsFOp>(op))
      return Value(LLVM::FAbsOp::create(builder, loc, operands[0]));
  }
  if (isa<math::CountLeadingZerosOp>(op))
    return Value(LLVM::CountLeadingZerosOp::create(builder, loc, operands[0].getType(), operands[0],
                                                   /*is_zero_poison=*/false));
  if (isa<math::MathDialect>(op->getDialect()))
    return op->emitOpError("has no form on this target; expected exp, exp2, log, log1p, tanh, "
                           "sqrt, rsqrt, absf or fma");
  if (auto constant = dyn_cast<arith::ConstantOp>(op); constant && constant.getType().isIndex())
    return i64(cast<IntegerAttr>(constant.getValue()).getInt());
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp>(op)) {
    unsigned from = operands[0].getType().getIntOrFloatBitWidth();
    Type to = scalarType(op->getResultTypes().front());
    unsigned width = to.getIntOrFloatBitWidth();
    if (from == width)
      return operands[0];
    if (from > width)
      return Value(arith::TruncIOp::create(builder, loc, to, operands[0]));
    return isa<arith::IndexCastOp>(op)
               ? Value(arith::ExtSIOp::create(builder, loc, to, operands[0]))
               : Value(arith::ExtUIOp::create(builder, loc, to, operands[0]));
  }
  OperationState state(loc, op->getName());
  state.addOperands(operands);
  for (Type type : op->getResultTypes())
    state.types.push_back(scalarType(type));
  state.addAttributes(op->getAttrs());
  return builder.create(state)->getResult(0);
}

LogicalResult KernelLowering::lowerElementwise(Operation *op) {
  if (!isa_and_nonnull<arith::ArithDialect, math::MathDialect>(op->getDialect()) ||
      op->getNumResults() != 1)
    return op->emitOpError("has no lowering to one thread's program");
  Value result = op->getResult(0);
  if (!isDistributed(result.getType())) {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(scalar(operand));
    FailureOr<Value> value = cloneScalar(op, operands);
    if (failed(value))
      return failure();
    scalars.map(result, *value);
    return success();
  }
  int64_t count = llvm::cantFail(getLayout(cast<RankedTensorType>(result.getType()))).numRegisters;
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    auto splat = dyn_cast<SplatElementsAttr>(constant.getValue());
    if (!splat)
      return op->emitOpError("expected one value for all elements of a distributed constant");
    Value value =
        arith::ConstantOp::create(builder, loc, cast<TypedAttr>(splat.getSplatValue<Attribute>()));
    registers[result] = Registers(count, value);
    return success();
  }
  SmallVector<Registers> sources;
  for (Value operand : op->getOperands())
    sources.push_back(isDistributed(operand.getType()) ? distributed(operand)
                                                       : Registers(count, scalar(operand)));
  Registers values;
  for (int64_t reg = 0; reg < count; ++reg) {
    SmallVector<Value> operands;
    for (const Registers &source : sources)
      operands.push_back(source[reg]);
    FailureOr<Value> value = cloneScalar(op, operands);
    if (failed(value))
      return failure();
    values.push_back(*value);
  }
  registers[result] = std::move(values);
  return success();
}

void KernelLowering::lowerCoordinate(CoordinateOp op) {
  layout::RegisterLayout layout = llvm::cantFail(getLayout(op.getResult().getType()));
  Value base = threadBase(layout, op.getAxis());
  llvm::DenseMap<int64_t, Value> known; // by the register's distance
  Registers result;
  for (int64_t reg = 0; reg < layout.numRegisters; ++reg) {
    int64_t own = layout.offsetOfRegister(reg)[op.getAxis()];
    Value &coordinate = known[own];
    if (!coordinate)
      coordinate = arith::AddIOp::create(builder, loc, base, i32(own));
    result.push_back(coordinate);
  }
  registers[op.getResult()] = std::move(result);
}

void KernelLowering::lowerInsert(InsertOp op) {
  unsigned axis = op.getAxis();
  layout::RegisterLayout layout = llvm::cantFail(getLayout(op.getMatrix().getType()));
  Registers vector = distributed(op.getVector()), result = distributed(op.getMatrix());
  SmallVector<int64_t> inVector = layout.sliceRegisters(axis);
  // Of the thread's first row; a row before it is none of the thread's.
  Value distance =
      arith::SubIOp::create(builder, loc, scalar(op.getRow()), threadBase(layout, axis));
  llvm::DenseMap<int64_t, Value> hits; // by the register's distance
  for (auto [reg, value] : llvm::enumerate(result)) {
    int64_t own = layout.offsetOfRegister(reg)[axis];
    Value &hit = hits[own];
    if (!hit)
      hit = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, distance, i32(own));
    value = arith::SelectOp::create(builder, loc, hit, vector[inVector[reg]], value);
  }
  registers[op.getResult()] = std::move(result);
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

void KernelLowering::combineLanes(const layout::RegisterLayout &layout, unsigned axis,
                                  Registers &values) {
  for (int64_t mask : layout.reductionLaneMasks(axis))
    for (Value &value : values) {
      Value other = NVVM::ShflOp::create(builder, loc, value.getType(), i32(-1), value, i32(mask),
                                         i32(31), NVVM::ShflKind::bfly, UnitAttr());
      value = arith::AddFOp::create(builder, loc, value, other);
    }
}

/// Each warp leaves its sums in shared memory; after one barrier for all results, everyone adds
/// them up in order.
void KernelLowering::combineWarps(const layout::RegisterLayout &layout, unsigned axis,
                                  MutableArrayRef<Registers> results) {
  SmallVector<layout::ThreadDigit> warpDigits = layout.reductionWarpDigits(axis);
  int64_t warps = 1;
  Value warp;
  for (const layout::ThreadDigit &digit : warpDigits) {
    Value term = arith::MulIOp::create(builder, loc, threadDigit(digit.div, digit.mod), i32(warps));
    warp = warp ? arith::AddIOp::create(builder, loc, warp, term) : term;
    warps *= digit.mod;
  }
  if (warps == 1)
    return;
  layout::RegisterLayout slice = layout.slice(axis);
  int64_t elements = 1;
  SmallVector<int64_t> pitch(slice.rank());
  for (unsigned i = slice.rank(); i-- > 0;) {
    pitch[i] = elements;
    elements *= slice.covered(i);
  }
  int64_t width = slice.rank() == 0 ? 1 : slice.contiguousRegisters(slice.rank() - 1);
  width = width % 4 == 0 ? 4 : width % 2 == 0 ? 2 : 1;
  Value base = i32(0);
  for (unsigned i = 0; i < slice.rank(); ++i)
    base = arith::AddIOp::create(
        builder, loc, base,
        arith::MulIOp::create(builder, loc, threadBase(slice, i), i32(pitch[i])));
  auto registerOffset = [&](int64_t reg) {
    int64_t offset = 0;
    for (auto [i, distance] : llvm::enumerate(slice.offsetOfRegister(reg)))
      offset += distance * pitch[i];
    return offset;
  };
  int64_t resultElements = warps * elements;
  int64_t region = allocateShared(4 * resultElements * static_cast<int64_t>(results.size()));
  auto pointer = [&](Value element) {
    return gep(sharedPointer(region), toI64(arith::MulIOp::create(builder, loc, element, i32(4))));
  };
  // One copy writes: lanes that hold equal sums after the butterfly, and threads that were copies
  // before.
  SmallVector<layout::ThreadDigit> copies = layout.replicaDigits();
  for (const layout::Digit &digit : layout.digitsOf(layout::Source::Thread, axis))
    if (digit.div < layout::kWarpSize)
      copies.push_back({digit.div, digit.mod});
  ifTrue(digitsAreZero(copies), [&] {
    Value place = pointer(arith::AddIOp::create(
        builder, loc, arith::MulIOp::create(builder, loc, warp, i32(elements)), base));
    for (auto [i, values] : llvm::enumerate(results))
      for (int64_t reg = 0; reg < slice.numRegisters; reg += width)
        storeVector(
            gep(place, 4 * (static_cast<int64_t>(i) * resultElements + registerOffset(reg))),
            ValueRange(values).slice(reg, width));
  });
  finishExchange(/*inWarp=*/false);
  Value place = pointer(base);
  for (auto [i, values] : llvm::enumerate(results))
    for (int64_t reg = 0; reg < slice.numRegisters; reg += width)
      for (int64_t w = 0; w < warps; ++w) {
        int64_t offset =
            static_cast<int64_t>(i) * resultElements + w * elements + registerOffset(reg);
        Registers part = loadVector(gep(place, 4 * offset), builder.getF32Type(), width, false);
        for (int64_t j = 0; j < width; ++j)
          values[reg + j] =
              w == 0 ? part[j]
                     : Value(arith::AddFOp::create(builder, loc, values[reg + j], part[j]));
      }
}

void KernelLowering::bindReduction(ResultRange results, MutableArrayRef<Registers> values) {
  for (auto [result, regs] : llvm::zip(results, values)) {
    if (isDistributed(result.getType()))
      registers[result] = regs;
    else
      scalars.map(result, regs.front());
  }
}

LogicalResult KernelLowering::lowerReduce(ReduceOp op) {
  unsigned axis = op.getAxis();
  layout::RegisterLayout layout =
      llvm::cantFail(getLayout(cast<RankedTensorType>(op.getValues().front().getType())));
  Value zero = arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0));
  Value base = layout.isPadded(axis) ? threadBase(layout, axis) : Value();
  SmallVector<Registers> sums;
  for (Value operand : op.getValues()) {
    Registers values = distributed(operand);
    Registers result;
    for (ArrayRef<int64_t> group : layout.reductionGroups(axis)) {
      Value sum;
      for (int64_t reg : group) {
        Value term = values[reg];
        if (base) {
          Value position =
              arith::AddIOp::create(builder, loc, base, i32(layout.offsetOfRegister(reg)[axis]));
          Value inside = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, position,
                                               i32(layout.shape[axis]));
          term = arith::SelectOp::create(builder, loc, inside, term, zero);
        }
        sum = sum ? arith::AddFOp::create(builder, loc, sum, term) : term;
      }
      result.push_back(sum);
    }
    combineLanes(layout, axis, result);
    sums.push_back(std::move(result));
  }
  combineWarps(layout, axis, sums);
  bindReduction(op.getResults(), sums);
  return success();
}

/// The matrix of a product, and which register of a vector each of its registers meets.
struct KernelLowering::MatrixFactor {
  layout::RegisterLayout layout;
  SmallVector<int64_t> inVector;
  Value base; ///< the thread's first coordinate along the axis; null: no padding there
  Registers values;
};

KernelLowering::MatrixFactor KernelLowering::makeFactor(TypedValue<RankedTensorType> matrix,
                                                        unsigned axis) {
  MatrixFactor factor;
  factor.layout = llvm::cantFail(getLayout(matrix.getType()));
  factor.inVector = factor.layout.sliceRegisters(1 - axis);
  if (factor.layout.isPadded(axis))
    factor.base = threadBase(factor.layout, axis);
  factor.values = distributed(matrix);
  return factor;
}

/// Adds to a thread's sums the products of its own registers.
void KernelLowering::addProducts(ValueRange vector, const MatrixFactor &matrix, unsigned axis,
                                 Registers &sums) {
  Value zero = arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0));
  for (auto [sum, group] : llvm::zip(sums, matrix.layout.reductionGroups(axis)))
    for (int64_t reg : group) {
      Value factor = vector[matrix.inVector[reg]], element = matrix.values[reg];
      if (matrix.base) { // padding counts as zero whatever it holds
        Value position = arith::AddIOp::create(builder, loc, matrix.base,
                                               i32(matrix.layout.offsetOfRegister(reg)[axis]));
        Value inside = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, position,
                                             i32(matrix.layout.shape[axis]));
        factor = arith::SelectOp::create(builder, loc, inside, factor, zero);
        element = arith::SelectOp::create(builder, loc, inside, element, zero);
      }
      sum = LLVM::FMAOp::create(builder, loc, factor, element, sum);
    }
}

LogicalResult KernelLowering::lowerDot(DotOp op) {
  unsigned axis = op.getAxis();
  Value zero = arith::ConstantOp::create(builder, loc, builder.getF32FloatAttr(0));
  MatrixFactor first = makeFactor(op.getMatrix(), axis), second;
  if (TypedValue<RankedTensorType> more = op.getMoreMatrix())
    second = makeFactor(more, axis);
  SmallVector<Registers> sums;
  for (auto [i, vector] : llvm::enumerate(op.getVectors())) {
    Registers result(first.layout.slice(axis).numRegisters, zero);
    addProducts(distributed(vector), first, axis, result);
    if (op.getMoreMatrix())
      addProducts(distributed(op.getMoreVectors()[i]), second, axis, result);
    combineLanes(first.layout, axis, result);
    sums.push_back(std::move(result));
  }
  combineWarps(first.layout, axis, sums);
  bindReduction(op.getResults(), sums);
  return success();
}

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
