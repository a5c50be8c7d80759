//===- TileOps.cpp - Verifiers and syntax of the tile ops ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Layout/Atoms.h"
#include "dialects/Tile/IR/Tile.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/FunctionImplementation.h"
#include "llvm/Support/JSON.h"
#include <cmath>

using namespace mlir;
using namespace dl::tile;

#define GET_OP_CLASSES
#include "dialects/Tile/IR/TileOps.cpp.inc"

//===----------------------------------------------------------------------===//
// KernelOp
//===----------------------------------------------------------------------===//

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  auto build = [](Builder &builder, ArrayRef<Type> arguments, ArrayRef<Type> results,
                  function_interface_impl::VariadicFlag,
                  std::string &) { return builder.getFunctionType(arguments, results); };
  return function_interface_impl::parseFunctionOp(
      parser, result, /*allowVariadic=*/false, getFunctionTypeAttrName(result.name), build,
      getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void KernelOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(printer, *this, /*isVariadic=*/false,
                                           getFunctionTypeAttrName(), getArgAttrsAttrName(),
                                           getResAttrsAttrName());
}

static bool isParameter(Type type) {
  auto scalar = [](Type t) { return t.isF32() || t.isInteger(32) || t.isInteger(64); };
  auto memref = dyn_cast<MemRefType>(type);
  if (!memref)
    return scalar(type);
  SmallVector<int64_t> strides;
  int64_t offset;
  Type element = memref.getElementType();
  return (scalar(element) || element.isInteger(8) || element.isBF16() || element.isF16()) &&
         succeeded(memref.getStridesAndOffset(strides, offset)) && offset == 0;
}

/// Whether a manifest, which is JSON, can hold it.
static bool isManifestValue(Attribute value) {
  if (auto text = dyn_cast_or_null<StringAttr>(value))
    return llvm::json::isUTF8(text.getValue());
  if (auto number = dyn_cast_or_null<IntegerAttr>(value))
    return number.getType().isIndex() ||
           (number.getType().isSignlessInteger() && number.getType().getIntOrFloatBitWidth() <= 64);
  if (auto number = dyn_cast_or_null<FloatAttr>(value))
    return number.getValue().isFinite() && std::isfinite(number.getValueAsDouble());
  if (auto parts = dyn_cast_or_null<ArrayAttr>(value))
    return llvm::all_of(parts, isManifestValue);
  return false;
}

static LogicalResult verifyManifestValues(KernelOp kernel) {
  auto check = [&](StringRef name, Attribute value) -> LogicalResult {
    if (isManifestValue(value))
      return success();
    return kernel.emitOpError("C5: expected ")
           << name << " to hold text, integers, finite numbers or arrays of them, got " << value;
  };
  if (kernel.getGrid() && failed(check("grid", *kernel.getGrid())))
    return failure();
  for (unsigned i = 0, e = kernel.getNumArguments(); i < e; ++i) {
    for (StringRef name :
         {"tile.name", "tile.role", "tile.access", "tile.shape", "tile.value", "tile.default"})
      if (Attribute value = kernel.getArgAttr(i, name); value && failed(check(name, value)))
        return failure();
    if (auto needs = kernel.getArgAttrOfType<DictionaryAttr>(i, "tile.requires"))
      for (NamedAttribute entry : needs)
        if (failed(check("tile.requires", entry.getValue())))
          return failure();
  }
  return success();
}

LogicalResult KernelOp::verifyRegions() {
  for (auto [index, type] : llvm::enumerate(getArgumentTypes())) // C1
    if (!isParameter(type))
      return emitOpError("C1: argument ")
             << index
             << ": expected a strided memref of f32, bf16, f16, i8, i32 or i64, or an "
                "f32, i32 or i64 scalar, got "
             << type;
  // C4: what an assembler takes as a symbol
  if (StringRef name = getSymName();
      name.empty() || llvm::isDigit(name.front()) ||
      !llvm::all_of(name, [](char c) { return llvm::isAlnum(c) || c == '_'; }))
    return emitOpError("C4: expected an identifier as name, got '") << name << "'";
  if (failed(verifyManifestValues(*this))) // C5
    return failure();
  int64_t threads = getThreads(); // C2
  if (threads <= 0 || threads % 32 != 0 || threads > 1024)
    return emitOpError("C2: expected threads to be a positive multiple of 32, at most 1024, got ")
           << threads;
  WalkResult walk = getBody().walk([&](Operation *op) { // C3
    for (Type type : op->getResultTypes()) {
      if (!isDistributed(type))
        continue;
      llvm::Expected<layout::RegisterLayout> layout = getLayout(cast<RankedTensorType>(type));
      if (!layout) {
        op->emitOpError(llvm::toString(layout.takeError()));
        return WalkResult::interrupt();
      }
      if (layout->numThreads != threads) {
        op->emitOpError("C3: expected a layout for the kernel's ")
            << threads << " threads, got one for " << layout->numThreads;
        return WalkResult::interrupt();
      }
    }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

LogicalResult IsPresentOp::verify() {
  auto argument = dyn_cast<BlockArgument>(getMemory()); // C1
  if (!argument || !isa<KernelOp>(argument.getOwner()->getParentOp()))
    return emitOpError("C1: expected an argument of the kernel");
  return success();
}

static LogicalResult verifyAccess(Operation *op, MemRefType memory, ValueRange indices,
                                  ArrayRef<int64_t> axes, std::optional<ArrayRef<bool>> inBounds,
                                  RankedTensorType tensor, bool counted = false) {
  if (static_cast<int64_t>(indices.size()) != memory.getRank()) // C1
    return op->emitOpError("C1: expected ")
           << memory.getRank() << " indices, got " << indices.size();
  if (static_cast<int64_t>(axes.size()) != tensor.getRank())
    return op->emitOpError("C1: expected ") << tensor.getRank() << " axes, got " << axes.size();
  if (inBounds && inBounds->size() != axes.size())
    return op->emitOpError("C1: expected ")
           << axes.size() << " in_bounds flags, got " << inBounds->size();
  llvm::SmallDenseSet<int64_t> seen;
  int64_t dynamic = 0;
  for (int64_t axis : axes) {
    if (axis < 0 || axis >= memory.getRank() || !seen.insert(axis).second)
      return op->emitOpError("C1: expected distinct axes below ")
             << memory.getRank() << ", got " << axes;
    dynamic += memory.isDynamicDim(axis);
    if (memory.isDynamicDim(axis) && !counted) // C2
      return op->emitOpError("C2: expected a static size in memref dimension ")
             << axis << ", got " << memory;
  }
  if (counted && dynamic != 1)
    return op->emitOpError("C2: expected a count to go with one dynamic dimension, got ")
           << dynamic << " among axes " << axes << " of " << memory;
  if (memory.getElementType() != tensor.getElementType())
    return op->emitOpError("C2: expected elements of ")
           << memory.getElementType() << ", got " << tensor;
  return success();
}

LogicalResult LoadOp::verify() {
  RankedTensorType tensor = getResult().getType();
  if (failed(verifyAccess(*this, cast<MemRefType>(getMemory().getType()), getIndices(), getAxes(),
                          getInBounds(), tensor, bool(getCount()))))
    return failure();
  if (!getRepeats()) // C3
    return success();
  ArrayRef<int64_t> repeats = *getRepeats();
  if (int64_t(repeats.size()) != tensor.getRank() ||
      llvm::any_of(repeats, [](int64_t repeat) { return repeat < 1; }))
    return emitOpError("C3: expected ") << tensor.getRank() << " positive repeats, got " << repeats;
  layout::RegisterLayout layout = llvm::cantFail(getLayout(tensor));
  for (auto [axis, repeat] : llvm::enumerate(repeats))
    if (!layout.addsWithin(axis, repeat))
      return emitOpError("C3: expected a layout that adds no place among ")
             << repeat << " to another one along axis " << axis << ", got " << tensor;
  return success();
}

LogicalResult StoreOp::verify() {
  return verifyAccess(*this, cast<MemRefType>(getMemory().getType()), getIndices(), getAxes(),
                      getInBounds(), getValue().getType(), bool(getCount()));
}

LogicalResult RingLoadOp::verify() {
  auto memory = cast<MemRefType>(getMemory().getType());
  RankedTensorType tensor = getResult().getType();
  if (failed(verifyAccess(*this, memory, getIndices(), getAxes(), getInBounds(), tensor)))
    return failure();
  if (int64_t rows = memory.getDimSize(getAxes()[0]); tensor.getDimSize(0) > rows) // C3
    return emitOpError("C3: expected at most the ring's ") << rows << " rows, got " << tensor;
  return success();
}

static LogicalResult verifyLocal(Operation *op, RankedTensorType tensor, SharedType buffer) {
  if (tensor.getShape() != buffer.getShape() || tensor.getElementType() != buffer.getElementType())
    return op->emitOpError("C1: expected tensor and buffer of one shape and element type, got ")
           << tensor << " and " << buffer;
  return success();
}
LogicalResult LocalStoreOp::verify() {
  return verifyLocal(*this, getValue().getType(), getBuffer().getType());
}
LogicalResult LocalLoadOp::verify() {
  return verifyLocal(*this, getResult().getType(), getBuffer().getType());
}

//===----------------------------------------------------------------------===//
// Cross-thread work
//===----------------------------------------------------------------------===//

LogicalResult SplatOp::verify() {
  if (getScalar().getType() != getResult().getType().getElementType())
    return emitOpError("C1: expected a scalar of the element type, got ")
           << getScalar().getType() << " for " << getResult().getType();
  return success();
}

LogicalResult ExpandOp::verify() {
  RankedTensorType result = getResult().getType();
  int64_t axis = getAxis();
  if (axis < 0 || axis >= result.getRank() || result.getRank() < 2)
    return emitOpError("C1: expected an axis of ") << result << ", got " << axis;
  if (Type expected = sliceType(result, axis); getValue().getType() != expected)
    return emitOpError("C1: expected an operand of ")
           << expected << ", got " << getValue().getType();
  return success();
}

LogicalResult InsertOp::verify() {
  RankedTensorType matrix = getMatrix().getType();
  int64_t axis = getAxis();
  if (axis < 0 || axis >= matrix.getRank() || matrix.getRank() < 2)
    return emitOpError("C1: expected an axis of ") << matrix << ", got " << axis;
  if (Type expected = sliceType(matrix, axis); getVector().getType() != expected)
    return emitOpError("C1: expected a vector of ")
           << expected << ", got " << getVector().getType();
  return success();
}

LogicalResult ReduceOp::verify() {
  if (getValues().empty() || getValues().size() != getResults().size())
    return emitOpError("C1: expected one result per operand and at least one, got ")
           << getResults().size() << " for " << getValues().size();
  for (auto [value, result] : llvm::zip(getValues(), getResults())) {
    auto type = cast<RankedTensorType>(value.getType());
    if (static_cast<int64_t>(getAxis()) >= type.getRank() || static_cast<int64_t>(getAxis()) < 0)
      return emitOpError("C1: expected an axis of ") << type << ", got " << getAxis();
    if (type != getValues().front().getType())
      return emitOpError("C1: expected operands of one type, got ") << type;
    if (Type expected = sliceType(type, getAxis()); result.getType() != expected)
      return emitOpError("C1: expected a result of ") << expected << ", got " << result.getType();
  }
  return success();
}

LogicalResult CoordinateOp::verify() {
  RankedTensorType type = getResult().getType();
  int64_t axis = getAxis();
  if (axis < 0 || axis >= type.getRank() || !type.getElementType().isInteger(32))
    return emitOpError("C1: expected an axis of a tensor of i32, got ") << axis << " of " << type;
  return success();
}

LogicalResult ScanOp::verify() {
  RankedTensorType type = getValue().getType();
  int64_t axis = getAxis(), run = getRun();
  if (axis < 0 || axis >= type.getRank())
    return emitOpError("C1: expected an axis of ") << type << ", got " << axis;
  if (run <= 0 || type.getDimSize(axis) % run != 0)
    return emitOpError("C1: expected a run that divides ")
           << type.getDimSize(axis) << ", got " << run;
  return success();
}

/// C2 and C3 of a product with two parts.
static LogicalResult verifySecondPart(DotOp op) {
  RankedTensorType first = op.getMatrix().getType();
  auto second = cast<RankedTensorType>(op.getMoreMatrix().getType());
  int64_t axis = op.getAxis();
  if (second.getRank() != 2 || op.getMoreVectors().size() != op.getVectors().size())
    return op.emitOpError("C2: expected a matrix and ")
           << op.getVectors().size() << " vectors in the second part, got " << second << " and "
           << op.getMoreVectors().size();
  Type vector = sliceType(second, 1 - axis);
  for (Value operand : op.getMoreVectors())
    if (operand.getType() != vector)
      return op.emitOpError("C2: expected vectors of ")
             << vector << " in the second part, got " << operand.getType();
  dl::layout::RegisterLayout m = llvm::cantFail(getLayout(first));
  dl::layout::RegisterLayout n = llvm::cantFail(getLayout(second));
  if (m.slice(axis) != n.slice(axis))
    return op.emitOpError("C3: expected two matrices that distribute axis ")
           << 1 - axis << " alike, got " << first << " and " << second;
  if (m.reductionLaneMasks(axis) != n.reductionLaneMasks(axis) ||
      m.reductionWarpDigits(axis) != n.reductionWarpDigits(axis))
    return op.emitOpError("C3: expected two matrices spread over the same lanes and warps along "
                          "axis ")
           << axis << ", got " << first << " and " << second;
  return success();
}

LogicalResult DotOp::verify() {
  RankedTensorType matrix = getMatrix().getType();
  int64_t axis = getAxis();
  if (matrix.getRank() != 2 || axis < 0 || axis > 1)
    return emitOpError("C1: expected a matrix and axis 0 or 1, got ") << matrix << " and " << axis;
  if (getVectors().empty() || getVectors().size() != getResults().size())
    return emitOpError("C1: expected one result per vector and at least one, got ")
           << getResults().size() << " for " << getVectors().size();
  Type vector = sliceType(matrix, 1 - axis), result = sliceType(matrix, axis);
  for (Value operand : getVectors())
    if (operand.getType() != vector)
      return emitOpError("C1: expected vectors of ") << vector << ", got " << operand.getType();
  for (Value value : getResults())
    if (value.getType() != result)
      return emitOpError("C1: expected results of ") << result << ", got " << value.getType();
  return getMoreMatrix() ? verifySecondPart(*this) : success();
}

LogicalResult RankUpdateOp::verify() {
  RankedTensorType a = getA().getType(), b = getB().getType(), c = getC().getType();
  auto isMatrix = [](RankedTensorType type) { return type.getRank() == 2; };
  if (!isMatrix(a) || !isMatrix(b) || !isMatrix(c) || a.getDimSize(0) != b.getDimSize(0) ||
      a.getDimSize(1) != c.getDimSize(0) || b.getDimSize(1) != c.getDimSize(1))
    return emitOpError("C1: expected R x K, R x V and K x V, got ")
           << a << ", " << b << " and " << c;
  return success();
}

LogicalResult ConvertOp::verify() {
  RankedTensorType from = getValue().getType(), to = getResult().getType();
  if (from.getShape() != to.getShape() || from.getElementType() != to.getElementType())
    return emitOpError("C1: expected operand and result of one shape and element type, got ")
           << from << " and " << to;
  return success();
}

OpFoldResult ConvertOp::fold(FoldAdaptor) {
  return getValue().getType() == getResult().getType() ? getValue() : OpFoldResult();
}

bool dl::tile::startsEarly(Operation *kernel) {
  return kernel->walk([](GridWaitOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

StringRef dl::tile::requiredFeature(Operation *op) {
  if (auto mma = dyn_cast<MmaOp>(op)) {
    auto fragment = cast<FragmentAttr>(mma.getC().getType().getEncoding());
    return llvm::cantFail(dl::layout::findInstruction(fragment.getInstruction()))->feature;
  }
  if (isa<GramOp>(op))
    return "mma.sync";
  // Chips with bulk copies have the second path to shared memory that the barrier puts in order.
  if (auto barrier = dyn_cast<BarrierOp>(op); barrier && barrier.getAsyncProxy())
    return "tma";
  if (isa<GridWaitOp, GridReleaseOp>(op))
    return "pdl";
  return "";
}
