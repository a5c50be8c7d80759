//===- Log.h - Kernels of a log, their memory, what must come of them -----===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A LogPlanner has the cursors of some slots and ranges `plan`; a LogLayer has the bases and the
// logs of one layer and ranges `append`, `merge` and `materialize` with the planner's descriptors.
// Both know arguments by role and name alone, so fields of logs may be any.
// test/Reference/LogPlan.h says what a plan must do, a recurrence of test/Reference what comes of
// the tokens.
//
// In memory every tensor is padded along all free strides and lies between guards. All bytes that
// belong to no element are NaN. After each launch every byte that the descriptors do not say is
// written must be as it was: inputs, guards, other slots, other entries of rings, null rows.
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_INTEGRATION_LOG_H
#define DL_TEST_INTEGRATION_LOG_H

#include "test/Integration/LogKernels.h"
#include "test/Integration/LogNumbers.h"
#include "test/Reference/LogPlan.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dl::test {
using deltalog::Cursor;
using deltalog::Descriptor;
using deltalog::Merge;
using deltalog::Rows;

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Memory whose image is what the device holds, unless the host has changed it since.
class Buffer : public Memory {
public:
  explicit Buffer(size_t bytes, Fence fence = Fence::None);
  bool isChanged = true;
};

/// A tensor in memory; several may lie in one buffer.
struct Array {
  dlk_dtype dtype = DLK_F32;
  std::vector<int64_t> shape, strides;
  std::shared_ptr<Buffer> buffer;
  uint64_t byteOffset = 0;
  bool isAbsent = false;

  int64_t size() const;
  size_t place(int64_t n) const; ///< byte of element n, row-major over the shape
  double get(int64_t n) const;
  void set(int64_t n, double value);
  dlk_tensor view() const;
};

/// Bytes of a buffer that a launch may write.
struct ByteRange {
  Buffer *buffer;
  size_t offset, bytes;
};
/// Those of the elements below an index of the array's first dimensions.
void addRanges(const Array &array, const std::vector<int64_t> &index,
               std::vector<ByteRange> &ranges);
void addRanges(const Array &array, std::vector<ByteRange> &ranges);

struct Bound {
  const KernelArgument *info;
  Array array;
};
Array &find(std::vector<Bound> &arguments, const std::string &name);

/// How the memory of a layer or of a launch is laid out.
struct Placing {
  int64_t padding = 1;  ///< units of the alignment, added to every free stride
  bool isPaged = false; ///< pools: base and fields of a slot one behind the other in one page
  Fence fence = Fence::None;
};

struct LaunchOptions {
  uint32_t flags = 0;
  Placing placing;
  /// What arrays hold may be anything, and so may what comes of it, within the tensors.
  bool isGarbage = false;
  /// The launch is refused, with this in its message, and touches nothing.
  std::string refusal;
  /// Changes what is given before the launch.
  std::function<void(std::vector<Bound> &)> change;
};

/// Memory for the arguments of one launch after the other.
class Arena {
public:
  /// Where arrays of the shapes lie from now on; what was placed before is gone.
  std::vector<Array> place(const std::vector<std::pair<const KernelArgument *, Shape>> &wanted,
                           const Placing &placing);

private:
  std::shared_ptr<Buffer> buffer;
};

/// Arrays under the names "role:name" or "role".
using Bindings = std::map<std::string, Array>;

/// False if the launch was refused, as it was to be, or failed.
bool launch(const LogKernel &kernel, const Bindings &bindings,
            const std::map<std::string, double> &scalars, const std::vector<ByteRange> &mayWrite,
            const LaunchOptions &options);

//===----------------------------------------------------------------------===//
// Cursors and layers
//===----------------------------------------------------------------------===//

class LogPlanner {
public:
  LogPlanner(const LogKernels &kernels, int64_t slots, const Placing &placing = {});

  /// Runs `plan` and expects of it what the model says.
  const std::vector<Descriptor> &plan(const Rows<int64_t> &rows, const LaunchOptions &options = {});
  /// Descriptors that no plan has made.
  void setDescriptors(const std::vector<Descriptor> &made);

  Cursor cursor(int64_t slot) const;
  void setCursor(int64_t slot, const Cursor &cursor);

  const Limits limits;
  const int64_t slots;
  Array cursors;
  Array descriptors;            ///< of the last plan
  std::vector<Descriptor> rows; ///< the same

private:
  void expectPlanned(const Rows<int64_t> &given, std::vector<Cursor> before);

  const LogKernel &kernel;
  Arena arena;
};

/// One dense state for each value head.
using States = std::vector<Matrix>;

/// What `materialize` is asked for. Empty arrays are absent, but for the slots: row n is slot n
/// then.
struct Materialization {
  int64_t rows = 0;
  std::vector<int64_t> slots, counts, destinations;
  int64_t poolSlots = 0; ///< of the pool that is written; 0: as many as rows
  int32_t firstSlot = 0;
};

class LogLayer {
public:
  LogLayer(const LogKernels &kernels, int64_t HQ, int64_t HV, int64_t slots, uint64_t seed,
           const Placing &placing = {});

  States base(int64_t slot) const;
  void setBase(int64_t slot, const States &states);
  States fillBase(int64_t slot);
  States zeros() const { return States(n.HV, Matrix(n.K, n.V)); }
  /// NaN into base and ring.
  void scramble(int64_t slot);
  void copySlot(int64_t from, int64_t to);
  /// Bytes of the slot's base, and of ring position `entry` in all fields.
  std::string baseBits(int64_t slot) const;
  std::string entryBits(int64_t slot, int64_t entry) const;
  std::string ringBits(int64_t slot) const;

  /// Random tokens [B, T, ...].
  Tokens draw(int64_t B, int64_t T);
  /// What memory holds of the numbers.
  void roundToMemory(Tokens &tokens) const;

  /// Outputs [B * T, HV, V]; NaN where none was written. The planner's last plan says what is done.
  Tensor append(const LogPlanner &planner, const Tokens &tokens, const LaunchOptions &options = {});
  void merge(const LogPlanner &planner, const LaunchOptions &options = {});
  std::vector<States> materialize(const LogPlanner &planner, Materialization wanted,
                                  const LaunchOptions &options = {});
  /// The decode kernel from the slots' bases on, one row for each slot; all rows have T tokens. The
  /// states after them come back in `states`.
  Tensor decode(const std::vector<int64_t> &slots, const Tokens &tokens,
                std::vector<States> *states = nullptr);

  /// Moves the states on by a token and returns its output [HV][V].
  std::vector<Vector> step(const Tokens &tokens, int64_t token, States &states) const;
  /// How large each head's output of the token is as a rule: with the query's numbers in another
  /// order. Where the terms of one happen to cancel, the rounding of sums is left.
  std::vector<double> usualOutputs(const Tokens &tokens, int64_t token, const States &before) const;
  void setScale(double scale) { oracle.scale = scale; }
  Numbers &params() { return oracle.params; }
  /// After a change of the parameters.
  void updateParams();

  /// "gdn-w16t4 64x32 kv HQ=1 HV=2".
  std::string title() const;

  const LogKernels &kernels;
  const Sizes n; ///< B = T = 1
  const int64_t slots;
  Array pool;                       ///< bases
  std::map<std::string, Array> log; ///< fields, by name

private:
  Bindings bindings() const;
  std::map<std::string, double> scalars() const;
  std::map<std::string, int64_t> sizes() const;
  void placePools(const Placing &placing);
  void addStepRanges(const LogPlanner &planner, bool hasTokens,
                     std::vector<ByteRange> &ranges) const;
  void readState(const Array &array, int64_t slot, States &states) const;
  template <typename Function> void forFields(int64_t slot, Function f);

  Random random;
  Oracle oracle;
  std::map<std::string, Array> paramArrays;
  Arena arena, stateArena;
};

/// One layer with its cursors.
struct Log {
  explicit Log(const LogKernels &kernels, int64_t HQ = 1, int64_t HV = 2, int64_t slots = 4,
               uint64_t seed = 1, const Placing &placing = {})
      : planner(kernels, slots, placing), layer(kernels, HQ, HV, slots, seed, placing) {}

  /// A step as an engine ranges it.
  Tensor step(const Rows<int64_t> &rows, const Tokens &tokens, const LaunchOptions &options = {});
  /// The state after `count` entries since the base; -1: after all.
  States state(int64_t slot, int64_t count = -1);
  /// Copies of all memory: what `other` does from here on starts from the same bits.
  void copyFrom(const Log &other);

  LogPlanner planner;
  LogLayer layer;
};

//===----------------------------------------------------------------------===//
// Comparing
//===----------------------------------------------------------------------===//

/// rms(got - want) / (rms(want) + 1e-8); infinite if anything of `got` is not finite.
double rmsRatio(const Vector &got, const Vector &want);
double rmsRatio(const States &got, const States &want);

/// The limits for this kernel's types, over all heads; in each head four times as much.
double outputLimit(const LogKernels &kernels);
double stateLimit(const LogKernels &kernels);

/// The worst ratio, divided by its limit, so that 1 is allowed.
double stateError(const LogKernels &kernels, const States &got, const States &want);
double outputError(const LogLayer &layer, const Tokens &tokens, int64_t token, const States &before,
                   const std::vector<Vector> &want, const Tensor &got);
void expectStates(const LogKernels &kernels, const States &got, const States &want,
                  const std::string &what);

/// Tokens first .. first + count - 1 of a batch, flattened, from `states` on: the outputs are
/// theirs. Returns the states before the first and after each.
std::vector<States> expectSerial(const LogLayer &layer, const Tokens &tokens, int64_t first,
                                 int64_t count, States states, const Tensor &outputs);
/// The outputs are zeros.
void expectZeros(const Tensor &outputs, int64_t first, int64_t count);
/// The same tokens have the same outputs in both, to the bit.
void expectSameBits(const Tensor &a, int64_t firstOfA, const Tensor &b, int64_t firstOfB,
                    int64_t count);
bool sameBits(const States &a, const States &b);

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// Rows in place in slots 0, 1, ..., each with `tokens`.
Rows<int64_t> inPlace(int64_t count, int64_t tokens);
/// Rows of these lengths, packed.
Rows<int64_t> packed(const std::vector<int64_t> &lengths);
/// Gives slots 0, 1, ... random bases and logs of these lengths, all accepted, from the ring
/// positions on (0 where none are given). Returns the slots' states.
std::vector<States> fillLogs(Log &log, const std::vector<int64_t> &lengths,
                             const std::vector<int32_t> &starts = {});
/// Where the slot's log stands if so many of the last step's tokens are accepted.
deltalog::Standing standing(const Log &log, int64_t slot, int64_t accepted = deltalog::AllPending);
/// Expects the slots' states, all tokens accepted.
void expectSlots(Log &log, const std::vector<States> &want, const std::string &what);

/// f(kernels) for all that take steps of so many tokens, with a trace.
template <typename Function> void forKernels(Function f, int32_t leastTokens = 1) {
  bool hasAny = false;
  for (const LogKernels &kernels : allLogKernels()) {
    if (kernels.limits.maxTokens < leastTokens)
      continue;
    hasAny = true;
    SCOPED_TRACE(kernels.title);
    f(kernels);
    if (::testing::Test::HasFatalFailure())
      return;
  }
  if (!hasAny)
    GTEST_SKIP() << "there is no package with such kernels of a log";
}

} // namespace dl::test

#endif // DL_TEST_INTEGRATION_LOG_H
