//===- Tool.h - Programs that finish what LLVM cannot ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PACKAGE_TOOL_H
#define COMPILER_PACKAGE_TOOL_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>

namespace dl::package {

/// The program's path: what the environment variable says, a path or a name on PATH (empty: none);
/// without the variable the first of `names` on PATH.
std::optional<std::string> findTool(const char *variable, llvm::ArrayRef<llvm::StringRef> names);

struct ToolResult {
  std::string output; ///< never empty
  std::string log;    ///< standard output and error
  double seconds = 0;
};

/// Runs `tool options... INPUT -o OUTPUT` with temporary files. The error is one line: the first
/// that the tool said, or how it ended.
llvm::Expected<ToolResult> runTool(llvm::StringRef tool, llvm::ArrayRef<llvm::StringRef> options,
                                   llvm::StringRef input);

} // namespace dl::package

#endif // COMPILER_PACKAGE_TOOL_H
