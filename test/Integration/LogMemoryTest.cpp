//===- LogMemoryTest.cpp - Heads, pages, strides, bad numbers -------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Log.h"

#include <algorithm>
#include <cstring>

using namespace dl::test;

/// A few steps of everything in place, with acceptance, a merge, a checkpoint and all prefixes.
static void exercise(Log &log, const LaunchOptions &options = {}) {
  const LogKernels &kernels = log.layer.kernels;
  const int64_t T = kernels.limits.maxTokens, N = log.planner.slots - 1;
  std::vector<int64_t> lengths;
  for (int64_t row = 0; row < N; ++row)
    lengths.push_back(row % (kernels.limits.longestLog() + 1));
  std::vector<States> states = fillLogs(log, lengths);
  log.layer.scramble(N);
  Rows<int64_t> rows = inPlace(N, T);
  for (int step = 0; step < 4; ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    rows.flush.assign(N, step == 2);
    rows.checkpointSlots.assign(N, -1);
    rows.checkpointOffsets.assign(N, 0);
    rows.checkpointSlots[0] = N;
    const States checkpoint =
        log.state(0, log.planner.cursor(0).merge == Merge::None ? log.planner.cursor(0).length : 0);
    const Tokens tokens = log.layer.draw(N, T);
    const Tensor outputs = log.step(rows, tokens, options);
    expectStates(kernels, log.layer.base(N), checkpoint, "checkpoint");
    const int64_t accepted = step % (T + 1);
    rows.accepted.assign(N, accepted);
    for (int64_t row = 0; row < N; ++row)
      states[row] = expectSerial(log.layer, tokens, row * T, T, states[row], outputs)[accepted];
  }
  rows.tokens = 0;
  rows.checkpointSlots.clear();
  rows.checkpointOffsets.clear();
  log.step(rows, log.layer.draw(N, 0));
  states.push_back(log.layer.base(N));
  expectSlots(log, states, "slot");
}

//===----------------------------------------------------------------------===//
// Heads and places
//===----------------------------------------------------------------------===//

TEST(LogMemory, HeadsPerKeyHead) {
  forKernels([](const LogKernels &kernels) {
    for (const auto &[HQ, HV] :
         {std::pair<int64_t, int64_t>{1, 1}, {3, 3}, {2, 4}, {1, 3}, {2, 6}, {1, 4}, {3, 6}}) {
      if (kernels.K * kernels.V > 96 * 64 && HV > 3)
        continue;
      SCOPED_TRACE("HQ=" + std::to_string(HQ) + " HV=" + std::to_string(HV));
      Log log(kernels, HQ, HV, 4);
      exercise(log);
    }
  });
}

/// Bases and logs of a slot in one page, pages of any pitch, of more memory than the slots need.
TEST(LogMemory, Pages) {
  forKernels([](const LogKernels &kernels) {
    Log log(kernels, 1, 3, 4, 1, {/*padding=*/0, /*isPaged=*/true});
    exercise(log);
  });
}

TEST(LogMemory, StridesOfEverything) {
  forKernels([](const LogKernels &kernels) {
    for (int64_t padding : {0, 1, 4}) {
      Log log(kernels, 2, 4, 4, 1, {padding});
      LaunchOptions options;
      options.placing.padding = padding;
      exercise(log, options);
    }
  });
}

/// Pages of the host that fault lie behind, or before, every tensor.
TEST(LogMemory, FencesAroundEverything) {
  if (Device::get().driver)
    GTEST_SKIP() << "fences stand on the host alone";
  forKernels([](const LogKernels &kernels) {
    for (const Fence fence : {Fence::After, Fence::Before}) {
      const Placing placing{0, false, fence};
      Log log(kernels, 1, 2, 4, 1, placing);
      LaunchOptions options;
      options.placing = placing;
      exercise(log, options);
    }
  });
}

/// Columns of wide buffers: the inputs of a projection, and an output beside other data.
TEST(LogMemory, ColumnsOfWideBuffersR045) {
  forKernels([](const LogKernels &kernels) {
    const int64_t T = kernels.limits.maxTokens, N = 3;
    Log log(kernels, 1, 2, N);
    const std::vector<States> before = fillLogs(log, {0, 1, 2});
    log.planner.plan(inPlace(N, T));
    const Tokens tokens = log.layer.draw(N, T);
    LaunchOptions options;
    options.placing.padding = 0;
    // All tensors [B, T, ...] move into one buffer whose rows are tokens.
    std::shared_ptr<Buffer> wide;
    options.change = [&](std::vector<Bound> &arguments) {
      int64_t width = 0;
      for (const Bound &bound : arguments)
        if (bound.info->role == "input")
          width +=
              (bound.array.size() / (N * T) * dlk_dtype_bytes(bound.array.dtype) + 15) / 16 * 16;
      wide = std::make_shared<Buffer>(width * N * T);
      int64_t column = 0;
      for (Bound &bound : arguments) {
        if (bound.info->role != "input")
          continue;
        Array array = bound.array;
        const int64_t bytes = dlk_dtype_bytes(array.dtype);
        array.buffer = wide;
        array.byteOffset = column;
        array.strides[0] = T * width / bytes;
        array.strides[1] = width / bytes;
        int64_t inner = 1;
        for (size_t i = array.shape.size(); i-- > 2; inner *= array.shape[i])
          array.strides[i] = inner;
        column += (inner * bytes + 15) / 16 * 16;
        for (int64_t i = 0; i < array.size(); ++i)
          std::memcpy(&wide->image[array.place(i)],
                      &bound.array.buffer->image[bound.array.place(i)], bytes);
        bound.array = array;
      }
    };
    const Tensor outputs = log.layer.append(log.planner, tokens, options);
    for (int64_t row = 0; row < N; ++row)
      expectSerial(log.layer, tokens, row * T, T, before[row], outputs);
  });
}

//===----------------------------------------------------------------------===//
// Bad numbers: whatever device memory holds, kernels stay inside their tensors
//===----------------------------------------------------------------------===//

/// Fences before and behind all arrays, on the CPU; guards alone elsewhere.
static std::vector<Placing> fencedPlacings() {
  if (Device::get().driver)
    return {Placing{}};
  return {Placing{}, Placing{0, false, Fence::After}, Placing{0, false, Fence::Before}};
}

/// After garbage, rows of good numbers are right: nothing else was written, nothing is stuck.
static void checkAfterGarbage(Log &log) {
  const int64_t N = log.planner.slots;
  std::vector<States> states = fillLogs(log, std::vector<int64_t>(N, 1));
  const Tokens tokens = log.layer.draw(N, 1);
  const Tensor outputs = log.step(inPlace(N, 1), tokens);
  for (int64_t row = 0; row < N; ++row)
    expectSerial(log.layer, tokens, row, 1, states[row], outputs);
}

TEST(LogMemory, BadRowsStayInsideTheTensorsR018) {
  forKernels([](const LogKernels &kernels) {
    if (kernels.isModel() || kernels.layout != "kv" || kernels.K * kernels.V > 64 * 32)
      return;
    const bool isWide = kernels.index == DLK_I64;
    const int64_t low = isWide ? INT64_MIN : INT32_MIN, high = isWide ? INT64_MAX : INT32_MAX;
    const int64_t cut = int64_t(1) << 32; // whose 32 bits are 0
    std::vector<int64_t> values = {-1, 4, 5, 100, low, high, low + 1, high - 1};
    if (isWide)
      for (int64_t value : {cut, cut + 1, -cut, 1 - cut, 2 * cut + 2})
        values.push_back(value);
    for (const Placing &placing : fencedPlacings()) {
      Log log(kernels, 1, 2, 4, 1, placing);
      LaunchOptions options, garbage;
      options.placing = garbage.placing = placing;
      garbage.isGarbage = true;
      auto run = [&](const Rows<int64_t> &rows) {
        // What a plan makes of them is settled; what a kernel makes of such descriptors is not.
        log.planner.plan(rows, options);
        log.layer.append(log.planner, log.layer.draw(1, 3), garbage);
        log.layer.append(log.planner, log.layer.draw(3, 1), garbage);
        log.layer.merge(log.planner, garbage);
      };
      for (int64_t value : values)
        for (int field = 0; field < 8; ++field) {
          SCOPED_TRACE("field " + std::to_string(field) + " value " + std::to_string(value));
          fillLogs(log, {1, 1, 1});
          Rows<int64_t> rows = packed({1, 1, 1});
          rows.src = rows.dst = {0, 1, 2};
          rows.accepted = {1, 1, 1};
          rows.initial = {1, 1, 1};
          rows.checkpointSlots = {-1, -1, -1};
          rows.checkpointOffsets = {0, 0, 0};
          std::vector<int64_t> *arrays[] = {&rows.src,
                                            &rows.dst,
                                            &rows.accepted,
                                            &rows.checkpointSlots,
                                            &rows.checkpointOffsets,
                                            &rows.starts,
                                            &rows.starts};
          if (field < 7)
            (*arrays[field])[field == 6 ? 3 : 1] = value;
          else
            rows.initial = {7, 255, 128};
          if (field == 4)
            rows.checkpointSlots[1] = 3;
          run(rows);
        }
      // T of all rows, far more than there are, or fewer than none.
      for (int32_t tokens : {-1, 17, INT32_MAX, INT32_MIN}) {
        fillLogs(log, {1, 1, 1});
        run(inPlace(3, tokens));
      }
      checkAfterGarbage(log);
    }
  });
}

TEST(LogMemory, BadCursorsStayInsideTheTensors) {
  forKernels([](const LogKernels &kernels) {
    if (kernels.isModel() || kernels.layout != "kv" || kernels.K * kernels.V > 64 * 32)
      return;
    const int32_t values[] = {-1, kernels.limits.ring, 1000, INT32_MIN, INT32_MAX};
    for (const Placing &placing : fencedPlacings()) {
      Log log(kernels, 1, 2, 4, 1, placing);
      LaunchOptions options, garbage;
      options.placing = garbage.placing = placing;
      garbage.isGarbage = true;
      for (int32_t value : values)
        for (int field = 0; field < 5; ++field) {
          SCOPED_TRACE("field " + std::to_string(field) + " value " + std::to_string(value));
          for (int64_t slot = 0; slot < 4; ++slot) {
            int32_t cursor[4] = {0, 1, 1, 0};
            for (int i = 0; i < 4; ++i)
              cursor[i] = field == i || field == 4 ? value : cursor[i];
            log.planner.setCursor(slot, {cursor[0], cursor[1], cursor[2], Merge(cursor[3])});
          }
          Materialization wanted;
          wanted.rows = 3;
          wanted.counts = {value, 1, 0};
          log.layer.materialize(log.planner, wanted, garbage);
          wanted.counts = {};
          log.layer.materialize(log.planner, wanted, garbage);
          wanted.slots = {value, 1, 2};
          wanted.destinations = {0, value, 2};
          log.layer.materialize(log.planner, wanted, garbage);
          Rows<int64_t> rows = inPlace(3, 1);
          rows.flush = {0, 1, 0};
          rows.checkpointSlots = {-1, -1, 3};
          rows.checkpointOffsets = {0, 0, value};
          log.planner.plan(rows, options);
          log.layer.append(log.planner, log.layer.draw(3, 1), garbage);
          log.layer.merge(log.planner, garbage);
        }
      checkAfterGarbage(log);
    }
  });
}

/// Descriptors that no plan has written.
TEST(LogMemory, BadDescriptorsStayInsideTheTensors) {
  forKernels([](const LogKernels &kernels) {
    if (kernels.isModel() || kernels.K * kernels.V > 96 * 64)
      return;
    const int32_t values[] = {-1, 3, kernels.limits.ring, 1000, INT32_MIN, INT32_MAX};
    for (const Placing &placing : fencedPlacings()) {
      Log log(kernels, 1, 2, 3, 1, placing);
      LaunchOptions garbage;
      garbage.placing = placing;
      garbage.isGarbage = true;
      for (int32_t value : values)
        for (int field = 0; field < 13; ++field) {
          SCOPED_TRACE("field " + std::to_string(field) + " value " + std::to_string(value));
          std::vector<Descriptor> rows(3);
          for (int32_t row = 0; row < 3; ++row) {
            int32_t ints[12] = {row, row, row, 1, 0, 1, 1, 0, 0, -1, -1, 0};
            for (int i = 0; i < 12; ++i)
              ints[i] = field == i || field == 12 ? value : ints[i];
            if (field == 10)
              ints[9] = row;
            std::memcpy(static_cast<void *>(&rows[row]), ints, sizeof(ints));
          }
          log.planner.setDescriptors(rows);
          log.planner.rows.clear(); // nothing may be derived from them
          log.layer.append(log.planner, log.layer.draw(1, 3), garbage);
          log.layer.append(log.planner, log.layer.draw(3, 1), garbage);
          log.layer.merge(log.planner, garbage);
        }
      checkAfterGarbage(log);
    }
  });
}
