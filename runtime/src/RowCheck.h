//===- RowCheck.h - Checked mode: what the arrays of rows hold ------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_RUNTIME_ROWCHECK_H
#define DL_RUNTIME_ROWCHECK_H

#include "Arguments.h"
#include "Code.h"

namespace dl::runtime {

/// Checked mode: reads the arrays that have an entry per row and verifies what the caller of a
/// launch promises about them. `args` have passed, `params` hold the scalars; waits for `stream`,
/// allocates. Errors: DLK_INVALID_ARGUMENT, DLK_DEVICE_ERROR.
dlk_status checkRows(const Manifest &manifest, const Kernel &kernel, const ArgumentChecker &args,
                     const Executable &executable, void *stream, const char *params);

} // namespace dl::runtime

#endif // DL_RUNTIME_ROWCHECK_H
