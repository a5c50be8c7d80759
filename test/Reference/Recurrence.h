//===- Recurrence.h - What all recurrences share: sizes, heads, tokens ----===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each operator of this folder is one struct of inputs and one function `run`,
// written from the papers in fp64, token by token. They know nothing of the
// compiler or of the operator specs: they are the second opinion.
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_REFERENCE_RECURRENCE_H
#define DL_TEST_REFERENCE_RECURRENCE_H

#include "test/Reference/Tensor.h"

#include <cmath>
#include <cstdint>
#include <optional>

namespace dl::recurrence {

/// The shapes in the comments of the operator structs use these letters.
struct Sizes {
  int64_t B = 1;  ///< sequences
  int64_t T = 1;  ///< tokens of each sequence
  int64_t HQ = 1; ///< key heads: those of q and k
  int64_t HV = 1; ///< value heads: those of v, o and the state; a multiple of HQ
  int64_t K = 1;  ///< key dimension
  int64_t V = 1;  ///< value dimension
};

/// Outputs [B, T, HV, V] and the state after the last token [B, HV, K, V].
struct Result {
  Tensor o;
  Tensor S;
};

/// One token of one value head.
struct Place {
  int64_t b; ///< sequence
  int64_t t; ///< token
  int64_t h; ///< value head
  int64_t g; ///< its key head, floor(h / (HV / HQ))
};

/// K^-0.5, the usual scale of the queries, unless one is given.
inline double scaleOr(const std::optional<double> &given, int64_t K) {
  return given ? *given : 1.0 / std::sqrt(static_cast<double>(K));
}

/// Throws std::invalid_argument unless every size is positive and HV is a
/// multiple of HQ.
void checkSizes(const Sizes &n);

/// Walks all value heads and tokens. `step(place, S)` gives the token's output
/// (a Vector of length V) and moves the state S on. An absent S0 is zero.
template <typename Step> Result walk(const Sizes &n, const Tensor &S0, Step step) {
  Result result{Tensor({n.B, n.T, n.HV, n.V}), S0.isPresent() ? S0 : Tensor({n.B, n.HV, n.K, n.V})};
  expectShape("S0", result.S, {n.B, n.HV, n.K, n.V});
  for (int64_t b = 0; b < n.B; ++b) {
    for (int64_t h = 0; h < n.HV; ++h) {
      Matrix S = result.S.matrix({b, h});
      for (int64_t t = 0; t < n.T; ++t) {
        Vector o = step(Place{b, t, h, h / (n.HV / n.HQ)}, S);
        result.o.setVector({b, t, h}, o);
      }
      result.S.setMatrix({b, h}, S);
    }
  }
  return result;
}

} // namespace dl::recurrence

#endif // DL_TEST_REFERENCE_RECURRENCE_H
