//===- EmitPTX.h - A module of kernels as PTX text ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_NVVM_EMITPTX_H
#define PASSES_NVVM_EMITPTX_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/DialectRegistry.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include <string>

namespace dl {

/// Registers the translations from MLIR to LLVM IR that the emitters need.
void registerTranslations(mlir::DialectRegistry &registry);

/// Runs the passes that `build` makes on a module, with the analyses of its machine registered.
void runLLVMPasses(llvm::Module &module, llvm::TargetMachine &machine,
                   llvm::function_ref<llvm::ModulePassManager(llvm::PassBuilder &)> build);

struct PTXOptions {
  llvm::StringRef chip;     ///< -mcpu: "sm_90a"
  llvm::StringRef features; ///< -mattr: "+ptx80"
};

/// Code generation without loop-strength reduction. LLVM has one switch for the whole process:
/// whoever makes a target machine, for a GPU or the host, calls this first, or the code would
/// depend on which of them came first.
void disableLoopStrengthReduction();

/// LLVM IR of the module (LLVM and NVVM dialects only), optimised for the chip. Diagnostics go to
/// the module.
mlir::FailureOr<std::unique_ptr<llvm::Module>> emitNVPTXModule(mlir::gpu::GPUModuleOp module,
                                                               const PTXOptions &options,
                                                               llvm::LLVMContext &context);

/// PTX text of an LLVM module made by emitNVPTXModule.
mlir::FailureOr<std::string> emitPTX(mlir::gpu::GPUModuleOp module, const PTXOptions &options);

} // namespace dl

#endif // PASSES_NVVM_EMITPTX_H
