//===- TileDialect.cpp - Attributes and types of the tile dialect ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Layout/Atoms.h"
#include "dialects/Tile/IR/Tile.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace dl::tile;
namespace layout = dl::layout;

static ParseResult parseShape(AsmParser &parser, SmallVector<int64_t> &shape, Type &element) {
  return failure(parser.parseDimensionList(shape, /*allowDynamic=*/false) ||
                 parser.parseType(element));
}
static void printShape(AsmPrinter &printer, ArrayRef<int64_t> shape, Type element) {
  for (int64_t size : shape)
    printer << size << 'x';
  printer << element;
}

#include "dialects/Tile/IR/TileDialect.cpp.inc"
#include "dialects/Tile/IR/TileInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Tile/IR/TileAttrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/Tile/IR/TileTypes.cpp.inc"

namespace {
/// Names layouts in printed IR, so that a type says #state instead of four lists of numbers.
struct TileAsmInterface : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;
  AliasResult getAlias(Attribute attribute, raw_ostream &stream) const override {
    if (isa<BlockedAttr>(attribute))
      stream << "blocked";
    else if (isa<SliceAttr>(attribute))
      stream << "slice";
    else if (auto fragment = dyn_cast<FragmentAttr>(attribute))
      stream << "fragment_" << fragment.getOperand();
    else
      return AliasResult::NoAlias;
    return AliasResult::OverridableAlias;
  }
};
} // namespace

void TileDialect::initialize() {
  addInterfaces<TileAsmInterface>();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Tile/IR/TileAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/Tile/IR/TileTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Tile/IR/TileOps.cpp.inc"
      >();
}

//===----------------------------------------------------------------------===//
// Layout attributes
//===----------------------------------------------------------------------===//

/// Turns the error of a layout constructor into a diagnostic.
static LogicalResult report(function_ref<InFlightDiagnostic()> emitError, llvm::Error error) {
  if (!error)
    return success();
  return emitError() << llvm::toString(std::move(error));
}

static LogicalResult verifyEncodingOf(RegisterLayoutInterface attr, ArrayRef<int64_t> shape,
                                      function_ref<InFlightDiagnostic()> emitError) {
  if (ShapedType::isDynamicShape(shape))
    return emitError() << "expected a static shape under a register layout";
  llvm::Expected<layout::RegisterLayout> made = attr.getRegisterLayout(shape);
  return report(emitError, made.takeError());
}

llvm::Expected<layout::RegisterLayout>
BlockedAttr::getRegisterLayout(ArrayRef<int64_t> shape) const {
  layout::BlockedParams params;
  params.perThread.assign(getPerThread().begin(), getPerThread().end());
  params.lanes.assign(getLanes().begin(), getLanes().end());
  params.warps.assign(getWarps().begin(), getWarps().end());
  params.order.assign(getOrder().begin(), getOrder().end());
  params.numWarps = getNumWarps();
  return layout::blocked(shape, params);
}

LogicalResult BlockedAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                  ArrayRef<int64_t> perThread, ArrayRef<int64_t> lanes,
                                  ArrayRef<int64_t> warps, ArrayRef<int64_t> order,
                                  int64_t numWarps) {
  layout::BlockedParams params;
  params.perThread.assign(perThread.begin(), perThread.end());
  params.lanes.assign(lanes.begin(), lanes.end());
  params.warps.assign(warps.begin(), warps.end());
  params.order.assign(order.begin(), order.end());
  params.numWarps = numWarps;
  // A shape of ones exercises every check but the tensor's own.
  return report(emitError,
                layout::blocked(SmallVector<int64_t>(perThread.size(), 1), params).takeError());
}

LogicalResult BlockedAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                                          function_ref<InFlightDiagnostic()> emitError) const {
  return verifyEncodingOf(*this, shape, emitError);
}

llvm::Expected<layout::RegisterLayout> SliceAttr::getRegisterLayout(ArrayRef<int64_t> shape) const {
  // How often the parent repeats along the axis changes only registers that the slice drops: any
  // size will do.
  SmallVector<int64_t> parentShape(shape);
  if (getAxis() > static_cast<int64_t>(shape.size()))
    return llvm::createStringError("slice axis %d does not exist in a parent of rank %d",
                                   int(getAxis()), int(shape.size() + 1));
  parentShape.insert(parentShape.begin() + getAxis(), 1);
  llvm::Expected<layout::RegisterLayout> parent =
      cast<RegisterLayoutInterface>(getParent()).getRegisterLayout(parentShape);
  if (!parent)
    return parent.takeError();
  return parent->slice(getAxis());
}

LogicalResult SliceAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t axis,
                                Attribute parent) {
  if (!isa_and_nonnull<RegisterLayoutInterface>(parent))
    return emitError() << "expected a register layout as parent of a slice, got " << parent;
  if (axis < 0)
    return emitError() << "expected a slice axis of at least 0, got " << axis;
  return success();
}

LogicalResult SliceAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                                        function_ref<InFlightDiagnostic()> emitError) const {
  return verifyEncodingOf(*this, shape, emitError);
}

static std::optional<layout::Operand> parseOperand(StringRef name) {
  for (layout::Operand operand : {layout::Operand::A, layout::Operand::B, layout::Operand::C})
    if (name.equals_insensitive(layout::stringify(operand)))
      return operand;
  return std::nullopt;
}

llvm::Expected<layout::RegisterLayout>
FragmentAttr::getRegisterLayout(ArrayRef<int64_t> shape) const {
  llvm::Expected<const layout::Instruction *> row = layout::findInstruction(getInstruction());
  if (!row)
    return row.takeError();
  layout::AtomParams params;
  params.operand = *parseOperand(getOperand());
  params.warpsM = getWarps()[0];
  params.warpsN = getWarps()[1];
  return layout::atom(shape, **row, params);
}

LogicalResult FragmentAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   StringRef instruction, StringRef operand,
                                   ArrayRef<int64_t> warps) {
  if (llvm::Error error = layout::findInstruction(instruction).takeError())
    return report(emitError, std::move(error));
  if (!parseOperand(operand))
    return emitError() << "expected operand \"a\", \"b\" or \"c\", got \"" << operand << "\"";
  if (warps.size() != 2 || warps[0] <= 0 || warps[1] <= 0)
    return emitError() << "expected two positive warp counts (along M and N), got [" << warps
                       << "]";
  return success();
}

LogicalResult FragmentAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                                           function_ref<InFlightDiagnostic()> emitError) const {
  return verifyEncodingOf(*this, shape, emitError);
}

LogicalResult SwizzledAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t bytes) {
  if (bytes != 0 && bytes != 32 && bytes != 64 && bytes != 128)
    return emitError() << "expected a swizzle of 0, 32, 64 or 128 bytes, got " << bytes;
  return success();
}

LogicalResult SharedType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 ArrayRef<int64_t> shape, Type element, SwizzledAttr swizzled) {
  if (!element.isIntOrFloat())
    return emitError() << "expected an integer or float element in shared memory, got " << element;
  return report(
      emitError,
      layout::shared(shape, element.getIntOrFloatBitWidth() / 8, swizzled.getBytes()).takeError());
}

//===----------------------------------------------------------------------===//
// Helpers
//===----------------------------------------------------------------------===//

namespace dl::tile {
bool isDistributed(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.hasStaticShape() &&
         isa_and_nonnull<RegisterLayoutInterface>(tensor.getEncoding());
}

llvm::Expected<layout::RegisterLayout> getLayout(RankedTensorType type) {
  return cast<RegisterLayoutInterface>(type.getEncoding()).getRegisterLayout(type.getShape());
}

Type sliceType(RankedTensorType type, int64_t axis) {
  if (type.getRank() == 1)
    return type.getElementType();
  SmallVector<int64_t> shape(type.getShape());
  shape.erase(shape.begin() + axis);
  return RankedTensorType::get(shape, type.getElementType(),
                               SliceAttr::get(type.getContext(), axis, type.getEncoding()));
}

llvm::Expected<layout::SharedLayout> getLayout(SharedType type) {
  return layout::shared(type.getShape(), type.getElementType().getIntOrFloatBitWidth() / 8,
                        type.getLayout().getBytes());
}

ParameterLayout getParameterLayout(TypeRange arguments) {
  ParameterLayout result;
  auto place = [&](int64_t bytes) {
    result.bytes = (result.bytes + bytes - 1) / bytes * bytes;
    int64_t offset = result.bytes;
    result.bytes += bytes;
    return offset;
  };
  for (Type type : arguments) {
    ParameterSlot slot;
    auto memref = dyn_cast<MemRefType>(type);
    if (!memref) {
      slot.offset = place(type.getIntOrFloatBitWidth() / 8);
    } else {
      slot.offset = place(8);
      SmallVector<int64_t> strides;
      int64_t offset;
      if (succeeded(memref.getStridesAndOffset(strides, offset)))
        for (int64_t stride : strides)
          slot.strides.push_back(ShapedType::isDynamic(stride) ? place(4) : -1);
    }
    result.slots.push_back(std::move(slot));
  }
  result.bytes = (result.bytes + 7) / 8 * 8;
  return result;
}
} // namespace dl::tile
