//===- HostBuilder.cpp - Small pieces of host code ------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileToCPU/HostBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace dl::tile;

Value HostBuilder::constant(TypedAttr value) {
  Value &known = constants[value];
  if (!known) {
    InsertionGuard guard(*this);
    setInsertionPointToStart(entry);
    known = arith::ConstantOp::create(*this, loc, value);
  }
  return known;
}

//===----------------------------------------------------------------------===//
// Index arithmetic
//===----------------------------------------------------------------------===//

static bool isConstant(Value value, int64_t expected) {
  auto op = value.getDefiningOp<arith::ConstantOp>();
  auto integer = op ? dyn_cast<IntegerAttr>(op.getValue()) : IntegerAttr();
  return integer && integer.getInt() == expected;
}

Value HostBuilder::add(Value a, Value b) {
  if (isConstant(a, 0))
    return b;
  return isConstant(b, 0) ? a : arith::AddIOp::create(*this, loc, a, b);
}

Value HostBuilder::add(Value a, int64_t b) { return add(a, i64(b)); }

Value HostBuilder::sub(Value a, Value b) { return arith::SubIOp::create(*this, loc, a, b); }

Value HostBuilder::mul(Value a, int64_t b) {
  if (isConstant(a, 0))
    return a;
  return b == 1 ? a : arith::MulIOp::create(*this, loc, a, i64(b));
}

Value HostBuilder::mul(Value a, Value b) {
  return isConstant(b, 1) ? a : arith::MulIOp::create(*this, loc, a, b);
}

Value HostBuilder::div(Value a, int64_t b) {
  return b == 1 ? a : arith::DivUIOp::create(*this, loc, a, i64(b));
}

Value HostBuilder::rem(Value a, int64_t b) {
  return b == 1 ? i64(0) : arith::RemUIOp::create(*this, loc, a, i64(b));
}

Value HostBuilder::bitAnd(Value a, int64_t b) {
  return arith::AndIOp::create(*this, loc, a, i64(b));
}

Value HostBuilder::bitXor(Value a, Value b) { return arith::XOrIOp::create(*this, loc, a, b); }

Value HostBuilder::less(Value a, int64_t b) {
  return arith::CmpIOp::create(*this, loc, arith::CmpIPredicate::ult, a, i64(b));
}

Value HostBuilder::isZero(Value a) {
  return arith::CmpIOp::create(*this, loc, arith::CmpIPredicate::eq, a, i64(0));
}

Value HostBuilder::both(Value a, Value b) {
  if (!a || !b)
    return a ? a : b;
  return arith::AndIOp::create(*this, loc, a, b);
}

Value HostBuilder::toI64(Value integer) {
  if (integer.getType().isInteger(64))
    return integer;
  if (integer.getType().isIndex()) {
    if (auto constant = integer.getDefiningOp<arith::ConstantIndexOp>())
      return i64(constant.value());
    return arith::IndexCastOp::create(*this, loc, getI64Type(), integer);
  }
  return arith::ExtSIOp::create(*this, loc, getI64Type(), integer);
}

Value HostBuilder::sum(Value index, int64_t count, ArrayRef<Term> terms) {
  Value total = i64(0);
  for (const Term &term : terms) {
    Value digit = div(index, term.div);
    if (term.div * term.mod < count)
      digit = rem(digit, term.mod);
    total = add(total, mul(digit, term.weight));
  }
  return total;
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

void HostBuilder::loop(int64_t n, function_ref<void(Value)> body) {
  loop(n, {}, [&](Value i, ValueRange) {
    body(i);
    return SmallVector<Value>();
  });
}

SmallVector<Value> HostBuilder::loop(int64_t n, ValueRange init,
                                     function_ref<SmallVector<Value>(Value, ValueRange)> body) {
  if (n == 1)
    return body(i64(0), init);
  auto loop = scf::ForOp::create(*this, loc, i64(0), i64(n), i64(1), init);
  InsertionGuard guard(*this);
  setInsertionPointToStart(loop.getBody());
  SmallVector<Value> results = body(loop.getInductionVar(), loop.getRegionIterArgs());
  setInsertionPointToEnd(loop.getBody());
  if (!results.empty())
    scf::YieldOp::create(*this, loc, results);
  return llvm::to_vector_of<Value>(loop.getResults());
}

void HostBuilder::ifTrue(Value condition, function_ref<void()> body) {
  if (!condition)
    return body();
  auto branch = scf::IfOp::create(*this, loc, condition, /*withElseRegion=*/false);
  InsertionGuard guard(*this);
  setInsertionPointToStart(branch.thenBlock());
  body();
}

Value HostBuilder::select(Value condition, function_ref<Value()> then, Value otherwise) {
  if (!condition)
    return then();
  auto branch =
      scf::IfOp::create(*this, loc, otherwise.getType(), condition, /*withElseRegion=*/true);
  InsertionGuard guard(*this);
  setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(*this, loc, then());
  setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(*this, loc, otherwise);
  return branch.getResult(0);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static int64_t bytesOf(Type type) {
  return type.isIntOrFloat() ? (type.getIntOrFloatBitWidth() + 7) / 8 : 8;
}

Type HostBuilder::stored(Type element) {
  return element.isBF16() || element.isF16() ? Type(getI16Type()) : element;
}

Value HostBuilder::bytes(Value pointer, Value offset) {
  if (isConstant(offset, 0))
    return pointer;
  return LLVM::GEPOp::create(*this, loc, pointer.getType(), getI8Type(), pointer, offset);
}

Value HostBuilder::element(Value array, Type type, Value index) {
  if (isConstant(index, 0))
    return array;
  return LLVM::GEPOp::create(*this, loc, array.getType(), stored(type), array, index);
}

Value HostBuilder::load(Value pointer, Type type) {
  return LLVM::LoadOp::create(*this, loc, stored(type), pointer, bytesOf(type));
}

void HostBuilder::store(Value value, Value pointer) {
  LLVM::StoreOp::create(*this, loc, value, pointer, bytesOf(value.getType()));
}

Value HostBuilder::zero(Type type) { return constant(getZeroAttr(stored(type))); }

Value HostBuilder::elementConstant(TypedAttr value) {
  if (stored(value.getType()) == value.getType())
    return constant(value);
  APInt bits = cast<FloatAttr>(value).getValue().bitcastToAPInt();
  return constant(getIntegerAttr(getI16Type(), bits));
}

//===----------------------------------------------------------------------===//
// Narrow floats
//===----------------------------------------------------------------------===//

/// A bit operation with a constant.
template <typename OpTy> Value HostBuilder::apply(Value a, int32_t b) {
  return OpTy::create(*this, loc, a, constant(getI32IntegerAttr(b)));
}

Value HostBuilder::widen(Value bits, Type half) {
  bits = arith::ExtUIOp::create(*this, loc, getI32Type(), bits);
  if (half.isF16())
    return widenF16(bits);
  return arith::BitcastOp::create(*this, loc, getF32Type(), apply<arith::ShLIOp>(bits, 16));
}

// Moves exponent and mantissa into place and multiplies by 2^112, the difference of the biases:
// exact, and right for subnormal numbers too. Infinity and NaN get f32's largest exponent.
Value HostBuilder::widenF16(Value bits) {
  Value sign = apply<arith::ShLIOp>(apply<arith::AndIOp>(bits, 0x8000), 16);
  Value shifted = apply<arith::ShLIOp>(apply<arith::AndIOp>(bits, 0x7FFF), 13);
  Value small = arith::BitcastOp::create(*this, loc, getF32Type(), shifted);
  Value scaled = arith::MulFOp::create(*this, loc, small, constant(getF32FloatAttr(0x1p112f)));
  Value magnitude = arith::BitcastOp::create(*this, loc, getI32Type(), scaled);
  Value isSpecial =
      arith::CmpIOp::create(*this, loc, arith::CmpIPredicate::uge, shifted, i32(0x7C00 << 13));
  magnitude = arith::SelectOp::create(*this, loc, isSpecial,
                                      apply<arith::OrIOp>(magnitude, 0x7F800000), magnitude);
  Value result = arith::OrIOp::create(*this, loc, sign, magnitude);
  return arith::BitcastOp::create(*this, loc, getF32Type(), result);
}

Value HostBuilder::narrow(Value single, Type half) {
  Value bits = arith::BitcastOp::create(*this, loc, getI32Type(), single);
  Value result = half.isF16() ? narrowF16(bits) : narrowBF16(bits);
  return arith::TruncIOp::create(*this, loc, getI16Type(), result);
}

Value HostBuilder::narrowBF16(Value bits) {
  Value high = apply<arith::ShRUIOp>(bits, 16);
  Value odd = apply<arith::AndIOp>(high, 1);
  Value sum = arith::AddIOp::create(*this, loc, apply<arith::AddIOp>(bits, 0x7FFF), odd);
  Value rounded = apply<arith::ShRUIOp>(sum, 16);
  Value magnitude = apply<arith::AndIOp>(bits, 0x7FFFFFFF);
  Value isNaN =
      arith::CmpIOp::create(*this, loc, arith::CmpIPredicate::ugt, magnitude, i32(0x7F800000));
  return arith::SelectOp::create(*this, loc, isNaN, apply<arith::OrIOp>(high, 0x40), rounded);
}

// Normal results: rebias the exponent and add half of the last place, minus one if that place is
// even; what overflows becomes infinity. Subnormal ones: adding 0.5 lets the float adder round at
// 2^-24.
Value HostBuilder::narrowF16(Value bits) {
  auto below = [&](Value a, int64_t b) -> Value {
    return arith::CmpIOp::create(*this, loc, arith::CmpIPredicate::ult, a, i32(b));
  };
  Value sign = apply<arith::AndIOp>(apply<arith::ShRUIOp>(bits, 16), 0x8000);
  Value magnitude = apply<arith::AndIOp>(bits, 0x7FFFFFFF);
  Value odd = apply<arith::AndIOp>(apply<arith::ShRUIOp>(magnitude, 13), 1);
  Value rebiased = apply<arith::SubIOp>(magnitude, (112 << 23) - 0xFFF);
  Value normal = apply<arith::ShRUIOp>(arith::AddIOp::create(*this, loc, rebiased, odd), 13);
  Value single = arith::BitcastOp::create(*this, loc, getF32Type(), magnitude);
  Value shifted = arith::AddFOp::create(*this, loc, single, constant(getF32FloatAttr(0.5f)));
  Value subnormal =
      apply<arith::SubIOp>(arith::BitcastOp::create(*this, loc, getI32Type(), shifted), 0x3F000000);
  Value isNumber = below(magnitude, 0x7F800001);
  Value special = arith::SelectOp::create(*this, loc, isNumber, i32(0x7C00), i32(0x7E00));
  Value result =
      arith::SelectOp::create(*this, loc, below(magnitude, 0x38800000), subnormal, normal);
  result = arith::SelectOp::create(*this, loc, below(magnitude, 0x47800000), result, special);
  return arith::OrIOp::create(*this, loc, sign, result);
}

Value HostBuilder::roundToTF32(Value single) {
  Value bits = arith::BitcastOp::create(*this, loc, getI32Type(), single);
  Value rounded = apply<arith::AndIOp>(apply<arith::AddIOp>(bits, 0x1000), -0x2000);
  Value magnitude = apply<arith::AndIOp>(bits, 0x7FFFFFFF);
  Value isFinite =
      arith::CmpIOp::create(*this, loc, arith::CmpIPredicate::ult, magnitude, i32(0x7F800000));
  Value result = arith::SelectOp::create(*this, loc, isFinite, rounded, bits);
  return arith::BitcastOp::create(*this, loc, getF32Type(), result);
}
