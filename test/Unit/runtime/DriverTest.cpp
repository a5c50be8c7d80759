//===- DriverTest.cpp - What the runtime asks of the CUDA driver ----------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Runs without a GPU, on the driver of fake_cuda.h.
//
//===----------------------------------------------------------------------===//
#include "PackageBuilder.h"
#include "fake_cuda.h"

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

using namespace dl::test;
using nlohmann::json;

#if defined(__SANITIZE_ADDRESS__)
#define DL_COUNTS_MALLOCS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DL_COUNTS_MALLOCS 0
#endif
#endif
#ifndef DL_COUNTS_MALLOCS
#define DL_COUNTS_MALLOCS 1
#endif

static std::atomic<long> numMallocs{0};

#if DL_COUNTS_MALLOCS
// In place of the C library's, for all libraries of the process.
extern "C" {
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *pointer, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes) {
  ++numMallocs;
  return __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes) {
  ++numMallocs;
  return __libc_calloc(count, bytes);
}
void *realloc(void *pointer, size_t bytes) {
  ++numMallocs;
  return __libc_realloc(pointer, bytes);
}
void *aligned_alloc(size_t alignment, size_t bytes) {
  ++numMallocs;
  return __libc_memalign(alignment, bytes);
}
}
#endif

namespace {

constexpr int numArgs = 12;
enum ArgIndex { Q, K, V, G, O, SIn, SOut, Sources, Destinations, Starts, Flags, Accepted };
enum KernelIndex { Plain, Pdl, Large, Wide, Few };

/// Views of memory that no kernel touches: B rows of one token and two heads, four slots.
struct Views {
  explicit Views(int32_t device = 0, int64_t B = 2) {
    const int64_t all[7][4] = {{B, 1, 2, 4}, {B, 1, 2, 4}, {B, 1, 2, 8}, {B, 1, 2},
                               {B, 1, 2, 8}, {4, 2, 4, 8}, {4, 2, 4, 8}};
    for (int i = 0; i < numArgs; ++i) {
      views[i].device = {DLK_DEVICE_CUDA, device};
      if (i > SOut)
        continue;
      std::copy(all[i], all[i] + 4, shapes[i]);
      views[i].data = memory[i == SOut ? SIn : i];
      views[i].ndim = i == G ? 3 : 4;
      views[i].dtype = dlk_dtype_data_type(DLK_F32);
      views[i].shape = shapes[i];
    }
  }

  /// Integers of an array with an entry per row, every other one of `values`.
  void setStrided(int index, const int32_t *values, int64_t rows) {
    static constexpr int64_t two[] = {2};
    shapes[index][0] = rows;
    views[index].data = const_cast<int32_t *>(values);
    views[index].ndim = 1;
    views[index].dtype = dlk_dtype_data_type(DLK_I32);
    views[index].shape = shapes[index];
    views[index].strides = two;
  }

  dlk_status launch(const dlk_plan *plan, void *stream = nullptr) const {
    return dlk_launch(plan, views, numArgs, nullptr, 0, stream);
  }

  int64_t shapes[numArgs][4] = {};
  dlk_tensor views[numArgs] = {};
  alignas(64) float memory[SOut][4 * 2 * 4 * 8] = {};
};

class DriverTest : public ::testing::Test {
protected:
  void SetUp() override {
    fake_reset();
    json manifest = makeManifest();
    json kernel = manifest["kernels"][0];
    kernel["target"] = "sm_80";
    kernel["format"] = "ptx";
    kernel["threads"] = 8;
    json pdl = kernel, large = kernel, wide = kernel, few = kernel;
    few["name"] = "few";
    few["variant_of"] = kernel["name"];
    few["when"] = {{{"expr", {"mul", "N", "HV"}}, {"max", 4}}};
    few["threads"] = 4;
    few["grid"] = {"HV", "N", 1};
    pdl["pdl"] = true;
    large["shared_bytes"] = 100000;
    wide["threads"] = 512;
    manifest["kernels"] = {kernel, pdl, large, wide, few};
    const std::string bytes = makePackage(manifest, {"code", ""});
    ASSERT_EQ(dlk_package_open_memory(bytes.data(), bytes.size(), &package), DLK_OK)
        << dlk_last_error();
  }
  void TearDown() override { dlk_package_close(package); }

  dlk_plan *prepare(int kernel, uint32_t flags = 0, int32_t device = 0) {
    dlk_plan *plan = nullptr;
    EXPECT_EQ(dlk_prepare(dlk_kernel_at(package, kernel), {DLK_DEVICE_CUDA, device}, flags, &plan),
              DLK_OK)
        << dlk_last_error();
    fake_clear_log();
    return plan;
  }

  /// The message with which a plan is refused as unsupported.
  std::string refusal(int kernel, uint32_t flags = 0, dlk_status status = DLK_UNSUPPORTED) {
    dlk_plan *plan = nullptr;
    EXPECT_EQ(dlk_prepare(dlk_kernel_at(package, kernel), {DLK_DEVICE_CUDA, 0}, flags, &plan),
              status);
    EXPECT_EQ(plan, nullptr);
    const std::string prefix = "kernel 'gla.decode.4x8.kv.f32.f32'", message = dlk_last_error();
    EXPECT_EQ(message.compare(0, prefix.size(), prefix), 0) << message;
    return message.substr(std::min(message.size(), prefix.size()));
  }

  void *const stream = &streamObject;
  dlk_package *package = nullptr;

private:
  int streamObject = 0;
};

// The promise of dlk.h: an engine launches every layer of every step.
TEST_F(DriverTest, LaunchOnlyLaunches) {
  for (uint32_t flags : {0u, uint32_t(DLK_PLAN_PDL)}) {
    dlk_plan *plan = prepare(Pdl, flags);
    const Views views;
    for (int n = 0; n < 3; ++n) {
      fake_clear_log();
      const long before = numMallocs;
      const dlk_status status = views.launch(plan, stream);
      EXPECT_EQ(numMallocs - before, 0);
      ASSERT_EQ(status, DLK_OK) << dlk_last_error();
      EXPECT_EQ(std::string(fake_log()), std::string("cuCtxGetCurrent cuCtxPushCurrent_v2 ") +
                                             (flags ? "cuLaunchKernelEx" : "cuLaunchKernel") +
                                             " cuCtxPopCurrent_v2");
    }
    // While the stream captures, too.
    fake_cuda.capturing = stream;
    EXPECT_EQ(views.launch(plan, stream), DLK_OK) << dlk_last_error();
    fake_cuda.capturing = nullptr;
    dlk_plan_release(plan);
  }
}

// Two heads: two rows are few, three are not.
TEST_F(DriverTest, ALaunchTakesTheVariantForItsSizes) {
  dlk_plan *plan = prepare(Plain);
  ASSERT_EQ(Views(0, 2).launch(plan, stream), DLK_OK) << dlk_last_error();
  EXPECT_EQ(fake_launch.block[0], 4u);
  EXPECT_EQ(fake_launch.grid[1], 2u);
  ASSERT_EQ(Views(0, 3).launch(plan, stream), DLK_OK) << dlk_last_error();
  EXPECT_EQ(fake_launch.block[0], 8u);
  EXPECT_EQ(fake_launch.grid[0], 3u);
  dlk_plan_release(plan);
}

TEST_F(DriverTest, AVariantAloneIsLaunchedAtAnySize) {
  dlk_plan *plan = prepare(Few);
  ASSERT_EQ(Views(0, 3).launch(plan, stream), DLK_OK) << dlk_last_error();
  EXPECT_EQ(fake_launch.block[0], 4u);
  dlk_plan_release(plan);
}

TEST_F(DriverTest, AVariantIsFoundByItsNameAlone) {
  dlk_query query = {};
  const dlk_kernel *kernel = nullptr;
  dlk_kernel_info info;
  ASSERT_EQ(dlk_find(package, &query, {DLK_DEVICE_CUDA, 0}, &kernel), DLK_OK);
  EXPECT_EQ(kernel, dlk_kernel_at(package, Plain));
  ASSERT_EQ(dlk_kernel_get_info(kernel, &info), DLK_OK);
  EXPECT_STREQ(info.variant_of, "");
  query.name = "few";
  ASSERT_EQ(dlk_find(package, &query, {DLK_DEVICE_CUDA, 0}, &kernel), DLK_OK);
  EXPECT_EQ(kernel, dlk_kernel_at(package, Few));
  ASSERT_EQ(dlk_kernel_get_info(kernel, &info), DLK_OK);
  EXPECT_STREQ(info.variant_of, "gla.decode.4x8.kv.f32.f32");
}

TEST_F(DriverTest, ARefusalDoesNothing) {
  dlk_plan *plan = prepare(Plain);
  Views views;
  views.views[K].ndim = 3;
  const long before = numMallocs;
  const dlk_status status = views.launch(plan, stream);
  EXPECT_EQ(numMallocs - before, 0);
  EXPECT_EQ(status, DLK_INVALID_ARGUMENT);
  EXPECT_STREQ(fake_log(), "");
  // No rows: nothing to do.
  EXPECT_EQ(Views(0, 0).launch(plan, stream), DLK_OK) << dlk_last_error();
  EXPECT_STREQ(fake_log(), "");
  dlk_plan_release(plan);
}

TEST_F(DriverTest, CountsMallocs) {
#if DL_COUNTS_MALLOCS
  const long before = numMallocs;
  dlk_plan_release(prepare(Plain));
  EXPECT_GT(numMallocs - before, 0);
#else
  GTEST_SKIP() << "the sanitizer has its own malloc";
#endif
}

TEST_F(DriverTest, PassesGridBlockAndParameters) {
  dlk_plan *plan = prepare(Large);
  Views views;
  ASSERT_EQ(views.launch(plan, stream), DLK_OK) << dlk_last_error();
  EXPECT_EQ(fake_launch.grid[0], 2u);
  EXPECT_EQ(fake_launch.grid[1], 2u);
  EXPECT_EQ(fake_launch.grid[2], 1u);
  EXPECT_EQ(fake_launch.block[0], 8u);
  EXPECT_EQ(fake_launch.shared_bytes, 100000u);
  EXPECT_EQ(fake_launch.stream, stream);
  EXPECT_EQ(fake_launch.num_attributes, 0);
  const void *q = nullptr, *sources = &q;
  int64_t poolOut = 0;
  int32_t width = 0;
  std::memcpy(&q, fake_launch.params, 8);
  std::memcpy(&sources, fake_launch.params + 208, 8);
  std::memcpy(&poolOut, fake_launch.params + 256, 8);
  std::memcpy(&width, fake_launch.params + 264, 4);
  EXPECT_EQ(q, views.memory[Q]);
  EXPECT_EQ(sources, nullptr);
  EXPECT_EQ(poolOut, 4);
  EXPECT_EQ(width, 1);
  dlk_plan_release(plan);
}

TEST_F(DriverTest, GridsHaveLimits) {
  const dlk_size sizes[] = {{"B", 1},      {"T", 1},       {"HQ", 70000},
                            {"HV", 70000}, {"pool_in", 1}, {"pool_out", 1}};
  EXPECT_EQ(
      dlk_supported(dlk_kernel_at(package, Plain), {DLK_DEVICE_CUDA, 0}, sizes, 6, nullptr, 0),
      DLK_UNSUPPORTED);
  EXPECT_STREQ(dlk_last_error(), "kernel 'gla.decode.4x8.kv.f32.f32': grid y: expected 1 to 65535 "
                                 "blocks, got 70000 (HV = 70000)");
}

TEST_F(DriverTest, PdlSetsTheAttribute) {
  dlk_plan *plan = prepare(Pdl, DLK_PLAN_PDL);
  ASSERT_EQ(Views().launch(plan, stream), DLK_OK) << dlk_last_error();
  EXPECT_EQ(fake_launch.num_attributes, 1);
  EXPECT_EQ(fake_launch.attribute, 6); // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
  EXPECT_EQ(fake_launch.value, 1);
  EXPECT_EQ(fake_launch.grid[1], 2u);
  EXPECT_EQ(fake_launch.block[0], 8u);
  EXPECT_EQ(fake_launch.stream, stream);
  dlk_plan_release(plan);
  // Without the flag the kernel is launched as any other.
  plan = prepare(Pdl);
  ASSERT_EQ(Views().launch(plan, stream), DLK_OK) << dlk_last_error();
  EXPECT_EQ(fake_launch.num_attributes, 0);
  dlk_plan_release(plan);
  dlk_kernel_info info;
  ASSERT_EQ(dlk_kernel_get_info(dlk_kernel_at(package, Pdl), &info), DLK_OK);
  EXPECT_EQ(info.pdl, 1);
}

TEST_F(DriverTest, PdlNeedsKernelAndDevice) {
  EXPECT_EQ(refusal(Plain, DLK_PLAN_PDL),
            ": DLK_PLAN_PDL: expected a kernel compiled for it ('pdl'), got one that is not");
  fake_cuda.capability[0] = 89;
  EXPECT_EQ(refusal(Pdl, DLK_PLAN_PDL),
            ": DLK_PLAN_PDL: expected a device of sm_90 or newer, cuda:0 is sm_89");
  EXPECT_EQ(fake_count("cuLibraryLoadData"), 0);
}

TEST_F(DriverTest, RefusesWhatTheDeviceHasNotGot) {
  fake_cuda.static_shared_bytes = 1;
  EXPECT_EQ(refusal(Large), ": 100001 bytes of shared memory, cuda:0 allows 100000");
  fake_cuda.max_threads = 256;
  EXPECT_EQ(refusal(Wide), ": 512 threads per block, cuda:0 allows it 256");
  fake_cuda.param_bytes = 240;
  EXPECT_EQ(refusal(Plain, 0, DLK_BAD_PACKAGE), ": param_bytes is 272, the code takes 240");
  EXPECT_EQ(fake_count("cuDevicePrimaryCtxRetain"), fake_count("cuDevicePrimaryCtxRelease_v2"));
  fake_cuda.load_log = "ptxas: line 3";
  EXPECT_EQ(refusal(Plain, 0, DLK_DEVICE_ERROR),
            " (sm_80): loading on cuda:0 failed with CUDA_ERROR_INVALID_IMAGE: ptxas: line 3");
  EXPECT_EQ(fake_count("cuDevicePrimaryCtxRetain"), fake_count("cuDevicePrimaryCtxRelease_v2"));
}

TEST_F(DriverTest, PlansOfOneDeviceShareCode) {
  fake_clear_log();
  dlk_plan *plans[2] = {};
  for (int i : {0, 1})
    ASSERT_EQ(dlk_prepare(dlk_kernel_at(package, i), {DLK_DEVICE_CUDA, 0}, 0, &plans[i]), DLK_OK);
  EXPECT_EQ(fake_count("cuLibraryLoadData"), 1);
  dlk_plan_release(plans[0]);
  EXPECT_EQ(fake_count("cuLibraryUnload"), 0);
  dlk_plan_release(plans[1]);
  EXPECT_EQ(fake_count("cuLibraryUnload"), 1);
  EXPECT_EQ(fake_count("cuDevicePrimaryCtxRetain"), fake_count("cuDevicePrimaryCtxRelease_v2"));
}

TEST_F(DriverTest, TwoDevices) {
  dlk_plan *plans[2] = {prepare(Plain, 0, 0), prepare(Plain, 0, 1)};
  const Views views[2] = {Views(0), Views(1)};
  for (int n : {0, 1, 1, 0}) {
    ASSERT_EQ(views[n].launch(plans[n], stream), DLK_OK) << dlk_last_error();
    EXPECT_EQ(fake_launch.device, n);
  }
  EXPECT_EQ(views[0].launch(plans[1], stream), DLK_INVALID_ARGUMENT);
  EXPECT_STREQ(dlk_last_error(), "argument 'q' device: expected cuda:1, got cuda:0");
  EXPECT_EQ(fake_count("cuCtxPushCurrent_v2"), fake_count("cuCtxPopCurrent_v2"));
  dlk_plan_release(plans[0]);
  EXPECT_EQ(views[1].launch(plans[1], stream), DLK_OK) << dlk_last_error();
  dlk_plan_release(plans[1]);
  EXPECT_EQ(fake_count("cuLibraryUnload"), 2);
  dlk_plan *plan = nullptr;
  EXPECT_EQ(dlk_prepare(dlk_kernel_at(package, 0), {DLK_DEVICE_CUDA, 2}, 0, &plan),
            DLK_DEVICE_ERROR);
  EXPECT_STREQ(dlk_last_error(), "device cuda:2: the driver has 2 devices");
}

TEST_F(DriverTest, ContextReset) {
  dlk_plan *plan = prepare(Plain);
  fake_reset_context(0);
  EXPECT_EQ(Views().launch(plan, stream), DLK_DEVICE_ERROR);
  EXPECT_STREQ(dlk_last_error(), "cuda:0: the launch failed with CUDA_ERROR_CONTEXT_IS_DESTROYED");
  dlk_plan_release(plan);
  plan = prepare(Plain);
  EXPECT_EQ(Views().launch(plan, stream), DLK_OK) << dlk_last_error();
  dlk_plan_release(plan);
}

TEST_F(DriverTest, Fork) {
  dlk_plan *plan = prepare(Plain);
  const pid_t child = fork();
  if (child == 0) {
    // No launch, but a clean error; and no call of the driver on release.
    const bool refuses = Views().launch(plan, stream) == DLK_DEVICE_ERROR &&
                         std::strstr(dlk_last_error(), "CUDA_ERROR_NOT_INITIALIZED");
    fake_clear_log();
    dlk_plan_release(plan);
    _exit(!refuses ? 1 : *fake_log() ? 2 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Views().launch(plan, stream), DLK_OK) << dlk_last_error();
  dlk_plan_release(plan);
}

TEST_F(DriverTest, Threads) {
  constexpr int numThreads = 4, numLaunches = 500;
  dlk_plan *plans[2] = {prepare(Pdl), prepare(Pdl, DLK_PLAN_PDL)};
  std::thread threads[numThreads];
  std::atomic<int> failures{0};
  for (int i = 0; i < numThreads; ++i)
    threads[i] = std::thread([&, i] { // without a current context
      const Views views;
      for (int n = 0; n < numLaunches; ++n)
        failures += views.launch(plans[(n + i) % 2], stream) != DLK_OK;
      // Messages are a thread's own.
      Views wrong;
      wrong.views[i].ndim = 9;
      const char *names[numThreads] = {"'q'", "'k'", "'v'", "'g'"};
      failures += wrong.launch(plans[0], stream) != DLK_INVALID_ARGUMENT ||
                  !std::strstr(dlk_last_error(), names[i]);
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(fake_count("cuLaunchKernel") + fake_count("cuLaunchKernelEx"),
            numThreads * numLaunches);
  EXPECT_EQ(fake_count("cuCtxPushCurrent_v2"), fake_count("cuCtxPopCurrent_v2"));
  for (dlk_plan *plan : plans)
    dlk_plan_release(plan);
}

TEST_F(DriverTest, CheckedModeReadsTheDevice) {
  dlk_plan *plan = prepare(Plain, DLK_PLAN_CHECKED);
  Views views;
  static const int32_t good[] = {1, 99, 0}, twice[] = {2, 99, 2}, beyond[] = {2, 99, 4};
  views.setStrided(Sources, good, 2);
  views.setStrided(Destinations, good, 2);
  ASSERT_EQ(views.launch(plan, stream), DLK_OK) << dlk_last_error();
  // First the stream must be idle, then the arrays are read, last the kernel starts.
  const std::string calls = fake_log();
  EXPECT_LT(calls.find("cuStreamIsCapturing"), calls.find("cuStreamSynchronize"));
  EXPECT_LT(calls.find("cuStreamSynchronize"), calls.find("cuMemcpyDtoH_v2"));
  EXPECT_LT(calls.rfind("cuMemcpyDtoH_v2"), calls.find("cuLaunchKernel"));
  EXPECT_EQ(fake_count("cuMemcpyDtoH_v2"), 2);

  fake_clear_log();
  views.setStrided(Destinations, twice, 2);
  EXPECT_EQ(views.launch(plan, stream), DLK_INVALID_ARGUMENT);
  EXPECT_STREQ(dlk_last_error(), "argument 'dst_slots' row 1: expected a slot of its own, got 2, "
                                 "which row 0 writes too");
  views.setStrided(Destinations, beyond, 2);
  EXPECT_EQ(views.launch(plan, stream), DLK_INVALID_ARGUMENT);
  EXPECT_STREQ(dlk_last_error(), "argument 'dst_slots' row 1: expected a slot below 4, got 4");
  EXPECT_EQ(fake_count("cuLaunchKernel"), 0);
  // Nothing is read for no rows.
  fake_clear_log();
  EXPECT_EQ(Views(0, 0).launch(plan, stream), DLK_OK) << dlk_last_error();
  EXPECT_STREQ(fake_log(), "");
  dlk_plan_release(plan);
}

TEST_F(DriverTest, CheckedModeRefusesACapturingStream) {
  dlk_plan *plan = prepare(Plain, DLK_PLAN_CHECKED);
  fake_cuda.capturing = stream;
  const Views views;
  for (void *on : {stream, static_cast<void *>(nullptr)}) {
    EXPECT_EQ(views.launch(plan, on), DLK_INVALID_ARGUMENT);
    EXPECT_STREQ(dlk_last_error(), "stream: expected one that is not capturing, since "
                                   "DLK_PLAN_CHECKED waits for it, got one that is");
  }
  EXPECT_EQ(fake_count("cuStreamSynchronize"), 0);
  EXPECT_EQ(fake_count("cuLaunchKernel"), 0);
  int other = 0;
  EXPECT_EQ(views.launch(plan, &other), DLK_OK) << dlk_last_error();
  dlk_plan_release(plan);
}

} // namespace
