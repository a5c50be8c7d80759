//===- Expression.h - Integer expressions over run-time sizes -------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Grids, shapes and derived scalars are small expressions over B, T, HQ, HV. They are kept in
// postfix form, evaluated in int64 with overflow checks and without allocation.
//
//===----------------------------------------------------------------------===//
#ifndef DL_RUNTIME_EXPRESSION_H
#define DL_RUNTIME_EXPRESSION_H

#include "dl/abi.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace dl::runtime {

/// Names of the run-time sizes of a package; a symbol is an index into it.
using SymbolNames = std::vector<std::string>;

/// Values of the symbols, by index; `bound` says which are known.
struct SymbolValues {
  int64_t value[DLK_MAX_SYMBOLS] = {};
  bool bound[DLK_MAX_SYMBOLS] = {};
};

class Expression {
public:
  enum class Op : uint8_t { Number, Symbol, Add, Sub, Mul, Div, CeilDiv, Mod, Min, Max };
  struct Node {
    Op op;
    int64_t value; // Number: the number; Symbol: its index.
  };

  Expression() = default;
  static Expression number(int64_t value) { return Expression({{Op::Number, value}}); }
  static Expression symbol(int64_t index) { return Expression({{Op::Symbol, index}}); }

  /// Reads `number | "symbol" | [op, e...]`. On failure returns false and says why in `error`.
  /// Ops: add mul min max (two or more operands), sub div ceildiv mod (two). div rounds down; mod
  /// has the divisor's sign.
  static bool parse(const nlohmann::json &json, const SymbolNames &symbols, Expression &result,
                    std::string &error);

  /// Evaluates. On failure (unbound symbol, overflow, division by zero) returns false; `reason` is
  /// a string literal.
  bool evaluate(const SymbolValues &symbols, int64_t &result, const char *&reason) const;

  bool isNumber() const { return nodes.size() == 1 && nodes[0].op == Op::Number; }
  bool isSymbol() const { return nodes.size() == 1 && nodes[0].op == Op::Symbol; }
  int64_t leaf() const { return nodes[0].value; }
  const std::vector<Node> &postfix() const { return nodes; }

  /// "B", "128", "(HV*2)", "ceildiv(V,32)".
  std::string str(const SymbolNames &symbols) const;

private:
  explicit Expression(std::vector<Node> nodes) : nodes(std::move(nodes)) {}
  static bool parseInto(const nlohmann::json &json, const SymbolNames &symbols, int depth,
                        std::vector<Node> &nodes, std::string &error);

  std::vector<Node> nodes;
};

} // namespace dl::runtime

#endif // DL_RUNTIME_EXPRESSION_H
