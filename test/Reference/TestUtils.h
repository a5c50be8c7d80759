//===- TestUtils.h - Comparing tensors in the reference tests -------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_REFERENCE_TESTUTILS_H
#define DL_TEST_REFERENCE_TESTUTILS_H

#include "test/Reference/Recurrence.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>

namespace dl::recurrence {

/// The largest difference, relative to the larger of 1 and the largest expected
/// magnitude; infinite if the shapes differ or anything is not finite.
inline double distance(const Tensor &got, const Tensor &expected) {
  double infinity = std::numeric_limits<double>::infinity();
  if (got.shape() != expected.shape())
    return infinity;
  double magnitude = 1.0;
  double worst = 0.0;
  for (size_t i = 0; i < got.values().size(); ++i) {
    if (!std::isfinite(got.values()[i]) || !std::isfinite(expected.values()[i]))
      return infinity;
    magnitude = std::max(magnitude, std::fabs(expected.values()[i]));
    worst = std::max(worst, std::fabs(got.values()[i] - expected.values()[i]));
  }
  return worst / magnitude;
}

/// Both the outputs and the final states agree to `tolerance`.
inline void expectSame(const Result &got, const Result &expected, double tolerance = 1e-13) {
  EXPECT_LE(distance(got.o, expected.o), tolerance) << "outputs differ";
  EXPECT_LE(distance(got.S, expected.S), tolerance) << "states differ";
}

} // namespace dl::recurrence

#endif // DL_TEST_REFERENCE_TESTUTILS_H
