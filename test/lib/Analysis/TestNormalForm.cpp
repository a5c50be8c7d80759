//===- TestNormalForm.cpp - Shows what the analysis of a step finds -------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/Analysis/Explain.h"
#include "test/lib/TestPasses.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace {

struct TestNormalForm : public PassWrapper<TestNormalForm, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestNormalForm)

  TestNormalForm() = default;
  TestNormalForm(const TestNormalForm &other) : PassWrapper(other) {}

  StringRef getArgument() const final { return "test-linattn-normal-form"; }
  StringRef getDescription() const final {
    return "Prints the normal form of each operator, and what rules out a schedule as remarks";
  }

  // A module pass: operators are shown in the order of the file.
  void runOnOperation() override {
    for (auto op : getOperation().getOps<dl::linattn::OperatorOp>()) {
      auto analysis = dl::analysis::StepAnalysis::compute(op);
      if (failed(analysis))
        return signalPassFailure();
      if (explain)
        llvm::outs() << dl::analysis::explain(*analysis);
      else
        analysis->print(llvm::outs());
      llvm::outs().flush();
      for (const dl::analysis::Refusal &refusal : analysis->refusals)
        refusal.op->emitRemark() << refusal.condition << ": " << refusal.text;
    }
    for (const std::string &name : require)
      for (auto op : getOperation().getOps<dl::linattn::OperatorOp>())
        if (failed(requireSchedule(op, name)))
          signalPassFailure();
  }

  static LogicalResult requireSchedule(dl::linattn::OperatorOp op, StringRef name) {
    using dl::analysis::Schedule;
    for (Schedule schedule : {Schedule::Recurrent, Schedule::Chunkwise, Schedule::Log})
      if (name == dl::analysis::nameOf(schedule))
        return dl::analysis::StepAnalysis::compute(op)->require(schedule);
    return op.emitError("expected recurrent, chunkwise or log, got '") << name << "'";
  }

  Option<bool> explain{*this, "explain", llvm::cl::desc("show formulas as dl-compile --explain")};
  ListOption<std::string> require{*this, "require", llvm::cl::desc("schedules that must be legal")};
};

} // namespace

void dl::test::registerNormalFormPass() { PassRegistration<TestNormalForm>(); }
