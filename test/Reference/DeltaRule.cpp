//===- DeltaRule.cpp - Recurrences that correct what a key already holds --===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Reference/DeltaRule.h"

#include <cmath>

namespace dl::recurrence {

/// S <- S + k u^T with u = beta (v - S^T k).
static void deltaStep(Matrix &S, const Vector &k, const Vector &v, double beta) {
  Vector u = beta * (v - read(S, k));
  write(S, k, u);
}

static Vector maybeNormalized(const Vector &x, bool normalize) { return normalize ? l2norm(x) : x; }

Result run(const DeltaNet &x) {
  const Sizes &n = x.sizes;
  checkSizes(n);
  expectShape("q", x.q, {n.B, n.T, n.HQ, n.K});
  expectShape("k", x.k, {n.B, n.T, n.HQ, n.K});
  expectShape("v", x.v, {n.B, n.T, n.HV, n.V});
  expectShape("b", x.b, {n.B, n.T, n.HV});
  double scaleOfQ = scaleOr(x.scale, n.K);

  return walk(n, x.S, [&](Place p, Matrix &S) -> Vector {
    Vector q = maybeNormalized(x.q.vector({p.b, p.t, p.g}), x.normalize);
    Vector k = maybeNormalized(x.k.vector({p.b, p.t, p.g}), x.normalize);
    Vector v = x.v.vector({p.b, p.t, p.h});
    double beta = writeStrength(x.beta, x.b[{p.b, p.t, p.h}], x.betaFactor);

    deltaStep(S, k, v, beta);
    return scaleOfQ * read(S, q);
  });
}

Result run(const GatedDeltaNet &x) {
  const Sizes &n = x.sizes;
  checkSizes(n);
  expectShape("q", x.q, {n.B, n.T, n.HQ, n.K});
  expectShape("k", x.k, {n.B, n.T, n.HQ, n.K});
  expectShape("v", x.v, {n.B, n.T, n.HV, n.V});
  expectShape("a", x.a, {n.B, n.T, n.HV});
  expectShape("b", x.b, {n.B, n.T, n.HV});
  bool raw = x.gate != Gate::Precomputed;
  if (raw) {
    expectShape("A_log", x.A_log, {n.HV});
    expectShape("dt_bias", x.dt_bias, {n.HV});
  }
  double scaleOfQ = scaleOr(x.scale, n.K);

  return walk(n, x.S, [&](Place p, Matrix &S) -> Vector {
    Vector q = maybeNormalized(x.q.vector({p.b, p.t, p.g}), x.normalize);
    Vector k = maybeNormalized(x.k.vector({p.b, p.t, p.g}), x.normalize);
    Vector v = x.v.vector({p.b, p.t, p.h});
    double beta = writeStrength(x.beta, x.b[{p.b, p.t, p.h}], x.betaFactor);
    double g = logDecay(x.gate, x.a[{p.b, p.t, p.h}], raw ? x.A_log[{p.h}] : 0.0,
                        raw ? x.dt_bias[{p.h}] : 0.0, x.lowerBound);

    scale(S, std::exp(g));
    deltaStep(S, k, v, beta);
    return scaleOfQ * read(S, q);
  });
}

Result run(const KimiDeltaAttention &x) {
  const Sizes &n = x.sizes;
  checkSizes(n);
  expectShape("q", x.q, {n.B, n.T, n.HQ, n.K});
  expectShape("k", x.k, {n.B, n.T, n.HQ, n.K});
  expectShape("v", x.v, {n.B, n.T, n.HV, n.V});
  expectShape("a", x.a, {n.B, n.T, n.HV, n.K});
  expectShape("b", x.b, {n.B, n.T, n.HV});
  bool raw = x.gate != Gate::Precomputed;
  bool hasRate = x.gate == Gate::Softplus || (raw && x.A_log.isPresent());
  if (hasRate)
    expectShape("A_log", x.A_log, {n.HV});
  if (raw)
    expectShape("dt_bias", x.dt_bias, {n.HV, n.K});
  double scaleOfQ = scaleOr(x.scale, n.K);

  return walk(n, x.S, [&](Place p, Matrix &S) -> Vector {
    Vector q = maybeNormalized(x.q.vector({p.b, p.t, p.g}), x.normalize);
    Vector k = maybeNormalized(x.k.vector({p.b, p.t, p.g}), x.normalize);
    Vector v = x.v.vector({p.b, p.t, p.h});
    double beta = writeStrength(x.beta, x.b[{p.b, p.t, p.h}], x.betaFactor);
    Vector g(n.K);
    for (int64_t i = 0; i < n.K; ++i)
      g[i] = logDecay(x.gate, x.a[{p.b, p.t, p.h, i}], hasRate ? x.A_log[{p.h}] : 0.0,
                      raw ? x.dt_bias[{p.h, i}] : 0.0, x.lowerBound);

    scaleRows(S, std::exp(g));
    deltaStep(S, k, v, beta);
    return scaleOfQ * read(S, q);
  });
}

Result run(const GatedDeltaProduct &x) {
  const Sizes &n = x.sizes;
  checkSizes(n);
  expectShape("q", x.q, {n.B, n.T, n.HQ, n.K});
  expectShape("k", x.k, {n.B, n.T, x.steps, n.HQ, n.K});
  expectShape("v", x.v, {n.B, n.T, x.steps, n.HV, n.V});
  expectShape("g", x.g, {n.B, n.T, n.HV});
  expectShape("b", x.b, {n.B, n.T, x.steps, n.HV});
  double scaleOfQ = scaleOr(x.scale, n.K);

  return walk(n, x.S, [&](Place p, Matrix &S) -> Vector {
    Vector q = maybeNormalized(x.q.vector({p.b, p.t, p.g}), x.normalize);

    scale(S, std::exp(x.g[{p.b, p.t, p.h}]));
    for (int64_t i = 0; i < x.steps; ++i) {
      Vector k = maybeNormalized(x.k.vector({p.b, p.t, i, p.g}), x.normalize);
      Vector v = x.v.vector({p.b, p.t, i, p.h});
      double beta = writeStrength(x.beta, x.b[{p.b, p.t, i, p.h}], x.betaFactor);
      deltaStep(S, k, v, beta);
    }
    return scaleOfQ * read(S, q);
  });
}

} // namespace dl::recurrence
