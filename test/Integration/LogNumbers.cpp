//===- LogNumbers.cpp - Tokens of any operator, and its recurrence --------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Integration/LogNumbers.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>

namespace dl::test {

bool isKnownOperator(const std::string &name) {
  static const std::set<std::string> known = {
      "gdn", "kda", "rwkv6", "deltanet", "delta_product2", "mamba2", "gla", "rwkv7"};
  return known.count(name);
}

LogOperator logOperator(const std::string &name, const std::string &package) {
  LogOperator op;
  op.name = name;
  auto has = [&](const char *option) { return package.find(option) != std::string::npos; };
  if (has("-plain")) {
    op.gate = Gate::Precomputed;
    op.normalize = false;
    op.beta = Beta::Value;
  }
  if (has("-bounded")) {
    op.gate = Gate::Bounded;
    op.lowerBound = -3;
  }
  if (has("-factor2"))
    op.betaFactor = 2;
  return op;
}

//===----------------------------------------------------------------------===//
// Tokens
//===----------------------------------------------------------------------===//

Tokens tokensOf(const Tokens &tokens, const std::vector<int64_t> &list, int64_t B) {
  Tokens result;
  result.B = B;
  result.T = static_cast<int64_t>(list.size()) / B;
  for (const auto &[name, from] : tokens.inputs) {
    Shape shape = from.shape();
    shape[0] = B;
    shape[1] = result.T;
    Tensor to(shape, NAN);
    int64_t size = 1;
    for (size_t i = 2; i < shape.size(); ++i)
      size *= shape[i];
    for (size_t i = 0; i < list.size(); ++i)
      if (list[i] >= 0)
        std::copy_n(&from.values()[list[i] * size], size, &to.values()[i * size]);
    result.inputs[name] = to;
  }
  return result;
}

Tokens tokensOf(const Tokens &tokens, int64_t first, int64_t count) {
  std::vector<int64_t> list;
  for (int64_t i = 0; i < count; ++i)
    list.push_back(first + i);
  return tokensOf(tokens, list);
}

/// Mostly mild; now and then none, strong, and an exact reset.
static double drawLogDecay(Random &random) {
  const double kind = random.uniform(0, 1);
  if (kind < 0.04)
    return 0;
  if (kind < 0.07)
    return -30;
  if (kind < 0.09)
    return -1000;
  if (kind < 0.10)
    return -INFINITY;
  return random.uniform(-1, 0);
}

/// The logit of a decay or of a strength: `none` and `strong` are where it has its ends.
static double drawLogit(Random &random, double none, double strong, double reset) {
  const double kind = random.uniform(0, 1);
  return kind < 0.04 ? none : kind < 0.07 ? strong : kind < 0.08 ? reset : random.normal();
}

double drawNumber(const LogOperator &op, const std::string &name, int64_t K, Random &random) {
  if (name == "g" || (op.name == "rwkv6" && name == "w"))
    return drawLogDecay(random);
  if (op.name == "gla" && name == "a")
    return drawLogit(random, 40, -500, -30000);
  if (name == "a")
    return drawLogit(random, -40, 30, 10000);
  if (name == "dt")
    return drawLogit(random, -40, 3, 3);
  if (name == "b" || name == "b0" || name == "b1")
    return drawLogit(random, -30, 30, 30);
  if (name == "beta")
    return std::clamp(random.uniform(-0.1, 1.1), 0.0, 1.0);
  // Long keys make a delta rule explode.
  if (name == "k" && !op.normalize)
    return random.normal() / std::sqrt(static_cast<double>(K));
  return random.normal();
}

//===----------------------------------------------------------------------===//
// Recurrences
//===----------------------------------------------------------------------===//

Tensor Oracle::spread(const Tensor &perKeyHead, size_t axis) const {
  Shape shape = perKeyHead.shape();
  shape[axis] = n.HV;
  const int64_t size = shape.back(), ratio = n.HV / n.HQ;
  Tensor result(shape);
  for (int64_t h = 0; h < n.HV; ++h)
    std::copy_n(&perKeyHead.values()[h / ratio * size], size, &result.values()[h * size]);
  return result;
}

static Tensor mapped(Tensor x, double (*f)(double)) {
  for (double &value : x.values())
    value = f(value);
  return x;
}

static double negativeSoftplus(double x) { return -softplus(x); }
static double logSigmoidOver16(double x) { return -softplus(-x) / 16; }
static double rwkv7Decay(double x) {
  // -e^-0.5, as the spec's f32 constant has it.
  return static_cast<float>(-0.60653066) * sigmoid(x);
}

template <typename Function>
void Oracle::visit(const Tokens &tokens, int64_t token, Function f) const {
  auto input = [&](const char *name) {
    const Tensor &all = tokens.inputs.at(name);
    Shape shape = all.shape();
    shape[0] = shape[1] = 1;
    Tensor one(shape);
    const size_t size = one.values().size();
    std::copy_n(&all.values()[token * size], size, one.values().begin());
    return one;
  };
  auto delta = [&](auto x) {
    x.sizes = n;
    x.q = input("q");
    x.k = input("k");
    x.v = input("v");
    x.b = input(op.beta == Beta::Logit ? "b" : "beta");
    x.normalize = op.normalize;
    x.beta = op.beta;
    x.betaFactor = op.betaFactor;
    x.scale = scale;
    return x;
  };
  auto gated = [&](auto x) {
    x = delta(x);
    x.gate = op.gate;
    x.lowerBound = op.lowerBound;
    x.a = input(op.gate == Gate::Precomputed ? "g" : "a");
    if (op.gate != Gate::Precomputed) {
      x.A_log = params.at("A_log");
      x.dt_bias = params.at("dt_bias");
    }
    return x;
  };
  if (op.name == "gdn")
    return f(gated(GatedDeltaNet()));
  if (op.name == "kda")
    return f(gated(KimiDeltaAttention()));
  if (op.name == "deltanet")
    return f(delta(DeltaNet()));
  if (op.name == "rwkv6") {
    RWKV6 x;
    x.sizes = n;
    x.r = input("r");
    x.k = input("k");
    x.v = input("v");
    x.w = spread(input("w"), 2);
    x.u = spread(params.at("u"), 0);
    x.scale = scale;
    return f(x);
  }
  if (op.name == "gla") {
    GatedLinearAttention x;
    x.sizes = n;
    x.q = input("q");
    x.k = input("k");
    x.v = input("v");
    x.g = spread(mapped(input("a"), logSigmoidOver16), 2);
    x.scale = scale;
    return f(x);
  }
  if (op.name == "mamba2") {
    Mamba2 x;
    x.sizes = n;
    x.C = input("q");
    x.B = input("k");
    x.x = input("v");
    x.dt = input("dt");
    x.A_log = params.at("A_log");
    x.dt_bias = params.at("dt_bias");
    x.D = params.at("D");
    return f(x);
  }
  if (op.name == "delta_product2") {
    GatedDeltaProduct x;
    x.sizes = n;
    x.steps = 2;
    x.q = input("q");
    x.g = mapped(input("a"), negativeSoftplus);
    x.scale = scale;
    auto join = [&](const char *first, const char *second) {
      const Tensor one = input(first), two = input(second);
      Shape shape = one.shape();
      shape.insert(shape.begin() + 2, 2);
      Tensor both(shape);
      std::copy(one.values().begin(), one.values().end(), both.values().begin());
      std::copy(two.values().begin(), two.values().end(),
                both.values().begin() + static_cast<std::ptrdiff_t>(one.values().size()));
      return both;
    };
    x.k = join("k0", "k1");
    x.v = join("v0", "v1");
    x.b = join("b0", "b1");
    return f(x);
  }
  if (op.name == "rwkv7") {
    RWKV7 x;
    x.sizes = n;
    x.r = input("q");
    x.k = input("k");
    x.v = input("v");
    x.w = spread(mapped(input("w"), rwkv7Decay), 2);
    x.a = x.b = input("kappa");
    const Tensor kappa = input("kappa"), eta = input("eta");
    for (int64_t h = 0; h < n.HQ; ++h) {
      const Vector direction = l2norm(kappa.vector({0, 0, h}));
      x.a.setVector({0, 0, h}, -direction);
      x.b.setVector({0, 0, h}, direction * eta.vector({0, 0, h}).apply(sigmoid));
    }
    x.scale = scale.value_or(1.0);
    return f(x);
  }
  throw std::invalid_argument("no recurrence for " + op.name);
}

std::vector<Vector> Oracle::step(const Tokens &tokens, int64_t token,
                                 std::vector<Matrix> &states) const {
  std::vector<Vector> outputs;
  visit(tokens, token, [&](auto x) {
    x.S = Tensor({1, n.HV, n.K, n.V});
    for (int64_t h = 0; h < n.HV; ++h)
      x.S.setMatrix({0, h}, states[h]);
    const Result result = run(x);
    for (int64_t h = 0; h < n.HV; ++h) {
      states[h] = result.S.matrix({0, h});
      outputs.push_back(result.o.vector({0, 0, h}));
    }
  });
  return outputs;
}

std::vector<AffineToken> Oracle::affine(const Tokens &tokens, int64_t token) const {
  std::vector<AffineToken> result;
  visit(tokens, token, [&](const auto &x) {
    for (int64_t h = 0; h < n.HV; ++h)
      result.push_back(recurrence::affine(x, Place{0, 0, h, h / (n.HV / n.HQ)}));
  });
  return result;
}

} // namespace dl::test
