//===- ExpressionTest.cpp - Integer expressions over run-time sizes -------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Expression.h"
#include "Target.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace dl::runtime;

namespace {

const SymbolNames symbols = {"B", "HV"};

/// The value of an expression with B = 7 and HV = 3, or the error.
std::string evaluate(const char *text) {
  Expression expression;
  std::string error;
  if (!Expression::parse(nlohmann::json::parse(text), symbols, expression, error))
    return error;
  SymbolValues values;
  values.value[0] = 7;
  values.value[1] = 3;
  values.bound[0] = values.bound[1] = true;
  int64_t result = 0;
  const char *reason;
  return expression.evaluate(values, result, reason) ? std::to_string(result) : reason;
}

TEST(Expression, Evaluates) {
  EXPECT_EQ(evaluate("5"), "5");
  EXPECT_EQ(evaluate(R"("B")"), "7");
  EXPECT_EQ(evaluate(R"(["add", "B", "HV", 1])"), "11");
  EXPECT_EQ(evaluate(R"(["sub", "HV", "B"])"), "-4");
  EXPECT_EQ(evaluate(R"(["mul", "B", ["add", "HV", 1]])"), "28");
  EXPECT_EQ(evaluate(R"(["div", "B", "HV"])"), "2");
  EXPECT_EQ(evaluate(R"(["div", ["sub", 0, "B"], "HV"])"), "-3");
  EXPECT_EQ(evaluate(R"(["ceildiv", "B", "HV"])"), "3");
  EXPECT_EQ(evaluate(R"(["ceildiv", 6, "HV"])"), "2");
  EXPECT_EQ(evaluate(R"(["mod", "B", "HV"])"), "1");
  EXPECT_EQ(evaluate(R"(["mod", ["sub", 0, "B"], "HV"])"), "2");
  EXPECT_EQ(evaluate(R"(["min", "B", "HV", 5])"), "3");
  EXPECT_EQ(evaluate(R"(["max", "B", "HV", 5])"), "7");
}

TEST(Expression, ChecksOverflowAndZero) {
  EXPECT_EQ(evaluate(R"(["mul", 9223372036854775807, 2])"), "the result exceeds 64 bits");
  EXPECT_EQ(evaluate(R"(["add", 9223372036854775807, 1])"), "the result exceeds 64 bits");
  EXPECT_EQ(evaluate(R"(["div", -9223372036854775808, -1])"), "the result exceeds 64 bits");
  EXPECT_EQ(evaluate(R"(["div", "B", 0])"), "division by zero");
  EXPECT_EQ(evaluate(R"(["mod", "B", ["sub", "HV", 3]])"), "division by zero");
  EXPECT_EQ(evaluate("9223372036854775808"), "expected a number below 2^63");
}

TEST(Expression, RefusesMalformedInput) {
  EXPECT_EQ(evaluate(R"("C")"), "unknown symbol 'C'");
  EXPECT_EQ(evaluate(R"(["pow", 2, 3])"), "unknown operation 'pow'");
  EXPECT_EQ(evaluate(R"(["sub", 3, 2, 1])"), "expected two operands of 'sub', got 3");
  for (const char *text : {"1.5", "null", "{}", "[]", R"(["add", 1])", "[1, 2, 3]"})
    EXPECT_EQ(evaluate(text), "expected a number, a symbol or [op, e, e...]") << text;
  std::string deep = "1";
  for (int i = 0; i < 100; ++i)
    deep = "[\"add\", 1, " + deep + "]";
  EXPECT_EQ(evaluate(deep.c_str()), "expected an expression of at most 64 nodes and 16 levels");
}

TEST(Expression, UnboundSymbol) {
  Expression expression = Expression::symbol(1);
  SymbolValues values;
  int64_t result = 0;
  const char *reason;
  EXPECT_FALSE(expression.evaluate(values, result, reason));
  EXPECT_STREQ(reason, "a size is not known");
}

TEST(Expression, Prints) {
  Expression expression;
  std::string error;
  auto json = nlohmann::json::parse(R"(["ceildiv", ["mul", "B", "HV", 2], ["sub", "B", 1]])");
  ASSERT_TRUE(Expression::parse(json, symbols, expression, error));
  EXPECT_EQ(expression.str(symbols), "ceildiv(((B*HV)*2),(B-1))");
}

/// Rank of a target on a chip, 0 if it does not parse.
int rank(const char *text, dlk_format format, int capability) {
  CudaTarget target;
  return parseCudaTarget(text, target) ? rankCudaTarget(target, format, capability) : 0;
}

TEST(Target, RunsWhereItMay) {
  EXPECT_TRUE(rank("sm_90a", DLK_FORMAT_CUBIN, 90));
  EXPECT_FALSE(rank("sm_90a", DLK_FORMAT_CUBIN, 100));
  EXPECT_FALSE(rank("sm_90a", DLK_FORMAT_PTX, 100));
  EXPECT_TRUE(rank("sm_80", DLK_FORMAT_CUBIN, 86));
  EXPECT_FALSE(rank("sm_86", DLK_FORMAT_CUBIN, 80));
  EXPECT_FALSE(rank("sm_80", DLK_FORMAT_CUBIN, 90));
  EXPECT_TRUE(rank("sm_80", DLK_FORMAT_PTX, 120));
  EXPECT_TRUE(rank("sm_100f", DLK_FORMAT_CUBIN, 103));
  EXPECT_FALSE(rank("sm_100f", DLK_FORMAT_PTX, 120));
  for (const char *text : {"cpu", "sm_", "sm_9", "sm_90b", "sm_90aa", "sm_99999", "sm90"})
    EXPECT_FALSE(rank(text, DLK_FORMAT_PTX, 120)) << text;
}

TEST(Target, ExactBeatsFamilyBeatsPtx) {
  int exact = rank("sm_90", DLK_FORMAT_CUBIN, 90), special = rank("sm_90a", DLK_FORMAT_CUBIN, 90);
  int ptx = rank("sm_90a", DLK_FORMAT_PTX, 90), oldPtx = rank("sm_80", DLK_FORMAT_PTX, 90);
  EXPECT_GT(special, exact);
  EXPECT_GT(exact, ptx);
  EXPECT_GT(ptx, oldPtx);
  EXPECT_GT(rank("sm_103a", DLK_FORMAT_CUBIN, 103), rank("sm_100f", DLK_FORMAT_CUBIN, 103));
  EXPECT_GT(rank("sm_100f", DLK_FORMAT_CUBIN, 103), rank("sm_103", DLK_FORMAT_PTX, 103));
  EXPECT_GT(rank("sm_86", DLK_FORMAT_CUBIN, 89), rank("sm_80", DLK_FORMAT_CUBIN, 89));
}

} // namespace
