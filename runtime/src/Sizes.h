//===- Sizes.h - Run-time sizes: requirements, grid, shapes ---------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_RUNTIME_SIZES_H
#define DL_RUNTIME_SIZES_H

#include "Manifest.h"

namespace dl::runtime {

/// The device must be the CPU or a CUDA device (it need not exist).
dlk_status checkDevice(dlk_device device);

/// Gives symbols that are not bound their defaults, where these can be computed.
void applyDefaults(const Manifest &manifest, SymbolValues &values);

/// Takes sizes by name, others by default. Errors: DLK_INVALID_ARGUMENT (unknown, repeated or below
/// the symbol's minimum).
dlk_status bindSizes(const Manifest &manifest, const dlk_size *sizes, int32_t count,
                     SymbolValues &values);

/// Checks the kernel's requirements and computes the grid (without rows there is none). Errors:
/// DLK_UNSUPPORTED.
dlk_status checkSizes(const Manifest &manifest, const Kernel &kernel, dlk_device device,
                      const SymbolValues &values, uint32_t grid[3]);

} // namespace dl::runtime

#endif // DL_RUNTIME_SIZES_H
