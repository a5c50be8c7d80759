//===- Manifest.cpp - What a package says of a kernel ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Package/Manifest.h"
#include "passes/Tile/Access.h"
#include "runtime/include/dl/abi.h"

using namespace mlir;
using namespace dl;
namespace json = llvm::json;

/// Expressions are strings, integers and arrays of them in the IR as in the manifest.
static json::Value toJson(Attribute attribute) {
  if (auto text = dyn_cast<StringAttr>(attribute))
    return text.getValue().str(); // an own copy: the manifest outlives the context
  if (auto number = dyn_cast<IntegerAttr>(attribute))
    return number.getInt();
  if (auto number = dyn_cast<FloatAttr>(attribute))
    return number.getValueAsDouble();
  json::Array parts;
  for (Attribute part : cast<ArrayAttr>(attribute))
    parts.push_back(toJson(part));
  return parts;
}

std::string dl::package::typeName(Type type) {
  if (type.isInteger(8))
    return "u8"; // MLIR's integers have no sign
  std::string name;
  llvm::raw_string_ostream(name) << type;
  return name;
}

static json::Object describeTensor(tile::KernelOp kernel, BlockArgument argument,
                                   const tile::ParameterSlot &slot) {
  unsigned number = argument.getArgNumber();
  auto type = cast<MemRefType>(argument.getType());
  auto text = [&](StringRef name, StringRef fallback) {
    auto value = kernel.getArgAttrOfType<StringAttr>(number, name);
    return (value ? value.getValue() : fallback).str();
  };
  SmallVector<int64_t> sizes;
  int64_t offset;
  (void)type.getStridesAndOffset(sizes, offset);
  json::Array strides;
  for (auto [stride, place] : llvm::zip(sizes, slot.strides)) {
    if (place >= 0)
      strides.push_back(place);
    else if (stride == 1)
      strides.push_back(nullptr);
    else
      strides.push_back(json::Object{{"fixed", stride}});
  }
  int64_t rank = type.getRank();
  if (auto least = kernel.getArgAttrOfType<IntegerAttr>(number, "tile.min_rank"))
    rank = least.getInt();
  json::Value shape = json::Array();
  if (Attribute given = kernel.getArgAttr(number, "tile.shape"))
    shape = toJson(given);
  json::Object result{{"name", text("tile.name", ("arg" + Twine(number)).str())},
                      {"role", text("tile.role", "input")},
                      {"dtype", package::typeName(type.getElementType())},
                      {"shape", std::move(shape)},
                      {"access", text("tile.access", "r")},
                      {"align", tile::requiredAlignment(argument)},
                      {"pointer", slot.offset},
                      {"strides", std::move(strides)},
                      {"nullable", static_cast<bool>(kernel.getArgAttr(number, "tile.nullable"))}};
  if (rank != type.getRank())
    result["min_rank"] = rank;
  return result;
}

static json::Object describeScalar(tile::KernelOp kernel, BlockArgument argument,
                                   const tile::ParameterSlot &slot) {
  unsigned number = argument.getArgNumber();
  auto name = kernel.getArgAttrOfType<StringAttr>(number, "tile.name");
  json::Object result{{"name", name ? name.getValue().str() : ("arg" + Twine(number)).str()},
                      {"dtype", package::typeName(argument.getType())},
                      {"offset", slot.offset}};
  if (Attribute value = kernel.getArgAttr(number, "tile.value"))
    result["value"] = toJson(value);
  if (Attribute fallback = kernel.getArgAttr(number, "tile.default"))
    result["default"] = toJson(fallback);
  if (Attribute parts = kernel.getArgAttr(number, "tile.parts"))
    result["parts"] = toJson(parts);
  return result;
}

/// The entries have the manifest's names: "expr", "equals" and "message".
static json::Object describeRequirement(DictionaryAttr requirement) {
  json::Object result;
  for (NamedAttribute entry : requirement)
    result[entry.getName().str()] = toJson(entry.getValue());
  return result;
}

LogicalResult dl::package::checkArguments(tile::KernelOp kernel) {
  int64_t tensors = llvm::count_if(kernel.getArgumentTypes(), llvm::IsaPred<MemRefType>);
  int64_t scalars = static_cast<int64_t>(kernel.getArgumentTypes().size()) - tensors;
  int64_t bytes = tile::getParameterLayout(kernel.getArgumentTypes()).bytes;
  auto check = [&](int64_t count, int64_t most, StringRef what) -> LogicalResult {
    if (count <= most)
      return success();
    return mlir::emitError(kernel.getLoc())
           << "kernel '" << kernel.getSymName() << "': expected at most " << most << " " << what
           << " as arguments, got " << count;
  };
  return success(succeeded(check(tensors, DLK_MAX_ARGS, "tensors")) &&
                 succeeded(check(scalars, DLK_MAX_SCALARS, "scalars")) &&
                 succeeded(check(bytes, DLK_MAX_PARAM_BYTES, "bytes")));
}

json::Object dl::package::describeKernel(tile::KernelOp kernel) {
  tile::ParameterLayout layout = tile::getParameterLayout(kernel.getArgumentTypes());
  json::Array args, scalars, requirements;
  for (auto [argument, slot] : llvm::zip(kernel.getBody().getArguments(), layout.slots)) {
    if (isa<MemRefType>(argument.getType()))
      args.push_back(describeTensor(kernel, argument, slot));
    else
      scalars.push_back(describeScalar(kernel, argument, slot));
    if (auto needs =
            kernel.getArgAttrOfType<DictionaryAttr>(argument.getArgNumber(), "tile.requires"))
      requirements.push_back(describeRequirement(needs));
  }
  json::Value grid = json::Array{1, 1, 1};
  if (kernel.getGrid())
    grid = toJson(*kernel.getGrid());
  return json::Object{{"entry", kernel.getSymName().str()},
                      {"threads", static_cast<int64_t>(kernel.getThreads())},
                      {"grid", std::move(grid)},
                      {"param_bytes", layout.bytes},
                      {"args", std::move(args)},
                      {"scalars", std::move(scalars)},
                      {"requires", std::move(requirements)},
                      {"pdl", tile::startsEarly(kernel)}};
}
