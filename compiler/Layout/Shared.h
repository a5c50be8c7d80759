//===- Shared.h - Tiles in shared memory: pitch, swizzle, descriptors -----===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Shared memory has 32 banks of 4 bytes: eight 16-byte pieces whose addresses differ modulo 128 are
// moved at once. Reading a column of a row-major tile with 128-byte rows hits one bank group eight
// times; two cures exist and both are here.
//
//  * A pitch: rows a few bytes longer than their data. Works with any access by threads.
//  * A swizzle: no byte is wasted, the 16-byte chunks of a row are permuted by the row number. The
//    hardware (TMA, wgmma) knows exactly three of them, functions of the byte address alone (PTX
//    ISA, "Swizzling modes"; CUTLASS Swizzle<B,4,3>):
//
//        address ^= ((address >> 7) & mask) << 4        mask = 7, 3, 1 for 128, 64, 32 bytes
//
//    The tile is then stored in *panels*: panel p holds columns [p*w, (p+1)*w) with w*elementBytes
//    = swizzle bytes, each row of a panel is `swizzle` bytes, panels follow each other. (A TMA box
//    is at most that wide as well.) Within the panel this reads chunk ^= row % 8, (row / 2) % 4,
//    (row / 4) % 2. The pattern repeats every 1024, 512, 256 bytes, to which tiles must be aligned.
//
//===----------------------------------------------------------------------===//
#ifndef COMPILER_LAYOUT_SHARED_H
#define COMPILER_LAYOUT_SHARED_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include <cstdint>

namespace dl::layout {

/// A tensor in shared memory: the last two axes are a matrix of rows and contiguous columns, axes
/// before them (the slots of a ring, say) count matrices; a tensor of rank 1 is one row.
struct SharedLayout {
  llvm::SmallVector<int64_t, 4> shape;
  int64_t elementBytes = 0;
  int64_t pitch = 0;   ///< bytes from one row to the next (of a panel, if swizzled)
  int64_t swizzle = 0; ///< 0, 32, 64 or 128 bytes

  int64_t rows() const { return shape.size() < 2 ? 1 : shape[shape.size() - 2]; }
  int64_t columns() const { return shape.back(); }
  int64_t panels() const;       ///< 1 without swizzle
  int64_t panelColumns() const; ///< columns() without swizzle
  int64_t panelBytes() const;   ///< from one panel to the next
  int64_t matrixBytes() const;  ///< from one matrix to the next: a multiple of alignment()
  int64_t totalBytes() const;
  int64_t alignment() const; ///< of the start: the period of the swizzle, at least 16

  /// The pure function. Equals applySwizzle(linearOffset(coord)) and is relative to an aligned
  /// start.
  int64_t byteOffset(llvm::ArrayRef<int64_t> coord) const;
  int64_t linearOffset(llvm::ArrayRef<int64_t> coord) const;
  int64_t applySwizzle(int64_t offset) const {
    return offset ^ (((offset >> 7) & swizzleMask()) << 4);
  }
  int64_t swizzleMask() const { return swizzle / 16 ? swizzle / 16 - 1 : 0; }

  bool operator==(const SharedLayout &o) const {
    return shape == o.shape && elementBytes == o.elementBytes && pitch == o.pitch &&
           swizzle == o.swizzle;
  }
};

/// padBytes: added to each row (without swizzle only).
llvm::Expected<SharedLayout> shared(llvm::ArrayRef<int64_t> shape, int64_t elementBytes,
                                    int64_t swizzle = 0, int64_t padBytes = 0);
/// The widest swizzle whose panels the rows fill exactly, or 0 if 32 bytes do not divide them.
int64_t widestSwizzle(int64_t columns, int64_t elementBytes);

/// How often one warp-wide access repeats because of banks: 1 is free of conflicts. `offsets` are
/// the byte offsets of the active lanes, each of which moves `bytes` (4, 8 or 16) at its natural
/// alignment. Lanes that touch the same word share it. Accesses of 8 and 16 bytes go half-warp- and
/// quarter-warp-wise, each part counts by itself and the worst is returned.
llvm::Expected<int64_t> bankConflicts(llvm::ArrayRef<int64_t> offsets, int64_t bytes);

/// The shared-memory matrix descriptor of wgmma.mma_async (PTX ISA, "Matrix Descriptor Format").
/// Bits 13-0 hold address >> 4, 29-16 the leading and 45-32 the stride byte offset >> 4, 63-62 the
/// swizzle (0 none, 1 128, 2 64, 3 32 bytes). Bits 51-49, the base offset, are zero because tiles
/// are aligned to the swizzle's period.
struct WgmmaDescriptor {
  int64_t leadingBytes = 0, strideBytes = 0;
  int64_t swizzleCode = 0;

  /// All bits but the address.
  uint64_t bits() const;
  uint64_t bits(int64_t address) const {
    return bits() | ((static_cast<uint64_t>(address) >> 4) & 0x3FFF);
  }
};

/// K-major: the tile is [MN][K], K contiguous (B of a plain product has shape [N][K] in memory).
/// MN-major: [K][MN], MN contiguous (the transposed operand, trans-b = 1; 16-bit elements only).
enum class Major : uint8_t { K, MN };

/// The descriptor of a swizzled tile.
///  K-major:  strideBytes is from 8 rows to the next 8; leadingBytes is not used (1 by convention,
///  in 16-byte units). MN-major: leadingBytes is from one panel to the next, strideBytes from 8
///  k-rows to the next 8.
llvm::Expected<WgmmaDescriptor> wgmmaDescriptor(const SharedLayout &layout, Major major);
/// Byte offset to add to the tile's address for the instruction that starts at (mn, k). Such starts
/// must be multiples: of 8 along MN if K-major, of a panel if MN-major; of the instruction's K (32
/// bytes if K-major, 16 elements else) along K.
llvm::Expected<int64_t> wgmmaStart(const SharedLayout &layout, Major major, int64_t mn, int64_t k);

} // namespace dl::layout

#endif // COMPILER_LAYOUT_SHARED_H
