//===- Chunkwise.cpp - Chunks of tokens by matrix products ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   linattn.operator @op   ->   tile.kernel @op_prefill or @op_prepare
//
//===----------------------------------------------------------------------===//

#include "dialects/LinAttn/IR/LinAttn.h"
#include "dialects/Tile/IR/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/Analysis/Ranges.h"
#include "passes/LinAttnToTile/ChunkKernel.h"
#include "passes/LinAttnToTile/Passes.h"
#include "passes/LinAttnToTile/ScheduleOptions.h"
#include "passes/LinAttnToTile/Served.h"

using namespace mlir;
using namespace dl;

namespace dl {
#define GEN_PASS_DEF_SCHEDULECHUNKWISE
#include "passes/LinAttnToTile/Passes.h.inc"
} // namespace dl

namespace {

struct ScheduleChunkwise : dl::impl::ScheduleChunkwiseBase<ScheduleChunkwise> {
  using ScheduleChunkwiseBase::ScheduleChunkwiseBase;
  friend struct dl::ScheduleOptions;

  LogicalResult schedule(linattn::OperatorOp op) {
    ScheduleOptions options = ScheduleOptions::of(*this);
    FailureOr<KernelTypes> types = parseKernelTypes(op, options);
    FailureOr<analysis::StepAnalysis> step = analysis::StepAnalysis::compute(op);
    if (failed(types) || failed(step) || failed(step->require(analysis::Schedule::Chunkwise)) ||
        failed(requireServed(*step, analysis::Schedule::Chunkwise)))
      return failure();
    dl::schedule::RecurrentProblem problem;
    problem.keyDim = types->keyDim;
    problem.valueDim = types->valueDim;
    std::optional<dl::schedule::Precision> forced = dl::schedule::parsePrecision(precision);
    if (!forced && precision != "auto")
      return op.emitError() << "precision: expected auto, bf16 or hilo, got '" << precision << "'";
    const ChunkRows rows = ChunkRows::of(*step);
    llvm::Expected<dl::schedule::Products> instructions = dl::schedule::parseProducts(products);
    if (!instructions)
      return op.emitError() << llvm::toString(instructions.takeError());
    llvm::Expected<dl::schedule::ChunkPlan> plan = dl::schedule::planChunkwise(
        problem, {chunk, valueTile, minBlocks, partBlocks, *instructions, forced}, rows.count,
        analysis::boundOfFeedback(*step));
    if (!plan)
      return op.emitError() << llvm::toString(plan.takeError());
    if (checkpoints < 0 || checkpoints % plan->tokensPerChunk() != 0)
      return op.emitError() << "checkpoints: expected a multiple of the chunk's "
                            << plan->tokensPerChunk() << " tokens, got " << int64_t(checkpoints);
    types->checkpointInterval = checkpoints;
    if (part != "all" && part != "prepare" && part != "walk")
      return op.emitError() << "part: expected all, prepare or walk, got '" << part << "'";
    ChunkPart which = part == "all"    ? ChunkPart::All
                      : part == "walk" ? ChunkPart::Walk
                                       : ChunkPart::Prepare;
    return emitChunkKernel(which, op, *step, rows, *types, *plan);
  }

  void runOnOperation() override {
    for (linattn::OperatorOp op :
         llvm::make_early_inc_range(getOperation().getOps<linattn::OperatorOp>()))
      if (failed(schedule(op)))
        return signalPassFailure();
  }
};

} // namespace
