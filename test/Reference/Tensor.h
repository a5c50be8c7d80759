//===- Tensor.h - A dense fp64 array with its shape spelled out -----------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_REFERENCE_TENSOR_H
#define DL_TEST_REFERENCE_TENSOR_H

#include "test/Reference/Algebra.h"

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace dl::recurrence {

using Shape = std::vector<int64_t>;

/// Row-major. A default-constructed tensor is absent: an optional input that
/// was not given. Every access is checked and throws std::out_of_range.
class Tensor {
public:
  Tensor() = default;
  explicit Tensor(Shape shape, double fill = 0.0);

  bool isPresent() const { return present; }
  const Shape &shape() const { return dims; }

  std::vector<double> &values() { return data; }
  const std::vector<double> &values() const { return data; }

  double &operator[](std::initializer_list<int64_t> index) { return data[offset(index, 0)]; }
  double operator[](std::initializer_list<int64_t> index) const { return data[offset(index, 0)]; }

  /// The vector along the last axis at `index`, which names all other axes.
  Vector vector(std::initializer_list<int64_t> index) const;
  void setVector(std::initializer_list<int64_t> index, const Vector &vector);

  /// The matrix along the last two axes at `index`, which names all others.
  Matrix matrix(std::initializer_list<int64_t> index) const;
  void setMatrix(std::initializer_list<int64_t> index, const Matrix &matrix);

private:
  /// Position of the first element at `index`; `free` last axes are not named.
  int64_t offset(std::initializer_list<int64_t> index, int64_t free) const;

  bool present = false;
  Shape dims;
  std::vector<double> data;
};

/// "[2, 3, 4]".
std::string toString(const Shape &shape);

/// Throws std::invalid_argument, which names the tensor and both shapes,
/// unless `tensor` has the shape `expected`.
void expectShape(const char *name, const Tensor &tensor, const Shape &expected);

} // namespace dl::recurrence

#endif // DL_TEST_REFERENCE_TENSOR_H
