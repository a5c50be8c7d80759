//===- Operators.h - Operators for the tests of the analysis --------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_UNIT_ANALYSIS_OPERATORS_H
#define DL_TEST_UNIT_ANALYSIS_OPERATORS_H

#include "passes/Analysis/StepAnalysis.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

namespace dl::test {

/// One operator, prepared and analysed, with what keeps it alive.
class Analysed {
public:
  /// A spec of the repository, e.g. "examples/gdn.mlir", with its options set to `settings`
  /// ("NAME=VALUE", comma separated). `hoisted`: as it is scheduled, behind linattn-hoist-scalars.
  static Analysed spec(llvm::StringRef path, llvm::StringRef settings = "", bool hoisted = false);
  /// An operator @op with the given signature and body. The types !key, !value, !per_head and
  /// !channel (a key vector of a value head) can be used in it.
  static Analysed text(llvm::StringRef signature, llvm::StringRef body);

  linattn::OperatorOp op() const { return *(*module).getOps<linattn::OperatorOp>().begin(); }
  const analysis::StepAnalysis &operator*() const { return *result; }
  const analysis::StepAnalysis *operator->() const { return &*result; }

private:
  static Analysed parse(llvm::StringRef source, llvm::StringRef settings, bool hoisted = false);

  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::optional<analysis::StepAnalysis> result;
};

/// Factors, products and forms as text, values by the names of their arguments or else the names of
/// their operations: "-1 b * mulf * read0 + v".
std::string text(const Analysed &analysed, const analysis::Product &product);
std::string text(const Analysed &analysed, const analysis::AffineForm &form);
/// A value by the name of its argument or of its operation.
std::string text(const Analysed &analysed, mlir::Value value);

} // namespace dl::test

#endif // DL_TEST_UNIT_ANALYSIS_OPERATORS_H
