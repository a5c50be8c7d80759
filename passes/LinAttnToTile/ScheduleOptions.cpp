//===- ScheduleOptions.cpp - What passes from linattn to tile are told ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/LinAttnToTile/ScheduleOptions.h"
#include "compiler/Schedule/Log.h"

using namespace mlir;
using namespace dl;
using linattn::Axis;

FailureOr<Type> dl::parseFloatType(Operation *at, StringRef option, StringRef name) {
  Builder builder(at->getContext());
  if (name == "f32")
    return Type(builder.getF32Type());
  if (name == "bf16")
    return Type(builder.getBF16Type());
  if (name == "f16")
    return Type(builder.getF16Type());
  at->emitError() << option << ": expected f32, bf16 or f16, got '" << name << "'";
  return failure();
}

FailureOr<KernelTypes> dl::parseKernelTypes(linattn::OperatorOp op,
                                            const ScheduleOptions &options) {
  FailureOr<Type> state = parseFloatType(op, "state-type", options.stateType),
                  io = parseFloatType(op, "io-type", options.ioType);
  if (failed(state) || failed(io))
    return failure();
  if (options.stateLayout != "kv" && options.stateLayout != "vk")
    return op.emitError() << "state-layout: expected kv or vk, got '" << options.stateLayout << "'";
  if (options.indexType != "i32" && options.indexType != "i64")
    return op.emitError() << "index-type: expected i32 or i64, got '" << options.indexType << "'";
  KernelTypes types;
  types.keyDim = options.keyDim;
  types.valueDim = options.valueDim;
  types.layout =
      options.stateLayout == "kv" ? schedule::StateLayout::KV : schedule::StateLayout::VK;
  types.state = *state;
  types.io = *io;
  types.index = IntegerType::get(op.getContext(), options.indexType == "i32" ? 32 : 64);
  types.startsEarly = options.startsEarly;
  for (StringRef given : options.argumentTypes) {
    auto [name, text] = given.split('=');
    SmallVector<StringRef> names = typedArguments(op);
    if (!llvm::is_contained(names, name))
      return op.emitError() << "types: expected NAME=TYPE with a name among "
                            << llvm::join(names, ", ") << ", got '" << given << "'";
    FailureOr<Type> type = parseFloatType(op, "types, " + name.str(), text);
    if (failed(type))
      return failure();
    types.given.push_back({name.str(), *type});
  }
  return types;
}

static bool sumsAlongValue(linattn::OperatorOp op) {
  WalkResult walk = op.walk([](linattn::ReduceOp reduce) {
    Axis axis = *linattn::axisOf(reduce->getOperand(0).getType());
    return axis == Axis::Key ? WalkResult::advance() : WalkResult::interrupt();
  });
  return walk.wasInterrupted();
}

FailureOr<schedule::RecurrentPlan> dl::planKernel(linattn::OperatorOp op, const KernelTypes &types,
                                                  const ScheduleOptions &options, bool isLog) {
  schedule::RecurrentProblem problem;
  problem.keyDim = types.keyDim;
  problem.valueDim = types.valueDim;
  problem.layout = types.layout;
  problem.bytesInFlight = options.bytesInFlight;
  problem.stateBytes = types.state.getIntOrFloatBitWidth() / 8;
  problem.canSplitValue = !sumsAlongValue(op);
  llvm::Expected<schedule::RecurrentPlan> plan =
      isLog ? schedule::planLogKernel(problem, options.overrides)
            : schedule::planRecurrent(problem, options.overrides);
  if (!plan)
    return op.emitError() << llvm::toString(plan.takeError());
  return *plan;
}
