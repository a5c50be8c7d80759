//===- PreparationTest.cpp - Kernels that prepare others, and workspaces --===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Launches run on the CPU; what the driver is asked for is seen on that of fake_cuda.h. In parts:
// PartsTest.cpp.
//
//===----------------------------------------------------------------------===//

#include "PreparationFixture.h"

#include <cstring>
#include <functional>

using namespace dl::test;
using nlohmann::json;

namespace {

/// The error of opening the package with a preparation, edited by `edit`.
std::string openError(const std::function<void(json &kernels)> &edit) {
  json manifest = makePreparedManifest();
  edit(manifest["kernels"]);
  const std::string bytes = makePackage(manifest, {kernelObject(), ""});
  dlk_package *package = nullptr;
  const dlk_status status = dlk_package_open_memory(bytes.data(), bytes.size(), &package);
  dlk_package_close(package);
  return status == DLK_OK ? "" : dlk_last_error();
}

TEST(Preparation, IsChecked) {
  auto editError = [](const std::function<void(json &)> &edit) {
    return openError([&](json &kernels) { edit(kernels[Prepare]); });
  };
  // A preparation may run for other sizes, in other blocks, and need another alignment.
  EXPECT_EQ(editError([](json &p) {
              p["args"][0]["align"] = 1;
              p["threads"] = 64;
              p["pdl"] = true;
            }),
            "");
  const std::string others = "kernels[1].prepares: expected a kernel with the same arguments and "
                             "scalars, 'gla.decode.4x8.kv.f32.f32' has others";
  EXPECT_EQ(editError([](json &p) { p["args"][0]["name"] = "query"; }), others);
  EXPECT_EQ(editError([](json &p) { p["args"][12]["pointer"] = 0; }),
            "kernels[1].args[12].pointer: overlaps another parameter at byte 0");
  EXPECT_EQ(editError([](json &p) { p["args"][12]["strides"] = {284, 280, nullptr}; }), others);
  EXPECT_EQ(editError([](json &p) { p["args"].erase(11); }), others);
  EXPECT_EQ(editError([](json &p) { p["scalars"][0]["default"] = 0.25; }), others);
  EXPECT_EQ(editError([](json &p) { p.erase("scalars"); }), others);
  EXPECT_EQ(editError([](json &p) { p["param_bytes"] = 296; }), others);
  EXPECT_EQ(editError([](json &p) { p["prepares"] = ""; }),
            "kernels[1].prepares: expected the name of a kernel");
  EXPECT_EQ(editError([](json &p) { p["prepares"] = 7; }),
            "kernels[1].prepares: expected text, got number");
}

/// Each of the two kernels reads what the other one does not look at.
TEST(Preparation, AddsItsAlignmentToThatOfItsKernel) {
  json manifest = makePreparedManifest();
  manifest["kernels"][Prepare]["args"][0]["align"] = 64;
  const std::string bytes = makePackage(manifest, {kernelObject(), ""});
  dlk_package *package = nullptr;
  ASSERT_EQ(dlk_package_open_memory(bytes.data(), bytes.size(), &package), DLK_OK)
      << dlk_last_error();
  dlk_arg_info info;
  ASSERT_EQ(dlk_kernel_get_arg(dlk_kernel_at(package, 0), 0, &info), DLK_OK);
  EXPECT_EQ(info.align, 64u);
  dlk_package_close(package);
}

TEST(Preparation, IsOfAKernelThatStandsAlone) {
  auto unknown = [](int kernel, const char *name, const char *target = "cpu") {
    return "kernels[" + std::to_string(kernel) +
           "].prepares: expected the name of another kernel " + "for " + target +
           " that is no variant and prepares none, got '" + name + "'";
  };
  EXPECT_EQ(openError([](json &k) { k[Prepare]["prepares"] = "decode"; }), unknown(1, "decode"));
  EXPECT_EQ(openError([](json &k) { k[Prepare]["prepares"] = "prepare"; }), unknown(1, "prepare"));
  EXPECT_EQ(openError([](json &k) {
              k[Prepare]["target"] = "sm_90a";
              k[Prepare]["format"] = "cubin";
            }),
            unknown(1, "gla.decode.4x8.kv.f32.f32", "sm_90a"));
  // Neither is a preparation prepared, nor has a kernel two.
  EXPECT_EQ(openError([](json &k) {
              k.push_back(k[Prepare]);
              k[2]["name"] = "earlier";
              k[2]["prepares"] = "prepare";
            }),
            unknown(2, "prepare"));
  EXPECT_EQ(openError([](json &k) {
              k.push_back(k[Prepare]);
              k[2]["name"] = "second";
            }),
            "kernels[2].prepares: expected one kernel that prepares 'gla.decode.4x8.kv.f32.f32', "
            "got another besides 'prepare'");
  // Variants are prepared with their kernel, and prepare nothing.
  EXPECT_EQ(openError([](json &k) {
              k.push_back(k[Main]);
              k[2]["name"] = "few";
              k[2]["variant_of"] = k[Main]["name"];
              k[2]["when"] = json::array();
              k[Prepare]["prepares"] = "few";
            }),
            unknown(1, "few"));
  EXPECT_EQ(openError([](json &k) {
              k[Prepare]["variant_of"] = k[Main]["name"];
              k[Prepare]["when"] = json::array();
              k[Prepare]["requires"] = k[Main]["requires"];
            }),
            "kernels[1].prepares: expected a kernel that is no variant to prepare "
            "'gla.decode.4x8.kv.f32.f32'");
}

TEST_F(PreparationTest, OneLaunchDoesBoth) {
  setWorkspace({2, 2, 24});
  ASSERT_EQ(launchPrepared({{"scale", 3}}), DLK_OK) << dlk_last_error();
  const std::vector<float> outputs = tensors[O].memory, states = tensors[SOut].memory;
  EXPECT_EQ(workspace.memory[0], 3.0f);
  LaunchTest::prepare(makeManifest());
  ASSERT_EQ(LaunchTest::launch({{"scale", 3}}), DLK_OK) << dlk_last_error();
  EXPECT_EQ(tensors[O].memory, outputs);
  EXPECT_EQ(tensors[SOut].memory, states);
}

TEST_F(PreparationTest, NoRowsIsSuccess) {
  setSizes(0, 3, 1, 2);
  setWorkspace({0, 2, 24});
  EXPECT_EQ(launchPrepared(), DLK_OK) << dlk_last_error();
  EXPECT_TRUE(std::isnan(workspace.memory[0]));
}

TEST_F(PreparationTest, ChecksTheWorkspace) {
  setWorkspace({3, 2, 24});
  expectRefusal("argument 'workspace' dimension 0: expected (((B*T)/32)+N) = 2, got 3");
  setWorkspace({2, 2, 24});
  workspace.view.data = nullptr;
  expectRefusal("argument 'workspace' data: expected memory, got NULL");
  workspace.view.data = tensors[V].memory.data();
  expectRefusal("argument 'workspace': expected memory of its own, got memory that overlaps 'v'");
  workspace.view.data = tensors[O].memory.data();
  expectRefusal("argument 'o': expected memory of its own, got memory that overlaps 'workspace'");
  workspace.view.data = workspace.memory.data();
  workspace.strides[1] = 20;
  expectRefusal("argument 'workspace' stride 1: expected at least 24 so that elements do not "
                "overlap, got 20");
  workspace.strides = {64, 24, 1};
  workspace.memory.assign(2 * 64, NAN);
  workspace.view.data = workspace.memory.data();
  EXPECT_EQ(launchPrepared(), DLK_OK) << dlk_last_error();
  EXPECT_EQ(workspace.memory[64 / 4], 0.5f);
}

TEST_F(PreparationTest, AFailureOfEitherIsReported) {
  for (int failing : {Main, Prepare}) {
    json manifest = makePreparedManifest();
    manifest["kernels"][failing]["entry"] = "test_failing";
    prepare(manifest);
    setWorkspace({2, 2, 24});
    EXPECT_EQ(launchPrepared(), DLK_DEVICE_ERROR);
    EXPECT_STREQ(dlk_last_error(), "cpu: the kernel returned error 42");
    EXPECT_EQ(std::isnan(workspace.memory[0]), failing == Prepare);
    EXPECT_TRUE(std::isnan(tensors[O].memory[0]));
  }
}

TEST_F(PreparationTest, APreparationAloneIsLaunchedAlone) {
  dlk_plan_release(plan);
  ASSERT_EQ(dlk_prepare(dlk_kernel_at(package, Prepare), {DLK_DEVICE_CPU, 0}, 0, &plan), DLK_OK);
  setWorkspace({2, 2, 24});
  ASSERT_EQ(launchPrepared(), DLK_OK) << dlk_last_error();
  EXPECT_EQ(workspace.memory[0], 0.5f);
  EXPECT_TRUE(std::isnan(tensors[O].memory[0]));
}

TEST_F(PreparationTest, ShapesAndBytesOfTheWorkspace) {
  const dlk_kernel *kernel = dlk_kernel_at(package, Main);
  dlk_size sizes[] = {{"B", 1}, {"T", 100}, {"HQ", 2}, {"HV", 4}, {"N", 7}};
  int64_t shape[DLK_MAX_RANK] = {};
  ASSERT_EQ(dlk_arg_shape(kernel, Workspace, sizes, 5, shape), DLK_OK) << dlk_last_error();
  EXPECT_EQ(shape[0], 10);
  EXPECT_EQ(shape[1], 4);
  EXPECT_EQ(shape[2], 24);
  uint64_t bytes = 0;
  ASSERT_EQ(dlk_workspace_bytes(kernel, sizes, 5, &bytes), DLK_OK) << dlk_last_error();
  EXPECT_EQ(bytes, 10u * 4 * 24);
  sizes[1].value = int64_t(1) << 40;
  ASSERT_EQ(dlk_workspace_bytes(kernel, sizes, 5, &bytes), DLK_OK) << dlk_last_error();
  EXPECT_EQ(bytes, ((uint64_t(1) << 35) + 7) * 4 * 24);
  sizes[1].value = int64_t(1) << 62;
  EXPECT_EQ(dlk_workspace_bytes(kernel, sizes, 5, &bytes), DLK_UNSUPPORTED);
  EXPECT_EQ(dlk_workspace_bytes(kernel, sizes, 3, &bytes), DLK_INVALID_ARGUMENT);
  EXPECT_STREQ(dlk_last_error(), "argument 'workspace' dimension 1: HV: a size is not known");
}

TEST_F(PreparationTest, SizesOfBothAreSupported) {
  json manifest = makePreparedManifest();
  manifest["kernels"][Prepare]["requires"] = {
      {{"expr", "T"}, {"max", 64}, {"message", "T must be 64 or less"}}};
  prepare(manifest);
  dlk_size sizes[] = {{"B", 2}, {"T", 64}, {"HQ", 2}, {"HV", 4}, {"pool_in", 2}, {"pool_out", 2}};
  auto supported = [&](int kernel) {
    char reason[256];
    dlk_supported(dlk_kernel_at(package, kernel), {DLK_DEVICE_CPU, 0}, sizes, 6, reason,
                  sizeof(reason));
    return std::string(reason);
  };
  EXPECT_EQ(supported(Main), "");
  sizes[1].value = 65;
  EXPECT_EQ(supported(Main), "kernel 'prepare': T must be 64 or less, got T = 65");
  sizes[1].value = 64;
  sizes[3].value = 5;
  EXPECT_EQ(supported(Main), "kernel 'gla.decode.4x8.kv.f32.f32': HV must be a multiple of HQ, got "
                             "HV = 5, HQ = 2");
  EXPECT_EQ(supported(Prepare), "");
}

TEST_F(PreparationTest, APreparationIsFoundByItsNameAlone) {
  dlk_query query = {};
  const dlk_kernel *kernel = nullptr;
  dlk_kernel_info info;
  query.kind = "decode";
  ASSERT_EQ(dlk_find(package, &query, {DLK_DEVICE_CPU, 0}, &kernel), DLK_OK);
  EXPECT_EQ(kernel, dlk_kernel_at(package, Main));
  ASSERT_EQ(dlk_kernel_get_info(kernel, &info), DLK_OK);
  EXPECT_STREQ(info.prepares, "");
  query.name = "prepare";
  ASSERT_EQ(dlk_find(package, &query, {DLK_DEVICE_CPU, 0}, &kernel), DLK_OK);
  EXPECT_EQ(kernel, dlk_kernel_at(package, Prepare));
  ASSERT_EQ(dlk_kernel_get_info(kernel, &info), DLK_OK);
  EXPECT_STREQ(info.prepares, "gla.decode.4x8.kv.f32.f32");
}

TEST_F(PreparedDriverTest, ThePreparationIsLaunchedFirst) {
  ASSERT_EQ(open(), DLK_OK) << dlk_last_error();
  ASSERT_EQ(launchOnStream(), DLK_OK) << dlk_last_error();
  const std::string one = "cuCtxGetCurrent cuCtxPushCurrent_v2 cuLaunchKernel cuCtxPopCurrent_v2";
  EXPECT_EQ(fake_log(), one + " " + one);
  EXPECT_EQ(fake_launch_before.block[0], 16u);
  EXPECT_EQ(fake_launch.block[0], 8u);
  for (const FakeLaunch *launch : {&fake_launch_before, &fake_launch}) {
    EXPECT_EQ(launch->grid[0], 2u);
    EXPECT_EQ(launch->stream, &stream);
    EXPECT_EQ(launch->num_attributes, 0);
  }
  EXPECT_EQ(std::memcmp(fake_launch_before.params, fake_launch.params, 288), 0);
  uintptr_t given = 0;
  std::memcpy(&given, fake_launch.params + 272, 8);
  EXPECT_EQ(given, reinterpret_cast<uintptr_t>(workspace.memory.data()));
}

TEST_F(PreparedDriverTest, AVariantIsPreparedToo) {
  ASSERT_EQ(open(), DLK_OK) << dlk_last_error();
  setRows(1);
  ASSERT_EQ(launchOnStream(), DLK_OK) << dlk_last_error();
  EXPECT_EQ(fake_launch_before.block[0], 16u);
  EXPECT_EQ(fake_launch.block[0], 4u);
  // And in a plan of the variant alone.
  ASSERT_EQ(open(0, 2), DLK_OK) << dlk_last_error();
  ASSERT_EQ(launchOnStream(), DLK_OK) << dlk_last_error();
  EXPECT_EQ(fake_launch_before.block[0], 16u);
  EXPECT_EQ(fake_launch.block[0], 4u);
}

TEST_F(PreparedDriverTest, BothGridsAreCheckedBeforeAnyLaunch) {
  for (int tooLarge : {Main, Prepare}) {
    SetUp();
    manifest["kernels"][tooLarge]["grid"][1] = {"mul", "N", 40000};
    ASSERT_EQ(open(), DLK_OK) << dlk_last_error();
    EXPECT_EQ(launchOnStream(), DLK_UNSUPPORTED);
    const char *name = tooLarge == Main ? "gla.decode.4x8.kv.f32.f32" : "prepare";
    EXPECT_EQ(dlk_last_error(), std::string("kernel '") + name +
                                    "': grid y: expected 1 to 65535 blocks, got 80000 (N = 2)");
    EXPECT_STREQ(fake_log(), "");
  }
}

TEST_F(PreparedDriverTest, NoRowsLaunchNothing) {
  ASSERT_EQ(open(), DLK_OK) << dlk_last_error();
  setRows(0);
  EXPECT_EQ(launchOnStream(), DLK_OK) << dlk_last_error();
  EXPECT_STREQ(fake_log(), "");
}

TEST_F(PreparedDriverTest, FailuresAreReported) {
  ASSERT_EQ(open(), DLK_OK) << dlk_last_error();
  for (int launches : {0, 1}) {
    fake_clear_log();
    fake_cuda.launches_left = launches;
    EXPECT_EQ(launchOnStream(), DLK_DEVICE_ERROR);
    EXPECT_STREQ(dlk_last_error(), "cuda:0: the launch failed with CUDA_ERROR_INVALID_VALUE");
    EXPECT_EQ(fake_count("cuLaunchKernel"), launches + 1);
  }
}

TEST_F(PreparedDriverTest, EachIsLaunchedEarlyIfItWaitsByItself) {
  json &kernels = manifest["kernels"];
  kernels[Prepare]["pdl"] = true;
  EXPECT_EQ(open(DLK_PLAN_PDL), DLK_UNSUPPORTED);
  EXPECT_STREQ(dlk_last_error(), "kernel 'gla.decode.4x8.kv.f32.f32': DLK_PLAN_PDL: expected a "
                                 "kernel compiled for it ('pdl'), got one that is not");
  kernels[Main]["pdl"] = kernels[2]["pdl"] = true;
  for (bool waits : {false, true})
    for (uint32_t flags : {0u, uint32_t(DLK_PLAN_PDL)}) {
      kernels[Prepare]["pdl"] = waits;
      ASSERT_EQ(open(flags), DLK_OK) << dlk_last_error();
      ASSERT_EQ(launchOnStream(), DLK_OK) << dlk_last_error();
      EXPECT_EQ(fake_launch_before.num_attributes, flags && waits ? 1 : 0);
      EXPECT_EQ(fake_launch.num_attributes, 1) << "it waits for what is prepared in any case";
    }
}

TEST_F(PreparedDriverTest, ThePreparationMustFitTheDevice) {
  manifest["kernels"][Prepare]["shared_bytes"] = 100001;
  EXPECT_EQ(open(), DLK_UNSUPPORTED);
  EXPECT_STREQ(dlk_last_error(),
               "kernel 'prepare': 100001 bytes of shared memory, cuda:0 allows 100000");
  EXPECT_EQ(plan, nullptr);
  dlk_kernel_info info;
  ASSERT_EQ(dlk_kernel_get_info(dlk_kernel_at(package, Main), &info), DLK_OK);
  EXPECT_EQ(info.shared_bytes, 0u);
  EXPECT_EQ(info.threads, 8u);
}

} // namespace
