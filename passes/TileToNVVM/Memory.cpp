//===- Memory.cpp - Loads and stores of a lowered kernel ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/Tile/Access.h"
#include "passes/TileToNVVM/Lowering.h"

using namespace mlir;
using namespace dl;
using namespace dl::tile;

/// One tile.load or tile.store: a base pointer of the thread, constant offsets of its registers,
/// and what to leave out.
struct KernelLowering::Access {
  layout::RegisterLayout layout;
  Value pointer; ///< of register offset zero
  int64_t width = 1, elementBytes = 1;
  SmallVector<int64_t> repeats; ///< per tensor axis, elements of the tensor for one of memory
  SmallVector<int64_t> strides; ///< per tensor axis, in elements; dynamic ones in dynamicStrides
  SmallVector<Value> dynamicStrides;
  struct Limit {
    Value base;  ///< i32: first coordinate of the thread along the axis; null: this axis needs no
                 ///< check
    Value limit; ///< i32: coordinates from here on are left out
    int64_t reach = 0; ///< largest base over all threads
    int64_t known = 0; ///< the limit where it is a constant, else -1
  };
  SmallVector<Limit> limits; ///< per tensor axis
  /// Of registers seen so far, by their distances along axes with dynamic strides, the last one.
  SmallVector<int64_t> lastDistances;
  Value lastPointer;
};

/// The lower half of a number whose upper half is zero.
static Value narrow(Value number) {
  Operation *extension = number.getDefiningOp();
  bool isExtended = isa_and_nonnull<arith::ExtUIOp, LLVM::ZExtOp>(extension) &&
                    extension->getOperand(0).getType().isInteger(32);
  return isExtended ? extension->getOperand(0) : Value();
}

/// Computed where the index is: by the time that the last index is known, often a slot from memory,
/// the rest of the address is ready. Of 32-bit factors in one instruction, which LLVM does not
/// find: it moves the extensions away from the product.
Value KernelLowering::distanceOf(Value index, Value stride) {
  Value &known = distances[{index, stride}];
  if (known)
    return known;
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointAfterValue(index);
  Value factors[] = {narrow(index), narrow(stride)};
  if (!llvm::all_of(factors, [](Value factor) { return bool(factor); }))
    return known = arith::MulIOp::create(builder, loc, index, stride);
  auto product = LLVM::InlineAsmOp::create(
      builder, loc, builder.getI64Type(), factors, "mul.wide.u32 $0, $1, $2;", "=l,r,r",
      /*has_side_effects=*/false, /*is_align_stack=*/false, LLVM::tailcallkind::TailCallKind::None,
      LLVM::AsmDialectAttr::get(builder.getContext(), LLVM::AsmDialect::AD_ATT), ArrayAttr());
  return known = product.getRes();
}

/// The sum of what is known early comes first.
Value KernelLowering::elementOffset(const View &view, ValueRange indices) {
  Value offset;
  for (auto [position, stride] : llvm::reverse(llvm::zip(indices, view.strides))) {
    Value index = scalar(position);
    Value term = getConstantIntValue(index) || getConstantIntValue(stride)
                     ? arith::MulIOp::create(builder, loc, index, stride).getResult()
                     : distanceOf(index, stride);
    offset = offset ? arith::AddIOp::create(builder, loc, offset, term) : term;
  }
  return offset ? offset : i64(0);
}

KernelLowering::Access KernelLowering::makeAccess(Value memory, ValueRange indices,
                                                  ArrayRef<int64_t> axes,
                                                  std::optional<ArrayRef<bool>> inBounds,
                                                  RankedTensorType tensor, Value count,
                                                  std::optional<ArrayRef<int64_t>> repeats) {
  const View &view = views.find(memory)->second;
  Access access;
  access.layout = llvm::cantFail(getLayout(tensor));
  access.width = accessWidth(view.type, axes, tensor, repeats);
  access.repeats.assign(axes.size(), 1);
  if (repeats)
    access.repeats.assign(repeats->begin(), repeats->end());
  access.elementBytes = tensor.getElementTypeBitWidth() / 8;
  SmallVector<int64_t> strides;
  int64_t unused;
  (void)view.type.getStridesAndOffset(strides, unused);
  Value offset = elementOffset(view, indices);
  for (auto [axis, dim] : llvm::enumerate(axes)) {
    int64_t repeat = access.repeats[axis];
    Value base = threadBase(access.layout, axis);
    if (repeat > 1)
      base = arith::DivUIOp::create(builder, loc, base, i32(repeat));
    Value wide = toI64(base);
    offset = arith::AddIOp::create(builder, loc, offset,
                                   arith::MulIOp::create(builder, loc, wide, view.strides[dim]));
    access.strides.push_back(strides[dim]);
    access.dynamicStrides.push_back(view.strides[dim]);
    Access::Limit limit;
    limit.base = base;
    for (const layout::Digit &digit : access.layout.digitsOf(layout::Source::Thread, axis))
      limit.reach += (digit.mod - 1) * digit.stride;
    limit.reach /= repeat;
    limit.known = llvm::divideCeil(tensor.getDimSize(axis), repeat);
    if (view.type.isDynamicDim(dim)) {
      limit.limit = access.layout.isPadded(axis)
                        ? arith::MinSIOp::create(builder, loc, scalar(count), i32(limit.known))
                        : scalar(count);
      limit.known = -1;
    } else if (!inBounds || !(*inBounds)[axis]) {
      // Elements left of the memory's end, seen from the tile's first: may be fewer than the tile
      // has.
      Value room =
          arith::SubIOp::create(builder, loc, i64(view.type.getDimSize(dim)), scalar(indices[dim]));
      Value size = i64(limit.known);
      limit.limit = arith::TruncIOp::create(builder, loc, builder.getI32Type(),
                                            arith::MinSIOp::create(builder, loc, room, size));
      limit.known = -1;
    } else {
      limit.limit = i32(limit.known);
    }
    access.limits.push_back(limit);
  }
  Value bytes = arith::MulIOp::create(builder, loc, offset, i64(access.elementBytes));
  access.pointer = gep(view.pointer, bytes);
  return access;
}

/// Of a register, in elements of memory from its thread's first one.
static layout::Coordinate offsetOf(const layout::RegisterLayout &layout, int64_t reg,
                                   ArrayRef<int64_t> repeats) {
  layout::Coordinate offset = layout.offsetOfRegister(reg);
  for (auto [distance, repeat] : llvm::zip(offset, repeats))
    distance /= repeat;
  return offset;
}

/// Step by step from the register before it: products of strides would be the same in every
/// iteration of a loop, and wait for it in a register each.
Value KernelLowering::addressOf(Access &access, int64_t reg) {
  layout::Coordinate offset = offsetOf(access.layout, reg, access.repeats);
  int64_t constant = 0;
  SmallVector<int64_t> distances;
  for (auto [axis, distance] : llvm::enumerate(offset)) {
    bool isDynamic = ShapedType::isDynamic(access.strides[axis]);
    if (!isDynamic)
      constant += distance * access.strides[axis] * access.elementBytes;
    distances.push_back(isDynamic ? distance : 0);
  }
  if (!access.lastPointer) {
    access.lastPointer = access.pointer;
    access.lastDistances.assign(distances.size(), 0);
  }
  for (auto [axis, distance] : llvm::enumerate(distances))
    if (int64_t step = distance - access.lastDistances[axis]) {
      Value bytes = arith::MulIOp::create(builder, loc, access.dynamicStrides[axis],
                                          i64(step * access.elementBytes));
      access.lastPointer = gep(access.lastPointer, bytes);
    }
  access.lastDistances = distances;
  return gep(access.lastPointer, constant);
}

Value KernelLowering::maskOf(const Access &access, int64_t reg) {
  layout::Coordinate offset = offsetOf(access.layout, reg, access.repeats);
  Value mask;
  for (auto [axis, limit] : llvm::enumerate(access.limits)) {
    if (limit.known >= 0 && limit.reach + offset[axis] < limit.known)
      continue;
    Value position = arith::AddIOp::create(builder, loc, limit.base, i32(offset[axis]));
    mask = both(mask, arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, position,
                                            limit.limit));
  }
  return mask;
}

KernelLowering::Registers KernelLowering::loadTile(LoadOp op, Value condition,
                                                   ValueRange otherwise) {
  RankedTensorType tensor = op.getResult().getType();
  Type element = tensor.getElementType();
  Access access = makeAccess(op.getMemory(), op.getIndices(), op.getAxes(), op.getInBounds(),
                             tensor, op.getCount(), op.getRepeats());
  bool invariant = views.find(op.getMemory())->second.readOnly;
  Value zero = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(element));
  Registers result;
  for (int64_t reg = 0; reg < access.layout.numRegisters; reg += access.width) {
    Value mask = maskOf(access, reg);
    if (condition) {
      Registers values(otherwise.slice(reg, access.width));
      for (Value &value : values) // beyond the edge lie zeros
        value = mask ? builder.createOrFold<arith::SelectOp>(loc, condition, zero, value) : value;
      llvm::append_range(result,
                         loadIf(both(condition, mask), addressOf(access, reg), values, invariant));
      continue;
    }
    if (!mask) {
      llvm::append_range(result,
                         loadVector(addressOf(access, reg), element, access.width, invariant));
      continue;
    }
    if (op.getCount()) { // no branches, so that all loads are on their way at once
      llvm::append_range(
          result, loadIf(mask, addressOf(access, reg), Registers(access.width, zero), invariant));
      continue;
    }
    SmallVector<Type> types(access.width, element);
    Value address = addressOf(access, reg);
    auto branch = scf::IfOp::create(builder, loc, types, mask, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(builder, loc, loadVector(address, element, access.width, invariant));
    builder.setInsertionPointToStart(branch.elseBlock());
    scf::YieldOp::create(builder, loc, SmallVector<Value>(access.width, zero));
    llvm::append_range(result, branch.getResults());
  }
  return result;
}

/// Like a load of rows that follow each other, but for a step back at the ring's end. A compare and
/// a select for each row of a thread; no branches, so that all loads are on their way at once.
KernelLowering::Registers KernelLowering::loadRing(RingLoadOp op) {
  RankedTensorType tensor = op.getResult().getType();
  const View &view = views.find(op.getMemory())->second;
  int64_t dim = op.getAxes()[0], ring = view.type.getDimSize(dim);
  SmallVector<bool> inBounds(tensor.getRank());
  if (op.getInBounds())
    inBounds.assign(op.getInBounds()->begin(), op.getInBounds()->end());
  inBounds[0] = true; // what limits it is the count
  Access access = makeAccess(op.getMemory(), op.getIndices(), op.getAxes(), inBounds, tensor);
  access.width = accessWidth(op);
  Access::Limit &rows = access.limits[0];
  rows.limit = access.layout.isPadded(0)
                   ? arith::MinSIOp::create(builder, loc, scalar(op.getCount()), i32(rows.known))
                   : scalar(op.getCount());
  rows.known = -1;
  Value start =
      arith::TruncIOp::create(builder, loc, builder.getI32Type(), scalar(op.getIndices()[dim]));
  Value first = arith::AddIOp::create(builder, loc, start, rows.base);
  Value back =
      arith::MulIOp::create(builder, loc, view.strides[dim], i64(-ring * access.elementBytes));
  llvm::DenseMap<int64_t, Value> steps; // bytes, by the register's distance along the ring
  auto stepOf = [&](int64_t distance) {
    Value &step = steps[distance];
    if (!step) {
      Value wraps = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::sge, first,
                                          i32(ring - distance));
      step = arith::SelectOp::create(builder, loc, wraps, back, i64(0));
    }
    return step;
  };
  Value zero =
      arith::ConstantOp::create(builder, loc, builder.getZeroAttr(tensor.getElementType()));
  Registers result;
  for (int64_t reg = 0; reg < access.layout.numRegisters; reg += access.width) {
    Value pointer = gep(addressOf(access, reg), stepOf(access.layout.offsetOfRegister(reg)[0]));
    llvm::append_range(
        result, loadIf(maskOf(access, reg), pointer, Registers(access.width, zero), view.readOnly));
  }
  return result;
}

LogicalResult KernelLowering::lowerStore(StoreOp op) {
  RankedTensorType tensor = op.getValue().getType();
  Access access = makeAccess(op.getMemory(), op.getIndices(), op.getAxes(), op.getInBounds(),
                             tensor, op.getCount());
  Registers values = distributed(op.getValue());
  ifTrue(digitsAreZero(access.layout.replicaDigits()), [&] {
    for (int64_t reg = 0; reg < access.layout.numRegisters; reg += access.width) {
      Value address = addressOf(access, reg);
      ifTrue(maskOf(access, reg),
             [&] { storeVector(address, ValueRange(values).slice(reg, access.width)); });
    }
  });
  return success();
}

Value KernelLowering::loadScalar(memref::LoadOp op, Value condition, Value otherwise) {
  const View &view = views.find(op.getMemRef())->second;
  Type element = view.type.getElementType();
  Value bytes = arith::MulIOp::create(builder, loc, elementOffset(view, op.getIndices()),
                                      i64(element.getIntOrFloatBitWidth() / 8));
  Value pointer = gep(view.pointer, bytes);
  return condition ? loadIf(condition, pointer, otherwise, view.readOnly).front()
                   : loadVector(pointer, element, 1, view.readOnly).front();
}

void KernelLowering::lowerScalarStore(memref::StoreOp op) {
  const View &view = views.find(op.getMemRef())->second;
  Value bytes = arith::MulIOp::create(builder, loc, elementOffset(view, op.getIndices()),
                                      i64(view.type.getElementTypeBitWidth() / 8));
  Value first = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, threadId(), i32(0));
  ifTrue(first, [&] { storeVector(gep(view.pointer, bytes), scalar(op.getValueToStore())); });
}

void KernelLowering::lowerIsPresent(IsPresentOp op) {
  const View &view = views.find(op.getMemory())->second;
  scalars.map(op.getPresent(),
              LLVM::ICmpOp::create(builder, loc, LLVM::ICmpPredicate::ne, view.pointer,
                                   LLVM::ZeroOp::create(builder, loc, view.pointer.getType())));
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

/// Byte offset of a register's element in a buffer. The swizzle mixes thread and register bits, so
/// it is computed whole.
Value KernelLowering::sharedOffset(const layout::SharedLayout &shared, ValueRange coordinate) {
  auto add = [&](Value a, Value b) -> Value { return arith::AddIOp::create(builder, loc, a, b); };
  auto mul = [&](Value a, int64_t b) -> Value {
    return arith::MulIOp::create(builder, loc, a, i32(b));
  };
  Value row = coordinate.size() > 1 ? coordinate[coordinate.size() - 2] : i32(0),
        column = coordinate.back();
  Value panel = arith::DivUIOp::create(builder, loc, column, i32(shared.panelColumns()));
  Value inPanel = arith::RemUIOp::create(builder, loc, column, i32(shared.panelColumns()));
  Value offset = add(add(mul(panel, shared.panelBytes()), mul(row, shared.pitch)),
                     mul(inPanel, shared.elementBytes));
  if (int64_t mask = shared.swizzleMask()) {
    Value bits = arith::AndIOp::create(
        builder, loc, arith::ShRUIOp::create(builder, loc, offset, i32(7)), i32(mask));
    offset = arith::XOrIOp::create(builder, loc, offset,
                                   arith::ShLIOp::create(builder, loc, bits, i32(4)));
  }
  return offset;
}

/// `buffer`: its start, in shared memory or elsewhere.
void KernelLowering::storeToBuffer(TypedValue<RankedTensorType> value, SharedType type,
                                   Value buffer) {
  layout::RegisterLayout layout = llvm::cantFail(getLayout(value.getType()));
  layout::SharedLayout shared = llvm::cantFail(getLayout(type));
  SmallVector<Value> base;
  for (unsigned axis = 0; axis < layout.rank(); ++axis)
    base.push_back(threadBase(layout, axis));
  Registers values = distributed(value);
  // Within a run of contiguous registers of at most 16 bytes the swizzle keeps neighbours together.
  int64_t width = 1, limit = layout.contiguousRegisters(layout.rank() - 1);
  while (limit % (2 * width) == 0 && 2 * width * shared.elementBytes <= 16 &&
         layout.shape.back() % (2 * width) == 0)
    width *= 2;
  ifTrue(digitsAreZero(layout.replicaDigits()), [&] {
    for (int64_t reg = 0; reg < layout.numRegisters; reg += width) {
      layout::Coordinate offset = layout.offsetOfRegister(reg);
      SmallVector<Value> coordinate;
      Value mask;
      for (unsigned axis = 0; axis < layout.rank(); ++axis) {
        coordinate.push_back(arith::AddIOp::create(builder, loc, base[axis], i32(offset[axis])));
        if (layout.isPadded(axis))
          mask = both(mask, arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt,
                                                  coordinate.back(), i32(layout.shape[axis])));
      }
      ifTrue(mask, [&] {
        Value address = gep(buffer, toI64(sharedOffset(shared, coordinate)));
        storeVector(address, ValueRange(values).slice(reg, width));
      });
    }
  });
}

void KernelLowering::lowerLocalLoad(LocalLoadOp op) {
  layout::RegisterLayout layout = llvm::cantFail(getLayout(op.getResult().getType()));
  layout::SharedLayout shared = llvm::cantFail(getLayout(op.getBuffer().getType()));
  Value buffer = bufferPointer(op.getBuffer());
  Registers result;
  for (int64_t reg = 0; reg < layout.numRegisters; ++reg) {
    layout::Coordinate offset = layout.offsetOfRegister(reg);
    SmallVector<Value> coordinate;
    for (unsigned axis = 0; axis < layout.rank(); ++axis) {
      Value position =
          arith::AddIOp::create(builder, loc, threadBase(layout, axis), i32(offset[axis]));
      if (layout.isPadded(axis)) // padding may hold anything: read the last element there
        position = arith::MinUIOp::create(builder, loc, position, i32(layout.shape[axis] - 1));
      coordinate.push_back(position);
    }
    Value address = gep(buffer, toI64(sharedOffset(shared, coordinate)));
    result.push_back(
        loadVector(address, op.getResult().getType().getElementType(), 1, false).front());
  }
  registers[op.getResult()] = std::move(result);
}
