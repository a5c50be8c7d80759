//===- dl-lsp-server.cpp - Checks and completes specs in editors ----------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// MLIR's language server with the dialects of dl. An editor starts it and speaks the Language
// Server Protocol to it over standard input and output.
//
//===----------------------------------------------------------------------===//

#include "compiler/Pipelines/Pipelines.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CommandLine.h"

#include <cstdlib>

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  dl::registerDialects(registry);
  // Those of the server are yet to come; the ones that are there belong to LLVM's code generator.
  for (auto &[name, option] : llvm::cl::getRegisteredOptions())
    if (!llvm::is_contained({"help", "version"}, name))
      option->setHiddenFlag(llvm::cl::Hidden);
  return mlir::MlirLspServerMain(argc, argv, registry).succeeded() ? EXIT_SUCCESS : EXIT_FAILURE;
}
