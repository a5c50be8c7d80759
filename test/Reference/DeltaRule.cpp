//===- DeltaRule.cpp - Recurrences that correct what a key already holds --===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Reference/DeltaRule.h"

#include <cmath>
#include <utility>

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

Vector GatedDeltaNet2::logDecays(Place p) const {
  Vector g(sizes.K);
  for (int64_t i = 0; i < sizes.K; ++i)
    g[i] = -std::exp(A_log[{p.g}]) * softplus(a[{p.b, p.t, p.g, i}] + dt_bias[{p.g, i}]);
  return g;
}

Result run(const GatedDeltaNet2 &x) {
  const Sizes &n = x.sizes;
  checkSizes(n);
  for (auto [name, tensor] : {std::pair("q", &x.q), {"k", &x.k}, {"a", &x.a}, {"b", &x.b}})
    expectShape(name, *tensor, {n.B, n.T, n.HQ, n.K});
  expectShape("v", x.v, {n.B, n.T, n.HV, n.V});
  expectShape("w", x.w, {n.B, n.T, n.HV, n.V});
  expectShape("A_log", x.A_log, {n.HQ});
  expectShape("dt_bias", x.dt_bias, {n.HQ, n.K});
  double scaleOfQ = scaleOr(x.scale, n.K);

  return walk(n, x.S, [&](Place p, Matrix &S) -> Vector {
    Vector k = l2norm(x.k.vector({p.b, p.t, p.g}));
    Vector v = x.v.vector({p.b, p.t, p.h});
    Vector erase = x.b.vector({p.b, p.t, p.g}).apply(sigmoid);
    Vector take = x.w.vector({p.b, p.t, p.h}).apply(sigmoid);

    scaleRows(S, std::exp(x.logDecays(p)));
    write(S, k, take * v - read(S, erase * k));
    return scaleOfQ * read(S, l2norm(x.q.vector({p.b, p.t, p.g})));
  });
}

double Comba::logDecay(Place place) const {
  return -std::exp(A_log[{place.h}]) *
         softplus(a[{place.b, place.t, place.h}] + dt_bias[{place.h}]);
}

Vector Comba::query(Place place) const {
  return l2norm(q.vector({place.b, place.t, place.g}) -
                D[{place.g}] * p.vector({place.b, place.t, place.g}));
}

Result run(const Comba &x) {
  const Sizes &n = x.sizes;
  checkSizes(n);
  for (auto [name, tensor] : {std::pair("q", &x.q), {"k", &x.k}, {"p", &x.p}})
    expectShape(name, *tensor, {n.B, n.T, n.HQ, n.K});
  expectShape("v", x.v, {n.B, n.T, n.HV, n.V});
  expectShape("a", x.a, {n.B, n.T, n.HV});
  expectShape("b", x.b, {n.B, n.T, n.HV});
  expectShape("A_log", x.A_log, {n.HV});
  expectShape("dt_bias", x.dt_bias, {n.HV});
  expectShape("D", x.D, {n.HQ});
  double scaleOfQ = scaleOr(x.scale, n.K);

  return walk(n, x.S, [&](Place place, Matrix &S) -> Vector {
    Vector k = l2norm(x.k.vector({place.b, place.t, place.g}));
    Vector p = l2norm(x.p.vector({place.b, place.t, place.g}));
    double beta = sigmoid(x.b[{place.b, place.t, place.h}]);

    Vector u = beta * (x.v.vector({place.b, place.t, place.h}) - read(S, p));
    scale(S, std::exp(x.logDecay(place)));
    write(S, k, u);
    return scaleOfQ * read(S, x.query(place));
  });
}

Result run(const TwoKeyDelta &x) {
  const Sizes &n = x.sizes;
  checkSizes(n);
  for (auto [name, tensor] : {std::pair("q", &x.q), {"e", &x.e}, {"k", &x.k}})
    expectShape(name, *tensor, {n.B, n.T, n.HQ, n.K});
  expectShape("v", x.v, {n.B, n.T, n.HV, n.V});
  expectShape("b", x.b, {n.B, n.T, n.HV});
  expectShape("g", x.g, {n.B, n.T, n.HV, n.K});
  expectShape("u", x.u, {n.HQ, n.K});
  double scaleOfQ = scaleOr(x.scale, n.K);

  return walk(n, x.S, [&](Place p, Matrix &S) -> Vector {
    Vector q = l2norm(x.q.vector({p.b, p.t, p.g}));
    Vector e = l2norm(x.e.vector({p.b, p.t, p.g}));
    Vector k = l2norm(x.k.vector({p.b, p.t, p.g}));
    Vector v = x.v.vector({p.b, p.t, p.h});
    double beta = sigmoid(x.b[{p.b, p.t, p.h}]);

    scaleRows(S, std::exp(x.g.vector({p.b, p.t, p.h})));
    Vector o = scaleOfQ * (read(S, q) + dot(q, x.u.vector({p.g}) * k) * v);
    write(S, k, beta * (v - read(S, e)));
    return o;
  });
}

} // namespace dl::recurrence
