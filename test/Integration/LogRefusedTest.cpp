//===- LogRefusedTest.cpp - What launches refuse, and how they say so -----===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every refusal is one line that names the argument; no byte of any tensor changes.
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Log.h"

using namespace dl::test;

using Change = std::function<void(std::vector<Bound> &)>;

static LaunchOptions refused(const std::string &message, const Change &change) {
  LaunchOptions options;
  options.refusal = message;
  options.change = change;
  return options;
}

template <typename Function> static void forPackages(Function f) {
  forKernels([&](const LogKernels &kernels) {
    if (!kernels.isModel())
      f(kernels);
  });
}

//===----------------------------------------------------------------------===//
// What the host can see
//===----------------------------------------------------------------------===//

TEST(LogRefused, CursorsR064) {
  forPackages([](const LogKernels &kernels) {
    Log log(kernels, 1, 2, 3);
    fillLogs(log, {1, 2, 0});
    const Rows<int64_t> rows = inPlace(2, 1);
    auto expect = [&](const std::string &message, const std::function<void(Array &)> &change) {
      SCOPED_TRACE(message);
      log.planner.plan(rows, refused(message, [&](std::vector<Bound> &arguments) {
                         change(find(arguments, "cursors"));
                       }));
      Materialization wanted;
      wanted.rows = 3;
      log.layer.materialize(log.planner, wanted, refused(message, [&](std::vector<Bound> &x) {
                              change(find(x, "cursors"));
                            }));
    };
    expect("'cursors'", [](Array &x) { x.isAbsent = true; });
    // Rows of any stride, but packed ones.
    expect("'cursors'", [](Array &x) { x.strides = {8, 2}; });
    expect("'cursors'", [](Array &x) { x.strides = {1, 3}; });
    expect("'cursors'", [](Array &x) { x.shape = {3, 5}; });
    expect("'cursors'", [](Array &x) { x.dtype = DLK_I64; });
    expect("'cursors'", [](Array &x) { x.dtype = DLK_F32; });
    expect("'cursors'", [](Array &x) { x.shape = {12}, x.strides = {1}; });
  });
}

TEST(LogRefused, DescriptorsR064) {
  forPackages([](const LogKernels &kernels) {
    Log log(kernels, 1, 2, 3);
    fillLogs(log, {1, 2, 0});
    const Rows<int64_t> rows = inPlace(2, 1);
    log.planner.plan(rows);
    const Tokens tokens = log.layer.draw(2, 1);
    const std::vector<std::function<void(Array &)>> changes = {
        [](Array &x) { x.isAbsent = true; },
        [](Array &x) { x.strides[1] = 2; },
        [](Array &x) { x.shape = {2, 11}; },
        [](Array &x) { x.dtype = DLK_I64; },
    };
    for (const auto &change : changes) {
      const LaunchOptions options = refused("'descriptors'", [&](std::vector<Bound> &arguments) {
        change(find(arguments, "descriptors"));
      });
      log.planner.plan(rows, options);
      log.planner.plan(rows);
      log.layer.append(log.planner, tokens, options);
      log.layer.merge(log.planner, options);
    }
  });
}

/// Tensors of other types, rings of other lengths, pools that do not belong together.
TEST(LogRefused, BasesAndLogsR064) {
  forPackages([](const LogKernels &kernels) {
    Log log(kernels, 1, 2, 3);
    fillLogs(log, {1, 2, 0});
    log.planner.plan(inPlace(2, 1));
    const Tokens tokens = log.layer.draw(2, 1);
    auto expect = [&](const std::string &name, const std::function<void(Array &)> &change) {
      SCOPED_TRACE(name);
      const LaunchOptions options = refused("'" + name + "'", [&](std::vector<Bound> &arguments) {
        for (Bound &bound : arguments)
          if (bound.info->name == name)
            change(bound.array);
      });
      log.layer.append(log.planner, tokens, options);
      log.layer.merge(log.planner, options);
      Materialization wanted;
      wanted.rows = 3;
      log.layer.materialize(log.planner, wanted, options);
    };
    for (const auto &[name, field] : log.layer.log) {
      expect(name, [](Array &x) { x.isAbsent = true; });
      expect(name, [](Array &x) { --x.shape[2]; });
      expect(name, [](Array &x) { ++x.shape[2], x.strides[1] = 0, x.strides[2] = 0; });
      expect(name, [](Array &x) { x.dtype = x.dtype == DLK_F32 ? DLK_BF16 : DLK_F32; });
    }
    const std::string state = [&] {
      for (const KernelArgument &argument : kernels.append->arguments)
        if (argument.role == "state")
          return argument.name;
      return std::string();
    }();
    expect(state, [](Array &x) { x.dtype = x.dtype == DLK_F32 ? DLK_BF16 : DLK_F32; });
    expect(state, [](Array &x) { std::swap(x.shape[2], x.shape[3]), ++x.shape[2]; });
  });
}

/// Fewer slots in one of the arrays that belong together.
TEST(LogRefused, PoolsOfDifferentSizes) {
  forPackages([](const LogKernels &kernels) {
    Log log(kernels, 1, 2, 3);
    fillLogs(log, {1, 2, 0});
    log.planner.plan(inPlace(2, 1));
    const Tokens tokens = log.layer.draw(2, 1);
    for (const auto &[name, field] : log.layer.log) {
      const LaunchOptions options =
          refused("got 2", [&, name = name](std::vector<Bound> &arguments) {
            find(arguments, name).shape[0] = 2;
          });
      log.layer.append(log.planner, tokens, options);
      log.layer.merge(log.planner, options);
    }
  });
}

TEST(LogRefused, InputsOfAnotherTypeR064) {
  forPackages([](const LogKernels &kernels) {
    Log log(kernels, 1, 2, 2);
    fillLogs(log, {1, 2});
    log.planner.plan(inPlace(2, 1));
    const Tokens tokens = log.layer.draw(2, 1);
    for (const auto &[name, tensor] : tokens.inputs)
      log.layer.append(log.planner, tokens,
                       refused("'" + name + "'", [&, name = name](std::vector<Bound> &arguments) {
                         Array &x = find(arguments, name);
                         x.dtype = x.dtype == DLK_F16 ? DLK_BF16 : DLK_F16;
                       }));
  });
}

/// Arrays with an entry per row, for 72 rows of 4 tokens.
TEST(LogRefused, LengthsOfArraysR062) {
  forPackages([](const LogKernels &kernels) {
    if (kernels.limits.maxTokens < 4 || kernels.K * kernels.V > 64 * 64)
      return;
    const int64_t N = 72;
    Log log(kernels, 1, 2, N);
    Rows<int64_t> rows = inPlace(N, 4);
    for (int64_t row = 0; row < N; ++row) {
      rows.src.push_back(row);
      log.layer.setBase(row, log.layer.zeros());
    }
    rows.dst = rows.src;
    rows.accepted.assign(N, 0);
    rows.initial.assign(N, 1);
    rows.flush.assign(N, 0);
    rows.checkpointSlots.assign(N, -1);
    rows.checkpointOffsets.assign(N, 0);
    for (const char *role : {"slots_in", "slots_out", "accepted", "row_flags", "flush",
                             "checkpoint_slots", "checkpoint_offsets"})
      for (int64_t length : {288, 71}) {
        SCOPED_TRACE(role);
        // Of the longer array the bytes beyond are never looked at: the launch is refused.
        log.planner.plan(rows, refused(std::to_string(length), [&](std::vector<Bound> &arguments) {
                           for (Bound &bound : arguments)
                             if (bound.info->role == role)
                               bound.array.shape[0] = length, bound.array.strides[0] = 1;
                         }));
      }
    log.planner.plan(rows);
    const Tokens tokens = log.layer.draw(N, 4);
    log.layer.append(log.planner, tokens, refused("71", [&](std::vector<Bound> &arguments) {
                       find(arguments, "descriptors").shape[0] = 71;
                     }));
    log.layer.append(log.planner, tokens);
  });
}

//===----------------------------------------------------------------------===//
// The checked mode: what the arrays hold
//===----------------------------------------------------------------------===//

/// A longer history than the window, a start beyond the ring, and what LogProtocol.md shows.
TEST(LogRefused, CheckedContentsR064) {
  forPackages([](const LogKernels &kernels) {
    const dl::deltalog::Limits &limits = kernels.limits;
    const std::string longest = std::to_string(limits.longestLog()),
                      longer = std::to_string(limits.longestLog() + 1),
                      last = std::to_string(limits.ring - 1), ring = std::to_string(limits.ring),
                      most = std::to_string(limits.maxTokens),
                      more = std::to_string(limits.maxTokens + 1);
    Log log(kernels, 1, 2, 4);
    fillLogs(log, {1, 1, 1, 1});
    LaunchOptions checked;
    checked.flags = DLK_PLAN_CHECKED;
    // Nothing is wrong, with rows of a number of tokens each or of the same.
    log.planner.plan(packed({1, 1, 0}), checked);
    Rows<int64_t> rows = inPlace(3, 1);
    rows.src = {0, 1, 2};
    rows.dst = {0, 1, 2};
    rows.accepted = {1, 1, 0};
    log.planner.plan(rows, checked);
    rows.accepted = {1, 1, 1};
    const Cursor good = log.planner.cursor(1);
    auto expect = [&](const std::string &message,
                      const std::function<void(Rows<int64_t> &)> &change, const Cursor &cursor) {
      SCOPED_TRACE(message);
      Rows<int64_t> bad = rows;
      change(bad);
      log.planner.setCursor(1, cursor);
      checked.refusal = message;
      log.planner.plan(bad, checked);
      log.planner.setCursor(1, good);
    };
    auto nothing = [](Rows<int64_t> &) {};
    expect("slot 1 length: expected 0 to " + longest + ", got " + longer, nothing,
           {0, limits.longestLog() + 1, 0, Merge::None});
    expect("slot 1 start: expected 0 to " + last + ", got " + ring, nothing,
           {limits.ring, 0, 0, Merge::None});
    expect("slot 1 pending: expected 0 to " + most + ", got " + more, nothing,
           {0, 0, limits.maxTokens + 1, Merge::None});
    expect("'num_accepted_tokens' row 1: expected 0 to 1, got 2",
           [](Rows<int64_t> &bad) { bad.accepted[1] = 2; }, {0, 0, 1, Merge::None});
    expect(
        "'dst_slots' row 2: expected a slot of its own, got 1, which row 1 writes too",
        [](Rows<int64_t> &bad) { bad.dst[2] = 1; }, good);
    expect(
        "'dst_slots' row 2: expected a slot below 4, got 4",
        [](Rows<int64_t> &bad) { bad.dst[2] = 4; }, good);
    expect(
        "'cu_seqlens' row 2",
        [&](Rows<int64_t> &bad) { bad.starts = {0, 1, 2, limits.maxTokens + 3}; }, good);
    expect("'cu_seqlens' row 1", [](Rows<int64_t> &bad) { bad.starts = {0, 1, 0, 1}; }, good);
    expect(
        "'src_slots' row 2: expected a slot that no other row writes, got 1, which row 1 writes",
        [](Rows<int64_t> &bad) { bad.src[2] = 1, bad.dst[2] = 3; }, good);
    expect("'checkpoint_offsets' row 1",
           [](Rows<int64_t> &bad) {
             bad.checkpointSlots = {-1, 3, -1};
             bad.checkpointOffsets = {0, -99, 0};
           },
           {0, 1, 0, Merge::None});
  });
}
