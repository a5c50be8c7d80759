//===- Evaluate.cpp - Evaluating the reference DAG ------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "reference/Reference.h"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace dl::reference;

int64_t dl::reference::elementCount(Axis axis, Dims dims) {
  switch (axis) {
  case Axis::Uniform:
  case Axis::Scalar:
    return 1;
  case Axis::Key:
    return dims.K;
  case Axis::Value:
    return dims.V;
  case Axis::KeyValue:
  case Axis::State:
    return dims.K * dims.V;
  }
  return 1;
}

/// The element of a value of `axis` that belongs to (k, v).
static double elementAt(const Values &value, Axis axis, Dims dims, int64_t k, int64_t v) {
  switch (axis) {
  case Axis::Key:
    return value[k];
  case Axis::Value:
    return value[v];
  case Axis::KeyValue:
  case Axis::State:
    return value[k * dims.V + v];
  default:
    return value[0];
  }
}

void Evaluator::evaluateNode(const Node &node, const Operands &operands,
                             const std::vector<Values> *states, Values &result) const {
  const int64_t count = elementCount(node.axis, dims);
  auto arg = [&](size_t i) -> const Values & { return results[node.args[i]]; };
  auto argAxis = [&](size_t i) { return op.nodes[node.args[i]].axis; };
  result.resize(count);
  switch (node.kind) {
  case OpKind::Input:
  case OpKind::Param: {
    const auto &pointers = node.kind == OpKind::Input ? operands.inputs : operands.params;
    result.assign(pointers[node.index], pointers[node.index] + count);
    return;
  }
  case OpKind::State:
    result = (*states)[node.index];
    return;
  case OpKind::Constant:
    result.assign(count, node.number);
    return;
  case OpKind::Unary:
    for (int64_t i = 0; i < count; ++i)
      result[i] = node.unary(arg(0)[i]);
    return;
  case OpKind::Binary:
  case OpKind::Compare:
    for (int64_t i = 0; i < count; ++i)
      result[i] = node.binary(arg(0)[i], arg(1)[i]);
    return;
  case OpKind::Select:
    for (int64_t i = 0; i < count; ++i)
      result[i] = arg(0)[i] != 0 ? arg(1)[i] : arg(2)[i];
    return;
  case OpKind::Fma:
    for (int64_t i = 0; i < count; ++i)
      result[i] = std::fma(arg(0)[i], arg(1)[i], arg(2)[i]);
    return;
  case OpKind::Reduce:
    result[0] = std::accumulate(arg(0).begin(), arg(0).end(), 0.0);
    return;
  case OpKind::Broadcast:
    if (node.axis != Axis::KeyValue) {
      for (int64_t i = 0; i < count; ++i)
        result[i] = arg(0).size() == 1 ? arg(0)[0] : arg(0)[i];
      return;
    }
    for (int64_t k = 0; k < dims.K; ++k)
      for (int64_t v = 0; v < dims.V; ++v)
        result[k * dims.V + v] = elementAt(arg(0), argAxis(0), dims, k, v);
    return;
  case OpKind::Decay: {
    // e^g once per element of g, not of S.
    Values factor = arg(1);
    for (double &g : factor)
      g = std::exp(g);
    for (int64_t k = 0; k < dims.K; ++k)
      for (int64_t v = 0; v < dims.V; ++v)
        result[k * dims.V + v] = arg(0)[k * dims.V + v] * elementAt(factor, argAxis(1), dims, k, v);
    return;
  }
  case OpKind::Read:
    result.assign(count, 0.0);
    for (int64_t k = 0; k < dims.K; ++k)
      for (int64_t v = 0; v < dims.V; ++v)
        result[v] += arg(0)[k * dims.V + v] * arg(1)[k];
    return;
  case OpKind::Write:
    for (int64_t k = 0; k < dims.K; ++k)
      for (int64_t v = 0; v < dims.V; ++v)
        result[k * dims.V + v] = arg(0)[k * dims.V + v] + arg(1)[k] * arg(2)[v];
    return;
  }
}

void Evaluator::step(const Operands &operands, std::vector<Values> &states,
                     std::vector<Values> *outputs) {
  for (size_t i = 0; i < op.nodes.size(); ++i)
    evaluateNode(op.nodes[i], operands, &states, results[i]);
  for (size_t i = 0; i < op.stateResults.size(); ++i)
    states[i] = results[op.stateResults[i]];
  if (!outputs)
    return;
  outputs->resize(op.outputResults.size());
  for (size_t i = 0; i < op.outputResults.size(); ++i)
    (*outputs)[i] = results[op.outputResults[i]];
}

void Evaluator::sizeOfNode(size_t node, const std::vector<Values> &sizes, Values &size) const {
  const Node &n = op.nodes[node];
  size = results[node];
  for (double &x : size)
    x = std::fabs(x);
  auto arg = [&](size_t i, size_t element) {
    const Values &values = sizes[n.args[i]];
    return values[values.size() == 1 ? 0 : element];
  };
  for (size_t i = 0; i < size.size(); ++i) {
    if (n.growth == Growth::Sum) {
      size[i] = 0;
      for (size_t a = 0; a < n.args.size(); ++a)
        size[i] += arg(a, i);
    } else if (n.growth == Growth::Product) {
      size[i] = arg(0, i) * arg(1, i);
    } else if (n.kind == OpKind::Fma) {
      size[i] = arg(0, i) * arg(1, i) + arg(2, i);
    }
  }
}

void Evaluator::outputSizes(std::vector<Values> &sizes) const {
  std::vector<Values> all(op.nodes.size());
  for (size_t i = 0; i < op.nodes.size(); ++i)
    if (op.nodes[i].axis != Axis::State)
      sizeOfNode(i, all, all[i]);
  sizes.clear();
  for (int output : op.outputResults)
    sizes.push_back(all[output]);
}

const Values &Evaluator::evaluate(const Operands &operands, int root) {
  std::vector<bool> needed(op.nodes.size(), false);
  needed[root] = true;
  for (int i = root; i >= 0; --i)
    if (needed[i])
      for (int arg : op.nodes[i].args)
        needed[arg] = true;
  for (int i = 0; i <= root; ++i)
    if (needed[i])
      evaluateNode(op.nodes[i], operands, nullptr, results[i]);
  return results[root];
}

static int64_t headCount(const Port &port, const Batch &batch) {
  return port.group == Group::KeyHead ? batch.HQ : batch.HV;
}

/// Head of the port's group that serves value head `head`.
static int64_t headOf(const Port &port, const Batch &batch, int64_t head) {
  return port.group == Group::KeyHead ? head * batch.HQ / batch.HV : head;
}

namespace {
/// One row and value head after the other.
class BatchRunner {
public:
  BatchRunner(const Operator &op, Dims dims, Batch &batch)
      : op(op), dims(dims), batch(batch), before(batch.states), evaluator(op, dims) {}
  void run(const Row &row, int64_t head);

private:
  void load(const Row &row, int64_t head);
  void store(int64_t slot, int64_t head);
  void step(const Row &row, int64_t t, int64_t head);

  const Operator &op;
  const Dims dims;
  Batch &batch;
  const std::vector<Values> before;
  Evaluator evaluator;
  Evaluator::Operands operands;
  std::vector<Values> states, results, sizes;
};
} // namespace

void BatchRunner::load(const Row &row, int64_t head) {
  const int64_t size = dims.K * dims.V;
  states.assign(op.states.size(), Values(size, 0.0));
  for (size_t i = 0; i < states.size() && !row.isFresh; ++i)
    std::copy_n(before[i].begin() + (row.source * batch.HV + head) * size, size, states[i].begin());
}

void BatchRunner::store(int64_t slot, int64_t head) {
  const int64_t size = dims.K * dims.V;
  for (size_t i = 0; i < states.size() && slot >= 0; ++i)
    std::copy(states[i].begin(), states[i].end(),
              batch.states[i].begin() + (slot * batch.HV + head) * size);
}

void BatchRunner::step(const Row &row, int64_t t, int64_t head) {
  const int64_t token = row.entry * batch.T + t;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const Port &port = op.inputs[i];
    int64_t place = token * headCount(port, batch) + headOf(port, batch, head);
    operands.inputs[i] = batch.inputs[i].data() + place * elementCount(port.axis, dims);
  }
  evaluator.step(operands, states, &results);
  evaluator.outputSizes(sizes);
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    int64_t place = (token * batch.HV + head) * elementCount(op.outputs[i].axis, dims);
    std::copy(results[i].begin(), results[i].end(), batch.outputs[i].begin() + place);
    std::copy(sizes[i].begin(), sizes[i].end(), batch.sizes[i].begin() + place);
  }
}

void BatchRunner::run(const Row &row, int64_t head) {
  operands.inputs.resize(op.inputs.size());
  operands.params.clear();
  for (size_t i = 0; i < op.params.size(); ++i) {
    const Port &port = op.params[i];
    int64_t offset =
        port.axis == Axis::Uniform ? 0 : headOf(port, batch, head) * elementCount(port.axis, dims);
    operands.params.push_back(batch.params[i].data() + offset);
  }
  load(row, head);
  for (int64_t t = row.first; t < row.end; ++t) {
    step(row, t, head);
    if (size_t(t - row.first) < row.kept.size())
      store(row.kept[t - row.first], head);
  }
  store(row.destination, head);
}

void dl::reference::run(const Operator &op, Dims dims, Batch &batch) {
  batch.outputs.resize(op.outputs.size());
  for (size_t i = 0; i < op.outputs.size(); ++i)
    batch.outputs[i].assign(batch.B * batch.T * batch.HV * elementCount(op.outputs[i].axis, dims),
                            0.0);
  batch.sizes = batch.outputs;
  BatchRunner runner(op, dims, batch);
  for (const Row &row : batch.rows)
    for (int64_t head = 0; head < batch.HV && !row.isNull; ++head)
      runner.run(row, head);
}
