//===- Options.h - The command line of dl-compile ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef TOOLS_DL_COMPILE_OPTIONS_H
#define TOOLS_DL_COMPILE_OPTIONS_H

#include "compiler/Package/Compile.h"
#include "compiler/Schedule/Chunkwise.h"
#include "llvm/Support/Error.h"
#include <map>

namespace dl {

enum class Emit { Package, PTX, Cubin, LLVM, MLIR, Header };

/// A command line, checked as far as that needs no spec.
struct CompileOptions {
  std::string input, output, op;
  Emit emit = Emit::Package;
  bool json = false, explain = false;
  unsigned jobs = 0;
  std::vector<std::string> kinds, set, types;
  std::vector<const target::Target *> targets;
  std::vector<std::pair<int64_t, int64_t>> dims; ///< (K, V)
  std::vector<std::string> stateLayouts, stateTypes, ioTypes, indexTypes;
  std::map<std::string, schedule::RecurrentOverrides> schedules; ///< forced, by kind
  int64_t chunk = 0;                                             ///< of a prefill; 0: chosen
  bool isFused = false;                                          ///< a prefill in one kernel
  int64_t checkpoints = 0; ///< of a prefill, tokens between them; 0: none
  int64_t partBlocks = 0;  ///< that prepare a part of a prefill; 0: chosen
  schedule::Products products = schedule::Products::MmaSync; ///< of a prefill
  std::string precision = "auto";                            ///< of its products
  package::KernelRequest log; ///< only the fields of the kernels of a log are set
};

/// Parses argv; prints help or version and exits if asked to. Errors are one line: argument, given,
/// allowed.
llvm::Expected<CompileOptions> parseCommandLine(int argc, char **argv);

/// Every kernel that the options ask of the spec. The kernels of a log may lack their window.
llvm::Expected<std::vector<package::KernelRequest>> expandRequests(const CompileOptions &options,
                                                                   const package::Spec &spec);

} // namespace dl

#endif // TOOLS_DL_COMPILE_OPTIONS_H
