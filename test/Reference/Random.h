//===- Random.h - Repeatable random tensors -------------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_REFERENCE_RANDOM_H
#define DL_TEST_REFERENCE_RANDOM_H

#include "test/Reference/Tensor.h"

#include <cmath>
#include <cstdint>
#include <random>
#include <utility>

namespace dl::recurrence {

/// The same numbers on every machine: only the engine is taken from <random>,
/// whose distributions the standard leaves open.
class Random {
public:
  explicit Random(uint64_t seed) : engine(seed) {}

  /// Uniform in [low, high).
  double uniform(double low, double high) {
    return low + (high - low) * std::ldexp(static_cast<double>(engine() >> 11), -53);
  }

  /// Standard normal, by Box and Muller.
  double normal() {
    double radius = std::sqrt(-2.0 * std::log(1.0 - uniform(0.0, 1.0)));
    return radius * std::cos(uniform(0.0, 2.0 * 3.14159265358979323846));
  }

  Tensor uniform(Shape shape, double low, double high) {
    Tensor tensor(std::move(shape));
    for (double &value : tensor.values())
      value = uniform(low, high);
    return tensor;
  }

  Tensor normal(Shape shape) {
    Tensor tensor(std::move(shape));
    for (double &value : tensor.values())
      value = normal();
    return tensor;
  }

private:
  std::mt19937_64 engine;
};

} // namespace dl::recurrence

#endif // DL_TEST_REFERENCE_RANDOM_H
