//===- Inputs.cpp - Random inputs for any operator ------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Inputs.h"
#include "Numbers.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

using namespace dl::reference;
using namespace dl::run;

// splitmix64
uint64_t Random::next() {
  uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

double Random::uniform(double low, double high) {
  return low + (high - low) * double(next() >> 11) * 0x1p-53;
}

double Random::normal() {
  double radius = std::sqrt(-2 * std::log(1 - uniform(0, 1)));
  return radius * std::cos(uniform(0, 6.283185307179586));
}

InputMaker::InputMaker(const Operator &op, Dims dims)
    : inputTypes(op.inputs.size(), DLK_F32), paramTypes(op.params.size(), DLK_F32), op(op),
      dims(dims), inputRoles(op.inputs.size()), paramRoles(op.params.size()) {
  findGateRoots();
  findRoles();
}

void InputMaker::findGateRoots() {
  for (const Node &decay : op.nodes) {
    if (decay.kind != OpKind::Decay)
      continue;
    std::vector<bool> reached(op.nodes.size(), false);
    GateRoot root{decay.args[1], decay.bound, {}, {}};
    reached[root.node] = true;
    bool usesState = false;
    for (int i = root.node; i >= 0; --i) {
      if (!reached[i])
        continue;
      const Node &node = op.nodes[i];
      usesState |= node.axis == Axis::State;
      if (node.kind == OpKind::Input)
        root.inputs.push_back(node.index);
      if (node.kind == OpKind::Param && op.params[node.index].axis != Axis::Uniform)
        root.params.push_back(node.index);
      for (int arg : node.args)
        reached[arg] = true;
    }
    if (!usesState)
      gateRoots.push_back(std::move(root));
  }
}

void InputMaker::findRoles() {
  for (const GateRoot &root : gateRoots) {
    for (size_t input : root.inputs)
      inputRoles[input].isGate = true;
    for (size_t param : root.params)
      paramRoles[param].isGate = true;
  }
  for (size_t input = 0; input < op.inputs.size(); ++input) {
    std::vector<bool> carries(op.nodes.size(), false);
    for (size_t i = 0; i < op.nodes.size(); ++i) {
      const Node &node = op.nodes[i];
      carries[i] = node.kind == OpKind::Input && node.index == int(input);
      bool isFunction =
          node.kind == OpKind::Unary || node.kind == OpKind::Compare || node.kind == OpKind::Select;
      for (int arg : node.args) {
        if (!carries[arg])
          continue;
        if (isFunction)
          inputRoles[input].isRaw = false;
        carries[i] = node.axis != Axis::State && node.kind != OpKind::Read;
      }
    }
  }
}

static int64_t headsOf(const Port &port, const Batch &batch) {
  return port.axis == Axis::Uniform ? 1 : port.group == Group::KeyHead ? batch.HQ : batch.HV;
}

void InputMaker::fillActivations(Batch &batch, Random &random) const {
  // Key vectors get a length of about one: longer ones make delta rules diverge.
  const double keyScale = 1 / std::sqrt(double(dims.K));
  batch.inputs.resize(op.inputs.size());
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    const Port &port = op.inputs[i];
    int64_t heads = headsOf(port, batch);
    batch.inputs[i].resize(batch.B * batch.T * heads * elementCount(port.axis, dims));
    for (double &value : batch.inputs[i]) {
      double drawn = random.normal();
      if (port.axis == Axis::Key || port.axis == Axis::KeyValue)
        drawn *= keyScale;
      else if (port.axis != Axis::Value) // a coefficient in (0, 1), or the argument of a function
        drawn = inputRoles[i].isRaw ? random.uniform(0, 1) : 2 * drawn;
      value = roundTo(inputTypes[i], drawn);
    }
  }
  for (size_t i = 0; i < op.params.size(); ++i) {
    const Port &port = op.params[i];
    if (port.axis == Axis::Uniform)
      continue;
    batch.params[i].resize(headsOf(port, batch) * elementCount(port.axis, dims));
    for (double &value : batch.params[i])
      value = roundTo(paramTypes[i], 0.5 * random.normal());
  }
}

//===----------------------------------------------------------------------===//
// Gates
//===----------------------------------------------------------------------===//

/// A range of log decays, and the bound that the operator promises for them.
struct Range {
  double low, high, bound;
  double distance(double g) const {
    // Kernels may rely on the bound: better miss the range than break the promise.
    return std::isnan(g) || g < bound ? std::numeric_limits<double>::infinity()
                                      : std::max({low - g, g - high, 0.0});
  }
};

static Range wantedRange(Gates gates, double bound, Random &random) {
  static constexpr std::pair<double, double> extremes[] = {
      {-1e-4, 0}, {-1, -0.05}, {-30, -5}, {-200, -30}};
  std::pair<double, double> range = {-0.1, -1e-3};
  if (gates == Gates::Strong)
    range = {-6, -0.5};
  if (gates == Gates::Extreme)
    range = extremes[random.next() % 4];
  if (bound == 0)
    return {range.first, range.second, -std::numeric_limits<double>::infinity()};
  if (range.first < bound)
    range = {bound, std::max(range.second, 0.8 * bound)};
  return {range.first, range.second, bound};
}

struct InputMaker::Draw {
  const GateRoot &root;
  Evaluator &evaluator;
  Evaluator::Operands operands;
  std::vector<double *> targets; // what to draw: the elements of one head of an input or parameter
  std::vector<int64_t> counts;
  std::vector<dlk_dtype> types;
};

void InputMaker::drawUnit(Draw &draw, Gates gates, Random &random) const {
  const int64_t numDecays = elementCount(op.nodes[draw.root.node].axis, dims);
  // If every drawn vector has the axis of the decay, its elements are accepted one by one, else all
  // together.
  bool isElementwise = true;
  for (int64_t count : draw.counts)
    isElementwise &= count == numDecays;
  const int64_t numUnits = isElementwise ? numDecays : 1;
  std::vector<Range> ranges;
  for (int64_t i = 0; i < numUnits; ++i)
    ranges.push_back(wantedRange(gates, draw.root.bound, random));
  std::vector<double> best(numUnits, std::numeric_limits<double>::infinity());
  std::vector<std::vector<double>> kept;
  for (size_t i = 0; i < draw.targets.size(); ++i)
    kept.emplace_back(draw.targets[i], draw.targets[i] + draw.counts[i]);

  // K x V decays have many elements: a few of them may miss the range, but not the bound.
  const int fullRounds = numUnits > 1024 ? 8 : 128;
  for (int round = 0; round < 128; ++round) {
    for (size_t i = 0; i < draw.targets.size(); ++i)
      for (int64_t e = 0; e < draw.counts[i]; ++e) {
        if (isElementwise && best[e] == 0)
          continue;
        double magnitude = std::exp(random.uniform(std::log(1e-3), std::log(300)));
        double drawn = random.next() & 1 ? magnitude : -magnitude;
        draw.targets[i][e] = roundTo(draw.types[i], drawn);
      }
    const Values &decays = draw.evaluator.evaluate(draw.operands, draw.root.node);
    double worst = 0;
    for (int64_t u = 0; u < numUnits; ++u) {
      double distance = 0;
      for (int64_t e = isElementwise ? u : 0; e < (isElementwise ? u + 1 : numDecays); ++e)
        distance = std::max(distance, ranges[u].distance(decays[e]));
      if (distance < best[u]) {
        best[u] = distance;
        for (size_t i = 0; i < draw.targets.size(); ++i)
          for (int64_t e = 0; e < draw.counts[i]; ++e)
            if (!isElementwise || e == u)
              kept[i][e] = draw.targets[i][e];
      }
      worst = std::max(worst, best[u]);
    }
    if (worst == 0 || (round >= fullRounds && std::isfinite(worst)))
      break;
  }
  for (size_t i = 0; i < draw.targets.size(); ++i)
    std::copy(kept[i].begin(), kept[i].end(), draw.targets[i]);
}

void InputMaker::fillGate(const GateRoot &root, Batch &batch, Gates gates, Random &random) const {
  Evaluator evaluator(op, dims);
  const int64_t tokens = root.inputs.empty() ? 1 : batch.B * batch.T;
  for (int64_t token = 0; token < tokens; ++token)
    for (int64_t head = 0; head < batch.HV; ++head) {
      Draw draw{root, evaluator, {}, {}, {}, {}};
      auto slice = [&](const Port &port, Values &values, int64_t row) {
        int64_t place = port.group == Group::KeyHead ? head * batch.HQ / batch.HV : head;
        if (port.axis == Axis::Uniform)
          place = 0;
        return values.data() + (row * headsOf(port, batch) + place) * elementCount(port.axis, dims);
      };
      // A key head serves several value heads: its values are drawn with the first of them.
      auto isFirst = [&](const Port &port) {
        return port.group != Group::KeyHead || head == 0 ||
               head * batch.HQ / batch.HV != (head - 1) * batch.HQ / batch.HV;
      };
      auto add = [&](const Port &port, double *target, dlk_dtype type) {
        if (!isFirst(port))
          return;
        draw.targets.push_back(target);
        draw.counts.push_back(elementCount(port.axis, dims));
        draw.types.push_back(type);
      };
      for (size_t i = 0; i < op.inputs.size(); ++i)
        draw.operands.inputs.push_back(slice(op.inputs[i], batch.inputs[i], token));
      for (size_t i = 0; i < op.params.size(); ++i)
        draw.operands.params.push_back(slice(op.params[i], batch.params[i], 0));
      for (size_t i : root.inputs)
        add(op.inputs[i], slice(op.inputs[i], batch.inputs[i], token), inputTypes[i]);
      if (root.inputs.empty())
        for (size_t i : root.params)
          add(op.params[i], slice(op.params[i], batch.params[i], 0), paramTypes[i]);
      if (!draw.targets.empty())
        drawUnit(draw, gates, random);
    }
}

void InputMaker::fill(Batch &batch, Gates gates, Random &random) const {
  fillActivations(batch, random);
  std::vector<bool> isDrawn(op.inputs.size(), false);
  for (const GateRoot &root : gateRoots) {
    // Two decays may share their inputs: the first one decides.
    bool isShared = false;
    for (size_t input : root.inputs) {
      isShared |= isDrawn[input];
      isDrawn[input] = true;
    }
    if (!isShared)
      fillGate(root, batch, gates, random);
  }
}
