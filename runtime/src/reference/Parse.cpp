//===- Parse.cpp - Reading the reference DAG of a manifest ----------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "JsonReader.h"
#include "reference/Reference.h"

#include <algorithm>
#include <cmath>

using namespace dl::reference;
using dl::runtime::JsonReader;

namespace {
struct UnaryOp {
  const char *name;
  double (*apply)(double);
  Growth growth = Growth::Other;
};
struct BinaryOp {
  const char *name;
  double (*apply)(double, double);
  Growth growth = Growth::Other;
};
} // namespace

static const UnaryOp unaryOps[] = {
    {"neg", [](double x) { return -x; }, Growth::Sum},
    {"abs", [](double x) { return std::fabs(x); }},
    {"exp", [](double x) { return std::exp(x); }},
    {"exp2", [](double x) { return std::exp2(x); }},
    {"expm1", [](double x) { return std::expm1(x); }},
    {"log", [](double x) { return std::log(x); }},
    {"log2", [](double x) { return std::log2(x); }},
    {"log1p", [](double x) { return std::log1p(x); }},
    {"sqrt", [](double x) { return std::sqrt(x); }},
    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }},
    {"tanh", [](double x) { return std::tanh(x); }},
    {"sin", [](double x) { return std::sin(x); }},
    {"cos", [](double x) { return std::cos(x); }},
    {"erf", [](double x) { return std::erf(x); }},
    {"floor", [](double x) { return std::floor(x); }},
    {"ceil", [](double x) { return std::ceil(x); }},
};

// max and min propagate NaN, maxnum and minnum prefer the number, as in the IR that they come from.
static double propagateNaN(double a, double b, double picked) {
  return std::isnan(a) || std::isnan(b) ? NAN : picked;
}

static const BinaryOp binaryOps[] = {
    {"add", [](double a, double b) { return a + b; }, Growth::Sum},
    {"sub", [](double a, double b) { return a - b; }, Growth::Sum},
    {"mul", [](double a, double b) { return a * b; }, Growth::Product},
    {"div", [](double a, double b) { return a / b; }},
    {"pow", [](double a, double b) { return std::pow(a, b); }},
    {"rem", [](double a, double b) { return std::fmod(a, b); }},
    {"max", [](double a, double b) { return propagateNaN(a, b, std::fmax(a, b)); }},
    {"min", [](double a, double b) { return propagateNaN(a, b, std::fmin(a, b)); }},
    {"maxnum", [](double a, double b) { return std::fmax(a, b); }},
    {"minnum", [](double a, double b) { return std::fmin(a, b); }},
};

static bool isUnordered(double a, double b) { return std::isnan(a) || std::isnan(b); }

static const BinaryOp predicates[] = {
    {"oeq", [](double a, double b) { return double(a == b); }},
    {"ogt", [](double a, double b) { return double(a > b); }},
    {"oge", [](double a, double b) { return double(a >= b); }},
    {"olt", [](double a, double b) { return double(a < b); }},
    {"ole", [](double a, double b) { return double(a <= b); }},
    {"one", [](double a, double b) { return double(!isUnordered(a, b) && a != b); }},
    {"ord", [](double a, double b) { return double(!isUnordered(a, b)); }},
    {"ueq", [](double a, double b) { return double(isUnordered(a, b) || a == b); }},
    {"ugt", [](double a, double b) { return double(isUnordered(a, b) || a > b); }},
    {"uge", [](double a, double b) { return double(isUnordered(a, b) || a >= b); }},
    {"ult", [](double a, double b) { return double(isUnordered(a, b) || a < b); }},
    {"ule", [](double a, double b) { return double(isUnordered(a, b) || a <= b); }},
    {"une", [](double a, double b) { return double(a != b); }},
    {"uno", [](double a, double b) { return double(isUnordered(a, b)); }},
};

template <typename Row, size_t N>
static const Row *find(const Row (&table)[N], const std::string &name) {
  for (const Row &row : table)
    if (name == row.name)
      return &row;
  return nullptr;
}

/// Uniform and scalar values are both one number per evaluation.
static bool isNumber(Axis axis) { return axis == Axis::Uniform || axis == Axis::Scalar; }

static bool haveSameShape(Axis a, Axis b) { return a == b || (isNumber(a) && isNumber(b)); }

namespace {
class DagReader {
public:
  DagReader(const JsonReader &root, Operator &op) : root(root), op(op) {}
  void read();

private:
  Axis readAxis(const JsonReader &reader) {
    return Axis(reader.choice({"uniform", "scalar", "key", "value", "key_value", "state"}));
  }
  Group readGroup(const JsonReader &reader) {
    return reader ? Group(1 + reader.choice({"key_head", "value_head"})) : Group::None;
  }
  void readPorts(const JsonReader &reader, std::vector<Port> &ports);
  void readNode(const JsonReader &reader);
  void readLeaf(const JsonReader &reader, const std::string &op, Node &node);
  /// Sets kind and function of an operation with arguments; returns its number of arguments, -1 if
  /// there is no such.
  int readKind(const JsonReader &reader, const std::string &name, Node &node);
  void checkTypes(const JsonReader &reader, const Node &node);
  void readResults(const JsonReader &reader, size_t count, bool isState, std::vector<int> &results);
  Axis axisOf(int node) const { return op.nodes[node].axis; }

  JsonReader root;
  Operator &op;
};
} // namespace

void DagReader::readPorts(const JsonReader &reader, std::vector<Port> &ports) {
  for (size_t i = 0; i < reader.size() && !root.failed(); ++i) {
    JsonReader entry = reader[i];
    Port port;
    port.name = entry.at("name").text();
    port.axis = readAxis(entry.at("axis"));
    port.group = readGroup(entry.find("group"));
    if (port.axis != Axis::Uniform && port.group == Group::None)
      entry.at("group");
    if (port.axis == Axis::State)
      entry.at("axis").fail("expected an axis other than state");
    if (JsonReader value = entry.find("default")) {
      port.hasDefault = true;
      port.defaultValue = value.number();
    }
    ports.push_back(std::move(port));
  }
}

void DagReader::readLeaf(const JsonReader &reader, const std::string &name, Node &node) {
  if (name == "constant") {
    node.kind = OpKind::Constant;
    // JSON has no infinities and no NaN: they come as text.
    static constexpr double named[] = {INFINITY, -INFINITY, NAN};
    JsonReader value = reader.at("value");
    if (value.raw() && value.raw()->is_string())
      node.number = named[value.choice({"inf", "-inf", "nan"})];
    else
      node.number = value.number();
    return;
  }
  if (name == "state") {
    node.kind = OpKind::State;
    node.axis = Axis::State;
    node.index = int(reader.at("index").integer(0, int64_t(op.states.size()) - 1));
    return;
  }
  node.kind = name == "input" ? OpKind::Input : OpKind::Param;
  const std::vector<Port> &ports = name == "input" ? op.inputs : op.params;
  std::string portName = reader.at("name").text();
  auto it = std::find_if(ports.begin(), ports.end(),
                         [&](const Port &port) { return port.name == portName; });
  if (it == ports.end()) {
    reader.at("name").fail("no " + name + " is named '" + portName + "'");
    return;
  }
  node.index = int(it - ports.begin());
  if (it->axis != node.axis)
    reader.at("axis").fail("differs from the axis of '" + portName + "'");
}

int DagReader::readKind(const JsonReader &reader, const std::string &name, Node &node) {
  static constexpr struct {
    const char *name;
    OpKind kind;
    int numArgs;
  } structural[] = {{"select", OpKind::Select, 3},       {"fma", OpKind::Fma, 3},
                    {"broadcast", OpKind::Broadcast, 1}, {"reduce", OpKind::Reduce, 1},
                    {"decay", OpKind::Decay, 2},         {"read", OpKind::Read, 2},
                    {"write", OpKind::Write, 3}};
  for (const auto &row : structural)
    if (name == row.name) {
      node.kind = row.kind;
      if (node.kind == OpKind::Broadcast && node.axis != Axis::KeyValue)
        node.growth = Growth::Sum; // of one
      return row.numArgs;
    }
  if (name == "cmp") {
    node.kind = OpKind::Compare;
    const BinaryOp *predicate = find(predicates, reader.at("pred").text());
    if (!predicate)
      reader.at("pred").fail("unknown predicate");
    else
      node.binary = predicate->apply;
    return 2;
  }
  if (const UnaryOp *unary = find(unaryOps, name)) {
    node.kind = OpKind::Unary;
    node.unary = unary->apply;
    node.growth = unary->growth;
    return 1;
  }
  if (const BinaryOp *binary = find(binaryOps, name)) {
    node.kind = OpKind::Binary;
    node.binary = binary->apply;
    node.growth = binary->growth;
    return 2;
  }
  return -1;
}

void DagReader::readNode(const JsonReader &reader) {
  Node node;
  std::string name = reader.at("op").text();
  if (JsonReader axis = reader.find("axis"))
    node.axis = readAxis(axis);
  node.group = readGroup(reader.find("group"));
  if (name == "input" || name == "param" || name == "state" || name == "constant") {
    readLeaf(reader, name, node);
  } else {
    int numArgs = readKind(reader, name, node);
    if (numArgs < 0)
      reader.at("op").fail("unknown operation '" + name + "'");
    JsonReader args = reader.at("args");
    for (size_t i = 0; i < args.size() && !root.failed(); ++i)
      node.args.push_back(int(args[i].integer(0, int64_t(op.nodes.size()) - 1)));
    if (!root.failed() && int(node.args.size()) != numArgs)
      args.fail("expected " + std::to_string(numArgs) + ", got " +
                std::to_string(node.args.size()));
    if (JsonReader bound = reader.find("bound"))
      node.bound = bound.number();
    if (!root.failed())
      checkTypes(reader, node);
  }
  op.nodes.push_back(std::move(node));
}

/// Arguments of the wrong axis would read past the end of a vector.
void DagReader::checkTypes(const JsonReader &reader, const Node &node) {
  auto expect = [&](bool holds, const char *message) {
    if (!holds)
      reader.fail(message);
  };
  auto axis = [&](size_t i) { return axisOf(node.args[i]); };
  switch (node.kind) {
  case OpKind::Decay:
    expect(axis(0) == Axis::State && node.axis == Axis::State && axis(1) != Axis::State,
           "expected decay(state, not a state) -> state");
    return;
  case OpKind::Read:
    expect(axis(0) == Axis::State && axis(1) == Axis::Key && node.axis == Axis::Value,
           "expected read(state, key) -> value");
    return;
  case OpKind::Write:
    expect(axis(0) == Axis::State && axis(1) == Axis::Key && axis(2) == Axis::Value &&
               node.axis == Axis::State,
           "expected write(state, key, value) -> state");
    return;
  case OpKind::Broadcast:
    expect(node.axis != Axis::State && (isNumber(axis(0)) || axis(0) == node.axis ||
                                        (axis(0) != Axis::State && node.axis == Axis::KeyValue)),
           "expected a broadcast to more dimensions");
    return;
  case OpKind::Reduce:
    expect(axis(0) != Axis::State && isNumber(node.axis), "expected reduce(vector) -> scalar");
    return;
  default:
    for (size_t i = 0; i < node.args.size(); ++i)
      expect(axis(i) != Axis::State && node.axis != Axis::State &&
                 haveSameShape(axis(i), node.axis),
             "expected arguments and result of one axis");
  }
}

void DagReader::readResults(const JsonReader &reader, size_t count, bool isState,
                            std::vector<int> &results) {
  if (reader.size() != count)
    reader.fail("expected " + std::to_string(count) + " nodes");
  for (size_t i = 0; i < reader.size() && !root.failed(); ++i) {
    int node = int(reader[i].integer(0, int64_t(op.nodes.size()) - 1));
    if (!root.failed() && (axisOf(node) == Axis::State) != isState)
      reader[i].fail(isState ? "expected a state" : "expected a value, got a state");
    results.push_back(node);
  }
}

void DagReader::read() {
  readPorts(root.at("inputs"), op.inputs);
  readPorts(root.at("params"), op.params);
  JsonReader states = root.at("states");
  for (size_t i = 0; i < states.size(); ++i)
    op.states.push_back(states[i].text());
  JsonReader nodes = root.at("nodes");
  for (size_t i = 0; i < nodes.size() && !root.failed(); ++i)
    readNode(nodes[i]);
  JsonReader outputs = root.at("outputs"), yield = root.at("yield");
  readResults(yield.at("states"), op.states.size(), true, op.stateResults);
  readResults(yield.at("outputs"), outputs.size(), false, op.outputResults);
  for (size_t i = 0; i < outputs.size() && !root.failed(); ++i) {
    const Node &node = op.nodes[op.outputResults[i]];
    op.outputs.push_back({outputs[i].text(), node.axis, node.group, false, 0});
  }
}

bool Operator::parse(const nlohmann::json &json, Operator &result, std::string &error) {
  error.clear();
  result = Operator();
  DagReader(JsonReader(&json, "reference", error), result).read();
  return error.empty();
}
