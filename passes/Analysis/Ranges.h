//===- Ranges.h - How large numbers of a step can be ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What holds whatever the inputs are: 1 / (1 + e^-x) lies between 0 and 1. NaN is not spoken of.
//
//===----------------------------------------------------------------------===//

#ifndef DL_PASSES_ANALYSIS_RANGES_H
#define DL_PASSES_ANALYSIS_RANGES_H

#include "passes/Analysis/StepAnalysis.h"

#include <limits>

namespace dl::analysis {

/// Numbers from `low` to `high`, which may be infinite: then nothing is known on that side.
struct Interval {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();

  /// What no number exceeds in size.
  double magnitude() const { return std::max(std::fabs(low), std::fabs(high)); }
  bool operator==(const Interval &other) const { return low == other.low && high == other.high; }
};

/// Where the numbers of a token-local value lie: of a vector or a tensor, each of them.
class Ranges {
public:
  explicit Ranges(linattn::OperatorOp op) : op(op) {}

  Interval of(mlir::Value value);
  Interval of(const Factor &factor);

private:
  Interval compute(mlir::Value value);
  Interval compute(mlir::Operation *op);

  linattn::OperatorOp op;
  llvm::DenseMap<mlir::Value, Interval> known;
};

/// What no factor exceeds in size with which a feedback read enters a write: the numbers of its
/// coefficient, times the lengths of the keys that are read and written at. Norms that the
/// operator divides by are recognised; a key that it leaves as it is counts as one of length one,
/// as operators of this kind have them. 0 without feedback; nullopt where nothing bounds one of
/// the factors.
std::optional<double> boundOfFeedback(const StepAnalysis &step);

} // namespace dl::analysis

#endif // DL_PASSES_ANALYSIS_RANGES_H
