//===- tile_rows_test.cpp - Rows of a log in compiled tile kernels --------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   DL_TEST_DEVICE=cuda tile_rows_test PACKAGE.dlk...        (default device: cpu)
//
// Runs every kernel of the packages that the device supports. A kernel named rowsL takes rings k, u
// and w of 16 places and looks at L rows of them from `start`, of which `count` are there:
//
//   t = s + (1 + 2 + 3) sum_i k_i u_i^T       in three steps
//   o = t^T q + sum_i (1 + w_i) u'_i          u': u with row `at` replaced by r
//
// Rows that are not there count as zero. All numbers are small integers, so sums are exact; places
// of the rings that no row takes and memory around the arrays are NaN: a stray read spoils the
// result, a stray write is found.
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

using namespace dl::test;

namespace {

constexpr int64_t ring = 16, keys = 96, columns = 40;

/// All ones is a NaN in every format.
constexpr unsigned char guardByte = 0xff;

/// An argument [B, ...] with guards before, between and after its parts.
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

  size_t offset(int64_t n, int64_t i, int64_t j) const {
    return size_t(guard + n * strides[0] + i * strides[1] + j * strides[2]) * bytes;
  }
  void set(int64_t value, int64_t n, int64_t i = 0, int64_t j = 0) {
    const float number = float(value);
    const int32_t integer = int32_t(value);
    unsigned char single[4];
    std::memcpy(single, info.dtype == DLK_I32 ? static_cast<const void *>(&integer) : &number, 4);
    // The upper half of an f32 is a bf16.
    std::copy_n(single + 4 - bytes, bytes, &memory->image[offset(n, i, j)]);
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

/// A row of B: which rows of the ring there are, and which one is replaced.
struct Case {
  int64_t start, count, at;
};

std::vector<Case> makeCases() {
  std::vector<Case> cases;
  for (int64_t start = 0; start < ring; ++start)
    for (int64_t count : {0, 1, 4, 5, 6, 11, 15, 16})
      cases.push_back({start, count, (start * 7 + count) % 18 - 1});
  return cases;
}

/// Small numbers that differ from their neighbours, both signs.
int64_t mixed(int64_t seed, int64_t n, int64_t i, int64_t j) {
  return (n * 5 + i * 37 + j * 101 + seed * 53 + i * j) % 9 - 4;
}

class RowsTest : public ::testing::Test {
public:
  RowsTest(const dlk_kernel *kernel) : kernel(kernel) {}
  void TestBody() override;

private:
  void allocate();
  void fill(int64_t n);
  void launch();
  void expect(int64_t n);
  void put(const char *name, int64_t value, int64_t n, int64_t i = 0, int64_t j = 0) {
    arguments.at(name)->set(value, n, i, j);
  }

  const dlk_kernel *kernel;
  dlk_kernel_info info = {};
  std::vector<Case> cases = makeCases();
  std::vector<std::unique_ptr<Argument>> inOrder;
  std::map<std::string, Argument *> arguments;
};

void RowsTest::allocate() {
  for (int32_t i = 0; i < info.num_args; ++i) {
    inOrder.push_back(std::make_unique<Argument>(kernel, i, int64_t(cases.size())));
    arguments[inOrder.back()->info.name] = inOrder.back().get();
  }
  for (const char *name : {"k", "u", "w", "q", "r", "s", "start", "count", "at", "t", "o"})
    ASSERT_TRUE(arguments.count(name)) << name;
}

void RowsTest::fill(int64_t n) {
  const Case &c = cases[n];
  put("start", c.start, n);
  put("count", c.count, n);
  put("at", c.at, n);
  for (int64_t i = 0; i < c.count; ++i) {
    const int64_t place = (c.start + i) % ring;
    put("w", mixed(1, n, i, 0), n, place);
    for (int64_t j = 0; j < keys; ++j)
      put("k", mixed(2, n, i, j), n, place, j);
    for (int64_t j = 0; j < columns; ++j)
      put("u", mixed(3, n, i, j), n, place, j);
  }
  for (int64_t i = 0; i < keys; ++i) {
    put("q", mixed(4, n, i, 0), n, i);
    for (int64_t j = 0; j < columns; ++j)
      put("s", mixed(5, n, i, j), n, i, j);
  }
  for (int64_t j = 0; j < columns; ++j)
    put("r", mixed(6, n, 0, j), n, j);
}

void RowsTest::launch() {
  dlk_plan *plan = nullptr;
  ASSERT_EQ(dlk_prepare(kernel, Device::get().handle, 0, &plan), DLK_OK) << dlk_last_error();
  std::vector<dlk_tensor> views;
  for (const auto &argument : inOrder) {
    argument->memory->upload();
    views.push_back(argument->view());
  }
  EXPECT_EQ(dlk_launch(plan, views.data(), int32_t(views.size()), nullptr, 0, nullptr), DLK_OK)
      << dlk_last_error();
  if (Device::get().driver)
    EXPECT_EQ(Device::get().driver->ctxSynchronize(), 0);
  dlk_plan_release(plan);
}

/// Puts the results into the images.
void RowsTest::expect(int64_t n) {
  const Case &c = cases[n];
  const int64_t looked = std::stoll(std::string(info.name).substr(4)); // rowsL
  const int64_t there = std::min(looked, c.count);
  for (int64_t j = 0; j < columns; ++j) {
    int64_t read = 0;
    for (int64_t k = 0; k < keys; ++k) {
      int64_t state = mixed(5, n, k, j);
      for (int64_t i = 0; i < there; ++i)
        state += 6 * mixed(2, n, i, k) * mixed(3, n, i, j);
      put("t", state, n, k, j);
      read += mixed(4, n, k, 0) * state;
    }
    for (int64_t i = 0; i < looked; ++i) {
      const int64_t entry = i == c.at ? mixed(6, n, 0, j) : i < there ? mixed(3, n, i, j) : 0;
      read += (1 + (i < there ? mixed(1, n, i, 0) : 0)) * entry;
    }
    put("o", read, n, j);
  }
}

void RowsTest::TestBody() {
  ASSERT_EQ(dlk_kernel_get_info(kernel, &info), DLK_OK) << dlk_last_error();
  ASSERT_EQ(std::string(info.name).substr(0, 4), "rows");
  allocate();
  if (HasFatalFailure())
    return;
  for (size_t n = 0; n < cases.size(); ++n)
    fill(int64_t(n));
  launch();
  if (HasFailure())
    return;
  for (size_t n = 0; n < cases.size(); ++n)
    expect(int64_t(n));
  // The whole memory of every argument: results where they belong, all else as it was.
  for (const auto &argument : inOrder) {
    const std::vector<unsigned char> got = argument->memory->download();
    const std::vector<unsigned char> &want = argument->memory->image;
    if (got != want) {
      const auto at = std::mismatch(got.begin(), got.end(), want.begin()).first - got.begin();
      ADD_FAILURE() << argument->info.name << " is not what was expected, from byte " << at
                    << " on, of row "
                    << (at - int64_t(argument->offset(0, 0, 0))) /
                           std::max<int64_t>(
                               1, int64_t(argument->offset(1, 0, 0) - argument->offset(0, 0, 0)));
    }
  }
}

/// One test for each kernel that runs here; a package without any is an error.
bool registerPackage(const std::string &path) {
  dlk_package *package = nullptr;
  if (dlk_package_open_file(path.c_str(), &package) != DLK_OK) {
    std::fprintf(stderr, "%s\n", dlk_last_error());
    return false;
  }
  // Open until the tests have run.
  static std::vector<std::unique_ptr<dlk_package, decltype(&dlk_package_close)>> packages;
  packages.emplace_back(package, dlk_package_close);
  int count = 0;
  for (int32_t i = 0; i < dlk_kernel_count(package); ++i) {
    const dlk_kernel *kernel = dlk_kernel_at(package, i);
    dlk_kernel_info info;
    if (dlk_kernel_get_info(kernel, &info) != DLK_OK ||
        dlk_supported(kernel, Device::get().handle, nullptr, 0, nullptr, 0) != DLK_OK)
      continue;
    ++count;
    const std::string name = std::string(info.name) + "/" + info.target;
    ::testing::RegisterTest("rows", name.c_str(), nullptr, nullptr, __FILE__, __LINE__,
                            [=]() -> ::testing::Test * { return new RowsTest(kernel); });
  }
  if (count == 0)
    std::fprintf(stderr, "%s: no kernel runs on the device\n", path.c_str());
  return count != 0;
}

} // namespace

int main(int argc, char **argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const char *device = std::getenv("DL_TEST_DEVICE");
  Device::get().open(device ? device : "cpu");
  if (::testing::Test::HasFailure())
    return 2;
  if (argc < 2) {
    std::fprintf(stderr, "expected packages to run: tile_rows_test PACKAGE.dlk...\n");
    return 2;
  }
  for (int i = 1; i < argc; ++i)
    if (!registerPackage(argv[i]))
      return 2;
  return RUN_ALL_TESTS();
}
