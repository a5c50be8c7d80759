//===- RWKV.cpp - The recurrences of RWKV-6 and RWKV-7 --------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Reference/RWKV.h"

#include <cmath>

namespace dl::recurrence {

Result run(const RWKV6 &x) {
  const Sizes &n = x.sizes;
  checkSizes(n);
  expectShape("r", x.r, {n.B, n.T, n.HQ, n.K});
  expectShape("k", x.k, {n.B, n.T, n.HQ, n.K});
  expectShape("v", x.v, {n.B, n.T, n.HV, n.V});
  expectShape("w", x.w, {n.B, n.T, n.HV, n.K});
  expectShape("u", x.u, {n.HV, n.K});
  double scaleOfQ = scaleOr(x.scale, n.K);

  return walk(n, x.S, [&](Place p, Matrix &S) -> Vector {
    Vector r = x.r.vector({p.b, p.t, p.g});
    Vector k = x.k.vector({p.b, p.t, p.g});
    Vector v = x.v.vector({p.b, p.t, p.h});
    Vector u = x.u.vector({p.h});
    Vector w = x.w.vector({p.b, p.t, p.h});
    if (x.wIsRaw)
      w = -std::exp(w);

    Vector o = scaleOfQ * (read(S, r) + dot(r, u * k) * v);
    scaleRows(S, std::exp(w));
    write(S, k, v);
    return o;
  });
}

Result run(const RWKV7 &x) {
  const Sizes &n = x.sizes;
  checkSizes(n);
  expectShape("r", x.r, {n.B, n.T, n.HQ, n.K});
  expectShape("w", x.w, {n.B, n.T, n.HV, n.K});
  expectShape("k", x.k, {n.B, n.T, n.HQ, n.K});
  expectShape("v", x.v, {n.B, n.T, n.HV, n.V});
  expectShape("a", x.a, {n.B, n.T, n.HQ, n.K});
  expectShape("b", x.b, {n.B, n.T, n.HQ, n.K});

  return walk(n, x.S, [&](Place p, Matrix &S) -> Vector {
    Vector old = read(S, x.a.vector({p.b, p.t, p.g}));

    scaleRows(S, std::exp(x.w.vector({p.b, p.t, p.h})));
    write(S, x.b.vector({p.b, p.t, p.g}), old);
    write(S, x.k.vector({p.b, p.t, p.g}), x.v.vector({p.b, p.t, p.h}));
    return x.scale * read(S, x.r.vector({p.b, p.t, p.g}));
  });
}

} // namespace dl::recurrence
