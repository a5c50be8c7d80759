//===- Places.cpp - Where values are, and their coordinates ---------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileToCPU/Lowering.h"

using namespace mlir;
using namespace dl::tile;
using dl::layout::Digit;
using dl::layout::Source;

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

const LaneLowering::Layout &LaneLowering::layoutOf(RankedTensorType type) {
  std::unique_ptr<Layout> &known = layouts[type];
  if (!known)
    known = std::make_unique<Layout>(
        llvm::cantFail(getLayout(type))); // the kernel's verifier has seen it
  return *known;
}

void LaneLowering::bind(Value value, Place place) {
  places[value] = place;
  countUses(value);
}

Arena::Buffer *LaneLowering::allocate(RankedTensorType type) {
  const Layout &layout = layoutOf(type);
  int64_t bytes = (type.getElementTypeBitWidth() + 7) / 8;
  return arena.allocate(layout.numThreads * layout.numRegisters * bytes);
}

Arena::Buffer *LaneLowering::bindNew(Value value) {
  Arena::Buffer *buffer = allocate(cast<RankedTensorType>(value.getType()));
  bind(value, {buffer, {}});
  return buffer;
}

Arena::Buffer *LaneLowering::materialize(Value value) {
  Arena::Buffer *buffer = places.lookup(value).buffer;
  if (!buffer)
    return copyOf(value);
  arena.retain(buffer);
  return buffer;
}

Arena::Buffer *LaneLowering::copyOf(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  Place place = places.lookup(value);
  Arena::Buffer *buffer = allocate(type);
  if (place.buffer)
    copy(buffer, place.buffer);
  else
    fill(buffer, type, place.splat);
  return buffer;
}

void LaneLowering::fill(Arena::Buffer *buffer, RankedTensorType type, Value scalar) {
  const Layout &layout = layoutOf(type);
  host->loop(layout.numThreads * layout.numRegisters,
             [&](Value i) { storeElement(buffer, scalar, i); });
}

void LaneLowering::copy(Arena::Buffer *to, Arena::Buffer *from) {
  LLVM::MemcpyOp::create(*host, host->loc, pointerTo(to), pointerTo(from), host->i64(from->bytes),
                         /*isVolatile=*/false);
}

Value LaneLowering::loadElement(Value tensor, Value index) {
  Place place = places.lookup(tensor);
  if (place.splat)
    return place.splat;
  Type element = cast<RankedTensorType>(tensor.getType()).getElementType();
  return host->load(host->element(pointerTo(place.buffer), element, index), element);
}

void LaneLowering::storeElement(Arena::Buffer *buffer, Value element, Value index) {
  host->store(element, host->element(pointerTo(buffer), element.getType(), index));
}

//===----------------------------------------------------------------------===//
// Coordinates
//===----------------------------------------------------------------------===//

Value LaneLowering::digitSum(const Layout &layout, Source source, unsigned axis, Value index) {
  SmallVector<HostBuilder::Term> terms;
  for (const Digit &d : layout.digitsOf(source, axis))
    terms.push_back({d.div, d.mod, d.stride});
  return host->sum(index, source == Source::Thread ? layout.numThreads : layout.numRegisters,
                   terms);
}

void LaneLowering::forEachElement(const Layout &layout, ElementBody body, bool ownersOnly) {
  host->loop(layout.numThreads, [&](Value thread) {
    host->ifTrue(ownersOnly ? isOwner(layout, thread) : Value(), [&] {
      Coordinates base;
      for (unsigned axis = 0; axis < layout.rank(); ++axis)
        base.push_back(digitSum(layout, Source::Thread, axis, thread));
      host->loop(layout.numRegisters, [&](Value reg) {
        Coordinates coordinates;
        for (unsigned axis = 0; axis < layout.rank(); ++axis)
          coordinates.push_back(
              host->add(base[axis], digitSum(layout, Source::Register, axis, reg)));
        body(thread, reg, coordinates);
      });
    });
  });
}

Value LaneLowering::flat(const Layout &layout, Value thread, Value reg) {
  return host->add(host->mul(thread, layout.numRegisters), reg);
}

Value LaneLowering::insideShape(const Layout &layout, const Coordinates &coordinates) {
  Value inside;
  for (unsigned axis = 0; axis < layout.rank(); ++axis)
    if (layout.isPadded(axis))
      inside = host->both(inside, host->less(coordinates[axis], layout.shape[axis]));
  return inside;
}

Value LaneLowering::sliceRegister(const Layout &parent, unsigned axis, Value reg) {
  SmallVector<HostBuilder::Term> terms;
  int64_t weight = 1;
  for (const Digit &d : parent.digitsOf(Source::Register)) {
    if (d.axis == axis)
      continue;
    terms.push_back({d.div, d.mod, weight});
    weight *= d.mod;
  }
  return host->sum(reg, parent.numRegisters, terms);
}

Value LaneLowering::shareOfPlace(const Layout &layout, unsigned axis, Value coordinate,
                                 int64_t below) {
  SmallVector<HostBuilder::Term> terms;
  for (const Digit &d : layout.digits)
    if (d.axis == axis)
      terms.push_back(
          {d.stride, d.mod, d.source == Source::Thread ? d.div * layout.numRegisters : d.div});
  llvm::sort(terms, [](auto &a, auto &b) { return a.div < b.div; });
  return host->sum(coordinate, below, terms);
}

Value LaneLowering::isOwner(const Layout &layout, Value thread) {
  Value owner;
  for (const layout::ThreadDigit &d : layout.replicaDigits()) {
    Value digit = host->div(thread, d.div);
    if (d.div * d.mod < layout.numThreads)
      digit = host->rem(digit, d.mod);
    owner = host->both(owner, host->isZero(digit));
  }
  return owner;
}
