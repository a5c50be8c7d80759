//===- TileKernels.h - Running the kernels of packages, memory around them guarded ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What tests of hand-written tile kernels have in common: arguments for B rows with NaN around and
// between them, so that a stray read spoils the result and a stray write is found; a launch; and a
// program that runs one test for each kernel of its packages.
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_INTEGRATION_TILEKERNELS_H
#define DL_TEST_INTEGRATION_TILEKERNELS_H

#include "test/Integration/Device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dl::test {

/// Writes a number; false if the type does not hold it.
inline bool encode(dlk_dtype dtype, double value, void *to) {
  const float single = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &single, 4);
  const uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  uint32_t lost = 0; // bits of the mantissa that are cut off
  uint16_t half = 0;
  switch (dtype) {
  case DLK_I32: {
    const auto integer = static_cast<int32_t>(value);
    std::memcpy(to, &integer, 4);
    return integer == value;
  }
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
  return single == value && lost == 0 && (dtype == DLK_BF16 || std::abs(value) <= 65504);
}

inline float readFloat(const void *from) {
  float value;
  std::memcpy(&value, from, 4);
  return value;
}

/// All ones is a NaN in every format.
constexpr unsigned char guardByte = 0xff;

/// An argument [B, ...] of at most three axes with guards before, between and after its parts. A
/// matrix whose name ends with _t lies transposed.
class Argument {
public:
  Argument(const dlk_kernel *kernel, int32_t index, int64_t batch) {
    EXPECT_EQ(dlk_kernel_get_arg(kernel, index, &info), DLK_OK) << dlk_last_error();
    const dlk_size sizes[] = {{"B", batch}};
    EXPECT_EQ(dlk_arg_shape(kernel, index, sizes, 1, shape), DLK_OK) << dlk_last_error();
    bytes = dlk_dtype_bytes(info.dtype);
    int64_t elements = 1;
    for (int i = info.rank; --i >= 0;) {
      strides[i] = i == 0 && info.rank > 1 ? (elements + 127) / 64 * 64 : elements;
      elements *= shape[i];
    }
    memory = std::make_unique<Memory>(size_t(2 * guard + batch * strides[0]) * bytes);
    std::fill(memory->image.begin(), memory->image.end(), guardByte);
  }

  std::string name() const { return info.name; }
  /// Of an axis; axis 0 is B.
  int64_t size(int axis) const { return axis < info.rank ? shape[axis] : 1; }
  bool isTransposed() const {
    return name().size() > 2 && name().substr(name().size() - 2) == "_t";
  }
  /// Of the matrix, as kernels mean it.
  int64_t rows() const { return size(isTransposed() ? 2 : 1); }
  int64_t columns() const { return size(isTransposed() ? 1 : 2); }

  size_t offset(int64_t n, int64_t i, int64_t j) const {
    if (isTransposed())
      std::swap(i, j);
    return size_t(guard + n * strides[0] + i * strides[1] + j * strides[2]) * bytes;
  }
  /// False if the type does not hold the value.
  bool set(double value, int64_t n, int64_t i = 0, int64_t j = 0) {
    return encode(info.dtype, value, &memory->image[offset(n, i, j)]);
  }
  dlk_tensor view() const {
    return {
        memory->data(), Device::get().handle,   info.rank, dlk_dtype_data_type(info.dtype), shape,
        strides,        uint64_t(guard) * bytes};
  }

  dlk_arg_info info = {};
  std::unique_ptr<Memory> memory;

private:
  static constexpr int64_t guard = 128; ///< elements
  int64_t shape[DLK_MAX_RANK] = {};
  int64_t strides[DLK_MAX_RANK] = {};
  int64_t bytes = 0;
};

/// A test of one kernel.
class KernelTest : public ::testing::Test {
public:
  explicit KernelTest(const dlk_kernel *kernel) : kernel(kernel) {
    EXPECT_EQ(dlk_kernel_get_info(kernel, &info), DLK_OK) << dlk_last_error();
  }

protected:
  void allocate(int64_t batch) {
    inOrder.clear();
    arguments.clear();
    for (int32_t i = 0; i < info.num_args; ++i) {
      inOrder.push_back(std::make_unique<Argument>(kernel, i, batch));
      arguments[inOrder.back()->name()] = inOrder.back().get();
    }
  }

  void launch(dlk_status expected = DLK_OK) {
    dlk_plan *plan = nullptr;
    ASSERT_EQ(dlk_prepare(kernel, Device::get().handle, 0, &plan), DLK_OK) << dlk_last_error();
    std::vector<dlk_tensor> views;
    for (const auto &argument : inOrder) {
      argument->memory->upload();
      views.push_back(argument->view());
    }
    EXPECT_EQ(dlk_launch(plan, views.data(), int32_t(views.size()), nullptr, 0, nullptr), expected)
        << dlk_last_error();
    if (Device::get().driver)
      EXPECT_EQ(Device::get().driver->ctxSynchronize(), 0);
    dlk_plan_release(plan);
  }

  /// The whole memory of every argument: results where they belong, all else as it was.
  void expectImages() {
    for (const auto &argument : inOrder) {
      const std::vector<unsigned char> got = argument->memory->download();
      const std::vector<unsigned char> &want = argument->memory->image;
      if (got == want)
        continue;
      const auto at = std::mismatch(got.begin(), got.end(), want.begin()).first - got.begin();
      const auto start = int64_t(argument->offset(0, 0, 0));
      const auto pitch = int64_t(argument->offset(1, 0, 0)) - start;
      ADD_FAILURE() << argument->name() << " is not what was expected, from byte " << at
                    << " on, of row " << (at - start) / std::max<int64_t>(1, pitch);
    }
  }

  const dlk_kernel *kernel;
  dlk_kernel_info info = {};
  std::vector<std::unique_ptr<Argument>> inOrder;
  std::map<std::string, Argument *> arguments;
};

using MakeTest = std::function<::testing::Test *(const dlk_kernel *)>;

/// One test for each kernel that runs here, in a suite named like the package; a package without
/// any is an error.
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
                            [=]() -> ::testing::Test * { return make(kernel); });
  }
  if (count == 0)
    std::fprintf(stderr, "%s: no kernel runs on the device\n", path.c_str());
  return count != 0;
}

/// The program: all kernels of the packages it is given, on the device DL_TEST_DEVICE.
inline int runPackages(int argc, char **argv, const MakeTest &make) {
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

#endif // DL_TEST_INTEGRATION_TILEKERNELS_H
