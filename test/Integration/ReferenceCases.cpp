//===- ReferenceCases.cpp - Specs beside their hand-written recurrences ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where a spec computes something of its own before the recurrence (the layer's
// gate, say), the same is written here once more, by hand.
//
//===----------------------------------------------------------------------===//

#include "test/Integration/ReferenceCases.h"

#include "test/Reference/Additive.h"
#include "test/Reference/DeltaRule.h"
#include "test/Reference/RWKV.h"
#include "test/Reference/Random.h"

#include <cmath>

namespace dl::recurrence {

// Two value heads share a key head; K, V and all head counts differ.
static const Sizes sizes{2, 5, 2, 4, 6, 5};
// Passed at launch, and not the default of any spec.
static const double launchScale = 0.375;

std::string Case::name() const {
  std::string text = spec;
  for (const std::string &setting : settings)
    text += " " + setting;
  return text;
}

static Tensor keyVectors(Random &random) {
  return random.normal({sizes.B, sizes.T, sizes.HQ, sizes.K});
}
static Tensor channelVectors(Random &random) {
  return random.normal({sizes.B, sizes.T, sizes.HV, sizes.K});
}
static Tensor valueVectors(Random &random) {
  return random.normal({sizes.B, sizes.T, sizes.HV, sizes.V});
}
static Tensor headScalars(Random &random) { return random.normal({sizes.B, sizes.T, sizes.HV}); }
static Tensor states(Random &random) {
  return random.normal({sizes.B, sizes.HV, sizes.K, sizes.V});
}

/// f of every element.
template <typename Function> static Tensor map(Tensor x, Function f) {
  for (double &value : x.values())
    value = f(value);
  return x;
}

/// Per key head to per value head, along axis `axis`, which counts heads; the
/// last axis is the vector.
static Tensor spread(const Tensor &x, int64_t axis) {
  Shape shape = x.shape();
  shape[axis] = sizes.HV;
  Tensor result(shape);
  int64_t ratio = sizes.HV / sizes.HQ;
  int64_t inner = shape.back();
  for (int64_t row = 0; row < static_cast<int64_t>(result.values().size()) / inner; ++row) {
    int64_t source = row / sizes.HV * sizes.HQ + row % sizes.HV / ratio;
    for (int64_t i = 0; i < inner; ++i)
      result.values()[row * inner + i] = x.values()[source * inner + i];
  }
  return result;
}

static Tensor negated(Tensor x) {
  return map(std::move(x), [](double value) { return -value; });
}

static const char *spelling(Gate gate) {
  switch (gate) {
  case Gate::Softplus:
    return "gate=softplus";
  case Gate::Bounded:
    return "gate=bounded";
  case Gate::Precomputed:
    break;
  }
  return "gate=precomputed";
}

/// What all delta rules of examples/ share: q, k, v, the strength and its options.
template <typename Operator>
static void addDeltaRule(Case &result, Operator &x, Random &random, bool normalize, Beta beta,
                         double factor) {
  x.sizes = result.sizes = sizes;
  x.normalize = normalize;
  x.beta = beta;
  x.betaFactor = factor;
  x.scale = launchScale;
  x.q = keyVectors(random);
  x.k = keyVectors(random);
  if (!normalize) // Long keys make the recurrence explode.
    x.k = map(x.k, [](double value) { return 0.3 * value; });
  x.v = valueVectors(random);
  x.b = beta == Beta::Logit ? headScalars(random)
                            : random.uniform({sizes.B, sizes.T, sizes.HV}, 0.0, 2.0);
  x.S = states(random);
  result.S = x.S;
  result.tensors = {{"q", x.q}, {"k", x.k}, {"v", x.v}};
  result.tensors[beta == Beta::Logit ? "b" : "beta"] = x.b;
  result.scalars = {{"scale", launchScale}};
  result.settings.push_back(normalize ? "normalize=true" : "normalize=false");
  result.settings.push_back(beta == Beta::Logit ? "beta=logit" : "beta=value");
  if (beta == Beta::Logit)
    result.settings.push_back("beta_factor=" + std::to_string(factor));
}

static Case gatedDeltaNet(Gate gate, bool normalize, Beta beta, double factor) {
  Random random(100);
  Case result;
  result.spec = "examples/gdn.mlir";
  result.settings = {spelling(gate)};
  GatedDeltaNet x;
  addDeltaRule(result, x, random, normalize, beta, factor);
  x.gate = gate;
  if (gate == Gate::Precomputed) {
    x.a = random.uniform({sizes.B, sizes.T, sizes.HV}, -2.0, 0.0);
    result.tensors["g"] = x.a;
  } else {
    x.a = headScalars(random);
    x.A_log = random.normal({sizes.HV});
    x.dt_bias = random.normal({sizes.HV});
    result.tensors["a"] = x.a;
    result.tensors["A_log"] = x.A_log;
    result.tensors["dt_bias"] = x.dt_bias;
  }
  result.expected = run(x);
  return result;
}

static Case kimiDeltaAttention(Gate gate, bool normalize, Beta beta, double factor) {
  Random random(200);
  Case result;
  result.spec = "examples/kda.mlir";
  result.settings = {spelling(gate)};
  KimiDeltaAttention x;
  addDeltaRule(result, x, random, normalize, beta, factor);
  x.gate = gate;
  if (gate == Gate::Precomputed) {
    x.a = random.uniform({sizes.B, sizes.T, sizes.HV, sizes.K}, -2.0, 0.0);
    result.tensors["g"] = x.a;
  } else {
    x.a = channelVectors(random);
    x.A_log = random.normal({sizes.HV});
    x.dt_bias = random.normal({sizes.HV, sizes.K});
    result.tensors["a"] = x.a;
    result.tensors["A_log"] = x.A_log;
    result.tensors["dt_bias"] = x.dt_bias;
  }
  if (gate == Gate::Bounded) {
    x.lowerBound = -3.0;
    result.settings.emplace_back("lower_bound=-3.0");
  }
  result.expected = run(x);
  return result;
}

static Case rwkv6(bool raw) {
  Random random(300);
  Case result;
  result.spec = "examples/rwkv6.mlir";
  result.settings = {raw ? "decay=raw" : "decay=log"};
  Tensor w = keyVectors(random);
  if (!raw)
    w = map(w, [](double value) { return -std::fabs(value); });
  Tensor u = random.normal({sizes.HQ, sizes.K});
  RWKV6 x;
  x.sizes = result.sizes = sizes;
  x.r = keyVectors(random);
  x.k = keyVectors(random);
  x.v = valueVectors(random);
  x.w = spread(w, 2);
  x.u = spread(u, 0);
  x.S = result.S = states(random);
  x.wIsRaw = raw;
  x.scale = launchScale;
  result.tensors = {{"r", x.r}, {"k", x.k}, {"v", x.v}, {"w", w}, {"u", u}};
  result.scalars = {{"scale", launchScale}};
  result.expected = run(x);
  return result;
}

static Case deltaNet() {
  Random random(400);
  Case result;
  result.spec = "examples/deltanet.mlir";
  DeltaNet x;
  addDeltaRule(result, x, random, true, Beta::Logit, 1.0);
  result.settings.clear(); // The spec has no options.
  result.expected = run(x);
  return result;
}

static Case deltaProduct() {
  Random random(500);
  Case result;
  result.spec = "examples/gated_deltaproduct.mlir";
  Tensor k[] = {keyVectors(random), keyVectors(random)};
  Tensor v[] = {valueVectors(random), valueVectors(random)};
  Tensor b[] = {headScalars(random), headScalars(random)};
  Tensor a = headScalars(random);
  Tensor A_log = random.normal({sizes.HV});
  Tensor dt_bias = random.normal({sizes.HV});
  GatedDeltaProduct x;
  x.sizes = result.sizes = sizes;
  x.steps = 2;
  x.q = keyVectors(random);
  x.g = a;
  for (size_t i = 0; i < a.values().size(); ++i) {
    auto h = static_cast<int64_t>(i) % sizes.HV;
    x.g.values()[i] = logDecay(Gate::Softplus, a.values()[i], A_log[{h}], dt_bias[{h}], 0.0);
  }
  x.S = result.S = states(random);
  x.scale = launchScale;
  x.k = Tensor({sizes.B, sizes.T, 2, sizes.HQ, sizes.K});
  x.v = Tensor({sizes.B, sizes.T, 2, sizes.HV, sizes.V});
  x.b = Tensor({sizes.B, sizes.T, 2, sizes.HV});
  for (int64_t i = 0; i < sizes.B; ++i) {
    for (int64_t t = 0; t < sizes.T; ++t) {
      for (int64_t step = 0; step < 2; ++step) {
        x.k.setMatrix({i, t, step}, k[step].matrix({i, t}));
        x.v.setMatrix({i, t, step}, v[step].matrix({i, t}));
        x.b.setVector({i, t, step}, b[step].vector({i, t}));
      }
    }
  }
  result.tensors = {{"q", x.q},       {"k0", k[0]},        {"v0", v[0]}, {"b0", b[0]},
                    {"k1", k[1]},     {"v1", v[1]},        {"b1", b[1]}, {"a", a},
                    {"A_log", A_log}, {"dt_bias", dt_bias}};
  result.scalars = {{"scale", launchScale}};
  result.expected = run(x);
  return result;
}

static Case gatedDeltaNet2() {
  Random random(510);
  Case result;
  result.spec = "examples/gdn2.mlir";
  GatedDeltaNet2 x;
  x.sizes = result.sizes = sizes;
  x.q = keyVectors(random);
  x.k = keyVectors(random);
  x.v = valueVectors(random);
  x.a = keyVectors(random);
  x.b = keyVectors(random);
  x.w = valueVectors(random);
  x.A_log = random.normal({sizes.HQ});
  x.dt_bias = random.normal({sizes.HQ, sizes.K});
  x.S = result.S = states(random);
  x.scale = launchScale;
  result.tensors = {{"q", x.q}, {"k", x.k}, {"v", x.v},         {"a", x.a},
                    {"b", x.b}, {"w", x.w}, {"A_log", x.A_log}, {"dt_bias", x.dt_bias}};
  result.scalars = {{"scale", launchScale}};
  result.expected = run(x);
  return result;
}

static Case comba() {
  Random random(520);
  Case result;
  result.spec = "examples/comba.mlir";
  Comba x;
  x.sizes = result.sizes = sizes;
  x.q = keyVectors(random);
  x.k = keyVectors(random);
  x.p = keyVectors(random);
  x.v = valueVectors(random);
  x.a = headScalars(random);
  x.b = headScalars(random);
  x.A_log = random.normal({sizes.HV});
  x.dt_bias = random.normal({sizes.HV});
  x.D = random.normal({sizes.HQ});
  x.S = result.S = states(random);
  x.scale = launchScale;
  result.tensors = {{"q", x.q}, {"k", x.k}, {"p", x.p},         {"v", x.v},
                    {"a", x.a}, {"b", x.b}, {"A_log", x.A_log}, {"dt_bias", x.dt_bias},
                    {"D", x.D}};
  result.scalars = {{"scale", launchScale}};
  result.expected = run(x);
  return result;
}

static Case twoKeyDelta() {
  Random random(530);
  Case result;
  result.spec = "examples/two_key_delta.mlir";
  TwoKeyDelta x;
  x.sizes = result.sizes = sizes;
  x.q = keyVectors(random);
  x.e = keyVectors(random);
  x.k = keyVectors(random);
  x.v = valueVectors(random);
  x.b = headScalars(random);
  x.g = random.uniform({sizes.B, sizes.T, sizes.HV, sizes.K}, -2.0, 0.0);
  x.u = random.normal({sizes.HQ, sizes.K});
  x.S = result.S = states(random);
  x.scale = launchScale;
  result.tensors = {{"q", x.q}, {"e", x.e}, {"k", x.k}, {"v", x.v},
                    {"b", x.b}, {"g", x.g}, {"u", x.u}};
  result.scalars = {{"scale", launchScale}};
  result.expected = run(x);
  return result;
}

static Case gatedLinearAttention() {
  Random random(600);
  Case result;
  result.spec = "examples/gla.mlir";
  Tensor a = keyVectors(random);
  GatedLinearAttention x;
  x.sizes = result.sizes = sizes;
  x.q = keyVectors(random);
  x.k = keyVectors(random);
  x.v = valueVectors(random);
  x.g = spread(map(a, [](double value) { return std::log(sigmoid(value)) / 16.0; }), 2);
  x.S = result.S = states(random);
  x.scale = launchScale;
  result.tensors = {{"q", x.q}, {"k", x.k}, {"v", x.v}, {"a", a}};
  result.scalars = {{"scale", launchScale}};
  result.expected = run(x);
  return result;
}

static Case retention() {
  Random random(610);
  Case result;
  result.spec = "examples/retnet.mlir";
  Retention x;
  x.sizes = result.sizes = sizes;
  x.q = keyVectors(random);
  x.k = keyVectors(random);
  x.v = valueVectors(random);
  x.slope = Tensor({sizes.HV});
  for (int64_t h = 0; h < sizes.HV; ++h)
    x.slope[{h}] = -std::log(1.0 - std::exp2(-1.0 - static_cast<double>(h)));
  x.S = result.S = states(random);
  x.scale = launchScale;
  result.tensors = {{"q", x.q}, {"k", x.k}, {"v", x.v}, {"slope", x.slope}};
  result.scalars = {{"scale", launchScale}};
  result.expected = run(x);
  return result;
}

static Case hgrn2(bool isLogit) {
  Random random(620);
  Case result;
  result.spec = "examples/hgrn2.mlir";
  result.settings = {isLogit ? "gate=logit" : "gate=precomputed"};
  HGRN2 x;
  x.sizes = result.sizes = sizes;
  x.q = keyVectors(random);
  x.f = keyVectors(random);
  if (!isLogit)
    x.f = map(x.f, [](double value) { return -std::fabs(value); });
  x.v = valueVectors(random);
  x.S = result.S = states(random);
  x.isLogit = isLogit;
  x.scale = launchScale;
  result.tensors = {{"q", x.q}, {isLogit ? "f" : "g", x.f}, {"v", x.v}};
  result.scalars = {{"scale", launchScale}};
  result.expected = run(x);
  return result;
}

static Case mamba2() {
  Random random(700);
  Case result;
  result.spec = "examples/mamba2.mlir";
  Mamba2 x;
  x.sizes = result.sizes = sizes;
  x.C = keyVectors(random);
  x.B = keyVectors(random);
  x.x = valueVectors(random);
  x.dt = headScalars(random);
  x.A_log = random.normal({sizes.HV});
  x.dt_bias = random.normal({sizes.HV});
  x.D = random.normal({sizes.HV});
  x.S = result.S = states(random);
  result.tensors = {{"q", x.C},
                    {"k", x.B},
                    {"v", x.x},
                    {"dt", x.dt},
                    {"A_log", x.A_log},
                    {"D", x.D},
                    {"dt_bias", x.dt_bias}};
  result.expected = run(x);
  return result;
}

static Case rwkv7() {
  Random random(800);
  Case result;
  result.spec = "examples/rwkv7.mlir";
  Tensor w = keyVectors(random);
  Tensor kappa = keyVectors(random);
  Tensor eta = keyVectors(random);
  RWKV7 x;
  x.sizes = result.sizes = sizes;
  x.r = keyVectors(random);
  x.k = keyVectors(random);
  x.v = valueVectors(random);
  // -e^-0.5, as the spec's f32 constant has it.
  double strongest = static_cast<float>(-0.60653066);
  x.w = spread(map(w, [&](double value) { return strongest * sigmoid(value); }), 2);
  x.a = x.b = kappa;
  for (int64_t b = 0; b < sizes.B; ++b) {
    for (int64_t t = 0; t < sizes.T; ++t) {
      for (int64_t h = 0; h < sizes.HQ; ++h) {
        Vector direction = l2norm(kappa.vector({b, t, h}));
        Vector rate = eta.vector({b, t, h}).apply([](double value) { return sigmoid(value); });
        x.a.setVector({b, t, h}, -direction);
        x.b.setVector({b, t, h}, direction * rate);
      }
    }
  }
  x.S = result.S = states(random);
  x.scale = launchScale;
  result.tensors = {{"q", x.r}, {"w", w}, {"k", x.k}, {"v", x.v}, {"kappa", kappa}, {"eta", eta}};
  result.scalars = {{"scale", launchScale}};
  result.expected = run(x);
  return result;
}

static Case elementwiseDecay() {
  Random random(900);
  Case result;
  result.spec = "test/specs/elementwise.mlir";
  Tensor a = random.normal({sizes.B, sizes.T, sizes.HV, sizes.K, sizes.V});
  ElementwiseDecay x;
  x.sizes = result.sizes = sizes;
  x.q = keyVectors(random);
  x.k = keyVectors(random);
  x.v = valueVectors(random);
  x.g = negated(map(a, softplus));
  x.S = result.S = states(random);
  x.scale = launchScale;
  result.tensors = {{"q", x.q}, {"k", x.k}, {"v", x.v}, {"a", a}};
  result.scalars = {{"scale", launchScale}};
  result.expected = run(x);
  return result;
}

std::vector<Case> referenceCases() {
  return {
      gatedDeltaNet(Gate::Softplus, true, Beta::Logit, 1.0),
      gatedDeltaNet(Gate::Precomputed, false, Beta::Value, 1.0),
      gatedDeltaNet(Gate::Softplus, true, Beta::Logit, 2.0),
      kimiDeltaAttention(Gate::Softplus, true, Beta::Logit, 1.0),
      kimiDeltaAttention(Gate::Bounded, true, Beta::Logit, 1.5),
      kimiDeltaAttention(Gate::Precomputed, false, Beta::Value, 1.0),
      rwkv6(false),
      rwkv6(true),
      deltaNet(),
      deltaProduct(),
      gatedDeltaNet2(),
      comba(),
      twoKeyDelta(),
      gatedLinearAttention(),
      retention(),
      hgrn2(true),
      hgrn2(false),
      mamba2(),
      rwkv7(),
      elementwiseDecay(),
  };
}

} // namespace dl::recurrence
