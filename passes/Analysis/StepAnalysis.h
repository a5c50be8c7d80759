//===- StepAnalysis.h - The affine normal form of one token's step --------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What every schedule knows about an operator. For one token, on the path of a state from its old
// to its new value lie decays and writes:
//
//   decay   S <- e^l o S
//   write   S <- S + a_w b_w^T,    b_w = d_w + sum_r gamma_{w,r} read_r
//
// and reads look at the state somewhere on that path:
//
//   read_r = S^T x_r,              outputs y = sum_r delta_r read_r + sum_j eps_j d_j
//
// A *feedback read* enters some b_w, an *output read* some y; one read can be both. n_f, the number
// of feedback reads per token, is the size of the triangular system that has to be solved: 0 means
// that writes do not depend on the state.
//
// Clocks. With G_t the sum of all log decays up to and including token t, an event on the path has
// the clock G_{t-1} plus the decays of its own token that lie before it. `clock` counts the latter:
// 0 is G_{t-1}, all of them G_t. Hence, with writes of this token that lie before the read
// included,
//
//   read(x) = (x e^{G_x})^T S_0 + sum over earlier writes [sum_c x_c a_c e^{G_x - G_a}] b.
//
// Branches. A read may look at a state that is not on the path: decayed or written to for the sake
// of this one read (the bonus of a current token can be specified so). The branch is folded away:
// the read is one of the state where the branch leaves the path, its decays become factors, and
// what its writes (a', b') add is the term (x . a') b'. `reads` and `writes` are on paths only.
//
// Schedules. What is not computed like this can only be done token by token. The conditions:
//
//   A1  every decay is along scalar, key or value, not per element;
//   A2  no decay along value on a state that takes part in feedback;
//   A3  no feedback read is multiplied by a number per value channel;
//   A4  the step is affine: reads meet token-local values in sums and products only, and neither a
//       decay nor a key vector depends on one.
//
// The chunkwise and the log schedule need them all, the recurrent schedule none. Kernels may not go
// as far as is legal: passes/LinAttnToTile/Served.h.
//
//===----------------------------------------------------------------------===//

#ifndef DL_PASSES_ANALYSIS_STEPANALYSIS_H
#define DL_PASSES_ANALYSIS_STEPANALYSIS_H

#include "dialects/LinAttn/IR/LinAttn.h"
#include "passes/Analysis/AffineForm.h"

#include <vector>

namespace dl::analysis {

/// A decay on the path of a state.
struct Decay {
  linattn::DecayOp op;
  mlir::Value logDecay; ///< l
  linattn::Axis axis = linattn::Axis::Scalar;
  /// The log decay is never below it, where the operator promises so.
  std::optional<double> bound;
  unsigned position = 0;    ///< among the events of the state
  bool isTokenLocal = true; ///< else it depends on the state, and A4 is broken
};

/// A write on the path of a state.
struct Write {
  linattn::WriteOp op;
  unsigned state = 0;
  unsigned position = 0; ///< among the events of the state
  unsigned clock = 0;    ///< decays of the state before it
  mlir::Value key;       ///< a_w
  AffineForm value;      ///< b_w
  bool isAffine = true;  ///< else `value` is empty, and A4 broken

  bool hasFeedback() const { return !value.isTokenLocal(); }
};

/// A read that an output or the new state depends on.
struct Read {
  linattn::ReadOp op;
  unsigned state = 0;
  unsigned position = 0; ///< it sees the events of the state before this one
  unsigned clock = 0;    ///< decays of the state before it
  mlir::Value key;       ///< x_r, to be multiplied by e^l for each of `keyDecays`
  llvm::SmallVector<linattn::DecayOp, 1> keyDecays; ///< along key, on its branch
  bool isFeedback = false;
  bool isOutput = false;
};

struct Output {
  AffineForm form;
  bool isAffine = true; ///< else `form` is empty, and A4 broken
};

/// What happens to one state.
struct State {
  /// The values of the state: `values[i]` after i events of the token, the last one its new value.
  llvm::SmallVector<mlir::Value> values;
  /// The path from the old to the new state, and what each event does to the class of the map.
  llvm::SmallVector<linattn::StepOpInterface> events;
  llvm::SmallVector<linattn::StepMap> eventMaps;
  /// Class of the map from old to new. Feedback from another state counts as a low rank: it is one
  /// of the map of all states together.
  linattn::StepMap map;
  llvm::SmallVector<Decay> decays;
  llvm::SmallVector<unsigned> writes; ///< numbers in StepAnalysis::writes, in order
  /// Other states whose reads enter writes of this one.
  llvm::SmallVector<unsigned> sources;

  /// Whether one of its decays has this axis.
  bool decaysAlong(linattn::Axis axis) const {
    return llvm::any_of(decays, [&](const Decay &d) { return d.axis == axis; });
  }
  /// A bound of the sum of its log decays of one token, if each has one.
  std::optional<double> totalBound() const;
};

enum class Schedule { Recurrent, Chunkwise, Log };

/// "recurrent", "chunkwise" or "log".
llvm::StringRef nameOf(Schedule schedule);

/// Why a schedule is not legal.
struct Refusal {
  llvm::StringRef condition;       ///< "A1" ... "A4"
  mlir::Operation *op = nullptr;   ///< breaks it
  std::string text;                ///< "expected ..., got ..."
  std::string change;              ///< what the author of the operator can do about it
  mlir::Operation *read = nullptr; ///< a read the text speaks of, or null
};

/// What is said beside every such change: no schedule but this one has conditions.
constexpr llvm::StringLiteral kWithoutChange =
    "or keep to --kernels=decode, which takes any step, and rows of any number of tokens";

/// The analysis. Values and operations in it are those of the operator, which must outlive it
/// unchanged.
struct StepAnalysis {
  linattn::OperatorOp op;
  std::vector<State> states;   ///< as the operator's
  std::vector<Read> reads;     ///< in program order
  std::vector<Write> writes;   ///< in program order
  std::vector<Output> outputs; ///< as the operator's
  /// Feedback reads in stacking order: a read depends on writes of its own token only if these
  /// depend on earlier reads, so the system is strictly lower triangular.
  llvm::SmallVector<unsigned> feedback;
  /// Everything that breaks A1 to A4.
  std::vector<Refusal> refusals;

  /// Fails, with a diagnostic at the op, unless options are set and ops expanded.
  static mlir::FailureOr<StepAnalysis> compute(linattn::OperatorOp op);

  /// n_f.
  unsigned numFeedbackReads() const { return feedback.size(); }
  /// Whether A4 holds: all forms are valid.
  bool isAffine() const;
  /// Whether a read sees what a write of the same token wrote.
  bool sees(const Read &read, const Write &write) const {
    return read.state == write.state && write.position < read.position;
  }

  bool isLegal(Schedule schedule) const { return whyNot(schedule).empty(); }
  llvm::ArrayRef<Refusal> whyNot(Schedule schedule) const;
  /// Emits an error for each refusal of one of the schedules and fails if there is one.
  mlir::LogicalResult require(llvm::ArrayRef<Schedule> schedules) const;

  /// Everything above as text, for tests and debugging.
  void print(llvm::raw_ostream &os) const;
};

} // namespace dl::analysis

#endif // DL_PASSES_ANALYSIS_STEPANALYSIS_H
