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
