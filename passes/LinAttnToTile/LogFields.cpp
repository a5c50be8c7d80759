//===- LogFields.cpp - The fields of a log in memory ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/LinAttnToTile/LogFields.h"

using namespace mlir;
using namespace dl;
using analysis::LogEntry;
using analysis::LogField;
using analysis::StepAnalysis;
using linattn::Axis;
using linattn::HeadGroup;

static int64_t bytesOf(Type type) { return type.getIntOrFloatBitWidth() / 8; }

static Type inputType(linattn::OperatorOp op, BlockArgument input, const KernelTypes &types) {
  Type pinned = op.getPinnedType(input.getArgNumber());
  return types.typeOf(op.getArgName(input), pinned ? pinned : types.io);
}

/// Adds what a token's input or output takes.
static void addIO(Type type, int64_t elementBytes, schedule::LogProblem &problem) {
  int64_t bytes = elementBytes;
  if (isOn(type, Axis::Key) || isOn(type, Axis::KeyValue))
    bytes *= problem.keyDim;
  if (isOn(type, Axis::Value) || isOn(type, Axis::KeyValue))
    bytes *= problem.valueDim;
  bool isShared = linattn::groupOf(type) == HeadGroup::KeyHead;
  (isShared ? problem.sharedIoBytes : problem.ioBytes) += static_cast<double>(bytes);
}

/// What has to be computed from an input again when the log is read is not done yet.
static bool isServed(const analysis::LogForm &form) {
  using Kind = analysis::LogForm::Kind;
  return form.kind == Kind::Computed || form.kind == Kind::Snapshot || form.kind == Kind::Input;
}

schedule::LogProblem dl::logProblem(const StepAnalysis &step, const LogEntry &entry,
                                    const KernelTypes &types, const LogOptions &options) {
  linattn::OperatorOp op = step.op;
  schedule::LogProblem problem;
  problem.keyDim = types.keyDim;
  problem.valueDim = types.valueDim;
  problem.states = static_cast<int64_t>(step.states.size());
  problem.stateBytes = bytesOf(types.state);
  problem.maxTokens = options.maxTokens;
  problem.window = options.window;
  problem.type = options.type.isBF16() ? schedule::LogType::BF16 : schedule::LogType::F32;
  for (BlockArgument input : op.getInputs())
    addIO(input.getType(), bytesOf(inputType(op, input, types)), problem);
  for (unsigned i = 0; i < op.getNumOutputs(); ++i)
    addIO(op.getOutputType(i), bytesOf(types.typeOf(op.getOutputName(i), types.io)), problem);
  for (const LogField &field : entry.fields) {
    schedule::LogField &result = problem.fields.emplace_back();
    result.axis = field.axis == Axis::Key     ? schedule::LogAxis::Key
                  : field.axis == Axis::Value ? schedule::LogAxis::Value
                                              : schedule::LogAxis::Head;
    // Sums over many tokens, and the one number that scales a vector, are worth four bytes.
    bool isF32 = field.what == LogField::What::Decay || field.what == LogField::What::Factor;
    for (const analysis::LogForm &form : field.forms) {
      schedule::LogForm &priced = result.forms.emplace_back();
      priced.elementBytes = form.input ? bytesOf(inputType(op, form.input, types)) : isF32 ? 4 : 0;
      priced.isShared = form.group == HeadGroup::KeyHead;
      priced.isServed = isServed(form) && (field.what != LogField::What::Decay || !form.input);
    }
  }
  return problem;
}

static StringRef labelOf(LogField::What what) {
  switch (what) {
  case LogField::What::Key:
    return "log_key";
  case LogField::What::Value:
    return "log_value";
  case LogField::What::Factor:
    return "log_factor";
  case LogField::What::Decay:
    return "log_decay";
  }
  llvm_unreachable("a field is one of four");
}

std::vector<HeldField> dl::holdFields(const StepAnalysis &step, const LogEntry &entry,
                                      const schedule::LogPlan &plan, const KernelTypes &types,
                                      const LogOptions &options) {
  MLIRContext *context = step.op->getContext();
  std::vector<HeldField> result;
  for (size_t number = 0; number < entry.fields.size(); ++number) {
    const LogField &field = entry.fields[number];
    const analysis::LogForm &form = field.forms[plan.forms[number]];
    HeldField held{{}, Float32Type::get(context), field.axis, form.group, form.input};
    if (form.input) {
      held.element = inputType(step.op, form.input, types);
      held.name = ("log_" + linattn::OperatorOp(step.op).getArgName(form.input)).str();
    } else {
      bool isVector = field.what == LogField::What::Key || field.what == LogField::What::Value;
      if (isVector)
        held.element = options.type;
      held.name = labelOf(field.what).str();
      auto same = [&](const LogField &other) { return other.what == field.what; };
      if (llvm::count_if(entry.fields, same) > 1)
        held.name +=
            std::to_string(llvm::count_if(ArrayRef(entry.fields).take_front(number), same));
    }
    result.push_back(std::move(held));
  }
  return result;
}

SmallVector<unsigned> dl::addLogArguments(KernelArguments &arguments, ArrayRef<HeldField> fields,
                                          const KernelTypes &types, const LogOptions &options,
                                          StringRef access) {
  SmallVector<unsigned> result;
  for (const HeldField &field : fields) {
    SmallVector<Attribute> shape{arguments.symbol("slots"),
                                 arguments.symbol(field.group == HeadGroup::KeyHead ? "HQ" : "HV"),
                                 arguments.number(options.ring())};
    if (field.axis != Axis::Scalar)
      shape.push_back(arguments.number(field.axis == Axis::Key ? types.keyDim : types.valueDim));
    result.push_back(arguments.addTensor(field.name, "log", field.element, shape, access));
  }
  return result;
}
