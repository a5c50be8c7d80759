//===- Equations.h - What the schedules of a step compute -----------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The normal form of one token (StepAnalysis.h), carried on to many tokens. With a clock G_t, the
// sum of log decays up to token t of a chunk, and S_0 the state before it, a read at clock G_x of
// token t and a write at clock G_a of token i meet in a Gram
//
//   N[t,i] = x_t^T diag(e^(G_x - G_a)) a_i    for i < t, also i = t where the read comes after
//
// so that reads are R = Kin S_0 + N U. Values U that depend on reads make a unit lower triangular
// system. Names are those of the step's own lines; nothing is known of the operator but its form.
//
//===----------------------------------------------------------------------===//

#ifndef DL_PASSES_ANALYSIS_EQUATIONS_H
#define DL_PASSES_ANALYSIS_EQUATIONS_H

#include "passes/Analysis/Explain.h"
#include "passes/Analysis/Expression.h"

#include "llvm/ADT/StringSet.h"

namespace dl::analysis {

/// How the values of a step are called in the lines that explain it.
struct StepNames {
  FormulaPrinter formulas;
  llvm::SmallVector<std::string> reads;   ///< empty: shown where it is used
  llvm::SmallVector<std::string> written; ///< of each write; empty: a formula of few characters
  llvm::StringSet<> taken;
};

/// Equations of a legal schedule. Those of the recurrent one say how a token's reads are made of
/// one pass over the state; none where the step has no affine form.
ScheduleText equationsOf(Schedule schedule, const StepAnalysis &analysis, const StepNames &names);

} // namespace dl::analysis

#endif // DL_PASSES_ANALYSIS_EQUATIONS_H
