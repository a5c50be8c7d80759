//===- LogNumericsTest.cpp - What is in a log, and errors over time -------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Log.h"

#include <algorithm>
#include <cmath>

using namespace dl::test;

/// A field of a log by one of its names.
static const Array *field(const LogLayer &layer, const std::vector<std::string> &names) {
  for (const std::string &name : names)
    if (auto found = layer.log.find(name); found != layer.log.end())
      return &found->second;
  return nullptr;
}

/// Numbers of an entry: of value head h, of its key head, or of both.
static Vector numbers(const LogLayer &layer, const Array &array, int64_t slot, int64_t h,
                      int64_t entry) {
  const int64_t heads = array.shape[1], R = array.shape[2];
  const int64_t size = array.shape.size() > 3 ? array.shape[3] : 1;
  const int64_t head = heads == layer.n.HV ? h : h / (layer.n.HV / layer.n.HQ);
  Vector result(size);
  for (int64_t i = 0; i < size; ++i)
    result[i] = array.get(((slot * heads + head) * R + entry) * size + i);
  return result;
}

/// S = exp(G_n) S0 + sum_j exp(G_n - G_j) k_j u_j^T, from what is stored.
static States replay(const Log &log, int64_t slot, const Array &keys, const Array &values,
                     const Array &clocks) {
  const auto now = standing(log, slot);
  States states = log.layer.base(slot);
  auto place = [&](int32_t i) { return dl::deltalog::wrap(log.planner.limits, now.start + i); };
  for (int64_t h = 0; h < log.layer.n.HV && now.length; ++h) {
    const Vector last = numbers(log.layer, clocks, slot, h, place(now.length - 1));
    auto decay = [&](const Vector &x) {
      return x.size() == 1 ? Vector(std::exp(x[0]), log.layer.n.K) : Vector(std::exp(x));
    };
    scaleRows(states[h], decay(last));
    for (int32_t i = 0; i < now.length; ++i)
      write(states[h],
            decay(last - numbers(log.layer, clocks, slot, h, place(i))) *
                numbers(log.layer, keys, slot, h, place(i)),
            numbers(log.layer, values, slot, h, place(i)));
  }
  return states;
}

/// GDN with a window of 16 and a ring of 32: histories of 0, 12 and 13 entries from five places of
/// the ring on, four new tokens. The ring's other entries stay, which `append` looks at.
static void checkReplay(const LogKernels &kernels) {
  ASSERT_EQ(kernels.limits.ring, 32);
  std::vector<std::pair<int64_t, int32_t>> cases;
  for (int64_t P : {0, 12, 13})
    for (int32_t base : {0, 28, 5, 30, 17})
      cases.emplace_back(P, base);
  cases.emplace_back(16, 31); // four launches of B = 4 rows
  for (size_t first = 0; first < cases.size(); first += 4) {
    std::vector<int64_t> lengths;
    std::vector<int32_t> starts;
    for (size_t i = first; i < first + 4; ++i) {
      lengths.push_back(cases[i].first);
      starts.push_back(cases[i].second);
    }
    Log log(kernels, 16, kernels.isModel() ? 16 : 64, 4, 63 + first);
    const Array *keys = field(log.layer, {"log_k", "log_key"});
    const Array *values = field(log.layer, {"log_value"});
    const Array *clocks = field(log.layer, {"log_decay"});
    ASSERT_TRUE(keys && values && clocks) << "the fields of GDN's log have other names";
    const std::vector<States> before = fillLogs(log, lengths, starts);
    const Tokens tokens = log.layer.draw(4, 4);
    const Tensor outputs = log.step(inPlace(4, 4), tokens);
    for (int64_t row = 0; row < 4; ++row) {
      SCOPED_TRACE("P " + std::to_string(lengths[row]) + " base " + std::to_string(starts[row]));
      EXPECT_EQ(log.planner.rows[row].merge == Merge::Before, lengths[row] + 4 > 16);
      States state = before[row];
      for (int64_t t = row * 4; t < row * 4 + 4; ++t) {
        const States prior = state;
        const std::vector<Vector> want = log.layer.step(tokens, t, state);
        EXPECT_LE(outputError(log.layer, tokens, t, prior, want, outputs), 1) << "token " << t;
        double worst = 0, size = 0;
        for (size_t h = 0; h < want.size(); ++h)
          for (size_t v = 0; v < want[h].size(); ++v) {
            const double got = outputs.values()[(t * want.size() + h) * want[h].size() + v];
            worst = std::max(worst, std::fabs(got - want[h][v]));
            size = std::max(size, std::fabs(want[h][v]));
          }
        EXPECT_LT(worst, 8e-3 * std::max(1.0, size)) << "token " << t;
      }
      const States replayed = replay(log, row, *keys, *values, *clocks);
      EXPECT_LE(rmsRatio(replayed, state), 2e-2);
      expectStates(kernels, replayed, state, "replay");
    }
    std::vector<States> all;
    for (int64_t row = 0; row < 4; ++row)
      all.push_back(replay(log, row, *keys, *values, *clocks));
    expectSlots(log, all, "materialized, slot");
  }
}

TEST(LogNumerics, ReplayOfTheRingR063) {
  bool hasAny = false;
  for (const LogKernels &kernels : allLogKernels()) {
    if (kernels.op.name != "gdn" || kernels.limits.window != 16 || kernels.limits.maxTokens != 16)
      continue;
    hasAny = true;
    SCOPED_TRACE(kernels.title);
    checkReplay(kernels);
  }
  if (!hasAny)
    GTEST_SKIP() << "there is no package of GDN with a window and steps of 16";
}

/// The same formula for every operator whose log has one key, one value and the sum of decays.
TEST(LogNumerics, ReplayOfAnyLog) {
  bool hasAny = false;
  forKernels([&](const LogKernels &kernels) {
    Log log(kernels, 1, 2, 2);
    const Array *keys = field(log.layer, {"log_k", "log_key"});
    const Array *values = field(log.layer, {"log_v", "log_value"});
    const Array *clocks = field(log.layer, {"log_decay"});
    if (!keys || !values || !clocks || log.layer.log.size() != 3)
      return;
    hasAny = true;
    const int64_t L = kernels.limits.longestLog();
    const std::vector<States> states = fillLogs(log, {L, L / 2}, {kernels.limits.ring - 1, 0});
    for (int64_t slot = 0; slot < 2; ++slot)
      expectStates(kernels, replay(log, slot, *keys, *values, *clocks), states[slot], "replay");
  });
  if (!hasAny && !allLogKernels().empty())
    GTEST_SKIP() << "no log has just these fields";
}

//===----------------------------------------------------------------------===//
// Errors over time
//===----------------------------------------------------------------------===//

/// Tokens of GDN with g = -0.01: the state remembers about 100 of them, so errors stay for a while.
static void makeWeaklyDecaying(LogLayer &layer, Tokens &tokens) {
  if (layer.kernels.op.gate == Gate::Precomputed) {
    for (double &value : tokens.inputs.at("g").values())
      value = -0.01;
    Tensor &k = tokens.inputs.at("k"); // unit keys, up to their rounding
    for (int64_t h = 0; h < k.shape()[2]; ++h) {
      Vector key = k.vector({0, 0, h});
      key /= std::sqrt((key * key).sum());
      k.setVector({0, 0, h}, key);
    }
    return;
  }
  for (double &value : tokens.inputs.at("a").values())
    value = 0;
}

/// 16 and 64 fills of a window of 16, each merged when the next token finds it full.
TEST(LogNumerics, ErrorsDoNotGrowWithTheNumberOfMergesR066) {
  bool hasAny = false;
  for (const LogKernels &kernels : allLogKernels()) {
    if (kernels.op.name != "gdn" || kernels.op.gate == Gate::Bounded ||
        kernels.limits.window != 16 || kernels.K * kernels.V > 96 * 64)
      continue;
    hasAny = true;
    SCOPED_TRACE(kernels.title);
    Log log(kernels, 1, 2, 1, 66);
    if (kernels.op.gate == Gate::Softplus) {
      for (double &value : log.layer.params().at("A_log").values())
        value = std::log(0.01 / std::log(2.0)); // softplus(0) = log 2
      for (double &value : log.layer.params().at("dt_bias").values())
        value = 0;
      log.layer.updateParams();
    }
    States state = fillLogs(log, {0}).front();
    double after16 = 0;
    int64_t merges = 0;
    for (int64_t t = 0; t < 64 * 16; ++t) {
      Tokens tokens = log.layer.draw(1, 1);
      makeWeaklyDecaying(log.layer, tokens);
      log.layer.roundToMemory(tokens);
      log.step(inPlace(1, 1), tokens);
      log.layer.step(tokens, 0, state);
      merges += log.planner.rows[0].merge == Merge::Before;
      if (t == 16 * 16 - 1)
        after16 = rmsRatio(log.state(0), state);
    }
    const double after64 = rmsRatio(log.state(0), state);
    EXPECT_EQ(merges, 63);
    EXPECT_LE(after64, kernels.state == DLK_F32 ? 5e-3 : 2e-2);
    if (kernels.state == DLK_F32 && !kernels.isNarrowLog) {
      EXPECT_LE(after64, 1e-5);
      EXPECT_LE(after64, 1.5 * after16 + 1e-7);
    }
    ::testing::Test::RecordProperty(kernels.title, std::to_string(after64 * 1e6) + "e-6");
  }
  if (!hasAny)
    GTEST_SKIP() << "there is no package of GDN with a window of 16";
}

/// Every token a reset, or half of them: what lies before one has no weight, however far the sum of
/// decays has run.
TEST(LogNumerics, DecaysBeyondTheExponentAreResets) {
  forKernels([](const LogKernels &kernels) {
    const std::string gate = kernels.op.name == "rwkv6" ? "w" : "g";
    const int64_t T = kernels.limits.maxTokens, L = kernels.limits.longestLog();
    Log log(kernels, 1, 2, 2);
    Tokens probe = log.layer.draw(1, 1);
    if (!probe.inputs.count(gate))
      return;
    for (const double decay : {-104.0, -1000.0, double(-INFINITY)}) {
      SCOPED_TRACE("decay " + std::to_string(decay));
      std::vector<States> states = fillLogs(log, {0, 0});
      for (int64_t step = 0; step * T < 2 * L; ++step) {
        Tokens tokens = log.layer.draw(2, T);
        std::vector<double> &g = tokens.inputs.at(gate).values();
        for (size_t i = 0; i < g.size(); ++i) // all of row 0, some of row 1
          if (i < g.size() / 2 || i % 3 == 0)
            g[i] = decay;
        const Tensor outputs = log.step(inPlace(2, T), tokens);
        for (int64_t row = 0; row < 2; ++row)
          states[row] = expectSerial(log.layer, tokens, row * T, T, states[row], outputs).back();
      }
      expectSlots(log, states, "slot");
    }
  });
}

TEST(LogNumerics, OutputsAreLinearInTheScaleR098) {
  forKernels([](const LogKernels &kernels) {
    const auto &names = kernels.append->scalars;
    if (!std::count(names.begin(), names.end(), "scale"))
      return;
    const int64_t T = kernels.limits.maxTokens;
    std::vector<Tensor> outputs;
    for (const double scale : {1.0, 2.0, 0.3}) {
      Log log(kernels, 1, 2, 1);
      log.layer.setScale(scale);
      const States before = fillLogs(log, {2}).front();
      const Tokens tokens = log.layer.draw(1, T);
      outputs.push_back(log.step(inPlace(1, T), tokens));
      expectSerial(log.layer, tokens, 0, T, before, outputs.back());
    }
    for (size_t i = 0; i < outputs[0].values().size(); ++i)
      EXPECT_EQ(outputs[1].values()[i], 2 * outputs[0].values()[i]);
  });
}
