//===- Passes.h - Passes on tile kernels ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TILE_PASSES_H
#define PASSES_TILE_PASSES_H

#include "dialects/Tile/IR/Tile.h"
#include "mlir/Pass/Pass.h"

namespace dl {
#define GEN_PASS_DECL
#include "passes/Tile/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "passes/Tile/Passes.h.inc"
} // namespace dl

#endif // PASSES_TILE_PASSES_H
