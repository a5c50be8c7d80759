//===- Tensor.cpp - A dense fp64 array with its shape spelled out ---------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Reference/Tensor.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

namespace dl::recurrence {

static int64_t sizeOf(const Shape &shape) {
  int64_t size = 1;
  for (int64_t dim : shape) {
    if (dim < 0)
      throw std::invalid_argument("expected sizes of at least 0, got " + toString(shape));
    size *= dim;
  }
  return size;
}

Tensor::Tensor(Shape shape, double fill)
    : present(true), dims(std::move(shape)), data(sizeOf(dims), fill) {}

int64_t Tensor::offset(std::initializer_list<int64_t> index, int64_t free) const {
  int64_t rank = static_cast<int64_t>(dims.size());
  int64_t named = static_cast<int64_t>(index.size());
  bool inBounds = present && named + free == rank;
  int64_t result = 0;
  for (int64_t axis = 0; inBounds && axis < rank; ++axis) {
    int64_t position = axis < named ? *std::next(index.begin(), axis) : 0;
    inBounds = position >= 0 && position < dims[axis];
    result = result * dims[axis] + position;
  }
  if (!inBounds)
    throw std::out_of_range("no element " + toString(Shape(index)) + " in a tensor of shape " +
                            (present ? toString(dims) : "(absent)"));
  return result;
}

Vector Tensor::vector(std::initializer_list<int64_t> index) const {
  return Vector(data.data() + offset(index, 1), dims.back());
}

void Tensor::setVector(std::initializer_list<int64_t> index, const Vector &vector) {
  std::copy(std::begin(vector), std::end(vector), data.begin() + offset(index, 1));
}

Matrix Tensor::matrix(std::initializer_list<int64_t> index) const {
  int64_t first = offset(index, 2);
  Matrix result(dims[dims.size() - 2], dims.back());
  std::copy_n(data.begin() + first, result.values.size(), std::begin(result.values));
  return result;
}

void Tensor::setMatrix(std::initializer_list<int64_t> index, const Matrix &matrix) {
  std::copy(std::begin(matrix.values), std::end(matrix.values), data.begin() + offset(index, 2));
}

std::string toString(const Shape &shape) {
  std::string text = "[";
  for (int64_t dim : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(dim);
  return text + "]";
}

void expectShape(const char *name, const Tensor &tensor, const Shape &expected) {
  if (!tensor.isPresent())
    throw std::invalid_argument(std::string(name) + ": expected shape " + toString(expected) +
                                ", got no tensor");
  if (tensor.shape() != expected)
    throw std::invalid_argument(std::string(name) + ": expected shape " + toString(expected) +
                                ", got " + toString(tensor.shape()));
}

} // namespace dl::recurrence
