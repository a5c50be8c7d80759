//===- Gates.h - Token-local maths around the recurrences -----------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_REFERENCE_GATES_H
#define DL_TEST_REFERENCE_GATES_H

#include "test/Reference/Algebra.h"

namespace dl::recurrence {

double sigmoid(double x);

/// log(1 + e^x), and x itself above 20, where the two differ by less than
/// 2.1e-9: the convention of the published kernels.
double softplus(double x);

/// x / sqrt(sum x^2 + 1e-6). The epsilon is on the sum, so a zero vector stays
/// zero and a tiny one is not blown up.
Vector l2norm(const Vector &x);

/// How a log decay (natural logarithm, at most 0) is written down.
enum class Gate {
  /// g = -exp(A_log) softplus(a + dt_bias). From Mamba-2 (Dao and Gu, 2024),
  /// kept by Gated DeltaNet (Yang, Kautz and Hatamizadeh, 2024).
  Softplus,
  /// g = lower_bound sigmoid(exp(A_log) (a + dt_bias)), hence in
  /// [lower_bound, 0]. From Kimi Linear's bounded ("safe") gate.
  Bounded,
  /// g = a: the caller has computed the log decay.
  Precomputed,
};

/// One log decay. Arguments that the form does not use are ignored.
double logDecay(Gate form, double a, double A_log, double dt_bias, double lowerBound);

/// How the write strength of a delta rule is written down.
enum class Beta {
  /// beta = b.
  Value,
  /// beta = factor sigmoid(b). A factor of 2 allows negative eigenvalues of
  /// I - beta k k^T (Grazzi et al., 2024).
  Logit,
};

double writeStrength(Beta form, double b, double factor);

} // namespace dl::recurrence

#endif // DL_TEST_REFERENCE_GATES_H
