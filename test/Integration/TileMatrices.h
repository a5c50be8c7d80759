//===- TileMatrices.h - Arguments and runs of hand-written tile kernels ----===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_INTEGRATION_TILEMATRICES_H
#define DL_TEST_INTEGRATION_TILEMATRICES_H

#include "test/Integration/Device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace dl::test {

/// Writes an integer; false if the type does not hold it.
inline bool encode(dlk_dtype dtype, double value, void *to) {
  const float single = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &single, 4);
  const uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  uint32_t lost = 0; // bits of the mantissa that are cut off
  uint16_t half = 0;
  switch (dtype) {
  case DLK_F32:
    std::memcpy(to, &single, 4);
    return single == value;
  case DLK_BF16:
    half = static_cast<uint16_t>(bits >> 16);
    lost = bits & 0xffff;
    break;
  case DLK_F16: // the exponent's bias is 15 instead of 127
    half = static_cast<uint16_t>(sign | (magnitude ? (magnitude >> 13) - (112 << 10) : 0));
    lost = bits & 0x1fff;
    break;
  default:
    return false;
  }
  std::memcpy(to, &half, 2);
  return single == value && lost == 0 && std::abs(value) <= 65504;
}

inline float readFloat(const void *from) {
  float value;
  std::memcpy(&value, from, 4);
  return value;
}

/// All ones is a NaN in every format.
constexpr unsigned char guardByte = 0xff;

/// An argument [B, rows, columns] with guards before, between and after the matrices.
class Argument {
public:
  Argument(const dlk_kernel *kernel, int32_t index, int64_t batch) {
    EXPECT_EQ(dlk_kernel_get_arg(kernel, index, &info), DLK_OK) << dlk_last_error();
    const dlk_size sizes[] = {{"B", batch}};
    EXPECT_EQ(dlk_arg_shape(kernel, index, sizes, 1, shape), DLK_OK) << dlk_last_error();
    EXPECT_EQ(info.rank, 3) << info.name;
    bytes = dlk_dtype_bytes(info.dtype);
    strides[1] = shape[2];
    strides[0] = (shape[1] * shape[2] + 127) / 64 * 64; // at least 64 elements between matrices
    memory = std::make_unique<Memory>(size_t(guard + batch * strides[0]) * bytes);
    std::fill(memory->image.begin(), memory->image.end(), guardByte);
  }

  std::string name() const { return info.name; }
  bool isTransposed() const {
    return name().size() > 2 && name().substr(name().size() - 2) == "_t";
  }
  /// Of the matrix in the product.
  int64_t rows() const { return shape[isTransposed() ? 2 : 1]; }
  int64_t columns() const { return shape[isTransposed() ? 1 : 2]; }

  size_t offset(int64_t n, int64_t row, int64_t column) const {
    if (isTransposed())
      std::swap(row, column);
    return size_t(guard + n * strides[0] + row * strides[1] + column) * bytes;
  }
  /// False if the type does not hold the value.
  bool set(int64_t n, int64_t row, int64_t column, double value) {
    return encode(info.dtype, value, &memory->image[offset(n, row, column)]);
  }
  dlk_tensor view() const {
    return {memory->data(), Device::get().handle,   3, dlk_dtype_data_type(info.dtype), shape,
            strides,        uint64_t(guard) * bytes};
  }

  dlk_arg_info info = {};
  std::unique_ptr<Memory> memory;

private:
  static constexpr int64_t guard = 128; ///< elements
  int64_t shape[DLK_MAX_RANK] = {};
  int64_t strides[3] = {0, 0, 1};
  int64_t bytes = 0;
};

/// Runs the kernel on its arguments, in their order.
inline void launch(const dlk_kernel *kernel, std::vector<Argument> &arguments) {
  dlk_plan *plan = nullptr;
  ASSERT_EQ(dlk_prepare(kernel, Device::get().handle, 0, &plan), DLK_OK) << dlk_last_error();
  std::vector<dlk_tensor> views;
  for (Argument &argument : arguments) {
    argument.memory->upload();
    views.push_back(argument.view());
  }
  EXPECT_EQ(dlk_launch(plan, views.data(), int32_t(views.size()), nullptr, 0, nullptr), DLK_OK)
      << dlk_last_error();
  if (Device::get().driver)
    EXPECT_EQ(Device::get().driver->ctxSynchronize(), 0);
  dlk_plan_release(plan);
}

using MakeTest = std::function<::testing::Test *(const dlk_kernel *)>;

/// One test for each kernel that runs here; a package without any is an error.
inline bool registerPackage(const std::string &path, const MakeTest &make) {
  dlk_package *package = nullptr;
  if (dlk_package_open_file(path.c_str(), &package) != DLK_OK) {
    std::fprintf(stderr, "%s\n", dlk_last_error());
    return false;
  }
  // Open until the tests have run.
  static std::vector<std::unique_ptr<dlk_package, decltype(&dlk_package_close)>> packages;
  packages.emplace_back(package, dlk_package_close);
  std::string suite = path.substr(path.find_last_of('/') + 1);
  suite = suite.substr(0, suite.find_last_of('.'));
  int count = 0;
  for (int32_t i = 0; i < dlk_kernel_count(package); ++i) {
    const dlk_kernel *kernel = dlk_kernel_at(package, i);
    dlk_kernel_info info;
    if (dlk_kernel_get_info(kernel, &info) != DLK_OK ||
        dlk_supported(kernel, Device::get().handle, nullptr, 0, nullptr, 0) != DLK_OK)
      continue;
    ++count;
    const std::string name = std::string(info.name) + "/" + info.target;
    ::testing::RegisterTest(suite.c_str(), name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [=] { return make(kernel); });
  }
  if (count == 0)
    std::fprintf(stderr, "%s: no kernel runs on the device\n", path.c_str());
  return count != 0;
}

/// The program's main function: a test of each kernel in the packages that its arguments name.
inline int testPackages(int argc, char **argv, const MakeTest &make) {
  ::testing::InitGoogleTest(&argc, argv);
  const char *device = std::getenv("DL_TEST_DEVICE");
  Device::get().open(device ? device : "cpu");
  if (::testing::Test::HasFailure())
    return 2;
  if (argc < 2) {
    std::fprintf(stderr, "expected packages to run: %s PACKAGE.dlk...\n", argv[0]);
    return 2;
  }
  for (int i = 1; i < argc; ++i)
    if (!registerPackage(argv[i], make))
      return 2;
  return RUN_ALL_TESTS();
}

} // namespace dl::test

#endif // DL_TEST_INTEGRATION_TILEMATRICES_H
