//===- LogModelLayers.h - The model of the log, for the test engine -------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One layer of one value head for each operator, in fp64.
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_REFERENCE_LOGMODELLAYERS_H
#define DL_TEST_REFERENCE_LOGMODELLAYERS_H

#include "test/Reference/LogProtocol.h"
#include "test/Reference/LogTestEngine.h"

namespace dl::deltalog {

class ModelLayers : public LogLayers {
public:
  ModelLayers(const Limits &limits, int64_t slots, uint64_t seed);

  States zeroStates() const override;
  States fillBases(int64_t slot) override;
  void scramble(int64_t slot, const Cursor &cursor) override;
  void copySlot(int64_t from, int64_t to) override;
  std::vector<Descriptor> planStep(const Rows<int64_t> &rows, int64_t behind) override;
  void runLayers(bool hasTokens) override;
  void expectOutputs(int64_t row, int32_t t, States &states) override;
  void expectZeroOutputs(int64_t row, int32_t t) override;
  void expectUntouched() override;
  void expectBases(int64_t slot, const States &states) override;
  void expectMaterialized(const std::vector<Wanted> &wanted) override;

private:
  bool chance(double probability) { return random.uniform(0.0, 1.0) < probability; }
  void note(double distance);

  recurrence::Random random;
  std::vector<Pool> layers;
  std::vector<Cursor> cursors;

  // The step at hand.
  std::vector<Descriptor> descriptors;
  std::vector<std::vector<DrawnToken>> drawn; ///< [layer][token]
  std::vector<std::vector<Vector>> outputs;   ///< [layer][token]
  std::vector<Pool> before;                   ///< empty if nobody looks
  std::vector<Cursor> cursorsBefore;
};

} // namespace dl::deltalog

#endif // DL_TEST_REFERENCE_LOGMODELLAYERS_H
