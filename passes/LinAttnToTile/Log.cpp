//===- Log.cpp - States as a base and a log of updates ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   linattn.operator @op   ->   tile.kernel @op_plan, @op_append, @op_merge or @op_materialize
//
//===----------------------------------------------------------------------===//

#include "dialects/LinAttn/IR/LinAttn.h"
#include "dialects/Tile/IR/Tile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "passes/LinAttnToTile/LogKernel.h"
#include "passes/LinAttnToTile/Passes.h"
#include "passes/LinAttnToTile/PlanKernel.h"
#include "passes/LinAttnToTile/ScheduleOptions.h"

using namespace mlir;
using namespace dl;

namespace dl {
#define GEN_PASS_DEF_SCHEDULELOG
#include "passes/LinAttnToTile/Passes.h.inc"
} // namespace dl

namespace {

struct ScheduleLog : dl::impl::ScheduleLogBase<ScheduleLog> {
  using ScheduleLogBase::ScheduleLogBase;
  friend struct dl::ScheduleOptions;

  FailureOr<LogOptions> parseLog(linattn::OperatorOp op) {
    LogOptions log{window, maxTokens, {}};
    for (auto [option, given, most] : {std::tuple("window", log.window, dl::schedule::kMaxWindow),
                                       {"max-tokens", log.maxTokens, dl::schedule::kMaxStepTokens}})
      if (given < 1 || given > most)
        return op.emitError() << option << ": expected 1 to " << most << ", got " << given;
    if (logType != "f32" && logType != "bf16")
      return op.emitError() << "log-type: expected f32 or bf16, got '" << logType << "'";
    log.type = *parseFloatType(op, "log-type", logType);
    return log;
  }

  LogicalResult schedule(linattn::OperatorOp op) {
    ScheduleOptions options = ScheduleOptions::of(*this);
    FailureOr<KernelTypes> types = parseKernelTypes(op, options);
    FailureOr<LogOptions> log = parseLog(op);
    if (failed(types) || failed(log))
      return failure();
    if (kernel == "plan") {
      emitPlanKernel(op, *types, *log);
      return success();
    }
    if (kernel != "append" && kernel != "merge" && kernel != "materialize")
      return op.emitError() << "kernel: expected plan, append, merge or materialize, got '"
                            << kernel << "'";
    FailureOr<dl::schedule::RecurrentPlan> plan = planKernel(op, *types, options, /*isLog=*/true);
    if (failed(plan))
      return failure();
    LogKernelKind kind = kernel == "append"  ? LogKernelKind::Append
                         : kernel == "merge" ? LogKernelKind::Merge
                                             : LogKernelKind::Materialize;
    return emitLogKernel(kind, op, *types, *plan, *log);
  }

  void runOnOperation() override {
    for (linattn::OperatorOp op :
         llvm::make_early_inc_range(getOperation().getOps<linattn::OperatorOp>()))
      if (failed(schedule(op)))
        return signalPassFailure();
  }
};

} // namespace
