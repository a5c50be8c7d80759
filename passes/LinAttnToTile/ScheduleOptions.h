//===- ScheduleOptions.h - What passes from linattn to tile are told ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LINATTNTOTILE_SCHEDULEOPTIONS_H
#define PASSES_LINATTNTOTILE_SCHEDULEOPTIONS_H

#include "passes/LinAttnToTile/KernelArguments.h"

namespace dl {

/// The options that passes to tile kernels share (kScheduleOptions in Passes.td), not yet looked
/// at.
struct ScheduleOptions {
  /// Those of a pass, whose friend this is: tablegen makes them protected.
  template <typename Pass> static ScheduleOptions of(const Pass &pass) {
    return {pass.keyDim,
            pass.valueDim,
            pass.stateLayout,
            pass.stateType,
            pass.ioType,
            pass.indexType,
            {pass.argumentTypes.begin(), pass.argumentTypes.end()},
            pass.startsEarly,
            pass.bytesInFlight,
            {pass.valueTile, pass.keyLanes, pass.keyWarps, pass.minBlocks}};
  }

  int64_t keyDim, valueDim;
  std::string stateLayout, stateType, ioType, indexType;
  std::vector<std::string> argumentTypes;
  bool startsEarly;
  int64_t bytesInFlight;
  schedule::RecurrentOverrides overrides;
};

/// f32, bf16 or f16. Else fails, after an error at the op that names the option.
mlir::FailureOr<mlir::Type> parseFloatType(mlir::Operation *at, llvm::StringRef option,
                                           llvm::StringRef name);

/// What the kernels of the operator are compiled for. Fails after an error that names the option.
mlir::FailureOr<KernelTypes> parseKernelTypes(linattn::OperatorOp op,
                                              const ScheduleOptions &options);

/// How state and threads meet in a kernel that walks tokens. Fails after an error.
mlir::FailureOr<schedule::RecurrentPlan> planKernel(linattn::OperatorOp op,
                                                    const KernelTypes &types,
                                                    const ScheduleOptions &options,
                                                    bool isLog = false);

} // namespace dl

#endif // PASSES_LINATTNTOTILE_SCHEDULEOPTIONS_H
