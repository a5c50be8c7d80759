//===- Reference.cpp - The step of an operator as an expression graph ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Package/Reference.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/StringSwitch.h"
#include <cmath>

using namespace mlir;
using namespace dl;
namespace json = llvm::json;

static StringRef axisName(Type type) {
  if (linattn::isState(type))
    return "state";
  // Comparisons give i1 tensors with an encoding, which are not linattn values but lie along the
  // same axis.
  auto tensor = dyn_cast<RankedTensorType>(type);
  auto encoding =
      tensor ? dyn_cast_or_null<linattn::OfAttr>(tensor.getEncoding()) : linattn::OfAttr();
  return encoding ? linattn::stringifyAxis(encoding.getAxis()) : "uniform";
}

static StringRef groupName(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  auto encoding =
      tensor ? dyn_cast_or_null<linattn::OfAttr>(tensor.getEncoding()) : linattn::OfAttr();
  return encoding ? linattn::stringifyHeadGroup(encoding.getGroup()) : "value_head";
}

/// The evaluator's name of an elementwise op; empty if it has none.
static StringRef elementwiseName(Operation &op) {
  return llvm::StringSwitch<StringRef>(op.getName().getStringRef())
      .Case("arith.addf", "add")
      .Case("arith.subf", "sub")
      .Case("arith.mulf", "mul")
      .Case("arith.divf", "div")
      .Case("arith.negf", "neg")
      .Case("arith.maximumf", "max")
      .Case("arith.minimumf", "min")
      .Case("arith.maxnumf", "maxnum")
      .Case("arith.minnumf", "minnum")
      .Case("arith.select", "select")
      .Case("math.exp", "exp")
      .Case("math.exp2", "exp2")
      .Case("math.log", "log")
      .Case("math.log1p", "log1p")
      .Case("math.sqrt", "sqrt")
      .Case("math.rsqrt", "rsqrt")
      .Case("math.tanh", "tanh")
      .Case("math.absf", "abs")
      .Case("math.fma", "fma")
      .Case("linattn.broadcast", "broadcast")
      .Case("linattn.reduce", "reduce")
      .Case("linattn.decay", "decay")
      .Case("linattn.read", "read")
      .Case("linattn.write", "write")
      .Default("");
}

/// JSON has neither infinities nor NaN: they are text.
static json::Value toJson(double number) {
  if (std::isnan(number))
    return "nan";
  if (std::isinf(number))
    return number > 0 ? "inf" : "-inf";
  return number;
}

namespace {
class GraphWriter {
public:
  GraphWriter(linattn::OperatorOp op, int64_t keyDim) : op(op), keyDim(keyDim) {}
  FailureOr<json::Object> write();

private:
  json::Object describe(BlockArgument argument);
  LogicalResult writeOp(Operation &operation);
  void append(Value value, json::Object node) {
    node["axis"] = axisName(value.getType());
    node["group"] = groupName(value.getType());
    index[value] = nodes.size();
    nodes.push_back(std::move(node));
  }
  json::Array indices(ValueRange values) {
    json::Array result;
    for (Value value : values)
      result.push_back(index.lookup(value));
    return result;
  }

  linattn::OperatorOp op;
  int64_t keyDim;
  json::Array nodes;
  llvm::DenseMap<Value, int64_t> index;
};

json::Object GraphWriter::describe(BlockArgument argument) {
  json::Object result{{"name", op.getArgName(argument).str()},
                      {"axis", axisName(argument.getType())},
                      {"group", groupName(argument.getType())}};
  if (std::optional<double> fallback = op.getDefaultValue(argument.getArgNumber(), keyDim))
    result["default"] = *fallback;
  return result;
}

LogicalResult GraphWriter::writeOp(Operation &operation) {
  json::Object node;
  if (auto constant = dyn_cast<arith::ConstantOp>(operation)) {
    Attribute value = constant.getValue();
    if (auto splat = dyn_cast<SplatElementsAttr>(value))
      value = splat.getSplatValue<Attribute>();
    auto number = dyn_cast<FloatAttr>(value);
    auto integer = dyn_cast<IntegerAttr>(value);
    if (!number && !integer)
      return operation.emitOpError("expected a number in an operator");
    node["op"] = "constant";
    node["value"] = number ? toJson(number.getValueAsDouble())
                           : json::Value(static_cast<double>(integer.getInt()));
  } else {
    StringRef name = elementwiseName(operation);
    if (auto compare = dyn_cast<arith::CmpFOp>(operation)) {
      name = "cmp";
      node["pred"] = arith::stringifyCmpFPredicate(compare.getPredicate());
    }
    if (name.empty())
      return operation.emitOpError("has no form in the reference evaluator");
    node["op"] = name;
    node["args"] = indices(operation.getOperands());
    if (auto decay = dyn_cast<linattn::DecayOp>(operation))
      if (std::optional<double> bound = decay.getBoundValue())
        node["bound"] = *bound;
  }
  append(operation.getResult(0), std::move(node));
  return success();
}

FailureOr<json::Object> GraphWriter::write() {
  json::Array inputs, params, states, outputs;
  for (BlockArgument input : op.getInputs()) {
    inputs.push_back(describe(input));
    append(input, json::Object{{"op", "input"}, {"name", op.getArgName(input).str()}});
  }
  for (BlockArgument param : op.getParams()) {
    params.push_back(describe(param));
    append(param, json::Object{{"op", "param"}, {"name", op.getArgName(param).str()}});
  }
  for (auto [i, state] : llvm::enumerate(op.getStates())) {
    states.push_back(op.getArgName(state).str());
    append(state, json::Object{{"op", "state"}, {"index", static_cast<int64_t>(i)}});
  }
  for (unsigned i = 0; i < op.getNumOutputs(); ++i)
    outputs.push_back(op.getOutputName(i).str());
  for (Operation &operation : op.getBodyRegion().front().without_terminator())
    if (failed(writeOp(operation)))
      return failure();
  return json::Object{{"inputs", std::move(inputs)},
                      {"params", std::move(params)},
                      {"states", std::move(states)},
                      {"outputs", std::move(outputs)},
                      {"nodes", std::move(nodes)},
                      {"yield", json::Object{{"states", indices(op.getYieldedStates())},
                                             {"outputs", indices(op.getYieldedOutputs())}}}};
}
} // namespace

FailureOr<json::Object> dl::package::emitReference(linattn::OperatorOp op, int64_t keyDim) {
  return GraphWriter(op, keyDim).write();
}
