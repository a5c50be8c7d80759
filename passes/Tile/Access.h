//===- Access.h - How a tile meets global memory ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TILE_ACCESS_H
#define PASSES_TILE_ACCESS_H

#include "dialects/Tile/IR/Tile.h"

namespace dl::tile {

/// Width of the accesses of a tile.load or tile.store in elements: registers that are consecutive
/// in memory, at most 16 bytes, and never across the end of an axis.
int64_t accessWidth(mlir::MemRefType memory, llvm::ArrayRef<int64_t> axes,
                    mlir::RankedTensorType tensor,
                    std::optional<llvm::ArrayRef<int64_t>> repeats = {});
/// The same of a tile.ring_load, whose runs lie within a row: one may start at any row.
int64_t accessWidth(RingLoadOp load);

/// Alignment in bytes that the kernel's accesses demand of an argument's pointer and of each of its
/// free strides.
int64_t requiredAlignment(mlir::BlockArgument memory);

} // namespace dl::tile

#endif // PASSES_TILE_ACCESS_H
