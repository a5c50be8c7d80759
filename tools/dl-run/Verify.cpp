//===- Verify.cpp - dl-run verify -----------------------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Case.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>

using namespace dl::run;

/// The default sizes: one and several tokens and rows, value heads 1, 2 and 3 times the key heads.
/// Of a prefill, whole chunks and their ends.
static std::vector<Shape> defaultShapes(bool isPrefill) {
  std::vector<Shape> shapes;
  for (int64_t T : isPrefill ? std::vector<int64_t>{1, 64, 77} : std::vector<int64_t>{1, 3})
    for (int64_t B : {1, 3})
      for (auto [HQ, HV] : {std::pair<int64_t, int64_t>{2, 2}, {2, 4}, {1, 3}})
        shapes.push_back({B, T, HQ, HV});
  return shapes;
}

namespace {
struct KernelResult {
  std::string name, target;
  int numCases = 0;
  double outputError = 0, stateError = 0, outputLimit = 0, stateLimit = 0;
  std::string failure; // of the first failing case
  std::string skipped; // why no case ran
  nlohmann::json cases = nlohmann::json::array();
};
} // namespace

static nlohmann::json describe(const CaseSpec &spec, const CaseResult &result) {
  auto number = [](double x) { return std::isfinite(x) ? nlohmann::json(x) : nlohmann::json(); };
  return {{"B", spec.shape.B},
          {"T", spec.shape.T},
          {"HQ", spec.shape.HQ},
          {"HV", spec.shape.HV},
          {"gates", gateNames[int(spec.gates)]},
          {"padded", spec.isPadded},
          {"in_place", spec.isInPlace},
          {"slots", spec.hasSlots},
          {"first_slot", spec.firstSlot},
          {"packed", spec.isPacked},
          {"keeps_all", spec.keepsAll},
          {"accepted", spec.hasAccepted},
          {"flags", spec.hasFlags},
          {"seed", spec.seed},
          {"output_error", number(result.outputError)},
          {"state_error", number(result.stateError)},
          {"failure", result.failure}};
}

static KernelResult verifyKernel(const Session &session, const dl::reference::Operator &op,
                                 const KernelEntry &kernel, const std::vector<CaseSpec> &cases) {
  KernelResult result;
  result.name = kernel.info.name;
  result.target = kernel.target();
  if (result.skipped = kernel.whyNoCase(); !result.skipped.empty())
    return result;
  CaseRunner runner(session, op, kernel);
  result.outputLimit = runner.worstOutputLimit();
  result.stateLimit = runner.worstStateLimit();
  for (const CaseSpec &spec : cases) {
    const dlk_size sizes[] = {
        {"B", spec.shape.B}, {"T", spec.shape.T}, {"HQ", spec.shape.HQ}, {"HV", spec.shape.HV}};
    char reason[512];
    if (dlk_supported(kernel.handle, session.device, sizes, 4, reason, sizeof(reason)) != DLK_OK) {
      result.skipped = reason;
      continue;
    }
    CaseResult one = runner.run(spec);
    ++result.numCases;
    keepWorst(result.outputError, one.outputError);
    keepWorst(result.stateError, one.stateError);
    if (!one.failure.empty() && result.failure.empty())
      result.failure =
          one.failure + " (" + spec.shape.str() + ", " + gateNames[int(spec.gates)] + " gates)";
    result.cases.push_back(describe(spec, one));
  }
  return result;
}

static const char *verdict(const KernelResult &result) {
  return !result.failure.empty() ? "FAIL" : result.numCases ? "ok" : "not run";
}

static void printTable(const Session &session, const std::vector<KernelResult> &results) {
  std::printf("%s on %s: kernels against the fp64 recurrence, relative RMS errors\n\n",
              dlk_package_operator(session.package), session.deviceText().c_str());
  Table table;
  table.row({"kernel", "target", "cases", "worst output error", "allowed", "worst state error",
             "allowed", "result"});
  int numFailed = 0, numNotRun = 0;
  for (const KernelResult &result : results) {
    numFailed += !result.failure.empty();
    numNotRun += result.failure.empty() && !result.numCases;
    auto error = [&](double value) { return result.numCases ? format("%.1e", value) : "-"; };
    auto limit = [&](double value) { return result.numCases ? format("%.0e", value) : "-"; };
    table.row({result.name, result.target, std::to_string(result.numCases),
               error(result.outputError), limit(result.outputLimit), error(result.stateError),
               limit(result.stateLimit), verdict(result)});
  }
  table.print();
  std::printf("\n");
  for (const KernelResult &result : results)
    if (const std::string &why = result.failure.empty() ? result.skipped : result.failure;
        !why.empty() && (!result.failure.empty() || !result.numCases))
      std::printf("%s, %s: %s\n", result.name.c_str(), result.target.c_str(), why.c_str());
  int numOthers = dlk_kernel_count(session.package) - int(results.size());
  std::printf("%d ok, %d failed", int(results.size()) - numFailed - numNotRun, numFailed);
  if (numNotRun)
    std::printf(", %d not run", numNotRun);
  if (numOthers)
    std::printf("; %d more in the package are for other devices or not selected", numOthers);
  std::printf("\n");
}

static void printJson(const Session &session, const std::vector<KernelResult> &results) {
  nlohmann::json json = session.environment();
  json["kernels"] = nlohmann::json::array();
  for (const KernelResult &result : results)
    json["kernels"].push_back({{"name", result.name},
                               {"target", result.target},
                               {"result", verdict(result)},
                               {"output_limit", result.outputLimit},
                               {"state_limit", result.stateLimit},
                               {"failure", result.failure},
                               {"cases", result.cases}});
  std::cout << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
}

int dl::run::runVerify(const Options &options) {
  const std::vector<Shape> given =
      options.shape.empty()
          ? std::vector<Shape>()
          : parseShapes(options.shape, {{"B", {3}}, {"T", {1}}, {"HQ", {2}}, {"HV", {2}}});
  Session session(options);
  session.openDevice();
  const dl::reference::Operator op = session.reference();
  std::vector<KernelResult> results;
  bool isGood = true;
  int numCases = 0;
  const std::vector<KernelEntry> kernels = session.kernels(/*runnable=*/true);
  for (const KernelEntry &kernel : kernels) {
    showProgress(format("%zu of %zu: %s", results.size() + 1, kernels.size(), kernel.info.name));
    try {
      const auto shapes = given.empty() ? defaultShapes(kernel.isPrefill()) : given;
      results.push_back(
          verifyKernel(session, op, kernel, makeCases(shapes, options.gates, options.seed)));
    } catch (const Error &error) {
      KernelResult result;
      result.name = kernel.info.name;
      result.target = kernel.target();
      result.failure = error.what();
      results.push_back(std::move(result));
    }
    const bool hasCase = kernel.whyNoCase().empty();
    isGood &= results.back().failure.empty() && (results.back().numCases > 0 || !hasCase);
    numCases += results.back().numCases;
  }
  showProgress("");
  if (options.json)
    printJson(session, results);
  else
    printTable(session, results);
  return isGood && numCases > 0 ? 0 : 1;
}
