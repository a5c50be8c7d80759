//===- Gates.cpp - Token-local maths around the recurrences ---------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Reference/Gates.h"

#include <cmath>

namespace dl::recurrence {

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

double softplus(double x) { return x > 20.0 ? x : std::log1p(std::exp(x)); }

Vector l2norm(const Vector &x) { return x / std::sqrt(dot(x, x) + 1e-6); }

double logDecay(Gate form, double a, double A_log, double dt_bias, double lowerBound) {
  switch (form) {
  case Gate::Softplus:
    return -std::exp(A_log) * softplus(a + dt_bias);
  case Gate::Bounded:
    return lowerBound * sigmoid(std::exp(A_log) * (a + dt_bias));
  case Gate::Precomputed:
    break;
  }
  return a;
}

double writeStrength(Beta form, double b, double factor) {
  return form == Beta::Logit ? factor * sigmoid(b) : b;
}

} // namespace dl::recurrence
