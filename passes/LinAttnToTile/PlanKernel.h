//===- PlanKernel.h - What a step does to each slot's log ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LINATTNTOTILE_PLANKERNEL_H
#define PASSES_LINATTNTOTILE_PLANKERNEL_H

#include "passes/LinAttnToTile/KernelArguments.h"
#include "passes/LinAttnToTile/LogOptions.h"

namespace dl {

/// Replaces the operator by the tile.kernel @OP_plan, which runs before the first layer of a step.
/// Of the operator it uses nothing but the name.
void emitPlanKernel(linattn::OperatorOp op, const KernelTypes &types, const LogOptions &log);

} // namespace dl

#endif // PASSES_LINATTNTOTILE_PLANKERNEL_H
