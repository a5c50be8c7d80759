//===- Expression.cpp - Integer expressions over run-time sizes -----------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "Expression.h"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace dl::runtime;
using nlohmann::json;
using Op = Expression::Op;

namespace {
struct OpName {
  const char *name;
  const char *infix; // nullptr: printed as a call
  Op op;
  bool variadic;
};
} // namespace

static constexpr OpName opNames[] = {
    {"add", "+", Op::Add, true},     {"sub", "-", Op::Sub, false},
    {"mul", "*", Op::Mul, true},     {"div", "/", Op::Div, false},
    {"mod", "%", Op::Mod, false},    {"ceildiv", nullptr, Op::CeilDiv, false},
    {"min", nullptr, Op::Min, true}, {"max", nullptr, Op::Max, true},
};

static const OpName *findOp(const std::string &name) {
  for (const OpName &op : opNames)
    if (name == op.name)
      return &op;
  return nullptr;
}

static const OpName &nameOf(Op op) {
  return *std::find_if(std::begin(opNames), std::end(opNames),
                       [&](const OpName &name) { return name.op == op; });
}

// The recursion is bounded by `depth`, and with it the evaluation stack: an operand of an operation
// at depth d waits with at most one value per level below it.
static constexpr int maxDepth = 16;

bool Expression::parseInto(const json &json, const SymbolNames &symbols, int depth,
                           std::vector<Node> &nodes, std::string &error) {
  if (depth > maxDepth || nodes.size() >= DLK_MAX_EXPRESSION_NODES) {
    error = "expected an expression of at most " + std::to_string(DLK_MAX_EXPRESSION_NODES) +
            " nodes and " + std::to_string(maxDepth) + " levels";
    return false;
  }
  if (json.is_number_integer()) {
    if (json.is_number_unsigned() && json.get<uint64_t>() > uint64_t(INT64_MAX)) {
      error = "expected a number below 2^63";
      return false;
    }
    nodes.push_back({Op::Number, json.get<int64_t>()});
    return true;
  }
  if (json.is_string()) {
    const std::string &name = json.get_ref<const std::string &>();
    auto it = std::find(symbols.begin(), symbols.end(), name);
    if (it == symbols.end()) {
      error = "unknown symbol '" + name + "'";
      return false;
    }
    nodes.push_back({Op::Symbol, it - symbols.begin()});
    return true;
  }
  if (!json.is_array() || json.size() < 3 || !json[0].is_string()) {
    error = "expected a number, a symbol or [op, e, e...]";
    return false;
  }
  const std::string &name = json[0].get_ref<const std::string &>();
  const OpName *op = findOp(name);
  if (!op) {
    error = "unknown operation '" + name + "'";
    return false;
  }
  if (!op->variadic && json.size() != 3) {
    error = "expected two operands of '" + name + "', got " + std::to_string(json.size() - 1);
    return false;
  }
  for (size_t i = 1; i < json.size(); ++i) {
    if (!parseInto(json[i], symbols, depth + 1, nodes, error))
      return false;
    if (i > 1)
      nodes.push_back({op->op, 0});
  }
  return true;
}

bool Expression::parse(const json &json, const SymbolNames &symbols, Expression &result,
                       std::string &error) {
  result.nodes.clear();
  return parseInto(json, symbols, 0, result.nodes, error);
}

static int64_t floorDiv(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0));
}

/// Applies a binary operation. Returns nullptr, or why it has no result.
static const char *apply(Op op, int64_t a, int64_t b, int64_t &result) {
  constexpr const char *overflow = "the result exceeds 64 bits";
  switch (op) {
  case Op::Add:
    return __builtin_add_overflow(a, b, &result) ? overflow : nullptr;
  case Op::Sub:
    return __builtin_sub_overflow(a, b, &result) ? overflow : nullptr;
  case Op::Mul:
    return __builtin_mul_overflow(a, b, &result) ? overflow : nullptr;
  case Op::Min:
    result = std::min(a, b);
    return nullptr;
  case Op::Max:
    result = std::max(a, b);
    return nullptr;
  default:
    break;
  }
  if (b == 0)
    return "division by zero";
  if (a == INT64_MIN && b == -1)
    return overflow;
  int64_t quotient = floorDiv(a, b);
  int64_t remainder = a - quotient * b;
  result = op == Op::Mod ? remainder : quotient + (op == Op::CeilDiv && remainder != 0);
  return nullptr;
}

bool Expression::evaluate(const SymbolValues &symbols, int64_t &result, const char *&reason) const {
  int64_t stack[DLK_MAX_EXPRESSION_NODES];
  int top = 0;
  for (const Node &node : nodes) {
    if (node.op == Op::Number) {
      stack[top++] = node.value;
      continue;
    }
    if (node.op == Op::Symbol) {
      if (!symbols.bound[node.value]) {
        reason = "a size is not known";
        return false;
      }
      stack[top++] = symbols.value[node.value];
      continue;
    }
    --top;
    if ((reason = apply(node.op, stack[top - 1], stack[top], stack[top - 1])))
      return false;
  }
  if (top != 1) {
    reason = "empty expression";
    return false;
  }
  result = stack[0];
  return true;
}

std::string Expression::str(const SymbolNames &symbols) const {
  std::vector<std::string> stack;
  for (const Node &node : nodes) {
    if (node.op == Op::Number) {
      stack.push_back(std::to_string(node.value));
    } else if (node.op == Op::Symbol) {
      stack.push_back(symbols[node.value]);
    } else {
      std::string right = std::move(stack.back());
      stack.pop_back();
      std::string &left = stack.back();
      const OpName &name = nameOf(node.op);
      left = name.infix ? "(" + left + name.infix + right + ")"
                        : std::string(name.name) + "(" + left + "," + right + ")";
    }
  }
  return stack.empty() ? "" : stack.back();
}
