//===- StepMap.h - The map a step applies to its state --------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With everything that depends on the token alone held fixed, a step takes the old state S to
//
//   S' = L S R + (what does not depend on S)
//
// where L works on the key axis and R on the value axis. What L and R can be decides which
// schedules exist: products of scalars and diagonals are sums of logarithms, a diagonal plus a low
// rank needs a triangular solve, and anything else has to be applied token by token.
//
// The classes are closed under composition and ordered, so the class of a step is found by
// composing those of its operations: the later class wins, ranks add up, and one pair has no form
// in common: what a low rank adds between two value decays is no L S R.
//
//===----------------------------------------------------------------------===//

#ifndef DL_DIALECTS_LINATTN_IR_STEPMAP_H
#define DL_DIALECTS_LINATTN_IR_STEPMAP_H

#include <string>

namespace dl::linattn {

/// What L can be, each class within the next.
enum class StepClass {
  Identity,
  Scalar,              ///< a number times the identity
  Diagonal,            ///< one number per key channel
  DiagonalPlusLowRank, ///< a diagonal plus a matrix of `rank`
  Other                ///< not known to have the form L S R
};

/// The map of one operation or of a whole step.
struct StepMap {
  StepClass kind = StepClass::Identity;
  /// Upper bound of the rank, 0 below DiagonalPlusLowRank.
  unsigned rank = 0;
  /// Whether R is a diagonal rather than the identity.
  bool scalesValues = false;

  bool isIdentity() const { return kind == StepClass::Identity && !scalesValues; }
  /// The map that applies this one, then `next`.
  StepMap then(const StepMap &next) const;
  /// "identity", "diagonal + rank 2", "scalar, diagonal on the value axis", ...
  std::string text() const;
};

inline bool operator==(const StepMap &a, const StepMap &b) {
  return a.kind == b.kind && a.rank == b.rank && a.scalesValues == b.scalesValues;
}

/// How what an operation does to a state depends on the states before.
enum class Feedback {
  None,     ///< not at all
  PerHead,  ///< a sum of reads, each times one number per head
  PerValue, ///< a sum of reads, some times one number per value channel
  Other     ///< not a sum of reads times token-local factors
};

} // namespace dl::linattn

#endif // DL_DIALECTS_LINATTN_IR_STEPMAP_H
