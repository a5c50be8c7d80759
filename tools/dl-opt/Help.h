//===- Help.h - What dl-opt --help says -----------------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_TOOLS_DL_OPT_HELP_H
#define DL_TOOLS_DL_OPT_HELP_H

#include "llvm/ADT/ArrayRef.h"

namespace dl::opt {

/// Prints the help that the arguments ask for, if they do: of the passes they name, or of dl-opt.
/// Passes and options have to be registered. --help-hidden is left to LLVM, which lists all
/// options.
bool printHelp(llvm::ArrayRef<const char *> arguments);

} // namespace dl::opt

#endif // DL_TOOLS_DL_OPT_HELP_H
