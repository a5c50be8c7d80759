//===- DecodeRepeatTest.cpp - Many launches: replays, threads, drift ------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Decode.h"
#include "test/Reference/Random.h"
#include "tools/dl-run/Numbers.h"

#include <cmath>
#include <thread>

using namespace dl::test;

static const std::pair<const char *, const char *> operatorsAndLayouts[] = {
    {"gdn", "kv"}, {"kda", "vk"}, {"rwkv6", "kv"}};

//===----------------------------------------------------------------------===//
// One geometry, captured once
//===----------------------------------------------------------------------===//

namespace {
/// The launch of `prepared`, to be run again and again: on a GPU as a graph, captured from the
/// first launch its plan makes.
class Replay {
public:
  explicit Replay(Prepared &prepared) : prepared(prepared) {
    if (!driver)
      return;
    cuda::Graph graph = nullptr;
    EXPECT_EQ(driver->streamCreate(&stream, 1), 0);
    EXPECT_EQ(driver->streamBeginCapture(stream, /*global=*/0), 0);
    prepared.launch(stream);
    EXPECT_EQ(driver->streamEndCapture(stream, &graph), 0);
    EXPECT_EQ(driver->graphInstantiate(&exec, graph, 0), 0);
    driver->graphDestroy(graph);
  }
  ~Replay() {
    if (!driver)
      return;
    driver->graphExecDestroy(exec);
    driver->streamDestroy(stream);
  }
  Replay(const Replay &) = delete;
  Replay &operator=(const Replay &) = delete;

  Outcome run() {
    if (driver)
      EXPECT_EQ(driver->graphLaunch(exec, stream), 0);
    else
      prepared.launch();
    return prepared.collect();
  }

private:
  Prepared &prepared;
  const cuda::Driver *driver = Device::get().driver;
  cuda::Stream stream = nullptr;
  cuda::GraphExec exec = nullptr;
};
} // namespace

/// 192 rows in 192 tokens, of which the first `numLive` have these lengths, and the others none.
static Problem atCapacity(const Problem &like, int64_t numLive, int64_t length) {
  Problem problem = like;
  problem.starts.assign(193, numLive * length);
  problem.sources.assign(192, -1);
  for (int64_t row = 0; row < numLive; ++row) {
    problem.starts[row] = row * length;
    problem.sources[row] = (row * 5 + 1) % 193;
  }
  problem.destinations = problem.sources;
  for (auto &[name, tensor] : problem.tensors)
    if (tensor.shape().size() > 2) {
      const int64_t token = tensor.values().size() / 192;
      std::fill(tensor.values().begin() + numLive * length * token, tensor.values().end(), NAN);
    }
  return problem;
}

/// What is captured with dummy rows serves every other number of rows and tokens.
TEST(DecodeRepeat, DummiesThenAnyRowsR049R051R052) {
  for (const auto &[name, layout] : operatorsAndLayouts) {
    SCOPED_TRACE(name);
    const Problem like = makeProblem(operatorOf(name), {1, 192, 1, 1, 64, 64}, layout, 1, 193);
    Prepared prepared(atCapacity(like, 0, 0));
    Replay replay(prepared);
    check(atCapacity(like, 0, 0), replay.run());
    for (const auto &[rows, length] :
         {std::pair<int64_t, int64_t>{32, 6}, {192, 1}, {2, 65}, {1, 192}, {0, 0}}) {
      SCOPED_TRACE(std::to_string(rows) + " rows of " + std::to_string(length));
      const Problem problem = atCapacity(like, rows, length);
      prepared.refill(problem);
      const Outcome got = replay.run();
      check(problem, got);
      const Outcome eager = launch(problem);
      EXPECT_TRUE(sameBits(got.o, eager.o) && sameBits(got.pool, eager.pool));
    }
  }
}

/// Launches on one pool, each of which may start before the one in front of it is done.
TEST(DecodeRepeat, LaunchesThatOverlapGiveTheSame) {
  if (!Device::get().driver) {
    LaunchOptions options;
    options.flags = DLK_PLAN_PDL;
    expectRefused(makeProblem(operatorOf("gdn"), {1, 1, 2, 4, 64, 64}, "kv"), options,
                  DLK_UNSUPPORTED, "PDL");
    return;
  }
  for (const auto &[name, layout] : operatorsAndLayouts)
    for (int64_t B : {1, 64}) {
      SCOPED_TRACE(name);
      const Problem problem = makeProblem(operatorOf(name), {B, 2, 2, 4, 128, 128}, layout);
      LaunchOptions options;
      Prepared one(problem, options);
      options.flags = DLK_PLAN_PDL;
      Prepared other(problem, options);
      for (int i = 0; i < 50; ++i)
        one.launch();
      for (int i = 0; i < 50; ++i)
        other.launch();
      const Outcome want = one.collect(), got = other.collect();
      if (got.status == DLK_UNSUPPORTED)
        GTEST_SKIP() << got.message;
      ASSERT_EQ(got.status, DLK_OK) << got.message;
      EXPECT_TRUE(sameBits(got.o, want.o) && sameBits(got.pool, want.pool));
    }
}

TEST(DecodeRepeat, LaunchesTakeNoMemoryR091) {
  const dl::runtime::cuda::Driver *driver = Device::get().driver;
  if (!driver)
    GTEST_SKIP() << "about the memory of a GPU; the runtime's tests count what a launch allocates";
  size_t first = 0, later = 0, total = 0;
  Prepared prepared(makeProblem(operatorOf("gdn"), {4, 1, 2, 4, 128, 128}, "kv"));
  prepared.launch();
  EXPECT_EQ(prepared.collect().status, DLK_OK);
  ASSERT_EQ(driver->memGetInfo(&first, &total), 0);
  for (int i = 0; i < 1000; ++i)
    prepared.launch();
  EXPECT_EQ(prepared.collect().status, DLK_OK);
  ASSERT_EQ(driver->memGetInfo(&later, &total), 0);
  EXPECT_EQ(first, later);
}

/// Dummy rows on a pool of arbitrary bytes, NaN in every disguise among them: `launch` compares
/// all.
TEST(DecodeRepeat, DummiesLeaveAnyPoolAsItIsR051) {
  for (const auto &[name, layout] : operatorsAndLayouts)
    for (bool fresh : {false, true}) {
      SCOPED_TRACE(name);
      Problem problem = makeProblem(operatorOf(name), {64, 2, 2, 4, 64, 64}, layout, 1, 7);
      problem.sources = problem.destinations = std::vector<int64_t>(64, -1);
      if (fresh)
        problem.hasState.assign(64, 0);
      LaunchOptions options;
      options.change = [](std::vector<Argument> &arguments) {
        Random random(1);
        for (unsigned char &byte : find(arguments, "S").memory->image)
          byte = static_cast<unsigned char>(random.uniform(0, 256));
      };
      const Outcome got = launch(problem, options);
      EXPECT_EQ(got.status, DLK_OK) << got.message;
      EXPECT_EQ(got.o.values(), std::vector<double>(got.o.values().size(), 0));
    }
}

//===----------------------------------------------------------------------===//
// Threads and streams
//===----------------------------------------------------------------------===//

/// Launches all of `prepared`, with the plans of `others` if given, in turn and `count` times; on a
/// GPU on a stream that waits for no other.
class Worker {
public:
  Worker(std::vector<Prepared *> prepared, std::vector<Prepared *> others, int count)
      : prepared(std::move(prepared)), others(std::move(others)), count(count) {
    if (Device::get().driver)
      EXPECT_EQ(Device::get().driver->streamCreate(&stream, 1), 0);
  }
  ~Worker() {
    if (Device::get().driver)
      Device::get().driver->streamDestroy(stream);
  }
  Worker(const Worker &) = delete;
  Worker &operator=(const Worker &) = delete;

  void operator()() const {
    for (int i = 0; i < count; ++i)
      for (size_t j = 0; j < prepared.size(); ++j)
        prepared[j]->launch(stream, others.empty() ? nullptr : others[j]->plan);
  }

private:
  std::vector<Prepared *> prepared, others;
  int count;
  cuda::Stream stream = nullptr;
};

static void runAtOnce(const Worker &a, const Worker &b) {
  std::thread other([&] { b(); });
  a();
  other.join();
}

static void expectSame(const Outcome &got, const Outcome &want) {
  EXPECT_EQ(got.status, DLK_OK) << got.message;
  EXPECT_TRUE(sameBits(got.o, want.o) && sameBits(got.pool, want.pool));
}

/// Two threads step their own states a hundred times, with plans of their own or one for both.
TEST(DecodeRepeat, TwoThreadsAndStreamsR053) {
  for (const auto &[name, layout] : operatorsAndLayouts) {
    SCOPED_TRACE(name);
    const Problem first = makeProblem(operatorOf(name), {16, 2, 2, 4, 64, 64}, layout, 1);
    const Problem second = makeProblem(operatorOf(name), {16, 2, 2, 4, 64, 64}, layout, 2);
    Prepared a(first), b(second);
    Worker({&a}, {}, 100)();
    Worker({&b}, {}, 100)();
    const Outcome wantA = a.collect(), wantB = b.collect();
    EXPECT_FALSE(sameBits(wantA.pool, launch(first).pool)) << "a step that changes nothing";
    for (bool onePlan : {false, true}) {
      Prepared x(first), y(second);
      const std::vector<Prepared *> plans = onePlan ? std::vector{&x} : std::vector<Prepared *>();
      runAtOnce(Worker({&x}, {}, 100), Worker({&y}, plans, 100));
      expectSame(x.collect(), wantA);
      expectSame(y.collect(), wantB);
    }
  }
}

/// Two threads launch two kernels of unlike shared memory in turn, a thousand times.
TEST(DecodeRepeat, KernelsInTurnR055) {
  auto problem = [](const char *layout, uint64_t seed) {
    return makeProblem(operatorOf("kda"), {1, 1, 1, 1, 128, 128}, layout, seed);
  };
  auto once = [](const Problem &problem) {
    Prepared alone(problem);
    Worker({&alone}, {}, 500)();
    return alone.collect();
  };
  Prepared kv1(problem("kv", 1)), vk1(problem("vk", 1)), kv2(problem("kv", 2)),
      vk2(problem("vk", 2));
  runAtOnce(Worker({&kv1, &vk1}, {}, 500), Worker({&kv2, &vk2}, {&kv1, &vk1}, 500));
  expectSame(kv1.collect(), once(problem("kv", 1)));
  expectSame(vk1.collect(), once(problem("vk", 1)));
  expectSame(kv2.collect(), once(problem("kv", 2)));
  expectSame(vk2.collect(), once(problem("vk", 2)));
}

//===----------------------------------------------------------------------===//
// Drift
//===----------------------------------------------------------------------===//

static constexpr int64_t numSteps = 4096;

/// One row of 4096 tokens; its heads decay by g = 0, -0.001 and -0.1.
static Problem longRow(const std::string &name, const char *layout) {
  Problem problem = makeProblem(operatorOf(name), {1, numSteps, 1, 3, 64, 64}, layout);
  for (double &value : problem.gate().values())
    value = 0;
  for (double &value : problem.tensors.at("dt_bias").values())
    value = 30; // its own softplus
  problem.tensors["A_log"].values() = {-INFINITY, std::log(1e-3 / 30), std::log(0.1 / 30)};
  return problem;
}

/// Token by token, with the state in memory between them.
static Outcome stepByStep(const Problem &problem) {
  Prepared prepared(problem);
  const std::vector<Argument> whole = prepared.arguments;
  for (int64_t t = 0; t < numSteps; ++t) {
    for (size_t i = 0; i < whole.size(); ++i)
      if (whole[i].info.role == DLK_ROLE_INPUT || whole[i].info.role == DLK_ROLE_OUTPUT) {
        prepared.arguments[i].shape[1] = 1;
        prepared.arguments[i].byteOffset =
            whole[i].byteOffset + t * whole[i].strides[1] * dlk_dtype_bytes(whole[i].info.dtype);
      }
    prepared.launch();
  }
  prepared.arguments = whole;
  return prepared.collect();
}

/// The same in double precision, with the state rounded to nearest even after each step.
static Outcome emulate(Problem problem, dlk_dtype state) {
  problem.op.state = state;
  if (state == DLK_F64)
    return expected(problem);
  Outcome all = {DLK_OK, "", Tensor({1, numSteps, 3, 64}), {}};
  Problem part; // a few tokens, since taking one copies all that there are
  for (int64_t t = 0; t < numSteps; ++t) {
    if (t % 64 == 0)
      part = tokensOf(problem, t, 64);
    part.pool = problem.pool;
    const Outcome step = expected(tokensOf(part, t % 64, 1));
    std::copy(step.o.values().begin(), step.o.values().end(), &all.o.values()[t * 3 * 64]);
    problem.pool = step.pool;
    for (double &value : problem.pool.values())
      value = dl::run::roundTo(state, value);
  }
  all.pool = problem.pool;
  for (double &value : all.o.values())
    value = dl::run::roundTo(problem.op.io, value);
  return all;
}

/// Each head alone: [outputs of all tokens, last state] of head h.
static std::pair<Tensor, Tensor> headOf(const Outcome &outcome, int64_t h) {
  Tensor o({numSteps, 64}), S({64, 64});
  for (int64_t t = 0; t < numSteps; ++t)
    std::copy_n(&outcome.o.values()[(t * 3 + h) * 64], 64, &o.values()[t * 64]);
  std::copy_n(&outcome.pool.values()[h * 64 * 64], 64 * 64, S.values().begin());
  return {o, S};
}

/// States of f32 do not drift, and those of 16 bits no more than their rounding explains.
TEST(DecodeRepeat, DriftOver4096StepsR092) {
  for (const auto &[name, layout] :
       {std::pair<std::string, const char *>{"gdn", "kv"}, {"kda", "vk"}}) {
    const Problem wide = longRow(name, layout);
    const Outcome exact = emulate(wide, DLK_F64);
    for (const auto &[suffix, state] :
         {std::pair("", DLK_F32), {"-state-bf16", DLK_BF16}, {"-state-f16", DLK_F16}}) {
      const Problem problem = longRow(name + suffix, layout);
      const Outcome got = stepByStep(problem);
      ASSERT_EQ(got.status, DLK_OK) << got.message;
      const Outcome model = state == DLK_F32 ? exact : emulate(problem, state);
      for (int64_t h = 0; h < 3; ++h) {
        SCOPED_TRACE(problem.op.package + " head " + std::to_string(h));
        const auto [o, S] = headOf(got, h);
        const auto [exactO, exactS] = headOf(exact, h);
        const auto [modelO, modelS] = headOf(model, h);
        const bool isWide = state == DLK_F32;
        EXPECT_LE(rmsRatio(o, exactO), isWide ? 5e-3 : 1.5 * rmsRatio(modelO, exactO));
        EXPECT_LE(rmsRatio(S, exactS), isWide ? 1e-3 : 1.5 * rmsRatio(modelS, exactS));
      }
    }
  }
}
