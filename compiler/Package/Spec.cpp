//===- Spec.cpp - What is known of a spec before anything is compiled ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Package/LogReport.h"
#include "compiler/Package/Reference.h"
#include "compiler/Package/Session.h"
#include "dialects/Tile/IR/Tile.h"
#include "passes/LinAttn/Passes.h"
#include "passes/LinAttnToTile/KernelArguments.h"
#include "passes/LinAttnToTile/Served.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace dl;
using namespace dl::package;

FailureOr<Spec> dl::package::readSpec(StringRef path, std::string &diagnostics) {
  auto buffer = llvm::MemoryBuffer::getFileOrSTDIN(path, /*IsText=*/true);
  if (!buffer) {
    diagnostics = ("cannot read '" + path + "': " + buffer.getError().message()).str();
    return failure();
  }
  return parseSpec((*buffer)->getBuffer().str(), path, diagnostics);
}

FailureOr<Spec> dl::package::parseSpec(std::string text, StringRef path, std::string &diagnostics) {
  Spec spec{path.str(), std::move(text), {}, {}};
  // To MLIR's lexer a zero byte is the end of the file.
  if (StringRef(spec.text).contains('\0') || !llvm::json::isUTF8(spec.text)) {
    diagnostics = ("cannot read '" + path + "': expected MLIR text in UTF-8").str();
    return failure();
  }
  Session session(spec, diagnostics);
  if (!session.module)
    return failure();
  for (auto op : session.module->getOps<linattn::OperatorOp>())
    spec.operators.push_back(op.getSymName().str());
  for (auto op : session.module->getOps<tile::KernelOp>())
    spec.kernels.push_back(op.getSymName().str());
  return spec;
}

llvm::Error dl::package::checkSettings(const Spec &spec, const KernelRequest &request) {
  std::string unused, message;
  Session session(spec, unused);
  ScopedDiagnosticHandler handler(&session.context, [&](Diagnostic &diagnostic) {
    if (message.empty())
      message = diagnostic.str();
    return success();
  });
  for (auto op : session.module->getOps<linattn::OperatorOp>())
    if (op.getSymName() == request.symbol && failed(linattn::parseSettings(op, request.set)))
      return llvm::createStringError("--set: " + message);
  FailureOr<linattn::OperatorOp> op = session.prepare(request);
  if (failed(op))
    return llvm::Error::success(); // compiling says why, with line and column
  for (StringRef type : request.types)
    if (SmallVector<StringRef> names = typedArguments(*op);
        !llvm::is_contained(names, type.split('=').first))
      return llvm::createStringError("--type: expected NAME=TYPE with a name among " +
                                     llvm::join(names, ", ") + ", got '" + type + "'");
  return llvm::Error::success();
}

LogicalResult dl::package::checkLegal(const Spec &spec, ArrayRef<KernelRequest> requests,
                                      std::string &diagnostics) {
  auto isPrefill = [](const KernelRequest &request) { return request.kind == "prefill"; };
  SmallVector<analysis::Schedule> asked;
  if (llvm::any_of(requests, isPrefill))
    asked.push_back(analysis::Schedule::Chunkwise);
  if (llvm::any_of(requests, std::mem_fn(&KernelRequest::isLog)))
    asked.push_back(analysis::Schedule::Log);
  if (asked.empty())
    return success();
  Session session(spec, diagnostics);
  FailureOr<analysis::StepAnalysis> step = session.analyze(requests.front());
  if (failed(step) || failed(step->require(asked)))
    return failure();
  return success(llvm::all_of(asked, [&](analysis::Schedule schedule) {
    return succeeded(requireServed(*step, schedule));
  }));
}

/// The window that the traffic model proposes, with as many key heads as value heads.
static FailureOr<int64_t> proposeWindow(const Spec &spec, const KernelRequest &request,
                                        std::string &diagnostics) {
  Session session(spec, diagnostics);
  FailureOr<analysis::StepAnalysis> step = session.analyze(request);
  if (failed(step))
    return failure();
  std::optional<analysis::LogEntry> entry = analysis::LogEntry::compute(*step);
  if (!entry)
    return step->require(analysis::Schedule::Log);
  llvm::Expected<schedule::LogPlan> plan = schedule::planLog(logProblem(*step, *entry, request));
  if (!plan)
    return step->op.emitError() << llvm::toString(plan.takeError());
  return plan->window;
}

LogicalResult dl::package::settleWindows(const Spec &spec, MutableArrayRef<KernelRequest> requests,
                                         std::string &diagnostics) {
  llvm::StringMap<int64_t> known; // by what the window may depend on
  for (KernelRequest &request : requests) {
    if (!request.isLog())
      continue;
    KernelRequest key = request;
    key.kind = "append";
    auto [window, isNew] = known.try_emplace(key.name(), 0);
    if (isNew) {
      // Also where one is given: the model says which logs cannot be served.
      FailureOr<int64_t> proposed = proposeWindow(spec, request, diagnostics);
      if (failed(proposed))
        return failure();
      window->second = *proposed;
    }
    request.window = window->second;
  }
  return success();
}

FailureOr<Prepared> dl::package::prepareSpec(const Spec &spec, const KernelRequest &request,
                                             std::string &diagnostics) {
  Session session(spec, diagnostics);
  FailureOr<linattn::OperatorOp> prepared = session.prepare(request);
  if (failed(prepared))
    return failure();
  linattn::OperatorOp op = *prepared;
  FailureOr<llvm::json::Object> reference = emitReference(op, request.keyDim);
  if (failed(reference))
    return failure();
  Prepared result{print(op), std::move(*reference), {}};
  if (DictionaryAttr settings = op.getSettingsAttr())
    for (NamedAttribute setting : settings) {
      Attribute value = setting.getValue();
      if (auto flag = dyn_cast<BoolAttr>(value))
        result.options[setting.getName().str()] = flag.getValue();
      else if (auto number = dyn_cast<FloatAttr>(value))
        result.options[setting.getName().str()] = number.getValueAsDouble();
      else if (auto text = dyn_cast<StringAttr>(value))
        result.options[setting.getName().str()] = text.getValue().str();
    }
  return result;
}
