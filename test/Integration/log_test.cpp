//===- log_test.cpp - Compiled kernels of the log, from launch to result --===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   DL_TEST_DEVICE=cuda log_test FOLDER|model        (default device: cpu)
//
// FOLDER holds the packages, built here or elsewhere; "model" runs the tests on the model of the
// protocol instead, to test them. Names with R and three digits are rows of the project's list of
// robustness requirements. LogSequencesTest.cpp: everything at random. LogEdgesTest.cpp: every
// length, row and ring position. LogBitsTest.cpp: what has to be the same to the last bit.
// LogRowsTest.cpp: rows of all kinds side by side, acceptance. LogStatesTest.cpp: merges,
// checkpoints, copies, materialize. LogMemoryTest.cpp: strides, pages, heads, bad numbers.
// LogRefusedTest.cpp: what launches refuse. LogNumericsTest.cpp: the entries, and errors over time.
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Log.h"

#include <cstdio>

using namespace dl::test;

static std::vector<std::string> problems;

TEST(LogPackages, HaveAllKernels) {
  for (const std::string &problem : problems)
    ADD_FAILURE() << problem;
  EXPECT_FALSE(allLogKernels().empty()) << "no package has the kernels of a log for this device";
}

/// Arguments have the roles and shapes that the protocol says.
TEST(LogPackages, ArgumentsAreThoseOfTheProtocol) {
  forKernels([](const LogKernels &kernels) {
    auto roles = [](const LogKernel &kernel) {
      std::map<std::string, int> count;
      for (const KernelArgument &argument : kernel.arguments)
        ++count[argument.role];
      return count;
    };
    auto plan = roles(*kernels.plan);
    for (const char *role :
         {"slots_in", "slots_out", "row_starts", "accepted", "row_flags", "flush",
          "checkpoint_slots", "checkpoint_offsets", "cursors", "descriptors"})
      EXPECT_EQ(plan[role], 1) << "plan: " << role;
    for (const LogKernel *kernel : {kernels.append, kernels.merge}) {
      auto count = roles(*kernel);
      EXPECT_EQ(count["state"], 1) << kernel->name;
      EXPECT_EQ(count["descriptors"], 1) << kernel->name;
      EXPECT_EQ(count["cursors"], 0) << kernel->name;
    }
    auto materialize = roles(*kernels.materialize);
    for (const char *role : {"state_in", "state_out", "cursors", "slots_in", "slots_out", "counts"})
      EXPECT_EQ(materialize[role], 1) << "materialize: " << role;
    const int fields = roles(*kernels.append)["log"];
    EXPECT_GT(fields, 0);
    EXPECT_EQ(roles(*kernels.merge)["log"], fields);
    EXPECT_EQ(materialize["log"], fields);
    for (const LogKernel *kernel :
         {kernels.plan, kernels.append, kernels.merge, kernels.materialize})
      for (const KernelArgument &argument : kernel->arguments) {
        const bool isWritten = argument.role == "output" || argument.role == "state" ||
                               argument.role == "state_out" ||
                               (kernel == kernels.append && argument.role == "log") ||
                               (kernel == kernels.plan &&
                                (argument.role == "cursors" || argument.role == "descriptors"));
        EXPECT_EQ(argument.isWritten, isWritten) << kernel->name << ": " << argument.name;
        if (argument.role == "descriptors" || argument.role == "cursors") {
          EXPECT_EQ(argument.dtype, DLK_I32) << kernel->name;
          EXPECT_EQ(argument.dims.back(), argument.role == "cursors" ? "4" : "12") << kernel->name;
        }
      }
  });
}

int main(int argc, char **argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const char *device = std::getenv("DL_TEST_DEVICE");
  Device::get().open(device ? device : "cpu");
  if (::testing::Test::HasFailure() || argc != 2) {
    std::fprintf(stderr, "usage: [DL_TEST_DEVICE=cuda] log_test FOLDER_OF_PACKAGES|model\n");
    return 2;
  }
  openLogKernels(argv[1], problems);
  return RUN_ALL_TESTS();
}
