//===- Passes.h - From tile to LLVM and NVVM ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TILETONVVM_PASSES_H
#define PASSES_TILETONVVM_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace dl {
/// On the lowered function: bytes of dynamic shared memory a launch must provide.
constexpr llvm::StringLiteral kSharedBytesAttrName = "dl.shared_bytes";

#define GEN_PASS_DECL
#include "passes/TileToNVVM/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/TileToNVVM/Passes.h.inc"
} // namespace dl

#endif // PASSES_TILETONVVM_PASSES_H
