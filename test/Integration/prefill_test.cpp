//===- prefill_test.cpp - Compiled prefill kernels, from launch to result -===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   DL_TEST_DEVICE=cuda prefill_test FOLDER        (default device: cpu)
//
// FOLDER holds the packages, built here or elsewhere. Names with R and three digits are rows of the
// project's list of robustness requirements. Here: what a kernel computes. PrefillGatesTest.cpp:
// decays and strengths. PrefillRowsTest.cpp: which tokens and states rows have.
// PrefillBitsTest.cpp: what has to be the same to the last bit. PrefillPartsTest.cpp: in parts.
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Prefill.h"

#include <cstdio>
#include <sstream>

using namespace dl::test;

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

Operator dl::test::prefillOf(const std::string &package) {
  std::istringstream parts(package);
  std::string part;
  std::getline(parts, part, '-');
  Operator op = part == "rwkv7" ? Operator{part, Operator::RWKV7} : operatorOf(part);
  op.package = package;
  op.kernel = "prefill";
  while (std::getline(parts, part, '-')) {
    if (part == "f16")
      op.io = DLK_F16;
    else if (part == "f32")
      op.io = DLK_F32;
    else if (part == "state16")
      op.state = DLK_BF16;
    else if (part == "raw")
      op.rawDecay = true;
    else if (part == "factor2")
      op.betaFactor = 2;
    else if (part == "given" || part == "plain")
      op.gate = Gate::Precomputed;
    else if (part.rfind("bound", 0) == 0)
      op.gate = Gate::Bounded, op.lowerBound = -std::stod(part.substr(5));
    if (part == "plain")
      op.normalize = false, op.beta = Beta::Value;
  }
  return op;
}

std::vector<Operator> dl::test::prefillOperators(const std::string &suffix) {
  std::vector<Operator> result;
  for (const char *name : {"gdn", "kda", "rwkv6"})
    result.push_back(prefillOf(name + suffix));
  return result;
}

bool dl::test::hasWgmma() {
  return Device::get().isHost() || Device::get().computeCapability == 90;
}

std::vector<std::string> dl::test::prefillForms() {
  std::vector<std::string> forms{"", "-c16", "-c64", "-fused-c16"};
  if (hasWgmma())
    forms.insert(forms.end(), {"-wgmma", "-wgmma-c64"});
  if (Device::get().isHost()) // a GPU has too few registers for these
    forms.insert(forms.end(), {"-c128", "-fused", "-fused-c64", "-fused-c128", "-fused-wgmma"});
  return forms;
}

void dl::test::setDecays(Problem &problem, const std::function<double(size_t)> &value) {
  for (size_t i = 0; i < problem.gate().values().size(); ++i)
    problem.gate().values()[i] = value(i);
}

//===----------------------------------------------------------------------===//
// Tokens, dims, heads, options
//===----------------------------------------------------------------------===//

TEST(Prefill, NumbersOfTokens) {
  forForms({"gdn", "kda", "rwkv6"}, [](const Operator &op, const std::string &layout) {
    for (int64_t T : {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 129}) {
      SCOPED_TRACE("T=" + std::to_string(T));
      launchAndCheck(makeProblem(op, {1 + T % 3, T, 1, 2, 32, 32}, layout));
    }
  });
}

/// Chunks of 16 tokens, two rows each.
TEST(Prefill, TwoWritesPerToken) {
  std::vector<std::string> names{"rwkv7"};
  if (hasWgmma())
    names.push_back("rwkv7-wgmma");
  for (const std::string &name : names)
    for (const char *layout : {"kv", "vk"})
      for (int64_t T : {1, 2, 15, 16, 17, 33, 100}) {
        SCOPED_TRACE(name + " " + layout + " T=" + std::to_string(T));
        launchAndCheck(makeProblem(prefillOf(name), {1 + T % 3, T, 1, 2, 32, 32}, layout));
      }
}

/// Columns of V that are a part of a tile and several tiles; rows of keys with every swizzle.
TEST(Prefill, DimsOfWgmma) {
  if (!hasWgmma())
    GTEST_SKIP() << "no wgmma";
  const std::pair<int64_t, int64_t> dims[] = {{48, 64}, {96, 48}, {128, 128}};
  for (const Operator &op : prefillOperators("-wgmma"))
    for (const char *layout : {"kv", "vk"})
      for (const auto &[K, V] : dims) {
        SCOPED_TRACE(op.package + " " + layout + " " + std::to_string(K) + "x" + std::to_string(V));
        launchAndCheck(makeProblem(op, {1, 70, 1, 2, K, V}, layout));
      }
}

TEST(Prefill, DimsAndDefaultScaleR026) {
  const std::pair<int64_t, int64_t> dims[] = {{16, 16}, {64, 64}, {96, 48}, {128, 128}, {192, 128}};
  for (const auto &[K, V] : dims)
    forPrefills([K = K, V = V](const Operator &op, const std::string &layout) {
      SCOPED_TRACE(std::to_string(K) + "x" + std::to_string(V));
      launchAndCheck(makeProblem(op, {1, 70, 1, 1, K, V}, layout));
    });
}

TEST(Prefill, HeadsPerKeyHead) {
  const std::pair<int64_t, int64_t> heads[] = {{1, 1}, {3, 3}, {2, 4}, {1, 3}, {2, 6}, {1, 5}};
  for (const auto &[HQ, HV] : heads)
    forPrefills([HQ = HQ, HV = HV](const Operator &op, const std::string &layout) {
      SCOPED_TRACE("HQ=" + std::to_string(HQ) + " HV=" + std::to_string(HV));
      launchAndCheck(makeProblem(op, {2, 40, HQ, HV, 32, 32}, layout));
    });
}

/// Types of inputs and of states, gates, strengths.
TEST(Prefill, OptionsAndTypes) {
  std::vector<std::string> names{"rwkv6-raw"};
  for (const std::string op : {"gdn", "kda", "rwkv6"})
    for (const char *option : {"-f16", "-f32", "-state16", "-state16-c64", "-fused-f32"})
      if (option != std::string("-fused-f32") || Device::get().handle.type == DLK_DEVICE_CPU)
        names.push_back(op + option);
  for (const std::string op : {"gdn", "kda"})
    for (const char *option : {"-given", "-plain", "-factor2"})
      names.push_back(op + option);
  for (const std::string &name : names)
    for (const char *layout : {"kv", "vk"}) {
      SCOPED_TRACE(name + " " + layout);
      for (int64_t T : {17, 70})
        launchAndCheck(makeProblem(prefillOf(name), {2, T, 1, 2, 32, 32}, layout, T));
    }
}

TEST(Prefill, OutputsAreLinearInTheScaleR098) {
  forPrefills([](const Operator &op, const std::string &layout) {
    Problem problem = makeProblem(op, {1, 70, 1, 2, 64, 64}, layout);
    const Outcome standard = launch(problem); // 64^-0.5 = 1/8
    for (double scale : {0.125, 1.0, 0.3}) {
      problem.scale = scale;
      const Outcome got = launch(problem);
      check(problem, got);
      EXPECT_TRUE(sameBits(got.pool, standard.pool)) << "scale " << scale;
      for (size_t i = 0; scale != 0.3 && i < got.o.values().size(); ++i)
        ASSERT_EQ(got.o.values()[i], 8 * scale * standard.o.values()[i]);
    }
  });
}

//===----------------------------------------------------------------------===//
// One call or many
//===----------------------------------------------------------------------===//

/// `first` and `second` are about the same results.
static void expectClose(const Outcome &first, const Outcome &second) {
  ASSERT_EQ(first.status, DLK_OK) << first.message;
  ASSERT_EQ(second.status, DLK_OK) << second.message;
  EXPECT_LE(rmsRatio(first.o, second.o), 5e-3);
  EXPECT_LE(rmsRatio(first.pool, second.pool), 5e-3);
}

/// Against a kernel that decodes, token by token with its state in memory.
TEST(Prefill, ChunksOrTokensOneByOneR014) {
  forForms({"gdn", "kda", "rwkv6"}, [](const Operator &op, const std::string &layout) {
    for (int64_t T : {1, 2, 15, 16, 17, 63, 64, 65}) {
      SCOPED_TRACE("T=" + std::to_string(T));
      const Problem all = makeProblem(op, {2, T, 1, 2, 32, 32}, layout);
      const Outcome once = launch(all);
      check(all, once);
      Problem state = all;
      state.op = operatorOf(op.package.substr(0, op.package.find('-')));
      state.op.package += "-decode";
      Outcome steps = once;
      for (int64_t t = 0; t < T; ++t) {
        Problem one = tokensOf(state, t, 1);
        const Outcome step = launch(one);
        ASSERT_EQ(step.status, DLK_OK) << step.message;
        state.pool = step.pool;
        for (int64_t b = 0; b < 2; ++b)
          for (int64_t h = 0; h < 2; ++h)
            steps.o.setVector({b, t, h}, step.o.vector({b, 0, h}));
      }
      steps.pool = state.pool;
      expectClose(once, steps);
    }
  });
}

/// A second call goes on where the first ended, wherever that is in a chunk.
TEST(Prefill, OnePieceOrTwoR032) {
  forForms({"gdn", "kda", "rwkv6"}, [](const Operator &op, const std::string &layout) {
    const Problem all = makeProblem(op, {1, 100, 1, 2, 32, 32}, layout);
    const Outcome whole = launch(all);
    for (int64_t cut : {1, 17, 32, 64, 99}) {
      const Outcome first = launch(tokensOf(all, 0, cut));
      Problem rest = tokensOf(all, cut, 100 - cut);
      rest.pool = first.pool;
      const Outcome second = launch(rest);
      check(rest, second);
      Outcome joined = second;
      joined.o = whole.o;
      std::copy(first.o.values().begin(), first.o.values().end(), joined.o.values().begin());
      std::copy(second.o.values().begin(), second.o.values().end(),
                joined.o.values().begin() + first.o.values().size());
      expectClose(joined, whole);
    }
  });
}

int main(int argc, char **argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const char *device = std::getenv("DL_TEST_DEVICE");
  Device::get().open(device ? device : "cpu");
  if (::testing::Test::HasFailure() || argc != 2) {
    std::fprintf(stderr, "usage: [DL_TEST_DEVICE=cuda] prefill_test FOLDER_OF_PACKAGES\n");
    return 2;
  }
  setPackageFolder(argv[1]);
  const int status = RUN_ALL_TESTS();
  const WorstRatios &worst = worstRatios();
  std::printf("worst errors: outputs %.1e, in a window %.1e, states %.1e, of a head %.1e\n",
              worst.outputs, worst.windows, worst.states, worst.heads);
  return status;
}
