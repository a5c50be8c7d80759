//===- OldDriverTest.cpp - A driver that lacks what is optional -----------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The first use of the driver decides for the process, so this is a program of its own.
//
//===----------------------------------------------------------------------===//
#include "PreparationFixture.h"

using namespace dl::test;

TEST(OldDriver, HasNoPdl) {
  fake_reset();
  nlohmann::json manifest = makeManifest();
  manifest["kernels"][0]["target"] = "sm_80";
  manifest["kernels"][0]["format"] = "ptx";
  manifest["kernels"][0]["pdl"] = true;
  const std::string bytes = makePackage(manifest, {"code", ""});
  dlk_package *package = nullptr;
  ASSERT_EQ(dlk_package_open_memory(bytes.data(), bytes.size(), &package), DLK_OK);
  dlk_plan *plan = nullptr;
  EXPECT_EQ(dlk_prepare(dlk_kernel_at(package, 0), {DLK_DEVICE_CUDA, 0}, DLK_PLAN_PDL, &plan),
            DLK_UNSUPPORTED);
  EXPECT_STREQ(dlk_last_error(), "kernel 'gla.decode.4x8.kv.f32.f32': DLK_PLAN_PDL: expected a "
                                 "driver with cuLaunchKernelEx, got 12.4");
  EXPECT_EQ(dlk_prepare(dlk_kernel_at(package, 0), {DLK_DEVICE_CUDA, 0}, 0, &plan), DLK_OK)
      << dlk_last_error();
  dlk_plan_release(plan);
  dlk_package_close(package);
}

/// What may start early elsewhere starts late.
TEST_F(PreparedDriverTest, PartsHaveNoPdl) {
  setUpFor(makePartsManifest());
  for (nlohmann::json &kernel : manifest["kernels"])
    kernel["pdl"] = true;
  ASSERT_EQ(open(), DLK_OK) << dlk_last_error();
  setRows(2, 3);
  EXPECT_EQ(launchOnStream(), DLK_OK) << dlk_last_error();
  EXPECT_EQ(fake_num_launches, 4);
  EXPECT_EQ(fake_count("cuLaunchKernel"), 4);
}
