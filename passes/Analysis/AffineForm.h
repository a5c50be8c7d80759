//===- AffineForm.h - Sums of reads and token-local terms -----------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A value that depends on the state only through sums,
//
//   sum_r c_r read_r + sum_j c_j d_j,
//
// with token-local vectors d_j and token-local coefficients c. A coefficient is a sum of products
// of factors, each of which is a value of the operator's body: no IR is created here, and a
// schedule emits a coefficient by emitting its factors.
//
//===----------------------------------------------------------------------===//

#ifndef DL_PASSES_ANALYSIS_AFFINEFORM_H
#define DL_PASSES_ANALYSIS_AFFINEFORM_H

#include "dialects/LinAttn/IR/LinAttn.h"

namespace dl::analysis {

/// One token-local factor: a number per head, or one per value channel.
struct Factor {
  enum class Kind {
    Plain,       ///< x
    Inverse,     ///< 1 / x
    Exponential, ///< e^x, the factor of a decay
    Dot          ///< sum over the key axis of x key e^l, l the sum of `logDecays`
  };
  Kind kind = Kind::Plain;
  /// x, before it was broadcast: f32 (one number for all heads), a scalar or a value vector of
  /// either group; for Dot a key vector.
  mlir::Value value;
  mlir::Value key;                             ///< Dot: the key vector of the write that is read
  llvm::SmallVector<mlir::Value, 1> logDecays; ///< Dot: of axis scalar or key
  /// The operation that multiplies by it, for diagnostics.
  mlir::Operation *op = nullptr;

  /// Whether there is one number per value channel rather than one per head.
  bool isPerValue() const;
};

/// Whether two factors are the same number; `op` is ignored.
bool operator==(const Factor &a, const Factor &b);

/// A number times factors.
struct Product {
  double constant = 1.0;
  llvm::SmallVector<Factor, 1> factors;

  bool isOne() const { return constant == 1.0 && factors.empty(); }
  bool isPerValue() const { return llvm::any_of(factors, std::mem_fn(&Factor::isPerValue)); }
};

Product operator*(const Product &a, const Product &b);

/// A sum of products with different factors, never empty.
using Coefficient = llvm::SmallVector<Product, 1>;

bool isPerValue(const Coefficient &coefficient);

/// A read (by its number in the analysis) and what it is multiplied by.
struct ReadTerm {
  unsigned read = 0;
  Coefficient coefficient;
};

/// A token-local value of the body and what it is multiplied by.
struct LocalTerm {
  Product coefficient;
  mlir::Value value;
};

/// sum_r c_r read_r + sum_j c_j d_j.
struct AffineForm {
  llvm::SmallVector<ReadTerm, 0> reads; ///< each read at most once, in order of appearance
  llvm::SmallVector<LocalTerm, 0> locals;

  bool isTokenLocal() const { return reads.empty(); }
  /// The coefficient of a read, or null.
  const Coefficient *find(unsigned read) const;
  /// The number of products in all terms.
  unsigned size() const;

  /// Adds `product` times a read, a local value or another form.
  void addRead(unsigned read, const Product &product);
  void addLocal(mlir::Value value, const Product &product);
  void add(const AffineForm &other, const Product &product);
};

/// `value` without the broadcasts it ends in.
mlir::Value stripBroadcasts(mlir::Value value);

/// The f32 constant that a value is, perhaps after broadcasts.
std::optional<double> constantOf(mlir::Value value);

} // namespace dl::analysis

#endif // DL_PASSES_ANALYSIS_AFFINEFORM_H
