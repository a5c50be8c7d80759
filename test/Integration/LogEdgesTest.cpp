//===- LogEdgesTest.cpp - Every length, row and ring position -------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One launch has a row for each length of the log and each number of tokens. After it every prefix
// of the tokens is accepted in turn: the state is that of the prefix, and goes on as such.
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Log.h"

#include <algorithm>

using namespace dl::test;

namespace {
struct Edge {
  int32_t start;
  int64_t length, tokens;
};
} // namespace

/// What is expected of each row after `accepted` of its tokens, or all if it has fewer.
static void checkAcceptance(const LogKernels &kernels, const Log &after,
                            const std::vector<Edge> &edges,
                            const std::vector<std::vector<States>> &states, int64_t accepted) {
  SCOPED_TRACE("accepted " + std::to_string(accepted));
  const auto count = static_cast<int64_t>(edges.size());
  Log next(kernels, 1, 2, count);
  next.copyFrom(after);
  Materialization wanted;
  Rows<int64_t> rows = inPlace(count, 1);
  wanted.rows = count;
  for (int64_t slot = 0; slot < count; ++slot) {
    rows.accepted.push_back(std::min(accepted, edges[slot].tokens));
    wanted.counts.push_back(standing(next, slot, rows.accepted.back()).length);
  }
  const std::vector<States> got = next.layer.materialize(next.planner, wanted);
  const Tokens tokens = next.layer.draw(count, 1);
  const Tensor outputs = next.step(rows, tokens);
  for (int64_t slot = 0; slot < count; ++slot) {
    SCOPED_TRACE("length " + std::to_string(edges[slot].length) + " tokens " +
                 std::to_string(edges[slot].tokens));
    const States &want = states[slot][rows.accepted[slot]];
    expectStates(kernels, got[slot], want, "state");
    expectSerial(next.layer, tokens, slot, 1, want, outputs);
  }
}

static void checkEdges(const LogKernels &kernels, const std::vector<Edge> &edges) {
  const auto count = static_cast<int64_t>(edges.size());
  Log log(kernels, 1, 2, count);
  std::vector<int64_t> lengths, tokensOfRows;
  std::vector<int32_t> starts;
  for (const Edge &edge : edges) {
    starts.push_back(edge.start);
    lengths.push_back(edge.length);
    tokensOfRows.push_back(edge.tokens);
  }
  const std::vector<States> before = fillLogs(log, lengths, starts);
  const Rows<int64_t> rows = packed(tokensOfRows);
  const Tokens tokens = log.layer.draw(1, rows.starts.back());
  const Tensor outputs = log.step(rows, tokens);
  std::vector<std::vector<States>> states;
  for (int64_t slot = 0; slot < count; ++slot) {
    const Edge &edge = edges[slot];
    SCOPED_TRACE("length " + std::to_string(edge.length) + " tokens " +
                 std::to_string(edge.tokens));
    const bool isFull = edge.length > 0 && edge.length + edge.tokens > kernels.limits.window;
    EXPECT_EQ(log.planner.rows[slot].length, edge.length);
    EXPECT_EQ(int(log.planner.rows[slot].merge), int(isFull ? Merge::Before : Merge::None));
    states.push_back(
        expectSerial(log.layer, tokens, rows.starts[slot], edge.tokens, before[slot], outputs));
    if (isFull)
      expectStates(kernels, log.layer.base(slot), before[slot], "merged base");
  }
  for (int64_t accepted = 0; accepted <= kernels.limits.maxTokens; ++accepted)
    checkAcceptance(kernels, log, edges, states, accepted);
}

/// All lengths and all numbers of tokens, for one operator at every position of the ring. Large
/// kernels, and other positions, get the ends of both.
TEST(LogEdges, EveryLengthRowAndPosition) {
  forKernels([](const LogKernels &kernels) {
    const dl::deltalog::Limits &limits = kernels.limits;
    const bool isSmall = kernels.K * kernels.V <= 32 * 32 && limits.maxTokens <= 4;
    const bool hasAllStarts =
        isSmall && kernels.op.name == "kda" && kernels.op.gate == Gate::Softplus;
    for (int32_t start = 0; start < limits.ring; ++start) {
      if (!hasAllStarts && start != 0 && start != limits.ring / 2 + 1 && start != limits.ring - 1)
        continue;
      SCOPED_TRACE("start " + std::to_string(start));
      std::vector<Edge> edges;
      for (int64_t length = 0; length <= limits.longestLog(); ++length)
        for (int64_t tokens = 0; tokens <= limits.maxTokens; ++tokens) {
          const bool isEnd = (length < 2 || length > limits.longestLog() - 2) &&
                             (tokens < 2 || tokens > limits.maxTokens - 2);
          if (hasAllStarts || (isSmall && start == 0) || isEnd)
            edges.push_back({start, length, tokens});
        }
      checkEdges(kernels, edges);
      if (::testing::Test::HasFailure())
        return;
    }
  });
}

/// A long generation in place walks the ring round and round, in steps of each size.
TEST(LogEdges, RoundAndRound) {
  forKernels([](const LogKernels &kernels) {
    for (int64_t T = 1; T <= kernels.limits.maxTokens; T += T < 4 ? 1 : 5) {
      SCOPED_TRACE("tokens " + std::to_string(T));
      Log log(kernels, 1, 2, 1);
      States state = fillLogs(log, {0}).front();
      bool hasWrapped = false;
      for (int64_t step = 0; step * T < 3 * kernels.limits.ring; ++step) {
        const Tokens tokens = log.layer.draw(1, T);
        const Tensor outputs = log.step(inPlace(1, T), tokens);
        state = expectSerial(log.layer, tokens, 0, T, state, outputs).back();
        hasWrapped |= log.planner.rows[0].write + T > kernels.limits.ring;
      }
      expectSlots(log, {state}, "slot");
      EXPECT_TRUE(hasWrapped || kernels.limits.ring % T == 0);
    }
  });
}
