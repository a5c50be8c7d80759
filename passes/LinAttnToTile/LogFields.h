//===- LogFields.h - The fields of a log in memory ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The analysis says what an entry has to hold (Analysis/LogEntry.h), the traffic model in which
// form. Here a field gets a name, a type and a place: an array [slots, heads, R] with K or V
// numbers per entry, or one.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LINATTNTOTILE_LOGFIELDS_H
#define PASSES_LINATTNTOTILE_LOGFIELDS_H

#include "compiler/Schedule/Log.h"
#include "passes/Analysis/LogEntry.h"
#include "passes/LinAttnToTile/KernelArguments.h"
#include "passes/LinAttnToTile/LogOptions.h"

namespace dl {

struct HeldField {
  std::string name;          ///< of the argument
  mlir::Type element;        ///< in memory
  linattn::Axis axis;        ///< key, value or scalar
  linattn::HeadGroup group;  ///< whose it is
  mlir::BlockArgument input; ///< a copy of this one, or null
};

/// The problem of the traffic model, with as many value heads as key heads.
schedule::LogProblem logProblem(const analysis::StepAnalysis &step, const analysis::LogEntry &entry,
                                const KernelTypes &types, const LogOptions &options);

/// How each field of the entry is held in the forms of `plan`.
std::vector<HeldField> holdFields(const analysis::StepAnalysis &step,
                                  const analysis::LogEntry &entry, const schedule::LogPlan &plan,
                                  const KernelTypes &types, const LogOptions &options);

/// Adds an array for each field; returns their positions.
llvm::SmallVector<unsigned> addLogArguments(KernelArguments &arguments,
                                            mlir::ArrayRef<HeldField> fields,
                                            const KernelTypes &types, const LogOptions &options,
                                            llvm::StringRef access);

} // namespace dl

#endif // PASSES_LINATTNTOTILE_LOGFIELDS_H
