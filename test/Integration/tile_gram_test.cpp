//===- tile_gram_test.cpp - Grams of compiled tile kernels are exact ------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   DL_TEST_DEVICE=cuda tile_gram_test PACKAGE.dlk...        (default device: cpu)
//
// Runs every kernel of the packages that the device supports: tile.gram of each x with a, both
// C x K in memory, for each row of B. Results, in the order of the x, are d and e: first C x C
// without `half`, then as many with half = 1, 2 .. as far as they divide C/2, each in a buffer full
// of one number that must stand where the op has no pair. Values are small integers, so sums are
// exact in any order; memory around and between the matrices is NaN.
//
//===----------------------------------------------------------------------===//

#include "test/Integration/TileKernels.h"

using namespace dl::test;

namespace {

constexpr float untouched = -12345; ///< as in the kernels

/// Element (i, k) of a factor in row n of B: -4 .. 4 without a pattern, so that no two rows or
/// columns are alike.
int64_t element(int64_t n, size_t factor, int64_t i, int64_t k) {
  uint64_t bits = uint64_t(((n * 4 + int64_t(factor)) * 1024 + i) * 1024 + k);
  bits = (bits ^ bits >> 15) * 0x9e3779b97f4a7c15;
  return int64_t(bits >> 40) % 9 - 4;
}
constexpr int64_t batch = 4;

class GramTest : public KernelTest {
public:
  using KernelTest::KernelTest;
  void TestBody() override;

private:
  void check(size_t x, Argument &result);

  std::vector<Argument *> factors; ///< the x, and a as the last
  std::vector<Argument *> results;
};

/// half = 0: without it.
bool isPair(int64_t half, int64_t i, int64_t j) {
  return half == 0 ? j <= i
                   : i / (2 * half) == j / (2 * half) && i / half % 2 == 1 && j / half % 2 == 0;
}

/// The whole memory of a result: sums where there are pairs, all else as it was.
void GramTest::check(size_t x, Argument &result) {
  const int64_t rows = factors.back()->rows(), depth = factors.back()->columns();
  const size_t last = factors.size() - 1;
  int faults = 0;
  std::vector<unsigned char> got = result.memory->download();
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < rows; ++j) {
        int64_t sum = 0;
        for (int64_t k = 0; k < depth; ++k)
          sum += element(n, x, i, k) * element(n, last, j, k);
        for (int64_t half = 0, first = 0; rows % std::max<int64_t>(1, 2 * half) == 0;
             half = half ? 2 * half : 1, first += rows) {
          unsigned char *place = &got[result.offset(n, first + i, j)];
          const float value = readFloat(place);
          const float wanted = isPair(half, i, j) ? float(sum) : untouched;
          const bool hasMeaning = half > 0 || j <= i;
          if (hasMeaning && value != wanted && faults++ < 10)
            ADD_FAILURE() << result.name() << "[" << n << "], half " << half << ": " << i << ", "
                          << j << " is " << value << ", expected " << wanted;
          std::fill_n(place, sizeof(float), guardByte);
        }
      }
  EXPECT_EQ(faults, 0) << "wrong elements of " << result.name();
  EXPECT_EQ(got, result.memory->image) << "written outside of " << result.name();
}

void GramTest::TestBody() {
  allocate(batch);
  for (const auto &argument : inOrder)
    (argument->info.dtype == DLK_F32 ? results : factors).push_back(argument.get());
  ASSERT_FALSE(factors.empty());
  ASSERT_TRUE(results.size() == 1 || results.size() == factors.size() - 1);
  for (size_t f = 0; f < factors.size(); ++f)
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t i = 0; i < factors[f]->rows(); ++i)
        for (int64_t k = 0; k < factors[f]->columns(); ++k)
          ASSERT_TRUE(factors[f]->set(double(element(n, f, i, k)), n, i, k));
  launch();
  if (HasFailure())
    return;
  for (size_t x = 0; x < results.size(); ++x)
    check(x, *results[x]);
  for (Argument *factor : factors)
    EXPECT_EQ(factor->memory->download(), factor->memory->image) << factor->name();
}

} // namespace

int main(int argc, char **argv) {
  return runPackages(argc, argv, [](const dlk_kernel *kernel) { return new GramTest(kernel); });
}
