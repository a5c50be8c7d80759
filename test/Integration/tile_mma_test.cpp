//===- tile_mma_test.cpp - Products of compiled tile kernels are exact ----===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   DL_TEST_DEVICE=cuda tile_mma_test PACKAGE.dlk...        (default device: cpu)
//
// Runs every kernel of the packages that the device supports. A kernel computes d = a b (+ c) for
// each row of B; the names of its arguments say what lies in memory: a is M x K, a_t is K x M, b is
// K x N, b_t is N x K, c and d are M x N. All values are small integers that the formats hold, so
// sums are exact in any order and one wrong element, register or address shows. Memory around and
// between the matrices is NaN: a stray read spoils the result, a stray write is found.
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

using namespace dl::test;

namespace {

/// Writes an integer; false if the type does not hold it.
bool encode(dlk_dtype dtype, double value, void *to) {
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

float readFloat(const void *from) {
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

//===----------------------------------------------------------------------===//
// Cases
//===----------------------------------------------------------------------===//

using Fill = std::function<double(int64_t, int64_t)>;

/// One product: what the factors hold. Each row of B is one case.
struct Case {
  std::string name;
  Fill a, b, c;
};

/// 1 on a diagonal that starts at (row, column).
Fill identity(int64_t row, int64_t column) {
  return [=](int64_t i, int64_t j) { return i - row == j - column ? 1 : 0; };
}

/// 128 i + j, cut to what `bits` significant bits hold.
Fill indices(int bits) {
  const int64_t rows = (int64_t(1) << bits) / 128;
  return [=](int64_t i, int64_t j) { return 128 * (i % rows) + j % 128; };
}

/// Small numbers that differ from their neighbours, both signs.
Fill mixed(int64_t seed) {
  return [=](int64_t i, int64_t j) { return (i * 37 + j * 101 + seed * 53 + i * j) % 9 - 4; };
}

std::vector<Case> makeCases(int64_t M, int64_t N, int64_t K, int bits) {
  const Fill zero = [](int64_t, int64_t) { return 0; };
  const Fill index = [](int64_t i, int64_t j) { return 128 * i + j; };
  const std::pair<const char *, Fill> numbers[] = {{"row", [](int64_t i, int64_t) { return i; }},
                                                   {"column", [](int64_t, int64_t j) { return j; }},
                                                   {"128 row + column", indices(bits)}};
  std::vector<Case> cases;
  for (const auto &[name, fill] : numbers) {
    // Where K is larger than the result, each part of it gets its turn.
    for (int64_t k = 0; k < K; k += N)
      cases.push_back({std::string(name) + " x identity at " + std::to_string(k), fill,
                       identity(k, 0), k % 2 ? index : zero});
    for (int64_t k = 0; k < K; k += M)
      cases.push_back({"identity at " + std::to_string(k) + " x " + name, identity(0, k), fill,
                       k % 2 ? zero : index});
  }
  cases.push_back({"mixed x mixed", mixed(1), mixed(2), zero});
  cases.push_back({"mixed x mixed + index", mixed(3), mixed(4), index});
  return cases;
}

//===----------------------------------------------------------------------===//
// The test
//===----------------------------------------------------------------------===//

class ProductTest : public ::testing::Test {
public:
  ProductTest(const dlk_kernel *kernel) : kernel(kernel) {}
  void TestBody() override;

private:
  Argument *find(const std::string &name) {
    for (Argument &argument : arguments)
      if (argument.name() == name)
        return &argument;
    return nullptr;
  }
  Argument *find(const std::string &name, const std::string &other) {
    Argument *found = find(name);
    return found ? found : find(other);
  }
  void allocate(int64_t batch) {
    arguments.clear();
    for (int32_t i = 0; i < info.num_args; ++i)
      arguments.emplace_back(kernel, i, batch);
    a = find("a", "a_t"), b = find("b", "b_t"), c = find("c"), d = find("d");
  }
  void fill(int64_t n, Argument &argument, const Fill &value) {
    for (int64_t i = 0; i < argument.rows(); ++i)
      for (int64_t j = 0; j < argument.columns(); ++j)
        ASSERT_TRUE(argument.set(n, i, j, value(i, j)))
            << argument.name() << " does not hold " << value(i, j);
  }
  std::vector<double> expected(const Case &product);
  void launch();
  void check(const std::vector<Case> &cases);

  const dlk_kernel *kernel;
  dlk_kernel_info info = {};
  std::vector<Argument> arguments;
  Argument *a = nullptr, *b = nullptr, *c = nullptr, *d = nullptr;
};

/// The result, row by row.
std::vector<double> ProductTest::expected(const Case &product) {
  const int64_t M = d->rows(), N = d->columns(), K = a->columns();
  std::vector<double> result, row(N);
  for (int64_t i = 0; i < M; ++i) {
    for (int64_t j = 0; j < N; ++j)
      row[j] = c ? product.c(i, j) : 0;
    for (int64_t k = 0; k < K; ++k)
      if (const double factor = product.a(i, k))
        for (int64_t j = 0; j < N; ++j)
          row[j] += factor * product.b(k, j);
    result.insert(result.end(), row.begin(), row.end());
  }
  return result;
}

void ProductTest::launch() {
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

/// The whole memory of every argument: results where they belong, all else as it was.
void ProductTest::check(const std::vector<Case> &cases) {
  int faults = 0;
  std::vector<unsigned char> result = d->memory->download();
  for (size_t n = 0; n < cases.size(); ++n) {
    const std::vector<double> want = expected(cases[n]);
    for (int64_t i = 0; i < d->rows(); ++i)
      for (int64_t j = 0; j < d->columns(); ++j) {
        unsigned char *place = &result[d->offset(int64_t(n), i, j)];
        const double got = readFloat(place), wanted = want[i * d->columns() + j];
        if (got != wanted && faults++ < 10)
          ADD_FAILURE() << cases[n].name << ": d[" << i << "][" << j << "] is " << got
                        << ", expected " << wanted;
        std::fill_n(place, sizeof(float), guardByte);
      }
  }
  EXPECT_EQ(faults, 0) << "wrong elements";
  EXPECT_EQ(result, d->memory->image) << "written outside the result";
  for (Argument &argument : arguments)
    if (&argument != d)
      EXPECT_EQ(argument.memory->download(), argument.memory->image) << argument.name();
}

void ProductTest::TestBody() {
  ASSERT_EQ(dlk_kernel_get_info(kernel, &info), DLK_OK) << dlk_last_error();
  allocate(1);
  ASSERT_TRUE(a && b && d) << "expected arguments a or a_t, b or b_t, and d";
  ASSERT_EQ(d->info.dtype, DLK_F32);
  const int64_t M = d->rows(), N = d->columns(), K = a->columns();
  ASSERT_EQ(a->rows(), M);
  ASSERT_EQ(b->rows(), K);
  ASSERT_EQ(b->columns(), N);
  // Factors of 32 bits are rounded to tf32, which has the mantissa of f16.
  const std::vector<Case> cases = makeCases(M, N, K, a->info.dtype == DLK_BF16 ? 8 : 11);
  allocate(int64_t(cases.size()));
  for (size_t n = 0; n < cases.size(); ++n) {
    fill(int64_t(n), *a, cases[n].a);
    fill(int64_t(n), *b, cases[n].b);
    if (c)
      fill(int64_t(n), *c, cases[n].c);
  }
  if (!HasFailure())
    launch();
  if (!HasFailure())
    check(cases);
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
                            [=]() -> ::testing::Test * { return new ProductTest(kernel); });
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
    std::fprintf(stderr, "expected packages to run: tile_mma_test PACKAGE.dlk...\n");
    return 2;
  }
  for (int i = 1; i < argc; ++i)
    if (!registerPackage(argv[i]))
      return 2;
  return RUN_ALL_TESTS();
}
