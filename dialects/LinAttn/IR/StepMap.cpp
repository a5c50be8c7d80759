//===- StepMap.cpp - The map a step applies to its state ------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialects/LinAttn/IR/LinAttn.h"

using namespace mlir;
using namespace dl::linattn;

#include "dialects/LinAttn/IR/LinAttnInterfaces.cpp.inc"

StepMap StepMap::then(const StepMap &next) const {
  StepMap both;
  both.kind = std::max(kind, next.kind);
  both.rank = rank + next.rank;
  both.scalesValues = scalesValues || next.scalesValues;
  if (both.scalesValues && both.kind == StepClass::DiagonalPlusLowRank)
    both.kind = StepClass::Other;
  if (both.kind == StepClass::Other)
    both = {StepClass::Other, 0, false};
  return both;
}

std::string StepMap::text() const {
  std::string result;
  switch (kind) {
  case StepClass::Identity:
    result = "identity";
    break;
  case StepClass::Scalar:
    result = "scalar";
    break;
  case StepClass::Diagonal:
    result = "diagonal";
    break;
  case StepClass::DiagonalPlusLowRank:
    result = "diagonal + rank " + std::to_string(rank);
    break;
  case StepClass::Other:
    result = "other";
    break;
  }
  return scalesValues ? result + ", diagonal on the value axis" : result;
}

StepMap DecayOp::getStepMap(Feedback feedback) {
  if (feedback != Feedback::None)
    return {StepClass::Other};
  switch (*axisOf(getLogDecay().getType())) {
  case Axis::Scalar:
    return {StepClass::Scalar};
  case Axis::Key:
    return {StepClass::Diagonal};
  case Axis::Value:
    return {StepClass::Identity, 0, /*scalesValues=*/true};
  case Axis::KeyValue:
    return {StepClass::Other};
  }
  llvm_unreachable("an axis is one of four");
}

StepMap WriteOp::getStepMap(Feedback feedback) {
  switch (feedback) {
  case Feedback::None:
    return {};
  case Feedback::PerHead:
    return {StepClass::DiagonalPlusLowRank, 1};
  case Feedback::PerValue:
  case Feedback::Other:
    return {StepClass::Other};
  }
  llvm_unreachable("feedback is one of four");
}
