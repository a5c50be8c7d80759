//===- Passes.h - Passes from a spec to its plain step --------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_PASSES_LINATTN_PASSES_H
#define DL_PASSES_LINATTN_PASSES_H

#include "dialects/LinAttn/IR/LinAttn.h"

#include "mlir/IR/PatternMatch.h"
#include "mlir/Pass/Pass.h"

namespace mlir::arith {
class ArithDialect;
} // namespace mlir::arith
namespace mlir::math {
class MathDialect;
} // namespace mlir::math

namespace dl::linattn {

#define GEN_PASS_DECL
#include "passes/LinAttn/Passes.h.inc"

/// The settings of one operator by name: a StringAttr, BoolAttr or F64 FloatAttr for each option it
/// declares. `pairs` are "NAME=VALUE"; what they leave out has its default. One diagnostic at the
/// operator if a pair is malformed, names no option or gives a value that is not allowed.
mlir::FailureOr<mlir::DictionaryAttr> parseSettings(OperatorOp op,
                                                    llvm::ArrayRef<std::string> pairs);

/// Patterns that write sigmoid, softplus and l2norm in arith and math.
void populateExpandPatterns(mlir::RewritePatternSet &patterns);
/// Patterns of linattn-hoist-scalars.
void populateHoistScalarsPatterns(mlir::RewritePatternSet &patterns);

#define GEN_PASS_REGISTRATION
#include "passes/LinAttn/Passes.h.inc"

} // namespace dl::linattn

#endif // DL_PASSES_LINATTN_PASSES_H
