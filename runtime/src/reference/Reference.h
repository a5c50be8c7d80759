//===- Reference.h - The step of an operator, evaluated in fp64 -----------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// A package carries the operator that was compiled as a small DAG. Evaluating it token by token in
// double precision is the oracle of `dl-run verify`: no chunks, no reassociation, no shortcuts.
//
//===----------------------------------------------------------------------===//
#ifndef DL_RUNTIME_REFERENCE_REFERENCE_H
#define DL_RUNTIME_REFERENCE_REFERENCE_H

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace dl::reference {

/// Which dimensions a value has. Uniform: one number for all heads. Scalar: one per head. State: K
/// x V, like KeyValue.
enum class Axis { Uniform, Scalar, Key, Value, KeyValue, State };
enum class Group { None, KeyHead, ValueHead };

struct Dims {
  int64_t K = 0, V = 0;
};

/// Number of elements of a value; K x V values are stored with v fastest.
int64_t elementCount(Axis axis, Dims dims);

/// An input, a parameter or an output.
struct Port {
  std::string name;
  Axis axis = Axis::Uniform;
  Group group = Group::None;
  bool hasDefault = false; // uniform parameters only
  double defaultValue = 0;
};

enum class OpKind {
  Input,     // index: into inputs
  Param,     // index: into params
  State,     // index: into states
  Constant,  // number
  Unary,     // unary
  Binary,    // binary
  Compare,   // predicate; 1 or 0
  Select,    // condition, then, else
  Fma,       // a * b + c
  Broadcast, // fewer dimensions to more
  Reduce,    // sum over the axis
  Decay,     // state, g:    S <- e^g S
  Read,      // state, x:    S^T x
  Write,     // state, a, b: S + a b^T
};

/// What an elementwise operation does to the size of its arguments.
enum class Growth { Other, Sum, Product };

struct Node {
  OpKind kind = OpKind::Constant;
  Growth growth = Growth::Other;
  Axis axis = Axis::Uniform;
  Group group = Group::None;
  std::vector<int> args; // earlier nodes
  int index = 0;
  double number = 0;
  double (*unary)(double) = nullptr;
  double (*binary)(double, double) = nullptr;
  double bound = 0; // Decay: the promised lower bound of g; 0 = none
};

class Operator {
public:
  /// Reads the "reference" member of a manifest. On failure returns false and says why in `error`.
  static bool parse(const nlohmann::json &json, Operator &result, std::string &error);

  std::vector<Port> inputs, params, outputs;
  std::vector<std::string> states;
  std::vector<Node> nodes;
  std::vector<int> stateResults, outputResults; // nodes, in the order of states and outputs
};

using Values = std::vector<double>;

/// Evaluates single tokens of single value heads.
class Evaluator {
public:
  Evaluator(const Operator &op, Dims dims) : op(op), dims(dims), results(op.nodes.size()) {}

  /// Operand pointers, in the order of op.inputs and op.params; each has elementCount(axis)
  /// numbers.
  struct Operands {
    std::vector<const double *> inputs, params;
  };

  /// One token: updates `states` (K x V each) and, if `outputs` is not null, fills one vector per
  /// output.
  void step(const Operands &operands, std::vector<Values> &states, std::vector<Values> *outputs);
  /// The sizes of the outputs of the last step: those of their terms added up, where an output is a
  /// sum. The terms may cancel; what is left of their rounding does not.
  void outputSizes(std::vector<Values> &sizes) const;

  /// Evaluates node `root` and what it needs, for DAGs without states.
  const Values &evaluate(const Operands &operands, int root);

private:
  void evaluateNode(const Node &node, const Operands &operands, const std::vector<Values> *states,
                    Values &result) const;
  void sizeOfNode(size_t node, const std::vector<Values> &sizes, Values &size) const;

  const Operator &op;
  Dims dims;
  std::vector<Values> results;
};

/// What one row does: some tokens of a batch entry, from one state to others.
struct Row {
  int64_t entry = 0, first = 0, end = 0; // tokens first .. end - 1 of entry
  bool isNull = false;                   // touches no state; its outputs are zeros
  bool isFresh = false;                  // starts from zeros
  int64_t source = 0;                    // else from the state in this slot
  std::vector<int64_t> kept; // slots of the state after each token; -1 and beyond the end: not kept
  int64_t destination = -1;  // slot of the state after the last token; -1: not kept
};

/// A batch on the host, in doubles, contiguous.
struct Batch {
  int64_t B = 1, T = 1, HQ = 1, HV = 1;
  std::vector<Row> rows;
  std::vector<Values> inputs;  // [B, T, heads of the group, elements]
  std::vector<Values> params;  // [heads of the group, elements]; uniform: one number
  std::vector<Values> states;  // pools [slots, HV, K, V]; updated
  std::vector<Values> outputs; // [B, T, HV, elements]; filled, zeros where no row has a token
  std::vector<Values> sizes;   // of the outputs (Evaluator::outputSizes), likewise
};

/// Runs the recurrence over a batch. Rows read the pools as they were before. Value head h uses key
/// head h*HQ/HV.
void run(const Operator &op, Dims dims, Batch &batch);

} // namespace dl::reference

#endif // DL_RUNTIME_REFERENCE_REFERENCE_H
