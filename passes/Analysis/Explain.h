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

/// A line `name = formula   [note]`; without a formula `name   [note]`.
struct Equation {
  std::string name, formula, note;
  bool isSentence = false; ///< then `name` is a label, and no equals sign behind it

  bool operator==(const Equation &other) const {
    return name == other.name && formula == other.formula && note == other.note;
  }
};

/// Equations one below the other, with the equals signs and the notes in columns.
void printEquations(llvm::ArrayRef<Equation> lines, unsigned indent, llvm::raw_ostream &os);

/// A schedule that is legal, and what it computes.
struct ScheduleText {
  Schedule schedule = Schedule::Recurrent;
  std::string title; ///< says what the names mean that the step's lines do not have
  std::vector<Equation> lines;
};

/// What `dl-compile --explain` shows of an operator whose options are set and ops expanded: the
/// step as formulas, the class of its map, which schedules are legal or why not, and what each
/// computes. For instance
///
///   operator gated, token t of one value head
///     g1  = -softplus(a)                           log decay, one per head
///     r1  = (e^g1 S_{t-1})^T l2norm(k)             feedback read
///     u1  = sigmoid(b) * (v - r1)
///     S_t = e^g1 S_{t-1} + l2norm(k) u1^T
///     o_t = scale * S_t^T l2norm(q)
///     step of S: scalar + rank 1
///     schedules: recurrent, chunkwise, log
///   ...
///   chunkwise (prefill): C tokens after S_0 at once; ...
///     G_t        = sum over i <= t of g1_i                    [one per head]
///     N[t,i]     = e^(G_t - G_i) l2norm(k_t)^T l2norm(k_i)   [i < t, else 0: what r1 sees of u1]
///     ...
///     A          = sigmoid(b) * N
///     (I + A) U1 = sigmoid(b) * (V - Kin S_0)                 [unit lower triangular, C rows]
///     ...
///
/// Empty, after a diagnostic, if the operator is not prepared.
std::string explain(linattn::OperatorOp op);

/// The same for an analysis at hand.
std::string explain(const StepAnalysis &analysis);

/// The parts of it.
struct Explanation {
  std::string title;
  std::vector<Equation> step;
  std::string classes; ///< of the maps, feedback reads, schedules that are legal and why others not
  std::vector<ScheduleText> schedules; ///< the legal ones
  /// What the fields of a log entry are called where they are not copies of inputs.
  std::vector<std::string> fields;

  std::string text() const;
};
/// `entry`: may be null.
Explanation explain(const StepAnalysis &analysis, const LogEntry *entry);

/// "'linattn.decay' at line 15".
std::string describe(mlir::Operation *op);

} // namespace dl::analysis

#endif // DL_PASSES_ANALYSIS_EXPLAIN_H
