//===- AssemblerTest.cpp - What is read from ptxas' output ----------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Package/Assembler.h"
#include "gtest/gtest.h"
#include <cstdlib>
#include <optional>
#include <string>

using namespace dl::package;

static Resources parse(llvm::StringRef text) {
  llvm::Expected<Resources> resources = parseAssemblerOutput(text);
  if (resources)
    return *resources;
  ADD_FAILURE() << llvm::toString(resources.takeError());
  return {};
}

static std::string errorOf(llvm::StringRef text) {
  llvm::Expected<Resources> resources = parseAssemblerOutput(text);
  return resources ? "no error" : llvm::toString(resources.takeError());
}

TEST(AssemblerOutput, RegistersWithoutSpills) {
  Resources resources =
      parse("ptxas info    : 0 bytes gmem\n"
            "ptxas info    : Compiling entry function 'gdn_decode' for 'sm_90a'\n"
            "ptxas info    : Function properties for gdn_decode\n"
            "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
            "ptxas info    : Used 62 registers, used 1 barriers, 1024 bytes cumulative stack size\n"
            "ptxas info    : Compile time = 43.611 ms\n");
  EXPECT_EQ(resources.registers, 62);
  EXPECT_EQ(resources.spillBytes, 0);
  EXPECT_EQ(resources.stackBytes, 0);
}

TEST(AssemblerOutput, StoresAndLoadsOfSpillsAddUp) {
  Resources resources = parse("    48 bytes stack frame, 40 bytes spill stores, 56 bytes spill "
                              "loads\nptxas info    : Used 128 registers\n");
  EXPECT_EQ(resources.registers, 128);
  EXPECT_EQ(resources.spillBytes, 96);
  EXPECT_EQ(resources.stackBytes, 48);
}

TEST(AssemblerOutput, TheWorstFunctionCounts) {
  Resources resources =
      parse("ptxas info    : Function properties for helper\n"
            "    16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
            "ptxas info    : Used 90 registers\n"
            "ptxas info    : Function properties for kernel\n"
            "    8 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
            "ptxas info    : Used 40 registers\n");
  EXPECT_EQ(resources.registers, 90);
  EXPECT_EQ(resources.spillBytes, 8);
  EXPECT_EQ(resources.stackBytes, 16);
}

TEST(AssemblerOutput, NothingIsNothing) {
  Resources resources = parse("");
  EXPECT_EQ(resources.registers, 0);
  EXPECT_EQ(resources.spillBytes, 0);
}

/// Right and slow is an error: serialised wgmma, ignored register settings.
TEST(AssemblerOutput, MessagesOfASlowKernelAreErrors) {
  const std::string serialised =
      "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are "
      "serialized due to insufficient register resources for the wgmma pipeline in function 'f'";
  EXPECT_EQ(errorOf("ptxas info    : 0 bytes gmem\n" + serialised + "\nUsed 9 registers\n"),
            "the assembler would serialise or ignore part of the kernel: " + serialised);
  EXPECT_NE(errorOf("ptxas info    : (C7508) setmaxnreg ignored to maintain minimum register "
                    "requirements"),
            "no error");
  EXPECT_EQ(errorOf("ptxas info    : (C7600) another group\n"), "no error");
}

/// DL_PTXAS decides alone, the empty one too: no falling back on what happens to be installed.
TEST(Assembler, TheVariableDecides) {
  std::optional<std::string> before;
  if (const char *value = std::getenv("DL_PTXAS"))
    before = value;
  setenv("DL_PTXAS", "", 1);
  EXPECT_FALSE(findAssembler());
  setenv("DL_PTXAS", "/no/such/ptxas", 1);
  EXPECT_EQ(findAssembler(), "/no/such/ptxas");
  llvm::Expected<Assembled> assembled = assemble(".version 8.0\n", "sm_80");
  ASSERT_FALSE(bool(assembled));
  EXPECT_NE(llvm::toString(assembled.takeError()).find("ptxas failed for sm_80"),
            std::string::npos);
  before ? setenv("DL_PTXAS", before->c_str(), 1) : unsetenv("DL_PTXAS");
}
