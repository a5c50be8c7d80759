//===- Case.h - One launch of a kernel, compared with the reference -------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_TOOLS_DLRUN_CASE_H
#define DL_TOOLS_DLRUN_CASE_H

#include "HostTensor.h"
#include "Inputs.h"

#include <optional>

namespace dl::run {

/// What one launch is made of. The variations make a test of the contract out of a test of the
/// arithmetic.
struct CaseSpec {
  Shape shape;
  Gates gates = Gates::Weak;
  uint64_t seed = 0;
  bool isPadded = false; // strides larger than rows
  bool isInPlace = true; // state_out is the pool of state_in
  bool hasSlots = true;  // slot arrays: permuted, some with src != dst, the last row null if B > 1
  int firstSlot = 0;     // null rows have slot firstSlot - 1
  bool usesDefaults = true; // scalars are left at their defaults
  // Where the kernel has the arguments:
  bool isPacked = false;    // rows of 0 to T tokens lie one behind the other
  bool keepsAll = false;    // the state after each token goes to a slot of its own, or is not kept
  bool hasAccepted = false; // rows start from one of several slots
  bool hasFlags = false;    // odd rows start from zeros
};

/// Cases of these shapes with weak, strong and extreme gates, or with those of one name; the
/// variations take turns.
std::vector<CaseSpec> makeCases(const std::vector<Shape> &shapes, const std::string &gates,
                                uint64_t seed);

struct CaseResult {
  double outputError = 0, stateError = 0;
  std::string failure; // empty: passed
};

/// Largest error that passes, by storage type.
double outputLimit(const KernelEntry &kernel, dlk_dtype dtype);
double stateLimit(const KernelEntry &kernel, dlk_dtype dtype);

/// Everything of one launch.
struct Problem {
  CaseSpec spec;
  reference::Batch batch; // inputs; after compare() the results of the reference
  int64_t numSlots = 0, sourceWidth = 1, destinationWidth = 1;
  std::vector<int64_t> starts, sources, destinations, accepted; // the arrays of the kernel
  std::vector<int> rowOfToken;                                  // per token of the batch; -1: none
  std::vector<HostTensor> initial, final;
  std::vector<Buffer> buffers;
  std::vector<dlk_tensor> views;
  std::vector<int> sharedWith; // state_out in place: the argument whose memory it is; else -1

  Sizes sizes() const;
  /// Slots that hold other states afterwards.
  std::vector<bool> writtenSlots() const;
};

/// Runs cases of one kernel.
class CaseRunner {
public:
  /// Throws Error if the kernel's arguments do not match the reference, or it cannot be prepared.
  CaseRunner(const Session &session, const reference::Operator &op, const KernelEntry &kernel);
  ~CaseRunner() { dlk_plan_release(plan); }
  CaseRunner(const CaseRunner &) = delete;
  CaseRunner &operator=(const CaseRunner &) = delete;

  CaseResult run(const CaseSpec &spec);

  double worstOutputLimit() const;
  double worstStateLimit() const;

private:
  void mapArguments();
  CaseSpec possible(CaseSpec spec) const;
  void makeNumbers(Problem &problem, std::vector<dlk_scalar> &scalars) const;
  void fillTensor(const Problem &problem, size_t arg, HostTensor &tensor) const;
  void makeTensors(Problem &problem) const;
  bool isAbsent(const Problem &problem, size_t arg) const;
  void makeViews(Problem &problem) const;
  std::vector<dlk_scalar> makeScalars(Problem &problem) const;
  void launch(Problem &problem) const;
  void compare(Problem &problem, CaseResult &result) const;
  void compareOutput(const Problem &problem, size_t arg, CaseResult &result) const;
  void compareState(const Problem &problem, size_t arg, CaseResult &result) const;
  void checkUntouched(const Problem &problem, size_t arg, CaseResult &result) const;
  /// Position in the reference's pool of element `n` of a state in memory.
  int64_t statePlace(int64_t n) const;

  const Session &session;
  const reference::Operator &op;
  const KernelEntry &kernel;
  InputMaker maker;
  dlk_plan *plan = nullptr;
  std::vector<int>
      ports; // per argument: index into inputs, params, outputs or states; -1 for all others
};

} // namespace dl::run

#endif // DL_TOOLS_DLRUN_CASE_H
