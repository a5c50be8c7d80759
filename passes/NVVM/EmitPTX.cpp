//===- EmitPTX.cpp - A module of kernels as PTX text ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/NVVM/EmitPTX.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"

using namespace mlir;

extern "C" {
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

void dl::registerTranslations(DialectRegistry &registry) {
  registerBuiltinDialectTranslation(registry);
  registerGPUDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
}

/// The LLVM dialect's inline assembly cannot say "convergent" or "touches no memory". Without the
/// first, LLVM may move warp-wide instructions into branches.
static void annotateInlineAssembly(llvm::Module &module) {
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::instructions(function)) {
      auto *call = llvm::dyn_cast<llvm::CallInst>(&instruction);
      auto *text = call ? llvm::dyn_cast<llvm::InlineAsm>(call->getCalledOperand()) : nullptr;
      if (!text)
        continue;
      call->setConvergent();
      call->setDoesNotThrow();
      if (!text->hasSideEffects()) {
        call->setDoesNotAccessMemory();
        call->addFnAttr(llvm::Attribute::WillReturn);
      }
    }
}

/// The code generator's own loop-strength reduction has no other switch than its command-line
/// option.
void dl::disableLoopStrengthReduction() {
  static const bool once = [] {
    auto &options = llvm::cl::getRegisteredOptions();
    if (auto found = options.find("disable-lsr"); found != options.end())
      static_cast<llvm::cl::opt<bool> *>(found->second)->setValue(true);
    return true;
  }();
  (void)once;
}

static std::unique_ptr<llvm::TargetMachine> makeMachine(const dl::PTXOptions &options,
                                                        std::string &error) {
  static const bool once = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    dl::disableLoopStrengthReduction();
    return true;
  }();
  (void)once;
  llvm::Triple triple("nvptx64-nvidia-cuda");
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  llvm::TargetOptions targetOptions;
  // Only fused multiply-adds that the IR spells out: results then depend on no one's choice of
  // contraction.
  targetOptions.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, options.chip, options.features, targetOptions,
                                  std::nullopt, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

void dl::runLLVMPasses(llvm::Module &module, llvm::TargetMachine &machine,
                       llvm::function_ref<llvm::ModulePassManager(llvm::PassBuilder &)> build) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  build(builder).run(module, modules);
}

/// Scalar clean-up only. The kernels come unrolled and in the order they are to be issued; loop
/// passes would hoist addresses out of the token loop and turn them into running pointers, two
/// registers each, which the state needs more.
static llvm::ModulePassManager buildCleanUp(llvm::PassBuilder &builder) {
  llvm::ModulePassManager pipeline;
  llvm::cantFail(builder.parsePassPipeline(
      pipeline, "function(sroa,early-cse<memssa>,instcombine<no-verify-fixpoint>,simplifycfg,gvn,"
                "instcombine<no-verify-fixpoint>,simplifycfg,adce)"));
  return pipeline;
}

FailureOr<std::unique_ptr<llvm::Module>> dl::emitNVPTXModule(gpu::GPUModuleOp module,
                                                             const PTXOptions &options,
                                                             llvm::LLVMContext &context) {
  std::string error;
  std::unique_ptr<llvm::TargetMachine> machine = makeMachine(options, error);
  if (!machine)
    return module.emitError(error);
  std::unique_ptr<llvm::Module> result = translateModuleToLLVMIR(module, context, module.getName());
  if (!result)
    return failure();
  annotateInlineAssembly(*result);
  result->setTargetTriple(llvm::Triple("nvptx64-nvidia-cuda"));
  result->setDataLayout(machine->createDataLayout());
  runLLVMPasses(*result, *machine, buildCleanUp);
  return result;
}

FailureOr<std::string> dl::emitPTX(gpu::GPUModuleOp module, const PTXOptions &options) {
  llvm::LLVMContext context;
  FailureOr<std::unique_ptr<llvm::Module>> llvmModule = emitNVPTXModule(module, options, context);
  if (failed(llvmModule))
    return failure();
  std::string error;
  std::unique_ptr<llvm::TargetMachine> machine = makeMachine(options, error);
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile))
    return module.emitError("LLVM has no PTX printer for ") << options.chip;
  passes.run(**llvmModule);
  return text.str().str();
}
