//===- Additive.cpp - Recurrences that decay and add, without correction --===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Reference/Additive.h"

#include <cmath>

namespace dl::recurrence {

Result run(const GatedLinearAttention &x) {
  const Sizes &n = x.sizes;
  checkSizes(n);
  expectShape("q", x.q, {n.B, n.T, n.HQ, n.K});
  expectShape("k", x.k, {n.B, n.T, n.HQ, n.K});
  expectShape("v", x.v, {n.B, n.T, n.HV, n.V});
  expectShape("g", x.g, {n.B, n.T, n.HV, n.K});
  double scaleOfQ = scaleOr(x.scale, n.K);

  return walk(n, x.S, [&](Place p, Matrix &S) -> Vector {
    scaleRows(S, std::exp(x.g.vector({p.b, p.t, p.h})));
    write(S, x.k.vector({p.b, p.t, p.g}), x.v.vector({p.b, p.t, p.h}));
    return scaleOfQ * read(S, x.q.vector({p.b, p.t, p.g}));
  });
}

Result run(const Retention &x) {
  const Sizes &n = x.sizes;
  checkSizes(n);
  expectShape("q", x.q, {n.B, n.T, n.HQ, n.K});
  expectShape("k", x.k, {n.B, n.T, n.HQ, n.K});
  expectShape("v", x.v, {n.B, n.T, n.HV, n.V});
  expectShape("slope", x.slope, {n.HV});
  double scaleOfQ = scaleOr(x.scale, n.K);

  return walk(n, x.S, [&](Place p, Matrix &S) -> Vector {
    scale(S, std::exp(-x.slope[{p.h}]));
    write(S, x.k.vector({p.b, p.t, p.g}), x.v.vector({p.b, p.t, p.h}));
    return scaleOfQ * read(S, x.q.vector({p.b, p.t, p.g}));
  });
}

Vector HGRN2::forget(Place p) const {
  Vector given = f.vector({p.b, p.t, p.g});
  return isLogit ? Vector(given.apply(sigmoid)) : Vector(std::exp(given));
}

Result run(const HGRN2 &x) {
  const Sizes &n = x.sizes;
  checkSizes(n);
  expectShape("q", x.q, {n.B, n.T, n.HQ, n.K});
  expectShape("f", x.f, {n.B, n.T, n.HQ, n.K});
  expectShape("v", x.v, {n.B, n.T, n.HV, n.V});
  double scaleOfQ = scaleOr(x.scale, n.K);

  return walk(n, x.S, [&](Place p, Matrix &S) -> Vector {
    Vector forget = x.forget(p);

    scaleRows(S, forget);
    write(S, 1.0 - forget, x.v.vector({p.b, p.t, p.h}));
    return scaleOfQ * read(S, x.q.vector({p.b, p.t, p.g}));
  });
}

Result run(const Mamba2 &x) {
  const Sizes &n = x.sizes;
  checkSizes(n);
  expectShape("C", x.C, {n.B, n.T, n.HQ, n.K});
  expectShape("B", x.B, {n.B, n.T, n.HQ, n.K});
  expectShape("x", x.x, {n.B, n.T, n.HV, n.V});
  expectShape("dt", x.dt, {n.B, n.T, n.HV});
  expectShape("A_log", x.A_log, {n.HV});
  if (x.dtIsLogit)
    expectShape("dt_bias", x.dt_bias, {n.HV});
  if (x.D.isPresent())
    expectShape("D", x.D, {n.HV});

  return walk(n, x.S, [&](Place p, Matrix &S) -> Vector {
    Vector value = x.x.vector({p.b, p.t, p.h});
    double dt = x.dt[{p.b, p.t, p.h}];
    if (x.dtIsLogit)
      dt = softplus(dt + x.dt_bias[{p.h}]);
    double A = -std::exp(x.A_log[{p.h}]);
    double D = x.D.isPresent() ? x.D[{p.h}] : 0.0;

    scale(S, std::exp(dt * A));
    write(S, x.B.vector({p.b, p.t, p.g}), dt * value);
    return read(S, x.C.vector({p.b, p.t, p.g})) + D * value;
  });
}

Result run(const ElementwiseDecay &x) {
  const Sizes &n = x.sizes;
  checkSizes(n);
  expectShape("q", x.q, {n.B, n.T, n.HQ, n.K});
  expectShape("k", x.k, {n.B, n.T, n.HQ, n.K});
  expectShape("v", x.v, {n.B, n.T, n.HV, n.V});
  expectShape("g", x.g, {n.B, n.T, n.HV, n.K, n.V});
  double scaleOfQ = scaleOr(x.scale, n.K);

  return walk(n, x.S, [&](Place p, Matrix &S) -> Vector {
    Matrix decay = x.g.matrix({p.b, p.t, p.h});
    decay.values = std::exp(decay.values);

    scaleElements(S, decay);
    write(S, x.k.vector({p.b, p.t, p.g}), x.v.vector({p.b, p.t, p.h}));
    return scaleOfQ * read(S, x.q.vector({p.b, p.t, p.g}));
  });
}

} // namespace dl::recurrence
