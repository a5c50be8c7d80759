//===- DeltaRule.h - Recurrences that correct what a key already holds ----===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The delta rule reads what the state holds for the key, and writes only the
// difference: S <- S + beta k (v - S^T k)^T. The operators differ in the decay
// that comes before it; those at the end also read for another vector than they
// write along. Value head h reads the q and k of key head floor(h / (HV / HQ)).
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_REFERENCE_DELTARULE_H
#define DL_TEST_REFERENCE_DELTARULE_H

#include "test/Reference/Gates.h"
#include "test/Reference/Recurrence.h"

namespace dl::recurrence {

/// DeltaNet: no decay.
///   u = beta (v - S^T k);  S <- S + k u^T;  o = scale S^T q
/// Schlag, Irie and Schmidhuber, "Linear Transformers Are Secretly Fast Weight
/// Programmers" (2021); Yang et al., "Parallelizing Linear Transformers with
/// the Delta Rule over Sequence Length" (2024).
struct DeltaNet {
  Sizes sizes;
  Tensor q; ///< [B, T, HQ, K]
  Tensor k; ///< [B, T, HQ, K]
  Tensor v; ///< [B, T, HV, V]
  Tensor b; ///< [B, T, HV]
  Tensor S; ///< [B, HV, K, V] before the first token; absent: zero
  bool normalize = true;
  Beta beta = Beta::Logit;
  double betaFactor = 1.0;
  std::optional<double> scale; ///< K^-0.5 unless given
};
Result run(const DeltaNet &x);

/// Gated DeltaNet: one decay per token and value head, then the delta rule.
///   S <- e^g S;  u = beta (v - S^T k);  S <- S + k u^T;  o = scale S^T q
/// The correction reads the decayed state. Yang, Kautz and Hatamizadeh, "Gated
/// Delta Networks: Improving Mamba2 with Delta Rule" (2024).
struct GatedDeltaNet {
  Sizes sizes;
  Tensor q;       ///< [B, T, HQ, K]
  Tensor k;       ///< [B, T, HQ, K]
  Tensor v;       ///< [B, T, HV, V]
  Tensor a;       ///< [B, T, HV] gate logit, or g itself if precomputed
  Tensor b;       ///< [B, T, HV]
  Tensor A_log;   ///< [HV], unused if the gate is precomputed
  Tensor dt_bias; ///< [HV], unused if the gate is precomputed
  Tensor S;       ///< [B, HV, K, V] before the first token; absent: zero
  Gate gate = Gate::Softplus;
  double lowerBound = -5.0; ///< of the bounded gate
  bool normalize = true;
  Beta beta = Beta::Logit;
  double betaFactor = 1.0;
  std::optional<double> scale; ///< K^-0.5 unless given
};
Result run(const GatedDeltaNet &x);

/// Kimi Delta Attention: Gated DeltaNet with one decay per key channel.
///   S <- diag(e^g) S;  u = beta (v - S^T k);  S <- S + k u^T;  o = scale S^T q
/// Kimi Team, "Kimi Linear: An Expressive, Efficient Attention Architecture"
/// (2025).
struct KimiDeltaAttention {
  Sizes sizes;
  Tensor q;       ///< [B, T, HQ, K]
  Tensor k;       ///< [B, T, HQ, K]
  Tensor v;       ///< [B, T, HV, V]
  Tensor a;       ///< [B, T, HV, K] gate logit, or g itself if precomputed
  Tensor b;       ///< [B, T, HV]
  Tensor A_log;   ///< [HV], unused if precomputed; absent with the bounded gate: 0
  Tensor dt_bias; ///< [HV, K], unused if the gate is precomputed
  Tensor S;       ///< [B, HV, K, V] before the first token; absent: zero
  Gate gate = Gate::Softplus;
  double lowerBound = -5.0; ///< of the bounded gate
  bool normalize = true;
  Beta beta = Beta::Logit;
  double betaFactor = 1.0;
  std::optional<double> scale; ///< K^-0.5 unless given
};
Result run(const KimiDeltaAttention &x);

/// Gated DeltaProduct: one decay per token, then `steps` delta steps, each with
/// its own key, value and strength, then one read.
///   S <- e^g S;  for i: u = beta_i (v_i - S^T k_i);  S <- S + k_i u^T
///   o = scale S^T q
/// Siems et al., "DeltaProduct: Improving State-Tracking in Linear RNNs via
/// Householder Products" (2025).
struct GatedDeltaProduct {
  Sizes sizes;
  int64_t steps = 2;
  Tensor q; ///< [B, T, HQ, K]
  Tensor k; ///< [B, T, steps, HQ, K]
  Tensor v; ///< [B, T, steps, HV, V]
  Tensor g; ///< [B, T, HV] log decay
  Tensor b; ///< [B, T, steps, HV]
  Tensor S; ///< [B, HV, K, V] before the first token; absent: zero
  bool normalize = true;
  Beta beta = Beta::Logit;
  double betaFactor = 1.0;
  std::optional<double> scale; ///< K^-0.5 unless given
};
Result run(const GatedDeltaProduct &x);

/// Gated DeltaNet 2: Kimi Delta Attention with two gates in the place of beta, one
/// on the key's channels for what is erased, one on the value's for what is written.
///   S <- diag(e^g) S;  u = w o v - S^T (b o k);  S <- S + k u^T;  o = scale S^T q
/// with g = -exp(A_log) softplus(a + dt_bias); b and w are given by their logits.
struct GatedDeltaNet2 {
  Sizes sizes;
  Tensor q;                    ///< [B, T, HQ, K]
  Tensor k;                    ///< [B, T, HQ, K]
  Tensor v;                    ///< [B, T, HV, V]
  Tensor a;                    ///< [B, T, HQ, K] gate logit
  Tensor b;                    ///< [B, T, HQ, K] logit of the erase gate
  Tensor w;                    ///< [B, T, HV, V] logit of the write gate
  Tensor A_log;                ///< [HQ]
  Tensor dt_bias;              ///< [HQ, K]
  Tensor S;                    ///< [B, HV, K, V] before the first token; absent: zero
  std::optional<double> scale; ///< K^-0.5 unless given

  /// The log decays of a token.
  Vector logDecays(Place p) const;
};
Result run(const GatedDeltaNet2 &x);

/// Comba: the correction reads for a key p of its own, and reads the state before
/// the decay (a scalar plus low rank transition); the query is corrected by p.
///   S <- e^g S + beta k (v - S^T p)^T;  o = scale S^T q',  q' = q - D p
/// with g = -exp(A_log) softplus(a + dt_bias) and beta given by its logit; q', k and
/// p are brought to length one. Hu et al., "Improving Bilinear RNNs with Closed-loop
/// Control" (2025).
struct Comba {
  Sizes sizes;
  Tensor q;                    ///< [B, T, HQ, K]
  Tensor k;                    ///< [B, T, HQ, K]
  Tensor p;                    ///< [B, T, HQ, K]
  Tensor v;                    ///< [B, T, HV, V]
  Tensor a;                    ///< [B, T, HV] gate logit
  Tensor b;                    ///< [B, T, HV]
  Tensor A_log;                ///< [HV]
  Tensor dt_bias;              ///< [HV]
  Tensor D;                    ///< [HQ]
  Tensor S;                    ///< [B, HV, K, V] before the first token; absent: zero
  std::optional<double> scale; ///< K^-0.5 unless given

  double logDecay(Place p) const;
  /// q' of length one.
  Vector query(Place p) const;
};
Result run(const Comba &x);

/// Of no paper: erases along e, writes along k, and the output sees the decayed state
/// before that, and the token itself through the bonus u.
///   S <- diag(e^g) S;  o = scale (S + diag(u) k v^T)^T q;  S <- S + beta k (v - S^T e)^T
/// q, e and k are brought to length one; beta is given by its logit.
struct TwoKeyDelta {
  Sizes sizes;
  Tensor q;                    ///< [B, T, HQ, K]
  Tensor e;                    ///< [B, T, HQ, K]
  Tensor k;                    ///< [B, T, HQ, K]
  Tensor v;                    ///< [B, T, HV, V]
  Tensor b;                    ///< [B, T, HV]
  Tensor g;                    ///< [B, T, HV, K] log decay
  Tensor u;                    ///< [HQ, K]
  Tensor S;                    ///< [B, HV, K, V] before the first token; absent: zero
  std::optional<double> scale; ///< K^-0.5 unless given
};
Result run(const TwoKeyDelta &x);

} // namespace dl::recurrence

#endif // DL_TEST_REFERENCE_DELTARULE_H
