//===- Served.h - Which legal schedules have kernels ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A schedule whose conditions A1 to A4 hold is legal for a step (StepAnalysis.h). That is a matter
// of mathematics; kernels may not go as far. Those that take chunks of tokens ask for more:
//
//   B1  the operator has one state;
//   B2  its decays are along scalar or key;
//   B3  sums over a vector are over key vectors;
//   B5  a token writes once to eight times;
//   B6  between a write and a read before it that a later write needs lies no decay: as a row of
//   the
//       later write's token (ChunkRows.h) the read would have to grow.
//
// And those of a log:
//
//   B4  the step changes a state.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LINATTNTOTILE_SERVED_H
#define PASSES_LINATTNTOTILE_SERVED_H

#include "passes/Analysis/StepAnalysis.h"

namespace dl {

/// Everything that breaks those of B1 to B6 that kernels of the schedule ask for. Empty where it is
/// not legal.
std::vector<analysis::Refusal> findNotServed(const analysis::StepAnalysis &step,
                                             analysis::Schedule schedule);

/// Emits an error for each and fails if there is one.
mlir::LogicalResult requireServed(const analysis::StepAnalysis &step, analysis::Schedule schedule);

} // namespace dl

#endif // PASSES_LINATTNTOTILE_SERVED_H
