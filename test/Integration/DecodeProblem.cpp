//===- DecodeProblem.cpp - Numbers for a kernel and what must come of them ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Decode.h"
#include "test/Reference/Random.h"
#include "tools/dl-run/Numbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace dl::test {

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

std::vector<Operator> shippedOperators() {
  return {{"gdn", Operator::GDN}, {"kda", Operator::KDA}, {"rwkv6", Operator::RWKV6}};
}

static Operator variantOf(Operator op, const char *suffix,
                          const std::function<void(Operator &)> &change) {
  op.package += suffix;
  change(op);
  return op;
}

std::vector<Operator> variants() {
  std::vector<Operator> result;
  for (const Operator &op : shippedOperators()) {
    auto add = [&](const char *suffix, const std::function<void(Operator &)> &change) {
      result.push_back(variantOf(op, suffix, change));
    };
    add("-f16", [](Operator &x) { x.io = DLK_F16; });
    add("-f32", [](Operator &x) { x.io = DLK_F32; });
    if (!op.isDelta()) {
      add("-raw", [](Operator &x) { x.rawDecay = true; });
      continue;
    }
    add("-plain", [](Operator &x) {
      x.gate = Gate::Precomputed;
      x.normalize = false;
      x.beta = Beta::Value;
    });
    add("-factor2", [](Operator &x) { x.betaFactor = 2; });
    add("-beta", [](Operator &x) { x.beta = Beta::Value; });
    add("-beta-f32", [](Operator &x) {
      x.beta = Beta::Value;
      x.io = DLK_F32;
    });
    if (op.kind != Operator::KDA)
      continue;
    auto bounded = [](Operator &x) {
      x.gate = Gate::Bounded;
      x.lowerBound = -3;
    };
    add("-bounded", bounded);
    add("-bounded-f32", [&](Operator &x) {
      bounded(x);
      x.io = DLK_F32;
    });
  }
  return result;
}

std::vector<Operator> typeVariants() {
  std::vector<Operator> result;
  for (const Operator &op : shippedOperators()) {
    auto add = [&](const char *suffix, const std::function<void(Operator &)> &change) {
      result.push_back(variantOf(op, suffix, change));
    };
    add("-state-bf16", [](Operator &x) { x.state = DLK_BF16; });
    add("-state-f16", [](Operator &x) { x.state = DLK_F16; });
    add("-i64", [](Operator &) {});
    add("-mixed", [](Operator &x) {
      // What engines hand over in f32 beside activations of 16 bits, and parameters in bf16.
      for (const char *wide : {"a", "b", "w"})
        x.types[wide] = DLK_F32;
      for (const char *narrow : {"A_log", "dt_bias", "u"})
        x.types[narrow] = DLK_BF16;
    });
  }
  return result;
}

Operator operatorOf(const std::string &package) {
  for (const auto &list : {shippedOperators(), variants(), typeVariants()})
    for (const Operator &op : list)
      if (op.package == package)
        return op;
  ADD_FAILURE() << "no operator " << package;
  return {};
}

//===----------------------------------------------------------------------===//
// Problems
//===----------------------------------------------------------------------===//

int64_t Problem::source(int64_t row) const {
  if (sources.empty())
    return row;
  const int64_t last = width(sources), number = accepted.empty() ? 1 : accepted[row];
  return sources[row * last + std::min(std::max<int64_t>(number, 1), last) - 1];
}

int64_t Problem::kept(int64_t row, int64_t t) const {
  const Span tokens = span(row);
  if (isNull(row))
    return -1;
  if (!keepsAll())
    return t + 1 == tokens.end - tokens.first ? destination(row) : -1;
  const int64_t last = width(destinations);
  return t < last && isSlot(destinations[row * last + t]) ? destinations[row * last + t] : -1;
}

int64_t Problem::checkpointAfter(int64_t row, int64_t tokens) const {
  if (checkpoints.empty() || isNull(row))
    return -1;
  const int64_t last = width(checkpoints);
  const int64_t offset = checkpointOffsets.empty() ? checkpointInterval : checkpointOffsets[row];
  const int64_t behind = tokens - std::max<int64_t>(offset, 0),
                number = behind / checkpointInterval;
  if (tokens < 1 || behind < 0 || behind % checkpointInterval != 0 || number >= last)
    return -1;
  const int64_t slot = checkpoints[row * last + number];
  return isSlot(slot) ? slot : -1;
}

std::set<int64_t> Problem::writtenSlots() const {
  std::set<int64_t> slots;
  for (int64_t row = 0; row < rows(); ++row) {
    if (isNull(row))
      continue;
    if (!keepsAll())
      slots.insert(destination(row));
    for (int64_t t = 0; keepsAll() && t < span(row).end - span(row).first; ++t)
      if (kept(row, t) >= 0)
        slots.insert(kept(row, t));
    for (int64_t t = 1; t <= span(row).end - span(row).first; ++t)
      if (checkpointAfter(row, t) >= 0)
        slots.insert(checkpointAfter(row, t));
  }
  return slots;
}

dlk_dtype Problem::dtypeOf(const std::string &name) const {
  if (auto given = op.types.find(name); given != op.types.end())
    return given->second;
  if (name == "g" || name == "A_log" || name == "dt_bias" || name == "u")
    return DLK_F32;
  return op.io;
}

static void addDeltaInputs(Problem &problem, Random &random) {
  const Operator &op = problem.op;
  const Sizes &n = problem.n;
  const bool perChannel = op.kind == Operator::KDA;
  Shape gate{n.B, n.T, n.HV}, bias{n.HV};
  if (perChannel) {
    gate.push_back(n.K);
    bias.push_back(n.K);
  }
  if (op.gate == Gate::Precomputed) {
    problem.tensors["g"] = random.uniform(gate, -2.0, 0.0);
  } else {
    problem.tensors["a"] = random.normal(gate);
    problem.tensors["A_log"] = random.normal({n.HV});
    problem.tensors["dt_bias"] = random.normal(bias);
  }
  problem.tensors[op.betaName()] = op.beta == Beta::Logit
                                       ? random.normal({n.B, n.T, n.HV})
                                       : random.uniform({n.B, n.T, n.HV}, 0.0, 1.0);
  if (!op.normalize) // long keys make the recurrence explode
    for (double &value : problem.tensors["k"].values())
      value *= 1 / std::sqrt(double(n.K));
}

Problem makeProblem(const Operator &op, Sizes n, const std::string &layout, uint64_t seed,
                    int64_t slots) {
  Random random(seed);
  Problem problem;
  problem.op = op;
  problem.n = n;
  problem.layout = layout;
  problem.tensors[op.query()] = random.normal({n.B, n.T, n.HQ, n.K});
  problem.tensors["k"] = random.normal({n.B, n.T, n.HQ, n.K});
  problem.tensors["v"] = random.normal({n.B, n.T, n.HV, n.V});
  problem.pool = random.normal({slots ? slots : n.B, n.HV, n.K, n.V});
  if (op.isDelta()) {
    addDeltaInputs(problem, random);
    return problem;
  }
  Tensor w = random.normal({n.B, n.T, n.HQ, n.K});
  if (op.kind == Operator::RWKV7) {
    for (const char *vector : {"kappa", "eta"})
      problem.tensors[vector] = random.normal({n.B, n.T, n.HQ, n.K});
    for (double &value : problem.tensors["k"].values()) // such keys are no units
      value *= 1 / std::sqrt(double(n.K));
  } else if (!op.rawDecay)
    for (double &value : w.values())
      value = -std::fabs(value);
  problem.tensors["w"] = w;
  if (op.kind == Operator::RWKV6)
    problem.tensors["u"] = random.normal({n.HQ, n.K});
  return problem;
}

static bool isParam(const std::string &name) {
  return name == "A_log" || name == "dt_bias" || name == "u";
}

Problem packRows(const Operator &op, Sizes n, const std::string &layout,
                 const std::vector<int64_t> &lengths, int64_t behind, uint64_t seed) {
  std::vector<int64_t> starts{0};
  for (int64_t length : lengths)
    starts.push_back(starts.back() + length);
  n.B = 1;
  n.T = starts.back() + behind;
  Problem problem = makeProblem(op, n, layout, seed, lengths.size());
  problem.starts = starts;
  return problem;
}

void fillTokens(Problem &problem, int64_t from, int64_t to, double value) {
  for (auto &[name, tensor] : problem.tensors)
    if (!isParam(name)) {
      const int64_t size = tensor.values().size() / (problem.n.B * problem.n.T);
      std::fill(&tensor.values()[from * size], &tensor.values()[to * size], value);
    }
}

/// Elements [from, from + count) along an axis.
static Tensor slice(const Tensor &x, size_t axis, int64_t from, int64_t count) {
  Shape shape = x.shape();
  int64_t inner = 1, outer = 1;
  for (size_t i = 0; i < shape.size(); ++i)
    (i < axis ? outer : inner) *= i == axis ? 1 : shape[i];
  const int64_t size = shape[axis];
  shape[axis] = count;
  Tensor result(shape);
  for (int64_t i = 0; i < outer; ++i)
    std::copy_n(x.values().data() + (i * size + from) * inner, count * inner,
                result.values().data() + i * count * inner);
  return result;
}

Problem rowOf(const Problem &problem, int64_t row) {
  Problem result = problem;
  const Span tokens = problem.span(row);
  for (auto &[name, tensor] : result.tensors)
    if (!isParam(name))
      tensor = slice(slice(tensor, 0, tokens.entry, 1), 1, tokens.first, tokens.end - tokens.first);
  result.n.B = 1;
  result.n.T = tokens.end - tokens.first;
  result.pool = slice(problem.pool, 0, problem.source(row), 1);
  if (!problem.hasState.empty() && !problem.hasState[row])
    result.pool = Tensor(result.pool.shape());
  for (auto *array :
       {&result.starts, &result.sources, &result.destinations, &result.accepted, &result.hasState})
    array->clear();
  return result;
}

Problem joinRows(const Problem &batch) {
  Problem result = batch;
  result.n.B = 1;
  result.n.T = batch.n.B * batch.n.T;
  for (int64_t row = 0; row <= batch.n.B; ++row)
    result.starts.push_back(row * batch.n.T);
  for (auto &[name, tensor] : result.tensors)
    if (!isParam(name)) {
      Shape shape = tensor.shape();
      shape[0] = 1;
      shape[1] = result.n.T;
      Tensor joined(shape);
      joined.values() = tensor.values();
      tensor = joined;
    }
  return result;
}

Problem tokensOf(const Problem &problem, int64_t from, int64_t count) {
  Problem result = problem;
  result.n.T = count;
  for (auto &[name, tensor] : result.tensors)
    if (!isParam(name))
      tensor = slice(tensor, 1, from, count);
  return result;
}

//===----------------------------------------------------------------------===//
// What must come of them
//===----------------------------------------------------------------------===//

/// Per key head to per value head along `axis`.
static Tensor spread(const Tensor &x, size_t axis, const Sizes &n) {
  Shape shape = x.shape();
  int64_t inner = 1;
  for (size_t i = axis + 1; i < shape.size(); ++i)
    inner *= shape[i];
  shape[axis] = n.HV;
  Tensor result(shape);
  for (size_t i = 0; i < result.values().size(); ++i) {
    const int64_t head = i / inner % n.HV, rest = i / (inner * n.HV);
    result.values()[i] = x.values()[(rest * n.HQ + head / (n.HV / n.HQ)) * inner + i % inner];
  }
  return result;
}

static Result runDelta(const Problem &problem, const Tensor &S) {
  const Operator &op = problem.op;
  const auto &tensors = problem.tensors;
  auto run = [&](auto x) {
    x.sizes = problem.n;
    x.q = tensors.at("q");
    x.k = tensors.at("k");
    x.v = tensors.at("v");
    x.a = tensors.at(op.gateName());
    x.b = tensors.at(op.betaName());
    if (op.gate != Gate::Precomputed) {
      x.A_log = tensors.at("A_log");
      x.dt_bias = tensors.at("dt_bias");
    }
    x.S = S;
    x.gate = op.gate;
    x.lowerBound = op.lowerBound;
    x.normalize = op.normalize;
    x.beta = op.beta;
    x.betaFactor = op.betaFactor;
    x.scale = problem.scale;
    return recurrence::run(x);
  };
  return op.kind == Operator::GDN ? run(GatedDeltaNet()) : run(KimiDeltaAttention());
}

static Result runRWKV6(const Problem &problem, const Tensor &S) {
  const auto &tensors = problem.tensors;
  RWKV6 x;
  x.sizes = problem.n;
  x.r = tensors.at("r");
  x.k = tensors.at("k");
  x.v = tensors.at("v");
  x.w = spread(tensors.at("w"), 2, problem.n);
  x.u = spread(tensors.at("u"), 0, problem.n);
  x.S = S;
  x.wIsRaw = problem.op.rawDecay;
  x.scale = problem.scale;
  return recurrence::run(x);
}

/// The published parameters: what examples/rwkv7.mlir computes of its inputs is computed here.
static Result runRWKV7(const Problem &problem, const Tensor &S) {
  const auto &tensors = problem.tensors;
  const Sizes &n = problem.n;
  RWKV7 x;
  x.sizes = n;
  x.r = tensors.at("q");
  x.k = tensors.at("k");
  x.v = tensors.at("v");
  Tensor w = tensors.at("w"), a = tensors.at("kappa");
  for (double &value : w.values())
    value = -std::exp(-0.5) * sigmoid(value);
  Tensor b = a;
  for (int64_t i = 0; i < n.B * n.T * n.HQ; ++i) {
    const int64_t entry = i / n.HQ / n.T, t = i / n.HQ % n.T, h = i % n.HQ;
    const Vector direction = l2norm(a.vector({entry, t, h})),
                 eta = tensors.at("eta").vector({entry, t, h});
    Vector removed = direction, written = direction;
    for (int64_t k = 0; k < n.K; ++k) {
      removed[k] = -direction[k];
      written[k] = direction[k] * sigmoid(eta[k]);
    }
    a.setVector({entry, t, h}, removed);
    b.setVector({entry, t, h}, written);
  }
  x.w = spread(w, 2, n);
  x.a = a;
  x.b = b;
  x.S = S;
  x.scale = problem.scale.value_or(1);
  return recurrence::run(x);
}

static Result runOperator(const Problem &problem, const Tensor &S) {
  return problem.op.isDelta()                 ? runDelta(problem, S)
         : problem.op.kind == Operator::RWKV7 ? runRWKV7(problem, S)
                                              : runRWKV6(problem, S);
}

/// Puts `from` where element `place` of the outer axes of `to` lies.
static void put(const Tensor &from, int64_t place, Tensor &to) {
  std::copy(from.values().begin(), from.values().end(), to.values().data() + place);
}

static Tensor rounded(Tensor x, dlk_dtype dtype) {
  for (double &value : x.values())
    value = run::roundTo(dtype, value);
  return x;
}

/// One row from its start state on; in one go, or token by token if every state is kept.
static void expectRow(const Problem &problem, int64_t row, Outcome &outcome) {
  const Sizes &n = problem.n;
  const Span tokens = problem.span(row);
  const int64_t slotSize = n.HV * n.K * n.V, tokenSize = n.HV * n.V;
  Problem rest = rowOf(problem, row);
  for (auto &[name, tensor] : rest.tensors)
    tensor = rounded(tensor, problem.dtypeOf(name));
  Tensor S = rounded(rest.pool, problem.op.state);
  const int64_t length = tokens.end - tokens.first;
  const bool byToken = problem.keepsAll() || !problem.checkpoints.empty();
  const int64_t step = byToken ? 1 : length;
  for (int64_t t = 0; t < length; t += step) {
    const Problem part = tokensOf(rest, t, step);
    const Result result = runOperator(part, S);
    put(result.o, (tokens.entry * n.T + tokens.first + t) * tokenSize, outcome.o);
    S = result.S;
    if (const int64_t slot = problem.kept(row, t + step - 1); slot >= 0)
      put(S, slot * slotSize, outcome.pool);
    if (const int64_t slot = problem.checkpointAfter(row, t + step); slot >= 0)
      put(S, slot * slotSize, outcome.pool);
  }
  if (length == 0 && !problem.keepsAll())
    put(S, problem.destination(row) * slotSize, outcome.pool);
}

Outcome expected(const Problem &problem) {
  Outcome outcome;
  outcome.o = Tensor({problem.n.B, problem.n.T, problem.n.HV, problem.n.V});
  outcome.pool = rounded(problem.pool, problem.op.state);
  for (int64_t row = 0; row < problem.rows(); ++row)
    if (!problem.isNull(row))
      expectRow(problem, row, outcome);
  return outcome;
}

//===----------------------------------------------------------------------===//
// Comparing
//===----------------------------------------------------------------------===//

static double rms(const double *values, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i)
    sum += values[i] * values[i];
  return count == 0 ? 0 : std::sqrt(sum / count);
}

/// `floor`: what the size of `want` counts as, at least.
static double rmsRatio(const double *got, const double *want, size_t count, double floor = 0) {
  std::vector<double> error(count);
  for (size_t i = 0; i < count; ++i) {
    if (!std::isfinite(got[i]))
      return INFINITY;
    error[i] = got[i] - want[i];
  }
  return rms(error.data(), count) / (std::max(rms(want, count), floor) + 1e-8);
}

double rmsRatio(const Tensor &got, const Tensor &want) {
  return got.shape() == want.shape()
             ? rmsRatio(got.values().data(), want.values().data(), got.values().size())
             : INFINITY;
}

bool sameBits(const Tensor &a, const Tensor &b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.values().data(), b.values().data(), a.values().size() * sizeof(double)) == 0;
}

void expectSameRow(const Problem &problem, int64_t row, const Outcome &got, const Outcome &alone,
                   int64_t slot) {
  const int64_t token = problem.n.HV * problem.n.V, state = token * problem.n.K;
  const Span span = problem.span(row);
  for (int64_t i = 0; i < (span.end - span.first) * token; ++i)
    ASSERT_EQ(got.o.values()[(span.entry * problem.n.T + span.first) * token + i],
              alone.o.values()[i])
        << "row " << row;
  for (int64_t i = 0; i < state; ++i)
    ASSERT_EQ(got.pool.values()[slot * state + i], alone.pool.values()[i]) << "row " << row;
}

WorstRatios &worstRatios() {
  static WorstRatios worst;
  return worst;
}

/// The ratio in each of `parts` equal parts, so that one wrong head does not drown in many.
static void expectPartsClose(const Tensor &got, const Tensor &want, int64_t parts, double limit,
                             double &worst, const char *what) {
  ASSERT_EQ(got.shape(), want.shape());
  if (parts == 0)
    return;
  const size_t size = got.values().size() / parts;
  for (int64_t i = 0; i < parts; ++i) {
    const double ratio = rmsRatio(&got.values()[i * size], &want.values()[i * size], size);
    worst = std::max(worst, ratio);
    EXPECT_LE(ratio, limit) << what << ", part " << i << " of " << parts;
  }
}

/// In each window of 64 tokens of a row and head, whose size counts as 1e-3 of all outputs' at
/// least.
static void expectWindowsClose(const Problem &problem, const Tensor &got, const Tensor &want,
                               double limit) {
  constexpr int64_t window = 64;
  const Sizes &n = problem.n;
  const double floor = 1e-3 * rms(want.values().data(), want.values().size());
  for (int64_t row = 0; row < problem.rows(); ++row) {
    const Span span = problem.span(row);
    for (int64_t first = span.first; first < span.end; first += window)
      for (int64_t h = 0; h < n.HV; ++h) {
        std::vector<double> a, b;
        for (int64_t t = first; t < std::min(first + window, span.end); ++t) {
          const int64_t place = ((span.entry * n.T + t) * n.HV + h) * n.V;
          a.insert(a.end(), &got.values()[place], &got.values()[place] + n.V);
          b.insert(b.end(), &want.values()[place], &want.values()[place] + n.V);
        }
        const double ratio = rmsRatio(a.data(), b.data(), a.size(), floor);
        worstRatios().windows = std::max(worstRatios().windows, ratio);
        EXPECT_LE(ratio, limit) << "row " << row << ", head " << h << ", tokens from "
                                << first - span.first << " on";
      }
  }
}

static void checkNumbers(const Problem &problem, const Outcome &got, const Outcome &want) {
  const Sizes &n = problem.n;
  const bool isPrefill = problem.op.kernel == "prefill";
  const double outputs = problem.op.io == DLK_F32 && !isPrefill ? 1e-5 : 5e-3;
  // Rounded once to 16 bits: 2^-9 / sqrt(3) or less.
  const double states = isPrefill ? 5e-3 : problem.op.state == DLK_F32 ? 1e-5 : 2.5e-3;
  WorstRatios &worst = worstRatios();
  const double outputRatio = rmsRatio(got.o, want.o), stateRatio = rmsRatio(got.pool, want.pool);
  worst.outputs = std::max(worst.outputs, outputRatio);
  worst.states = std::max(worst.states, stateRatio);
  EXPECT_LE(outputRatio, outputs) << "outputs";
  EXPECT_LE(stateRatio, states) << "states";
  if (isPrefill)
    expectWindowsClose(problem, got.o, want.o, 4 * outputs);
  else
    expectPartsClose(got.o, want.o, n.B * n.T * n.HV, 4 * outputs, worst.windows,
                     "outputs by row, token and head");
  expectPartsClose(got.pool, want.pool, got.pool.shape()[0] * n.HV, 4 * states, worst.heads,
                   "states by slot and head");
}

void check(const Problem &problem, const Outcome &got) {
  ASSERT_EQ(got.status, DLK_OK) << got.message;
  const Outcome want = expected(problem);
  checkNumbers(problem, got, want);
  for (int64_t row = 0; row < problem.rows(); ++row)
    if (problem.isNull(row)) {
      const Span tokens = problem.span(row);
      const Tensor o =
          slice(slice(got.o, 0, tokens.entry, 1), 1, tokens.first, tokens.end - tokens.first);
      EXPECT_TRUE(std::all_of(o.values().begin(), o.values().end(),
                              [](double value) { return value == 0; }))
          << "null row " << row;
    }
  const std::set<int64_t> written = problem.writtenSlots();
  for (int64_t slot = 0; slot < got.pool.shape()[0]; ++slot)
    if (!written.count(slot))
      EXPECT_TRUE(sameBits(slice(got.pool, 0, slot, 1), slice(want.pool, 0, slot, 1)))
          << "slot " << slot << " was not to be written";
}

void launchAndCheck(const Problem &problem, const LaunchOptions &options) {
  check(problem, launch(problem, options));
}

void expectRefused(const Problem &problem, const LaunchOptions &options, dlk_status status,
                   const std::string &message) {
  const Outcome outcome = launch(problem, options);
  EXPECT_EQ(outcome.status, status) << outcome.message;
  EXPECT_NE(outcome.message.find(message), std::string::npos) << outcome.message;
  EXPECT_EQ(outcome.message.find('\n'), std::string::npos) << outcome.message;
}

} // namespace dl::test
