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

unsigned KernelArguments::addPart(StringRef name, Attribute count) {
  unsigned argument = addScalar(name, builder.getI32Type(), {}, {});
  set(argument, "tile.parts", count);
  return argument;
}

void KernelArguments::set(unsigned argument, StringRef name, Attribute value) {
  NamedAttrList entries(cast<DictionaryAttr>(attributes[argument]));
  entries.set(name, value);
  attributes[argument] = entries.getDictionary(builder.getContext());
}

void KernelArguments::allowRank(unsigned argument, int64_t rank) {
  set(argument, "tile.min_rank", number(rank));
}

void KernelArguments::require(unsigned argument, Attribute expression, StringRef kind,
                              int64_t bound, StringRef message) {
  set(argument, "tile.requires",
      builder.getDictionaryAttr({builder.getNamedAttr("expr", expression),
                                 builder.getNamedAttr(kind, number(bound)),
                                 builder.getNamedAttr("message", symbol(message))}));
}

bool KernelArguments::hasDimension(StringRef name) const {
  return llvm::any_of(attributes, [&](Attribute argument) {
    auto shape = cast<DictionaryAttr>(argument).getAs<ArrayAttr>("tile.shape");
    return shape && llvm::is_contained(shape, builder.getStringAttr(name));
  });
}

Type KernelTypes::typeOf(StringRef name, Type fallback) const {
  for (const auto &[given, type] : given)
    if (given == name)
      return type;
  return fallback;
}

Attribute KernelArguments::expression(StringRef operation, ArrayRef<Attribute> operands) {
  SmallVector<Attribute> parts{symbol(operation)};
  parts.append(operands.begin(), operands.end());
  return builder.getArrayAttr(parts);
}

SmallVector<StringRef> dl::typedArguments(linattn::OperatorOp op) {
  SmallVector<StringRef> names;
  for (BlockArgument input : op.getInputs())
    names.push_back(op.getArgName(input));
  for (BlockArgument param : op.getParams())
    if (linattn::axisOf(param.getType()))
      names.push_back(op.getArgName(param));
  for (unsigned i = 0; i < op.getNumOutputs(); ++i)
    names.push_back(op.getOutputName(i));
  return names;
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

static Type typeOf(linattn::OperatorOp op, BlockArgument argument, const KernelTypes &types,
                   Type fallback) {
  Type pinned = op.getPinnedType(argument.getArgNumber());
  return types.typeOf(op.getArgName(argument), pinned ? pinned : fallback);
}

void dl::addParamArguments(KernelArguments &arguments, linattn::OperatorOp op,
                           const KernelTypes &types, OperatorArguments &result) {
  Builder builder(op.getContext());
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
    result.params.push_back(arguments.addTensor(
        op.getArgName(param), "param", typeOf(op, param, types, builder.getF32Type()), shape, "r"));
  }
}

void dl::addTokenArguments(KernelArguments &arguments, linattn::OperatorOp op,
                           const KernelTypes &types, OperatorArguments &result) {
  auto tokenShape = [&](Type type) {
    SmallVector<Attribute> shape{arguments.symbol("B"), arguments.symbol("T")};
    appendHeadShape(arguments, type, types, shape);
    return shape;
  };
  for (BlockArgument input : op.getInputs())
    result.inputs.push_back(arguments.addTensor(op.getArgName(input), "input",
                                                typeOf(op, input, types, types.io),
                                                tokenShape(input.getType()), "r"));
  addParamArguments(arguments, op, types, result);
  for (unsigned i = 0; i < op.getNumOutputs(); ++i)
    result.outputs.push_back(arguments.addTensor(op.getOutputName(i), "output",
                                                 types.typeOf(op.getOutputName(i), types.io),
                                                 tokenShape(op.getOutputType(i)), "w"));
}

SmallVector<unsigned> dl::addPools(KernelArguments &arguments, linattn::OperatorOp op,
                                   const KernelTypes &types, StringRef slots, StringRef role,
                                   StringRef access) {
  SmallVector<Attribute> pool{arguments.symbol(slots), arguments.symbol("HV"),
                              arguments.number(types.keyDim), arguments.number(types.valueDim)};
  if (types.layout == schedule::StateLayout::VK)
    std::swap(pool[2], pool[3]);
  SmallVector<unsigned> result;
  for (BlockArgument state : op.getStates())
    result.push_back(arguments.addTensor(op.getArgName(state), role, types.state, pool, access));
  return result;
}

/// The arrays that Row reads.
static void addRowArguments(KernelArguments &arguments, MLIRContext *context,
                            const KernelTypes &types, OperatorArguments &result) {
  auto add = [&](StringRef name, StringRef role, Type type, ArrayRef<Attribute> shape) {
    return arguments.addTensor(name, role, type, shape, "r", /*nullable=*/true);
  };
  Attribute rows = arguments.symbol("N");
  for (auto [name, role, width, place] :
       {std::tuple("src_slots", "slots_in", "src_width", &result.sourceSlots),
        std::tuple("dst_slots", "slots_out", "dst_width", &result.destinationSlots)}) {
    *place = add(name, role, types.index, {rows, arguments.symbol(width)});
    arguments.allowRank(*place, 1);
  }
  Attribute starts = arguments.expression("add", {rows, arguments.number(1)});
  result.rowStarts = add("cu_seqlens", "row_starts", types.index, starts);
  result.hasInitialState =
      add("has_initial_state", "row_flags", IntegerType::get(context, 8), rows);
  result.acceptedTokens = add("num_accepted_tokens", "accepted", types.index, rows);
  if (types.checkpointInterval == 0)
    return;
  result.checkpointSlots = add("checkpoint_slots", "checkpoint_slots", types.index,
                               {rows, arguments.symbol("checkpoint_width")});
  arguments.allowRank(result.checkpointSlots, 1);
  result.checkpointOffsets = add("checkpoint_offsets", "checkpoint_offsets", types.index, rows);
}

void dl::addHeadReciprocal(KernelArguments &arguments, MLIRContext *context,
                           OperatorArguments &result) {
  Builder builder(context);
  if (!arguments.hasDimension("HQ"))
    return;
  Attribute heads[] = {arguments.symbol("HV"), arguments.symbol("HQ")};
  // h / ratio = h * ceil(2^32 / ratio) >> 32, exact while h * ratio < 2^32.
  arguments.require(result.rows, arguments.symbol("HV"), "max", 65535, "HV must be at most 65535");
  Attribute parts[] = {arguments.number(int64_t(1) << 32), arguments.expression("div", heads)};
  result.headReciprocal = arguments.addScalar("head_reciprocal", builder.getI64Type(),
                                              arguments.expression("ceildiv", parts), {});
  arguments.require(*result.headReciprocal, arguments.expression("mod", heads), "equals", 0,
                    "HV must be a multiple of HQ");
}

OperatorArguments dl::addOperatorArguments(KernelArguments &arguments, linattn::OperatorOp op,
                                           const KernelTypes &types,
                                           llvm::function_ref<void()> addMore) {
  OperatorArguments result;
  addTokenArguments(arguments, op, types, result);
  result.stateIn = addPools(arguments, op, types, "pool_in", "state_in", "r");
  result.stateOut = addPools(arguments, op, types, "pool_out", "state_out", "w");
  if (addMore)
    addMore();
  addRowArguments(arguments, op.getContext(), types, result);
  Builder builder(op.getContext());
  Type i32 = builder.getI32Type();
  result.firstSlot = arguments.addScalar("first_slot", i32, {}, builder.getI64IntegerAttr(0));
  auto size = [&](StringRef name) {
    return arguments.addScalar(name, i32, arguments.symbol(name), {});
  };
  result.tokens = size("T");
  result.rows = size("N");
  result.sourcePool = size("pool_in");
  result.destinationPool = size("pool_out");
  result.sourceWidth = size("src_width");
  result.destinationWidth = size("dst_width");
  if (types.checkpointInterval != 0)
    result.checkpointWidth = size("checkpoint_width");
  addHeadReciprocal(arguments, op.getContext(), result);
  return result;
}
