//===- IdentitiesTest.cpp - Operators that coincide, and symmetries -------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each recurrence is written on its own. Where the mathematics says that two of
// them coincide, they must.
//
//===----------------------------------------------------------------------===//

#include "test/Reference/Additive.h"
#include "test/Reference/DeltaRule.h"
#include "test/Reference/RWKV.h"
#include "test/Reference/Random.h"
#include "test/Reference/TestUtils.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace dl::recurrence;

static const Sizes sizes{2, 7, 2, 4, 5, 3};

static KimiDeltaAttention randomKimiDeltaAttention(uint64_t seed) {
  const Sizes &n = sizes;
  Random random(seed);
  KimiDeltaAttention x;
  x.sizes = n;
  x.q = random.normal({n.B, n.T, n.HQ, n.K});
  x.k = random.normal({n.B, n.T, n.HQ, n.K});
  x.v = random.normal({n.B, n.T, n.HV, n.V});
  x.a = random.uniform({n.B, n.T, n.HV, n.K}, -2.0, 0.0);
  x.b = random.uniform({n.B, n.T, n.HV}, 0.0, 2.0);
  x.S = random.normal({n.B, n.HV, n.K, n.V});
  x.gate = Gate::Precomputed;
  x.beta = Beta::Value;
  return x;
}

static GatedDeltaNet randomGatedDeltaNet(uint64_t seed) {
  KimiDeltaAttention like = randomKimiDeltaAttention(seed);
  GatedDeltaNet x;
  x.sizes = like.sizes;
  x.q = like.q;
  x.k = like.k;
  x.v = like.v;
  x.a = Random(seed + 1).uniform({sizes.B, sizes.T, sizes.HV}, -2.0, 0.0);
  x.b = like.b;
  x.S = like.S;
  x.gate = Gate::Precomputed;
  x.beta = Beta::Value;
  return x;
}

/// Repeats each value along a new last axis of size `count`.
static Tensor repeatLast(const Tensor &x, int64_t count) {
  Shape shape = x.shape();
  shape.push_back(count);
  Tensor result(shape);
  for (size_t i = 0; i < result.values().size(); ++i)
    result.values()[i] = x.values()[i / count];
  return result;
}

/// [B, T, HQ, K] -> [B, T, HV, K]: the key head of each value head.
static Tensor repeatHeads(const Tensor &x, int64_t ratio) {
  Shape shape = x.shape();
  shape[2] *= ratio;
  Tensor result(shape);
  for (int64_t b = 0; b < shape[0]; ++b)
    for (int64_t t = 0; t < shape[1]; ++t)
      for (int64_t h = 0; h < shape[2]; ++h)
        result.setVector({b, t, h}, x.vector({b, t, h / ratio}));
  return result;
}

TEST(Identity, EqualChannelsMakeTheDecayScalar) {
  GatedDeltaNet gdn = randomGatedDeltaNet(1);
  KimiDeltaAttention kda = randomKimiDeltaAttention(1);
  kda.a = repeatLast(gdn.a, sizes.K);
  expectSame(run(kda), run(gdn));
}

TEST(Identity, TheSameHoldsForRawGates) {
  GatedDeltaNet gdn = randomGatedDeltaNet(2);
  KimiDeltaAttention kda = randomKimiDeltaAttention(2);
  gdn.a = Random(3).normal({sizes.B, sizes.T, sizes.HV});
  gdn.A_log = Random(4).normal({sizes.HV});
  gdn.dt_bias = Random(5).normal({sizes.HV});
  kda.a = repeatLast(gdn.a, sizes.K);
  kda.A_log = gdn.A_log;
  kda.dt_bias = repeatLast(gdn.dt_bias, sizes.K);
  for (Gate gate : {Gate::Softplus, Gate::Bounded}) {
    gdn.gate = kda.gate = gate;
    expectSame(run(kda), run(gdn));
  }
}

TEST(Identity, WithoutARateTheBoundedGateHasRateOne) {
  KimiDeltaAttention x = randomKimiDeltaAttention(6);
  x.gate = Gate::Bounded;
  x.dt_bias = Random(7).normal({sizes.HV, sizes.K});
  Result absent = run(x);
  x.A_log = Tensor({sizes.HV}, 0.0);
  expectSame(absent, run(x), 0.0);
}

TEST(Identity, NoDecayLeavesDeltaNet) {
  GatedDeltaNet gdn = randomGatedDeltaNet(8);
  gdn.a = Tensor({sizes.B, sizes.T, sizes.HV}, 0.0);
  DeltaNet delta;
  delta.sizes = sizes;
  delta.q = gdn.q;
  delta.k = gdn.k;
  delta.v = gdn.v;
  delta.b = gdn.b;
  delta.S = gdn.S;
  delta.beta = Beta::Value;
  expectSame(run(gdn), run(delta));
}

static GatedDeltaProduct deltaProductLike(const GatedDeltaNet &x, int64_t steps) {
  const Sizes &n = x.sizes;
  GatedDeltaProduct product;
  product.sizes = n;
  product.steps = steps;
  product.q = x.q;
  product.g = x.a;
  product.S = x.S;
  product.beta = Beta::Value;
  product.k = Tensor({n.B, n.T, steps, n.HQ, n.K});
  product.v = Tensor({n.B, n.T, steps, n.HV, n.V});
  product.b = Tensor({n.B, n.T, steps, n.HV});
  for (int64_t b = 0; b < n.B; ++b) {
    for (int64_t t = 0; t < n.T; ++t) {
      product.k.setMatrix({b, t, 0}, x.k.matrix({b, t}));
      product.v.setMatrix({b, t, 0}, x.v.matrix({b, t}));
      product.b.setVector({b, t, 0}, x.b.vector({b, t}));
    }
  }
  return product;
}

TEST(Identity, OneDeltaStepIsGatedDeltaNet) {
  GatedDeltaNet gdn = randomGatedDeltaNet(9);
  expectSame(run(deltaProductLike(gdn, 1)), run(gdn));
}

TEST(Identity, ASecondStepOfStrengthZeroChangesNothing) {
  GatedDeltaNet gdn = randomGatedDeltaNet(10);
  GatedDeltaProduct product = deltaProductLike(gdn, 2);
  Random random(11);
  for (int64_t b = 0; b < sizes.B; ++b)
    for (int64_t t = 0; t < sizes.T; ++t)
      product.k.setMatrix({b, t, 1}, random.normal({sizes.HQ, sizes.K}).matrix({}));
  expectSame(run(product), run(gdn));
}

TEST(Identity, TwoStepsAreTwoTokensOfWhichTheSecondDoesNotDecay) {
  Sizes n = sizes;
  n.T = 2 * sizes.T;
  GatedDeltaNet gdn = randomGatedDeltaNet(12);
  Random random(13);
  gdn.sizes = n;
  gdn.q = random.normal({n.B, n.T, n.HQ, n.K});
  gdn.k = random.normal({n.B, n.T, n.HQ, n.K});
  gdn.v = random.normal({n.B, n.T, n.HV, n.V});
  gdn.a = random.uniform({n.B, n.T, n.HV}, -1.0, 0.0);
  gdn.b = random.uniform({n.B, n.T, n.HV}, 0.0, 2.0);
  GatedDeltaProduct product = deltaProductLike(randomGatedDeltaNet(12), 2);
  // [B, 2 T, ...] and [B, T, 2, ...] are the same memory.
  product.k.values() = gdn.k.values();
  product.v.values() = gdn.v.values();
  product.b.values() = gdn.b.values();
  for (int64_t b = 0; b < n.B; ++b) {
    for (int64_t t = 0; t < sizes.T; ++t) {
      product.g.setVector({b, t}, gdn.a.vector({b, 2 * t}));
      gdn.a.setVector({b, 2 * t + 1}, Vector(0.0, n.HV));
      product.q.setMatrix({b, t}, gdn.q.matrix({b, 2 * t + 1}));
    }
  }
  Result two = run(product);
  Result one = run(gdn);
  EXPECT_LE(distance(two.S, one.S), 1e-13);
  for (int64_t b = 0; b < n.B; ++b)
    for (int64_t t = 0; t < sizes.T; ++t)
      for (int64_t h = 0; h < n.HV; ++h)
        for (int64_t v = 0; v < n.V; ++v)
          EXPECT_NEAR((two.o[{b, t, h, v}]), (one.o[{b, 2 * t + 1, h, v}]), 1e-12);
}

TEST(Identity, ALowRankTermThatReadsTheDecayedKeyIsADeltaRule) {
  // b (a^T S) with a = -(k o e^g) and b = beta k is the correction of the delta
  // rule: it reads the old state with a key that carries the decay.
  Sizes n = sizes;
  n.HQ = n.HV;
  KimiDeltaAttention kda = randomKimiDeltaAttention(14);
  kda.sizes = n;
  kda.q = repeatHeads(kda.q, 2);
  kda.k = repeatHeads(kda.k, 2);
  kda.normalize = false;
  for (double &k : kda.k.values())
    k *= 0.3;
  RWKV7 rwkv;
  rwkv.sizes = n;
  rwkv.r = kda.q;
  rwkv.w = kda.a;
  rwkv.k = rwkv.a = rwkv.b = kda.k;
  rwkv.v = kda.v;
  rwkv.S = kda.S;
  rwkv.scale = 1.0 / std::sqrt(5.0);
  for (int64_t b = 0; b < n.B; ++b) {
    for (int64_t t = 0; t < n.T; ++t) {
      for (int64_t h = 0; h < n.HV; ++h) {
        Vector k = kda.k.vector({b, t, h});
        double beta = kda.b[{b, t, h}];
        rwkv.a.setVector({b, t, h}, -1.0 * k * std::exp(kda.a.vector({b, t, h})));
        rwkv.b.setVector({b, t, h}, beta * k);
        rwkv.k.setVector({b, t, h}, beta * k);
      }
    }
  }
  expectSame(run(rwkv), run(kda));
}

static GatedDeltaNet2 randomGatedDeltaNet2(uint64_t seed) {
  const Sizes &n = sizes;
  Random random(seed);
  GatedDeltaNet2 x;
  x.sizes = n;
  x.q = random.normal({n.B, n.T, n.HQ, n.K});
  x.k = random.normal({n.B, n.T, n.HQ, n.K});
  x.v = random.normal({n.B, n.T, n.HV, n.V});
  x.a = random.normal({n.B, n.T, n.HQ, n.K});
  x.b = random.normal({n.B, n.T, n.HQ, n.K});
  x.w = random.normal({n.B, n.T, n.HV, n.V});
  x.A_log = random.normal({n.HQ});
  x.dt_bias = random.normal({n.HQ, n.K});
  x.S = random.normal({n.B, n.HV, n.K, n.V});
  return x;
}

TEST(Identity, EqualGatesOfEraseAndWriteAreOneStrength) {
  GatedDeltaNet2 two = randomGatedDeltaNet2(30);
  two.sizes.HQ = two.sizes.HV;
  two.q = repeatHeads(two.q, 2);
  two.k = repeatHeads(two.k, 2);
  two.a = repeatHeads(two.a, 2);
  two.A_log = Random(31).normal({sizes.HV});
  two.dt_bias = Random(32).normal({sizes.HV, sizes.K});
  Tensor logit = Random(33).normal({sizes.B, sizes.T, sizes.HV});
  two.b = repeatLast(logit, sizes.K);
  two.w = repeatLast(logit, sizes.V);
  KimiDeltaAttention one;
  one.sizes = two.sizes;
  one.q = two.q;
  one.k = two.k;
  one.v = two.v;
  one.a = two.a;
  one.b = logit;
  one.A_log = two.A_log;
  one.dt_bias = two.dt_bias;
  one.S = two.S;
  expectSame(run(two), run(one));
}

static Comba combaLike(const GatedDeltaNet &x, uint64_t seed) {
  Random random(seed);
  Comba comba;
  comba.sizes = x.sizes;
  comba.q = x.q;
  comba.k = comba.p = x.k;
  comba.v = x.v;
  comba.a = random.normal({sizes.B, sizes.T, sizes.HV});
  comba.b = random.normal({sizes.B, sizes.T, sizes.HV});
  comba.A_log = random.normal({sizes.HV});
  comba.dt_bias = random.normal({sizes.HV});
  comba.D = Tensor({sizes.HQ}, 0.0);
  comba.S = x.S;
  return comba;
}

TEST(Identity, WithoutDecayItDoesNotMatterWhetherACorrectionReadsBeforeIt) {
  Comba comba = combaLike(randomGatedDeltaNet(34), 35);
  comba.a = Tensor({sizes.B, sizes.T, sizes.HV}, -200.0);
  DeltaNet delta;
  delta.sizes = sizes;
  delta.q = comba.q;
  delta.k = comba.k;
  delta.v = comba.v;
  delta.b = comba.b;
  delta.S = comba.S;
  expectSame(run(comba), run(delta));
}

TEST(Identity, ACorrectionOfTheUndecayedStateIsALowRankTermOfRWKV7) {
  Comba comba = combaLike(randomGatedDeltaNet(36), 37);
  comba.sizes.HQ = sizes.HV;
  comba.q = repeatHeads(comba.q, 2);
  comba.k = repeatHeads(comba.k, 2);
  comba.p = Random(38).normal({sizes.B, sizes.T, sizes.HV, sizes.K});
  comba.D = Random(39).normal({sizes.HV});
  RWKV7 rwkv;
  rwkv.sizes = comba.sizes;
  rwkv.r = rwkv.k = rwkv.a = rwkv.b = rwkv.w = comba.k;
  rwkv.v = comba.v;
  rwkv.S = comba.S;
  rwkv.scale = 1.0 / std::sqrt(5.0);
  for (int64_t b = 0; b < sizes.B; ++b) {
    for (int64_t t = 0; t < sizes.T; ++t) {
      for (int64_t h = 0; h < sizes.HV; ++h) {
        Vector p = comba.p.vector({b, t, h});
        double beta = sigmoid(comba.b[{b, t, h}]);
        double g =
            logDecay(Gate::Softplus, comba.a[{b, t, h}], comba.A_log[{h}], comba.dt_bias[{h}], 0.0);
        rwkv.w.setVector({b, t, h}, Vector(g, sizes.K));
        rwkv.a.setVector({b, t, h}, -l2norm(p));
        rwkv.k.setVector({b, t, h}, beta * l2norm(comba.k.vector({b, t, h})));
        rwkv.b.setVector({b, t, h}, rwkv.k.vector({b, t, h}));
        rwkv.r.setVector({b, t, h}, l2norm(comba.q.vector({b, t, h}) - comba.D[{h}] * p));
      }
    }
  }
  expectSame(run(comba), run(rwkv));
}

TEST(Identity, ErasingAlongTheKeyOfTheWriteIsTheDeltaRule) {
  KimiDeltaAttention kda = randomKimiDeltaAttention(40);
  Tensor logit = Random(41).normal({sizes.B, sizes.T, sizes.HV});
  kda.b = logit;
  kda.beta = Beta::Logit;
  TwoKeyDelta two;
  two.sizes = sizes;
  two.q = kda.q;
  two.e = two.k = kda.k;
  two.v = kda.v;
  two.b = logit;
  two.g = kda.a;
  two.u = Tensor({sizes.HQ, sizes.K}, 0.0);
  two.S = kda.S;
  Result early = run(two);
  Result late = run(kda);
  EXPECT_LE(distance(early.S, late.S), 1e-13);
  // Without strength nothing is written, and the output before a write is that after it.
  two.b = kda.b = Tensor({sizes.B, sizes.T, sizes.HV}, -800.0);
  expectSame(run(two), run(kda));
}

static GatedLinearAttention randomGatedLinearAttention(uint64_t seed) {
  KimiDeltaAttention like = randomKimiDeltaAttention(seed);
  GatedLinearAttention x;
  x.sizes = sizes;
  x.q = like.q;
  x.k = like.k;
  x.v = like.v;
  x.g = like.a;
  x.S = like.S;
  return x;
}

TEST(Identity, ElementwiseDecayEqualAlongValuesIsGatedLinearAttention) {
  GatedLinearAttention gla = randomGatedLinearAttention(15);
  ElementwiseDecay elementwise;
  elementwise.sizes = sizes;
  elementwise.q = gla.q;
  elementwise.k = gla.k;
  elementwise.v = gla.v;
  elementwise.g = repeatLast(gla.g, sizes.V);
  elementwise.S = gla.S;
  expectSame(run(elementwise), run(gla));
}

TEST(Identity, RetentionIsGatedLinearAttentionWithOneDecayPerHead) {
  GatedLinearAttention gla = randomGatedLinearAttention(42);
  Retention retention;
  retention.sizes = sizes;
  retention.q = gla.q;
  retention.k = gla.k;
  retention.v = gla.v;
  retention.slope = Random(43).uniform({sizes.HV}, 0.0, 2.0);
  retention.S = gla.S;
  for (int64_t b = 0; b < sizes.B; ++b)
    for (int64_t t = 0; t < sizes.T; ++t)
      for (int64_t h = 0; h < sizes.HV; ++h)
        gla.g.setVector({b, t, h}, Vector(-retention.slope[{h}], sizes.K));
  expectSame(run(retention), run(gla));
}

TEST(Identity, HGRN2IsGatedLinearAttentionWithTheKeyOfItsGate) {
  GatedLinearAttention gla = randomGatedLinearAttention(44);
  HGRN2 hgrn2;
  hgrn2.sizes = sizes;
  hgrn2.q = gla.q;
  hgrn2.f = Random(45).normal({sizes.B, sizes.T, sizes.HQ, sizes.K});
  hgrn2.v = gla.v;
  hgrn2.S = gla.S;
  Tensor g = hgrn2.f;
  for (double &value : g.values())
    value = std::log(sigmoid(value));
  gla.g = repeatHeads(g, 2);
  for (size_t i = 0; i < g.values().size(); ++i)
    gla.k.values()[i] = -std::expm1(g.values()[i]);
  expectSame(run(hgrn2), run(gla));
  hgrn2.f = g;
  hgrn2.isLogit = false;
  expectSame(run(hgrn2), run(gla));
}

TEST(Identity, Mamba2IsGatedLinearAttentionPlusASkip) {
  GatedLinearAttention gla = randomGatedLinearAttention(16);
  Random random(17);
  Mamba2 mamba;
  mamba.sizes = sizes;
  mamba.C = gla.q;
  mamba.B = gla.k;
  mamba.x = random.normal({sizes.B, sizes.T, sizes.HV, sizes.V});
  mamba.dt = random.normal({sizes.B, sizes.T, sizes.HV});
  mamba.A_log = random.normal({sizes.HV});
  mamba.dt_bias = random.normal({sizes.HV});
  mamba.D = random.normal({sizes.HV});
  mamba.S = gla.S;
  Tensor skip({sizes.B, sizes.T, sizes.HV, sizes.V});
  Tensor g({sizes.B, sizes.T, sizes.HV});
  for (int64_t b = 0; b < sizes.B; ++b) {
    for (int64_t t = 0; t < sizes.T; ++t) {
      for (int64_t h = 0; h < sizes.HV; ++h) {
        double dt = softplus(mamba.dt[{b, t, h}] + mamba.dt_bias[{h}]);
        Vector value = mamba.x.vector({b, t, h});
        g[{b, t, h}] = -dt * std::exp(mamba.A_log[{h}]);
        gla.v.setVector({b, t, h}, dt * value);
        skip.setVector({b, t, h}, mamba.D[{h}] * value);
      }
    }
  }
  gla.g = repeatLast(g, sizes.K);
  gla.scale = 1.0;
  Result expected = run(gla);
  for (size_t i = 0; i < skip.values().size(); ++i)
    expected.o.values()[i] += skip.values()[i];
  expectSame(run(mamba), expected);
}

TEST(Identity, AnEarlyReadIsTheLateReadOfTheTokenBefore) {
  // RWKV-6 without bonus, asked by r_t, sees what gated linear attention has
  // after token t - 1 if the decays are those of the token before as well.
  GatedLinearAttention gla = randomGatedLinearAttention(18);
  RWKV6 rwkv;
  rwkv.sizes = sizes;
  rwkv.r = gla.q;
  rwkv.k = gla.k;
  rwkv.v = gla.v;
  rwkv.w = gla.g;
  rwkv.u = Random(19).normal({sizes.HV, sizes.K});
  rwkv.S = gla.S;
  Result early = run(rwkv);
  Result late = run(gla);
  // The decay comes before the write in both, so the states agree.
  EXPECT_LE(distance(early.S, late.S), 1e-13);

  rwkv.u = Tensor({sizes.HV, sizes.K}, 0.0);
  early = run(rwkv);
  for (int64_t b = 0; b < sizes.B; ++b)
    for (int64_t t = 1; t < sizes.T; ++t)
      gla.q.setMatrix({b, t - 1}, rwkv.r.matrix({b, t}));
  late = run(gla);
  for (int64_t b = 0; b < sizes.B; ++b)
    for (int64_t t = 1; t < sizes.T; ++t)
      for (int64_t h = 0; h < sizes.HV; ++h)
        for (int64_t v = 0; v < sizes.V; ++v)
          EXPECT_NEAR((early.o[{b, t, h, v}]), (late.o[{b, t - 1, h, v}]), 1e-12);
}

TEST(Identity, RawDecayIsTheLogarithmOfItsNegation) {
  Random random(20);
  RWKV6 x;
  x.sizes = sizes;
  x.r = random.normal({sizes.B, sizes.T, sizes.HQ, sizes.K});
  x.k = random.normal({sizes.B, sizes.T, sizes.HQ, sizes.K});
  x.v = random.normal({sizes.B, sizes.T, sizes.HV, sizes.V});
  x.w = random.normal({sizes.B, sizes.T, sizes.HV, sizes.K});
  x.u = random.normal({sizes.HV, sizes.K});
  x.wIsRaw = true;
  Result raw = run(x);
  x.wIsRaw = false;
  for (double &w : x.w.values())
    w = -std::exp(w);
  expectSame(raw, run(x), 0.0);
}

TEST(Symmetry, ValueHeadsShareTheKeyHeadOfTheirGroup) {
  GatedDeltaNet x = randomGatedDeltaNet(21);
  Result grouped = run(x);
  x.q = repeatHeads(x.q, 2);
  x.k = repeatHeads(x.k, 2);
  x.sizes.HQ = x.sizes.HV;
  expectSame(run(x), grouped, 0.0);
}

TEST(Symmetry, TheDefaultScaleIsThatOfTheKeyDimension) {
  GatedDeltaNet x = randomGatedDeltaNet(22);
  Result result = run(x);
  x.scale = 1.0 / std::sqrt(5.0);
  expectSame(run(x), result, 0.0);
}

TEST(Symmetry, OutputsAreLinearInTheScaleAndStatesIndependent) {
  GatedDeltaNet x = randomGatedDeltaNet(23);
  x.scale = 1.0;
  Result one = run(x);
  x.scale = 0.25;
  Result quarter = run(x);
  EXPECT_EQ(distance(quarter.S, one.S), 0.0);
  for (size_t i = 0; i < one.o.values().size(); ++i)
    EXPECT_EQ(quarter.o.values()[i], 0.25 * one.o.values()[i]);
}

TEST(Symmetry, TwoCallsWithTheStateCarriedAreOne) {
  KimiDeltaAttention x = randomKimiDeltaAttention(24);
  x.sizes.B = 1;
  auto tokens = [](const Tensor &of, int64_t begin, int64_t end) {
    Shape shape = of.shape();
    int64_t row = static_cast<int64_t>(of.values().size()) / (shape[0] * shape[1]);
    shape[0] = 1;
    shape[1] = end - begin;
    Tensor part(shape);
    std::copy(of.values().begin() + begin * row, of.values().begin() + end * row,
              part.values().begin());
    return part;
  };
  auto part = [&](int64_t begin, int64_t end, const Tensor &S) {
    KimiDeltaAttention y = x;
    y.sizes.T = end - begin;
    y.q = tokens(x.q, begin, end);
    y.k = tokens(x.k, begin, end);
    y.v = tokens(x.v, begin, end);
    y.a = tokens(x.a, begin, end);
    y.b = tokens(x.b, begin, end);
    y.S = S;
    return run(y);
  };
  Tensor S0 = Random(25).normal({1, sizes.HV, sizes.K, sizes.V});
  Result whole = part(0, 7, S0);
  Result first = part(0, 3, S0);
  Result second = part(3, 7, first.S);
  EXPECT_EQ(distance(second.S, whole.S), 0.0);
  EXPECT_EQ(distance(second.o, tokens(whole.o, 3, 7)), 0.0);
}
