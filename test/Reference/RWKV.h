//===- RWKV.h - The recurrences of RWKV-6 and RWKV-7 ----------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_REFERENCE_RWKV_H
#define DL_TEST_REFERENCE_RWKV_H

#include "test/Reference/Recurrence.h"

namespace dl::recurrence {

/// RWKV-6 ("Finch"): the output reads the state before this token's decay and
/// write; the token itself enters through the bonus u.
///   o = scale (S + diag(u) k v^T)^T r;  S <- diag(e^w) S;  S <- S + k v^T
/// Peng et al., "Eagle and Finch: RWKV with Matrix-Valued States and Dynamic
/// Recurrence" (2024). The model itself uses scale = 1.
struct RWKV6 {
  Sizes sizes;
  Tensor r; ///< [B, T, HQ, K]
  Tensor k; ///< [B, T, HQ, K]
  Tensor v; ///< [B, T, HV, V]
  Tensor w; ///< [B, T, HV, K] log decay, or raw: the log decay is then -exp(w)
  Tensor u; ///< [HV, K] bonus of the current token
  Tensor S; ///< [B, HV, K, V] before the first token; absent: zero
  bool wIsRaw = false;
  std::optional<double> scale; ///< K^-0.5 unless given
};
Result run(const RWKV6 &x);

/// RWKV-7 ("Goose"): diagonal plus low rank, where the low-rank term reads the
/// state before the decay.
///   S <- diag(e^w) S + b (a^T S) + k v^T;  o = scale S^T r
/// Peng et al., "RWKV-7 Goose with Expressive Dynamic State Evolution" (2025).
struct RWKV7 {
  Sizes sizes;
  Tensor r; ///< [B, T, HQ, K]
  Tensor w; ///< [B, T, HV, K] log decay
  Tensor k; ///< [B, T, HQ, K]
  Tensor v; ///< [B, T, HV, V]
  Tensor a; ///< [B, T, HQ, K] what is read of the old state
  Tensor b; ///< [B, T, HQ, K] where that is written
  Tensor S; ///< [B, HV, K, V] before the first token; absent: zero
  double scale = 1.0;
};
Result run(const RWKV7 &x);

} // namespace dl::recurrence

#endif // DL_TEST_REFERENCE_RWKV_H
