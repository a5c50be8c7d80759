//===- Memory.cpp - Global memory, slots, shared memory -------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/TileToCPU/Lowering.h"

using namespace mlir;
using namespace dl::tile;

//===----------------------------------------------------------------------===//
// Global memory
//===----------------------------------------------------------------------===//

Value LaneLowering::elementPointer(const View &view, ArrayRef<Value> indices) {
  Value offset = host->i64(0);
  for (auto [index, stride] : llvm::zip(indices, view.strides))
    offset = host->add(offset, host->mul(host->toI64(scalars.lookup(index)), stride));
  return host->element(view.pointer, view.type.getElementType(), offset);
}

LaneLowering::Access LaneLowering::makeAccess(Value memory, ValueRange indices,
                                              ArrayRef<int64_t> axes,
                                              std::optional<ArrayRef<bool>> inBounds,
                                              const Layout &layout, Value count) {
  const View &view = views.find(memory)->second;
  Access access;
  access.start = elementPointer(view, llvm::to_vector(indices));
  for (auto [axis, dim] : llvm::enumerate(axes)) {
    access.strides.push_back(view.strides[dim]);
    if (view.type.isDynamicDim(dim)) {
      access.limits.push_back(host->toI64(scalars.lookup(count)));
      continue;
    }
    int64_t size = view.type.getDimSize(dim);
    Value index = scalars.lookup(indices[dim]);
    std::optional<int64_t> known = getConstantIntValue(index);
    bool enough = (inBounds && (*inBounds)[axis]) ||
                  (known && *known >= 0 && *known + layout.shape[axis] <= size);
    access.limits.push_back(enough ? Value() : host->sub(host->i64(size), host->toI64(index)));
  }
  return access;
}

Value LaneLowering::pointerOf(const Access &access, Type element, const Coordinates &coordinates) {
  Value offset = host->i64(0);
  for (auto [coordinate, stride] : llvm::zip(coordinates, access.strides))
    offset = host->add(offset, host->mul(coordinate, stride));
  return host->element(access.start, element, offset);
}

Value LaneLowering::isInMemory(const Access &access, const Coordinates &coordinates) {
  Value mask;
  for (auto [coordinate, limit] : llvm::zip(coordinates, access.limits))
    if (limit)
      mask = host->both(mask, arith::CmpIOp::create(*host, host->loc, arith::CmpIPredicate::slt,
                                                    coordinate, limit));
  return mask;
}

Value LaneLowering::maskOf(const Access &access, const Layout &layout,
                           const Coordinates &coordinates) {
  return host->both(insideShape(layout, coordinates), isInMemory(access, coordinates));
}

LogicalResult LaneLowering::lowerLoad(LoadOp op) {
  const Layout &layout = layoutOf(op.getResult().getType());
  Type element = op.getResult().getType().getElementType();
  Access access = makeAccess(op.getMemory(), op.getIndices(), op.getAxes(), op.getInBounds(),
                             layout, op.getCount());
  Arena::Buffer *buffer = bindNew(op.getResult());
  forEachElement(layout, [&](Value thread, Value reg, const Coordinates &coordinates) {
    Coordinates inMemory = coordinates;
    if (op.getRepeats())
      for (auto [coordinate, repeat] : llvm::zip(inMemory, *op.getRepeats()))
        coordinate = host->div(coordinate, repeat);
    Value mask = host->both(insideShape(layout, coordinates), isInMemory(access, inMemory));
    Value value = host->select(
        mask, [&] { return host->load(pointerOf(access, element, inMemory), element); },
        host->zero(element));
    storeElement(buffer, value, flat(layout, thread, reg));
  });
  return success();
}

LogicalResult LaneLowering::lowerRingLoad(RingLoadOp op) {
  const Layout &layout = layoutOf(op.getResult().getType());
  Type element = op.getResult().getType().getElementType();
  int64_t dim = op.getAxes()[0];
  int64_t ring = cast<MemRefType>(op.getMemory().getType()).getDimSize(dim);
  Access access =
      makeAccess(op.getMemory(), op.getIndices(), op.getAxes(), op.getInBounds(), layout);
  access.limits[0] = host->toI64(scalars.lookup(op.getCount()));
  Value start = host->toI64(scalars.lookup(op.getIndices()[dim]));
  Arena::Buffer *buffer = bindNew(op.getResult());
  forEachElement(layout, [&](Value thread, Value reg, const Coordinates &coordinates) {
    auto load = [&] {
      Value row = coordinates[0];
      Value inside = host->less(host->add(start, row), ring);
      Coordinates place = coordinates;
      place[0] =
          arith::SelectOp::create(*host, host->loc, inside, row, host->sub(row, host->i64(ring)));
      return host->load(pointerOf(access, element, place), element);
    };
    Value value = host->select(maskOf(access, layout, coordinates), load, host->zero(element));
    storeElement(buffer, value, flat(layout, thread, reg));
  });
  return success();
}

LogicalResult LaneLowering::lowerStore(StoreOp op) {
  const Layout &layout = layoutOf(op.getValue().getType());
  Type element = op.getValue().getType().getElementType();
  Access access = makeAccess(op.getMemory(), op.getIndices(), op.getAxes(), op.getInBounds(),
                             layout, op.getCount());
  auto body = [&](Value thread, Value reg, const Coordinates &coordinates) {
    host->ifTrue(maskOf(access, layout, coordinates), [&] {
      Value value = loadElement(op.getValue(), flat(layout, thread, reg));
      host->store(value, pointerOf(access, element, coordinates));
    });
  };
  forEachElement(layout, body, /*ownersOnly=*/true);
  return success();
}

void LaneLowering::lowerScalarAccess(Operation *op) {
  if (auto load = dyn_cast<memref::LoadOp>(op)) {
    const View &view = views.find(load.getMemRef())->second;
    Value pointer = elementPointer(view, llvm::to_vector(load.getIndices()));
    scalars.map(load.getResult(), host->load(pointer, load.getType()));
    return;
  }
  auto store = cast<memref::StoreOp>(op);
  const View &view = views.find(store.getMemRef())->second;
  Value pointer = elementPointer(view, llvm::to_vector(store.getIndices()));
  host->store(scalars.lookup(store.getValueToStore()), pointer);
}

Value LaneLowering::rowOfBytes(Value memory, ValueRange indices) {
  const View &view = views.find(memory)->second;
  Value offset = host->i64(0);
  for (auto [index, stride] : llvm::zip_first(indices, view.strides))
    offset = host->add(offset, host->mul(host->toI64(scalars.lookup(index)), stride));
  return host->bytes(view.pointer, offset);
}

LogicalResult LaneLowering::lowerStoreImage(StoreImageOp op) {
  const Layout &layout = layoutOf(op.getValue().getType());
  layout::SharedLayout shared = llvm::cantFail(getLayout(op.getBufferType()));
  Value row = rowOfBytes(op.getMemory(), op.getIndices());
  auto body = [&](Value thread, Value reg, const Coordinates &coordinates) {
    host->ifTrue(insideShape(layout, coordinates), [&] {
      Value value = loadElement(op.getValue(), flat(layout, thread, reg));
      Value place =
          host->add(sharedOffset(shared, coordinates), static_cast<int64_t>(op.getOffset()));
      host->store(value, host->bytes(row, place));
    });
  };
  forEachElement(layout, body, /*ownersOnly=*/true);
  return success();
}

LogicalResult LaneLowering::lowerIsPresent(IsPresentOp op) {
  const View &view = views.find(op.getMemory())->second;
  Value null = LLVM::ZeroOp::create(*host, host->loc, view.pointer.getType());
  scalars.map(op.getPresent(),
              LLVM::ICmpOp::create(*host, host->loc, LLVM::ICmpPredicate::ne, view.pointer, null));
  return success();
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

LogicalResult LaneLowering::lowerAlloc(AllocOp op) {
  SharedBuffer buffer;
  buffer.layout =
      llvm::cantFail(getLayout(op.getResult().getType())); // the type's verifier has seen it
  buffer.offset = arena.allocate(buffer.layout.totalBytes())->offset; // held for good
  sharedBuffers[op.getResult()] = buffer;
  return success();
}

LogicalResult LaneLowering::lowerStage(StageOp op) {
  SharedBuffer buffer = sharedBuffers.find(op.getRing())->second;
  buffer.stage = host->mul(host->toI64(scalars.lookup(op.getIndex())), buffer.layout.matrixBytes());
  buffer.layout = llvm::cantFail(getLayout(op.getResult().getType()));
  sharedBuffers[op.getResult()] = buffer;
  return success();
}

LogicalResult LaneLowering::lowerLocalPart(LocalPartOp op) {
  SharedBuffer buffer = sharedBuffers.find(op.getBytes())->second;
  buffer.offset += op.getOffset();
  buffer.layout = llvm::cantFail(getLayout(op.getResult().getType()));
  sharedBuffers[op.getResult()] = buffer;
  return success();
}

/// Nothing is in the background here: what is copied is there at once.
LogicalResult LaneLowering::lowerCopyAsync(CopyAsyncOp op) {
  Value row = rowOfBytes(op.getMemory(), op.getIndices());
  host->loop(op.getBuffer().getType().getShape()[0], [&](Value place) {
    Value value = host->load(host->bytes(row, place), host->getI8Type());
    host->store(value, sharedElement(op.getBuffer(), {place}));
  });
  return success();
}

/// SharedLayout::byteOffset in the index arithmetic of the host.
Value LaneLowering::sharedOffset(const layout::SharedLayout &layout,
                                 const Coordinates &coordinates) {
  Value column = coordinates.back(), offset = host->i64(0);
  int64_t matrices = layout.matrixBytes();
  for (size_t axis = layout.shape.size(); axis-- > 2; matrices *= layout.shape[axis - 2])
    offset = host->add(offset, host->mul(coordinates[axis - 2], matrices));
  if (layout.shape.size() > 1)
    offset = host->add(offset, host->mul(coordinates[coordinates.size() - 2], layout.pitch));
  if (layout.panels() > 1) {
    offset =
        host->add(offset, host->mul(host->div(column, layout.panelColumns()), layout.panelBytes()));
    column = host->rem(column, layout.panelColumns());
  }
  offset = host->add(offset, host->mul(column, layout.elementBytes));
  if (!layout.swizzle)
    return offset;
  Value row = host->bitAnd(host->div(offset, 128), layout.swizzleMask());
  return host->bitXor(offset, host->mul(row, 16));
}

Value LaneLowering::sharedElement(Value buffer, const Coordinates &coordinates) {
  const SharedBuffer &shared = sharedBuffers.find(buffer)->second;
  Value offset = host->add(sharedOffset(shared.layout, coordinates), shared.offset);
  return host->bytes(scratch, shared.stage ? host->add(offset, shared.stage) : offset);
}

LogicalResult LaneLowering::lowerLocalStore(LocalStoreOp op) {
  const Layout &layout = layoutOf(op.getValue().getType());
  auto body = [&](Value thread, Value reg, const Coordinates &coordinates) {
    host->ifTrue(insideShape(layout, coordinates), [&] {
      Value value = loadElement(op.getValue(), flat(layout, thread, reg));
      host->store(value, sharedElement(op.getBuffer(), coordinates));
    });
  };
  forEachElement(layout, body, /*ownersOnly=*/true);
  return success();
}

LogicalResult LaneLowering::lowerLocalLoad(LocalLoadOp op) {
  const Layout &layout = layoutOf(op.getResult().getType());
  Type element = op.getResult().getType().getElementType();
  Arena::Buffer *result = bindNew(op.getResult());
  forEachElement(layout, [&](Value thread, Value reg, const Coordinates &coordinates) {
    auto load = [&] { return host->load(sharedElement(op.getBuffer(), coordinates), element); };
    Value value = host->select(insideShape(layout, coordinates), load, host->zero(element));
    storeElement(result, value, flat(layout, thread, reg));
  });
  return success();
}
