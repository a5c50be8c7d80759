//===- Passes.h - Passes from linattn to tile ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LINATTNTOTILE_PASSES_H
#define PASSES_LINATTNTOTILE_PASSES_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace dl {
/// On a scheduled kernel: bytes of state that one block holds in registers.
constexpr llvm::StringLiteral kStateBytesAttrName = "tile.state_bytes";
/// On a scheduled kernel: registers that a thread holds of them, in f32.
constexpr llvm::StringLiteral kStateRegistersAttrName = "tile.state_registers";
/// On a scheduled kernel: warps that share the sum over K.
constexpr llvm::StringLiteral kKeyWarpsAttrName = "tile.key_warps";

#define GEN_PASS_DECL
#include "passes/LinAttnToTile/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/LinAttnToTile/Passes.h.inc"
} // namespace dl

#endif // PASSES_LINATTNTOTILE_PASSES_H
