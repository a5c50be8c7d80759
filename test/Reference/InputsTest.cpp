//===- InputsTest.cpp - What the recurrences say to wrong shapes ----------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Reference/Additive.h"

#include <gtest/gtest.h>
#include <stdexcept>
#include <string>

using namespace dl::recurrence;

static GatedLinearAttention wellFormed() {
  GatedLinearAttention x;
  x.sizes = {1, 2, 1, 2, 4, 3};
  x.q = Tensor({1, 2, 1, 4});
  x.k = Tensor({1, 2, 1, 4});
  x.v = Tensor({1, 2, 2, 3});
  x.g = Tensor({1, 2, 2, 4});
  return x;
}

/// What `run` says, or "" if it accepts the inputs.
static std::string complaint(const GatedLinearAttention &x) {
  try {
    run(x);
  } catch (const std::invalid_argument &error) {
    return error.what();
  }
  return "";
}

TEST(Inputs, WellFormedInputsAreAccepted) { EXPECT_EQ(complaint(wellFormed()), ""); }

TEST(Inputs, AWrongShapeIsNamed) {
  GatedLinearAttention x = wellFormed();
  x.v = Tensor({1, 2, 1, 3});
  EXPECT_EQ(complaint(x), "v: expected shape [1, 2, 2, 3], got [1, 2, 1, 3]");
}

TEST(Inputs, AMissingTensorIsNamed) {
  GatedLinearAttention x = wellFormed();
  x.g = Tensor();
  EXPECT_EQ(complaint(x), "g: expected shape [1, 2, 2, 4], got no tensor");
}

TEST(Inputs, ATransposedStateIsRefused) {
  GatedLinearAttention x = wellFormed();
  x.S = Tensor({1, 2, 3, 4});
  EXPECT_EQ(complaint(x), "S0: expected shape [1, 2, 4, 3], got [1, 2, 3, 4]");
}

TEST(Inputs, ValueHeadsAreAMultipleOfKeyHeads) {
  GatedLinearAttention x = wellFormed();
  x.sizes.HQ = 3;
  EXPECT_EQ(complaint(x), "HV: expected a multiple of HQ = 3, got 2");
}

TEST(Inputs, SizesArePositive) {
  GatedLinearAttention x = wellFormed();
  x.sizes.T = 0;
  EXPECT_EQ(complaint(x), "T: expected at least 1, got 0");
}

TEST(Inputs, AccessIsChecked) {
  Tensor x({2, 3});
  EXPECT_THROW((x[{2, 0}]), std::out_of_range);
  EXPECT_THROW((x[{0}]), std::out_of_range);
  EXPECT_THROW((x[{0, -1}]), std::out_of_range);
  EXPECT_THROW((Tensor()[{}]), std::out_of_range);
  EXPECT_EQ(x.vector({1}).size(), 3u);
}
