//===- Manifest.h - What a package says of a kernel ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PACKAGE_MANIFEST_H
#define COMPILER_PACKAGE_MANIFEST_H

#include "dialects/Tile/IR/Tile.h"
#include "llvm/Support/JSON.h"

namespace dl::package {

/// The arguments, scalars, grid and requirements of a kernel as the manifest's JSON (format in
/// runtime/README.md), from the kernel's argument attributes, parameter struct and accesses.
llvm::json::Object describeKernel(tile::KernelOp kernel);

/// Fails, with a diagnostic, where a kernel takes more than the runtime passes on (dl/abi.h).
llvm::LogicalResult checkArguments(tile::KernelOp kernel);

/// "f32", "bf16", "i32", ...
std::string typeName(mlir::Type type);

} // namespace dl::package

#endif // COMPILER_PACKAGE_MANIFEST_H
