//===- tile_copy_test.cpp - Copies of rows in compiled tile kernels -------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   DL_TEST_DEVICE=cuda tile_copy_test PACKAGE.dlk...        (default device: cpu)
//
// Runs every kernel of the packages that the device supports. `sum` adds up the first three of four
// rows of 128 numbers; kernels named fault... break the rules of copies, which the cpu target finds
// out. Numbers are small integers, so sums are exact.
//
//===----------------------------------------------------------------------===//

#include "test/Integration/TileKernels.h"

using namespace dl::test;

namespace {

constexpr int64_t batch = 5, numbers = 128;

float number(int64_t n, int64_t row, int64_t i) {
  return float((n * 11 + row * 37 + i * 5 + row * i) % 23 - 11);
}

class CopyTest : public KernelTest {
public:
  using KernelTest::KernelTest;
  void TestBody() override;
};

void CopyTest::TestBody() {
  allocate(batch);
  Argument &w = *arguments.at("w"), &o = *arguments.at("o");
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t row = 0; row < w.rows(); ++row)
      for (int64_t i = 0; i < numbers; ++i) {
        const float value = number(n, row, i);
        std::memcpy(&w.memory->image[w.offset(n, row, 4 * i)], &value, 4);
      }
  if (std::string(info.name).substr(0, 5) == "fault") {
    launch(DLK_DEVICE_ERROR);
    EXPECT_STREQ(dlk_last_error(), "cpu: the kernel returned error 1");
    return;
  }
  ASSERT_EQ(std::string(info.name), "sum");
  launch();
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t i = 0; i < numbers; ++i)
      o.set(number(n, 0, i) + number(n, 1, i) + number(n, 2, i), n, i);
  expectImages();
}

} // namespace

int main(int argc, char **argv) {
  return runPackages(argc, argv, [](const dlk_kernel *kernel) { return new CopyTest(kernel); });
}
