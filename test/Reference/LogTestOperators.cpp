//===- LogTestOperators.cpp - Random tokens of each operator with a log ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Reference/LogTestOperators.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <stdexcept>

namespace dl::deltalog {

using namespace recurrence;

/// Mostly mild; now and then none, strong, and an exact reset.
static double drawLogDecay(Random &random) {
  double kind = random.uniform(0.0, 1.0);
  if (kind < 0.05)
    return 0.0;
  if (kind < 0.10)
    return -30.0;
  if (kind < 0.13)
    return -1000.0;
  if (kind < 0.15)
    return -std::numeric_limits<double>::infinity();
  return random.uniform(-1.0, 0.0);
}

static Tensor drawLogDecays(Random &random, Shape shape) {
  Tensor tensor(std::move(shape));
  for (double &value : tensor.values())
    value = drawLogDecay(random);
  return tensor;
}

/// Includes the two ends, where nothing is written and where a key is reflected.
static Tensor drawStrengths(Random &random, Shape shape) {
  Tensor tensor(std::move(shape));
  for (double &value : tensor.values())
    value = std::clamp(random.uniform(-0.1, 2.1), 0.0, 2.0);
  return tensor;
}

template <typename Operator> static DrawnToken drawn(const Operator &x) {
  AffineToken token = affine(x, Place{0, 0, 0, 0});
  auto shared = std::make_shared<Operator>(x);
  return {token, [shared](Matrix &S) {
            shared->S = Tensor({1, 1, S.rows, S.cols});
            shared->S.setMatrix({0, 0}, S);
            Result result = run(*shared);
            S = result.S.matrix({0, 0});
            return result.o.vector({0, 0, 0});
          }};
}

template <typename DeltaRule> static DeltaRule drawDeltaRule(Random &random, int64_t K, int64_t V) {
  DeltaRule x;
  x.sizes = {1, 1, 1, 1, K, V};
  x.q = random.normal({1, 1, 1, K});
  x.k = random.normal({1, 1, 1, K});
  x.v = random.normal({1, 1, 1, V});
  x.b = drawStrengths(random, {1, 1, 1});
  x.beta = Beta::Value;
  return x;
}

static DrawnToken drawDeltaNet(Random &random) {
  return drawn(drawDeltaRule<DeltaNet>(random, 4, 3));
}

static DrawnToken drawGatedDeltaNet(Random &random) {
  auto x = drawDeltaRule<GatedDeltaNet>(random, 4, 3);
  x.a = drawLogDecays(random, {1, 1, 1});
  x.gate = Gate::Precomputed;
  return drawn(x);
}

static DrawnToken drawKimiDeltaAttention(Random &random) {
  auto x = drawDeltaRule<KimiDeltaAttention>(random, 5, 2);
  x.a = drawLogDecays(random, {1, 1, 1, 5});
  x.gate = Gate::Precomputed;
  return drawn(x);
}

static DrawnToken drawGatedDeltaProduct(Random &random) {
  GatedDeltaProduct x;
  x.sizes = {1, 1, 1, 1, 4, 2};
  x.q = random.normal({1, 1, 1, 4});
  x.k = random.normal({1, 1, 2, 1, 4});
  x.v = random.normal({1, 1, 2, 1, 2});
  x.g = drawLogDecays(random, {1, 1, 1});
  x.b = drawStrengths(random, {1, 1, 2, 1});
  x.beta = Beta::Value;
  return drawn(x);
}

static DrawnToken drawGatedDeltaNet2(Random &random) {
  GatedDeltaNet2 x;
  x.sizes = {1, 1, 1, 1, 3, 5};
  x.q = random.normal({1, 1, 1, 3});
  x.k = random.normal({1, 1, 1, 3});
  x.v = random.normal({1, 1, 1, 5});
  x.a = random.normal({1, 1, 1, 3});
  x.b = random.normal({1, 1, 1, 3});
  x.w = random.normal({1, 1, 1, 5});
  x.A_log = random.normal({1});
  x.dt_bias = random.normal({1, 3});
  return drawn(x);
}

static DrawnToken drawComba(Random &random) {
  Comba x;
  x.sizes = {1, 1, 1, 1, 5, 3};
  x.q = random.normal({1, 1, 1, 5});
  x.k = random.normal({1, 1, 1, 5});
  // The layer's p is a part of k; far from it the correction would make the state grow.
  x.p = x.k;
  for (double &value : x.p.values())
    value = 0.5 * value + 0.1 * random.normal();
  x.v = random.normal({1, 1, 1, 3});
  x.a = random.normal({1, 1, 1});
  x.b = random.normal({1, 1, 1});
  x.A_log = random.normal({1});
  x.dt_bias = random.normal({1});
  x.D = random.normal({1});
  return drawn(x);
}

static DrawnToken drawTwoKeyDelta(Random &random) {
  TwoKeyDelta x;
  x.sizes = {1, 1, 1, 1, 6, 3};
  x.q = random.normal({1, 1, 1, 6});
  x.e = random.normal({1, 1, 1, 6});
  x.k = random.normal({1, 1, 1, 6});
  x.v = random.normal({1, 1, 1, 3});
  x.b = random.normal({1, 1, 1});
  x.g = drawLogDecays(random, {1, 1, 1, 6});
  x.u = random.normal({1, 6});
  return drawn(x);
}

static DrawnToken drawGatedLinearAttention(Random &random) {
  GatedLinearAttention x;
  x.sizes = {1, 1, 1, 1, 3, 4};
  x.q = random.normal({1, 1, 1, 3});
  x.k = random.normal({1, 1, 1, 3});
  x.v = random.normal({1, 1, 1, 4});
  x.g = drawLogDecays(random, {1, 1, 1, 3});
  return drawn(x);
}

static DrawnToken drawRetention(Random &random) {
  Retention x;
  x.sizes = {1, 1, 1, 1, 5, 4};
  x.q = random.normal({1, 1, 1, 5});
  x.k = random.normal({1, 1, 1, 5});
  x.v = random.normal({1, 1, 1, 4});
  x.slope = Tensor({1}, 0.25);
  return drawn(x);
}

static DrawnToken drawHGRN2(Random &random) {
  HGRN2 x;
  x.sizes = {1, 1, 1, 1, 4, 5};
  x.q = random.normal({1, 1, 1, 4});
  x.f = drawLogDecays(random, {1, 1, 1, 4});
  x.v = random.normal({1, 1, 1, 5});
  x.isLogit = false;
  return drawn(x);
}

static DrawnToken drawMamba2(Random &random) {
  Mamba2 x;
  x.sizes = {1, 1, 1, 1, 3, 2};
  x.C = random.normal({1, 1, 1, 3});
  x.B = random.normal({1, 1, 1, 3});
  x.x = random.normal({1, 1, 1, 2});
  x.dt = random.normal({1, 1, 1});
  x.A_log = random.normal({1});
  x.dt_bias = random.normal({1});
  x.D = random.normal({1});
  return drawn(x);
}

static DrawnToken drawRWKV6(Random &random) {
  RWKV6 x;
  x.sizes = {1, 1, 1, 1, 4, 4};
  x.r = random.normal({1, 1, 1, 4});
  x.k = random.normal({1, 1, 1, 4});
  x.v = random.normal({1, 1, 1, 4});
  x.w = drawLogDecays(random, {1, 1, 1, 4});
  x.u = random.normal({1, 4});
  return drawn(x);
}

/// Takes out of the state what it reads of it, as the model does: with a = -k and
/// b = strength k, decay and correction together do not let the state grow.
static DrawnToken drawRWKV7(Random &random) {
  RWKV7 x;
  x.sizes = {1, 1, 1, 1, 4, 3};
  x.r = random.normal({1, 1, 1, 4});
  x.w = drawLogDecays(random, {1, 1, 1, 4});
  x.k = random.normal({1, 1, 1, 4});
  x.v = random.normal({1, 1, 1, 3});
  Vector removed = l2norm(random.normal({4}).vector({}));
  // The state read is not yet decayed, what is taken out must be.
  Vector decay = std::exp(x.w.vector({0, 0, 0}));
  x.a = Tensor({1, 1, 1, 4});
  x.b = Tensor({1, 1, 1, 4});
  x.a.setVector({0, 0, 0}, -removed);
  x.b.setVector({0, 0, 0}, random.uniform(0.0, 1.0) * decay * removed);
  return drawn(x);
}

const std::vector<TestOperator> &testOperators() {
  static const std::vector<TestOperator> operators = {
      {"DeltaNet", 4, 3, drawDeltaNet},
      {"GatedDeltaNet", 4, 3, drawGatedDeltaNet},
      {"KimiDeltaAttention", 5, 2, drawKimiDeltaAttention},
      {"GatedDeltaProduct", 4, 2, drawGatedDeltaProduct},
      {"GatedDeltaNet2", 3, 5, drawGatedDeltaNet2},
      {"Comba", 5, 3, drawComba},
      {"TwoKeyDelta", 6, 3, drawTwoKeyDelta},
      {"GatedLinearAttention", 3, 4, drawGatedLinearAttention},
      {"Retention", 5, 4, drawRetention},
      {"HGRN2", 4, 5, drawHGRN2},
      {"Mamba2", 3, 2, drawMamba2},
      {"RWKV6", 4, 4, drawRWKV6},
      {"RWKV7", 4, 3, drawRWKV7},
  };
  return operators;
}

const TestOperator &testOperator(const std::string &name) {
  for (const TestOperator &op : testOperators())
    if (op.name == name)
      return op;
  throw std::invalid_argument("no test operator " + name);
}

Matrix randomState(Random &random, int64_t K, int64_t V) {
  return random.normal({K, V}).matrix({});
}

double distance(const Vector &got, const Vector &expected) {
  if (got.size() != expected.size())
    return std::numeric_limits<double>::infinity();
  double magnitude = 1.0;
  double worst = 0.0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (!std::isfinite(got[i]) || !std::isfinite(expected[i]))
      return std::numeric_limits<double>::infinity();
    magnitude = std::max(magnitude, std::fabs(expected[i]));
    worst = std::max(worst, std::fabs(got[i] - expected[i]));
  }
  return worst / magnitude;
}

bool isSameBits(const Vector &a, const Vector &b) {
  return a.size() == b.size() &&
         (a.size() == 0 || std::memcmp(&a[0], &b[0], a.size() * sizeof(double)) == 0);
}

} // namespace dl::deltalog
