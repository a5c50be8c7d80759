//===- decode_test.cpp - Compiled decode kernels, from launch to result ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   DL_TEST_DEVICE=cuda decode_test FOLDER        (default device: cpu)
//
// FOLDER holds the packages, built here or elsewhere. Names with R and three digits are rows of the
// project's list of robustness requirements. Here: what a kernel computes. DecodePoolTest.cpp:
// which states it reads and writes. DecodeMemoryTest.cpp: strides, alignment, aliasing, shapes.
// DecodeBitsTest.cpp: what has to be the same to the last bit. DecodeDimsTest.cpp: sizes.
// DecodeGatesTest.cpp: decays. DecodeLargeTest.cpp: offsets of more than 32 bits.
// DecodeRepeatTest.cpp: many launches of one plan.
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Decode.h"
#include "test/Reference/Random.h"

#include <cmath>

using namespace dl::test;

static const char *const layouts[] = {"kv", "vk"};

/// f(layout) for both layouts.
template <typename Function> static void forLayouts(Function f) {
  for (const char *layout : layouts) {
    SCOPED_TRACE(layout);
    f(std::string(layout));
  }
}

//===----------------------------------------------------------------------===//
// Dims, heads, options
//===----------------------------------------------------------------------===//

TEST(Decode, DimsAndDefaultScaleR026) {
  const std::pair<int64_t, int64_t> dims[] = {{64, 64},  {96, 192},  {192, 96}, {128, 64},
                                              {64, 128}, {128, 128}, {256, 128}};
  for (const Operator &op : shippedOperators())
    for (const auto &[K, V] : dims) {
      SCOPED_TRACE(op.package + " " + std::to_string(K) + "x" + std::to_string(V));
      const Sizes sizes{2, 2, 2, 4, K, V};
      forLayouts(
          [&](const std::string &layout) { launchAndCheck(makeProblem(op, sizes, layout)); });
    }
}

TEST(Decode, HeadsPerKeyHead) {
  const std::pair<int64_t, int64_t> heads[] = {{1, 1}, {3, 3}, {2, 4}, {1, 3}, {2, 6},
                                               {1, 4}, {3, 6}, {1, 6}, {6, 6}};
  for (const Operator &op : shippedOperators())
    for (const auto &[HQ, HV] : heads) {
      SCOPED_TRACE(op.package + " HQ=" + std::to_string(HQ) + " HV=" + std::to_string(HV));
      const Sizes sizes{2, 1, HQ, HV, 64, 64};
      forLayouts(
          [&](const std::string &layout) { launchAndCheck(makeProblem(op, sizes, layout)); });
    }
}

TEST(Decode, ValueHeadsThatAreNoMultipleAreRefused) {
  Problem problem = makeProblem(operatorOf("gdn"), {1, 1, 2, 4, 64, 64}, "kv");
  LaunchOptions options;
  options.change = [](std::vector<Argument> &arguments) {
    for (Argument &x : arguments)
      if (std::string(x.info.name) == "q" || std::string(x.info.name) == "k")
        x.shape[2] = 3, x.strides[2] = 0;
  };
  expectRefused(problem, options, DLK_UNSUPPORTED, "HV must be a multiple of HQ");
}

TEST(Decode, OptionsAndTypes) {
  for (const Operator &op : variants())
    forLayouts([&](const std::string &layout) {
      SCOPED_TRACE(op.package);
      for (uint64_t seed : {1, 2})
        launchAndCheck(makeProblem(op, {3, 3, 2, 4, 64, 64}, layout, seed));
    });
}

/// Key heads that do not mix: value head j answers with j + 1 where its key head is asked.
TEST(Decode, GroupedHeadsFollowTheirKeyHeadR024) {
  for (const char *name : {"gdn", "kda"})
    forLayouts([&](const std::string &layout) {
      SCOPED_TRACE(name);
      Problem problem = makeProblem(operatorOf(name), {1, 1, 2, 8, 128, 128}, layout);
      problem.pool = Tensor({1, 8, 128, 128});
      problem.scale = 1;
      for (double &value : problem.strength().values())
        value = 100; // beta = 1
      for (const char *vector : {"q", "k"})
        for (int64_t h = 0; h < 2; ++h)
          for (int64_t i = 0; i < 128; ++i) // key head h lies along axis h; head 0 asks for head 0
            problem.tensors.at(vector)[{0, 0, h, i}] = i == (vector[0] == 'q' ? 0 : h) ? 10 : 0;
      for (int64_t h = 0; h < 8; ++h)
        for (int64_t i = 0; i < 128; ++i)
          problem.tensors.at("v")[{0, 0, h, i}] = h + 1;
      const Outcome got = launch(problem);
      ASSERT_EQ(got.status, DLK_OK) << got.message;
      for (int64_t h = 0; h < 8; ++h)
        EXPECT_NEAR((got.o[{0, 0, h, 5}]), h < 4 ? h + 1 : 0, 0.05) << "value head " << h;
    });
}

TEST(Decode, GroupedHeadsEqualRepeatedKeysR024) {
  for (const char *name : {"gdn", "kda"})
    forLayouts([&](const std::string &layout) {
      Problem grouped = makeProblem(operatorOf(name), {2, 2, 2, 8, 128, 128}, layout);
      Problem repeated = grouped;
      repeated.n.HQ = 8;
      for (const char *vector : {"q", "k"}) {
        Tensor all({2, 2, 8, 128});
        for (int64_t b = 0; b < 2; ++b)
          for (int64_t t = 0; t < 2; ++t)
            for (int64_t h = 0; h < 8; ++h)
              all.setVector({b, t, h}, grouped.tensors.at(vector).vector({b, t, h / 4}));
        repeated.tensors[vector] = all;
      }
      const Outcome a = launch(grouped), b = launch(repeated);
      EXPECT_EQ(a.status, DLK_OK) << a.message;
      EXPECT_TRUE(sameBits(a.o, b.o) && sameBits(a.pool, b.pool)) << name << " " << layout;
    });
}

//===----------------------------------------------------------------------===//
// Gates and strengths
//===----------------------------------------------------------------------===//

TEST(Decode, LargeGateIsTheIdentityOfSoftplusR004) {
  forLayouts([](const std::string &layout) {
    Problem problem = makeProblem(operatorOf("gdn"), {4, 1, 16, 32, 128, 128}, layout);
    for (double &value : problem.tensors.at("A_log").values())
      value = -6;
    for (double &value : problem.tensors.at("dt_bias").values())
      value = 0;
    for (double &value : problem.gate().values())
      value = 100;
    for (double &value : problem.strength().values())
      value = -1e4; // beta = 0
    const Outcome got = launch(problem);
    ASSERT_EQ(got.status, DLK_OK) << got.message;
    double worst = 0;
    for (size_t i = 0; i < got.pool.values().size(); ++i) {
      const double before = static_cast<float>(problem.pool.values()[i]);
      worst = std::max(worst, std::fabs(got.pool.values()[i] / before / 0.7804572814 - 1));
    }
    EXPECT_LE(worst, 1e-6);
  });
}

/// Each combination of an extreme gate and A_log is one head; the strength is extreme too.
TEST(Decode, ExtremeGatesAndStrengthsR005) {
  const double gates[] = {-1e4, -100, -20, 0, 19.99, 20.01, 88, 89, 1e4}, rates[] = {-6, 0, 2.77};
  for (const char *name : {"gdn-f32", "kda-f32", "kda-bounded-f32"})
    for (double logit : {-1e4, 0.0, 1e4})
      forLayouts([&](const std::string &layout) {
        SCOPED_TRACE(std::string(name) + " beta logit " + std::to_string(logit));
        Problem problem = makeProblem(operatorOf(name), {1, 1, 27, 27, 64, 64}, layout);
        const int64_t perHead = problem.gate().values().size() / 27;
        for (int64_t h = 0; h < 27; ++h) {
          problem.tensors.at("A_log")[{h}] = rates[h / 9];
          for (int64_t i = 0; i < perHead; ++i)
            problem.gate().values()[h * perHead + i] = gates[h % 9];
        }
        for (double &value : problem.tensors.at("dt_bias").values())
          value = 0;
        for (double &value : problem.strength().values())
          value = logit;
        Outcome got = launch(problem);
        check(problem, got);
        if (logit > -1e4)
          return;
        // beta is exactly 0: what is left of the state is the decay.
        for (int64_t h = 0; h < 27; ++h) {
          const double decay = std::exp(
              logDecay(problem.op.gate, gates[h % 9], rates[h / 9], 0, problem.op.lowerBound));
          for (int64_t k = 0; k < 64; ++k) {
            const double before = static_cast<float>(problem.pool[{0, h, k, 7}]);
            EXPECT_NEAR((got.pool[{0, h, k, 7}]), decay * before, 1e-6 * std::fabs(before))
                << "gate " << gates[h % 9] << ", A_log " << rates[h / 9];
          }
        }
      });
}

/// With factor 2 a full strength reflects: twice the same key gives the state back.
TEST(Decode, StrengthTwoReflectsAndZeroKeepsR010) {
  for (const char *name : {"gdn-factor2", "kda-factor2"})
    for (double decay : {0.0, -0.1})
      forLayouts([&](const std::string &layout) {
        SCOPED_TRACE(name);
        Problem problem = makeProblem(operatorOf(name), {2, 6, 2, 4, 64, 64}, layout);
        const int64_t heads = problem.n.HV;
        for (size_t i = 0; i < problem.strength().values().size(); ++i)
          problem.strength().values()[i] = i % heads % 2 ? -30 : 30;
        // exp(A_log) softplus(30) = -decay
        for (double &value : problem.tensors.at("A_log").values())
          value = decay == 0 ? -INFINITY : std::log(-decay / 30);
        for (double &value : problem.tensors.at("dt_bias").values())
          value = 0;
        for (double &value : problem.gate().values())
          value = 30;
        for (int64_t b = 0; b < 2; ++b) // the keys repeat from token to token
          for (int64_t t = 1; t < 6; ++t)
            for (int64_t h = 0; h < 2; ++h)
              problem.tensors.at("k").setVector({b, t, h},
                                                problem.tensors.at("k").vector({b, t % 2, h}));
        const Outcome got = launch(problem);
        check(problem, got);
        for (int64_t h = 1; h < heads; h += 2)
          for (int64_t k = 0; k < 64; ++k) {
            const double before = static_cast<float>(problem.pool[{1, h, k, 9}]);
            EXPECT_NEAR((got.pool[{1, h, k, 9}]), std::exp(6 * decay) * before,
                        2e-6 * std::fabs(before));
          }
      });
}

/// The same strength, written as a value or as a logit, in 16 or 32 bits.
TEST(Decode, FourWaysToGiveTheStrengthR101) {
  for (const std::string name : {"gdn", "kda"}) {
    Problem logits = makeProblem(operatorOf(name), {2, 2, 2, 4, 64, 64}, "kv");
    for (auto &[key, tensor] : logits.tensors) // what bf16 holds, f32 holds too
      for (double &value : tensor.values())
        value = std::round(value * 16) / 16;
    Problem values = logits;
    values.op = operatorOf(name + "-beta");
    values.tensors.erase("b");
    values.tensors["beta"] = logits.tensors.at("b");
    for (double &value : values.tensors["beta"].values())
      value = sigmoid(value);
    Problem logits32 = logits, values32 = values;
    logits32.op = operatorOf(name + "-f32");
    values32.op = operatorOf(name + "-beta-f32");
    const Outcome reference = launch(logits32);
    check(logits32, reference);
    for (const Problem *problem : {&logits, &values, &values32}) {
      const Outcome got = launch(*problem);
      check(*problem, got);
      EXPECT_LE(rmsRatio(got.o, reference.o), 1e-2) << problem->op.package;
      EXPECT_LE(rmsRatio(got.pool, reference.pool), 5e-3) << problem->op.package;
    }
  }
}

TEST(Decode, NoDecayAndHugeGatesR102) {
  for (const char *name : {"gdn", "kda"})
    forLayouts([&](const std::string &layout) {
      Problem problem = makeProblem(operatorOf(name), {2, 1, 2, 4, 64, 64}, layout);
      problem.tensors.at("A_log")[{1}] = -INFINITY;
      const int64_t perHead = problem.gate().values().size() / 8;
      for (int64_t i = 0; i < perHead; ++i) // head 1 of both rows
        problem.gate().values()[perHead + i] = problem.gate().values()[5 * perHead + i] = 1e30;
      for (double &value : problem.strength().values())
        value = -1e4;
      const Outcome got = launch(problem);
      check(problem, got);
      for (int64_t k = 0; k < 64; ++k)
        EXPECT_EQ((got.pool[{0, 1, k, 3}]), (double(float(problem.pool[{0, 1, k, 3}]))));
    });
}

/// A decay of -1000 or -inf is an exact reset of what it decays.
TEST(Decode, DecaysBeyondTheExponentAreResets) {
  for (const char *name : {"gdn-plain", "kda-plain"})
    for (double g : {-1000.0, -104.0, double(-INFINITY)})
      forLayouts([&](const std::string &layout) {
        Problem problem = makeProblem(operatorOf(name), {2, 2, 2, 4, 64, 64}, layout);
        for (size_t i = 0; i < problem.gate().values().size(); i += 3)
          problem.gate().values()[i] = g;
        launchAndCheck(problem);
      });
}

//===----------------------------------------------------------------------===//
// One call or many
//===----------------------------------------------------------------------===//

TEST(Decode, TokensInOneCallOrOneByOneR014) {
  for (const Operator &op : shippedOperators())
    for (int64_t T : {1, 2, 15, 16, 17, 65})
      forLayouts([&](const std::string &layout) {
        SCOPED_TRACE(op.package + " T=" + std::to_string(T));
        Problem all = makeProblem(op, {2, T, 2, 4, 64, 64}, layout);
        const Outcome once = launch(all);
        check(all, once);
        Problem state = all;
        for (int64_t t = 0; t < T; ++t) {
          Problem one = tokensOf(all, t, 1);
          one.pool = state.pool;
          const Outcome step = launch(one);
          ASSERT_EQ(step.status, DLK_OK) << step.message;
          state.pool = step.pool;
          for (int64_t b = 0; b < 2; ++b)
            for (int64_t h = 0; h < 4; ++h)
              for (int64_t v = 0; v < 64; ++v)
                ASSERT_EQ((once.o[{b, t, h, v}]), (step.o[{b, 0, h, v}])) << "token " << t;
        }
        EXPECT_TRUE(sameBits(once.pool, state.pool)) << "the fp32 state passes through memory";
      });
}

//===----------------------------------------------------------------------===//
// Layout, scale
//===----------------------------------------------------------------------===//

/// One 1 in the state, at key 3 and value 77: it comes out where it was put.
TEST(Decode, OneElementOfTheStateR027) {
  for (const Operator &op : shippedOperators())
    forLayouts([&](const std::string &layout) {
      SCOPED_TRACE(op.package);
      Problem problem = makeProblem(op, {1, 1, 1, 1, 128, 128}, layout);
      problem.pool = Tensor({1, 1, 128, 128});
      problem.pool[{0, 0, 3, 77}] = 1;
      problem.scale = 1;
      for (int64_t i = 0; i < 128; ++i) {
        problem.tensors.at(op.query())[{0, 0, 0, i}] = i == 3 ? 1 : 0;
        if (!op.isDelta())
          problem.tensors.at("k")[{0, 0, 0, i}] = 0;
      }
      if (op.isDelta())
        problem.strength()[{0, 0, 0}] = -1e4;
      const Outcome got = launch(problem);
      check(problem, got);
      const double left = got.pool[{0, 0, 3, 77}];
      EXPECT_GT(left, 0);
      for (int64_t v = 0; v < 128; ++v) {
        const double want = v != 77 ? 0 : op.isDelta() ? left : 1; // RWKV-6 reads before the decay
        EXPECT_NEAR((got.o[{0, 0, 0, v}]), want, 4e-3 * want) << "column " << v;
      }
    });
}

TEST(Decode, AStateOfTheOtherLayoutIsRefusedR027) {
  Problem problem = makeProblem(operatorOf("gdn"), {1, 1, 1, 1, 128, 64}, "kv");
  LaunchOptions options;
  options.change = [](std::vector<Argument> &arguments) {
    std::swap(find(arguments, "S").shape[2], find(arguments, "S").shape[3]);
  };
  expectRefused(problem, options, DLK_INVALID_ARGUMENT, "dimension 2: expected 128, got 64");
}

TEST(Decode, OutputsAreLinearInTheScaleR098) {
  for (const Operator &op : shippedOperators())
    forLayouts([&](const std::string &layout) {
      SCOPED_TRACE(op.package);
      Problem problem = makeProblem(op, {2, 3, 2, 4, 64, 64}, layout);
      const Outcome standard = launch(problem); // 64^-0.5 = 1/8
      std::map<double, Outcome> outcomes;
      for (double scale : {0.125, 1.0, 2.0, 0.3}) {
        problem.scale = scale;
        outcomes[scale] = launch(problem);
        check(problem, outcomes[scale]);
        EXPECT_TRUE(sameBits(outcomes[scale].pool, standard.pool)) << "scale " << scale;
      }
      EXPECT_TRUE(sameBits(outcomes[0.125].o, standard.o));
      for (size_t i = 0; i < standard.o.values().size(); ++i) {
        EXPECT_EQ(outcomes[1.0].o.values()[i], 8 * standard.o.values()[i]);
        EXPECT_EQ(outcomes[2.0].o.values()[i], 16 * standard.o.values()[i]);
      }
    });
}

//===----------------------------------------------------------------------===//
// Normalisation
//===----------------------------------------------------------------------===//

TEST(Decode, ZeroAndTinyVectorsR095) {
  for (const char *name : {"gdn", "kda", "gdn-f32", "kda-f32"})
    for (double size : {0.0, 1e-30, 1e-42})
      forLayouts([&](const std::string &layout) {
        SCOPED_TRACE(std::string(name) + " " + std::to_string(size));
        Problem problem = makeProblem(operatorOf(name), {2, 3, 2, 4, 64, 64}, layout);
        auto shrink = [&](const char *vector, int64_t t) {
          for (int64_t b = 0; b < 2; ++b)
            for (int64_t i = 0; i < 64; ++i)
              problem.tensors.at(vector)[{b, t, 0, i}] *= size;
        };
        shrink("k", 0);
        shrink("q", 1);
        const Outcome got = launch(problem);
        check(problem, got);
        for (int64_t h = 0; size == 0 && h < 2; ++h) // of key head 0
          for (int64_t v = 0; v < 64; ++v)
            EXPECT_EQ((got.o[{0, 1, h, v}]), 0);
      });
}

TEST(Decode, LongVectorsInHalfPrecisionR096) {
  for (const std::string name : {"gdn", "kda"})
    forLayouts([&](const std::string &layout) {
      Problem problem = makeProblem(operatorOf(name + "-f16"), {1, 2, 1, 2, 128, 128}, layout);
      problem.pool = Tensor({1, 2, 128, 128});
      for (int64_t i = 0; i < 128; ++i) {
        problem.tensors.at("k")[{0, 0, 0, i}] = 300; // the sum of squares is 1.15e7
        problem.tensors.at("k")[{0, 1, 0, i}] = i == 17 ? 60000 : 0;
      }
      for (double &value : problem.strength().values())
        value = 30;
      launchAndCheck(problem);
      // A first write of v = 1 with strength 1: the state is the unit key.
      Problem first = tokensOf(problem, 0, 1);
      for (double &value : first.tensors.at("v").values())
        value = 1;
      const Outcome got = launch(first);
      double sum = 0;
      for (int64_t k = 0; k < 128; ++k)
        sum += std::pow(got.pool[{0, 1, k, 5}], 2);
      EXPECT_NEAR(std::sqrt(sum), 1, 1e-3);
    });
}

int main(int argc, char **argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const char *device = std::getenv("DL_TEST_DEVICE");
  Device::get().open(device ? device : "cpu");
  if (::testing::Test::HasFailure() || argc != 2) {
    std::fprintf(stderr, "usage: [DL_TEST_DEVICE=cuda] decode_test FOLDER_OF_PACKAGES\n");
    return 2;
  }
  setPackageFolder(argv[1]);
  return RUN_ALL_TESTS();
}
