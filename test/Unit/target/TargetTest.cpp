//===- TargetTest.cpp - The table of chips --------------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "compiler/Target/Target.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "gtest/gtest.h"
#include <set>

using namespace dl::target;

static const Target &find(llvm::StringRef name) {
  llvm::Expected<const Target *> row = findTarget(name);
  if (!row) {
    ADD_FAILURE() << llvm::toString(row.takeError());
    return targets().front();
  }
  return **row;
}

TEST(Target, NamesAreUniqueAndFound) {
  std::set<llvm::StringRef> names;
  for (const Target &row : targets()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name.str();
    EXPECT_EQ(&find(row.name), &row);
  }
  for (llvm::StringRef name : defaultTargets())
    EXPECT_TRUE(names.count(name)) << name.str();
}

TEST(Target, UnknownNamesListTheKnownOnes) {
  llvm::Expected<const Target *> row = findTarget("sm_75");
  ASSERT_FALSE(row);
  EXPECT_EQ(llvm::toString(row.takeError()),
            "expected a target among cpu, sm_80, sm_86, sm_89, sm_90a, sm_100f, sm_103a, sm_120f, "
            "sm_121a, got \"sm_75\"");
}

TEST(Target, RowsAreConsistent) {
  for (const Target &row : targets()) {
    SCOPED_TRACE(row.name.str());
    EXPECT_EQ(row.isGPU(), !row.chip.empty());
    EXPECT_EQ(row.isGPU(), row.ptxFeature.starts_with("+ptx"));
    EXPECT_EQ(row.warpSize, 32);
    EXPECT_EQ(row.sharedPerBlock + row.sharedReserved, row.sharedPerSM);
    EXPECT_LE(row.maxThreadsPerBlock, row.maxThreadsPerSM);
    EXPECT_LE(row.maxThreadsPerBlock, 1024);
    EXPECT_TRUE(row.has("mma.sync"));
    EXPECT_FALSE(row.has("mma"));
    if (row.isGPU()) { // sm_90a is compute capability 9.0
      EXPECT_EQ(row.name, row.chip);
      int64_t digits = 0;
      EXPECT_FALSE(
          row.arch().take_while([](char c) { return llvm::isDigit(c); }).getAsInteger(10, digits));
      EXPECT_EQ(digits, row.computeCapability);
    }
    EXPECT_EQ(blocksPerSM(row, row.maxThreadsPerBlock, 64, 0) > 0, true);
    EXPECT_EQ(blocksPerSM(row, 128, 128, row.sharedPerBlock), 1);
  }
  for (llvm::StringRef name : {"sm_80", "sm_86", "sm_89"})
    EXPECT_TRUE(find(name).isPortable()) << name.str();
  for (llvm::StringRef name : {"cpu", "sm_90a", "sm_100f", "sm_103a", "sm_120f", "sm_121a"})
    EXPECT_FALSE(find(name).isPortable()) << name.str();
  EXPECT_TRUE(find("sm_90a").has("wgmma"));
  EXPECT_TRUE(find("sm_90a").has("tma"));
  EXPECT_FALSE(find("sm_80").has("wgmma"));
  EXPECT_FALSE(find("sm_100f").has("wgmma"));
}

TEST(Target, HostRunsWhatAnyChipRuns) {
  const Target &host = find("cpu");
  for (const Target &row : targets()) {
    EXPECT_GE(host.maxThreadsPerBlock, row.maxThreadsPerBlock);
    EXPECT_GE(host.sharedPerBlock, row.sharedPerBlock);
  }
}

// Figures of the CUDA occupancy calculator.
TEST(Target, Occupancy) {
  const Target &hopper = find("sm_90a");
  EXPECT_EQ(blocksPerSM(hopper, 128, 64, 0), 8);          // registers: 65536 / (128 * 64)
  EXPECT_EQ(blocksPerSM(hopper, 128, 65, 0), 7);          // 65 rounds up to 72
  EXPECT_EQ(blocksPerSM(hopper, 128, 16, 0), 16);         // threads: 2048 / 128
  EXPECT_EQ(blocksPerSM(hopper, 32, 16, 0), 32);          // blocks
  EXPECT_EQ(blocksPerSM(hopper, 128, 32, 113 * 1024), 2); // shared memory: 228 / (113 + 1) KiB
  EXPECT_EQ(blocksPerSM(hopper, 128, 32, 114 * 1024), 1);
  EXPECT_EQ(blocksPerSM(hopper, 1024, 64, 0), 1);
  EXPECT_EQ(blocksPerSM(hopper, 1024, 128, 0), 0); // does not fit
  EXPECT_EQ(blocksPerSM(hopper, 2048, 32, 0), 0);
  EXPECT_EQ(blocksPerSM(hopper, 128, 32, 228 * 1024), 0);
  EXPECT_EQ(blocksPerSM(find("sm_86"), 128, 32, 0), 12); // 1536 threads
}
