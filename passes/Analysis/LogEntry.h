//===- LogEntry.h - What a log of a state's writes has to hold ------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Instead of writing a state after every token, a schedule can keep an old one, the base, and a log
// with one entry per token since. With L the sum of all log decays since the base, and its value
// L_i after the token of entry i,
//
//   S = e^L Base + sum over entries, and their writes w, of e^{L - L_i} a_w b_w^T
//
// where a_w and b_w have been through the decays of their own token that come after the write. An
// entry is what this sum needs of a token and cannot be had otherwise:
//
//   Key     a_w, K numbers
//   Value   b_w, V numbers
//   Factor  one number of a head that belongs to a_w b_w^T
//   Decay   what L_i is found from: nothing where there is no decay
//
// Inputs were rounded when they were stored, so a copy of one is exact in its own type. That makes
// a_w and b_w worth taking apart:
//
//  * what multiplies all of a vector, as the norm of a key does, comes out of it. What is left is
//    often an input. The numbers that came out, the write's `scale`, go into the Value where it
//    depends on the state, else into a Factor.
//  * a function of one input, element by element and with params, can be recomputed from it (a raw
//    gate, a feature map): half of what the result takes in f32.
//  * everything else is held as computed. A write with feedback is: its value is known after a pass
//    over the state only, and as later reads see it and correct it, its rounding feeds back.
//
// Which form a field gets is a matter of bytes: compiler/Schedule/Log.h prices them. Whether a log
// is legal at all is a matter of the step (StepAnalysis.h).
//
//===----------------------------------------------------------------------===//

#ifndef DL_PASSES_ANALYSIS_LOGENTRY_H
#define DL_PASSES_ANALYSIS_LOGENTRY_H

#include "passes/Analysis/StepAnalysis.h"

namespace dl::analysis {

/// One way to hold a field.
struct LogForm {
  enum class Kind {
    Input,     ///< a copy of `input`
    Recompute, ///< a copy of `input`, of which it is a function
    Computed,  ///< the numbers themselves, in the type chosen for the log
    Snapshot   ///< Decay: L_i, in f32
  };
  Kind kind = Kind::Computed;
  mlir::BlockArgument input; ///< Input, Recompute
  /// Whether the value heads of a key head share it.
  linattn::HeadGroup group = linattn::HeadGroup::ValueHead;
};

struct LogField {
  enum class What { Key, Value, Factor, Decay };
  What what = What::Key;
  linattn::Axis axis = linattn::Axis::Scalar; ///< never key_value
  /// Any of them will do. Raw gates give the log decay of a token, from which L_i is summed up.
  llvm::SmallVector<LogForm, 2> forms;
  /// Key, Value: a_w or b_w without what came out of it. Null for what depends on the state.
  mlir::Value vector;
  bool hasFeedback = false;              ///< Value: it depends on the state
  llvm::SmallVector<mlir::Value> decays; ///< Decay: the log decays that L is the sum of
};

/// How a write of a token is put together again: scale * key value^T. Where `scale` is not made of
/// params alone, it is in the field `factor` or in `value` as held.
struct LogWrite {
  static constexpr int kNone = -1; ///< no field: params alone set it
  int key = kNone, value = kNone, factor = kNone;
  bool isScaleInValue = false;
  Product scale;
  /// What is left of a_w and b_w without `scale`. Null where decays of the token, or the state,
  /// make it.
  mlir::Value keyVector, valueVector;
};

struct LogEntry {
  std::vector<LogField> fields;
  std::vector<LogWrite> writes;                  ///< as StepAnalysis::writes
  std::vector<llvm::SmallVector<int, 1>> decays; ///< of each state the fields L is found from

  /// Nothing if a log is not legal: StepAnalysis::whyNot says why.
  static std::optional<LogEntry> compute(const StepAnalysis &analysis);
};

/// Why a field is held in a form, in a few words.
std::string reasonFor(const LogEntry &entry, unsigned field, unsigned form);

} // namespace dl::analysis

#endif // DL_PASSES_ANALYSIS_LOGENTRY_H
