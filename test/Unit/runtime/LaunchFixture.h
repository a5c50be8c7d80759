//===- LaunchFixture.h - Tensors and launches on the CPU, for tests -------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_UNIT_RUNTIME_LAUNCHFIXTURE_H
#define DL_TEST_UNIT_RUNTIME_LAUNCHFIXTURE_H

#include "PackageBuilder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace dl::test {

/// A tensor with its own memory, of float32 or of integers; tests change the view.
struct Tensor {
  std::vector<float> memory;
  std::vector<int64_t> shape, strides;
  dlk_tensor view = {};

  void init(std::vector<int64_t> newShape, float value = 0) {
    shape = std::move(newShape);
    strides.assign(shape.size(), 1);
    for (size_t i = shape.size(); i-- > 1;)
      strides[i - 1] = strides[i] * shape[i];
    memory.assign(std::max<int64_t>(shape[0] * strides[0], 1), value);
    view.data = memory.data();
    view.device = {DLK_DEVICE_CPU, 0};
    view.ndim = static_cast<int32_t>(shape.size());
    view.dtype = dlk_dtype_data_type(DLK_F32);
    view.shape = shape.data();
    view.strides = strides.data();
  }
  /// Integers, with `width` of them in a row if it is not 0.
  template <typename Integer = int32_t>
  void set(std::initializer_list<Integer> values, int64_t width = 0) {
    const auto count = static_cast<int64_t>(values.size());
    init(width ? std::vector<int64_t>{count / width, width} : std::vector<int64_t>{count});
    view.dtype = dlk_dtype_data_type(sizeof(Integer) == 8   ? DLK_I64
                                     : sizeof(Integer) == 4 ? DLK_I32
                                                            : DLK_U8);
    memory.resize(std::max<size_t>(1, values.size() * sizeof(Integer) / sizeof(float) + 1));
    view.data = memory.data();
    std::copy(values.begin(), values.end(), reinterpret_cast<Integer *>(memory.data()));
  }
};

enum ArgIndex { Q, K, V, G, O, SIn, SOut, Sources, Destinations, Starts, Flags, Accepted, NumArgs };

class LaunchTest : public ::testing::Test {
protected:
  void SetUp() override { prepare(makeManifest()); }
  void TearDown() override {
    dlk_plan_release(plan);
    dlk_package_close(package);
  }

  void prepare(nlohmann::json manifest, uint32_t flags = 0) {
    TearDown();
    std::string bytes = makePackage(std::move(manifest), {kernelObject(), "// spec\n"});
    ASSERT_EQ(dlk_package_open_memory(bytes.data(), bytes.size(), &package), DLK_OK)
        << dlk_last_error();
    ASSERT_EQ(dlk_prepare(dlk_kernel_at(package, 0), {DLK_DEVICE_CPU, 0}, flags, &plan), DLK_OK)
        << dlk_last_error();
    setSizes(2, 3, 1, 2);
  }

  void setSizes(int64_t B, int64_t T, int64_t HQ, int64_t HV) {
    tensors[Q].init({B, T, HQ, 4}, 0.5f);
    tensors[K].init({B, T, HQ, 4}, 0.25f);
    tensors[V].init({B, T, HV, 8}, 2.0f);
    tensors[G].init({B, T, HV}, -0.5f);
    tensors[O].init({B, T, HV, 8}, NAN);
    tensors[SIn].init({B + 2, HV, 4, 8}, 1.0f);
    tensors[SOut].init({B + 2, HV, 4, 8}, 7.0f);
    for (int i : {Sources, Destinations, Starts, Flags, Accepted})
      tensors[i].view = {};
  }

  dlk_status launch(const std::vector<dlk_scalar> &scalars = {}) {
    dlk_tensor views[NumArgs];
    for (int i = 0; i < NumArgs; ++i)
      views[i] = tensors[i].view;
    return dlk_launch(plan, views, NumArgs, scalars.data(), static_cast<int32_t>(scalars.size()),
                      nullptr);
  }

  /// Expects a refusal with exactly this message, and that nothing was launched.
  void expectError(const std::string &message, const std::vector<dlk_scalar> &scalars = {},
                   dlk_status status = DLK_INVALID_ARGUMENT) {
    std::vector<float> before = tensors[SOut].memory;
    EXPECT_EQ(launch(scalars), status);
    EXPECT_EQ(std::string(dlk_last_error()), message);
    EXPECT_EQ(before, tensors[SOut].memory);
    for (float value : tensors[O].memory)
      EXPECT_TRUE(std::isnan(value));
  }

  dlk_package *package = nullptr;
  dlk_plan *plan = nullptr;
  Tensor tensors[NumArgs];
};

} // namespace dl::test

#endif // DL_TEST_UNIT_RUNTIME_LAUNCHFIXTURE_H
