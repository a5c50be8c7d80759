//===- SharedTest.cpp - Swizzles, banks and descriptors -------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "compiler/Layout/Shared.h"
#include "compiler/Layout/Atoms.h"
#include "gtest/gtest.h"
#include <set>

using namespace dl::layout;

namespace {

SharedLayout make(llvm::ArrayRef<int64_t> shape, int64_t elementBytes, int64_t swizzle = 0,
                  int64_t padBytes = 0) {
  llvm::Expected<SharedLayout> layout = shared(shape, elementBytes, swizzle, padBytes);
  if (!layout) {
    ADD_FAILURE() << llvm::toString(layout.takeError());
    return {};
  }
  return *layout;
}

int64_t conflicts(llvm::ArrayRef<int64_t> offsets, int64_t bytes) {
  return llvm::cantFail(bankConflicts(offsets, bytes));
}

/// The eight 16-byte rows of each 8 x 8 matrix of 16-bit elements at (row, column).
int64_t ldmatrixConflicts(const SharedLayout &layout, int64_t row, int64_t column) {
  llvm::SmallVector<int64_t> offsets;
  for (int64_t i = 0; i < 8; ++i)
    offsets.push_back(layout.byteOffset({row + i, column}));
  return conflicts(offsets, 16);
}

} // namespace

TEST(Shared, OffsetsAreDistinctAndInside) {
  for (int64_t swizzle : {0, 32, 64, 128})
    for (int64_t elementBytes : {2, 4})
      for (int64_t rows : {1, 8, 12, 40, 64})
        for (int64_t columns : {16, 40, 64, 96, 192}) {
          SharedLayout layout = make({2, rows, columns}, elementBytes, swizzle);
          std::set<int64_t> offsets;
          for (int64_t stage = 0; stage < 2; ++stage)
            for (int64_t row = 0; row < rows; ++row)
              for (int64_t column = 0; column < columns; ++column) {
                int64_t offset = layout.byteOffset({stage, row, column});
                ASSERT_EQ(offset % elementBytes, 0);
                ASSERT_GE(offset, stage * layout.matrixBytes());
                ASSERT_LT(offset, (stage + 1) * layout.matrixBytes());
                offsets.insert(offset);
                // 16-byte chunks stay whole: vector accesses of up to 16 bytes are legal wherever
                // they were.
                ASSERT_EQ(offset % 16, column % layout.panelColumns() * elementBytes % 16);
              }
          EXPECT_EQ(static_cast<int64_t>(offsets.size()), 2 * rows * columns);
          EXPECT_EQ(layout.totalBytes(), 2 * layout.matrixBytes());
          EXPECT_EQ(layout.matrixBytes() % layout.alignment(), 0);
        }
}

TEST(Shared, SwizzlePatternsOfTheHardware) {
  // Chunk numbers of column 0 in successive rows, from the figures "Swizzling modes" of the PTX
  // ISA.
  SharedLayout s128 = make({16, 64}, 2, 128), s64 = make({16, 32}, 2, 64),
               s32 = make({16, 16}, 2, 32);
  for (int64_t row = 0; row < 16; ++row) {
    EXPECT_EQ(s128.byteOffset({row, 0}), row * 128 + 16 * (row % 8));
    EXPECT_EQ(s64.byteOffset({row, 0}), row * 64 + 16 * (row / 2 % 4));
    EXPECT_EQ(s32.byteOffset({row, 0}), row * 32 + 16 * (row / 4 % 2));
    for (int64_t chunk = 0; chunk < 8; ++chunk)
      EXPECT_EQ(s128.byteOffset({row, 8 * chunk}), row * 128 + 16 * (chunk ^ (row % 8)));
  }
  EXPECT_EQ(s128.alignment(), 1024);
  EXPECT_EQ(s64.alignment(), 512);
  EXPECT_EQ(s32.alignment(), 256);
}

TEST(Shared, PanelsFollowEachOther) {
  SharedLayout layout = make({40, 192}, 2, 128);
  EXPECT_EQ(layout.panels(), 3);
  EXPECT_EQ(layout.panelColumns(), 64);
  EXPECT_EQ(layout.panelBytes(), 40 * 128);
  EXPECT_EQ(layout.linearOffset({3, 64 + 5}), 40 * 128 + 3 * 128 + 10);
  SharedLayout padded =
      make({12, 40}, 2, 64); // 12 rows fill up to 16, 40 columns to 2 panels of 32
  EXPECT_EQ(padded.panels(), 2);
  EXPECT_EQ(padded.panelBytes(), 16 * 64);
  EXPECT_EQ(padded.totalBytes(), 2 * 16 * 64);
}

TEST(Shared, WidestSwizzleFillsPanels) {
  EXPECT_EQ(widestSwizzle(128, 2), 128);
  EXPECT_EQ(widestSwizzle(96, 2), 64);
  EXPECT_EQ(widestSwizzle(48, 2), 32);
  EXPECT_EQ(widestSwizzle(40, 2), 0);
  EXPECT_EQ(widestSwizzle(96, 4), 128);
}

TEST(Shared, SwizzledRowsReadWithoutConflict) {
  for (int64_t columns : {64, 128, 192, 256})
    for (int64_t row = 0; row < 64; row += 8)
      for (int64_t column = 0; column < columns; column += 8) {
        EXPECT_EQ(ldmatrixConflicts(make({64, columns}, 2, 128), row, column), 1);
        EXPECT_EQ(ldmatrixConflicts(make({64, columns}, 2, 64), row, column), 1);
        EXPECT_EQ(ldmatrixConflicts(make({64, columns}, 2, 32), row, column), 1);
        EXPECT_EQ(ldmatrixConflicts(make({64, columns}, 2, 0, 16), row, column), 1)
            << "a pad of one chunk";
        EXPECT_EQ(ldmatrixConflicts(make({64, columns}, 2), row, column), 8) << "plain rows";
      }
}

TEST(Shared, FragmentLoadsOfTheAtomsAreFreeOfConflicts) {
  RegisterLayout a =
      *atom({64, 128}, **findInstruction("mma.m16n8k16.bf16"), {Operand::A, 4, 1, 0});
  SharedLayout tile = make({64, 128}, 2, 128);
  LdMatrix how = *ldmatrixFor(a, 1);
  for (int64_t index = 0; index < a.numRegisters / 2 / how.matrices; ++index)
    for (int64_t warp = 0; warp < 4; ++warp) {
      llvm::SmallVector<int64_t> offsets;
      for (int64_t lane = 0; lane < 32; ++lane)
        offsets.push_back(tile.byteOffset(ldmatrixRow(a, how, 32 * warp + lane, index)));
      ASSERT_EQ(conflicts(offsets, 16), 1);
    }
}

TEST(Shared, BankConflictsCount) {
  llvm::SmallVector<int64_t> unit, stride2, same, column;
  for (int64_t lane = 0; lane < 32; ++lane) {
    unit.push_back(4 * lane);
    stride2.push_back(8 * lane);
    same.push_back(64);
    column.push_back(128 * lane);
  }
  EXPECT_EQ(conflicts(unit, 4), 1);
  EXPECT_EQ(conflicts(stride2, 4), 2);
  EXPECT_EQ(conflicts(stride2, 8), 1) << "two half warps of 128 bytes";
  EXPECT_EQ(conflicts(same, 4), 1) << "a broadcast";
  EXPECT_EQ(conflicts(column, 4), 32);
  EXPECT_EQ(conflicts(column, 16), 8);
  EXPECT_EQ(conflicts({}, 4), 1);
  auto errorOf = [](llvm::ArrayRef<int64_t> offsets, int64_t bytes) {
    llvm::Expected<int64_t> count = bankConflicts(offsets, bytes);
    return count ? "" : llvm::toString(count.takeError());
  };
  EXPECT_EQ(errorOf({0}, 3), "expected accesses of 4, 8 or 16 bytes, got 3");
  EXPECT_EQ(errorOf({8}, 16), "expected offsets that are multiples of 16, got 8");
}

TEST(Shared, RefusesWithAReason) {
  auto errorOf = [](llvm::ArrayRef<int64_t> shape, int64_t elementBytes, int64_t swizzle,
                    int64_t padBytes) {
    llvm::Expected<SharedLayout> layout = shared(shape, elementBytes, swizzle, padBytes);
    return layout ? "" : llvm::toString(layout.takeError());
  };
  EXPECT_EQ(errorOf({}, 2, 0, 0), "expected between 1 and 4 axes in shared memory, got 0");
  EXPECT_EQ(errorOf({8, -8}, 2, 0, 0),
            "expected extents between 1 and 1048576 in shared memory, got -8");
  EXPECT_EQ(errorOf({1 << 20, 1 << 20, 1 << 20, 1 << 20}, 4, 0, 0),
            "expected at most 2^30 bytes in shared memory");
  EXPECT_EQ(errorOf({8, 8}, 3, 0, 0),
            "expected elements of 1, 2, 4 or 8 bytes in shared memory, got 3");
  EXPECT_EQ(errorOf({8, 8}, 2, 16, 0), "expected a swizzle of 0, 32, 64 or 128 bytes, got 16");
  EXPECT_EQ(errorOf({8, 8}, 4, 0, 2), "expected a row padding of whole elements between 0 and 1024 "
                                      "bytes, got 2 bytes for elements of 4");
  EXPECT_EQ(
      errorOf({8, 64}, 2, 128, 16),
      "expected either a swizzle or a row padding, got a swizzle of 128 and a padding of 16 bytes");
}

//===----------------------------------------------------------------------===//
// Descriptors
//===----------------------------------------------------------------------===//

// Reads the tile through the descriptor as the PTX ISA ("Strides") defines it and expects each
// element where the layout put it.
static void expectDescriptor(const SharedLayout &tile, Major major, int64_t extentMN,
                             int64_t extentK) {
  WgmmaDescriptor d = llvm::cantFail(wgmmaDescriptor(tile, major));
  int64_t stepK = 32 / tile.elementBytes; // K of one instruction
  int64_t panel = tile.panelColumns(), bytes = tile.elementBytes;
  int64_t stepMN = major == Major::K ? 8 : panel;
  for (int64_t mn0 = 0; mn0 < extentMN; mn0 += stepMN)
    for (int64_t k0 = 0; k0 < extentK; k0 += stepK) {
      int64_t start = llvm::cantFail(wgmmaStart(tile, major, mn0, k0));
      ASSERT_EQ(start % 16, 0);
      for (int64_t mn = 0; mn < extentMN - mn0; ++mn)
        for (int64_t k = 0; k < stepK; ++k) {
          int64_t linear = major == Major::K
                               ? start + mn / 8 * d.strideBytes + mn % 8 * tile.swizzle + k * bytes
                               : start + mn / panel * d.leadingBytes + k / 8 * d.strideBytes +
                                     k % 8 * tile.swizzle + mn % panel * bytes;
          Coordinate c =
              major == Major::K ? Coordinate{mn0 + mn, k0 + k} : Coordinate{k0 + k, mn0 + mn};
          ASSERT_EQ(tile.applySwizzle(linear), tile.byteOffset(c));
        }
    }
}

TEST(Shared, DescriptorsReachEveryElement) {
  for (int64_t swizzle : {32, 64, 128}) {
    expectDescriptor(make({96, 128}, 2, swizzle), Major::K, 96, 128);
    expectDescriptor(make({64, 64}, 4, swizzle), Major::K, 64, 64);
    expectDescriptor(make({64, 192}, 2, swizzle), Major::MN, 192, 64);
  }
}

TEST(Shared, DescriptorBits) {
  WgmmaDescriptor k = llvm::cantFail(wgmmaDescriptor(make({64, 128}, 2, 128), Major::K));
  // swizzle 128 bytes = 1 in bits 63-62, SBO 1024 >> 4 in 45-32, LBO 1 in 29-16, address 0x2400 >>
  // 4 in 13-0
  EXPECT_EQ(k.bits(0x2400),
            (uint64_t(1) << 62) | (uint64_t(64) << 32) | (uint64_t(1) << 16) | 0x240);
  WgmmaDescriptor mn = llvm::cantFail(wgmmaDescriptor(make({64, 128}, 2, 64), Major::MN));
  EXPECT_EQ(mn.bits(),
            (uint64_t(2) << 62) | (uint64_t(512 >> 4) << 32) | (uint64_t(64 * 64 >> 4) << 16));
  EXPECT_EQ(llvm::cantFail(wgmmaDescriptor(make({64, 16}, 2, 32), Major::K)).swizzleCode, 3);
}

TEST(Shared, DescriptorsRefuseWithAReason) {
  auto errorOf = [](const SharedLayout &tile, Major major) {
    llvm::Expected<WgmmaDescriptor> d = wgmmaDescriptor(tile, major);
    return d ? "" : llvm::toString(d.takeError());
  };
  EXPECT_EQ(errorOf(make({64, 64}, 2), Major::K),
            "expected an operand of wgmma with a swizzle of 32, 64 or 128 bytes, got none");
  EXPECT_EQ(errorOf(make({64, 64}, 4, 128), Major::MN),
            "expected 16-bit elements in an MN-major operand of wgmma, got 32 bits");
  EXPECT_EQ(errorOf(make({12, 64}, 2, 128), Major::K),
            "expected a multiple of 8 rows in an operand of wgmma, got 12");
  EXPECT_EQ(errorOf(make({64}, 2, 128), Major::K),
            "expected a matrix as operand of wgmma, got 1 axis");
  EXPECT_EQ(errorOf(make({64, 64}, 8, 128), Major::K),
            "expected an operand of wgmma with elements of 2 or 4 bytes, got 8");
  auto startError = [](Major major, int64_t mn, int64_t k) {
    llvm::Expected<int64_t> start = wgmmaStart(make({64, 128}, 2, 128), major, mn, k);
    return start ? "" : llvm::toString(start.takeError());
  };
  EXPECT_EQ(startError(Major::K, 4, 0), "expected an instruction to start at multiples of 8 along "
                                        "M or N and 16 along K, got 4 and 0");
  EXPECT_EQ(startError(Major::MN, 32, 16), "expected an instruction to start at multiples of 64 "
                                           "along M or N and 16 along K, got 32 and 16");
  EXPECT_EQ(startError(Major::K, 64, 0),
            "expected an instruction to start inside the 64 x 128 tile, got row 64 and column 0");
}
