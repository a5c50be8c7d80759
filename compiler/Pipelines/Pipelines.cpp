//===- Pipelines.cpp - The named stages from a spec to machine-level IR ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Pipelines/Pipelines.h"
#include "dialects/LinAttn/IR/LinAttn.h"
#include "dialects/Tile/IR/Tile.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "passes/LinAttn/Passes.h"
#include "passes/LinAttnToTile/Passes.h"
#include "passes/NVVM/EmitPTX.h"
#include "passes/Tile/Passes.h"
#include "passes/TileToCPU/Passes.h"
#include "passes/TileToNVVM/Passes.h"

using namespace mlir;
using namespace dl;

static void addPrepare(OpPassManager &manager, ArrayRef<std::string> set) {
  OpPassManager &nested = manager.nest<linattn::OperatorOp>();
  linattn::LinAttnSetOptionsOptions options;
  options.set.assign(set.begin(), set.end());
  nested.addPass(linattn::createLinAttnSetOptions(options));
  nested.addPass(linattn::createLinAttnExpand());
  nested.addPass(createCanonicalizerPass());
  nested.addPass(createCSEPass());
}

void dl::buildPreparePipeline(OpPassManager &manager, const PrepareOptions &options) {
  addPrepare(manager, options.set);
}

/// What comes before a scheduling pass.
static void addPlainStep(OpPassManager &manager, ArrayRef<std::string> set) {
  addPrepare(manager, set);
  manager.addNestedPass<linattn::OperatorOp>(linattn::createLinAttnHoistScalars());
  manager.addNestedPass<linattn::OperatorOp>(createCanonicalizerPass());
  manager.addNestedPass<linattn::OperatorOp>(createCSEPass());
}

/// Those of a scheduling pass, which tablegen makes, from those of its pipeline.
template <typename PassOptions, typename Options>
static PassOptions scheduleOptions(const Options &options) {
  PassOptions schedule;
  schedule.keyDim = options.keyDim;
  schedule.valueDim = options.valueDim;
  schedule.stateLayout = options.stateLayout;
  schedule.stateType = options.stateType;
  schedule.ioType = options.ioType;
  schedule.indexType = options.indexType;
  for (const std::string &type : options.types)
    schedule.argumentTypes.push_back(type);
  schedule.startsEarly = options.startsEarly;
  schedule.bytesInFlight = options.bytesInFlight;
  schedule.valueTile = options.valueTile;
  schedule.keyLanes = options.keyLanes;
  schedule.keyWarps = options.keyWarps;
  schedule.minBlocks = options.minBlocks;
  return schedule;
}

void dl::buildRecurrentPipeline(OpPassManager &manager, const RecurrentOptions &options) {
  addPlainStep(manager, options.set);
  manager.addPass(createScheduleRecurrent(scheduleOptions<ScheduleRecurrentOptions>(options)));
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
}

void dl::buildChunkwisePipeline(OpPassManager &manager, const ChunkwiseOptions &options) {
  addPlainStep(manager, options.set);
  auto schedule = scheduleOptions<ScheduleChunkwiseOptions>(options);
  schedule.chunk = options.chunk;
  schedule.partBlocks = options.partBlocks;
  schedule.products = options.products;
  schedule.checkpoints = options.checkpoints;
  schedule.precision = options.precision;
  schedule.part = options.part;
  manager.addPass(createScheduleChunkwise(schedule));
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
}

void dl::buildLogPipeline(OpPassManager &manager, const LogPipelineOptions &options) {
  addPlainStep(manager, options.set);
  auto schedule = scheduleOptions<ScheduleLogOptions>(options);
  schedule.kernel = options.kernel;
  schedule.window = options.window;
  schedule.maxTokens = options.maxTokens;
  schedule.logType = options.logType;
  manager.addPass(createScheduleLog(schedule));
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
}

void dl::buildTileToNVVMPipeline(OpPassManager &manager) {
  manager.addNestedPass<tile::KernelOp>(createTileExpandGram());
  manager.addNestedPass<tile::KernelOp>(createCSEPass());
  manager.addNestedPass<tile::KernelOp>(createTileExpandMath());
  manager.addPass(createConvertTileToNVVM());
  manager.addNestedPass<gpu::GPUModuleOp>(createCSEPass());
  manager.addNestedPass<gpu::GPUModuleOp>(createSCFToControlFlowPass());
  manager.addNestedPass<gpu::GPUModuleOp>(createArithToLLVMConversionPass());
  manager.addPass(createConvertControlFlowToLLVMPass()); // a module pass only
  manager.addNestedPass<gpu::GPUModuleOp>(createConvertNVVMToLLVMPass());
  manager.addNestedPass<gpu::GPUModuleOp>(createReconcileUnrealizedCastsPass());
  manager.addNestedPass<gpu::GPUModuleOp>(createCanonicalizerPass());
  manager.addNestedPass<gpu::GPUModuleOp>(createCSEPass());
}

void dl::buildTileToCPUPipeline(OpPassManager &manager) {
  manager.addNestedPass<tile::KernelOp>(createTileExpandGram());
  manager.addNestedPass<tile::KernelOp>(createCSEPass());
  manager.addNestedPass<tile::KernelOp>(createTileExpandMath());
  manager.addPass(createConvertTileToCPU());
  manager.addPass(createCSEPass());
  manager.addPass(createSCFToControlFlowPass());
  manager.addPass(createArithToLLVMConversionPass());
  manager.addPass(createConvertMathToLLVMPass());
  manager.addPass(createConvertControlFlowToLLVMPass());
  manager.addPass(createReconcileUnrealizedCastsPass());
}

void dl::registerDialects(DialectRegistry &registry) {
  registry.insert<linattn::LinAttnDialect, tile::TileDialect, arith::ArithDialect,
                  cf::ControlFlowDialect, func::FuncDialect, gpu::GPUDialect, LLVM::LLVMDialect,
                  math::MathDialect, memref::MemRefDialect, NVVM::NVVMDialect, scf::SCFDialect>();
  registerConvertNVVMToLLVMInterface(registry);
  registerTranslations(registry);
}

void dl::registerPasses() {
  registerCanonicalizerPass();
  registerCSEPass();
  linattn::registerLinAttnPasses();
  registerLinAttnToTilePasses();
  registerTilePasses();
  registerTileToCPUPasses();
  registerTileToNVVMPasses();
  PassPipelineRegistration<PrepareOptions>("linattn-prepare",
                                           "Sets the options of operators and expands their ops",
                                           buildPreparePipeline);
  PassPipelineRegistration<RecurrentOptions>(
      "linattn-to-recurrent", "Operators to recurrent tile kernels", buildRecurrentPipeline);
  PassPipelineRegistration<ChunkwiseOptions>("linattn-to-chunkwise",
                                             "Operators to tile kernels that take chunks of tokens",
                                             buildChunkwisePipeline);
  PassPipelineRegistration<LogPipelineOptions>(
      "linattn-to-log", "Operators to tile kernels with states as a base and a log",
      buildLogPipeline);
  PassPipelineRegistration<>("tile-to-cpu", "Tile kernels to host functions in the LLVM dialect",
                             buildTileToCPUPipeline);
  PassPipelineRegistration<>("tile-to-nvvm", "Tile kernels to the LLVM and NVVM dialects",
                             buildTileToNVVMPipeline);
}
