//===- LogRowsTest.cpp - Rows of all kinds side by side, and acceptance ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Log.h"

#include <algorithm>
#include <cmath>

using namespace dl::test;

/// Tokens of NaN at these places.
static Tokens withNan(const Tokens &tokens, const std::vector<int64_t> &places) {
  std::vector<int64_t> list;
  for (int64_t i = 0; i < tokens.count(); ++i)
    list.push_back(std::count(places.begin(), places.end(), i) ? -1 : i);
  return tokensOf(tokens, list, tokens.B);
}

//===----------------------------------------------------------------------===//
// Rows side by side
//===----------------------------------------------------------------------===//

/// Appending, merging, at the wrap, resting, fresh, from a base, moving, forking, null.
TEST(LogRows, AllKindsAtOnce) {
  forKernels([](const LogKernels &kernels) {
    const int64_t T = kernels.limits.maxTokens, L = kernels.limits.longestLog();
    Log log(kernels, 1, 2, 14);
    std::vector<int64_t> lengths = {0, 1, L - 1, L, L / 2, 1, 1, L / 2, L / 2, L};
    const int32_t R = kernels.limits.ring;
    const std::vector<States> before =
        fillLogs(log, lengths, {0, 0, 1, 2, R - 1, 0, 0, 0, R - 2, R / 2});
    for (int64_t slot = 10; slot < 14; ++slot) {
      log.layer.scramble(slot);
      log.planner.setCursor(slot, {-1, 99, 7, Merge::After});
    }
    log.layer.scramble(5); // fresh: nobody looks
    const States zeros = log.layer.zeros(), base6 = log.layer.base(6);
    struct Row {
      int64_t src, dst, tokens, initial, flush;
      const States *from;
    };
    const Row list[] = {
        {0, 0, T, 1, 0, &before[0]},  {1, 1, 1, 1, 0, &before[1]},  {-1, -1, 1, 1, 0, nullptr},
        {2, 2, T, 1, 0, &before[2]},  {3, 3, 1, 1, 0, &before[3]},  {4, 4, 0, 1, 0, &before[4]},
        {5, 5, T, 0, 0, &zeros},      {6, 6, 1, 2, 0, &base6},      {7, 10, T, 1, 0, &before[7]},
        {8, 11, 1, 1, 0, &before[8]}, {8, 12, 0, 1, 0, &before[8]}, {99, 13, 1, 1, 0, nullptr},
        {9, 9, 1, 1, 1, &before[9]},  {-1, -1, 0, 1, 0, nullptr},
    };
    std::vector<int64_t> each;
    for (const Row &row : list)
      each.push_back(row.tokens);
    Rows<int64_t> rows = packed(each);
    std::vector<int64_t> nulls;
    for (size_t i = 0; i < each.size(); ++i) {
      rows.src.push_back(list[i].src);
      rows.dst.push_back(list[i].dst);
      rows.initial.push_back(static_cast<uint8_t>(list[i].initial));
      rows.flush.push_back(static_cast<uint8_t>(list[i].flush));
      for (int64_t t = rows.starts[i]; !list[i].from && t < rows.starts[i + 1]; ++t)
        nulls.push_back(t);
    }
    // Two tokens behind the last row.
    const int64_t count = rows.starts.back() + 2;
    nulls.push_back(count - 2);
    nulls.push_back(count - 1);
    const Tokens tokens = withNan(log.layer.draw(1, count), nulls);
    const Tensor outputs = log.step(rows, tokens);
    for (size_t i = 0; i < each.size(); ++i) {
      SCOPED_TRACE("row " + std::to_string(i));
      if (!list[i].from) {
        EXPECT_TRUE(log.planner.rows[i].isNull());
        expectZeros(outputs, rows.starts[i], each[i]);
        continue;
      }
      const States after =
          expectSerial(log.layer, tokens, rows.starts[i], each[i], *list[i].from, outputs).back();
      expectStates(kernels, log.state(list[i].dst), after, "state");
    }
    // The sources of forks and moves are as they were.
    for (int64_t slot : {7, 8})
      expectStates(kernels, log.state(slot), before[slot], "source " + std::to_string(slot));
    EXPECT_EQ(log.planner.cursor(13).length, 99) << "the slot of a null row";
  });
}

/// Numbers of other rows, slots and tokens do not come in, not even NaN.
TEST(LogRows, NanStaysInItsRowR021) {
  forKernels([](const LogKernels &kernels) {
    const int64_t T = kernels.limits.maxTokens;
    Log clean(kernels, 1, 2, 3), dirty(kernels, 1, 2, 3);
    fillLogs(clean, {2, 2, 3});
    dirty.copyFrom(clean);
    dirty.layer.scramble(1);
    const Tokens tokens = clean.layer.draw(3, T);
    std::vector<int64_t> places;
    for (int64_t t = 0; t < T; ++t)
      places.push_back(T + t);
    const Tensor want = clean.step(inPlace(3, T), tokens);
    const Tensor got = dirty.step(inPlace(3, T), withNan(tokens, places));
    for (int64_t row : {0, 2}) {
      expectSameBits(got, row * T, want, row * T, T);
      EXPECT_TRUE(clean.layer.baseBits(row) == dirty.layer.baseBits(row));
      EXPECT_TRUE(clean.layer.ringBits(row) == dirty.layer.ringBits(row));
    }
  });
}

/// Entries that nobody counts, and those of rejected drafts, are not read.
TEST(LogRows, EntriesOutsideTheLogAreNotRead) {
  forKernels([](const LogKernels &kernels) {
    const int64_t T = kernels.limits.maxTokens;
    Log log(kernels, 1, 2, 1), other(kernels, 1, 2, 1);
    States state = fillLogs(log, {1}, {3}).front();
    const Tokens draft = log.layer.draw(1, T);
    log.step(inPlace(1, T), draft);
    other.copyFrom(log);
    // NaN into all entries but the accepted one.
    const auto now = standing(other, 0, 0);
    for (auto &[name, field] : other.layer.log)
      for (int64_t head = 0; head < field.shape[1]; ++head)
        for (int32_t i = 0; i < kernels.limits.ring; ++i) {
          if (now.length == 1 && i == now.start)
            continue;
          std::vector<ByteRange> ranges;
          addRanges(field, {0, head, i}, ranges);
          for (const ByteRange &range : ranges)
            std::fill_n(&range.buffer->image[range.offset], range.bytes, 0xff);
          field.buffer->isChanged = true;
        }
    Rows<int64_t> rows = inPlace(1, T);
    rows.accepted = {0};
    const Tokens tokens = log.layer.draw(1, T);
    const Tensor want = log.step(rows, tokens), got = other.step(rows, tokens);
    expectSameBits(got, 0, want, 0, T);
    const States after = expectSerial(other.layer, tokens, 0, T, state, got).back();
    expectStates(kernels, other.state(0), after, "state");
  });
}

TEST(LogRows, NoRowsAndNothingButNullRows) {
  forKernels([](const LogKernels &kernels) {
    Log log(kernels, 1, 2, 2);
    for (int64_t slot = 0; slot < 2; ++slot) {
      log.layer.scramble(slot);
      log.planner.setCursor(slot, {-9, 99, -9, Merge::Before});
    }
    log.step(inPlace(0, 1), log.layer.draw(0, 1));
    Rows<int64_t> none = packed({});
    log.planner.plan(none);
    log.layer.append(log.planner, log.layer.draw(1, 3)); // tokens of no row
    // As an engine warms up: every row is null, with tokens and without.
    for (int64_t T : {int64_t(1), int64_t(0), int64_t(kernels.limits.maxTokens)}) {
      Rows<int64_t> rows = inPlace(5, T);
      rows.src = rows.dst = {-1, 0, 2, INT32_MAX, -1};
      rows.firstSlot = 1;
      Tokens tokens = log.layer.draw(5, T);
      std::vector<int64_t> all;
      for (int64_t i = 0; i < tokens.count(); ++i)
        all.push_back(i);
      tokens = withNan(tokens, all);
      const Tensor outputs = log.step(rows, tokens);
      if (T)
        expectZeros(outputs, 0, 5 * T);
    }
    EXPECT_EQ(log.planner.cursor(1).length, 99);
  });
}

/// A longer row than the kernels were compiled for is null.
TEST(LogRows, TooManyTokensAreANullRow) {
  forKernels([](const LogKernels &kernels) {
    const int64_t T = kernels.limits.maxTokens;
    Log log(kernels, 1, 2, 2);
    const std::vector<States> before = fillLogs(log, {1, 1});
    const Rows<int64_t> rows = packed({T + 1, T});
    const Tokens tokens = log.layer.draw(1, 2 * T + 1);
    const Tensor outputs = log.step(rows, tokens);
    EXPECT_TRUE(log.planner.rows[0].isNull());
    expectZeros(outputs, 0, T + 1);
    const States after = expectSerial(log.layer, tokens, T + 1, T, before[1], outputs).back();
    expectSlots(log, {before[0], after}, "slot");
  });
}

/// Freed rows among others, slots in no order.
TEST(LogRows, FreedRowsR060) {
  forKernels([](const LogKernels &kernels) {
    const int64_t T = std::min<int64_t>(kernels.limits.maxTokens, 2);
    Log log(kernels, 1, 2, 8);
    std::vector<States> states = fillLogs(log, {1, 2, 3, 0, 1, 2, 3, 0});
    Rows<int64_t> rows = inPlace(8, T);
    rows.src = rows.dst = {7, 3, -1, 0, 5, -1, 1, 2};
    const Tokens tokens = log.layer.draw(8, T);
    const Tensor outputs = log.step(rows, tokens);
    for (int64_t row = 0; row < 8; ++row)
      if (const int64_t slot = rows.src[row]; slot < 0)
        expectZeros(outputs, row * T, T);
      else
        states[slot] = expectSerial(log.layer, tokens, row * T, T, states[slot], outputs).back();
    expectSlots(log, states, "slot");
  });
}

//===----------------------------------------------------------------------===//
// Acceptance
//===----------------------------------------------------------------------===//

TEST(LogRows, AcceptedNoneOneAndFourR058) {
  forKernels(
      [](const LogKernels &kernels) {
        Log log(kernels, 1, 2, 3);
        const std::vector<States> before = fillLogs(log, {0, 2, 1});
        const Tokens drafts = log.layer.draw(3, 4);
        const Tensor outputs = log.step(inPlace(3, 4), drafts);
        Rows<int64_t> rows = inPlace(3, 4);
        rows.accepted = {0, 1, 4};
        const Tokens next = log.layer.draw(3, 4);
        const Tensor nextOutputs = log.step(rows, next);
        std::vector<States> after;
        for (int64_t row = 0; row < 3; ++row) {
          SCOPED_TRACE("row " + std::to_string(row));
          const States start =
              expectSerial(log.layer, drafts, row * 4, 4, before[row], outputs)[rows.accepted[row]];
          after.push_back(expectSerial(log.layer, next, row * 4, 4, start, nextOutputs).back());
        }
        expectSlots(log, after, "slot");
      },
      4);
}

TEST(LogRows, ThreeWindowsOfDraftsR059) {
  forKernels(
      [](const LogKernels &kernels) {
        for (int64_t accepted = 1; accepted <= 4; ++accepted) {
          SCOPED_TRACE("accepted " + std::to_string(accepted));
          Log log(kernels, 1, 2, 1);
          States state = fillLogs(log, {0}).front();
          Rows<int64_t> rows = inPlace(1, 4);
          for (int window = 0; window < 3; ++window) {
            const Tokens drafts = log.layer.draw(1, 4);
            const Tensor outputs = log.step(rows, drafts);
            state = expectSerial(log.layer, drafts, 0, 4, state, outputs)[accepted];
            expectStates(kernels, log.state(0, standing(log, 0, accepted).length), state,
                         "accepted prefix");
            rows.accepted = {accepted};
          }
        }
      },
      4);
}

/// Rows of 4, 1 and 3 drafts, packed and as a padded batch; padding is NaN and its outputs stay.
TEST(LogRows, RaggedWindowsR061) {
  forKernels(
      [](const LogKernels &kernels) {
        const std::vector<int64_t> each = {4, 1, 3};
        Log one(kernels, 1, 2, 3), two(kernels, 1, 2, 3);
        const std::vector<States> before = fillLogs(one, {2, 0, 1});
        two.copyFrom(one);
        const Rows<int64_t> rows = packed(each);
        const Tokens tokens = one.layer.draw(1, 8);
        const Tensor outputs = one.step(rows, tokens);
        const Tensor padded =
            two.step(rows, tokensOf(tokens, {0, 1, 2, 3, 4, -1, -1, -1, 5, 6, 7, -1}, 3));
        for (int64_t row = 0; row < 3; ++row) {
          expectSerial(one.layer, tokens, rows.starts[row], each[row], before[row], outputs);
          expectSameBits(padded, row * 4, outputs, rows.starts[row], each[row]);
          EXPECT_TRUE(one.layer.ringBits(row) == two.layer.ringBits(row)) << "row " << row;
          EXPECT_TRUE(one.layer.baseBits(row) == two.layer.baseBits(row)) << "row " << row;
        }
        for (int64_t t : {5, 6, 7, 11})
          EXPECT_TRUE(std::isnan(padded.values()[t * 2 * kernels.V])) << "token " << t;
      },
      4);
}

TEST(LogRows, WhenRowsMergeR065) {
  bool hasAny = false;
  for (const LogKernels &kernels : allLogKernels()) {
    if (kernels.limits.window != 16 || kernels.limits.maxTokens != 4)
      continue;
    hasAny = true;
    SCOPED_TRACE(kernels.title);
    struct Step {
      int64_t history, tokens;
      bool merges;
    };
    const Step list[] = {{12, 4, false}, {13, 4, true}, {13, 1, false}, {16, 1, true}};
    Log log(kernels, 1, 2, 4);
    std::vector<States> states = fillLogs(log, {12, 13, 13, 16});
    const Rows<int64_t> rows = packed({4, 4, 1, 1});
    const Tokens tokens = log.layer.draw(1, 10);
    const Tensor outputs = log.step(rows, tokens);
    for (int64_t row = 0; row < 4; ++row) {
      EXPECT_EQ(log.planner.rows[row].length, list[row].history);
      EXPECT_EQ(log.planner.rows[row].merge == Merge::Before, list[row].merges) << "row " << row;
      expectSerial(log.layer, tokens, rows.starts[row], list[row].tokens, states[row], outputs);
    }
    // Nothing accepted: the states are what they were, in the same form or merged.
    Rows<int64_t> none = inPlace(4, 0);
    none.accepted = {0, 0, 0, 0};
    std::vector<std::string> bases;
    for (int64_t row = 0; row < 4; ++row)
      bases.push_back(log.layer.baseBits(row));
    for (int again = 0; again < 2; ++again) {
      log.step(none, log.layer.draw(4, 0));
      for (int64_t row = 0; row < 4; ++row) {
        const Descriptor &d = log.planner.rows[row];
        EXPECT_EQ(d.length, list[row].merges ? 0 : list[row].history) << "row " << row;
        EXPECT_EQ(d.start, list[row].merges ? list[row].history : 0) << "row " << row;
        EXPECT_EQ(int(d.merge), int(Merge::None)) << "a merge is not applied twice";
        EXPECT_TRUE(log.layer.baseBits(row) == bases[row]) << "row " << row;
      }
    }
    expectSlots(log, states, "nothing accepted, slot");
    // The need for a merge is found anew: 12 + 4 still fits, 13 + 4 merged in vain, 16 + 1 too.
    const Tokens more = log.layer.draw(1, 10);
    const Tensor moreOutputs = log.step(rows, more);
    for (int64_t row = 0; row < 4; ++row) {
      EXPECT_EQ(int(log.planner.rows[row].merge), int(Merge::None)) << "row " << row;
      states[row] = expectSerial(log.layer, more, rows.starts[row], list[row].tokens, states[row],
                                 moreOutputs)
                        .back();
    }
    expectSlots(log, states, "slot");
  }
  if (!hasAny)
    GTEST_SKIP() << "there is no package with a window of 16 and 4 tokens";
}

/// Acceptance belongs to the row that reads: forks of one source take different prefixes of its
/// drafts.
TEST(LogRows, ForksAcceptDifferentPrefixes) {
  forKernels([](const LogKernels &kernels) {
    const int64_t T = kernels.limits.maxTokens;
    Log log(kernels, 1, 2, T + 2);
    const States before = fillLogs(log, {1}, {2}).front();
    const Tokens drafts = log.layer.draw(1, T);
    const std::vector<States> states =
        expectSerial(log.layer, drafts, 0, T, before, log.step(inPlace(1, T), drafts));
    Rows<int64_t> rows = inPlace(T + 1, 1);
    for (int64_t n = 0; n <= T; ++n) {
      rows.src.push_back(0);
      rows.dst.push_back(n + 1);
      rows.accepted.push_back(n);
      log.layer.scramble(n + 1);
    }
    const Tokens next = log.layer.draw(T + 1, 1);
    const Tensor outputs = log.step(rows, next);
    for (int64_t n = 0; n <= T; ++n) {
      const States after = expectSerial(log.layer, next, n, 1, states[n], outputs).back();
      expectStates(kernels, log.layer.base(n + 1), states[n], "base of fork");
      expectStates(kernels, log.state(n + 1), after, "state of fork");
    }
    // The source is as it was: it may go on, one day, with an acceptance of its own.
    Rows<int64_t> later = inPlace(1, T);
    later.accepted = {T / 2};
    const Tokens more = log.layer.draw(1, T);
    expectSerial(log.layer, more, 0, T, states[T / 2], log.step(later, more));
  });
}

/// Gates and strengths at their ends: what is committed is what serial decode gives.
TEST(LogRows, CommitOfExtremeGatesR067) {
  forKernels(
      [](const LogKernels &kernels) {
        const std::string &op = kernels.op.name;
        if (!kernels.decode || (op != "gdn" && op != "kda") || kernels.state != DLK_F32 ||
            kernels.isNarrowLog || kernels.op.gate == Gate::Precomputed)
          return;
        for (int kind = 0; kind < 4; ++kind) {
          SCOPED_TRACE("kind " + std::to_string(kind));
          Log log(kernels, 1, 2, 8);
          for (double &value : log.layer.params().at("A_log").values())
            value += kind == 0 ? 2.5 : kind == 1 ? -12 : 0;
          log.layer.updateParams();
          for (int64_t slot = 0; slot < 8; ++slot)
            log.layer.fillBase(slot);
          Tokens tokens = log.layer.draw(5, 4);
          for (double &value : tokens.inputs.at("a").values())
            value = std::clamp(value * (kind == 0 ? 4 : 1), -100.0, 100.0);
          if (kind > 1 && kernels.op.beta == Beta::Logit)
            for (double &value : tokens.inputs.at("b").values())
              value = kind == 2 ? 12 : -12;
          Rows<int64_t> rows = inPlace(5, 4);
          rows.src = rows.dst = {6, 2, 0, 7, 3};
          rows.initial.assign(5, dl::deltalog::BaseOnly);
          const std::vector<int64_t> accepted = {1, 2, 3, 4, 2};
          std::vector<States> want(5);
          for (int64_t row = 0; row < 5; ++row) {
            std::vector<States> after;
            log.layer.decode({rows.src[row]}, tokensOf(tokens, row * 4, accepted[row]), &after);
            want[row] = after.front();
          }
          log.step(rows, tokens);
          rows.tokens = 0;
          rows.initial.clear();
          rows.accepted = accepted;
          rows.flush.assign(5, 1);
          log.step(rows, log.layer.draw(5, 0)); // no other slot is touched
          for (int64_t row = 0; row < 5; ++row)
            EXPECT_LE(rmsRatio(log.layer.base(rows.src[row]), want[row]), 1e-5) << "row " << row;
        }
      },
      4);
}
