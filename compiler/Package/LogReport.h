//===- LogReport.h - What --explain says of a log ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PACKAGE_LOGREPORT_H
#define COMPILER_PACKAGE_LOGREPORT_H

#include "compiler/Package/Compile.h"
#include "compiler/Schedule/Log.h"
#include "passes/Analysis/LogEntry.h"

namespace dl::package {

/// A log's entry in the sizes and storage types of a request, to be priced.
schedule::LogProblem logProblem(const analysis::StepAnalysis &step, const analysis::LogEntry &entry,
                                const KernelRequest &request);

/// For each size and type among the requests the fields of an entry, bytes per step, the proposed
/// window, and for each target the least time. `names` are those of fields that are no copies of
/// inputs. Empty where there is nothing to log.
std::string reportLog(const analysis::StepAnalysis &step, const analysis::LogEntry &entry,
                      llvm::ArrayRef<std::string> names, llvm::ArrayRef<KernelRequest> requests);

} // namespace dl::package

#endif // COMPILER_PACKAGE_LOGREPORT_H
