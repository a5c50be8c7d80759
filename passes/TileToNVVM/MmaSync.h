//===- MmaSync.h - Matrices in shared memory, as mma.sync wants them ------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TILETONVVM_MMASYNC_H
#define PASSES_TILETONVVM_MMASYNC_H

#include "passes/TileToNVVM/Lowering.h"

namespace dl::tile {

/// How a thread walks a matrix in shared memory: from a place of its own, in constant steps that
/// all threads share. Columns are counted in chunks of 16 bytes, which is what a swizzle moves.
struct KernelLowering::Chunks {
  layout::SharedLayout layout;
  mlir::Type word;       ///< two 16-bit elements, as nvvm.mma.sync takes them
  mlir::Value buffer;    ///< its start
  mlir::Value row;       ///< i32, of this thread
  mlir::Value chunk;     ///< i32, of this thread
  int64_t chunkBits = 0; ///< the bits that `chunk` may have
  mlir::Value offset;    ///< bytes from the start to (row, chunk), and further inside the chunk

  llvm::DenseMap<int64_t, mlir::Value> moved; ///< offsets after a change of the chunk alone
};

} // namespace dl::tile

#endif // PASSES_TILETONVVM_MMASYNC_H
