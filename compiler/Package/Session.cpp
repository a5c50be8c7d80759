//===- Session.cpp - A spec in a context of its own ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Package/Session.h"

using namespace mlir;
using namespace dl;
using namespace dl::package;

static DialectRegistry makeRegistry() {
  DialectRegistry registry;
  registerDialects(registry);
  return registry;
}

Session::Session(const Spec &spec, std::string &diagnostics)
    : context(makeRegistry(), MLIRContext::Threading::DISABLED), sink(diagnostics),
      handler(sources, &context, sink) {
  context.printOpOnDiagnostic(false); // the line of the spec says more, and is one line
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBuffer(spec.text, spec.path), llvm::SMLoc());
  module = parseSourceFile<ModuleOp>(sources, &context);
}

LogicalResult Session::isolate(StringRef symbol) {
  if (!module)
    return failure();
  for (Operation &op : llvm::make_early_inc_range(module->getBody()->getOperations()))
    if (auto name = SymbolTable::getSymbolName(&op); name && name.getValue() != symbol)
      op.erase();
  return success();
}

FailureOr<linattn::OperatorOp> Session::prepare(const KernelRequest &request) {
  PrepareOptions options;
  options.set = ArrayRef<std::string>(request.set);
  if (failed(isolate(request.symbol)) || failed(run<PrepareOptions>(buildPreparePipeline, options)))
    return failure();
  return *module->getOps<linattn::OperatorOp>().begin();
}

FailureOr<analysis::StepAnalysis> Session::analyze(const KernelRequest &request) {
  FailureOr<linattn::OperatorOp> op = prepare(request);
  if (failed(op))
    return failure();
  return analysis::StepAnalysis::compute(*op);
}

std::string dl::package::print(Operation *op) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  op->print(stream);
  stream << '\n';
  return text;
}
