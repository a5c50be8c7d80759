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
// tokens, of several layers with different operators that share one plan, and
// holds every output and every state of the model against them.
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_REFERENCE_LOGTESTENGINE_H
#define DL_TEST_REFERENCE_LOGTESTENGINE_H

#include "test/Reference/LogProtocol.h"
#include "test/Reference/LogTestOperators.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace dl::deltalog {

class TestEngine {
public:
  TestEngine(const Limits &limits, uint64_t seed);

  /// What happens between two steps, then a step, all of it checked by EXPECTs.
  void step();

  /// How often each kind of event has been seen.
  std::map<std::string, int64_t> seen;
  /// The largest distance of any output or state from the recurrences.
  double worst = 0.0;

private:
  /// One dense state per layer.
  using States = std::vector<Matrix>;

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
  void note(double distance);
  template <typename T> void shuffle(std::vector<T> &values);

  void betweenSteps();
  void swap(Request &request);
  void expectMaterialized(const Request &request);

  void chooseRows();
  void addRequestRow(size_t index);
  void addNewcomer();
  void addRow(Request request, int64_t dst);
  void addPadding();
  int32_t chooseAcceptance(const Request &request);
  void chooseCheckpoint(Row &row);

  template <typename Index> Rows<Index> arguments();
  template <typename Index> std::vector<Descriptor> planStep();
  void runLayers(std::vector<Descriptor> descriptors);
  void settleRow(Row &row, const Descriptor &d);
  void expectOutputs(Row &row, const Descriptor &d);
  void expectUntouched(const std::vector<Pool> &before, const std::vector<Cursor> &cursorsBefore);

  Limits limits;
  recurrence::Random random;
  std::vector<Pool> layers;
  std::vector<Cursor> cursors;

  std::set<int64_t> freeSlots;
  std::vector<Request> requests;
  std::vector<Request> cache; ///< prefixes: their slots are only read

  // The step at hand.
  std::vector<Row> rows;
  std::vector<int64_t> emptied; ///< slots to be freed after it
  bool isFinal = false;
  bool isUniform = false;
  int32_t uniformTokens = 0;
  std::vector<std::vector<DrawnToken>> drawn; ///< [layer][token]
  std::vector<std::vector<Vector>> outputs;   ///< [layer][token]
};

} // namespace dl::deltalog

#endif // DL_TEST_REFERENCE_LOGTESTENGINE_H
