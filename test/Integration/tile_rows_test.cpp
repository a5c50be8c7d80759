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

#include "test/Integration/TileKernels.h"

using namespace dl::test;

namespace {

constexpr int64_t ring = 16, keys = 96, columns = 40;

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

class RowsTest : public KernelTest {
public:
  using KernelTest::KernelTest;
  void TestBody() override;

private:
  void fill(int64_t n);
  void expect(int64_t n);
  void put(const char *name, int64_t value, int64_t n, int64_t i = 0, int64_t j = 0) {
    arguments.at(name)->set(double(value), n, i, j);
  }

  std::vector<Case> cases = makeCases();
};

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
  ASSERT_EQ(std::string(info.name).substr(0, 4), "rows");
  allocate(int64_t(cases.size()));
  for (const char *name : {"k", "u", "w", "q", "r", "s", "start", "count", "at", "t", "o"})
    ASSERT_TRUE(arguments.count(name)) << name;
  for (size_t n = 0; n < cases.size(); ++n)
    fill(int64_t(n));
  launch();
  if (HasFailure())
    return;
  for (size_t n = 0; n < cases.size(); ++n)
    expect(int64_t(n));
  expectImages();
}

} // namespace

int main(int argc, char **argv) {
  return runPackages(argc, argv, [](const dlk_kernel *kernel) { return new RowsTest(kernel); });
}
