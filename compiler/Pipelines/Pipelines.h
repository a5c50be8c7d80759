//===- Pipelines.h - The named stages from a spec to machine-level IR ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PIPELINES_PIPELINES_H
#define COMPILER_PIPELINES_PIPELINES_H

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"

namespace dl {

// NOLINTBEGIN(misc-multiple-inheritance): MLIR's options of pipelines have two bases.

/// What kernels of an operator are compiled for, and how they are scheduled.
// NOLINTNEXTLINE(bugprone-crtp-constructor-accessibility): options are made by name, as MLIR's are.
template <typename Options> struct KernelOptions : mlir::PassPipelineOptions<Options> {
  template <typename T>
  using Option = typename mlir::PassPipelineOptions<Options>::template Option<T>;
  template <typename T>
  using ListOption = typename mlir::PassPipelineOptions<Options>::template ListOption<T>;

  ListOption<std::string> set{
      *this, "set", llvm::cl::desc("options of the operator, NAME=VALUE, comma separated")};
  Option<int64_t> keyDim{*this, "key-dim", llvm::cl::desc("K, the key dimension"),
                         llvm::cl::init(128)};
  Option<int64_t> valueDim{*this, "value-dim", llvm::cl::desc("V, the value dimension"),
                           llvm::cl::init(128)};
  Option<std::string> stateLayout{*this, "state-layout", llvm::cl::desc("kv or vk"),
                                  llvm::cl::init("kv")};
  Option<std::string> stateType{*this, "state-type", llvm::cl::desc("f32, bf16 or f16"),
                                llvm::cl::init("f32")};
  Option<std::string> ioType{*this, "io-type", llvm::cl::desc("f32, bf16 or f16"),
                             llvm::cl::init("bf16")};
  Option<std::string> indexType{*this, "index-type", llvm::cl::desc("i32 or i64"),
                                llvm::cl::init("i32")};
  ListOption<std::string> types{*this, "types",
                                llvm::cl::desc("storage types of single arguments, NAME=TYPE")};
  Option<bool> startsEarly{*this, "starts-early",
                           llvm::cl::desc("let a launch overlap the end of the one before it"),
                           llvm::cl::init(false)};
  Option<int64_t> bytesInFlight{
      *this, "bytes-in-flight",
      llvm::cl::desc("bytes of state that an SM should have on the way at once"),
      llvm::cl::init(96 * 1024)};
  Option<int64_t> valueTile{*this, "value-tile",
                            llvm::cl::desc("columns of V per block, 0: chosen"), llvm::cl::init(0)};
  Option<int64_t> keyLanes{*this, "key-lanes",
                           llvm::cl::desc("lanes that share the sum over K, 0: chosen"),
                           llvm::cl::init(0)};
  Option<int64_t> keyWarps{*this, "key-warps",
                           llvm::cl::desc("warps that share the sum over K, 0: chosen"),
                           llvm::cl::init(0)};
  Option<int64_t> minBlocks{*this, "min-blocks",
                            llvm::cl::desc("resident blocks per SM, 0: chosen"), llvm::cl::init(0)};
};

/// `--linattn-to-recurrent`: operators to recurrent tile kernels.
struct RecurrentOptions : KernelOptions<RecurrentOptions> {};
void buildRecurrentPipeline(mlir::OpPassManager &manager, const RecurrentOptions &options);

/// `--linattn-to-chunkwise`: operators to tile kernels that take chunks of tokens.
struct ChunkwiseOptions : KernelOptions<ChunkwiseOptions> {
  Option<int64_t> chunk{*this, "chunk",
                        llvm::cl::desc("rows taken at a time: 16, 32, 64 or 128, 0: chosen"),
                        llvm::cl::init(0)};
  Option<int64_t> partBlocks{*this, "part-blocks",
                             llvm::cl::desc("blocks that prepare a part, 0: chosen"),
                             llvm::cl::init(0)};
  Option<int64_t> checkpoints{*this, "checkpoints",
                              llvm::cl::desc("tokens between checkpoints of a row, 0: none"),
                              llvm::cl::init(0)};
  Option<std::string> products{*this, "products",
                               llvm::cl::desc("instructions of products: mma.sync or wgmma"),
                               llvm::cl::init("mma.sync")};
  Option<std::string> precision{*this, "precision",
                                llvm::cl::desc("bf16, hilo, or auto: by the factor of feedback"),
                                llvm::cl::init("auto")};
  Option<std::string> part{*this, "part", llvm::cl::desc("all, or in two kernels prepare or walk"),
                           llvm::cl::init("all")};
};
void buildChunkwisePipeline(mlir::OpPassManager &manager, const ChunkwiseOptions &options);

/// `--linattn-to-log`: operators to a tile kernel that keeps their states as a base and a log.
struct LogPipelineOptions : KernelOptions<LogPipelineOptions> {
  Option<std::string> kernel{*this, "kernel", llvm::cl::desc("plan, append, merge or materialize"),
                             llvm::cl::init("plan")};
  Option<int64_t> window{*this, "window", llvm::cl::desc("entries of a log before it is merged"),
                         llvm::cl::init(16)};
  Option<int64_t> maxTokens{*this, "max-tokens",
                            llvm::cl::desc("tokens that a row of a step has at most"),
                            llvm::cl::init(4)};
  Option<std::string> logType{*this, "log-type",
                              llvm::cl::desc("f32 or bf16: numbers that are computed"),
                              llvm::cl::init("f32")};
};
void buildLogPipeline(mlir::OpPassManager &manager, const LogPipelineOptions &options);

/// `--linattn-prepare`: options set and ops expanded, still an operator.
struct PrepareOptions : mlir::PassPipelineOptions<PrepareOptions> {
  ListOption<std::string> set{
      *this, "set", llvm::cl::desc("options of the operator, NAME=VALUE, comma separated")};
};
void buildPreparePipeline(mlir::OpPassManager &manager, const PrepareOptions &options);

// NOLINTEND(misc-multiple-inheritance)

/// `--tile-to-nvvm`: tile kernels to a gpu.module in the LLVM and NVVM dialects.
void buildTileToNVVMPipeline(mlir::OpPassManager &manager);

/// `--tile-to-cpu`: tile kernels to host functions in the LLVM dialect.
void buildTileToCPUPipeline(mlir::OpPassManager &manager);

/// Every dialect, interface and translation the tools need.
void registerDialects(mlir::DialectRegistry &registry);
/// Every pass and pipeline, for dl-opt.
void registerPasses();

} // namespace dl

#endif // COMPILER_PIPELINES_PIPELINES_H
