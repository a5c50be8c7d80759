//===- ClosedFormsTest.cpp - Recurrences with known solutions -------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Solutions worked out by hand, so that no code stands behind them.
//
//===----------------------------------------------------------------------===//

#include "test/Reference/DeltaRule.h"
#include "test/Reference/RWKV.h"
#include "test/Reference/Random.h"
#include "test/Reference/TestUtils.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace dl::recurrence;

static const double infinity = std::numeric_limits<double>::infinity();

/// A Gated DeltaNet whose gate and strength are given as they are, with random
/// vectors: the tests below set what they need.
static GatedDeltaNet plainGatedDeltaNet(const Sizes &n, Random &random) {
  GatedDeltaNet x;
  x.sizes = n;
  x.q = random.normal({n.B, n.T, n.HQ, n.K});
  x.k = random.normal({n.B, n.T, n.HQ, n.K});
  x.v = random.normal({n.B, n.T, n.HV, n.V});
  x.a = Tensor({n.B, n.T, n.HV}, 0.0);
  x.b = Tensor({n.B, n.T, n.HV}, 1.0);
  x.S = random.normal({n.B, n.HV, n.K, n.V});
  x.gate = Gate::Precomputed;
  x.beta = Beta::Value;
  x.normalize = false;
  return x;
}

static KimiDeltaAttention plainKimiDeltaAttention(const Sizes &n, Random &random) {
  KimiDeltaAttention x;
  x.sizes = n;
  x.q = random.normal({n.B, n.T, n.HQ, n.K});
  x.k = random.normal({n.B, n.T, n.HQ, n.K});
  x.v = random.normal({n.B, n.T, n.HV, n.V});
  x.a = Tensor({n.B, n.T, n.HV, n.K}, 0.0);
  x.b = Tensor({n.B, n.T, n.HV}, 1.0);
  x.S = random.normal({n.B, n.HV, n.K, n.V});
  x.gate = Gate::Precomputed;
  x.beta = Beta::Value;
  x.normalize = false;
  return x;
}

static RWKV6 plainRWKV6(const Sizes &n, Random &random) {
  RWKV6 x;
  x.sizes = n;
  x.r = random.normal({n.B, n.T, n.HQ, n.K});
  x.k = random.normal({n.B, n.T, n.HQ, n.K});
  x.v = random.normal({n.B, n.T, n.HV, n.V});
  x.w = Tensor({n.B, n.T, n.HV, n.K}, 0.0);
  x.u = Tensor({n.HV, n.K}, 0.0);
  x.S = random.normal({n.B, n.HV, n.K, n.V});
  return x;
}

/// e_i of length n.
static Vector unit(int64_t n, int64_t i) {
  Vector e(0.0, n);
  e[i] = 1.0;
  return e;
}

// Identical unit keys k, constant strength b and decay a, no initial state:
//   p_t = a (1 - b) p_{t-1} + b v_t;  o_t = scale (q_t . k) p_t;  S_T = k p_T^T
template <typename Operator> static void checkIdenticalKeys(Operator x, double a, double b) {
  const Sizes n = x.sizes;
  Vector k = {0.6, 0.0, 0.8};
  x.S = Tensor();
  for (double &g : x.a.values())
    g = std::log(a);
  for (double &strength : x.b.values())
    strength = b;
  for (int64_t t = 0; t < n.T; ++t)
    x.k.setVector({0, t, 0}, k);
  Result result = run(x);

  Vector p(0.0, n.V);
  for (int64_t t = 0; t < n.T; ++t) {
    p = a * (1 - b) * p + b * x.v.vector({0, t, 0});
    double weight = dot(x.q.vector({0, t, 0}), k) / std::sqrt(3.0);
    for (int64_t v = 0; v < n.V; ++v)
      EXPECT_NEAR((result.o[{0, t, 0, v}]), weight * p[v], 1e-12) << t << ", b = " << b;
  }
  for (int64_t i = 0; i < n.K; ++i)
    for (int64_t v = 0; v < n.V; ++v)
      EXPECT_NEAR((result.S[{0, 0, i, v}]), k[i] * p[v], 1e-12) << "b = " << b;
}

TEST(IdenticalKeys, FollowAScalarRecurrence) {
  Sizes n{1, 40, 1, 1, 3, 2};
  Random random(1);
  for (double b : {0.5, 1.0, 1.37, 1.9, 2.0}) {
    for (double a : {1.0, 0.9}) {
      checkIdenticalKeys(plainGatedDeltaNet(n, random), a, b);
      checkIdenticalKeys(plainKimiDeltaAttention(n, random), a, b);
    }
  }
}

TEST(IdenticalKeys, StrengthTwoAlternates) {
  Sizes n{1, 6, 1, 1, 3, 1};
  Random random(2);
  GatedDeltaNet x = plainGatedDeltaNet(n, random);
  x.S = Tensor();
  x.b = Tensor({1, 6, 1}, 2.0);
  x.v = Tensor({1, 6, 1, 1}, 1.0);
  x.scale = 1.0;
  for (int64_t t = 0; t < n.T; ++t) {
    x.k.setVector({0, t, 0}, unit(3, 1));
    x.q.setVector({0, t, 0}, unit(3, 1));
  }
  Result result = run(x);
  for (int64_t t = 0; t < n.T; ++t)
    EXPECT_EQ((result.o[{0, t, 0, 0}]), t % 2 == 0 ? 2.0 : 0.0) << t;
}

// Decay 0: S_t = beta_t k_t v_t^T, whatever came before.
TEST(Decay, ZeroIsAReset) {
  Sizes n{1, 5, 1, 1, 4, 3};
  Random random(3);
  for (double reset : {-infinity, -1000.0}) {
    GatedDeltaNet x = plainGatedDeltaNet(n, random);
    x.b[{0, 4, 0}] = 0.7;
    x.a[{0, 4, 0}] = reset;
    Result result = run(x);
    for (int64_t k = 0; k < n.K; ++k)
      for (int64_t v = 0; v < n.V; ++v)
        EXPECT_EQ((result.S[{0, 0, k, v}]),
                  (x.k[{0, 4, 0, k}] * (0.7 * (x.v[{0, 4, 0, v}] - 0.0))));
  }
}

TEST(Decay, ResetsOnlyTheChannelsItNames) {
  Sizes n{1, 1, 1, 1, 4, 3};
  Random random(4);
  KimiDeltaAttention x = plainKimiDeltaAttention(n, random);
  x.b = Tensor({1, 1, 1}, 0.0);
  x.a[{0, 0, 0, 2}] = -1000.0;
  Result result = run(x);
  for (int64_t k = 0; k < n.K; ++k)
    for (int64_t v = 0; v < n.V; ++v)
      EXPECT_EQ((result.S[{0, 0, k, v}]), k == 2 ? 0.0 : (x.S[{0, 0, k, v}]));
}

// k_t = 0 or beta_t = 0: S_t = a_t S_{t-1}, and a query of zero reads zero.
TEST(DeltaStep, ZeroKeyOrStrengthOnlyDecays) {
  Sizes n{2, 1, 1, 2, 4, 3};
  Random random(5);
  for (bool zeroKey : {true, false}) {
    GatedDeltaNet x = plainGatedDeltaNet(n, random);
    x.a = Tensor({2, 1, 2}, -0.25);
    if (zeroKey)
      x.k = Tensor({2, 1, 1, 4}, 0.0);
    else
      x.b = Tensor({2, 1, 2}, 0.0);
    x.normalize = zeroKey; // A zero key stays zero when it is normalised.
    Result result = run(x);
    for (size_t i = 0; i < x.S.values().size(); ++i)
      EXPECT_DOUBLE_EQ(result.S.values()[i], std::exp(-0.25) * x.S.values()[i]);
  }
}

TEST(DeltaStep, ZeroQueryReadsZero) {
  Sizes n{1, 2, 1, 1, 4, 3};
  Random random(6);
  GatedDeltaNet x = plainGatedDeltaNet(n, random);
  x.normalize = true;
  x.q.setVector({0, 1, 0}, Vector(0.0, 4));
  Result result = run(x);
  for (int64_t v = 0; v < n.V; ++v)
    EXPECT_EQ((result.o[{0, 1, 0, v}]), 0.0);
}

// Softplus gate 100 at rate exp(-6), beta = 0: the state shrinks by 0.7804573.
TEST(DeltaStep, AStrongSoftplusGateShrinksTheState) {
  Sizes n{4, 1, 2, 4, 8, 8};
  Random random(7);
  GatedDeltaNet x = plainGatedDeltaNet(n, random);
  x.gate = Gate::Softplus;
  x.a = Tensor({4, 1, 4}, 98.5);
  x.A_log = Tensor({4}, -6.0);
  x.dt_bias = Tensor({4}, 1.5);
  x.b = Tensor({4, 1, 4}, 0.0);
  Result result = run(x);
  for (size_t i = 0; i < x.S.values().size(); ++i)
    EXPECT_NEAR(result.S.values()[i] / x.S.values()[i], 0.7804573, 1e-7);
}

// Strength 2 and no decay: I - 2 k k^T mirrors the state at the key.
TEST(DeltaStep, StrengthTwoReflects) {
  Sizes n{1, 1, 1, 1, 4, 3};
  Random random(8);
  GatedDeltaNet x = plainGatedDeltaNet(n, random);
  x.beta = Beta::Logit;
  x.betaFactor = 2.0;
  x.b = Tensor({1, 1, 1}, 1e4);
  x.v = Tensor({1, 1, 1, 3}, 0.0);
  x.k.setVector({0, 0, 0}, unit(4, 2));
  Result result = run(x);
  for (int64_t k = 0; k < n.K; ++k)
    for (int64_t v = 0; v < n.V; ++v)
      EXPECT_EQ((result.S[{0, 0, k, v}]), (k == 2 ? -1.0 : 1.0) * (x.S[{0, 0, k, v}]));
}

// Orthonormal keys, strength 1, no decay, no initial state: S_T = sum k_t v_t^T.
TEST(DeltaStep, OrthonormalKeysStoreEveryValue) {
  Sizes n{1, 3, 1, 1, 3, 2};
  Random random(9);
  GatedDeltaNet x = plainGatedDeltaNet(n, random);
  x.S = Tensor();
  x.k.setVector({0, 0, 0}, {0.6, 0.8, 0.0});
  x.k.setVector({0, 1, 0}, {-0.8, 0.6, 0.0});
  x.k.setVector({0, 2, 0}, {0.0, 0.0, 1.0});
  Result result = run(x);
  for (int64_t k = 0; k < n.K; ++k) {
    for (int64_t v = 0; v < n.V; ++v) {
      double sum = 0.0;
      for (int64_t t = 0; t < n.T; ++t)
        sum += x.k[{0, t, 0, k}] * x.v[{0, t, 0, v}];
      EXPECT_NEAR((result.S[{0, 0, k, v}]), sum, 1e-15);
    }
  }
}

// S0 = e_3 e_5^T, query e_3, nothing written: what is stored at (key 3, value 5)
// comes out at value 5, decayed unless the operator reads before its decay.
TEST(StateLayout, KeyRowsAndValueColumns) {
  Sizes n{1, 1, 1, 1, 6, 8};
  Random random(10);
  Tensor S({1, 1, 6, 8});
  S[{0, 0, 3, 5}] = 1.0;
  Tensor query({1, 1, 1, 6});
  query.setVector({0, 0, 0}, unit(6, 3));

  GatedDeltaNet gdn = plainGatedDeltaNet(n, random);
  gdn.S = S;
  gdn.q = query;
  gdn.a = Tensor({1, 1, 1}, -0.5);
  gdn.b = Tensor({1, 1, 1}, 0.0);
  gdn.scale = 1.0;
  RWKV6 rwkv = plainRWKV6(n, random);
  rwkv.S = S;
  rwkv.r = query;
  rwkv.w = Tensor({1, 1, 1, 6}, -0.5);
  rwkv.k = Tensor({1, 1, 1, 6}, 0.0);
  rwkv.scale = 1.0;
  Result decayed = run(gdn);
  Result early = run(rwkv);
  for (int64_t v = 0; v < n.V; ++v) {
    EXPECT_DOUBLE_EQ((decayed.o[{0, 0, 0, v}]), v == 5 ? std::exp(-0.5) : 0.0);
    EXPECT_DOUBLE_EQ((early.o[{0, 0, 0, v}]), v == 5 ? 1.0 : 0.0);
  }
  EXPECT_DOUBLE_EQ((early.S[{0, 0, 3, 5}]), std::exp(-0.5));
}

// No bonus, no decay, no initial state: o_t = scale sum_{j<t} (r_t . k_j) v_j.
TEST(EarlyRead, SeesOnlyEarlierTokens) {
  Sizes n{1, 6, 1, 1, 4, 3};
  Random random(11);
  RWKV6 x = plainRWKV6(n, random);
  x.S = Tensor();
  Result result = run(x);
  for (int64_t t = 0; t < n.T; ++t) {
    Vector sum(0.0, n.V);
    for (int64_t j = 0; j < t; ++j)
      sum += dot(x.r.vector({0, t, 0}), x.k.vector({0, j, 0})) * x.v.vector({0, j, 0});
    for (int64_t v = 0; v < n.V; ++v)
      EXPECT_NEAR((result.o[{0, t, 0, v}]), 0.5 * sum[v], 1e-14);
  }
}

TEST(EarlyRead, ADecayIsFirstSeenByTheNextToken) {
  Sizes n{1, 3, 1, 1, 4, 3};
  Random random(12);
  RWKV6 x = plainRWKV6(n, random);
  Result undecayed = run(x);
  x.w = Tensor({1, 3, 1, 4}, 0.0);
  x.w.setVector({0, 1, 0}, Vector(-30.0, 4));
  Result decayed = run(x);
  for (int64_t v = 0; v < n.V; ++v) {
    EXPECT_EQ((decayed.o[{0, 1, 0, v}]), (undecayed.o[{0, 1, 0, v}]));
    EXPECT_NE((decayed.o[{0, 2, 0, v}]), (undecayed.o[{0, 2, 0, v}]));
  }
}

TEST(EarlyRead, TheBonusWeighsTheCurrentToken) {
  Sizes n{1, 1, 1, 1, 2, 1};
  Random random(13);
  RWKV6 x = plainRWKV6(n, random);
  x.S = Tensor();
  x.r.setVector({0, 0, 0}, {2.0, 3.0});
  x.k.setVector({0, 0, 0}, {5.0, 7.0});
  x.u.setVector({0}, {0.5, -1.0});
  x.v.setVector({0, 0, 0}, {11.0});
  x.scale = 1.0;
  EXPECT_EQ((run(x).o[{0, 0, 0, 0}]), (2.0 * 0.5 * 5.0 - 3.0 * 7.0) * 11.0);
}

// With u_j from the recurrence and G_j the decays summed up to j:
//   S_h = e^{G_h} S0 + sum_{j<=h} e^{G_h - G_j} k_j u_j^T
TEST(Replay, ALogOfUpdatesRebuildsTheState) {
  Sizes n{1, 9, 1, 1, 4, 3};
  Random random(14);
  GatedDeltaNet x = plainGatedDeltaNet(n, random);
  x.a = random.uniform({1, 9, 1}, -1.0, 0.0);
  x.b = random.uniform({1, 9, 1}, 0.0, 2.0);
  x.normalize = true;
  Result result = run(x);

  double G = 0.0;
  Matrix S = x.S.matrix({0, 0});
  Matrix replayed = S;
  std::vector<double> sums;
  std::vector<Vector> keys;
  std::vector<Vector> updates;
  for (int64_t t = 0; t < n.T; ++t) {
    G += x.a[{0, t, 0}];
    sums.push_back(G);
    keys.push_back(l2norm(x.k.vector({0, t, 0})));
    // The state before token t, decayed, from the log alone.
    Matrix before(n.K, n.V);
    before.values = std::exp(G) * S.values;
    for (int64_t j = 0; j < t; ++j)
      write(before, std::exp(G - sums[j]) * keys[j], updates[j]);
    updates.push_back(x.b[{0, t, 0}] * (x.v.vector({0, t, 0}) - read(before, keys[t])));
    replayed = before;
    write(replayed, keys[t], updates[t]);
  }
  Tensor expected({1, 1, n.K, n.V});
  expected.setMatrix({0, 0}, replayed);
  EXPECT_LE(distance(result.S, expected), 1e-13);
}
