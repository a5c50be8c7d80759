//===- Arguments.h - Checking what a launch is given ----------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_RUNTIME_ARGUMENTS_H
#define DL_RUNTIME_ARGUMENTS_H

#include "Manifest.h"

#include <algorithm>
#include <iterator>

namespace dl::runtime {

/// A checked tensor view: what the kernel gets, and the bytes that it spans. All but isNull is left
/// undefined for a null argument: a launch has no time to clear it.
struct BoundArgument {
  bool isNull = true;
  uint64_t begin, end; // addresses; empty if any size is 0
  // One entry per dimension of the argument; those that the view leaves out have size 1, stride 0.
  int64_t shape[DLK_MAX_RANK], strides[DLK_MAX_RANK];
};

/// Checks the views against the kernel's arguments and binds the sizes. Allocates nothing.
class ArgumentChecker {
public:
  ArgumentChecker(const Manifest &manifest, const Kernel &kernel, dlk_device device)
      : manifest(manifest), kernel(kernel), device(device) {
    std::fill(std::begin(boundBy), std::end(boundBy), -1);
  }

  dlk_status check(const dlk_tensor *views, int32_t numViews);

  /// After check():
  const SymbolValues &sizes() const { return symbols; }
  const BoundArgument &operator[](size_t index) const { return bound[index]; }
  bool hasNoRows() const;

private:
  dlk_status bind(const dlk_tensor *views, size_t numViews);
  dlk_status checkType(size_t index, const dlk_tensor &view);
  dlk_status bindSymbols(size_t index);
  dlk_status checkRows() const;
  dlk_status checkMinimums() const;
  dlk_status checkShape(size_t index) const;
  dlk_status checkStrides(size_t index, const dlk_tensor &view);
  dlk_status checkMemory(size_t index, const dlk_tensor &view);
  dlk_status checkPoolRows(size_t index) const;
  dlk_status checkSelfOverlap(size_t index) const;
  dlk_status checkAliasing() const;
  bool mayShare(size_t a, size_t b) const;
  /// Where a symbol's value comes from, for messages.
  const char *sourceOf(int64_t symbol) const;

  const Manifest &manifest;
  const Kernel &kernel;
  const dlk_device device;
  SymbolValues symbols;
  int32_t boundBy[DLK_MAX_SYMBOLS]; // argument that gave the symbol its value; -1: its default
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

} // namespace dl::runtime

#endif // DL_RUNTIME_ARGUMENTS_H
