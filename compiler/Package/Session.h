//===- Session.h - A spec in a context of its own ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PACKAGE_SESSION_H
#define COMPILER_PACKAGE_SESSION_H

#include "compiler/Package/Compile.h"
#include "compiler/Pipelines/Pipelines.h"
#include "dialects/LinAttn/IR/LinAttn.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "passes/Analysis/StepAnalysis.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

namespace dl::package {

/// A context with the source loaded and diagnostics, with carets, going to a string.
class Session {
public:
  Session(const Spec &spec, std::string &diagnostics);
  ~Session() { sink.flush(); }

  /// Leaves only the function-like op `symbol` in the module.
  mlir::LogicalResult isolate(llvm::StringRef symbol);
  /// The requested operator, alone, with options set and ops expanded.
  mlir::FailureOr<linattn::OperatorOp> prepare(const KernelRequest &request);
  /// What it computes.
  mlir::FailureOr<analysis::StepAnalysis> analyze(const KernelRequest &request);

  template <typename Options>
  mlir::LogicalResult run(void (*build)(mlir::OpPassManager &, const Options &),
                          const Options &options) {
    mlir::PassManager manager(&context);
    build(manager, options);
    return manager.run(*module);
  }
  mlir::LogicalResult run(mlir::ModuleOp on, void (*build)(mlir::OpPassManager &)) {
    mlir::PassManager manager(&context);
    build(manager);
    return manager.run(on);
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;

private:
  llvm::SourceMgr sources;
  llvm::raw_string_ostream sink;
  mlir::SourceMgrDiagnosticHandler handler;
};

/// The op as text, with a line end.
std::string print(mlir::Operation *op);

} // namespace dl::package

#endif // COMPILER_PACKAGE_SESSION_H
