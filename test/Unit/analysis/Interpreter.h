//===- Interpreter.h - Runs an operator, and its normal form --------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Independent ways from the inputs of T tokens to outputs and final states, in fp64: the body of
// the operator token by token, and the formulas at the top of StepAnalysis.h, in which no state
// after the first is ever formed. Final states also follow from the log at the top of LogEntry.h.
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_UNIT_ANALYSIS_INTERPRETER_H
#define DL_TEST_UNIT_ANALYSIS_INTERPRETER_H

#include "passes/Analysis/LogEntry.h"
#include "test/Unit/analysis/Operators.h"

#include <array>

namespace dl::test {

constexpr int kKeys = 3, kValues = 2;

/// Any value of a body, or a state: K x V numbers. What does not lie along an axis repeats along
/// it, so that elementwise operations and broadcasts need no cases.
using Matrix = std::array<std::array<double, kValues>, kKeys>;

/// All values of the body for one token.
using Token = llvm::DenseMap<mlir::Value, Matrix>;

struct Run {
  std::vector<std::vector<Matrix>> outputs; ///< per token
  std::vector<Matrix> states;               ///< final
};

/// Runs `tokens` tokens on pseudo-random inputs, params and first states. `values`, if given, gets
/// all values of each token.
Run runOperator(linattn::OperatorOp op, int tokens, std::vector<Token> *values = nullptr);

/// The same from the normal form; `values` from runOperator supply what is token-local.
Run runNormalForm(const analysis::StepAnalysis &step, const std::vector<Token> &values);

/// The final states from the first ones and a log of all tokens.
std::vector<Matrix> runLog(const analysis::StepAnalysis &step, const analysis::LogEntry &entry,
                           const std::vector<Token> &values);

} // namespace dl::test

#endif // DL_TEST_UNIT_ANALYSIS_INTERPRETER_H
