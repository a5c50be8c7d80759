//===- Decode.h - Kernels beside hand-written recurrences -----------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For kernels that decode and kernels that prefill: they take the same arguments, but for a
// workspace. A Problem holds numbers under the names of a kernel's arguments. `launch` puts them
// into memory of the device and runs a kernel of a package on them, through the C interface;
// `expected` gives them, rounded to their storage types, to a recurrence of test/Reference, in
// double precision.
//
// In memory every tensor is padded along all free strides and lies between guards. All bytes that
// belong to no element are NaN, and after each launch every byte that the kernel had no business
// with must be as it was: inputs, padding, guards. A workspace is NaN before the first launch and
// means nothing after any.
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_INTEGRATION_DECODE_H
#define DL_TEST_INTEGRATION_DECODE_H

#include "test/Integration/Device.h"
#include "test/Reference/DeltaRule.h"
#include "test/Reference/RWKV.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace dl::test {
using namespace recurrence;

/// An operator as one of the packages has it.
struct Operator {
  enum Kind { GDN, KDA, RWKV6, RWKV7 };
  std::string package; ///< stem of the file's name
  Kind kind;
  dlk_dtype io = DLK_BF16, state = DLK_F32;
  /// Of single arguments, before `io`. The initialiser lets aggregates leave it out.
  std::map<std::string, dlk_dtype> types = {}; // NOLINT(readability-redundant-member-init)
  Gate gate = Gate::Softplus;
  double lowerBound = -5;
  bool normalize = true;
  Beta beta = Beta::Logit;
  double betaFactor = 1;
  bool rawDecay = false;         ///< RWKV-6's w
  std::string kernel = "decode"; ///< or "prefill"

  bool isDelta() const { return kind == GDN || kind == KDA; }
  /// Under which names the kernels take the query, the gate and the strength.
  const char *query() const { return kind == RWKV6 ? "r" : "q"; }
  const char *gateName() const { return !isDelta() ? "w" : gate == Gate::Precomputed ? "g" : "a"; }
  const char *betaName() const { return beta == Beta::Logit ? "b" : "beta"; }
};

/// The three with their default options.
std::vector<Operator> shippedOperators();
/// The packages with other options, one for each.
std::vector<Operator> variants();
/// The packages with other types of states, of single arguments or of slot numbers.
std::vector<Operator> typeVariants();
Operator operatorOf(const std::string &package);

/// f(operator, layout) for the three and both layouts of the state.
template <typename Function> void forOperators(Function f) {
  for (const Operator &op : shippedOperators())
    for (const char *layout : {"kv", "vk"}) {
      SCOPED_TRACE(op.package + " " + layout);
      f(op, std::string(layout));
    }
}

/// Tokens first .. end - 1 of an entry of the batch.
struct Span {
  int64_t entry, first, end;
};

struct Problem {
  Operator op;
  Sizes n;
  std::string layout;
  std::map<std::string, Tensor> tensors;      ///< inputs [B, T, heads...] and params [heads...]
  Tensor pool;                                ///< [slots, HV, K, V], whatever the layout in memory
  std::vector<int64_t> starts;                ///< cu_seqlens; empty: row = entry of the batch
  std::vector<int64_t> sources, destinations; ///< [rows, width]; empty: slot = row
  std::vector<int64_t> accepted, hasState;    ///< [rows]; empty: all 1
  std::vector<int64_t> checkpoints;           ///< slots [rows, width]; empty: none
  std::vector<int64_t> checkpointOffsets;     ///< [rows]; empty: all the interval
  int64_t checkpointInterval = 0;             ///< of the package
  int32_t firstSlot = 0;
  std::optional<double> scale;

  int64_t rows() const { return starts.empty() ? n.B : int64_t(starts.size()) - 1; }
  Span span(int64_t row) const {
    return starts.empty() ? Span{row, 0, n.T} : Span{0, starts[row], starts[row + 1]};
  }
  int64_t width(const std::vector<int64_t> &slots) const {
    return slots.empty() || rows() == 0 ? 1 : int64_t(slots.size()) / rows();
  }
  int64_t source(int64_t row) const;
  /// The slot of the state after the row's token t (counted from its first), -1 if it is not kept.
  int64_t kept(int64_t row, int64_t t) const;
  /// The slot of the checkpoint after so many tokens of the row, -1 if there is none.
  int64_t checkpointAfter(int64_t row, int64_t tokens) const;
  /// The slot of the state after the last token, where only that one is kept.
  int64_t destination(int64_t row) const { return destinations.empty() ? row : destinations[row]; }
  bool keepsAll() const { return width(destinations) > 1; }
  bool isSlot(int64_t slot) const { return slot >= firstSlot && slot < pool.shape()[0]; }
  bool isNull(int64_t row) const {
    return !isSlot(source(row)) || (!keepsAll() && !isSlot(destination(row)));
  }
  std::set<int64_t> writtenSlots() const;
  dlk_dtype dtypeOf(const std::string &name) const;
  Tensor &gate() { return tensors.at(op.gateName()); }
  Tensor &strength() { return tensors.at(op.betaName()); }
};

/// Random numbers as they come from a layer; `slots` defaults to B.
Problem makeProblem(const Operator &op, Sizes n, const std::string &layout, uint64_t seed = 1,
                    int64_t slots = 0);
/// Rows of these lengths one behind the other, a slot for each, and tokens behind them that belong
/// to none. B and T of the sizes are not looked at.
Problem packRows(const Operator &op, Sizes n, const std::string &layout,
                 const std::vector<int64_t> &lengths, int64_t behind = 0, uint64_t seed = 1);
/// All inputs of tokens [from, to).
void fillTokens(Problem &problem, int64_t from, int64_t to, double value);
/// Only row `row` of the problem, alone in its batch, on a pool that holds its state.
Problem rowOf(const Problem &problem, int64_t row);
/// The rows of a batch one behind the other in a packed one.
Problem joinRows(const Problem &batch);
/// Only tokens [from, from + count).
Problem tokensOf(const Problem &problem, int64_t from, int64_t count);

struct Outcome {
  dlk_status status = DLK_OK;
  std::string message;
  Tensor o;    ///< [B, T, HV, V]
  Tensor pool; ///< as in the problem
};

/// An argument in memory; several may lie in one memory.
struct Argument {
  dlk_arg_info info = {};
  std::vector<int64_t> shape, strides;
  std::shared_ptr<Memory> memory;
  void *elsewhere = nullptr; ///< where the kernel finds it, if not in `memory`
  uint64_t byteOffset = 0;
  bool isAbsent = false;

  size_t place(int64_t n) const; ///< byte of element n, row-major over the shape
  int64_t numElements() const;
  void set(int64_t n, double value);
  dlk_tensor view() const;
};

struct LaunchOptions {
  bool inPlace = true; ///< one pool is read and written
  int64_t padding = 1; ///< units of the alignment, added to every free stride
  uint32_t flags = 0;
  /// Changes the views before the launch; arguments are found by name, "S" is the state read.
  std::function<void(std::vector<Argument> &)> change;
};

Argument &find(std::vector<Argument> &arguments, const std::string &name);

/// A problem in memory of the device, to be launched any number of times.
class Prepared {
public:
  explicit Prepared(Problem problem, const LaunchOptions &options = {});
  ~Prepared();
  Prepared(const Prepared &) = delete;
  Prepared &operator=(const Prepared &) = delete;

  /// Nothing after a first failure, which `collect` reports. `plan`: of another one.
  void launch(void *stream = nullptr, const dlk_plan *plan = nullptr);
  /// Other numbers, of the same shapes and in the same places, for the next launches.
  void refill(Problem other);
  /// Waits for the device. Every byte that is no result must be as it was.
  Outcome collect();

  std::vector<Argument> arguments; ///< as the next launch takes them
  dlk_plan *plan = nullptr;

private:
  Problem problem;
  Outcome outcome;
};

Outcome launch(const Problem &problem, const LaunchOptions &options = {});
/// The kernel that `launch` takes.
const dlk_kernel *kernelOf(const Problem &problem);

Outcome expected(const Problem &problem);

/// rms(got - want) / rms(want); infinite if anything of `got` is not finite.
double rmsRatio(const Tensor &got, const Tensor &want);
bool sameBits(const Tensor &a, const Tensor &b);
/// The row has the same bits in both: outputs, and the state in `slot`.
void expectSameRow(const Problem &problem, int64_t row, const Outcome &got, const Outcome &alone,
                   int64_t slot);

/// Decode: DEC over everything and in each row and head. Prefill: TOL16. Slots that no row writes
/// are as they were; null rows get zeros.
void check(const Problem &problem, const Outcome &got);
void launchAndCheck(const Problem &problem, const LaunchOptions &options = {});
/// The launch is refused and `message` is part of the one line that says why.
void expectRefused(const Problem &problem, const LaunchOptions &options, dlk_status status,
                   const std::string &message);

/// The largest ratios that `check` has seen.
struct WorstRatios {
  double outputs = 0, windows = 0, states = 0, heads = 0;
};
WorstRatios &worstRatios();

void setPackageFolder(const std::string &folder);

} // namespace dl::test

#endif // DL_TEST_INTEGRATION_DECODE_H
