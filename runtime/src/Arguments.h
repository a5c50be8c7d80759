//===- Arguments.h - Checking what a launch is given ----------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_RUNTIME_ARGUMENTS_H
#define DL_RUNTIME_ARGUMENTS_H

#include "Manifest.h"

namespace dl::runtime {

/// A checked tensor view: what the kernel gets, and the bytes that it spans.
struct BoundArgument {
  bool isNull = true;
  uint64_t begin = 0, end = 0; // addresses; empty if any size is 0
  int64_t strides[DLK_MAX_RANK] = {};
};

/// Checks the views against the kernel's arguments and binds the sizes. Allocates nothing.
class ArgumentChecker {
public:
  ArgumentChecker(const Manifest &manifest, const Kernel &kernel, dlk_device device)
      : manifest(manifest), kernel(kernel), device(device) {}

  dlk_status check(const dlk_tensor *views, int32_t numViews);

  /// After check():
  const SymbolValues &sizes() const { return symbols; }
  const BoundArgument &operator[](size_t index) const { return bound[index]; }
  bool hasNoRows() const;

private:
  dlk_status checkType(size_t index, const dlk_tensor &view);
  dlk_status bindSymbols(size_t index, const dlk_tensor &view);
  dlk_status checkPositive() const;
  dlk_status checkShape(size_t index, const dlk_tensor &view) const;
  dlk_status checkStrides(size_t index, const dlk_tensor &view);
  dlk_status checkMemory(size_t index, const dlk_tensor &view);
  dlk_status checkSelfOverlap(size_t index, const dlk_tensor &view) const;
  dlk_status checkPoolRows(size_t index, const dlk_tensor &view) const;
  dlk_status checkAliasing(const dlk_tensor *views) const;
  bool mayShare(size_t a, size_t b, const dlk_tensor *views) const;

  const Manifest &manifest;
  const Kernel &kernel;
  const dlk_device device;
  SymbolValues symbols;
  int32_t boundBy[DLK_MAX_SYMBOLS] = {}; // argument that gave the symbol its value
  BoundArgument bound[DLK_MAX_ARGS];
};

/// The bytes that a strided view spans.
struct StridedRange {
  uint64_t begin, end;
  int rank;
  const int64_t *shape;
  const int64_t *strides; // elements
  int64_t elementBytes;
};

/// Whether two views certainly have no byte in common: disjoint ranges, or column slices of rows of
/// one pitch.
bool areDisjoint(const StridedRange &a, const StridedRange &b);

/// Checked mode: validates the slot arrays of a launch on the CPU. `views` have passed
/// ArgumentChecker.
dlk_status checkSlots(const Kernel &kernel, const ArgumentChecker &args, const dlk_tensor *views,
                      int64_t numRows, int64_t firstSlot);

} // namespace dl::runtime

#endif // DL_RUNTIME_ARGUMENTS_H
