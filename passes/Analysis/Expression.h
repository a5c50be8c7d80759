//===- Expression.h - Token-local values as formulas ----------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Values have no names in the IR, so what a person is shown is what they compute:
// "-exp(A_log) * softplus(a + dt_bias)". Expanded forms of sigmoid, softplus and l2norm are
// recognised, broadcasts are left out.
//
//===----------------------------------------------------------------------===//

#ifndef DL_PASSES_ANALYSIS_EXPRESSION_H
#define DL_PASSES_ANALYSIS_EXPRESSION_H

#include "passes/Analysis/StepAnalysis.h"

namespace dl::analysis {

/// A formula and the operation that binds loosest in it.
struct Formula {
  enum Binding { Sum, Product, Atom };
  std::string text;
  Binding binding = Atom;

  /// The text, in parentheses if it binds looser than its place.
  std::string in(Binding place) const { return binding < place ? "(" + text + ")" : text; }
};

/// A number as short as it can be: "2", "-0.5", "1e-06".
std::string formatConstant(double value);

class FormulaPrinter {
public:
  /// Arguments have their names.
  explicit FormulaPrinter(linattn::OperatorOp op);

  /// Gives a value a name by which it is shown from now on.
  void setName(mlir::Value value, std::string name) { names[value] = std::move(name); }
  bool isNamed(mlir::Value value) const { return names.contains(value); }
  /// From now on names of what a token has of its own end in "_t", or whatever stands for t.
  void setToken(llvm::StringRef t) { token = t.str(); }

  Formula print(mlir::Value value);
  Formula print(const Product &product);
  /// A read is shown by `reads[i]`. Factors common to all terms are taken out.
  Formula print(const AffineForm &form, llvm::ArrayRef<Formula> reads);

private:
  Formula printOp(mlir::Operation *op);
  std::optional<Formula> printKnown(mlir::Operation *op);
  Formula printFactor(const Factor &factor);
  Formula call(llvm::StringRef name, mlir::ValueRange operands);

  llvm::DenseMap<mlir::Value, std::string> names;
  llvm::DenseSet<mlir::Value> params; ///< which all tokens share
  std::string token;
  unsigned depth = 0, size = 0; ///< of the formula being printed
};

} // namespace dl::analysis

#endif // DL_PASSES_ANALYSIS_EXPRESSION_H
