//===- LogProtocolTest.cpp - Append, merge and materialize, case by case --===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Reference/LogProtocol.h"
#include "test/Reference/LogTestOperators.h"

#include <gtest/gtest.h>
#include <limits>
#include <stdexcept>
#include <string>

using namespace dl::deltalog;
using dl::recurrence::Random;

static constexpr double tolerance = 1e-12;
static constexpr double garbage = std::numeric_limits<double>::quiet_NaN();

namespace {
/// A pool with its cursors.
struct Memory {
  Pool pool;
  std::vector<Cursor> cursors;

  Memory(const TestOperator &op, const Limits &limits, int64_t slots, const Storage &storage = {})
      : pool(limits, slots, op.K, op.V, storage), cursors(slots) {}

  /// A step as an engine runs it. Outputs start as NaN.
  std::vector<Vector> step(const Rows<int32_t> &rows, const std::vector<DrawnToken> &drawn) {
    std::vector<AffineToken> tokens;
    for (const DrawnToken &token : drawn)
      tokens.push_back(token.token);
    std::vector<Vector> outputs(tokens.size(), Vector(garbage, pool.base.front().cols));
    check(pool.limits, rows, cursors, pool.slots(), static_cast<int64_t>(tokens.size()));
    append(pool, plan(pool.limits, rows, cursors), tokens, outputs);
    return outputs;
  }

  /// A step of one row, in place in slot 0.
  std::vector<Vector> stepInPlace(const std::vector<DrawnToken> &drawn, int32_t accepted = 16) {
    Rows<int32_t> rows = inPlace(static_cast<int32_t>(drawn.size()));
    rows.accepted = {std::min(accepted, cursors[0].pending)};
    return step(rows, drawn);
  }

  static Rows<int32_t> inPlace(int32_t tokens) {
    Rows<int32_t> rows;
    rows.count = 1;
    rows.tokens = tokens;
    return rows;
  }

  /// What a slot holds when nobody has said what it should.
  void scramble(int64_t slot) {
    pool.base[slot].values = garbage;
    for (Entry &entry : pool.ring[slot])
      entry = {{{Vector(garbage, pool.base[slot].rows), Vector(garbage, pool.base[slot].cols)}},
               Vector(garbage, pool.base[slot].rows)};
    cursors[slot] = {-5, 1000, 77, Merge::Before};
  }
};
} // namespace

static std::vector<DrawnToken> draw(const TestOperator &op, Random &random, int64_t count) {
  std::vector<DrawnToken> tokens;
  for (int64_t i = 0; i < count; ++i)
    tokens.push_back(op.draw(random));
  return tokens;
}

/// Moves S on by the tokens, whose outputs must be those given. Returns the states
/// before the first and after each of them.
static std::vector<Matrix> expectSerial(const std::vector<DrawnToken> &tokens, Matrix S,
                                        const std::vector<Vector> &outputs) {
  std::vector<Matrix> states = {S};
  for (size_t t = 0; t < tokens.size(); ++t) {
    EXPECT_LE(distance(outputs[t], tokens[t].step(S)), tolerance) << "output " << t;
    states.push_back(S);
  }
  return states;
}

static bool isSameEntry(const Entry &a, const Entry &b) {
  if (!isSameBits(a.clock, b.clock) || a.terms.size() != b.terms.size())
    return false;
  for (size_t i = 0; i < a.terms.size(); ++i)
    if (!isSameBits(a.terms[i].a, b.terms[i].a) || !isSameBits(a.terms[i].b, b.terms[i].b))
      return false;
  return true;
}

/// Bases and rings of the slot are the same, but for `count` entries from `from` on.
static void expectSameSlot(const Pool &a, const Pool &b, int64_t slot, int32_t from = 0,
                           int32_t count = 0) {
  EXPECT_TRUE(isSameBits(a.base[slot].values, b.base[slot].values)) << "base " << slot;
  for (int32_t i = 0; i < a.limits.ring; ++i) {
    int32_t behind = (i - from + a.limits.ring) % a.limits.ring;
    if (behind >= count)
      EXPECT_TRUE(isSameEntry(a.ring[slot][i], b.ring[slot][i])) << "entry " << i;
  }
}

TEST(LogProtocol, TheAffineFormIsTheRecurrence) {
  for (const TestOperator &op : testOperators()) {
    SCOPED_TRACE(op.name);
    Random random(1);
    Matrix S = randomState(random, op.K, op.V);
    Matrix expected = S;
    for (const DrawnToken &token : draw(op, random, 100)) {
      EXPECT_LE(distance(dl::recurrence::step(token.token, S), token.step(expected)), 1e-13);
      EXPECT_LE(distance(S.values, expected.values), 1e-13);
    }
  }
}

//===----------------------------------------------------------------------===//
// Every edge of the ring
//===----------------------------------------------------------------------===//

/// A slot whose ring has `length` accepted entries from `start` on, and its state.
static std::pair<Memory, Matrix> logged(const TestOperator &op, const Limits &limits,
                                        Random &random, int32_t start, int32_t length) {
  Memory memory(op, limits, 1);
  Matrix S = randomState(random, op.K, op.V);
  memory.scramble(0);
  memory.pool.base[0] = S;
  memory.cursors[0] = {start, 0, 0};
  while (length > 0) {
    int32_t tokens = std::min(length, limits.maxTokens);
    std::vector<DrawnToken> drawn = draw(op, random, tokens);
    S = expectSerial(drawn, S, memory.stepInPlace(drawn)).back();
    length -= tokens;
  }
  return {memory, S};
}

/// A step of `tokens` at the given place, then one after each possible acceptance.
static void checkEdge(const TestOperator &op, const Limits &limits, int32_t start, int32_t length,
                      int32_t tokens) {
  SCOPED_TRACE(op.name + " start " + std::to_string(start) + " length " + std::to_string(length) +
               " tokens " + std::to_string(tokens));
  Random random(start * 1000 + length * 20 + tokens);
  auto [memory, S] = logged(op, limits, random, start, length);
  Pool before = memory.pool;
  std::vector<DrawnToken> drawn = draw(op, random, tokens);
  std::vector<Matrix> states = expectSerial(drawn, S, memory.stepInPlace(drawn));

  bool merged = length > 0 && length + tokens > limits.window;
  EXPECT_EQ(memory.cursors[0].merge, merged ? Merge::Before : Merge::None);
  if (merged) {
    EXPECT_LE(distance(memory.pool.base[0].values, S.values), tolerance);
    before.base = memory.pool.base;
  }
  expectSameSlot(memory.pool, before, 0, (start + length) % limits.ring, tokens);

  for (int32_t accepted = 0; accepted <= tokens; ++accepted) {
    Memory next = memory;
    Standing now = settle(limits, next.cursors[0], accepted);
    EXPECT_EQ(now.length, (merged ? 0 : length) + accepted);
    Matrix state = materialize(next.pool, next.cursors[0], 0, now.length);
    EXPECT_LE(distance(state.values, states[accepted].values), tolerance);
    std::vector<DrawnToken> last = draw(op, random, 1);
    expectSerial(last, states[accepted], next.stepInPlace(last, accepted));
  }
}

TEST(LogProtocol, EveryEdgeOfTheRing) {
  size_t next = 0;
  for (const Limits &limits : {Limits{16, 4, 20}, Limits{3, 2, 5}, Limits{3, 2, 7}, Limits{1, 1, 2},
                               Limits{1, 3, 6}, Limits{4, 4, 8}})
    for (int32_t start = 0; start < limits.ring; ++start)
      for (int32_t length = 0; length <= limits.longestLog(); ++length)
        for (int32_t tokens = 0; tokens <= limits.maxTokens; ++tokens)
          checkEdge(testOperators()[next++ % testOperators().size()], limits, start, length,
                    tokens);
}

TEST(LogProtocol, SixteenTokensInAStep) {
  size_t next = 0;
  for (const Limits &limits : {Limits{16, 16, 32}, Limits{1, 16, 32}})
    for (int32_t start : {0, 15, 16, 17, 31})
      for (int32_t length : {0, 1, 15, 16})
        for (int32_t tokens : {1, 15, 16})
          checkEdge(testOperators()[next++ % testOperators().size()], limits, start, length,
                    tokens);
}

//===----------------------------------------------------------------------===//
// What must be the same to the bit
//===----------------------------------------------------------------------===//

TEST(LogProtocol, MergeInAppendIsMergeThenAppend) {
  for (const TestOperator &op : testOperators())
    for (Format base : {Format::F64, Format::F32, Format::BF16}) {
      SCOPED_TRACE(op.name);
      Random random(2);
      Memory one(op, {16, 4, 20}, 1, {base, Format::F64, Format::F64, Format::F64});
      one.pool.base[0] = randomState(random, op.K, op.V);
      for (int32_t i = 0; i < 3; ++i)
        one.stepInPlace(draw(op, random, 4));
      Memory two = one;

      Rows<int32_t> rows = Memory::inPlace(3);
      rows.flush = {1};
      rows.accepted = {2};
      std::vector<DrawnToken> drawn = draw(op, random, 3);
      std::vector<Vector> outputs = one.step(rows, drawn);

      rows.tokens = 0;
      merge(two.pool, plan(two.pool.limits, rows, two.cursors));
      std::vector<Vector> outputsOfTwo = two.stepInPlace(drawn);
      for (size_t t = 0; t < drawn.size(); ++t)
        EXPECT_TRUE(isSameBits(outputs[t], outputsOfTwo[t]));
      expectSameSlot(one.pool, two.pool, 0);
      Standing first = settle(one.pool.limits, one.cursors[0], 3);
      Standing second = settle(two.pool.limits, two.cursors[0], 3);
      EXPECT_EQ(first.start, second.start);
      EXPECT_EQ(first.length, second.length);
    }
}

TEST(LogProtocol, AnEmptyLogIsADenseState) {
  for (const TestOperator &op : testOperators()) {
    SCOPED_TRACE(op.name);
    Random random(3);
    Memory merged(op, {16, 4, 20}, 1, {Format::BF16});
    merged.pool.base[0] = randomState(random, op.K, op.V);
    merged.stepInPlace(draw(op, random, 4));
    Rows<int32_t> flush = Memory::inPlace(0);
    flush.flush = {1};
    merged.step(flush, {});
    Memory dense(op, {16, 4, 20}, 1, {Format::BF16});
    dense.scramble(0);
    dense.pool.base[0] = merged.pool.base[0];

    std::vector<DrawnToken> drawn = draw(op, random, 4);
    Rows<int32_t> rows = Memory::inPlace(4);
    rows.initial = {BaseOnly};
    std::vector<Vector> outputs = dense.step(rows, drawn);
    std::vector<Vector> outputsOfMerged = merged.stepInPlace(drawn);
    for (size_t t = 0; t < drawn.size(); ++t)
      EXPECT_TRUE(isSameBits(outputs[t], outputsOfMerged[t]));
    expectSerial(drawn, dense.pool.base[0], outputs);
  }
}

TEST(LogProtocol, FreshRowsDoNotSeeWhatWasThere) {
  for (const TestOperator &op : testOperators()) {
    SCOPED_TRACE(op.name);
    Random random(4);
    Memory clean(op, {16, 4, 20}, 1);
    Memory used(op, {16, 4, 20}, 1);
    for (int32_t i = 0; i < 9; ++i)
      used.stepInPlace(draw(op, random, 1));
    Memory scrambled(op, {16, 4, 20}, 1);
    scrambled.scramble(0);

    std::vector<DrawnToken> drawn = draw(op, random, 4);
    std::vector<DrawnToken> more = draw(op, random, 4);
    Rows<int32_t> rows = Memory::inPlace(4);
    rows.initial = {Zero};
    std::vector<Vector> expected = clean.step(rows, drawn);
    expectSerial(drawn, Matrix(op.K, op.V), expected);
    std::vector<Vector> expectedNext = clean.stepInPlace(more, 3);
    for (Memory *memory : {&used, &scrambled}) {
      std::vector<Vector> outputs = memory->step(rows, drawn);
      std::vector<Vector> outputsNext = memory->stepInPlace(more, 3);
      for (size_t t = 0; t < drawn.size(); ++t) {
        EXPECT_TRUE(isSameBits(outputs[t], expected[t]));
        EXPECT_TRUE(isSameBits(outputsNext[t], expectedNext[t]));
      }
      EXPECT_TRUE(isSameBits(memory->pool.base[0].values, clean.pool.base[0].values));
    }
  }
}

TEST(LogProtocol, ACheckpointIsTheMergeThatTheRowDidNotDo) {
  for (const TestOperator &op : testOperators()) {
    SCOPED_TRACE(op.name);
    Random random(5);
    Memory memory(op, {16, 4, 20}, 2, {Format::BF16});
    memory.scramble(1);
    memory.pool.base[0] = randomState(random, op.K, op.V);
    memory.stepInPlace(draw(op, random, 3));
    Memory merged = memory;
    memory.stepInPlace(draw(op, random, 4));

    // After 3 + 2 of 7 entries: the prefix is what it was when it was all there was.
    Rows<int32_t> rows = Memory::inPlace(0);
    rows.accepted = {4};
    rows.checkpointSlots = {1};
    rows.checkpointOffsets = {0};
    Memory before = memory;
    memory.step(rows, {});
    expectSameSlot(memory.pool, before.pool, 0);
    EXPECT_EQ(memory.cursors[0].length, 7) << "the row does not move";

    Rows<int32_t> flush = Memory::inPlace(0);
    flush.flush = {1};
    merged.step(flush, {});
    EXPECT_TRUE(isSameBits(memory.pool.base[1].values, merged.pool.base[0].values));
    Matrix resumed = materialize(memory.pool, memory.cursors[1], 1, 0);
    EXPECT_TRUE(isSameBits(resumed.values, merged.pool.base[0].values)) << "its log is empty";
  }
}

TEST(LogProtocol, ACheckpointMayFallOnAMerge) {
  const TestOperator &op = testOperator("KimiDeltaAttention");
  Random random(6);
  Memory memory(op, {4, 4, 8}, 2);
  memory.pool.base[0] = randomState(random, op.K, op.V);
  Matrix S = memory.pool.base[0];
  std::vector<DrawnToken> drawn = draw(op, random, 4);
  std::vector<Matrix> states = expectSerial(drawn, S, memory.stepInPlace(drawn));
  Rows<int32_t> rows = Memory::inPlace(4);
  rows.accepted = {3};
  rows.checkpointSlots = {1};
  rows.checkpointOffsets = {2};
  std::vector<DrawnToken> more = draw(op, random, 4);
  expectSerial(more, states[3], memory.step(rows, more));
  EXPECT_EQ(memory.cursors[0].merge, Merge::Before);
  EXPECT_LE(distance(memory.pool.base[0].values, states[3].values), tolerance);
  EXPECT_LE(distance(memory.pool.base[1].values, states[2].values), tolerance);
}

TEST(LogProtocol, FinalTokensMergeWithoutEnteringTheRing) {
  for (const TestOperator &op : testOperators())
    for (int32_t window : {1, 2, 5}) {
      SCOPED_TRACE(op.name);
      Random random(7);
      Memory memory(op, {window, 1, window + 1}, 1);
      Matrix S = randomState(random, op.K, op.V);
      memory.pool.base[0] = S;
      for (int32_t i = 0; i < 20; ++i) {
        Rows<int32_t> rows = Memory::inPlace(1);
        rows.final = true;
        Pool before = memory.pool;
        std::vector<DrawnToken> drawn = draw(op, random, 1);
        S = expectSerial(drawn, S, memory.step(rows, drawn)).back();
        bool merges = i % window == window - 1;
        EXPECT_EQ(memory.cursors[0].merge, merges ? Merge::After : Merge::None);
        if (merges) {
          EXPECT_LE(distance(memory.pool.base[0].values, S.values), tolerance);
          before.base = memory.pool.base;
          expectSameSlot(memory.pool, before, 0);
        }
      }
    }
}

TEST(LogProtocol, AStepOfFourTokensIsFourSteps) {
  // Also where entries are rounded: what is stored is what the next token sees.
  for (const TestOperator &op : testOperators()) {
    SCOPED_TRACE(op.name);
    Random random(8);
    Memory atOnce(op, {16, 4, 20}, 1, {Format::BF16, Format::BF16, Format::BF16, Format::F32});
    atOnce.pool.base[0] = randomState(random, op.K, op.V);
    Memory oneByOne = atOnce;
    std::vector<DrawnToken> drawn = draw(op, random, 4);
    std::vector<Vector> outputs = atOnce.stepInPlace(drawn);
    for (size_t t = 0; t < drawn.size(); ++t)
      EXPECT_LE(distance(oneByOne.stepInPlace({drawn[t]}).front(), outputs[t]), tolerance);
    for (int32_t i = 0; i < 4; ++i) {
      const Entry &entry = atOnce.pool.ring[0][i];
      EXPECT_LE(distance(oneByOne.pool.ring[0][i].terms.back().b, entry.terms.back().b), tolerance);
      EXPECT_TRUE(isSameBits(entry.clock, stored(Format::F32, entry.clock)));
      for (const Entry::Term &term : entry.terms) {
        EXPECT_TRUE(isSameBits(term.a, stored(Format::BF16, term.a)));
        EXPECT_TRUE(isSameBits(term.b, stored(Format::BF16, term.b)));
      }
    }
  }
}

//===----------------------------------------------------------------------===//
// Rows that do nothing, states that are asked for
//===----------------------------------------------------------------------===//

TEST(LogProtocol, NullRowsReadNothingAndWriteZeros) {
  const TestOperator &op = testOperator("RWKV6");
  Random random(9);
  Memory memory(op, {16, 4, 20}, 2);
  memory.pool.base[1] = randomState(random, op.K, op.V);
  memory.scramble(0);
  Memory before = memory;

  Rows<int32_t> rows;
  rows.count = 4;
  rows.firstSlot = 1;
  rows.src = {0, 1, 1, 0};
  rows.dst = {0, 1, 0, 0};
  rows.starts = {0, 2, 3, 4, 4};
  std::vector<DrawnToken> drawn = draw(op, random, 6);
  for (size_t t : {0, 1, 3, 4, 5})
    drawn[t].token.writes[0].d = drawn[t].token.decay = drawn[t].token.local = Vector(garbage, 4);
  std::vector<Vector> outputs = memory.step(rows, drawn);

  for (size_t t : {0, 1, 3})
    EXPECT_TRUE(isSameBits(outputs[t], Vector(0.0, 4))) << t;
  for (size_t t : {4, 5})
    EXPECT_TRUE(isSameBits(outputs[t], Vector(garbage, 4))) << "they belong to no row";
  EXPECT_LE(distance(outputs[2], drawn[2].step(before.pool.base[1])), tolerance);
  expectSameSlot(memory.pool, before.pool, 0);
}

TEST(LogProtocol, NothingToDo) {
  const TestOperator &op = testOperator("Mamba2");
  Memory memory(op, {16, 4, 20}, 1);
  memory.scramble(0);
  Memory before = memory;
  Rows<int32_t> rows;
  EXPECT_TRUE(memory.step(rows, {}).empty());
  rows.count = 3;
  rows.src = rows.dst = {-1, -1, -1};
  rows.tokens = 0;
  EXPECT_TRUE(memory.step(rows, {}).empty());
  expectSameSlot(memory.pool, before.pool, 0);
}

TEST(LogProtocol, MaterializeGivesEveryPrefix) {
  for (const TestOperator &op : testOperators()) {
    SCOPED_TRACE(op.name);
    Random random(10);
    auto [memory, S] = logged(op, {16, 4, 20}, random, 17, 5);
    std::vector<DrawnToken> drawn = draw(op, random, 4);
    std::vector<Matrix> states = expectSerial(drawn, S, memory.stepInPlace(drawn));
    for (int32_t count = 5; count <= 9; ++count) {
      Matrix state = materialize(memory.pool, memory.cursors[0], 0, count);
      EXPECT_LE(distance(state.values, states[count - 5].values), tolerance);
    }
    EXPECT_TRUE(isSameBits(materialize(memory.pool, memory.cursors[0], 0, 0).values,
                           memory.pool.base[0].values));
    for (int64_t count : {-1, 10})
      EXPECT_THROW(materialize(memory.pool, memory.cursors[0], 0, count), std::invalid_argument);
  }
}

TEST(LogProtocol, AMergedDraftIsStillADraft) {
  const TestOperator &op = testOperator("GatedDeltaNet");
  Random random(11);
  auto [memory, S] = logged(op, {16, 4, 20}, random, 3, 16);
  std::vector<DrawnToken> drawn = draw(op, random, 4);
  std::vector<Matrix> states = expectSerial(drawn, S, memory.stepInPlace(drawn));
  ASSERT_EQ(memory.cursors[0].merge, Merge::Before);
  for (int32_t count = 0; count <= 4; ++count)
    EXPECT_LE(distance(materialize(memory.pool, memory.cursors[0], 0, count).values,
                       states[count].values),
              tolerance);
}
