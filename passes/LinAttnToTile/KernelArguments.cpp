//===- KernelArguments.cpp - The parameters of a kernel and what the package says of them ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/LinAttnToTile/KernelArguments.h"

using namespace mlir;
using namespace dl;
using linattn::Axis;
using linattn::HeadGroup;

unsigned KernelArguments::addTensor(StringRef name, StringRef role, Type element,
                                    ArrayRef<Attribute> shape, StringRef access, bool nullable) {
  SmallVector<int64_t> sizes, strides(shape.size(), ShapedType::kDynamic);
  for (Attribute size : shape) {
    auto fixed = dyn_cast<IntegerAttr>(size);
    sizes.push_back(fixed ? fixed.getInt() : ShapedType::kDynamic);
  }
  int64_t packed = 1;
  for (size_t i = shape.size(); i-- > 0 && !ShapedType::isDynamic(sizes[i]);) {
    strides[i] = packed;
    packed *= sizes[i];
  }
  types.push_back(MemRefType::get(
      sizes, element, StridedLayoutAttr::get(builder.getContext(), /*offset=*/0, strides)));
  SmallVector<NamedAttribute> entries{
      builder.getNamedAttr("tile.name", builder.getStringAttr(name)),
      builder.getNamedAttr("tile.role", builder.getStringAttr(role)),
      builder.getNamedAttr("tile.shape", builder.getArrayAttr(shape)),
      builder.getNamedAttr("tile.access", builder.getStringAttr(access))};
  if (nullable)
    entries.push_back(builder.getNamedAttr("tile.nullable", builder.getUnitAttr()));
  attributes.push_back(builder.getDictionaryAttr(entries));
  return types.size() - 1;
}

unsigned KernelArguments::addScalar(StringRef name, Type type, Attribute value,
                                    Attribute fallback) {
  types.push_back(type);
  SmallVector<NamedAttribute> entries{
      builder.getNamedAttr("tile.name", builder.getStringAttr(name)),
      builder.getNamedAttr("tile.role", builder.getStringAttr("scalar"))};
  if (value)
    entries.push_back(builder.getNamedAttr("tile.value", value));
  if (fallback)
    entries.push_back(builder.getNamedAttr("tile.default", fallback));
  attributes.push_back(builder.getDictionaryAttr(entries));
  return types.size() - 1;
}

void KernelArguments::require(unsigned argument, Attribute expression, int64_t equals,
                              StringRef message) {
  NamedAttrList entries(cast<DictionaryAttr>(attributes[argument]));
  entries.set("tile.requires",
              builder.getDictionaryAttr({builder.getNamedAttr("expr", expression),
                                         builder.getNamedAttr("equals", number(equals)),
                                         builder.getNamedAttr("message", symbol(message))}));
  attributes[argument] = entries.getDictionary(builder.getContext());
}

Attribute KernelArguments::expression(StringRef operation, ArrayRef<Attribute> operands) {
  SmallVector<Attribute> parts{symbol(operation)};
  parts.append(operands.begin(), operands.end());
  return builder.getArrayAttr(parts);
}

/// Appends [heads, dims...] of a value with an encoding.
static void appendHeadShape(KernelArguments &arguments, Type type, const KernelTypes &types,
                            SmallVectorImpl<Attribute> &shape) {
  shape.push_back(arguments.symbol(linattn::groupOf(type) == HeadGroup::KeyHead ? "HQ" : "HV"));
  Axis axis = *linattn::axisOf(type);
  if (axis == Axis::Key || axis == Axis::KeyValue)
    shape.push_back(arguments.number(types.keyDim));
  if (axis == Axis::Value || axis == Axis::KeyValue)
    shape.push_back(arguments.number(types.valueDim));
}

OperatorArguments dl::addOperatorArguments(KernelArguments &arguments, linattn::OperatorOp op,
                                           const KernelTypes &types) {
  OperatorArguments result;
  Builder builder(op.getContext());
  auto tokenShape = [&](Type type) {
    SmallVector<Attribute> shape{arguments.symbol("B"), arguments.symbol("T")};
    appendHeadShape(arguments, type, types, shape);
    return shape;
  };
  for (BlockArgument input : op.getInputs()) {
    Type pinned = op.getPinnedType(input.getArgNumber());
    result.inputs.push_back(arguments.addTensor(op.getArgName(input), "input",
                                                pinned ? pinned : types.io,
                                                tokenShape(input.getType()), "r"));
  }
  for (BlockArgument param : op.getParams()) {
    if (!linattn::axisOf(param.getType())) {
      std::optional<double> fallback = op.getDefaultValue(param.getArgNumber(), types.keyDim);
      result.params.push_back(
          arguments.addScalar(op.getArgName(param), builder.getF32Type(), {},
                              fallback ? builder.getF64FloatAttr(*fallback) : Attribute()));
      continue;
    }
    SmallVector<Attribute> shape;
    appendHeadShape(arguments, param.getType(), types, shape);
    Type pinned = op.getPinnedType(param.getArgNumber());
    result.params.push_back(arguments.addTensor(
        op.getArgName(param), "param", pinned ? pinned : builder.getF32Type(), shape, "r"));
  }
  for (unsigned i = 0; i < op.getNumOutputs(); ++i)
    result.outputs.push_back(arguments.addTensor(op.getOutputName(i), "output", types.io,
                                                 tokenShape(op.getOutputType(i)), "w"));

  SmallVector<Attribute> pool{arguments.symbol("slots"), arguments.symbol("HV"),
                              arguments.number(types.keyDim), arguments.number(types.valueDim)};
  if (types.layout == schedule::StateLayout::VK)
    std::swap(pool[2], pool[3]);
  for (BlockArgument state : op.getStates())
    result.stateIn.push_back(
        arguments.addTensor(op.getArgName(state), "state_in", types.state, pool, "r"));
  for (BlockArgument state : op.getStates())
    result.stateOut.push_back(
        arguments.addTensor(op.getArgName(state), "state_out", types.state, pool, "w"));

  Type i32 = builder.getI32Type();
  SmallVector<Attribute> rows{arguments.symbol("B")};
  result.sourceSlots =
      arguments.addTensor("src_slots", "slots_in", i32, rows, "r", /*nullable=*/true);
  result.destinationSlots =
      arguments.addTensor("dst_slots", "slots_out", i32, rows, "r", /*nullable=*/true);
  result.firstSlot = arguments.addScalar("first_slot", i32, {}, builder.getI64IntegerAttr(0));
  result.tokens = arguments.addScalar("T", i32, arguments.symbol("T"), {});
  bool hasKeyHeads = llvm::any_of(op.getBodyRegion().getArgumentTypes(), [](Type type) {
    return linattn::groupOf(type) == HeadGroup::KeyHead;
  });
  if (hasKeyHeads) {
    Attribute heads[] = {arguments.symbol("HV"), arguments.symbol("HQ")};
    result.headRatio =
        arguments.addScalar("head_ratio", i32, arguments.expression("div", heads), {});
    arguments.require(*result.headRatio, arguments.expression("mod", heads), 0,
                      "HV must be a multiple of HQ");
  }
  return result;
}
