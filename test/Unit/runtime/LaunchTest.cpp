//===- LaunchTest.cpp - What a launch checks and does ---------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LaunchFixture.h"

using namespace dl::test;

namespace {

TEST_F(LaunchTest, RunsTheRecurrence) {
  ASSERT_EQ(launch(), DLK_OK) << dlk_last_error();
  double state = 1, output = 0;
  for (int t = 0; t < 3; ++t) {
    state = std::exp(-0.5) * state + 0.25 * 2;
    output = 0.5 * 4 * 0.5 * state;
    EXPECT_NEAR(tensors[O].memory[t * 2 * 8], output, 1e-5);
  }
  EXPECT_NEAR(tensors[SOut].memory[0], state, 1e-5);
  EXPECT_EQ(tensors[SOut].memory.back(), 7.0f); // slots 2 and 3 belong to no row
  EXPECT_EQ(tensors[SIn].memory[0], 1.0f);
}

TEST_F(LaunchTest, ManyBlocksRunOnThreads) {
  setSizes(64, 1, 2, 4);
  ASSERT_EQ(launch(), DLK_OK) << dlk_last_error();
  for (float value : tensors[O].memory)
    EXPECT_EQ(value, tensors[O].memory[0]);
}

TEST_F(LaunchTest, TakesScalars) {
  ASSERT_EQ(launch(), DLK_OK);
  float withDefault = tensors[O].memory[0];
  ASSERT_EQ(launch({{"scale", 1.0}}), DLK_OK);
  EXPECT_EQ(tensors[O].memory[0], 2 * withDefault);
}

TEST_F(LaunchTest, NullRowsGetZerosAndTouchNoState) {
  tensors[Sources].set({-1, 3});
  tensors[Destinations].set({0, 1});
  ASSERT_EQ(launch(), DLK_OK) << dlk_last_error();
  EXPECT_EQ(tensors[O].memory[0], 0.0f);
  EXPECT_EQ(tensors[SOut].memory[0], 7.0f);
  EXPECT_NE(tensors[SOut].memory[64], 7.0f);
  // With the first slot at 1, slot 0 is null.
  tensors[Sources].set({1, 0});
  tensors[Destinations].set({2, 3});
  ASSERT_EQ(launch({{"first_slot", 1}}), DLK_OK) << dlk_last_error();
  EXPECT_EQ(tensors[O].memory[3 * 2 * 8], 0.0f);
  EXPECT_EQ(tensors[SOut].memory[3 * 64], 7.0f);
}

TEST_F(LaunchTest, UpdatesAPoolInPlace) {
  tensors[SOut].view = tensors[SIn].view;
  ASSERT_EQ(launch(), DLK_OK) << dlk_last_error();
  EXPECT_NE(tensors[SIn].memory[0], 1.0f);
}

TEST_F(LaunchTest, NullStridesMeanContiguous) {
  for (Tensor &tensor : tensors)
    tensor.view.strides = nullptr;
  EXPECT_EQ(launch(), DLK_OK) << dlk_last_error();
}

TEST_F(LaunchTest, ByteOffsetIsAdded) {
  ASSERT_EQ(launch(), DLK_OK);
  std::vector<float> expected = tensors[O].memory;
  tensors[G].memory.insert(tensors[G].memory.begin(), 100.0f);
  tensors[G].view.data = tensors[G].memory.data();
  tensors[G].view.byte_offset = 4;
  ASSERT_EQ(launch(), DLK_OK);
  EXPECT_EQ(expected, tensors[O].memory);
}

TEST_F(LaunchTest, NoRowsIsSuccess) {
  setSizes(0, 3, 1, 2);
  tensors[O].view.data = nullptr;
  EXPECT_EQ(launch(), DLK_OK) << dlk_last_error();
  setSizes(0, 0, 1, 2);
  EXPECT_EQ(launch(), DLK_OK) << dlk_last_error();
}

TEST_F(LaunchTest, ArgumentsAtTheEndThatMayBeNullMayBeLeftOut) {
  ASSERT_EQ(launch(), DLK_OK);
  const std::vector<float> all = tensors[O].memory;
  std::fill(tensors[O].memory.begin(), tensors[O].memory.end(), NAN);
  dlk_tensor views[NumArgs];
  for (int i = 0; i < NumArgs; ++i)
    views[i] = tensors[i].view;
  ASSERT_EQ(dlk_launch(plan, views, Sources, nullptr, 0, nullptr), DLK_OK) << dlk_last_error();
  EXPECT_EQ(tensors[O].memory, all);
}

TEST_F(LaunchTest, RefusesWrongCountsAndTypes) {
  dlk_tensor view = tensors[Q].view;
  EXPECT_EQ(dlk_launch(plan, &view, 1, nullptr, 0, nullptr), DLK_INVALID_ARGUMENT);
  EXPECT_STREQ(dlk_last_error(),
               "kernel 'gla.decode.4x8.kv.f32.f32' arguments: expected 7 to 12, got 1");
  EXPECT_EQ(dlk_launch(nullptr, &view, 1, nullptr, 0, nullptr), DLK_INVALID_ARGUMENT);

  tensors[K].view.dtype = dlk_dtype_data_type(DLK_BF16);
  expectError("argument 'k' dtype: expected f32, got bf16");
  tensors[K].view.dtype = {2, 8, 4};
  expectError("argument 'k' dtype: expected f32, got type code 2 of 8 bits and 4 lanes");
  tensors[K].view.dtype = dlk_dtype_data_type(DLK_F32);
  tensors[K].view.device = {DLK_DEVICE_CUDA, 1};
  expectError("argument 'k' device: expected cpu, got cuda:1");
  tensors[K].view.device = {DLK_DEVICE_CPU, 0};
  tensors[K].view.ndim = 3;
  expectError("argument 'k' rank: expected 4, got 3");
  tensors[K].view.ndim = 4;
  tensors[K].view.shape = nullptr;
  expectError("argument 'k' shape: expected 4 sizes, got NULL");
}

TEST_F(LaunchTest, RefusesSlotsOfTheOtherType) {
  tensors[Sources].set<int64_t>({1, 0});
  expectError("argument 'src_slots' dtype: expected i32, got i64");
  prepare(makeManifest("i64"));
  tensors[Sources].set({1, 0});
  expectError("argument 'src_slots' dtype: expected i64, got i32");
}

TEST_F(LaunchTest, RefusesShapes) {
  tensors[V].shape[0] = 3;
  expectError("argument 'v' dimension 0: expected B = 2 as in 'q', got 3");
  tensors[V].shape[0] = 2;
  tensors[G].shape[2] = 4;
  expectError("argument 'g' dimension 2: expected HV = 2 as in 'v', got 4");
  tensors[G].shape[2] = 2;
  tensors[V].shape[3] = 16;
  expectError("argument 'v' dimension 3: expected 8, got 16");
  tensors[V].shape[3] = 8;
  tensors[SIn].shape[2] = 8;
  expectError("argument 'S' (state_in) dimension 2: expected 4, got 8");
  tensors[SIn].shape[2] = 4;
  tensors[G].shape[1] = -3;
  expectError("argument 'g' dimension 1: expected T, got -3");
  tensors[G].shape[1] = 3;
  tensors[Sources].set({1, 0, 2});
  expectError("argument 'src_slots': expected N = B = 2 as in 'q', got N = 3");
  tensors[Sources].view = {};
  setSizes(2, 3, 0, 2);
  expectError("argument 'q': expected a positive HQ, got 0");
}

TEST_F(LaunchTest, RefusesSizesThatTheKernelDoesNotSupport) {
  setSizes(2, 1, 2, 3);
  expectError("kernel 'gla.decode.4x8.kv.f32.f32': HV must be a multiple of HQ, got HV = 3, HQ = 2",
              {}, DLK_UNSUPPORTED);
}

TEST_F(LaunchTest, RefusesStrides) {
  tensors[Q].strides[3] = 2;
  expectError("argument 'q' stride 3: expected 1, got 2");
  tensors[Q].strides[3] = 1;
  tensors[Q].strides[1] = -4;
  expectError("argument 'q' stride 1: expected 0 to 4294967295, got -4");
  tensors[Q].strides[1] = 4;
  tensors[SIn].strides[2] = 16; // the inner matrix must be packed
  expectError("argument 'S' (state_in) stride 2: expected 8, got 16");
  tensors[SIn].strides[2] = 8;
  tensors[O].strides[0] = 0;
  expectError("argument 'o' stride 0: expected at least 1 so that elements do not overlap, got 0");
  tensors[O].strides[0] = int64_t(1) << 32;
  expectError("argument 'o' stride 0: expected 0 to 4294967295, got 4294967296");
}

TEST_F(LaunchTest, RefusesMoreMemoryThanThereIs) {
  for (int i : {Q, K, V, G, O}) {
    tensors[i].shape[0] = int64_t(1) << 40;
    tensors[i].strides[0] = i == O ? UINT32_MAX - 3 : 0;
  }
  expectError("argument 'o': shape and strides exceed the address space");
}

TEST_F(LaunchTest, IgnoresStridesOfSizeOne) {
  setSizes(1, 1, 1, 2);
  tensors[Q].strides[0] = -7;
  EXPECT_EQ(launch(), DLK_OK) << dlk_last_error();
}

TEST_F(LaunchTest, RefusesMisalignment) {
  auto manifest = makeManifest();
  manifest["kernels"][0]["args"][Q]["align"] = 16;
  prepare(manifest);
  tensors[Q].memory.resize(200);
  char *base = reinterpret_cast<char *>(
      (reinterpret_cast<uintptr_t>(tensors[Q].memory.data()) + 15) / 16 * 16);
  tensors[Q].view.data = base;
  ASSERT_EQ(launch(), DLK_OK) << dlk_last_error();
  tensors[O].memory.assign(tensors[O].memory.size(), NAN);
  tensors[Q].view.data = base + 8;
  expectError("argument 'q' data: expected an address aligned to 16 bytes, got one 8 bytes above");
  tensors[Q].view.data = base;
  tensors[Q].strides[1] = 6;
  expectError("argument 'q' stride 1: expected a multiple of 4 elements (16 bytes), got 6");
  tensors[Q].strides[1] = 4;
  tensors[Q].view.data = nullptr;
  expectError("argument 'q' data: expected memory, got NULL");
}

TEST_F(LaunchTest, RefusesAliasing) {
  auto outputAt = [&](void *data) { tensors[O].view.data = data; };
  outputAt(tensors[V].memory.data());
  expectError("argument 'o': expected memory of its own, got memory that overlaps 'v'");
  outputAt(tensors[V].memory.data() + 8); // by one row less
  expectError("argument 'o': expected memory of its own, got memory that overlaps 'v'");
  outputAt(tensors[SIn].memory.data());
  expectError("argument 'o': expected memory of its own, got memory that overlaps 'S' (state_in)");
  outputAt(tensors[O].memory.data());
  tensors[SOut].view.data = tensors[SIn].memory.data() + 64; // shifted by one slot
  tensors[SOut].shape[0] = tensors[SIn].shape[0] = 2;
  expectError("argument 'S' (state_out): expected memory of its own, got memory that overlaps 'S' "
              "(state_in)");
}

TEST_F(LaunchTest, AllowsColumnSlicesOfOneBuffer) {
  // Rows of 32: v in columns 0..15, o in columns 16..31.
  std::vector<float> buffer(2 * 3 * 32, 2.0f);
  for (int i : {V, O}) {
    tensors[i].strides = {96, 32, 8, 1};
    tensors[i].view.strides = tensors[i].strides.data();
    tensors[i].view.data = buffer.data() + (i == O ? 16 : 0);
  }
  EXPECT_EQ(launch(), DLK_OK) << dlk_last_error();
  EXPECT_EQ(buffer[0], 2.0f);
  EXPECT_NE(buffer[16], 2.0f);
  tensors[O].view.data = buffer.data() + 15;
  EXPECT_EQ(launch(), DLK_INVALID_ARGUMENT);
}

TEST_F(LaunchTest, PoolsMayBePages) {
  // Two pools whose slots alternate in one allocation.
  std::vector<float> pages(4 * 256, 1.0f);
  for (int i : {SIn, SOut}) {
    tensors[i].strides = {256, 32, 8, 1};
    tensors[i].view.strides = tensors[i].strides.data();
    tensors[i].view.data = pages.data() + (i == SOut ? 128 : 0);
  }
  EXPECT_EQ(launch(), DLK_OK) << dlk_last_error();
  EXPECT_EQ(pages[0], 1.0f);
  EXPECT_NE(pages[128], 1.0f);
}

TEST_F(LaunchTest, NeedsASlotPerRowWithoutSlotArrays) {
  tensors[SIn].shape[0] = 1;
  expectError("argument 'S' (state_in) dimension 0: expected at least N = 2 slots because the slot "
              "array is null, got 1");
}

TEST_F(LaunchTest, RefusesScalars) {
  const char *kernel = "kernel 'gla.decode.4x8.kv.f32.f32'";
  expectError(std::string("scalar 'skale': ") + kernel + " has no such scalar", {{"skale", 1}});
  expectError(std::string("scalar 'T': ") + kernel + " has no such scalar", {{"T", 1}});
  expectError("scalar 'scale': given twice", {{"scale", 1}, {"scale", 2}});
  expectError("scalar 'scale': expected a finite number, got nan", {{"scale", NAN}});
  expectError("scalar 'scale': expected an f32 number, got 1e+300", {{"scale", 1e300}});
  expectError("scalar 'first_slot': expected an integer of 32 bits, got 0.5",
              {{"first_slot", 0.5}});
  expectError("scalar 'first_slot': expected an integer of 32 bits, got 4294967296",
              {{"first_slot", 4294967296.0}});
  expectError("scalar 0: expected a name, got NULL", {{nullptr, 1}});
}

TEST_F(LaunchTest, ReportsAFailingKernel) {
  auto manifest = makeManifest();
  manifest["kernels"][0]["entry"] = "test_failing";
  prepare(manifest);
  expectError("cpu: the kernel returned error 42", {}, DLK_DEVICE_ERROR);
}

TEST_F(LaunchTest, PlansOutliveThePackageAndShareCode) {
  dlk_plan *second = nullptr;
  ASSERT_EQ(dlk_prepare(dlk_kernel_at(package, 0), {DLK_DEVICE_CPU, 0}, 0, &second), DLK_OK);
  dlk_package_close(package);
  package = nullptr;
  dlk_plan_release(second);
  EXPECT_EQ(launch(), DLK_OK) << dlk_last_error();
}

} // namespace
