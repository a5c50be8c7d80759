//===- StepMapTest.cpp - Composing classes of maps ------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/LinAttn/IR/StepMap.h"

#include <gtest/gtest.h>

using namespace dl::linattn;

namespace {

const StepMap kIdentity, kScalar{StepClass::Scalar}, kDiagonal{StepClass::Diagonal},
    kRank1{StepClass::DiagonalPlusLowRank, 1}, kValues{StepClass::Identity, 0, true},
    kOther{StepClass::Other};
const StepMap kAll[] = {kIdentity, kScalar, kDiagonal, kRank1, kValues, kOther};

TEST(StepMap, LaterClassWins) {
  EXPECT_EQ(kIdentity.then(kIdentity), kIdentity);
  EXPECT_EQ(kScalar.then(kScalar), kScalar);
  EXPECT_EQ(kScalar.then(kDiagonal), kDiagonal);
  EXPECT_EQ(kDiagonal.then(kRank1), kRank1);
  EXPECT_EQ(kRank1.then(kScalar), kRank1);
}

TEST(StepMap, IdentityIsNeutralAndOtherAbsorbs) {
  for (const StepMap &map : kAll) {
    EXPECT_EQ(kIdentity.then(map), map);
    EXPECT_EQ(map.then(kIdentity), map);
    EXPECT_EQ(kOther.then(map), kOther);
    EXPECT_EQ(map.then(kOther), kOther);
  }
}

TEST(StepMap, Associates) {
  for (const StepMap &a : kAll)
    for (const StepMap &b : kAll)
      for (const StepMap &c : kAll)
        EXPECT_EQ(a.then(b).then(c), a.then(b.then(c)));
}

TEST(StepMap, RanksAddUp) {
  EXPECT_EQ(kRank1.then(kDiagonal).then(kRank1).rank, 2u);
  EXPECT_EQ(kDiagonal.then(kScalar).rank, 0u);
}

TEST(StepMap, ValueDecaysAllowNoLowRank) {
  EXPECT_EQ(kValues.then(kDiagonal), (StepMap{StepClass::Diagonal, 0, true}));
  EXPECT_EQ(kValues.then(kRank1), kOther);
  EXPECT_EQ(kRank1.then(kValues), kOther);
}

TEST(StepMap, Text) {
  EXPECT_EQ(kIdentity.text(), "identity");
  EXPECT_EQ(kRank1.then(kRank1).text(), "diagonal + rank 2");
  EXPECT_EQ(kScalar.then(kValues).text(), "scalar, diagonal on the value axis");
  EXPECT_EQ(kOther.text(), "other");
}

} // namespace
