//===- Inputs.h - Random inputs for any operator --------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// What an input is for is read off the reference DAG, not off its name. Inputs and parameters that
// reach the log decay of a `decay` are gates: they are drawn until the decay that they produce lies
// in the wanted range, whatever lies in between (softplus, a bounded sigmoid, exp of exp, nothing).
// All others are activations.
//
//===----------------------------------------------------------------------===//
#ifndef DL_TOOLS_DLRUN_INPUTS_H
#define DL_TOOLS_DLRUN_INPUTS_H

#include "reference/Reference.h"

#include "dl/dlk.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dl::run {

/// A small generator with the same numbers on every platform.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed) {}
  uint64_t next();
  double uniform(double low, double high);
  double normal();

private:
  uint64_t state;
};

enum class Gates { Weak, Strong, Extreme };
constexpr const char *gateNames[] = {"weak", "strong", "extreme"};

class InputMaker {
public:
  InputMaker(const reference::Operator &op, reference::Dims dims);

  /// Storage types, in the order of op.inputs and op.params: drawn values are rounded to them.
  std::vector<dlk_dtype> inputTypes, paramTypes;

  /// Fills inputs and per-head parameters. Uniform parameters must be set before.
  void fill(reference::Batch &batch, Gates gates, Random &random) const;

  bool isGateInput(size_t index) const { return inputRoles[index].isGate; }

private:
  struct Role {
    bool isGate = false;
    bool isRaw = true; // enters products as it is, not through a function
  };
  /// A log decay that depends on no state, and the drawn values that it depends on.
  struct GateRoot {
    int node;
    double bound;
    std::vector<size_t> inputs, params;
  };
  /// One drawing: the operands of a gate root for one token and value head.
  struct Draw;

  void findRoles();
  void findGateRoots();
  void fillActivations(reference::Batch &batch, Random &random) const;
  void fillGate(const GateRoot &root, reference::Batch &batch, Gates gates, Random &random) const;
  void drawUnit(Draw &draw, Gates gates, Random &random) const;

  const reference::Operator &op;
  const reference::Dims dims;
  std::vector<Role> inputRoles, paramRoles;
  std::vector<GateRoot> gateRoots;
};

} // namespace dl::run

#endif // DL_TOOLS_DLRUN_INPUTS_H
