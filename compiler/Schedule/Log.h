//===- Log.h - What a log of a state's writes costs ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Decode is bound by memory. A dense step reads and writes the whole state; with a log it reads the
// state, reads the entries so far and adds its own. Every W entries a merge brings the state up to
// date, which costs one write, its read being that of a step. Per value head, with S bytes of
// state, e of an entry and W entries between merges:
//
//   dense       2 S                                + io
//   append      S + e L + e                        + io     L entries are in the log
//   amortised   S + e (W - 1)/2 + e + S/W          + io     least at W = sqrt(2 S / e)
//
// What an entry holds is found by the analysis of an operator: fields, each of which may be held in
// one of several forms. Here they are priced, and the cheapest is chosen. All bytes are per value
// head: what the value heads of a key head share counts for each with its part.
//
//===----------------------------------------------------------------------===//
#ifndef COMPILER_SCHEDULE_LOG_H
#define COMPILER_SCHEDULE_LOG_H

#include "compiler/Schedule/Recurrent.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"
#include <cstdint>

namespace dl::schedule {

/// How numbers that were computed, rather than copied from inputs, are held in a log.
enum class LogType {
  F32,
  HiLo, ///< the sum of two bf16: as large as f32, and operands of a tensor core as they are
  BF16
};

/// Bytes of a number.
int64_t bytesOf(LogType type);

/// How many numbers of a head a field has: one, K or V.
enum class LogAxis { Head, Key, Value };

/// One way to hold a field.
struct LogForm {
  int64_t elementBytes = 0; ///< of a number; 0: in the log's type
  bool isShared = false;    ///< held once for all value heads of a key head
  bool isServed = true;     ///< kernels can hold it so; what they cannot is not chosen
};

/// Part of an entry. Of its forms the cheapest is chosen, the first best where prices are equal.
struct LogField {
  LogAxis axis = LogAxis::Head;
  llvm::SmallVector<LogForm, 2> forms;
};

/// Bytes of one step per value head, as derived above.
struct LogTraffic {
  double state = 0; ///< S, of all states together
  double entry = 0; ///< e
  double io = 0;    ///< inputs and outputs of a token

  double dense() const { return 2 * state + io; }
  /// `tokens` new ones, with the state after each written for itself: how drafts are verified
  /// without a log.
  double snapshots(int64_t tokens) const {
    return state + static_cast<double>(tokens) * (state + io);
  }
  /// `tokens` new ones on top of `length` entries.
  double append(double length, int64_t tokens = 1) const {
    return state + entry * length + static_cast<double>(tokens) * (entry + io);
  }
  /// The mean over many steps of `tokens` new ones, of which `accepted` stay on average, where a
  /// row whose log holds `window` entries or more is merged.
  double amortised(double window, int64_t tokens = 1, double accepted = 1) const;
  /// The entries between merges at which `amortised` is least if `accepted` stay of each step.
  double bestWindow(double accepted = 1) const;
};

/// Entries in the log when a step begins, on average. A merge takes the token of its own step along
/// if that is sure to stay, so there are 0 to `window - 1`. Drafts come behind the merge: of
/// `accepted` kept each time, there are as many at least, and `window` or a little more at most.
double meanLogLength(double window, int64_t tokens = 1, double accepted = 1);

/// Entries a ring must hold so that new ones never take the place of those being merged.
int64_t ringCapacity(int64_t window, int64_t maxTokens);

struct LogProblem {
  int64_t keyDim = 0, valueDim = 0;
  int64_t states = 1;
  int64_t stateBytes = 4;      ///< of an element of the states in memory
  int64_t headRatio = 1;       ///< value heads per key head
  int64_t maxTokens = 1;       ///< new ones in one step, at most
  int64_t window = 0;          ///< entries between merges; 0: the model decides
  LogType type = LogType::F32; ///< of what is computed
  double ioBytes = 0;          ///< inputs and outputs of a token, per value head
  double sharedIoBytes = 0;    ///< those per key head
  llvm::SmallVector<LogField> fields;
};

struct LogPlan {
  llvm::SmallVector<unsigned> forms;     ///< of each field the one chosen
  llvm::SmallVector<double> fieldBytes;  ///< of each field
  double headBytes = 0, sharedBytes = 0; ///< an entry is headBytes + sharedBytes HQ/HV
  LogTraffic traffic;
  int64_t window = 0; ///< W
  int64_t ring = 0;   ///< R, entries of a slot

  double slotBytes() const { return static_cast<double>(ring) * traffic.entry; }
  /// How many times less than dense a step moves in the long run; below 1 a log does not pay.
  double gain() const { return traffic.dense() / traffic.amortised(static_cast<double>(window)); }
};

/// The plan of a kernel of the log. With K contiguous, blocks take twice the usual columns: what
/// they do with the entries' keys, they do once for more of V. (On an H200, GDN, f32 states of 128
/// x 128, 256 rows of 32 heads: 64 columns .148 / .170 / .181 ms with 0 / 7 / 15 entries, 32
/// columns .178 / .213 / .223.) Sums along K are those of planRecurrent.
llvm::Expected<RecurrentPlan> planLogKernel(const RecurrentProblem &problem,
                                            const RecurrentOverrides &overrides = {});

/// How a block holds the entries of a log beside its tile of the state.
struct LogTiles {
  layout::BlockedParams keys; ///< entries x K; rows go to warps first, then lanes share K
  layout::BlockedParams
      values; ///< entries x value tile: V as the state has it, rows where it has K
};
LogTiles logTiles(const RecurrentPlan &plan, int64_t keyDim, int64_t entries);

/// Longer windows save little, and every step works through the whole log: 16 entries are one step
/// of a tensor core.
constexpr int64_t kMaxProposedWindow = 16;
/// The longest window that kernels are made for: far beyond any that saves traffic, and small
/// enough for sums of ring positions in 32 bits.
constexpr int64_t kMaxWindow = 1024;
/// The longest row of a step: one token and the drafts behind it.
constexpr int64_t kMaxStepTokens = 16;

/// The plan for a problem, or one line that says which number cannot be served.
llvm::Expected<LogPlan> planLog(const LogProblem &problem);

/// Milliseconds that memory of `gigabytesPerSecond` takes at least for `bytes` of each of `heads`.
double floorMilliseconds(double bytes, int64_t heads, int64_t gigabytesPerSecond);

} // namespace dl::schedule

#endif // COMPILER_SCHEDULE_LOG_H
