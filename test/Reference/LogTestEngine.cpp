//===- LogTestEngine.cpp - An engine that does everything, at random ------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Reference/LogTestEngine.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <utility>

namespace dl::deltalog {

static constexpr int64_t firstSlot = 1;
static constexpr size_t mostRequests = 5;
static constexpr size_t mostCached = 3;

TestEngine::TestEngine(LogLayers &layers, uint64_t seed)
    : layers(layers), limits(layers.limits), random(seed) {
  for (int64_t slot = 0; slot < layers.slots; ++slot) {
    scramble(slot);
    if (slot >= firstSlot)
      freeSlots.insert(slot);
  }
}

int64_t TestEngine::pick(int64_t low, int64_t high) {
  return std::min(
      high, low + static_cast<int64_t>(random.uniform(0.0, static_cast<double>(high - low + 1))));
}

template <typename T> void TestEngine::shuffle(std::vector<T> &values) {
  for (size_t i = values.size(); i > 1; --i)
    std::swap(values[i - 1], values[pick(0, static_cast<int64_t>(i) - 1)]);
}

int64_t TestEngine::takeFreeSlot() {
  auto slot = std::next(freeSlots.begin(), pick(0, static_cast<int64_t>(freeSlots.size()) - 1));
  return freeSlots.extract(slot).value();
}

void TestEngine::release(int64_t slot) {
  scramble(slot);
  freeSlots.insert(slot);
}

/// Nobody may rely on what a free slot holds, neither numbers nor integers.
void TestEngine::scramble(int64_t slot) {
  layers.scramble(slot, {static_cast<int32_t>(pick(-9, 99)), static_cast<int32_t>(pick(-9, 99)),
                         static_cast<int32_t>(pick(-9, 99)), Merge::Before});
}

//===----------------------------------------------------------------------===//
// Between steps
//===----------------------------------------------------------------------===//

void TestEngine::betweenSteps() {
  if (!requests.empty() && chance(0.1)) {
    size_t index = pick(0, static_cast<int64_t>(requests.size()) - 1);
    release(requests[index].slot);
    requests.erase(requests.begin() + static_cast<std::ptrdiff_t>(index));
    ++seen["ended"];
  }
  if (cache.size() >= mostCached || (!cache.empty() && chance(0.03))) {
    release(cache.front().slot);
    cache.erase(cache.begin());
  }
  if (!requests.empty() && !freeSlots.empty() && chance(0.05))
    swap(requests[pick(0, static_cast<int64_t>(requests.size()) - 1)]);
  std::vector<LogLayers::Wanted> wanted;
  for (const Request &request : requests)
    if (chance(0.1))
      addWanted(request, wanted);
  for (const Request &prefix : cache)
    if (chance(0.1))
      addWanted(prefix, wanted);
  if (!wanted.empty())
    layers.expectMaterialized(wanted);
}

/// Out and in again elsewhere, with log, drafts and cursor as they are.
void TestEngine::swap(Request &request) {
  int64_t slot = takeFreeSlot();
  layers.copySlot(request.slot, slot);
  release(request.slot);
  request.slot = slot;
  ++seen["swapped"];
}

/// Every state that its slot can give, drafts included.
void TestEngine::addWanted(const Request &request, std::vector<LogLayers::Wanted> &wanted) {
  if (request.initial != Stored)
    return;
  std::vector<States> states = request.accepted;
  states.insert(states.end(), request.drafts.begin(), request.drafts.end());
  for (size_t count = 0; count < states.size(); ++count)
    wanted.push_back({request.slot, static_cast<int64_t>(count), states[count]});
  ++seen["materialized"];
}

//===----------------------------------------------------------------------===//
// The rows of a step
//===----------------------------------------------------------------------===//

void TestEngine::chooseRows() {
  rows.clear();
  emptied.clear();
  isFinal = chance(0.3);
  isUniform = chance(0.2);
  uniformTokens = static_cast<int32_t>(pick(0, limits.maxTokens));
  if (isFinal && chance(0.7))
    uniformTokens = 1;
  for (size_t i = 0, count = requests.size(); i < count; ++i)
    if (chance(0.75))
      addRequestRow(i);
    else
      ++seen["sat out"];
  for (int64_t i = pick(0, 2); i > 0; --i)
    addNewcomer();
  addPadding();
  shuffle(rows);
}

/// In place, to another slot, or into two that continue differently.
void TestEngine::addRequestRow(size_t index) {
  Request request = requests[index];
  bool canMove = freeSlots.size() >= 3; // two, and one for a checkpoint
  if (!canMove || chance(0.85)) {
    addRow(request, request.slot);
    requests[index].slot = -1;
    return;
  }
  if (requests.size() >= mostRequests || chance(0.5)) {
    addRow(request, takeFreeSlot());
    ++seen["moved"];
  } else {
    addRow(request, takeFreeSlot());
    addRow(request, takeFreeSlot());
    ++seen["forked"];
    // The parent may go on too, one day, with an acceptance of its own.
    if (chance(0.5)) {
      ++seen["parent kept"];
      return;
    }
  }
  emptied.push_back(request.slot);
  requests[index].slot = -1;
}

void TestEngine::addNewcomer() {
  auto waiting = std::count_if(requests.begin(), requests.end(),
                               [](const Request &request) { return request.slot >= 0; });
  if (rows.size() + waiting >= mostRequests || freeSlots.size() < 2)
    return;
  Request request;
  double kind = random.uniform(0.0, 1.0);
  if (!cache.empty() && kind < 0.4) {
    addRow(cache[pick(0, static_cast<int64_t>(cache.size()) - 1)], takeFreeSlot());
    ++seen["from a prefix"];
    return;
  }
  request.slot = takeFreeSlot();
  request.accepted.push_back(std::make_shared<LogLayers::States>(
      kind < 0.7 ? layers.fillBases(request.slot) : layers.zeroStates()));
  request.initial = kind < 0.7 ? BaseOnly : Zero;
  ++seen[kind < 0.7 ? "from a base" : "fresh"];
  addRow(request, request.slot);
}

void TestEngine::addRow(Request request, int64_t dst) {
  Row row;
  row.src = request.slot;
  row.dst = dst;
  row.request = std::move(request);
  // What a fresh row names as its source does not matter, if it is a slot.
  if (row.request.initial == Zero)
    row.src = pick(firstSlot, layers.slots - 1);
  row.tokens = isUniform ? uniformTokens : static_cast<int32_t>(pick(0, limits.maxTokens));
  if (!isUniform && chance(0.4))
    row.tokens = 1;
  row.told = chooseAcceptance(row.request);
  row.flush = chance(0.05);
  if (row.request.initial != Zero && !freeSlots.empty() && chance(0.2))
    chooseCheckpoint(row);
  rows.push_back(row);
}

int32_t TestEngine::chooseAcceptance(const Request &request) {
  auto pending = static_cast<int32_t>(request.drafts.size());
  if (request.initial != Stored)
    return static_cast<int32_t>(pick(-3, 20)); // Nobody looks.
  if (request.isInBase || (pending == 0 && chance(0.5)))
    return 1;
  if (request.isFinal || chance(0.4))
    return pending;
  return chance(0.3) ? 0 : static_cast<int32_t>(pick(0, pending));
}

void TestEngine::chooseCheckpoint(Row &row) {
  const Request &request = row.request;
  row.checkpointSlot = takeFreeSlot();
  int64_t committed = static_cast<int64_t>(request.accepted.size()) - 1;
  int64_t least = request.isInBase ? 1 : chance(0.5) ? -committed : 0;
  int64_t most = std::max(least, static_cast<int64_t>(request.drafts.size()));
  // Now and then a boundary that is still far.
  row.checkpointOffset = static_cast<int32_t>(pick(least, most) + (chance(0.1) ? 7 : 0));
}

/// Null rows with tokens, null rows without.
void TestEngine::addPadding() {
  for (int64_t i = pick(0, 2); i > 0; --i) {
    Row row;
    row.isNull = true;
    row.src = pick(-2, firstSlot - 1);
    row.dst = chance(0.5) ? row.src : pick(-2, firstSlot - 1);
    row.tokens = isUniform     ? uniformTokens
                 : chance(0.5) ? 0
                               : static_cast<int32_t>(pick(0, limits.maxTokens));
    row.told = static_cast<int32_t>(pick(-3, 20));
    rows.push_back(row);
    ++seen["null rows"];
  }
}

//===----------------------------------------------------------------------===//
// A step
//===----------------------------------------------------------------------===//

Rows<int64_t> TestEngine::arguments() {
  Rows<int64_t> result;
  result.count = static_cast<int64_t>(rows.size());
  result.firstSlot = firstSlot;
  result.final = isFinal;
  result.tokens = uniformTokens;
  if (!isUniform)
    result.starts.push_back(0);
  bool acceptsAll = true;
  for (const Row &row : rows) {
    result.src.push_back(row.src);
    result.dst.push_back(row.dst);
    if (!isUniform)
      result.starts.push_back(result.starts.back() + row.tokens);
    result.accepted.push_back(row.told);
    result.initial.push_back(row.request.initial);
    result.flush.push_back(row.flush ? 1 : 0);
    result.checkpointSlots.push_back(row.checkpointSlot);
    result.checkpointOffsets.push_back(row.checkpointOffset);
    bool looks = !row.isNull && row.request.initial == Stored && !row.request.drafts.empty();
    acceptsAll &= !looks || row.told == static_cast<int32_t>(row.request.drafts.size());
  }
  if (acceptsAll && chance(0.7)) {
    result.accepted.clear();
    ++seen["acceptance absent"];
  }
  return result;
}

/// What the plan should have done to the row, and what that leaves to be seen.
void TestEngine::settleRow(Row &row, const Descriptor &d) {
  Request &request = row.request;
  bool isEmptyHanded = request.initial != Stored || request.isInBase;
  size_t count = isEmptyHanded ? 0 : std::min<size_t>(row.told, request.drafts.size());
  auto committed = request.isInBase ? -1 : static_cast<int32_t>(request.accepted.size()) - 1;
  request.accepted.insert(request.accepted.end(), request.drafts.begin(),
                          request.drafts.begin() + static_cast<std::ptrdiff_t>(count));
  seen["rejected"] += static_cast<int64_t>(request.drafts.size() - count);
  auto length = static_cast<int32_t>(request.accepted.size()) - 1;
  EXPECT_EQ(d.length, length);

  int32_t checkpoint = committed + row.checkpointOffset;
  bool isTaken = row.checkpointSlot >= 0 && checkpoint <= length;
  EXPECT_EQ(d.checkpointSlot, isTaken ? row.checkpointSlot : -1);
  if (isTaken) {
    cache.push_back({row.checkpointSlot, Stored, {request.accepted[checkpoint]}, {}});
    layers.expectBases(row.checkpointSlot, *request.accepted[checkpoint]);
    ++seen[checkpoint < length ? "checkpoint in the log" : "checkpoint at its end"];
  } else if (row.checkpointSlot >= 0) {
    emptied.push_back(row.checkpointSlot);
    ++seen["checkpoint not reached"];
  }

  bool moves = request.initial == Zero || row.src != row.dst;
  bool hasRoom = length < limits.longestLog();
  bool after =
      isFinal && row.tokens == 1 && !row.flush && !moves && length + 1 >= limits.window && hasRoom;
  bool full = length > 0 && (row.flush || length + row.tokens > limits.window);
  Merge expected = moves   ? Merge::Before
                   : after ? Merge::After
                   : full  ? Merge::Before
                           : Merge::None;
  EXPECT_EQ(d.merge, expected);
  if (d.merge == Merge::Before) {
    request.accepted = {request.accepted.back()};
    layers.expectBases(row.dst, *request.accepted.back());
  }
  seen[d.merge == Merge::After ? "merged with its token"
       : full && !moves        ? "merged"
                               : "appended"]++;
  seen["no tokens"] += row.tokens == 0;
  seen["wrapped"] += d.start + length >= limits.ring;
}

/// The row's tokens through the recurrences, and what the request is after them.
void TestEngine::expectRow(int64_t index, const Descriptor &d) {
  Row &row = rows[index];
  settleRow(row, d);
  Request &request = row.request;
  request.slot = row.dst;
  request.initial = Stored;
  request.drafts.clear();
  request.isFinal = isFinal;
  request.isInBase = d.merge == Merge::After;
  LogLayers::States states = *request.accepted.back();
  for (int32_t t = 0; t < row.tokens; ++t) {
    layers.expectOutputs(index, t, states);
    request.drafts.push_back(std::make_shared<LogLayers::States>(states));
  }
  if (request.isInBase) {
    request.accepted = std::exchange(request.drafts, {});
    layers.expectBases(row.dst, states);
  }
}

void TestEngine::step() {
  betweenSteps();
  chooseRows();
  // Tokens behind the last row belong to none.
  std::vector<Descriptor> descriptors = layers.planStep(arguments(), isUniform ? 0 : pick(0, 2));
  ASSERT_EQ(descriptors.size(), rows.size());
  layers.runLayers(
      std::any_of(rows.begin(), rows.end(), [](const Row &row) { return row.tokens > 0; }));

  std::vector<Request> next;
  for (Request &request : requests)
    if (request.slot >= 0)
      next.push_back(std::move(request));
  for (size_t i = 0; i < rows.size(); ++i) {
    auto index = static_cast<int64_t>(i);
    if (!rows[i].isNull) {
      expectRow(index, descriptors[i]);
      next.push_back(rows[i].request);
      continue;
    }
    EXPECT_TRUE(descriptors[i].isNull());
    for (int32_t t = 0; t < rows[i].tokens; ++t)
      layers.expectZeroOutputs(index, t);
  }
  layers.expectUntouched();
  requests = std::move(next);
  for (int64_t slot : emptied)
    release(slot);
}

void TestEngine::expectEverythingSeen(std::map<std::string, int64_t> seen) {
  for (const char *event : {"ended",
                            "swapped",
                            "materialized",
                            "sat out",
                            "moved",
                            "forked",
                            "parent kept",
                            "from a prefix",
                            "from a base",
                            "fresh",
                            "null rows",
                            "acceptance absent",
                            "rejected",
                            "checkpoint in the log",
                            "checkpoint at its end",
                            "checkpoint not reached",
                            "merged with its token",
                            "merged",
                            "appended",
                            "no tokens",
                            "wrapped"})
    EXPECT_GT(seen[event], 0) << event;
}

} // namespace dl::deltalog
