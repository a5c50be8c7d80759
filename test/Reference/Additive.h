//===- Additive.h - Recurrences that decay and add, without correction ----===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_REFERENCE_ADDITIVE_H
#define DL_TEST_REFERENCE_ADDITIVE_H

#include "test/Reference/Gates.h"
#include "test/Reference/Recurrence.h"

namespace dl::recurrence {

/// Gated linear attention: one decay per key channel.
///   S <- diag(e^g) S;  S <- S + k v^T;  o = scale S^T q
/// Yang et al., "Gated Linear Attention Transformers with Hardware-Efficient
/// Training" (2023).
struct GatedLinearAttention {
  Sizes sizes;
  Tensor q;                    ///< [B, T, HQ, K]
  Tensor k;                    ///< [B, T, HQ, K]
  Tensor v;                    ///< [B, T, HV, V]
  Tensor g;                    ///< [B, T, HV, K] log decay
  Tensor S;                    ///< [B, HV, K, V] before the first token; absent: zero
  std::optional<double> scale; ///< K^-0.5 unless given
};
Result run(const GatedLinearAttention &x);

/// Retention, and lightning attention: one decay per head, the same for all tokens.
///   S <- e^-slope S;  S <- S + k v^T;  o = scale S^T q
/// Sun et al., "Retentive Network: A Successor to Transformer for Large Language
/// Models" (2023); Qin et al., "Various Lengths, Constant Speed: Efficient Language
/// Modeling with Lightning Attention" (2024).
struct Retention {
  Sizes sizes;
  Tensor q;                    ///< [B, T, HQ, K]
  Tensor k;                    ///< [B, T, HQ, K]
  Tensor v;                    ///< [B, T, HV, V]
  Tensor slope;                ///< [HV]
  Tensor S;                    ///< [B, HV, K, V] before the first token; absent: zero
  std::optional<double> scale; ///< K^-0.5 unless given
};
Result run(const Retention &x);

/// HGRN2: the key is what the forget gate takes away.
///   S <- diag(f) S;  S <- S + (1 - f) v^T;  o = scale S^T q
/// Qin et al., "HGRN2: Gated Linear RNNs with State Expansion" (2024).
struct HGRN2 {
  Sizes sizes;
  Tensor q;                    ///< [B, T, HQ, K]
  Tensor f;                    ///< [B, T, HQ, K] logit of the forget gate, or its logarithm
  Tensor v;                    ///< [B, T, HV, V]
  Tensor S;                    ///< [B, HV, K, V] before the first token; absent: zero
  bool isLogit = true;         ///< what f is
  std::optional<double> scale; ///< K^-0.5 unless given

  /// The forget gate of a token and key head.
  Vector forget(Place p) const;
};
Result run(const HGRN2 &x);

/// Mamba-2's state space duality, with the skip connection of D.
///   dt <- softplus(dt + dt_bias) if asked for;  A = -exp(A_log)
///   S <- e^(dt A) S;  S <- S + B (dt x)^T;  o = S^T C + D x
/// B plays the key, C the query, x the value. Dao and Gu, "Transformers are
/// SSMs" (2024).
struct Mamba2 {
  Sizes sizes;
  Tensor C;       ///< [B, T, HQ, K]
  Tensor B;       ///< [B, T, HQ, K]
  Tensor x;       ///< [B, T, HV, V]
  Tensor dt;      ///< [B, T, HV] step size, or its logit
  Tensor A_log;   ///< [HV]
  Tensor dt_bias; ///< [HV]; unused if dt is the step size itself
  Tensor D;       ///< [HV]; absent: no skip
  Tensor S;       ///< [B, HV, K, V] before the first token; absent: zero
  bool dtIsLogit = true;
};
Result run(const Mamba2 &x);

/// A decay of its own for each of the K x V elements of the state.
///   S <- e^G o S;  S <- S + k v^T;  o = scale S^T q
/// The form of Mamba's selective scan (Gu and Dao, 2023) written for matrix
/// states. No chunkwise form in terms of K x V products exists.
struct ElementwiseDecay {
  Sizes sizes;
  Tensor q;                    ///< [B, T, HQ, K]
  Tensor k;                    ///< [B, T, HQ, K]
  Tensor v;                    ///< [B, T, HV, V]
  Tensor g;                    ///< [B, T, HV, K, V] log decay
  Tensor S;                    ///< [B, HV, K, V] before the first token; absent: zero
  std::optional<double> scale; ///< K^-0.5 unless given
};
Result run(const ElementwiseDecay &x);

} // namespace dl::recurrence

#endif // DL_TEST_REFERENCE_ADDITIVE_H
