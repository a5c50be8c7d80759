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
// PrefillBitsTest.cpp: what has to be the same to the last bit.
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
  Operator op = operatorOf(part);
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

void dl::test::setDecays(Problem &problem, const std::function<double(size_t)> &value) {
  for (size_t i = 0; i < problem.gate().values().size(); ++i)
    problem.gate().values()[i] = value(i);
}

//===----------------------------------------------------------------------===//
// Tokens, dims, heads, options
//===----------------------------------------------------------------------===//

TEST(Prefill, NumbersOfTokens) {
  forPrefills([](const Operator &op, const std::string &layout) {
    for (int64_t T : {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100}) {
      SCOPED_TRACE("T=" + std::to_string(T));
      launchAndCheck(makeProblem(op, {1 + T % 3, T, 1, 2, 32, 32}, layout));
    }
  });
}

TEST(Prefill, DimsAndDefaultScaleR026) {
  const std::pair<int64_t, int64_t> dims[] = {{64, 64}, {96, 48}, {128, 128}, {192, 128}};
  for (const auto &[K, V] : dims)
    forPrefills([K = K, V = V](const Operator &op, const std::string &layout) {
      SCOPED_TRACE(std::to_string(K) + "x" + std::to_string(V));
      launchAndCheck(makeProblem(op, {1, 70, 1, 1, K, V}, layout));
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
