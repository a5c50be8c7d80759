//===- LogKernel.h - Append, merge and materialize ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LINATTNTOTILE_LOGKERNEL_H
#define PASSES_LINATTNTOTILE_LOGKERNEL_H

#include "passes/LinAttnToTile/KernelArguments.h"
#include "passes/LinAttnToTile/LogFields.h"

namespace dl {

enum class LogKernelKind {
  Append,      ///< checkpoint, merge and the tokens of each row, as its descriptor says
  Merge,       ///< the same for rows without tokens
  Materialize, ///< the dense state of slots after some of their entries; reads only
};

/// Replaces the operator (options set, ops expanded) by its kernel of this kind. Fails, with a
/// diagnostic at the op, if no log is legal or a field has no form.
mlir::LogicalResult emitLogKernel(LogKernelKind kind, linattn::OperatorOp op,
                                  const KernelTypes &types, const schedule::RecurrentPlan &plan,
                                  const LogOptions &options);

} // namespace dl

#endif // PASSES_LINATTNTOTILE_LOGKERNEL_H
