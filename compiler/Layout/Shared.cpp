//===- Shared.cpp - Tiles in shared memory --------------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "compiler/Layout/Shared.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>

using namespace dl::layout;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;
using llvm::Twine;

static Error fail(const Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

static int64_t roundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

//===----------------------------------------------------------------------===//
// Offsets
//===----------------------------------------------------------------------===//

int64_t SharedLayout::alignment() const { return std::max<int64_t>(16, 8 * swizzle); }

int64_t SharedLayout::panelColumns() const { return swizzle ? swizzle / elementBytes : columns(); }

int64_t SharedLayout::panels() const { return (columns() + panelColumns() - 1) / panelColumns(); }

int64_t SharedLayout::panelBytes() const { return roundUp(rows() * pitch, alignment()); }

int64_t SharedLayout::matrixBytes() const { return panels() * panelBytes(); }

int64_t SharedLayout::totalBytes() const {
  int64_t matrices = 1;
  for (int64_t extent : ArrayRef<int64_t>(shape).drop_back(std::min<size_t>(shape.size(), 2)))
    matrices *= extent;
  return matrices * matrixBytes();
}

int64_t SharedLayout::linearOffset(ArrayRef<int64_t> coord) const {
  int64_t matrix = 0;
  for (size_t axis = 0; axis + 2 < shape.size(); ++axis)
    matrix = matrix * shape[axis] + coord[axis];
  int64_t row = shape.size() < 2 ? 0 : coord[shape.size() - 2];
  int64_t column = coord.back();
  return matrix * matrixBytes() + column / panelColumns() * panelBytes() + row * pitch +
         column % panelColumns() * elementBytes;
}

int64_t SharedLayout::byteOffset(ArrayRef<int64_t> coord) const {
  return applySwizzle(linearOffset(coord));
}

Expected<SharedLayout> dl::layout::shared(ArrayRef<int64_t> shape, int64_t elementBytes,
                                          int64_t swizzle, int64_t padBytes) {
  if (shape.empty() || shape.size() > 4)
    return fail("expected between 1 and 4 axes in shared memory, got " + Twine(shape.size()));
  for (int64_t extent : shape)
    if (extent < 1 || extent > (1 << 20))
      return fail("expected extents between 1 and 1048576 in shared memory, got " + Twine(extent));
  if (elementBytes != 1 && elementBytes != 2 && elementBytes != 4 && elementBytes != 8)
    return fail("expected elements of 1, 2, 4 or 8 bytes in shared memory, got " +
                Twine(elementBytes));
  int64_t bytes = elementBytes; // more than any memory has, and offsets stay far below 64 bits
  for (int64_t extent : shape)
    if ((bytes *= extent) > int64_t(1) << 30)
      return fail("expected at most 2^30 bytes in shared memory");
  if (swizzle != 0 && swizzle != 32 && swizzle != 64 && swizzle != 128)
    return fail("expected a swizzle of 0, 32, 64 or 128 bytes, got " + Twine(swizzle));
  if (padBytes < 0 || padBytes > 1024 || padBytes % elementBytes != 0)
    return fail("expected a row padding of whole elements between 0 and 1024 bytes, got " +
                Twine(padBytes) + " bytes for elements of " + Twine(elementBytes));
  if (swizzle && padBytes)
    return fail("expected either a swizzle or a row padding, got a swizzle of " + Twine(swizzle) +
                " and a padding of " + Twine(padBytes) + " bytes");
  SharedLayout layout;
  layout.shape.assign(shape.begin(), shape.end());
  layout.elementBytes = elementBytes;
  layout.swizzle = swizzle;
  layout.pitch = swizzle ? swizzle : shape.back() * elementBytes + padBytes;
  return layout;
}

int64_t dl::layout::widestSwizzle(int64_t columns, int64_t elementBytes) {
  for (int64_t bytes : {128, 64, 32})
    if (columns * elementBytes % bytes == 0)
      return bytes;
  return 0;
}

//===----------------------------------------------------------------------===//
// Banks
//===----------------------------------------------------------------------===//

Expected<int64_t> dl::layout::bankConflicts(ArrayRef<int64_t> offsets, int64_t bytes) {
  if (bytes != 4 && bytes != 8 && bytes != 16)
    return fail("expected accesses of 4, 8 or 16 bytes, got " + Twine(bytes));
  if (offsets.size() > 32)
    return fail("expected at most 32 lanes, got " + Twine(offsets.size()));
  for (int64_t offset : offsets)
    if (offset < 0 || offset % bytes != 0)
      return fail("expected offsets that are multiples of " + Twine(bytes) + ", got " +
                  Twine(offset));
  int64_t worst = 1;
  for (size_t lanes = 128 / bytes; !offsets.empty();
       offsets = offsets.drop_front(std::min(lanes, offsets.size()))) {
    llvm::SmallSet<int64_t, 32> words[32];
    for (int64_t offset : offsets.take_front(lanes))
      for (int64_t word = offset / 4; word < (offset + bytes) / 4; ++word)
        words[word % 32].insert(word);
    for (const auto &bank : words)
      worst = std::max<int64_t>(worst, bank.size());
  }
  return worst;
}

//===----------------------------------------------------------------------===//
// wgmma descriptors
//===----------------------------------------------------------------------===//

uint64_t WgmmaDescriptor::bits() const {
  auto field = [](int64_t bytes) { return (static_cast<uint64_t>(bytes) >> 4) & 0x3FFF; };
  return field(leadingBytes) << 16 | field(strideBytes) << 32 |
         static_cast<uint64_t>(swizzleCode) << 62;
}

static Error checkWgmma(const SharedLayout &layout, Major major) {
  if (layout.shape.size() < 2)
    return fail("expected a matrix as operand of wgmma, got 1 axis");
  if (layout.swizzle == 0)
    return fail("expected an operand of wgmma with a swizzle of 32, 64 or 128 bytes, got none");
  if (layout.elementBytes != 2 && layout.elementBytes != 4)
    return fail("expected an operand of wgmma with elements of 2 or 4 bytes, got " +
                Twine(layout.elementBytes));
  if (major == Major::MN && layout.elementBytes != 2)
    return fail("expected 16-bit elements in an MN-major operand of wgmma, got " +
                Twine(8 * layout.elementBytes) + " bits");
  if (layout.rows() % 8 != 0)
    return fail("expected a multiple of 8 rows in an operand of wgmma, got " +
                Twine(layout.rows()));
  return Error::success();
}

Expected<WgmmaDescriptor> dl::layout::wgmmaDescriptor(const SharedLayout &layout, Major major) {
  if (Error e = checkWgmma(layout, major))
    return std::move(e);
  WgmmaDescriptor d;
  d.leadingBytes = major == Major::K ? 16 : layout.panelBytes();
  d.strideBytes = 8 * layout.swizzle;
  d.swizzleCode = layout.swizzle == 128 ? 1 : layout.swizzle == 64 ? 2 : 3;
  if (d.leadingBytes >> 4 > 0x3FFF)
    return fail("expected panels of at most 262128 bytes in an operand of wgmma, got " +
                Twine(d.leadingBytes));
  return d;
}

Expected<int64_t> dl::layout::wgmmaStart(const SharedLayout &layout, Major major, int64_t mn,
                                         int64_t k) {
  if (Error e = checkWgmma(layout, major))
    return std::move(e);
  bool kMajor = major == Major::K;
  int64_t stepMN = kMajor ? 8 : layout.panelColumns();
  int64_t stepK = 32 / layout.elementBytes;
  if (mn % stepMN != 0 || k % stepK != 0)
    return fail("expected an instruction to start at multiples of " + Twine(stepMN) + " along " +
                "M or N and " + Twine(stepK) + " along K, got " + Twine(mn) + " and " + Twine(k));
  int64_t row = kMajor ? mn : k, column = kMajor ? k : mn;
  if (row < 0 || row >= layout.rows() || column < 0 || column >= layout.columns())
    return fail("expected an instruction to start inside the " + Twine(layout.rows()) + " x " +
                Twine(layout.columns()) + " tile, got row " + Twine(row) + " and column " +
                Twine(column));
  llvm::SmallVector<int64_t, 4> coord(layout.shape.size(), 0);
  coord[coord.size() - 2] = row;
  coord.back() = column;
  return layout.linearOffset(
      coord); // the hardware swizzles the address it computes from this start
}
