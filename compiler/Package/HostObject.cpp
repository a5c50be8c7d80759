//===- HostObject.cpp - Kernels of the cpu target as a shared object ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Package/HostObject.h"
#include "compiler/Package/Tool.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "passes/NVVM/EmitPTX.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"

using namespace mlir;
using namespace dl::package;

extern "C" {
void LLVMInitializeX86Target();
void LLVMInitializeX86TargetInfo();
void LLVMInitializeX86TargetMC();
void LLVMInitializeX86AsmPrinter();
}

static std::unique_ptr<llvm::TargetMachine> makeHostMachine(std::string &error) {
  static const bool once = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    dl::disableLoopStrengthReduction();
    return true;
  }();
  (void)once;
  llvm::Triple triple("x86_64-unknown-linux-gnu");
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict; // as on the GPU
  // x86-64-v3 has fused multiply-add, without which the lane-by-lane sums would not be the GPU's.
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, "x86-64-v3", "", options, llvm::Reloc::PIC_, std::nullopt,
                                  llvm::CodeGenOptLevel::Default));
}

namespace {
/// The optimised LLVM module with the machine that it is for.
struct HostModule {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<llvm::Module> module;

  LogicalResult build(ModuleOp from) {
    std::string error;
    machine = makeHostMachine(error);
    if (!machine)
      return from.emitError(error);
    module = translateModuleToLLVMIR(from, context, "host");
    if (!module)
      return failure();
    module->setTargetTriple(machine->getTargetTriple());
    module->setDataLayout(machine->createDataLayout());
    dl::runLLVMPasses(*module, *machine, [](llvm::PassBuilder &builder) {
      return builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2);
    });
    return success();
  }
};
} // namespace

static FailureOr<std::string> linkShared(ModuleOp module, StringRef object) {
  // Any ELF linker will do.
  std::optional<std::string> linker = findTool("DL_LD", {"ld.lld-22", "ld.lld", "ld"});
  if (!linker)
    return module.emitError(
        "no linker for the cpu target: expected ld.lld or ld on PATH, or its path in DL_LD");
  llvm::Expected<ToolResult> run = runTool(*linker, {"-shared", "--build-id=none", "-s"}, object);
  if (!run)
    return module.emitError("linking the host object failed: ")
           << *linker << ": " << llvm::toString(run.takeError());
  return std::move(run->output);
}

FailureOr<std::string> dl::package::emitHostObject(ModuleOp module) {
  HostModule host;
  if (failed(host.build(module)))
    return failure();
  SmallString<0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager passes;
  if (host.machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile))
    return module.emitError("LLVM has no object writer for the host");
  passes.run(*host.module);
  return linkShared(module, object);
}

FailureOr<std::string> dl::package::emitHostIR(ModuleOp module) {
  HostModule host;
  if (failed(host.build(module)))
    return failure();
  std::string text;
  llvm::raw_string_ostream stream(text);
  host.module->print(stream, nullptr);
  return text;
}
