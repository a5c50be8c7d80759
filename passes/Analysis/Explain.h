//===- Explain.h - An operator as the formulas of a paper -----------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_PASSES_ANALYSIS_EXPLAIN_H
#define DL_PASSES_ANALYSIS_EXPLAIN_H

#include "passes/Analysis/LogEntry.h"

namespace dl::analysis {

/// What `dl-compile --explain` shows of an operator whose options are set and ops expanded: the
/// step as formulas, the class of its map, and which schedules are legal or why not. For instance
///
///   operator gated, token t of one value head
///     g1  = -softplus(a)                           log decay, one per head
///     r1  = (e^g1 S_{t-1})^T l2norm(k)             feedback read
///     u1  = sigmoid(b) * (v - r1)
///     S_t = e^g1 S_{t-1} + l2norm(k) u1^T
///     o_t = scale * S_t^T l2norm(q)
///     step of S: diagonal + rank 1
///     ...
///
/// Empty, after a diagnostic, if the operator is not prepared.
std::string explain(linattn::OperatorOp op);

/// The same for an analysis at hand.
std::string explain(const StepAnalysis &analysis);

/// The same, and what the fields of a log entry are called in it where they are not copies of
/// inputs.
struct Explanation {
  std::string text;
  std::vector<std::string> fields;
};
Explanation explain(const StepAnalysis &analysis, const LogEntry &entry);

} // namespace dl::analysis

#endif // DL_PASSES_ANALYSIS_EXPLAIN_H
