//===- HostKernel.cpp - Compiles a tile kernel and calls it ---------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#include "HostKernel.h"
#include "dialects/Tile/IR/Tile.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Target/LLVMIR/ModuleTranslation.h"
#include "mlir/Transforms/Passes.h"
#include "passes/TileToCPU/Passes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "gtest/gtest.h"
#include <cstring>

using namespace mlir;
using namespace dl::test;

static LogicalResult lower(ModuleOp module) {
  PassManager manager(module.getContext());
  manager.addPass(dl::createConvertTileToCPU());
  manager.addPass(createCSEPass());
  manager.addPass(createSCFToControlFlowPass());
  manager.addPass(createConvertMathToLLVMPass());
  manager.addPass(createArithToLLVMConversionPass());
  manager.addPass(createConvertControlFlowToLLVMPass());
  manager.addPass(createReconcileUnrealizedCastsPass());
  return manager.run(module);
}

/// The default -O2 pipeline: what is undefined tends to show there.
static void optimize(llvm::Module &module) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
}

HostKernel::HostKernel(const std::string &text) {
  if (llvm::Error error = compile(text))
    ADD_FAILURE() << llvm::toString(std::move(error)) << ":\n" << text;
}

llvm::Error HostKernel::compile(const std::string &text) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  DialectRegistry registry;
  registry
      .insert<dl::tile::TileDialect, arith::ArithDialect, cf::ControlFlowDialect, gpu::GPUDialect,
              LLVM::LLVMDialect, math::MathDialect, memref::MemRefDialect, scf::SCFDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  auto module = parseSourceString<ModuleOp>(text, &context);
  if (!module || failed(lower(*module)))
    return llvm::createStringError("not lowered");
  auto function = *module->getOps<LLVM::LLVMFuncOp>().begin();
  std::string name = function.getName().str();
  scratchBytes = function->getAttrOfType<IntegerAttr>(dl::kScratchBytesAttrName).getInt();
  auto llvmContext = std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<llvm::Module> translated = translateModuleToLLVMIR(*module, *llvmContext);
  if (!translated)
    return llvm::createStringError("not translated");
  optimize(*translated);
  auto made = llvm::orc::LLJITBuilder().create();
  if (!made)
    return made.takeError();
  jit = std::move(*made);
  if (llvm::Error error = jit->addIRModule({std::move(translated), std::move(llvmContext)}))
    return error;
  auto symbol = jit->lookup(name);
  if (!symbol)
    return symbol.takeError();
  entry = symbol->toPtr<int32_t(const void *, const uint32_t *, void *)>();
  return llvm::Error::success();
}

void HostKernel::run(std::vector<uint64_t> words, uint32_t x, uint32_t y, uint32_t z) {
  if (!entry)
    return;
  // Nothing may depend on what scratch memory holds: NaN as bf16, f16 and f32 alike. Guards on both
  // sides.
  constexpr int64_t guard = 64;
  std::vector<unsigned char> memory(scratchBytes + 3 * guard, 0xFF);
  auto *start = reinterpret_cast<unsigned char *>((word(memory.data()) + guard + 63) / 64 * 64);
  const uint32_t block[3] = {x, y, z};
  EXPECT_EQ(entry(words.data(), block, start), 0);
  for (int64_t i = 1; i <= guard; ++i) {
    ASSERT_EQ(start[-i], 0xFF) << "written before the scratch memory";
    ASSERT_EQ(start[scratchBytes + i - 1], 0xFF) << "written after the scratch memory";
  }
}

std::vector<float> dl::test::randomFloats(size_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> distribution(-2, 3);
  std::vector<float> values(count);
  for (float &value : values)
    value = distribution(generator);
  return values;
}

uint16_t dl::test::toBF16(float value) {
  llvm::APFloat number(value);
  bool inexact;
  number.convert(llvm::APFloat::BFloat(), llvm::APFloat::rmNearestTiesToEven, &inexact);
  return static_cast<uint16_t>(number.bitcastToAPInt().getZExtValue());
}

float dl::test::fromBF16(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

std::string dl::test::blockedText(const std::string &name, const layout::BlockedParams &p) {
  std::string text = name + " = #tile.blocked<";
  auto list = [](auto &&values) {
    return "[" +
           llvm::join(llvm::map_range(values, [](int64_t v) { return std::to_string(v); }), ", ") +
           "]";
  };
  int64_t warps = 1;
  for (int64_t w : p.warps)
    warps *= w;
  text += "per_thread = " + list(p.perThread) + ", lanes = " + list(p.lanes) +
          ", warps = " + list(p.warps) + ", order = " + list(p.order) +
          ", num_warps = " + std::to_string(std::max(warps, p.numWarps)) + ">\n";
  return text;
}
