//===- Affine.cpp - What a token does to a state, for each operator -------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Reference/Affine.h"

#include <algorithm>
#include <cmath>

namespace dl::recurrence {

Vector step(const AffineToken &token, Matrix &S) {
  Vector o = token.local;
  std::vector<Vector> seen;
  auto readUpTo = [&](bool beforeDecay, int64_t writes) {
    while (seen.size() < token.reads.size()) {
      const AffineToken::Read &next = token.reads[seen.size()];
      if (next.beforeDecay != beforeDecay || next.writesSeen > writes)
        return;
      seen.push_back(read(S, next.x));
      o += next.weight * seen.back();
    }
  };

  readUpTo(true, 0);
  scaleRows(S, std::exp(token.decay));
  readUpTo(false, 0);
  for (size_t w = 0; w < token.writes.size(); ++w) {
    const AffineToken::Write &next = token.writes[w];
    Vector b = next.d;
    for (size_t r = 0; r < next.feedback.size(); ++r)
      b += next.feedback[r] * seen[r];
    write(S, next.a, b);
    readUpTo(false, static_cast<int64_t>(w) + 1);
  }
  return o;
}

static Vector maybeNormalized(const Vector &x, bool normalize) { return normalize ? l2norm(x) : x; }

/// Reads what the state holds for k, and writes k beta (v - that)^T.
static void addDeltaStep(AffineToken &token, const Vector &k, const Vector &v, double beta) {
  std::vector<double> feedback(token.reads.size() + 1, 0.0);
  feedback.back() = -beta;
  token.reads.push_back({k, false, static_cast<int64_t>(token.writes.size()), 0.0});
  token.writes.push_back({k, beta * v, feedback});
}

/// The output reads the state that the token leaves.
static void addOutput(AffineToken &token, const Vector &q, double scale) {
  token.reads.push_back({q, false, static_cast<int64_t>(token.writes.size()), scale});
}

static AffineToken decayBy(const Vector &g, int64_t V) {
  AffineToken token;
  token.decay = g;
  token.local = Vector(0.0, V);
  return token;
}

/// One decay, one delta step, one output: what the delta rules share.
template <typename DeltaRule>
static AffineToken deltaRule(const DeltaRule &x, Place p, const Vector &g) {
  AffineToken token = decayBy(g, x.sizes.V);
  addDeltaStep(token, maybeNormalized(x.k.vector({p.b, p.t, p.g}), x.normalize),
               x.v.vector({p.b, p.t, p.h}),
               writeStrength(x.beta, x.b[{p.b, p.t, p.h}], x.betaFactor));
  addOutput(token, maybeNormalized(x.q.vector({p.b, p.t, p.g}), x.normalize),
            scaleOr(x.scale, x.sizes.K));
  return token;
}

AffineToken affine(const DeltaNet &x, Place p) { return deltaRule(x, p, Vector(0.0, x.sizes.K)); }

AffineToken affine(const GatedDeltaNet &x, Place p) {
  bool raw = x.gate != Gate::Precomputed;
  double g = logDecay(x.gate, x.a[{p.b, p.t, p.h}], raw ? x.A_log[{p.h}] : 0.0,
                      raw ? x.dt_bias[{p.h}] : 0.0, x.lowerBound);
  return deltaRule(x, p, Vector(g, x.sizes.K));
}

AffineToken affine(const KimiDeltaAttention &x, Place p) {
  bool raw = x.gate != Gate::Precomputed;
  bool hasRate = x.gate == Gate::Softplus || (raw && x.A_log.isPresent());
  Vector g(x.sizes.K);
  for (int64_t i = 0; i < x.sizes.K; ++i)
    g[i] = logDecay(x.gate, x.a[{p.b, p.t, p.h, i}], hasRate ? x.A_log[{p.h}] : 0.0,
                    raw ? x.dt_bias[{p.h, i}] : 0.0, x.lowerBound);
  return deltaRule(x, p, g);
}

AffineToken affine(const GatedDeltaProduct &x, Place p) {
  AffineToken token = decayBy(Vector(x.g[{p.b, p.t, p.h}], x.sizes.K), x.sizes.V);
  for (int64_t i = 0; i < x.steps; ++i)
    addDeltaStep(token, maybeNormalized(x.k.vector({p.b, p.t, i, p.g}), x.normalize),
                 x.v.vector({p.b, p.t, i, p.h}),
                 writeStrength(x.beta, x.b[{p.b, p.t, i, p.h}], x.betaFactor));
  addOutput(token, maybeNormalized(x.q.vector({p.b, p.t, p.g}), x.normalize),
            scaleOr(x.scale, x.sizes.K));
  return token;
}

AffineToken affine(const GatedDeltaNet2 &x, Place p) {
  AffineToken token = decayBy(x.logDecays(p), x.sizes.V);
  Vector k = l2norm(x.k.vector({p.b, p.t, p.g}));
  Vector erase = x.b.vector({p.b, p.t, p.g}).apply(sigmoid);
  Vector take = x.w.vector({p.b, p.t, p.h}).apply(sigmoid);
  token.reads.push_back({erase * k, false, 0, 0.0});
  token.writes.push_back({k, take * x.v.vector({p.b, p.t, p.h}), {-1.0}});
  addOutput(token, l2norm(x.q.vector({p.b, p.t, p.g})), scaleOr(x.scale, x.sizes.K));
  return token;
}

AffineToken affine(const Comba &x, Place p) {
  AffineToken token = decayBy(Vector(x.logDecay(p), x.sizes.K), x.sizes.V);
  double beta = sigmoid(x.b[{p.b, p.t, p.h}]);
  token.reads.push_back({l2norm(x.p.vector({p.b, p.t, p.g})), true, 0, 0.0});
  token.writes.push_back(
      {l2norm(x.k.vector({p.b, p.t, p.g})), beta * x.v.vector({p.b, p.t, p.h}), {-beta}});
  addOutput(token, x.query(p), scaleOr(x.scale, x.sizes.K));
  return token;
}

AffineToken affine(const TwoKeyDelta &x, Place p) {
  Vector q = l2norm(x.q.vector({p.b, p.t, p.g}));
  Vector k = l2norm(x.k.vector({p.b, p.t, p.g}));
  Vector v = x.v.vector({p.b, p.t, p.h});
  double beta = sigmoid(x.b[{p.b, p.t, p.h}]);
  double scale = scaleOr(x.scale, x.sizes.K);
  AffineToken token = decayBy(x.g.vector({p.b, p.t, p.h}), x.sizes.V);
  token.reads.push_back({q, false, 0, scale});
  token.reads.push_back({l2norm(x.e.vector({p.b, p.t, p.g})), false, 0, 0.0});
  token.writes.push_back({k, beta * v, {0.0, -beta}});
  token.local = scale * dot(q, x.u.vector({p.g}) * k) * v;
  return token;
}

AffineToken affine(const GatedLinearAttention &x, Place p) {
  AffineToken token = decayBy(x.g.vector({p.b, p.t, p.h}), x.sizes.V);
  token.writes.push_back({x.k.vector({p.b, p.t, p.g}), x.v.vector({p.b, p.t, p.h}), {}});
  addOutput(token, x.q.vector({p.b, p.t, p.g}), scaleOr(x.scale, x.sizes.K));
  return token;
}

AffineToken affine(const Retention &x, Place p) {
  AffineToken token = decayBy(Vector(-x.slope[{p.h}], x.sizes.K), x.sizes.V);
  token.writes.push_back({x.k.vector({p.b, p.t, p.g}), x.v.vector({p.b, p.t, p.h}), {}});
  addOutput(token, x.q.vector({p.b, p.t, p.g}), scaleOr(x.scale, x.sizes.K));
  return token;
}

AffineToken affine(const HGRN2 &x, Place p) {
  Vector forget = x.forget(p);
  AffineToken token = decayBy(std::log(forget), x.sizes.V);
  token.writes.push_back({1.0 - forget, x.v.vector({p.b, p.t, p.h}), {}});
  addOutput(token, x.q.vector({p.b, p.t, p.g}), scaleOr(x.scale, x.sizes.K));
  return token;
}

AffineToken affine(const Mamba2 &x, Place p) {
  double dt = x.dt[{p.b, p.t, p.h}];
  if (x.dtIsLogit)
    dt = softplus(dt + x.dt_bias[{p.h}]);
  Vector value = x.x.vector({p.b, p.t, p.h});
  AffineToken token = decayBy(Vector(-dt * std::exp(x.A_log[{p.h}]), x.sizes.K), x.sizes.V);
  token.writes.push_back({x.B.vector({p.b, p.t, p.g}), dt * value, {}});
  addOutput(token, x.C.vector({p.b, p.t, p.g}), 1.0);
  if (x.D.isPresent())
    token.local = x.D[{p.h}] * value;
  return token;
}

AffineToken affine(const RWKV6 &x, Place p) {
  Vector w = x.w.vector({p.b, p.t, p.h});
  if (x.wIsRaw)
    w = -std::exp(w);
  Vector r = x.r.vector({p.b, p.t, p.g});
  Vector k = x.k.vector({p.b, p.t, p.g});
  Vector v = x.v.vector({p.b, p.t, p.h});
  double scale = scaleOr(x.scale, x.sizes.K);
  AffineToken token = decayBy(w, x.sizes.V);
  token.reads.push_back({r, true, 0, scale});
  token.writes.push_back({k, v, {}});
  token.local = scale * dot(r, x.u.vector({p.h}) * k) * v;
  return token;
}

AffineToken affine(const RWKV7 &x, Place p) {
  AffineToken token = decayBy(x.w.vector({p.b, p.t, p.h}), x.sizes.V);
  token.reads.push_back({x.a.vector({p.b, p.t, p.g}), true, 0, 0.0});
  token.writes.push_back({x.b.vector({p.b, p.t, p.g}), Vector(0.0, x.sizes.V), {1.0}});
  token.writes.push_back({x.k.vector({p.b, p.t, p.g}), x.v.vector({p.b, p.t, p.h}), {}});
  addOutput(token, x.r.vector({p.b, p.t, p.g}), x.scale);
  return token;
}

} // namespace dl::recurrence
