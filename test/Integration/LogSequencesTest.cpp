//===- LogSequencesTest.cpp - Long random lives of requests on kernels ----===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The engine of test/Reference, on kernels: all operators whose packages have the same window and
// tokens are layers of one model and share cursors, descriptors and slots. DL_LOG_STEPS sets the
// steps of each sequence, DL_LOG_SEED what happens in them.
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Log.h"
#include "test/Reference/LogTestEngine.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>

using namespace dl::test;
using dl::deltalog::LogLayers;
using dl::deltalog::TestEngine;

static int64_t numberFrom(const char *variable, int64_t otherwise) {
  const char *given = std::getenv(variable); // NOLINT(concurrency-mt-unsafe)
  return given ? std::strtoll(given, nullptr, 10) : otherwise;
}

namespace {
class KernelLayers : public LogLayers {
public:
  KernelLayers(const std::vector<const LogKernels *> &kernels, int64_t slots, uint64_t seed)
      : LogLayers(kernels.front()->limits, slots), random(seed) {
    // The cursors are everybody's: any of the packages can plan.
    for (const LogKernels *one : kernels)
      planners.push_back(std::make_unique<LogPlanner>(*one, slots));
    for (auto &planner : planners)
      planner->cursors = planners.front()->cursors;
    const std::pair<int64_t, int64_t> heads[] = {{1, 1}, {1, 2}, {2, 2}, {1, 3}, {2, 4}};
    for (size_t i = 0; i < kernels.size(); ++i) {
      Placing placing;
      placing.isPaged = i % 2;
      placing.padding = static_cast<int64_t>(i % 3);
      const auto [HQ, HV] = heads[(i + seed) % 5];
      layers.push_back(
          std::make_unique<LogLayer>(*kernels[i], HQ, HV, slots, 1000 * seed + i, placing));
    }
  }

  States zeroStates() const override {
    States states;
    for (const auto &layer : layers)
      for (const Matrix &state : layer->zeros())
        states.push_back(state);
    return states;
  }

  States fillBases(int64_t slot) override {
    States states;
    for (const auto &layer : layers)
      for (const Matrix &state : layer->fillBase(slot))
        states.push_back(state);
    return states;
  }

  void scramble(int64_t slot, const Cursor &cursor) override {
    for (const auto &layer : layers)
      layer->scramble(slot);
    planners.front()->setCursor(slot, cursor);
  }

  void copySlot(int64_t from, int64_t to) override {
    for (const auto &layer : layers)
      layer->copySlot(from, to);
    planners.front()->setCursor(to, planners.front()->cursor(from));
  }

  std::vector<Descriptor> planStep(const Rows<int64_t> &given, int64_t behind) override {
    rows = given;
    planner = planners[pick(planners.size())].get();
    planner->plan(rows);
    choosePlaces(behind);
    tokens.clear();
    for (const auto &layer : layers) {
      const auto count = static_cast<int64_t>(places.size());
      const Tokens drawn = layer->draw(1, count);
      std::vector<int64_t> list;
      for (int64_t i = 0; i < count; ++i)
        list.push_back(places[i] ? i : -1);
      tokens.push_back(tokensOf(drawn, list, B));
    }
    return planner->rows;
  }

  void runLayers(bool hasTokens) override {
    outputs.clear();
    const bool isMerge = !hasTokens && chance(0.5);
    for (size_t i = 0; i < layers.size(); ++i) {
      if (isMerge) {
        layers[i]->merge(*planner);
        outputs.emplace_back();
        continue;
      }
      LaunchOptions options;
      options.placing.padding = static_cast<int64_t>(pick(3));
      outputs.push_back(layers[i]->append(*planner, tokens[i], options));
    }
  }

  void expectOutputs(int64_t row, int32_t t, States &states) override {
    size_t head = 0;
    for (size_t i = 0; i < layers.size(); ++i) {
      const LogLayer &layer = *layers[i];
      auto first = states.begin() + static_cast<std::ptrdiff_t>(head);
      const std::vector<Matrix> before(first, first + layer.n.HV);
      std::vector<Matrix> own = before;
      const int64_t place = placeOf(row, t);
      const std::vector<Vector> want = layer.step(tokens[i], place, own);
      note(i, outputError(layer, tokens[i], place, before, want, outputs[i]), "output");
      std::copy(own.begin(), own.end(), first);
      head += layer.n.HV;
    }
  }

  void expectZeroOutputs(int64_t row, int32_t t) override {
    for (const Tensor &output : outputs)
      expectZeros(output, placeOf(row, t), 1);
  }

  /// Each launch has compared all bytes with what was there before.
  void expectUntouched() override {}

  void expectBases(int64_t slot, const States &states) override {
    size_t head = 0;
    for (size_t i = 0; i < layers.size(); ++i)
      note(i, stateError(layers[i]->kernels, layers[i]->base(slot), part(states, i, head)), "base");
  }

  void expectMaterialized(const std::vector<Wanted> &wanted) override {
    Materialization asked;
    asked.rows = static_cast<int64_t>(wanted.size());
    for (const Wanted &w : wanted) {
      asked.slots.push_back(w.slot);
      asked.counts.push_back(w.count);
    }
    std::vector<size_t> heads(wanted.size());
    for (size_t i = 0; i < layers.size(); ++i) {
      const std::vector<std::vector<Matrix>> got = layers[i]->materialize(*planners.front(), asked);
      for (size_t w = 0; w < wanted.size(); ++w)
        note(i, stateError(layers[i]->kernels, got[w], part(*wanted[w].states, i, heads[w])),
             "materialized state");
    }
  }

  /// The worst distance of each kind in each layer, as a part of its limit.
  std::map<std::string, double> worstOf;

private:
  bool chance(double probability) { return random.uniform(0, 1) < probability; }
  size_t pick(size_t count) {
    return std::min(count - 1, static_cast<size_t>(random.uniform(0, double(count))));
  }

  void note(size_t layer, double error, const char *what) {
    EXPECT_LE(error, 1) << layers[layer]->title() << ": " << what;
    worst = std::max(worst, error);
    double &own = worstOf[layers[layer]->title() + ", " + what];
    own = std::max(own, error);
  }

  /// The layer's own states; `head` moves on behind them.
  std::vector<Matrix> part(const States &states, size_t layer, size_t &head) const {
    auto first = states.begin() + static_cast<std::ptrdiff_t>(head);
    head += layers[layer]->n.HV;
    return {first, first + layers[layer]->n.HV};
  }

  /// How the rows' tokens lie in memory: one behind the other, or each row an entry of a batch.
  void choosePlaces(int64_t behind) {
    int64_t longest = rows.starts.empty() ? rows.tokens : 0;
    for (int64_t row = 0; row < rows.count && !rows.starts.empty(); ++row)
      longest = std::max(longest, rows.starts[row + 1] - rows.starts[row]);
    const bool isBatch = rows.count > 1 && chance(rows.starts.empty() ? 0.7 : 0.3);
    B = isBatch ? rows.count : 1;
    T = isBatch               ? longest
        : rows.starts.empty() ? rows.count * rows.tokens
                              : rows.starts.back() + behind;
    places.assign(B * T, false);
    for (int64_t row = 0; row < rows.count; ++row)
      for (int32_t t = 0; t < planner->rows[row].tokens; ++t)
        places[placeOf(row, t)] = true;
  }

  int64_t placeOf(int64_t row, int32_t t) const {
    return B > 1 ? row * T + t : planner->rows[row].token + t;
  }

  Random random;
  std::vector<std::unique_ptr<LogPlanner>> planners;
  std::vector<std::unique_ptr<LogLayer>> layers;

  // The step at hand.
  Rows<int64_t> rows;
  LogPlanner *planner = nullptr;
  int64_t B = 0, T = 0;
  std::vector<bool> places; ///< which tokens of the batch belong to a row; others are NaN
  std::vector<Tokens> tokens;
  std::vector<Tensor> outputs;
};
} // namespace

TEST(LogSequences, AgreeWithTheRecurrences) {
  std::map<std::pair<int32_t, int32_t>, std::vector<const LogKernels *>> models;
  for (const LogKernels &kernels : allLogKernels())
    if (kernels.K * kernels.V <= 96 * 64)
      models[{kernels.limits.window, kernels.limits.maxTokens}].push_back(&kernels);
  if (models.empty())
    GTEST_SKIP() << "there is no package with the kernels of a log";
  const int64_t steps = numberFrom("DL_LOG_STEPS", 256);
  const auto seed = static_cast<uint64_t>(numberFrom("DL_LOG_SEED", 1));
  std::map<std::string, int64_t> seen; // in all of them
  for (const auto &[limits, kernels] : models) {
    SCOPED_TRACE("window " + std::to_string(limits.first) + ", tokens " +
                 std::to_string(limits.second));
    KernelLayers layers(kernels, /*slots=*/14, seed);
    TestEngine engine(layers, seed);
    for (int64_t step = 0; step < steps; ++step) {
      engine.step();
      ASSERT_FALSE(HasFailure()) << "in step " << step;
    }
    for (const auto &[layer, worst] : layers.worstOf)
      std::cout << "  " << layer << ": at most " << worst << " of the limit\n";
    if (steps >= 512)
      engine.expectEverythingSeen();
    for (const auto &[event, count] : engine.seen)
      seen[event] += count;
  }
  if (steps * static_cast<int64_t>(models.size()) >= 1024)
    TestEngine::expectEverythingSeen(seen);
}
