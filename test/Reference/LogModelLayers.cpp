//===- LogModelLayers.cpp - The model of the log, for the test engine -----===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Reference/LogModelLayers.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <set>

namespace dl::deltalog {

static constexpr double tolerance = 1e-12;
static constexpr double garbage = std::numeric_limits<double>::quiet_NaN();

ModelLayers::ModelLayers(const Limits &limits, int64_t slots, uint64_t seed)
    : LogLayers(limits, slots), random(seed), cursors(slots) {
  for (const TestOperator &op : testOperators())
    layers.emplace_back(limits, slots, op.K, op.V);
}

void ModelLayers::note(double distance) {
  EXPECT_LE(distance, tolerance);
  worst = std::max(worst, distance);
}

LogLayers::States ModelLayers::zeroStates() const {
  States states;
  for (const TestOperator &op : testOperators())
    states.emplace_back(op.K, op.V);
  return states;
}

LogLayers::States ModelLayers::fillBases(int64_t slot) {
  States states;
  for (Pool &pool : layers) {
    Matrix &base = pool.base[slot];
    base = randomState(random, base.rows, base.cols);
    states.push_back(base);
  }
  return states;
}

void ModelLayers::scramble(int64_t slot, const Cursor &cursor) {
  for (Pool &pool : layers) {
    Matrix &base = pool.base[slot];
    base.values = garbage;
    for (Entry &entry : pool.ring[slot])
      entry = {{{Vector(garbage, base.rows), Vector(garbage, base.cols)}},
               Vector(garbage, base.rows)};
  }
  cursors[slot] = cursor;
}

void ModelLayers::copySlot(int64_t from, int64_t to) {
  for (Pool &pool : layers) {
    pool.base[to] = pool.base[from];
    pool.ring[to] = pool.ring[from];
  }
  cursors[to] = cursors[from];
}

//===----------------------------------------------------------------------===//
// A step
//===----------------------------------------------------------------------===//

template <typename Index> static Rows<Index> narrowed(const Rows<int64_t> &rows) {
  Rows<Index> result;
  auto copy = [](auto &from, auto &to) { to.assign(from.begin(), from.end()); };
  copy(rows.src, result.src);
  copy(rows.dst, result.dst);
  copy(rows.starts, result.starts);
  copy(rows.accepted, result.accepted);
  copy(rows.initial, result.initial);
  copy(rows.flush, result.flush);
  copy(rows.checkpointSlots, result.checkpointSlots);
  copy(rows.checkpointOffsets, result.checkpointOffsets);
  result.count = rows.count;
  result.tokens = static_cast<Index>(rows.tokens);
  result.firstSlot = rows.firstSlot;
  result.final = rows.final;
  return result;
}

std::vector<Descriptor> ModelLayers::planStep(const Rows<int64_t> &rows, int64_t behind) {
  int64_t packed = behind + (rows.starts.empty() ? rows.count * rows.tokens : rows.starts.back());
  drawn.assign(layers.size(), {});
  outputs.clear();
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    for (int64_t t = 0; t < packed; ++t)
      drawn[layer].push_back(testOperators()[layer].draw(random));
    outputs.emplace_back(packed, Vector(garbage, testOperators()[layer].V));
  }
  before = chance(0.1) ? layers : std::vector<Pool>();
  cursorsBefore = cursors;
  EXPECT_NO_THROW(check(limits, rows, cursors, slots, packed));
  descriptors =
      chance(0.5) ? plan(limits, rows, cursors) : plan(limits, narrowed<int32_t>(rows), cursors);
  return descriptors;
}

void ModelLayers::runLayers(bool hasTokens) {
  std::vector<Descriptor> shuffled = descriptors;
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    // Blocks of a launch run in any order.
    for (size_t i = shuffled.size(); i > 1; --i)
      std::swap(shuffled[i - 1], shuffled[size_t(random.uniform(0.0, double(i)))]);
    std::vector<AffineToken> tokens;
    for (const DrawnToken &token : drawn[layer])
      tokens.push_back(token.token);
    if (hasTokens || chance(0.5))
      append(layers[layer], shuffled, tokens, outputs[layer]);
    else
      merge(layers[layer], shuffled);
  }
}

void ModelLayers::expectOutputs(int64_t row, int32_t t, States &states) {
  int64_t token = descriptors[row].token + t;
  for (size_t layer = 0; layer < layers.size(); ++layer)
    note(distance(outputs[layer][token], drawn[layer][token].step(states[layer])));
}

void ModelLayers::expectZeroOutputs(int64_t row, int32_t t) {
  for (const std::vector<Vector> &output : outputs)
    EXPECT_EQ(distance(output[descriptors[row].token + t], Vector(0.0, output[0].size())), 0.0);
}

void ModelLayers::expectUntouched() {
  std::set<int64_t> written;
  for (const Descriptor &d : descriptors)
    if (!d.isNull()) {
      written.insert(d.dst);
      written.insert(d.checkpointSlot);
    }
  for (int64_t slot = 0; slot < slots; ++slot) {
    if (written.count(slot))
      continue;
    EXPECT_EQ(std::memcmp(&cursors[slot], &cursorsBefore[slot], sizeof(Cursor)), 0);
    for (size_t layer = 0; layer < before.size(); ++layer) {
      EXPECT_TRUE(isSameBits(layers[layer].base[slot].values, before[layer].base[slot].values));
      for (int32_t i = 0; i < limits.ring; ++i)
        EXPECT_TRUE(isSameBits(layers[layer].ring[slot][i].terms[0].b,
                               before[layer].ring[slot][i].terms[0].b));
    }
  }
}

void ModelLayers::expectBases(int64_t slot, const States &states) {
  for (size_t layer = 0; layer < layers.size(); ++layer)
    note(distance(layers[layer].base[slot].values, states[layer].values));
}

void ModelLayers::expectMaterialized(const std::vector<Wanted> &wanted) {
  for (const Wanted &w : wanted)
    for (size_t layer = 0; layer < layers.size(); ++layer)
      note(distance(materialize(layers[layer], cursors[w.slot], w.slot, w.count).values,
                    (*w.states)[layer].values));
}

} // namespace dl::deltalog
