//===- GatesTest.cpp - Gates, write strengths and normalisation -----------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Reference/Gates.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>

using namespace dl::recurrence;

static const double infinity = std::numeric_limits<double>::infinity();
static const double logits[] = {-1e4, -100, -20, 0, 19.99, 20.01, 88, 89, 1e4};
static const double rates[] = {-6, 0, 2.77};

TEST(Softplus, IsTheIdentityAbove20) {
  EXPECT_EQ(softplus(20.0 + 1e-9), 20.0 + 1e-9);
  EXPECT_EQ(softplus(1e30), 1e30);
  EXPECT_DOUBLE_EQ(softplus(0.0), std::log(2.0));
  EXPECT_NEAR(softplus(20.0), 20.0, 2.1e-9);
  EXPECT_EQ(softplus(-1e4), 0.0);
}

TEST(SoftplusGate, ValueOfAStrongGate) {
  // exp(-6) * 100 nats: the example that tells exp(A_log) from A_log, and
  // softplus(100) from an overflow.
  double g = logDecay(Gate::Softplus, 100.0, -6.0, 0.0, 0.0);
  EXPECT_NEAR(g, -0.2478752, 5e-8);
  EXPECT_NEAR(std::exp(g), 0.7804573, 5e-8);
}

TEST(SoftplusGate, IsFiniteAndNeverPositive) {
  for (double a : logits) {
    for (double A_log : rates) {
      double g = logDecay(Gate::Softplus, a, A_log, 0.0, 0.0);
      EXPECT_TRUE(std::isfinite(g)) << a << ", " << A_log;
      EXPECT_LE(g, 0.0) << a << ", " << A_log;
    }
  }
}

TEST(SoftplusGate, AnInfinitelySlowRateDoesNotDecay) {
  EXPECT_EQ(std::exp(logDecay(Gate::Softplus, 1e30, -infinity, 0.0, 0.0)), 1.0);
}

TEST(BoundedGate, StaysInItsBounds) {
  for (double lowerBound : {-0.5, -3.0, -5.0}) {
    for (double a : logits) {
      for (double A_log : rates) {
        double g = logDecay(Gate::Bounded, a, A_log, 0.0, lowerBound);
        EXPECT_GE(g, lowerBound) << a << ", " << A_log;
        EXPECT_LE(g, 0.0) << a << ", " << A_log;
      }
    }
  }
}

TEST(BoundedGate, ReachesItsBounds) {
  EXPECT_EQ(logDecay(Gate::Bounded, 1e4, 0.0, 0.0, -5.0), -5.0);
  EXPECT_EQ(logDecay(Gate::Bounded, -1e4, 0.0, 0.0, -5.0), 0.0);
  EXPECT_DOUBLE_EQ(logDecay(Gate::Bounded, 1.0, 0.0, -1.0, -5.0), -2.5);
}

TEST(BoundedGate, TheRateScalesTheBiasedLogit) {
  EXPECT_DOUBLE_EQ(logDecay(Gate::Bounded, 0.75, std::log(2.0), 0.25, -1.0), -sigmoid(2.0));
}

TEST(PrecomputedGate, IgnoresRateAndBias) {
  EXPECT_EQ(logDecay(Gate::Precomputed, -1000.0, 3.0, 4.0, -5.0), -1000.0);
}

TEST(WriteStrength, LogitsReachTheEnds) {
  EXPECT_EQ(writeStrength(Beta::Logit, -1e4, 1.0), 0.0);
  EXPECT_EQ(writeStrength(Beta::Logit, 0.0, 1.0), 0.5);
  EXPECT_EQ(writeStrength(Beta::Logit, 1e4, 1.0), 1.0);
  EXPECT_EQ(writeStrength(Beta::Logit, 1e4, 2.0), 2.0);
  EXPECT_NEAR(writeStrength(Beta::Logit, 30.0, 2.0), 2.0, 1e-6);
}

TEST(WriteStrength, AValueIsTakenAsItIs) { EXPECT_EQ(writeStrength(Beta::Value, 1.37, 2.0), 1.37); }

TEST(L2Norm, TheEpsilonIsOnTheSum) {
  // |x|^2 = 9e-6, so |l2norm(x)|^2 = 9e-6 / (9e-6 + 1e-6).
  Vector x = l2norm({1e-3, 2e-3, 2e-3});
  EXPECT_NEAR(dot(x, x), 0.9, 1e-14);
}

TEST(L2Norm, ZeroAndTinyVectorsStaySmall) {
  Vector zero = l2norm(Vector(0.0, 4));
  EXPECT_EQ(dot(zero, zero), 0.0);
  Vector tiny = l2norm(Vector(1e-30, 4));
  EXPECT_NEAR(tiny[0], 1e-27, 1e-40);
}

TEST(L2Norm, LargeVectorsHaveUnitNorm) {
  Vector large = l2norm(Vector(300.0, 128));
  EXPECT_NEAR(dot(large, large), 1.0, 1e-12);
}
