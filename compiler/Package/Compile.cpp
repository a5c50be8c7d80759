//===- Compile.cpp - One kernel from a spec ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Package/Compile.h"
#include "compiler/Package/HostObject.h"
#include "compiler/Package/Manifest.h"
#include "compiler/Package/Session.h"
#include "compiler/Schedule/Log.h"
#include "compiler/Schedule/Recurrent.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "passes/LinAttnToTile/Passes.h"
#include "passes/NVVM/EmitPTX.h"
#include "passes/TileToCPU/Passes.h"
#include "passes/TileToNVVM/Passes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include <chrono>

using namespace mlir;
using namespace dl;
using namespace dl::package;

namespace {
double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The one function a lowered module holds.
LLVM::LLVMFuncOp findFunction(ModuleOp module, StringRef name) {
  LLVM::LLVMFuncOp found;
  module.walk([&](LLVM::LLVMFuncOp function) {
    if (function.getSymName() == name)
      found = function;
  });
  return found;
}

int64_t integerAttr(Operation *op, StringRef name) {
  auto attribute = op ? op->getAttrOfType<IntegerAttr>(name) : IntegerAttr();
  return attribute ? attribute.getInt() : 0;
}

/// The way from a tile kernel to its target, once per register budget that is tried.
class Backend {
public:
  Backend(Session &session, const KernelRequest &request, Stage stage, CompiledKernel &result)
      : session(session), request(request), stage(stage), result(result) {}

  LogicalResult run(tile::KernelOp kernel) {
    result.threads = kernel.getThreads();
    entry = kernel.getSymName().str();
    return request.target->isGPU() ? runGPU(kernel) : runHost();
  }

private:
  LogicalResult runHost();
  LogicalResult runGPU(tile::KernelOp kernel);
  LogicalResult emitGPU(int64_t registers);

  Session &session;
  const KernelRequest &request;
  Stage stage;
  CompiledKernel &result;
  std::string entry;
};

LogicalResult Backend::runHost() {
  OwningOpRef<ModuleOp> lowered = session.module->clone();
  if (failed(session.run(*lowered, buildTileToCPUPipeline)))
    return failure();
  result.scratchBytes = integerAttr(findFunction(*lowered, entry), kScratchBytesAttrName);
  FailureOr<std::string> output =
      stage == Stage::Binary ? emitHostObject(*lowered) : emitHostIR(*lowered);
  if (failed(output))
    return failure();
  (stage == Stage::Binary ? result.binary : result.text) = std::move(*output);
  return success();
}

LogicalResult Backend::emitGPU(int64_t registers) {
  OwningOpRef<ModuleOp> lowered = session.module->clone();
  for (tile::KernelOp kernel : lowered->getOps<tile::KernelOp>())
    kernel.setMaxRegisters(registers);
  if (failed(session.run(*lowered, buildTileToNVVMPipeline)))
    return failure();
  result.sharedBytes = integerAttr(findFunction(*lowered, entry), kSharedBytesAttrName);
  if (result.sharedBytes > request.target->sharedPerBlock)
    return lowered->emitError() << entry << ": needs " << result.sharedBytes
                                << " bytes of shared memory per block, " << request.target->name
                                << " has " << request.target->sharedPerBlock;
  auto kernels = *lowered->getOps<gpu::GPUModuleOp>().begin();
  PTXOptions options{request.target->chip, request.target->ptxFeature};
  if (stage == Stage::LLVM) {
    llvm::LLVMContext llvmContext;
    FailureOr<std::unique_ptr<llvm::Module>> module =
        emitNVPTXModule(kernels, options, llvmContext);
    if (failed(module))
      return failure();
    llvm::raw_string_ostream stream(result.text);
    (*module)->print(stream, nullptr);
    return success();
  }
  FailureOr<std::string> ptx = emitPTX(kernels, options);
  if (failed(ptx))
    return failure();
  result.ptx = std::move(*ptx);
  if (!findAssembler())
    return success(); // PTX alone: the driver assembles it when it is loaded
  llvm::Expected<Assembled> assembled = assemble(result.ptx, request.target->chip);
  if (!assembled)
    return lowered->emitError() << entry << ": " << llvm::toString(assembled.takeError());
  result.binary = std::move(assembled->cubin);
  result.resources = assembled->resources;
  result.assemblerSeconds += assembled->seconds;
  return success();
}

/// Bytes of state an SM has on the way when all its resident blocks load: what hides the memory's
/// latency.
int64_t bytesInFlight(const CompiledKernel &kernel) { return kernel.minBlocks * kernel.stateBytes; }

/// Register budgets to try, best first: for each number of resident blocks, from what the schedule
/// wants downwards, all that fit and the next smaller one. (The assembler sometimes fits a smaller
/// budget better.) The same registers for fewer blocks are the same PTX: not tried again.
SmallVector<std::pair<int64_t, int64_t>> registerBudgets(const target::Target &target,
                                                         int64_t threads, int64_t wanted,
                                                         int64_t stateRegisters) {
  constexpr int64_t granularity = 8;
  constexpr int64_t besideState = 16; // no kernel has come by with less

  SmallVector<std::pair<int64_t, int64_t>> budgets; // (blocks, registers)
  int64_t fitting = std::min(target.maxThreadsPerSM / threads, target.maxBlocksPerSM);
  wanted = std::clamp<int64_t>(wanted, 1, std::max<int64_t>(1, fitting));
  for (int64_t blocks = wanted; blocks >= 1; --blocks) {
    int64_t most = std::min(target.registersPerSM / (threads * blocks), target.registersPerThread);
    most = most / granularity * granularity;
    for (int64_t registers : {most, most - granularity})
      if (registers >= std::max<int64_t>(32, stateRegisters + besideState) &&
          !llvm::is_contained(llvm::make_second_range(budgets), registers))
        budgets.push_back({blocks, registers});
  }
  return budgets;
}

/// An instruction selector has no way to say no: it stops the process.
LogicalResult checkFeatures(tile::KernelOp kernel, const target::Target &target) {
  WalkResult walk = kernel.walk([&](Operation *op) {
    StringRef feature = tile::requiredFeature(op);
    if (feature.empty() || target.has(feature))
      return WalkResult::advance();
    op->emitOpError("needs ") << feature << ", which " << target.name << " does not have";
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

LogicalResult Backend::runGPU(tile::KernelOp kernel) {
  if (failed(checkFeatures(kernel, *request.target)))
    return failure();
  // The model proposes how many blocks an SM shall hold; the assembler has the last word.
  SmallVector<std::pair<int64_t, int64_t>> budgets =
      registerBudgets(*request.target, kernel.getThreads(), kernel.getMinBlocks(),
                      integerAttr(kernel, kStateRegistersAttrName));
  // A few bytes cost less than half of the blocks do, where they are none of the state.
  constexpr int64_t fewBytes = 256;
  int64_t tolerated = integerAttr(kernel, kStateRegistersAttrName) == 0 ? fewBytes : 0;
  std::string spills;
  for (auto [blocks, registers] : budgets) {
    if (request.minBlocks != 0 && blocks != request.minBlocks)
      break;
    result.minBlocks = blocks;
    if (failed(emitGPU(registers)))
      return failure();
    if (result.resources.spillBytes + result.resources.stackBytes <= tolerated) {
      if (stage == Stage::PTX)
        result.text = result.ptx;
      return success();
    }
    if (spills.empty())
      spills = llvm::formatv("spills {0} bytes with {1} registers",
                             result.resources.spillBytes + result.resources.stackBytes,
                             result.resources.registers);
  }
  if (spills.empty())
    return kernel.emitError() << request.minBlocks << " resident blocks of " << kernel.getThreads()
                              << " threads with " << integerAttr(kernel, kStateRegistersAttrName)
                              << " registers of state: " << request.target->name << " holds "
                              << (budgets.empty() ? 0 : budgets.front().first);
  return kernel.emitError()
         << spills << " on " << request.target->name
         << "; expected none: choose a smaller value tile or fewer resident blocks";
}

/// What the pipelines that schedule kernels share.
template <typename Options> void setOptions(const KernelRequest &request, Options &options) {
  options.set = ArrayRef<std::string>(request.set);
  options.keyDim = request.keyDim;
  options.valueDim = request.valueDim;
  options.stateLayout = request.stateLayout;
  options.stateType = request.stateType;
  options.ioType = request.ioType;
  options.indexType = request.indexType;
  options.types = ArrayRef<std::string>(request.types);
  options.startsEarly = request.target->has("pdl");
  options.bytesInFlight =
      schedule::bytesInFlightFor(request.target->memoryGBs, request.target->smCount);
  options.valueTile = request.valueTile;
  options.keyLanes = request.keyLanes;
  options.keyWarps = request.keyWarps;
  options.minBlocks = request.minBlocks;
}

LogicalResult runSchedule(Session &session, const KernelRequest &request) {
  if (request.kind == "tile")
    return success();
  if (request.kind == "prefill") {
    ChunkwiseOptions options;
    setOptions(request, options);
    options.chunk = request.chunk;
    options.partBlocks = request.partBlocks;
    options.products = request.products;
    options.checkpoints = request.checkpoints;
    options.precision = request.precision;
    options.part = request.part;
    return session.run<ChunkwiseOptions>(buildChunkwisePipeline, options);
  }
  if (!request.isLog()) {
    RecurrentOptions options;
    setOptions(request, options);
    return session.run<RecurrentOptions>(buildRecurrentPipeline, options);
  }
  LogPipelineOptions options;
  setOptions(request, options);
  options.kernel = request.kind;
  options.window = request.window;
  options.maxTokens = request.maxTokens;
  options.logType = request.logType;
  return session.run<LogPipelineOptions>(buildLogPipeline, options);
}

void fillManifest(const KernelRequest &request, CompiledKernel &kernel) {
  llvm::json::Object &m = kernel.manifest;
  m["name"] = kernel.name;
  if (request.part == "prepare") {
    KernelRequest walk = request;
    walk.part = "walk";
    m["prepares"] = walk.name();
  }
  m["kind"] = request.kind;
  m["target"] = request.target->name;
  m["dims"] = llvm::json::Object{{"K", request.keyDim}, {"V", request.valueDim}};
  m["state_layout"] = request.stateLayout;
  m["state_type"] = request.stateType;
  m["io_type"] = request.ioType;
  m["index_type"] = request.indexType;
  m["schedule"] = request.schedule;
  m["variant"] =
      llvm::json::Object{{"min_blocks", kernel.minBlocks}, {"key_warps", kernel.keyWarps}};
  m["shared_bytes"] = kernel.sharedBytes;
  m["registers"] = kernel.resources.registers;
  m["spill_bytes"] = kernel.resources.spillBytes;
  m["scratch_bytes"] = kernel.scratchBytes;
  if (request.checkpoints != 0)
    m["checkpoint_interval"] = request.checkpoints;
  if (request.isLog()) {
    m["window"] = request.window;
    m["max_tokens"] = request.maxTokens;
    m["ring"] = schedule::ringCapacity(request.window, request.maxTokens);
    m["log_type"] = request.logType;
  }
}
} // namespace

bool KernelRequest::isLog() const {
  return llvm::is_contained({"plan", "append", "merge", "materialize"}, kind);
}

std::string KernelRequest::name() const {
  if (kind == "tile")
    return symbol;
  std::string name = llvm::formatv("{0}.{1}.{2}x{3}.{4}.{5}.{6}", symbol, kind, keyDim, valueDim,
                                   stateLayout, stateType, ioType);
  if (indexType != "i32")
    name += "." + indexType;
  for (StringRef type : types)
    name += ("." + type.split('=').first + "-" + type.split('=').second).str();
  if (chunk != 0)
    name += llvm::formatv(".c{0}", chunk);
  if (checkpoints != 0)
    name += llvm::formatv(".every{0}", checkpoints);
  if (isLog()) {
    name += llvm::formatv(".w{0}t{1}", window, maxTokens);
    if (logType != "f32")
      name += ".log" + logType;
  }
  if (!variant.empty())
    name += "." + variant;
  if (part == "prepare")
    name += ".prepare";
  return name;
}

static FailureOr<CompiledKernel> compileOnce(const Spec &spec, const KernelRequest &request,
                                             Stage stage, std::string &diagnostics) {
  Session session(spec, diagnostics);
  if (failed(session.isolate(request.symbol)) || failed(runSchedule(session, request)))
    return failure();
  auto kernels = session.module->getOps<tile::KernelOp>();
  if (kernels.empty()) {
    session.module->emitError() << "no operator or kernel '" << request.symbol << "'";
    return failure();
  }
  tile::KernelOp kernel = *kernels.begin();
  if (failed(checkArguments(kernel)))
    return failure();
  CompiledKernel result;
  result.name = request.name();
  result.stateBytes = integerAttr(kernel, kStateBytesAttrName);
  result.keyWarps = integerAttr(kernel, kKeyWarpsAttrName);
  result.manifest = describeKernel(kernel);
  if (stage == Stage::Tile)
    result.text = print(*session.module);
  else if (failed(Backend(session, request, stage, result).run(kernel)))
    return failure();
  fillManifest(request, result);
  return result;
}

static schedule::RecurrentProblem problemOf(const KernelRequest &request) {
  schedule::RecurrentProblem problem;
  problem.keyDim = request.keyDim;
  problem.valueDim = request.valueDim;
  problem.stateBytes = request.stateType == "f32" ? 4 : 2;
  problem.bytesInFlight =
      schedule::bytesInFlightFor(request.target->memoryGBs, request.target->smCount);
  problem.layout =
      request.stateLayout == "vk" ? schedule::StateLayout::VK : schedule::StateLayout::KV;
  return problem;
}

static schedule::RecurrentOverrides forcedBy(const KernelRequest &request) {
  return {request.valueTile, request.keyLanes, request.keyWarps, request.minBlocks};
}

/// Whether it keeps states in registers as planRecurrent deals them, on a GPU.
static bool isRecurrentOnGPU(const KernelRequest &request) {
  bool isScheduled = request.schedule == "recurrent" || (request.isLog() && request.kind != "plan");
  return request.target->isGPU() && isScheduled;
}

/// The ways to schedule the request, best first.
static std::vector<KernelRequest> alternativesOf(const KernelRequest &request) {
  std::vector<KernelRequest> result;
  bool choose = isRecurrentOnGPU(request) && findAssembler();
  for (const schedule::RecurrentOverrides &overrides :
       schedule::recurrentAlternatives(problemOf(request), forcedBy(request))) {
    result.push_back(request);
    result.back().keyWarps = overrides.keyWarps;
    if (!choose)
      break;
  }
  return result;
}

/// The request with ever fewer columns of V per block, where that is left to choose: an operator
/// that keeps much beside its state needs fewer. Other columns are other blocks, and change no
/// bits.
static std::vector<KernelRequest> narrower(const KernelRequest &request) {
  std::vector<KernelRequest> result;
  if (!isRecurrentOnGPU(request) || request.valueTile != 0)
    return result;
  KernelRequest half = request;
  do {
    llvm::Expected<schedule::RecurrentPlan> plan =
        schedule::planRecurrent(problemOf(half), forcedBy(half));
    if (!plan) {
      llvm::consumeError(plan.takeError());
      break;
    }
    if (half.valueTile != 0)
      result.push_back(half);
    half.valueTile = plan->valueTile / 2;
  } while (half.valueTile != 0);
  return result;
}

/// The best of the ways to schedule the request.
static FailureOr<CompiledKernel> compileBest(const Spec &spec, const KernelRequest &request,
                                             Stage stage, std::string &diagnostics) {
  std::vector<KernelRequest> alternatives = alternativesOf(request);
  std::optional<CompiledKernel> best;
  KernelRequest chosen = alternatives.front();
  double assemblerSeconds = 0;
  std::string firstMessages;
  for (const KernelRequest &alternative : alternatives) {
    // Where there is something to choose, machine code decides, whatever stage was asked for.
    std::string messages;
    FailureOr<CompiledKernel> kernel =
        compileOnce(spec, alternative, alternatives.size() > 1 ? Stage::Binary : stage, messages);
    if (firstMessages.empty())
      firstMessages = messages;
    if (failed(kernel))
      continue;
    assemblerSeconds += kernel->assemblerSeconds;
    if (best && bytesInFlight(*best) >= bytesInFlight(*kernel))
      continue;
    best = std::move(*kernel);
    diagnostics = messages; // warnings
    chosen = alternative;
    if (bytesInFlight(*best) >= schedule::enoughBytesInFlight(problemOf(request)))
      break;
  }
  if (!best) {
    for (const KernelRequest &half : narrower(request)) {
      std::string messages;
      FailureOr<CompiledKernel> kernel = compileBest(spec, half, stage, messages);
      if (succeeded(kernel))
        return kernel;
    }
    diagnostics = firstMessages;
    return failure();
  }
  if (alternatives.size() > 1 && stage != Stage::Binary) {
    chosen.minBlocks = best->minBlocks;
    FailureOr<CompiledKernel> again = compileOnce(spec, chosen, stage, diagnostics);
    if (failed(again))
      return failure();
    best = std::move(*again);
  }
  best->assemblerSeconds = assemblerSeconds;
  return std::move(*best);
}

static FailureOr<int64_t> keyWarpsOfDecode(const Spec &spec, const KernelRequest &request,
                                           std::string &diagnostics) {
  KernelRequest decode = request;
  decode.kind = "decode";
  decode.valueTile = decode.minBlocks = 0; // no matter of bits
  if (alternativesOf(decode).size() == 1)
    return request.keyWarps;
  FailureOr<CompiledKernel> kernel = compileBest(spec, decode, Stage::Binary, diagnostics);
  if (failed(kernel))
    return failure();
  return kernel->keyWarps;
}

/// A token on an empty log gives the bits of decode where K is dealt as the decode kernel has it.
/// Its registers may not suffice here: then other bits are better than no kernel.
static FailureOr<CompiledKernel> compileLikeDecode(const Spec &spec, const KernelRequest &request,
                                                   Stage stage, std::string &diagnostics) {
  FailureOr<int64_t> keyWarps = keyWarpsOfDecode(spec, request, diagnostics);
  if (failed(keyWarps))
    return failure();
  KernelRequest alike = request;
  alike.keyWarps = *keyWarps;
  std::string messages;
  FailureOr<CompiledKernel> kernel = compileBest(spec, alike, stage, messages);
  if (failed(kernel) && alike.keyWarps != request.keyWarps)
    return compileBest(spec, request, stage, diagnostics);
  diagnostics += messages;
  return kernel;
}

FailureOr<CompiledKernel> dl::package::compileKernel(const Spec &spec, const KernelRequest &request,
                                                     Stage stage, std::string &diagnostics) {
  auto start = std::chrono::steady_clock::now();
  FailureOr<CompiledKernel> kernel = request.kind == "append"
                                         ? compileLikeDecode(spec, request, stage, diagnostics)
                                         : compileBest(spec, request, stage, diagnostics);
  if (succeeded(kernel))
    kernel->seconds = secondsSince(start);
  return kernel;
}

/// The condition under which a variant is launched, as the manifest has it.
static llvm::json::Array conditionOf(const schedule::RecurrentVariant &variant) {
  llvm::json::Object condition{{"expr", llvm::json::Array{"mul", "N", "HV"}}};
  if (variant.minHeads > 0)
    condition["min"] = variant.minHeads;
  if (variant.maxHeads < INT64_MAX)
    condition["max"] = variant.maxHeads;
  return llvm::json::Array{std::move(condition)};
}

std::vector<CompiledKernel> dl::package::compileVariants(const Spec &spec,
                                                         const KernelRequest &request,
                                                         const CompiledKernel &usual) {
  bool isForced = request.valueTile || request.keyLanes || request.keyWarps || request.minBlocks;
  if (isForced || request.target->measuredOn.empty() || request.kind != "decode" ||
      usual.binary.empty())
    return {};
  schedule::RecurrentProblem problem = problemOf(request);
  schedule::RecurrentOverrides dealing;
  dealing.keyWarps = request.stateLayout == "kv" ? usual.keyWarps : 0;
  llvm::Expected<schedule::RecurrentPlan> plan = schedule::planRecurrent(problem, dealing);
  if (!plan) {
    llvm::consumeError(plan.takeError());
    return {};
  }
  // The operator may have wanted another tile, or have several states.
  if (usual.stateBytes != problem.keyDim * plan->valueTile * problem.stateBytes)
    return {};
  plan->minBlocks = usual.minBlocks;
  std::vector<CompiledKernel> result;
  for (const schedule::RecurrentVariant &variant :
       schedule::recurrentVariants(problem, *plan, request.target->smCount)) {
    KernelRequest other = request;
    other.variant = variant.name;
    other.valueTile = variant.overrides.valueTile;
    other.keyLanes = variant.overrides.keyLanes;
    other.keyWarps = variant.overrides.keyWarps;
    other.minBlocks = variant.overrides.minBlocks;
    std::string unused;
    FailureOr<CompiledKernel> kernel = compileKernel(spec, other, Stage::Binary, unused);
    if (failed(kernel))
      continue;
    kernel->manifest["variant_of"] = usual.name;
    kernel->manifest["when"] = conditionOf(variant);
    kernel->manifest["measured"] = (request.target->measuredOn + ", " + variant.measured).str();
    result.push_back(std::move(*kernel));
  }
  return result;
}
