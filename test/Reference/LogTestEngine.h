//===- LogTestEngine.h - An engine that does everything, at random --------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Requests with a mind of their own: they draft, reject, sit out steps, move, fork,
// are swapped out, leave prefixes in a cache, start from them, and end. The engine
// keeps for each the dense states that the serial recurrences give for its accepted
// tokens, of several layers with different operators that share one plan. What runs
// the layers, the model or compiled kernels, holds every output and every state
// against them.
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_REFERENCE_LOGTESTENGINE_H
#define DL_TEST_REFERENCE_LOGTESTENGINE_H

#include "test/Reference/LogPlan.h"
#include "test/Reference/LogTestOperators.h"

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace dl::deltalog {

/// Layers that share slots, cursors and plans, and draw their own tokens. What the
/// engine expects of them they check by EXPECTs.
class LogLayers {
public:
  /// One dense state for each value head of each layer.
  using States = std::vector<recurrence::Matrix>;
  /// What a slot holds after `count` entries since its base, drafts included.
  struct Wanted {
    int64_t slot;
    int64_t count;
    std::shared_ptr<const States> states;
  };

  LogLayers(const Limits &limits, int64_t slots) : limits(limits), slots(slots) {}
  virtual ~LogLayers() = default;

  virtual States zeroStates() const = 0;
  /// Puts random states into the slot's bases, as a prefill does, and returns what they hold then.
  virtual States fillBases(int64_t slot) = 0;
  /// NaN into bases and rings, and a cursor that nobody may use.
  virtual void scramble(int64_t slot, const Cursor &cursor) = 0;
  /// Bases, rings and cursor, bit for bit.
  virtual void copySlot(int64_t from, int64_t to) = 0;

  /// Draws tokens for the rows and `behind` more that belong to none, and plans. From here to the
  /// end of the step nothing but what the plan says may be written.
  virtual std::vector<Descriptor> planStep(const Rows<int64_t> &rows, int64_t behind) = 0;
  /// Append in each layer, or merge where there are no tokens.
  virtual void runLayers(bool hasTokens) = 0;
  /// Moves the states on by the row's token `t` and expects the outputs to be those of the token.
  virtual void expectOutputs(int64_t row, int32_t t, States &states) = 0;
  virtual void expectZeroOutputs(int64_t row, int32_t t) = 0;
  /// The step is over: slots, and entries of rings, that it had no business with are as they were.
  virtual void expectUntouched() = 0;

  virtual void expectBases(int64_t slot, const States &states) = 0;
  virtual void expectMaterialized(const std::vector<Wanted> &wanted) = 0;

  const Limits limits;
  const int64_t slots;
  /// The largest distance of any output or state from the recurrences.
  double worst = 0.0;
};

class TestEngine {
public:
  TestEngine(LogLayers &layers, uint64_t seed);

  /// What happens between two steps, then a step, all of it checked by EXPECTs.
  void step();
  /// A sequence in which something never happened would prove nothing about it.
  void expectEverythingSeen() { expectEverythingSeen(seen); }
  static void expectEverythingSeen(std::map<std::string, int64_t> seen);

  /// How often each kind of event has been seen.
  std::map<std::string, int64_t> seen;

private:
  using States = std::shared_ptr<const LogLayers::States>;

  struct Request {
    int64_t slot = -1;
    Initial initial = Stored;     ///< what its next row says of its slot
    std::vector<States> accepted; ///< after 0, 1, ... accepted entries since the base
    std::vector<States> drafts;   ///< after each token of its last step
    bool isFinal = false;         ///< none of them can be rejected
    bool isInBase = false;        ///< its last token was merged: there is no draft
  };

  /// A row of a step. A null row has no request.
  struct Row {
    bool isNull = false;
    Request request; ///< before the step, then after it
    int64_t src = -1;
    int64_t dst = -1;
    int32_t tokens = 0;
    int32_t told = 0; ///< acceptance, of what was pending
    bool flush = false;
    int64_t checkpointSlot = -1;
    int32_t checkpointOffset = 0;
  };

  bool chance(double probability) { return random.uniform(0.0, 1.0) < probability; }
  /// Uniform in low ... high.
  int64_t pick(int64_t low, int64_t high);
  int64_t takeFreeSlot();
  void release(int64_t slot);
  void scramble(int64_t slot);
  template <typename T> void shuffle(std::vector<T> &values);

  void betweenSteps();
  void swap(Request &request);
  void addWanted(const Request &request, std::vector<LogLayers::Wanted> &wanted);

  void chooseRows();
  void addRequestRow(size_t index);
  void addNewcomer();
  void addRow(Request request, int64_t dst);
  void addPadding();
  int32_t chooseAcceptance(const Request &request);
  void chooseCheckpoint(Row &row);

  Rows<int64_t> arguments();
  void settleRow(Row &row, const Descriptor &d);
  void expectRow(int64_t index, const Descriptor &d);

  LogLayers &layers;
  const Limits limits;
  recurrence::Random random;

  std::set<int64_t> freeSlots;
  std::vector<Request> requests;
  std::vector<Request> cache; ///< prefixes: their slots are only read

  // The step at hand.
  std::vector<Row> rows;
  std::vector<int64_t> emptied; ///< slots to be freed after it
  bool isFinal = false;
  bool isUniform = false;
  int32_t uniformTokens = 0;
};

} // namespace dl::deltalog

#endif // DL_TEST_REFERENCE_LOGTESTENGINE_H
