//===- Passes.h - From tile to a function of the host ---------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TILETOCPU_PASSES_H
#define PASSES_TILETOCPU_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace dl {
/// On the lowered function: bytes of scratch memory a call needs, aligned to 64.
constexpr llvm::StringLiteral kScratchBytesAttrName = "dl.scratch_bytes";

#define GEN_PASS_DECL
#include "passes/TileToCPU/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/TileToCPU/Passes.h.inc"
} // namespace dl

#endif // PASSES_TILETOCPU_PASSES_H
