//===- Links.h - Kernels that belong to another one -----------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_RUNTIME_LINKS_H
#define DL_RUNTIME_LINKS_H

#include "JsonReader.h"
#include "Manifest.h"

namespace dl::runtime {

/// Notes at each kernel which others are its variants, in the manifest's order, and which one
/// prepares it. Fails at `kernels`, the manifest's array, where a kernel does not fit the one that
/// it belongs to.
void linkKernels(const JsonReader &kernels, Manifest &manifest);

/// Whether all conditions hold. One that cannot be evaluated does not: sizes that are beyond 64
/// bits are refused by the kernel's own requirements and grid.
bool holds(const std::vector<Requirement> &conditions, const SymbolValues &sizes);

} // namespace dl::runtime

#endif // DL_RUNTIME_LINKS_H
