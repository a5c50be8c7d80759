//===- Assembler.h - PTX to machine code by ptxas ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PACKAGE_ASSEMBLER_H
#define COMPILER_PACKAGE_ASSEMBLER_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <optional>
#include <string>

namespace dl::package {

/// What the assembler says a kernel uses.
struct Resources {
  int64_t registers = 0;  ///< per thread
  int64_t spillBytes = 0; ///< stores and loads
  int64_t stackBytes = 0; ///< local memory per thread
};

struct Assembled {
  std::string cubin;
  Resources resources;
  double seconds = 0;
};

/// The assembler's path: $DL_PTXAS, PATH, $CUDA_HOME, $CUDA_PATH or /usr/local/cuda; nullopt
/// without a CUDA toolkit.
std::optional<std::string> findAssembler();

/// Assembles the PTX of one kernel for `chip` (sm_90a). A message of the C75xx group (serialised
/// wgmma, ignored register settings) is an error: the code would be right and slow.
llvm::Expected<Assembled> assemble(llvm::StringRef ptx, llvm::StringRef chip);

/// Reads registers, spills and stack from the assembler's verbose output; an error for messages
/// that mean a slow kernel.
llvm::Expected<Resources> parseAssemblerOutput(llvm::StringRef text);

} // namespace dl::package

#endif // COMPILER_PACKAGE_ASSEMBLER_H
