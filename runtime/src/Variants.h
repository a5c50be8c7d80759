//===- Variants.h - Kernels for launches of certain sizes -----------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_RUNTIME_VARIANTS_H
#define DL_RUNTIME_VARIANTS_H

#include "JsonReader.h"
#include "Manifest.h"

namespace dl::runtime {

/// Notes at each usual kernel which others are its variants, in the manifest's order. Fails at
/// `kernels`, the manifest's array, where a variant does not fit its usual kernel.
void linkVariants(const JsonReader &kernels, Manifest &manifest);

/// Whether all conditions hold. One that cannot be evaluated does not: sizes that are beyond 64
/// bits are refused by the kernel's own requirements and grid.
bool holds(const std::vector<Requirement> &conditions, const SymbolValues &sizes);

} // namespace dl::runtime

#endif // DL_RUNTIME_VARIANTS_H
