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
  static const std::set<std::string> known = {"comba",        "deltanet", "gated_deltaproduct",
                                              "gdn",          "gdn2",     "gla",
                                              "hgrn2",        "kda",      "mamba2",
                                              "retnet",       "rwkv6",    "rwkv7",
                                              "two_key_delta"};
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
  if (name == "f")
    return drawLogit(random, 40, -30, -10000);
  if (name == "slope")
    return random.uniform(0, 1);
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

static Tensor mapped(Tensor x, double (*f)(double)) {
  for (double &value : x.values())
    value = f(value);
  return x;
}

static double logSigmoidOver16(double x) { return -softplus(-x) / 16; }
static double rwkv7Decay(double x) {
  // -e^-0.5, as the spec's f32 constant has it.
  return static_cast<float>(-0.60653066) * sigmoid(x);
}

namespace {
/// One token of all heads, as the recurrences take it.
class OneToken {
public:
  OneToken(const Oracle &oracle, const Tokens &tokens, int64_t token)
      : oracle(oracle), n(oracle.n), op(oracle.op), tokens(tokens), token(token) {}

  Tensor input(const char *name) const {
    const Tensor &all = tokens.inputs.at(name);
    Shape shape = all.shape();
    shape[0] = shape[1] = 1;
    Tensor one(shape);
    const size_t size = one.values().size();
    std::copy_n(&all.values()[token * size], size, one.values().begin());
    return one;
  }

  /// Sizes, q, k, v and scale.
  template <typename Operator> Operator plain() const {
    Operator x;
    x.sizes = n;
    x.q = input("q");
    x.k = input("k");
    x.v = input("v");
    x.scale = oracle.scale;
    return x;
  }

  template <typename Operator> Operator delta() const {
    auto x = plain<Operator>();
    x.b = input(op.beta == Beta::Logit ? "b" : "beta");
    x.normalize = op.normalize;
    x.beta = op.beta;
    x.betaFactor = op.betaFactor;
    return x;
  }

  template <typename Operator> Operator gated() const {
    auto x = delta<Operator>();
    x.gate = op.gate;
    x.lowerBound = op.lowerBound;
    x.a = input(op.gate == Gate::Precomputed ? "g" : "a");
    if (op.gate != Gate::Precomputed)
      addRates(x);
    return x;
  }

  RWKV6 rwkv6() const;
  RWKV7 rwkv7() const;
  GatedLinearAttention gla() const;
  Retention retnet() const;
  HGRN2 hgrn2() const;
  Mamba2 mamba2() const;
  GatedDeltaProduct gatedDeltaProduct() const;
  GatedDeltaNet2 gdn2() const;
  Comba comba() const;
  TwoKeyDelta twoKeyDelta() const;

private:
  const Tensor &param(const char *name) const { return oracle.params.at(name); }
  template <typename Operator> void addRates(Operator &x) const {
    x.A_log = param("A_log");
    x.dt_bias = param("dt_bias");
  }
  Tensor spread(const Tensor &perKeyHead, size_t axis) const;
  Tensor join(const char *first, const char *second) const;

  const Oracle &oracle;
  const Sizes &n;
  const LogOperator &op;
  const Tokens &tokens;
  const int64_t token;
};
} // namespace

/// From key heads to the value heads that they serve.
Tensor OneToken::spread(const Tensor &perKeyHead, size_t axis) const {
  Shape shape = perKeyHead.shape();
  shape[axis] = n.HV;
  const int64_t size = shape.back(), ratio = n.HV / n.HQ;
  Tensor result(shape);
  for (int64_t h = 0; h < n.HV; ++h)
    std::copy_n(&perKeyHead.values()[h / ratio * size], size, &result.values()[h * size]);
  return result;
}

/// Two inputs as the steps of one.
Tensor OneToken::join(const char *first, const char *second) const {
  const Tensor one = input(first), two = input(second);
  Shape shape = one.shape();
  shape.insert(shape.begin() + 2, 2);
  Tensor both(shape);
  std::copy(one.values().begin(), one.values().end(), both.values().begin());
  std::copy(two.values().begin(), two.values().end(),
            both.values().begin() + static_cast<std::ptrdiff_t>(one.values().size()));
  return both;
}

RWKV6 OneToken::rwkv6() const {
  RWKV6 x;
  x.sizes = n;
  x.r = input("r");
  x.k = input("k");
  x.v = input("v");
  x.w = spread(input("w"), 2);
  x.u = spread(param("u"), 0);
  x.scale = oracle.scale;
  return x;
}

RWKV7 OneToken::rwkv7() const {
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
  x.scale = oracle.scale.value_or(1.0);
  return x;
}

GatedLinearAttention OneToken::gla() const {
  auto x = plain<GatedLinearAttention>();
  x.g = spread(mapped(input("a"), logSigmoidOver16), 2);
  return x;
}

Retention OneToken::retnet() const {
  auto x = plain<Retention>();
  x.slope = param("slope");
  return x;
}

HGRN2 OneToken::hgrn2() const {
  HGRN2 x;
  x.sizes = n;
  x.q = input("q");
  x.f = input("f");
  x.v = input("v");
  x.scale = oracle.scale;
  return x;
}

Mamba2 OneToken::mamba2() const {
  Mamba2 x;
  x.sizes = n;
  x.C = input("q");
  x.B = input("k");
  x.x = input("v");
  x.dt = input("dt");
  addRates(x);
  x.D = param("D");
  return x;
}

GatedDeltaProduct OneToken::gatedDeltaProduct() const {
  GatedDeltaProduct x;
  x.sizes = n;
  x.steps = 2;
  x.q = input("q");
  x.g = input("a");
  for (int64_t h = 0; h < n.HV; ++h)
    x.g[{0, 0, h}] =
        logDecay(Gate::Softplus, x.g[{0, 0, h}], param("A_log")[{h}], param("dt_bias")[{h}], 0);
  x.scale = oracle.scale;
  x.k = join("k0", "k1");
  x.v = join("v0", "v1");
  x.b = join("b0", "b1");
  return x;
}

GatedDeltaNet2 OneToken::gdn2() const {
  auto x = plain<GatedDeltaNet2>();
  x.a = input("a");
  x.b = input("b");
  x.w = input("w");
  addRates(x);
  return x;
}

Comba OneToken::comba() const {
  auto x = plain<Comba>();
  x.p = input("p");
  x.a = input("a");
  x.b = input("b");
  addRates(x);
  x.D = param("D");
  return x;
}

TwoKeyDelta OneToken::twoKeyDelta() const {
  auto x = plain<TwoKeyDelta>();
  x.e = input("e");
  x.b = input("b");
  x.g = input("g");
  x.u = param("u");
  return x;
}

template <typename Function>
void Oracle::visit(const Tokens &tokens, int64_t token, Function f) const {
  const OneToken one(*this, tokens, token);
  if (op.name == "gdn")
    return f(one.gated<GatedDeltaNet>());
  if (op.name == "kda")
    return f(one.gated<KimiDeltaAttention>());
  if (op.name == "deltanet")
    return f(one.delta<DeltaNet>());
  if (op.name == "gated_deltaproduct")
    return f(one.gatedDeltaProduct());
  if (op.name == "gdn2")
    return f(one.gdn2());
  if (op.name == "comba")
    return f(one.comba());
  if (op.name == "two_key_delta")
    return f(one.twoKeyDelta());
  if (op.name == "gla")
    return f(one.gla());
  if (op.name == "retnet")
    return f(one.retnet());
  if (op.name == "hgrn2")
    return f(one.hgrn2());
  if (op.name == "mamba2")
    return f(one.mamba2());
  if (op.name == "rwkv6")
    return f(one.rwkv6());
  if (op.name == "rwkv7")
    return f(one.rwkv7());
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
