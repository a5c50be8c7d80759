//===- LinAttnTypes.cpp - The state and the kinds of tensors --------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/LinAttn/IR/LinAttn.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace dl::linattn;

#define GET_TYPEDEF_CLASSES
#include "dialects/LinAttn/IR/LinAttnTypes.cpp.inc"

void LinAttnDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/LinAttn/IR/LinAttnTypes.cpp.inc"
      >();
}

static OfAttr encodingOf(Type type) {
  auto tensor = dyn_cast_or_null<RankedTensorType>(type);
  return tensor ? dyn_cast_or_null<OfAttr>(tensor.getEncoding()) : OfAttr();
}

std::optional<Axis> dl::linattn::axisOf(Type type) {
  OfAttr of = encodingOf(type);
  return of ? std::optional<Axis>(of.getAxis()) : std::nullopt;
}

std::optional<HeadGroup> dl::linattn::groupOf(Type type) {
  OfAttr of = encodingOf(type);
  return of ? std::optional<HeadGroup>(of.getGroup()) : std::nullopt;
}

bool dl::linattn::isState(Type type) { return isa_and_nonnull<StateType>(type); }

bool dl::linattn::isEncoded(Type type) {
  return encodingOf(type) && cast<RankedTensorType>(type).getElementType().isF32();
}

bool dl::linattn::isOn(Type type, Axis axis) { return isEncoded(type) && axisOf(type) == axis; }

bool dl::linattn::isReadResult(Type type) {
  return isOn(type, Axis::Value) && groupOf(type) == HeadGroup::ValueHead;
}

RankedTensorType dl::linattn::getTensorType(MLIRContext *context, Axis axis, HeadGroup group) {
  size_t rank = axis == Axis::KeyValue ? 2 : axis == Axis::Scalar ? 0 : 1;
  SmallVector<int64_t, 2> shape(rank, ShapedType::kDynamic);
  return RankedTensorType::get(shape, Float32Type::get(context), OfAttr::get(context, axis, group));
}
