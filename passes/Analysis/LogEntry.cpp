//===- LogEntry.cpp - What a log of a state's writes has to hold ----------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Analysis/LogEntry.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace dl::analysis;
using namespace dl::linattn;

namespace {

/// What a value is a function of, besides params.
struct Sources {
  llvm::SmallSetVector<BlockArgument, 2> inputs;
  bool isElementwise = true; ///< no element depends on another element of an input
  bool hasState = false;     ///< it also depends on a state

  bool isParams() const { return inputs.empty() && !hasState; }
  void add(const Sources &other) {
    inputs.insert_range(other.inputs);
    isElementwise &= other.isElementwise;
    hasState |= other.hasState;
  }
};

class EntryBuilder {
public:
  explicit EntryBuilder(const StepAnalysis &analysis) : analysis(analysis), op(analysis.op) {}
  LogEntry run();

private:
  void findSources();
  Sources sourcesOf(const Product &product) const;
  const Sources &sourcesOf(Value value) const { return sources.find(value)->second; }

  void addWrite(const Write &write);
  int addKey(const Write &write, LogWrite &result);
  int addValue(const Write &write, LogWrite &result);
  int addFactor(const Product &scale);
  void addDecays(const State &state);
  int addDecay(Axis axis, ArrayRef<Decay> decays);
  /// A field for a token-local vector, or none if params alone set it.
  int addVector(LogField::What what, Axis axis, Value vector);
  /// The number of the field, which may be there already: two writes can hold the same.
  int add(LogField field);

  const StepAnalysis &analysis;
  OperatorOp op;
  llvm::DenseMap<Value, Sources> sources;
  LogEntry entry;
};

} // namespace

/// A value of no group is the same for all heads.
static HeadGroup groupOfValue(Value value) {
  return groupOf(value.getType()).value_or(HeadGroup::KeyHead);
}

static HeadGroup groupOf(const Product &product) {
  bool perKeyHead = llvm::all_of(product.factors, [](const Factor &factor) {
    return groupOfValue(factor.value) == HeadGroup::KeyHead;
  });
  return perKeyHead ? HeadGroup::KeyHead : HeadGroup::ValueHead;
}

//===----------------------------------------------------------------------===//
// Taking vectors apart
//===----------------------------------------------------------------------===//

void EntryBuilder::findSources() {
  for (BlockArgument input : op.getInputs())
    sources[input].inputs.insert(input);
  for (BlockArgument param : op.getParams())
    sources[param] = {};
  for (BlockArgument state : op.getStates())
    sources[state].hasState = true;
  for (Operation &inner : *op.getBody()) {
    Sources all;
    for (Value operand : inner.getOperands())
      all.add(sourcesOf(operand));
    all.isElementwise &= !isa<ReduceOp>(inner) || all.inputs.empty();
    for (Value result : inner.getResults())
      sources[result] = all;
  }
}

Sources EntryBuilder::sourcesOf(const Product &product) const {
  Sources all;
  for (const Factor &factor : product.factors)
    all.add(sourcesOf(factor.value));
  return all;
}

/// One number of a head, or none if the value is a vector.
static Value asNumber(Value value) {
  value = stripBroadcasts(value);
  Type type = value.getType();
  return !isEncoded(type) || isOn(type, Axis::Scalar) ? value : Value();
}

/// What is left of a vector without the numbers that multiply it, which go to `scale`.
static Value takeScale(Value vector, Product &scale) {
  auto take = [&](Value number, Factor::Kind kind, Operation *op) {
    if (std::optional<double> constant = constantOf(number))
      scale.constant *= kind == Factor::Kind::Inverse ? 1 / *constant : *constant;
    else
      scale.factors.push_back({kind, number, {}, {}, op});
  };
  for (;;) {
    Operation *op = vector.getDefiningOp();
    if (auto broadcast = dyn_cast_or_null<BroadcastOp>(op)) {
      if (asNumber(broadcast.getOperand()))
        return vector;
      vector = broadcast.getOperand(); // the same for the value heads of a key head
    } else if (auto product = dyn_cast_or_null<arith::MulFOp>(op)) {
      Value left = asNumber(product.getLhs()), right = asNumber(product.getRhs());
      if (!left && !right)
        return vector;
      take(left ? left : right, Factor::Kind::Plain, op);
      vector = left ? product.getRhs() : product.getLhs();
    } else if (auto quotient = dyn_cast_or_null<arith::DivFOp>(op)) {
      Value right = asNumber(quotient.getRhs());
      if (!right)
        return vector;
      take(right, Factor::Kind::Inverse, op);
      vector = quotient.getLhs();
    } else if (auto negation = dyn_cast_or_null<arith::NegFOp>(op)) {
      scale.constant = -scale.constant;
      vector = negation.getOperand();
    } else {
      return vector;
    }
  }
}

//===----------------------------------------------------------------------===//
// Fields
//===----------------------------------------------------------------------===//

int EntryBuilder::add(LogField field) {
  // Fields of the same vector, or the same decays, have the same forms.
  auto isSame = [&](const LogField &other) {
    bool isKnown = field.vector || !field.decays.empty();
    return isKnown && other.what == field.what && other.axis == field.axis &&
           other.vector == field.vector && other.decays == field.decays;
  };
  auto known = llvm::find_if(entry.fields, isSame);
  if (known != entry.fields.end())
    return known - entry.fields.begin();
  entry.fields.push_back(std::move(field));
  return entry.fields.size() - 1;
}

/// The form that holds numbers as they are.
static LogForm computed(HeadGroup group = HeadGroup::ValueHead) {
  LogForm form;
  form.group = group;
  return form;
}

static LogField makeField(LogField::What what, Axis axis) {
  LogField field;
  field.what = what;
  field.axis = axis;
  return field;
}

/// The form in which a vector is had from one input, if it is.
static std::optional<LogForm> fromInput(const Sources &sources, Axis axis, Value vector) {
  if (sources.hasState || !sources.isElementwise || sources.inputs.size() != 1)
    return std::nullopt;
  BlockArgument input = sources.inputs.front();
  if (!isOn(input.getType(), axis))
    return std::nullopt;
  auto kind = vector == input ? LogForm::Kind::Input : LogForm::Kind::Recompute;
  return LogForm{kind, input, groupOfValue(input)};
}

int EntryBuilder::addVector(LogField::What what, Axis axis, Value vector) {
  const Sources &known = sourcesOf(vector);
  if (known.isParams())
    return LogWrite::kNone;
  LogField field = makeField(what, axis);
  field.vector = vector;
  std::optional<LogForm> input = fromInput(known, axis, vector);
  if (!input || input->kind != LogForm::Kind::Input)
    field.forms.push_back(computed(groupOfValue(vector)));
  if (input)
    field.forms.push_back(*input);
  return add(std::move(field));
}

int EntryBuilder::addKey(const Write &write, LogWrite &result) {
  // Decays of the same token that come after the write: L_i is the sum at the token's end.
  ArrayRef<Decay> later = ArrayRef(analysis.states[write.state].decays).drop_front(write.clock);
  for (const Decay &decay : later)
    if (decay.axis == Axis::Scalar)
      result.scale.factors.push_back(
          {Factor::Kind::Exponential, stripBroadcasts(decay.logDecay), {}, {}, decay.op});
  bool isDecayed = llvm::any_of(later, [](const Decay &d) { return d.axis == Axis::Key; });
  if (!isDecayed) {
    result.keyVector = takeScale(write.key, result.scale);
    return addVector(LogField::What::Key, Axis::Key, result.keyVector);
  }
  LogField field = makeField(LogField::What::Key, Axis::Key);
  field.forms.push_back(computed());
  return add(std::move(field));
}

int EntryBuilder::addValue(const Write &write, LogWrite &result) {
  ArrayRef<Decay> decays = analysis.states[write.state].decays;
  bool isDecayed = llvm::any_of(decays.drop_front(write.clock),
                                [](const Decay &d) { return d.axis == Axis::Value; });
  Value value = WriteOp(write.op).getValue();
  bool hasFeedback = write.hasFeedback() || sourcesOf(value).hasState;
  if (!isDecayed && !hasFeedback) {
    result.valueVector = takeScale(value, result.scale);
    return addVector(LogField::What::Value, Axis::Value, result.valueVector);
  }
  LogField field = makeField(LogField::What::Value, Axis::Value);
  field.forms.push_back(computed());
  field.hasFeedback = hasFeedback;
  return add(std::move(field));
}

int EntryBuilder::addFactor(const Product &scale) {
  LogField field = makeField(LogField::What::Factor, Axis::Scalar);
  field.forms.push_back(computed(groupOf(scale)));
  return add(std::move(field));
}

void EntryBuilder::addWrite(const Write &write) {
  LogWrite result;
  result.key = addKey(write, result);
  result.value = addValue(write, result);
  // A value that depends on the state is this write's alone and rounded last: it takes the scale
  // along. A copy of an input cannot.
  // Where nothing else is held of a write, its factor says which entries there are.
  bool isConstant = result.key == LogWrite::kNone && result.value == LogWrite::kNone;
  if (isConstant || !sourcesOf(result.scale).isParams()) {
    result.isScaleInValue = result.value != LogWrite::kNone && !entry.fields[result.value].vector;
    if (!result.isScaleInValue)
      result.factor = addFactor(result.scale);
  }
  entry.writes.push_back(std::move(result));
}

/// One sum of log decays serves an axis; numbers of a head are added to it.
int EntryBuilder::addDecay(Axis axis, ArrayRef<Decay> decays) {
  LogField field = makeField(LogField::What::Decay, axis);
  field.forms.push_back({LogForm::Kind::Snapshot, {}, HeadGroup::KeyHead});
  Sources all;
  for (const Decay &decay : decays) {
    field.decays.push_back(decay.logDecay);
    all.add(sourcesOf(decay.logDecay));
    if (groupOfValue(decay.logDecay) == HeadGroup::ValueHead)
      field.forms.front().group = HeadGroup::ValueHead;
  }
  Value alone = decays.size() == 1 ? decays.front().logDecay : Value();
  // Recomputing costs more than the two bytes that the raw gate of a whole head saves.
  if (axis != Axis::Scalar)
    if (std::optional<LogForm> input = fromInput(all, axis, alone))
      field.forms.push_back(*input);
  return add(std::move(field));
}

void EntryBuilder::addDecays(const State &state) {
  SmallVector<int, 1> &fields = entry.decays.emplace_back();
  Axis main = state.decaysAlong(Axis::Key)     ? Axis::Key
              : state.decaysAlong(Axis::Value) ? Axis::Value
                                               : Axis::Scalar;
  for (Axis axis : {Axis::Scalar, Axis::Key, Axis::Value}) {
    SmallVector<Decay> decays;
    for (const Decay &decay : state.decays)
      if (decay.axis == axis || (axis == main && decay.axis == Axis::Scalar))
        decays.push_back(decay);
    if (decays.empty() || (axis == Axis::Scalar && main != axis))
      continue;
    fields.push_back(addDecay(axis, decays));
  }
}

LogEntry EntryBuilder::run() {
  findSources();
  for (const Write &write : analysis.writes)
    addWrite(write);
  for (const State &state : analysis.states)
    addDecays(state);
  return std::move(entry);
}

std::optional<LogEntry> LogEntry::compute(const StepAnalysis &analysis) {
  if (!analysis.isLegal(Schedule::Log))
    return std::nullopt;
  return EntryBuilder(analysis).run();
}

//===----------------------------------------------------------------------===//
// Reasons
//===----------------------------------------------------------------------===//

/// Whether a write's scale is multiplied into what the field holds.
static bool takesScale(const LogEntry &entry, unsigned field) {
  return llvm::any_of(entry.writes, [&](const LogWrite &write) {
    return write.value == int(field) && write.isScaleInValue;
  });
}

static std::string reasonForComputed(const LogEntry &entry, unsigned number) {
  const LogField &field = entry.fields[number];
  std::string scale = takesScale(entry, number) ? "with what scales the key; " : "";
  if (field.hasFeedback)
    return scale + "depends on the state: rounding would feed back";
  if (field.what == LogField::What::Factor)
    return "scales the write";
  return scale + "no function of one input, element by element";
}

std::string dl::analysis::reasonFor(const LogEntry &entry, unsigned number, unsigned form) {
  const LogField &field = entry.fields[number];
  std::string text;
  switch (field.forms[form].kind) {
  case LogForm::Kind::Input:
    text = field.what == LogField::What::Decay ? "the input, to be summed up" : "the input, exact";
    break;
  case LogForm::Kind::Recompute:
    text = "the input it is recomputed from";
    break;
  case LogForm::Kind::Computed:
    text = field.forms.size() > 1 ? "computed" : reasonForComputed(entry, number);
    break;
  case LogForm::Kind::Snapshot:
    text = "running sum of the log decay";
    break;
  }
  if (field.forms[form].group == HeadGroup::KeyHead)
    text += "; one per key head";
  return text;
}
