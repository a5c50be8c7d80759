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

#include "test/Integration/TileKernels.h"

using namespace dl::test;

namespace {

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

class ProductTest : public KernelTest {
public:
  using KernelTest::KernelTest;
  void TestBody() override;

private:
  Argument *find(const std::string &name) {
    auto found = arguments.find(name);
    return found == arguments.end() ? nullptr : found->second;
  }
  Argument *find(const std::string &name, const std::string &other) {
    Argument *found = find(name);
    return found ? found : find(other);
  }
  void allocateProducts(int64_t batch) {
    allocate(batch);
    a = find("a", "a_t"), b = find("b", "b_t"), c = find("c"), d = find("d");
  }
  void fill(int64_t n, Argument &argument, const Fill &value) {
    for (int64_t i = 0; i < argument.rows(); ++i)
      for (int64_t j = 0; j < argument.columns(); ++j)
        ASSERT_TRUE(argument.set(value(i, j), n, i, j))
            << argument.name() << " does not hold " << value(i, j);
  }
  std::vector<double> expected(const Case &product);
  void check(const std::vector<Case> &cases);

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
  for (const auto &argument : inOrder)
    if (argument.get() != d)
      EXPECT_EQ(argument->memory->download(), argument->memory->image) << argument->name();
}

void ProductTest::TestBody() {
  allocateProducts(1);
  ASSERT_TRUE(a && b && d) << "expected arguments a or a_t, b or b_t, and d";
  ASSERT_EQ(d->info.dtype, DLK_F32);
  const int64_t M = d->rows(), N = d->columns(), K = a->columns();
  ASSERT_EQ(a->rows(), M);
  ASSERT_EQ(b->rows(), K);
  ASSERT_EQ(b->columns(), N);
  // Factors of 32 bits are rounded to tf32, which has the mantissa of f16.
  const std::vector<Case> cases = makeCases(M, N, K, a->info.dtype == DLK_BF16 ? 8 : 11);
  allocateProducts(int64_t(cases.size()));
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

} // namespace

int main(int argc, char **argv) {
  return runPackages(argc, argv, [](const dlk_kernel *kernel) { return new ProductTest(kernel); });
}
