//===- PlanCheck.h - Checked mode: a step of a log ------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_RUNTIME_PLANCHECK_H
#define DL_RUNTIME_PLANCHECK_H

#include "Arguments.h"
#include "Code.h"

namespace dl::runtime {

/// Checked mode of a kernel that plans a step of a log: verifies what LogProtocol.md calls the
/// promise, and the cursors that the step reads. `args` have passed, the stream has been waited
/// for; `tokens` is the scalar of that name. Errors: DLK_INVALID_ARGUMENT, DLK_DEVICE_ERROR.
dlk_status checkPlan(const Manifest &manifest, const Kernel &kernel, const ArgumentChecker &args,
                     const Executable &executable, int64_t firstSlot, int64_t tokens);

} // namespace dl::runtime

#endif // DL_RUNTIME_PLANCHECK_H
