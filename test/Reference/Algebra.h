//===- Algebra.h - The few vector and matrix operations of a recurrence ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Plain fp64, written to be read next to a paper. Element-wise vector
// arithmetic is that of std::valarray: beta * (v - p) means what it says.
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_REFERENCE_ALGEBRA_H
#define DL_TEST_REFERENCE_ALGEBRA_H

#include <cstdint>
#include <valarray>

namespace dl::recurrence {

using Vector = std::valarray<double>;

inline double dot(const Vector &a, const Vector &b) { return (a * b).sum(); }

/// A K x V matrix, row-major: row k belongs to key coordinate k.
struct Matrix {
  int64_t rows = 0;
  int64_t cols = 0;
  Vector values;

  Matrix(int64_t rows, int64_t cols) : rows(rows), cols(cols), values(0.0, rows * cols) {}

  double &operator()(int64_t row, int64_t col) { return values[row * cols + col]; }
  double operator()(int64_t row, int64_t col) const { return values[row * cols + col]; }
};

/// S^T x: what the state holds for key x.
inline Vector read(const Matrix &S, const Vector &x) {
  Vector result(0.0, S.cols);
  for (int64_t k = 0; k < S.rows; ++k)
    for (int64_t v = 0; v < S.cols; ++v)
      result[v] += x[k] * S(k, v);
  return result;
}

/// S <- S + a b^T.
inline void write(Matrix &S, const Vector &a, const Vector &b) {
  for (int64_t k = 0; k < S.rows; ++k)
    for (int64_t v = 0; v < S.cols; ++v)
      S(k, v) += a[k] * b[v];
}

/// S <- factor S.
inline void scale(Matrix &S, double factor) { S.values *= factor; }

/// S <- diag(factor) S, one factor for each key coordinate.
inline void scaleRows(Matrix &S, const Vector &factor) {
  for (int64_t k = 0; k < S.rows; ++k)
    for (int64_t v = 0; v < S.cols; ++v)
      S(k, v) *= factor[k];
}

/// S <- factor o S, element by element.
inline void scaleElements(Matrix &S, const Matrix &factor) { S.values *= factor.values; }

} // namespace dl::recurrence

#endif // DL_TEST_REFERENCE_ALGEBRA_H
