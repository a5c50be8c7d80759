//===- HostObject.cpp - Kernels of the cpu target as a shared object ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Package/HostObject.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "passes/NVVM/EmitPTX.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"

using namespace mlir;

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

/// Any ELF linker will do: $DL_LD (empty: none), or the first of the usual names on PATH.
static std::optional<std::string> findLinker() {
  if (std::optional<std::string> given = llvm::sys::Process::GetEnv("DL_LD"))
    return given->empty() ? std::nullopt : given;
  for (const char *name : {"ld.lld-22", "ld.lld", "ld"})
    if (llvm::ErrorOr<std::string> found = llvm::sys::findProgramByName(name))
      return *found;
  return std::nullopt;
}

static FailureOr<std::string> linkShared(ModuleOp module, StringRef object) {
  std::optional<std::string> linker = findLinker();
  if (!linker)
    return module.emitError(
        "no linker for the cpu target: expected ld.lld or ld on PATH, or its path in DL_LD");
  SmallString<128> input, output, log;
  int descriptor;
  if (llvm::sys::fs::createTemporaryFile("dl", "o", descriptor, input) ||
      llvm::sys::fs::createTemporaryFile("dl", "so", output) ||
      llvm::sys::fs::createTemporaryFile("dl", "log", log))
    return module.emitError("cannot create a temporary file");
  llvm::FileRemover removeInput(input), removeOutput(output), removeLog(log);
  {
    llvm::raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
    stream << object;
  }
  StringRef arguments[] = {*linker, "-shared", "--build-id=none", "-s", input, "-o", output};
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(log), StringRef(log)};
  std::string message;
  int status = llvm::sys::ExecuteAndWait(*linker, arguments, std::nullopt, redirects,
                                         /*SecondsToWait=*/120, 0, &message);
  auto read = [](StringRef path) {
    auto buffer = llvm::MemoryBuffer::getFile(path);
    return buffer ? (*buffer)->getBuffer().str() : std::string();
  };
  if (status != 0)
    return module.emitError("linking the host object failed: ")
           << *linker << ": "
           << (message.empty() ? "status " + std::to_string(status) + " " + read(log) : message);
  return read(output);
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
