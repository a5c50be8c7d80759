//===- Internal.h - The steps of the analysis -----------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_PASSES_ANALYSIS_INTERNAL_H
#define DL_PASSES_ANALYSIS_INTERNAL_H

#include "passes/Analysis/StepAnalysis.h"

namespace dl::analysis {

/// The conditions a schedule can ask for, as StepAnalysis.h numbers them.
constexpr llvm::StringLiteral kNotPerElement = "A1", kNoValueDecay = "A2", kNoValueGate = "A3",
                              kAffine = "A4";

/// Given the paths of the states and the writes on them, finds the reads and all affine forms, and
/// what breaks A1 and A4.
void walkAffine(StepAnalysis &analysis);

/// Finds what breaks A2 and A3, and orders what was found.
void checkConditions(StepAnalysis &analysis);

} // namespace dl::analysis

#endif // DL_PASSES_ANALYSIS_INTERNAL_H
