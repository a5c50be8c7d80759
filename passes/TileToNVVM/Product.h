//===- Product.h - A tile.mma in a thread ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TILETONVVM_PRODUCT_H
#define PASSES_TILETONVVM_PRODUCT_H

#include "compiler/Layout/Atoms.h"
#include "compiler/Layout/Shared.h"
#include "passes/TileToNVVM/Lowering.h"

namespace dl::tile {

/// One tile.mma: the instruction, how often it repeats in the registers of a thread, and its
/// operands as words that the instruction takes.
struct KernelLowering::Product {
  const layout::Instruction &row;
  int64_t warpsM, warpsN;    ///< groups of warps that share M and N
  int64_t m, n, k;           ///< repeats
  Registers a, b, c;         ///< empty if it is read from shared memory
  Registers restA, restB;    ///< lo of a and b in registers, or empty
  bool fromZero = false;     ///< c is zero
  bool isTransposed = false; ///< b in shared memory: K x N

  mlir::ValueRange fragment(const Registers &words, int64_t number, int64_t of) const {
    int64_t size = words.size() / of;
    return mlir::ValueRange(words).slice(number * size, size);
  }
  mlir::ValueRange fragmentA(int64_t i, int64_t l) const { return fragment(a, i * k + l, m * k); }
  mlir::ValueRange fragmentB(int64_t l, int64_t j) const { return fragment(b, l * n + j, k * n); }
  mlir::ValueRange restOfA(int64_t i, int64_t l) const { return fragment(restA, i * k + l, m * k); }
  mlir::ValueRange restOfB(int64_t l, int64_t j) const { return fragment(restB, l * n + j, k * n); }
  mlir::ValueRange fragmentC(int64_t i, int64_t j) const { return fragment(c, i * n + j, m * n); }
  layout::Major major() const { return isTransposed ? layout::Major::MN : layout::Major::K; }
  void accumulate(int64_t i, int64_t j, mlir::ValueRange values) {
    llvm::copy(values, c.begin() + (i * n + j) * values.size());
  }
};

} // namespace dl::tile

#endif // PASSES_TILETONVVM_PRODUCT_H
