//===- LogBitsTest.cpp - What is the same to the last bit -----------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Log.h"

#include <algorithm>

using namespace dl::test;

/// Lengths from an empty to a full log.
static std::vector<int64_t> someLengths(const LogKernels &kernels) {
  const int64_t W = kernels.limits.longestLog();
  return {0, 1, W / 2, W - 1, W};
}

/// Slots, rings and settled cursors are the same.
static void expectSameLogs(const Log &a, const Log &b, int64_t slots) {
  for (int64_t slot = 0; slot < slots; ++slot) {
    EXPECT_TRUE(a.layer.baseBits(slot) == b.layer.baseBits(slot)) << "base of slot " << slot;
    for (int32_t i = 0; i < a.planner.limits.ring; ++i)
      EXPECT_TRUE(a.layer.entryBits(slot, i) == b.layer.entryBits(slot, i))
          << "slot " << slot << " entry " << i;
    const auto one = standing(a, slot), two = standing(b, slot);
    EXPECT_EQ(one.start, two.start) << "slot " << slot;
    EXPECT_EQ(one.length, two.length) << "slot " << slot;
  }
}

//===----------------------------------------------------------------------===//
// Dense states
//===----------------------------------------------------------------------===//

/// A step of one token from an empty log has the outputs of `decode`, whatever way the log became
/// empty; the state behind it is as close as two orders of the same sums.
TEST(LogBits, OneTokenFromAnEmptyLogIsDecode) {
  bool hasDecode = false;
  for (const LogKernels &kernels : allLogKernels())
    hasDecode |= kernels.decode != nullptr;
  if (!hasDecode)
    GTEST_SKIP() << "no package has decode kernels too";
  forKernels([](const LogKernels &kernels) {
    if (!kernels.decode)
      return;
    for (const auto &[HQ, HV] : {std::pair<int64_t, int64_t>{2, 2}, {1, 2}, {1, 3}}) {
      SCOPED_TRACE("HQ=" + std::to_string(HQ) + " HV=" + std::to_string(HV));
      Log log(kernels, HQ, HV, 6);
      fillLogs(log, {0, 1, 1, 0, 1, 0});
      Rows<int64_t> rows = inPlace(5, 1);
      rows.src = rows.dst = {3, 0, 4, 1, 2};
      // Dense as they are, by a merge before, by a merge in this step, and by a base from outside.
      Rows<int64_t> flush = inPlace(1, 0);
      flush.src = flush.dst = {4};
      flush.flush = {1};
      log.step(flush, log.layer.draw(1, 0));
      rows.initial = {1, 1, 1, 2, 1};
      rows.flush = {0, 0, 0, 0, 1};
      const Tokens tokens = log.layer.draw(5, 1);
      const Tensor outputs = log.step(rows, tokens);
      std::vector<States> after;
      // The bases now are the states that the tokens saw.
      const Tensor want = log.layer.decode(rows.src, tokens, &after);
      expectSameBits(outputs, 0, want, 0, 5);
      for (int64_t row = 0; row < 5; ++row)
        EXPECT_LE(rmsRatio(log.state(rows.src[row]), after[row]),
                  kernels.state == DLK_F32 && !kernels.isNarrowLog ? 1e-5 : 2.5e-3);
    }
  });
}

/// The same for fresh rows, which see zeros.
TEST(LogBits, OneTokenFromZerosIsDecode) {
  forKernels([](const LogKernels &kernels) {
    if (!kernels.decode)
      return;
    Log log(kernels, 1, 2, 2);
    log.layer.scramble(0);
    log.layer.setBase(1, log.layer.zeros());
    Rows<int64_t> rows = inPlace(1, 1);
    rows.initial = {0};
    const Tokens tokens = log.layer.draw(1, 1);
    const Tensor outputs = log.step(rows, tokens);
    expectSameBits(outputs, 0, log.layer.decode({1}, tokens), 0, 1);
  });
}

//===----------------------------------------------------------------------===//
// Merges
//===----------------------------------------------------------------------===//

TEST(LogBits, AMergeInAppendIsAMergeThenAnAppend) {
  forKernels([](const LogKernels &kernels) {
    const std::vector<int64_t> lengths = someLengths(kernels);
    const auto count = static_cast<int64_t>(lengths.size());
    for (int64_t T = 1; T <= kernels.limits.maxTokens; ++T) {
      SCOPED_TRACE("tokens " + std::to_string(T));
      Log one(kernels, 1, 2, count), two(kernels, 1, 2, count);
      fillLogs(one, lengths, {0, 1, 3, 2, kernels.limits.ring - 1});
      two.copyFrom(one);
      const Tokens tokens = one.layer.draw(count, T);
      Rows<int64_t> rows = inPlace(count, T);
      rows.flush.assign(count, 1);
      const Tensor together = one.step(rows, tokens);
      rows.tokens = 0;
      two.step(rows, two.layer.draw(count, 0));
      const Tensor apart = two.step(inPlace(count, T), tokens);
      expectSameBits(together, 0, apart, 0, count * T);
      expectSameLogs(one, two, count);
    }
  });
}

/// The same into another slot.
TEST(LogBits, AMoveIsACopyThenAnAppend) {
  forKernels([](const LogKernels &kernels) {
    const std::vector<int64_t> lengths = someLengths(kernels);
    const auto count = static_cast<int64_t>(lengths.size());
    const int64_t T = kernels.limits.maxTokens;
    Log one(kernels, 1, 2, 2 * count), two(kernels, 1, 2, 2 * count);
    fillLogs(one, lengths);
    for (int64_t slot = count; slot < 2 * count; ++slot)
      one.layer.scramble(slot);
    two.copyFrom(one);
    const Tokens tokens = one.layer.draw(count, T);
    Rows<int64_t> rows = inPlace(count, T);
    for (int64_t row = 0; row < count; ++row) {
      rows.src.push_back(row);
      rows.dst.push_back(2 * count - 1 - row);
    }
    const Tensor together = one.step(rows, tokens);
    rows.tokens = 0;
    two.step(rows, two.layer.draw(count, 0));
    rows.src = rows.dst;
    rows.tokens = T;
    const Tensor apart = two.step(rows, tokens);
    expectSameBits(together, 0, apart, 0, count * T);
    expectSameLogs(one, two, 2 * count);
  });
}

/// Without tokens `append` is `merge`.
TEST(LogBits, AppendOfNoTokensIsMerge) {
  forKernels([](const LogKernels &kernels) {
    const std::vector<int64_t> lengths = someLengths(kernels);
    const auto count = static_cast<int64_t>(lengths.size());
    Log one(kernels, 1, 2, count + 1), two(kernels, 1, 2, count + 1);
    fillLogs(one, lengths);
    two.copyFrom(one);
    Rows<int64_t> rows = inPlace(count, 0);
    rows.flush = {1, 0, 1, 0, 1};
    rows.checkpointSlots = {-1, -1, -1, count, -1};
    one.planner.plan(rows);
    one.layer.merge(one.planner);
    two.planner.plan(rows);
    two.layer.append(two.planner, two.layer.draw(count, 0));
    expectSameLogs(one, two, count + 1);
  });
}

/// A checkpoint has the bits of the merge that the row did not do.
TEST(LogBits, ACheckpointIsTheMergeThatTheRowDidNotDo) {
  forKernels([](const LogKernels &kernels) {
    const int64_t L = kernels.limits.longestLog();
    for (int64_t count : {int64_t(0), int64_t(1), L / 2, L}) {
      SCOPED_TRACE("entries " + std::to_string(count));
      Log one(kernels, 1, 2, 2), two(kernels, 1, 2, 2);
      fillLogs(one, {count});
      two.copyFrom(one);
      Rows<int64_t> rows = inPlace(1, 0);
      rows.flush = {1};
      two.step(rows, two.layer.draw(1, 0));
      // More entries behind those that count.
      if (count + 1 <= kernels.limits.window) {
        const Tokens more = one.layer.draw(1, 1);
        one.step(inPlace(1, 1), more);
      }
      const std::string before = one.layer.baseBits(0);
      rows.flush = {0};
      rows.checkpointSlots = {1};
      rows.checkpointOffsets = {count - one.planner.cursor(0).length};
      one.step(rows, one.layer.draw(1, 0));
      ASSERT_EQ(one.planner.rows[0].checkpointCount, count);
      EXPECT_TRUE(one.layer.baseBits(1) == two.layer.baseBits(0));
      if (one.planner.rows[0].merge == Merge::None)
        EXPECT_TRUE(one.layer.baseBits(0) == before) << "the row does not move";
      EXPECT_EQ(standing(one, 1).length, 0);
    }
  });
}

//===----------------------------------------------------------------------===//
// Repetition, batches, memory
//===----------------------------------------------------------------------===//

TEST(LogBits, AgainTheSameR074) {
  forKernels([](const LogKernels &kernels) {
    const std::vector<int64_t> lengths = someLengths(kernels);
    const auto count = static_cast<int64_t>(lengths.size());
    const int64_t T = kernels.limits.maxTokens;
    Log first(kernels, 1, 2, count);
    fillLogs(first, lengths);
    Log before(kernels, 1, 2, count);
    before.copyFrom(first);
    const Tokens tokens = first.layer.draw(count, T);
    const Tensor outputs = first.step(inPlace(count, T), tokens);
    for (int i = 0; i < 5; ++i) {
      Log again(kernels, 1, 2, count);
      again.copyFrom(before);
      expectSameBits(again.step(inPlace(count, T), tokens), 0, outputs, 0, count * T);
      expectSameLogs(again, first, count);
    }
  });
}

/// One behind the other, as a batch, or as a batch padded to the longest row: the same to the bit,
/// and so is each row alone.
TEST(LogBits, ARowAloneOrAmongOthersR075) {
  forKernels([](const LogKernels &kernels) {
    const std::vector<int64_t> lengths = someLengths(kernels);
    const auto count = static_cast<int64_t>(lengths.size());
    const int64_t T = kernels.limits.maxTokens;
    const std::vector<int64_t> each = {T, 1, (T + 1) / 2, 0, T};
    Log together(kernels, 1, 2, count);
    fillLogs(together, lengths);
    Log before(kernels, 1, 2, count), batched(kernels, 1, 2, count), alone(kernels, 1, 2, count);
    for (Log *other : {&before, &batched, &alone})
      other->copyFrom(together);

    const Rows<int64_t> rows = packed(each);
    const Tokens tokens = together.layer.draw(1, rows.starts.back());
    const Tensor outputs = together.step(rows, tokens);

    std::vector<int64_t> places;
    for (int64_t row = 0; row < count; ++row)
      for (int64_t t = 0; t < T; ++t)
        places.push_back(t < each[row] ? rows.starts[row] + t : -1);
    const Tensor padded = batched.step(rows, tokensOf(tokens, places, count));
    expectSameLogs(batched, together, count);

    for (int64_t row = 0; row < count; ++row) {
      expectSameBits(padded, row * T, outputs, rows.starts[row], each[row]);
      Rows<int64_t> own = inPlace(1, each[row]);
      own.src = own.dst = {row};
      const Tensor got = alone.step(own, tokensOf(tokens, rows.starts[row], each[row]));
      if (each[row])
        expectSameBits(got, 0, outputs, rows.starts[row], each[row]);
    }
    expectSameLogs(alone, together, count);
  });
}

/// Enough rows for another variant of a kernel, where there is one.
TEST(LogBits, ARowAloneOrAmongMany) {
  const int64_t N = Device::get().handle.type == DLK_DEVICE_CUDA ? 420 : 33;
  forKernels([&](const LogKernels &kernels) {
    if (kernels.K * kernels.V > 96 * 64)
      return;
    Log many(kernels, 1, 2, N), one(kernels, 1, 2, N);
    for (int64_t slot = 0; slot < N; ++slot)
      many.layer.fillBase(slot);
    for (int step = 0; step < 3; ++step)
      many.step(inPlace(N, 1), many.layer.draw(N, 1));
    one.copyFrom(many);
    const Tokens tokens = many.layer.draw(N, 1);
    const Tensor outputs = many.step(inPlace(N, 1), tokens);
    for (int64_t row : {int64_t(0), N / 2, N - 1}) {
      Rows<int64_t> own = inPlace(1, 1);
      own.src = own.dst = {row};
      expectSameBits(one.step(own, tokensOf(tokens, row, 1)), 0, outputs, row, 1);
      EXPECT_TRUE(one.layer.ringBits(row) == many.layer.ringBits(row)) << "row " << row;
    }
  });
}

/// Padding, pages and strides change nothing.
TEST(LogBits, PlacesInMemoryDoNotMatter) {
  forKernels([](const LogKernels &kernels) {
    const std::vector<int64_t> lengths = someLengths(kernels);
    const auto count = static_cast<int64_t>(lengths.size());
    const int64_t T = kernels.limits.maxTokens;
    std::vector<Tensor> outputs;
    std::vector<std::string> bits;
    for (const Placing &placing :
         {Placing{0}, Placing{1}, Placing{5}, Placing{0, true}, Placing{3, true}}) {
      Log log(kernels, 1, 2, count, /*seed=*/7, placing);
      fillLogs(log, lengths); // the same numbers each time
      LaunchOptions options;
      options.placing = placing;
      outputs.push_back(log.step(inPlace(count, T), log.layer.draw(count, T), options));
      std::string &all = bits.emplace_back();
      for (int64_t slot = 0; slot < count; ++slot)
        all += log.layer.baseBits(slot) + log.layer.ringBits(slot);
    }
    for (size_t i = 1; i < outputs.size(); ++i) {
      expectSameBits(outputs[i], 0, outputs[0], 0, count * T);
      EXPECT_TRUE(bits[i] == bits[0]) << "placing " << i;
    }
  });
}

//===----------------------------------------------------------------------===//
// Up to rounding
//===----------------------------------------------------------------------===//

TEST(LogBits, OneStepOfManyTokensIsManyStepsUpToRounding) {
  forKernels([](const LogKernels &kernels) {
    const int64_t T = kernels.limits.maxTokens;
    std::vector<int64_t> lengths;
    for (int64_t length : {int64_t(0), int64_t(1), int64_t(3), kernels.limits.window - T})
      if (length >= 0 && length + T <= kernels.limits.longestLog())
        lengths.push_back(length);
    const auto count = static_cast<int64_t>(lengths.size());
    Log atOnce(kernels, 1, 2, count), oneByOne(kernels, 1, 2, count);
    const std::vector<States> before = fillLogs(atOnce, lengths);
    oneByOne.copyFrom(atOnce);
    const Tokens tokens = atOnce.layer.draw(count, T);
    const Tensor outputs = atOnce.step(inPlace(count, T), tokens);
    std::vector<States> want;
    for (int64_t row = 0; row < count; ++row)
      want.push_back(expectSerial(atOnce.layer, tokens, row * T, T, before[row], outputs).back());
    Tensor single(outputs.shape());
    const int64_t size = outputs.shape()[1] * outputs.shape()[2];
    for (int64_t t = 0; t < T; ++t) {
      std::vector<int64_t> places(count);
      for (int64_t row = 0; row < count; ++row)
        places[row] = row * T + t;
      const Tensor step = oneByOne.step(inPlace(count, 1), tokensOf(tokens, places, count));
      for (int64_t row = 0; row < count; ++row)
        std::copy_n(&step.values()[row * size], size, &single.values()[(row * T + t) * size]);
    }
    for (int64_t row = 0; row < count; ++row)
      expectSerial(oneByOne.layer, tokens, row * T, T, before[row], single);
    expectSlots(atOnce, want, "at once, slot");
    expectSlots(oneByOne, want, "one by one, slot");
  });
}

/// Two ways to keep a state: other sums, the same numbers up to rounding.
TEST(LogBits, LayoutsAgreeUpToRounding) {
  forKernels([](const LogKernels &kernels) {
    for (const LogKernels &other : allLogKernels()) {
      if (&other == &kernels || other.package != kernels.package || other.K != kernels.K ||
          other.V != kernels.V || other.state != kernels.state || other.io != kernels.io ||
          kernels.isModel())
        continue;
      const int64_t T = kernels.limits.maxTokens;
      std::vector<Tensor> outputs;
      std::vector<States> states;
      for (const LogKernels *one : {&kernels, &other}) {
        Log log(*one, 1, 2, 1, /*seed=*/5);
        fillLogs(log, {kernels.limits.longestLog()});
        outputs.push_back(log.step(inPlace(1, T), log.layer.draw(1, T)));
        states.push_back(log.state(0));
      }
      EXPECT_LE(rmsRatio(states[1], states[0]), stateLimit(kernels));
      Vector a(outputs[0].values().data(), outputs[0].values().size());
      Vector b(outputs[1].values().data(), outputs[1].values().size());
      EXPECT_LE(rmsRatio(b, a), outputLimit(kernels));
    }
  });
}
