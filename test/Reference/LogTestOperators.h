//===- LogTestOperators.h - Random tokens of each operator with a log -----===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A token is drawn as the inputs of a hand-written recurrence, which is the oracle,
// and given to the model in its affine form. Sizes differ between operators, so
// that a layer which takes another one's numbers shows.
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_REFERENCE_LOGTESTOPERATORS_H
#define DL_TEST_REFERENCE_LOGTESTOPERATORS_H

#include "test/Reference/Affine.h"
#include "test/Reference/Random.h"

#include <functional>
#include <string>
#include <vector>

namespace dl::deltalog {

/// One token: what the model gets, and what the recurrence does.
struct DrawnToken {
  recurrence::AffineToken token;
  /// Moves the state on and gives the output.
  std::function<recurrence::Vector(recurrence::Matrix &)> step;
};

struct TestOperator {
  std::string name;
  int64_t K;
  int64_t V;
  std::function<DrawnToken(recurrence::Random &)> draw;
};

/// All operators of this folder that have an affine form.
const std::vector<TestOperator> &testOperators();
const TestOperator &testOperator(const std::string &name);

/// A random dense state.
recurrence::Matrix randomState(recurrence::Random &random, int64_t K, int64_t V);

/// The largest difference, relative to the larger of 1 and the largest expected
/// magnitude; infinite if anything is not finite.
double distance(const recurrence::Vector &got, const recurrence::Vector &expected);

/// To the bit: NaN equals itself.
bool isSameBits(const recurrence::Vector &a, const recurrence::Vector &b);

} // namespace dl::deltalog

#endif // DL_TEST_REFERENCE_LOGTESTOPERATORS_H
