//===- CudaTest.cpp - Loading and launching on a GPU; skipped where there is none -===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaDriver.h"
#include "PackageBuilder.h"

#include <gtest/gtest.h>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <thread>

using namespace dl::test;
using namespace dl::runtime::cuda;
using nlohmann::json;

namespace {

constexpr dlk_device gpu = {DLK_DEVICE_CUDA, 0};
constexpr int numArgs = 12;

class CudaTest : public ::testing::Test {
protected:
  void SetUp() override {
    if (getDevice(0, driver, facts) != DLK_OK)
      GTEST_SKIP() << dlk_last_error();
    ASSERT_EQ(driver->primaryRetain(&context, facts.handle), 0);
    ASSERT_EQ(driver->ctxPush(context), 0);
    ASSERT_EQ(driver->streamCreate(&stream, 1), 0);

    // Kernel 0 as it is, 1 with much shared memory, 2 with too much, 3 for another chip, 4 on the
    // host.
    json manifest = makeManifest();
    json kernel = manifest["kernels"][0], host = kernel;
    kernel["target"] = "sm_80";
    kernel["format"] = "ptx";
    kernel["threads"] = 8;
    json large = kernel, excessive = kernel, foreign = kernel;
    large["shared_bytes"] = facts.maxSharedBytes;
    excessive["shared_bytes"] = facts.maxSharedBytes + 1;
    foreign["target"] = "sm_70";
    foreign["format"] = "cubin";
    host["blob"] = 2;
    manifest["kernels"] = {kernel, large, excessive, foreign, host};
    std::ifstream file(DL_TEST_PTX);
    std::string ptx(std::istreambuf_iterator<char>(file), {});
    std::string bytes = makePackage(manifest, {ptx, "// spec\n", kernelObject()});
    ASSERT_EQ(dlk_package_open_memory(bytes.data(), bytes.size(), &package), DLK_OK)
        << dlk_last_error();
  }

  void TearDown() override {
    dlk_package_close(package);
    if (!context)
      return;
    for (DevicePtr pointer : allocations)
      driver->memFree(pointer);
    driver->streamDestroy(stream);
    Context old;
    driver->ctxPop(&old);
    driver->primaryRelease(facts.handle);
  }

  dlk_plan *prepare(int32_t kernel) {
    dlk_plan *plan = nullptr;
    EXPECT_EQ(dlk_prepare(dlk_kernel_at(package, kernel), gpu, 0, &plan), DLK_OK)
        << dlk_last_error();
    return plan;
  }

  /// Device tensors for B rows of one token and two heads, all elements `value`; slot arrays are
  /// null.
  struct Tensors {
    int64_t shapes[numArgs][4];
    dlk_tensor views[numArgs] = {};
  };
  void make(Tensors &tensors, int64_t B, float value) {
    const int64_t shapes[6][4] = {{B, 1, 2, 4}, {B, 1, 2, 4}, {B, 1, 2, 8},
                                  {B, 1, 2},    {B, 1, 2, 8}, {B, 2, 4, 8}};
    for (int i = 0; i < 6; ++i) {
      std::copy(shapes[i], shapes[i] + 4, tensors.shapes[i]);
      int32_t rank = i == 3 ? 3 : 4;
      size_t count = 1;
      for (int d = 0; d < rank; ++d)
        count *= size_t(shapes[i][d]);
      DevicePtr pointer = 0;
      ASSERT_EQ(driver->memAlloc(&pointer, count * 4), 0);
      allocations.push_back(pointer);
      std::vector<float> values(count, value);
      ASSERT_EQ(driver->memcpyHtoD(pointer, values.data(), count * 4), 0);
      tensors.views[i] = {reinterpret_cast<void *>(pointer),
                          gpu,
                          rank,
                          dlk_dtype_data_type(DLK_F32),
                          tensors.shapes[i],
                          nullptr,
                          0};
    }
    tensors.views[6] = tensors.views[5]; // in place
  }

  dlk_status launch(const dlk_plan *plan, const Tensors &tensors, Stream on) {
    return dlk_launch(plan, tensors.views, numArgs, nullptr, 0, on);
  }

  std::vector<float> outputs(const Tensors &tensors, int64_t B) {
    std::vector<float> values(size_t(B) * 16);
    EXPECT_EQ(driver->ctxSynchronize(), 0);
    EXPECT_EQ(driver->memcpyDtoH(values.data(), reinterpret_cast<DevicePtr>(tensors.views[4].data),
                                 values.size() * 4),
              0);
    return values;
  }

  const Driver *driver = nullptr;
  DeviceFacts facts;
  Context context = nullptr;
  Stream stream = nullptr;
  dlk_package *package = nullptr;
  std::vector<DevicePtr> allocations;
};

TEST_F(CudaTest, FindsPtxOnNewChips) {
  dlk_query query = {};
  const dlk_kernel *kernel = nullptr;
  ASSERT_EQ(dlk_find(package, &query, gpu, &kernel), DLK_OK) << dlk_last_error();
  EXPECT_EQ(kernel, dlk_kernel_at(package, 0));
  query.no_ptx = 1;
  EXPECT_EQ(dlk_find(package, &query, gpu, &kernel), DLK_NOT_FOUND);
  dlk_plan *plan = nullptr;
  EXPECT_EQ(dlk_prepare(dlk_kernel_at(package, 0), gpu, DLK_PLAN_NO_PTX, &plan), DLK_UNSUPPORTED);
  EXPECT_EQ(dlk_prepare(dlk_kernel_at(package, 3), gpu, 0, &plan), DLK_UNSUPPORTED);
  EXPECT_EQ(dlk_prepare(dlk_kernel_at(package, 4), gpu, 0, &plan), DLK_UNSUPPORTED);
  EXPECT_EQ(dlk_prepare(dlk_kernel_at(package, 0), {DLK_DEVICE_CUDA, 99}, 0, &plan),
            DLK_DEVICE_ERROR);
  EXPECT_EQ(dlk_prepare(dlk_kernel_at(package, 0), gpu, DLK_PLAN_PDL, &plan), DLK_UNSUPPORTED);
  EXPECT_EQ(dlk_prepare(dlk_kernel_at(package, 2), gpu, 0, &plan), DLK_UNSUPPORTED);
  EXPECT_EQ(std::string(dlk_last_error()),
            "kernel 'gla.decode.4x8.kv.f32.f32': " + std::to_string(facts.maxSharedBytes + 1) +
                " bytes of shared memory, cuda:0 allows " + std::to_string(facts.maxSharedBytes));
}

TEST_F(CudaTest, StreamAndGraphAgree) {
  dlk_plan *plan = prepare(0);
  Tensors onStream, inGraph;
  make(onStream, 3, 0.5f);
  make(inGraph, 3, 0.5f);
  ASSERT_EQ(launch(plan, onStream, stream), DLK_OK) << dlk_last_error();
  const std::vector<float> expected = outputs(onStream, 3);
  const double state = std::exp(0.5) * 0.5 + 0.25;
  EXPECT_NEAR(expected[0], 0.5 * 4 * 0.5 * state, 1e-6);

  Graph graph = nullptr;
  GraphExec executable = nullptr;
  ASSERT_EQ(driver->streamBeginCapture(stream, 0), 0);
  EXPECT_EQ(launch(plan, inGraph, stream), DLK_OK) << dlk_last_error();
  // A refused launch leaves the capture valid.
  inGraph.views[0].ndim = 3;
  EXPECT_EQ(launch(plan, inGraph, stream), DLK_INVALID_ARGUMENT);
  ASSERT_EQ(driver->streamEndCapture(stream, &graph), 0);
  ASSERT_EQ(driver->graphInstantiate(&executable, graph, 0), 0);
  ASSERT_EQ(driver->graphLaunch(executable, stream), 0);
  EXPECT_EQ(outputs(inGraph, 3), expected);
  driver->graphExecDestroy(executable);
  driver->graphDestroy(graph);
  dlk_plan_release(plan);
}

TEST_F(CudaTest, ThreadsAndSharedMemorySizesMix) {
  dlk_plan *plans[2] = {prepare(0), prepare(1)};
  std::thread threads[2];
  dlk_status statuses[2] = {};
  Tensors tensors[2];
  Stream streams[2];
  for (int i = 0; i < 2; ++i) {
    make(tensors[i], 16, 0.5f);
    ASSERT_EQ(driver->streamCreate(&streams[i], 1), 0);
  }
  for (int i = 0; i < 2; ++i)
    threads[i] = std::thread([&, i] { // without a current context
      for (int n = 0; n < 1000 && !statuses[i]; ++n)
        statuses[i] = launch(plans[n % 2], tensors[i], streams[i]);
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(statuses[0], DLK_OK);
  EXPECT_EQ(statuses[1], DLK_OK);
  EXPECT_EQ(outputs(tensors[0], 16), outputs(tensors[1], 16));
  for (int i = 0; i < 2; ++i) {
    driver->streamDestroy(streams[i]);
    dlk_plan_release(plans[i]);
  }
}

TEST_F(CudaTest, ReleaseInAForkedChildIsQuiet) {
  dlk_plan *plan = prepare(0);
  pid_t child = fork();
  if (child == 0) {
    dlk_plan_release(plan);
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  Tensors tensors;
  make(tensors, 1, 0.5f);
  EXPECT_EQ(launch(plan, tensors, stream), DLK_OK) << dlk_last_error();
  dlk_plan_release(plan);
}

TEST_F(CudaTest, SurvivesAContextReset) {
  dlk_plan *plan = prepare(0);
  Result (*reset)(Device) = nullptr;
  reset = reinterpret_cast<decltype(reset)>(dlsym(RTLD_DEFAULT, "cuDevicePrimaryCtxReset_v2"));
  if (!reset) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    reset = reinterpret_cast<decltype(reset)>(dlsym(library, "cuDevicePrimaryCtxReset_v2"));
  }
  ASSERT_TRUE(reset);
  ASSERT_EQ(reset(facts.handle), 0);
  allocations.clear(); // gone with the context
  stream = nullptr;
  dlk_plan_release(plan);
  // A new plan works.
  plan = nullptr;
  EXPECT_EQ(dlk_prepare(dlk_kernel_at(package, 0), gpu, 0, &plan), DLK_OK) << dlk_last_error();
  dlk_plan_release(plan);
}

} // namespace
