//===- BenchReport.cpp - Tables and JSON of dl-run bench ------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bench.h"

#include <algorithm>
#include <cstdio>
#include <iostream>

using namespace dl::run;

static void addErrors(const BenchResult &result, std::vector<std::string> &row) {
  row.push_back(result.check ? format("%.1e", result.check->outputError) : "-");
  row.push_back(result.check ? format("%.1e", result.check->stateError) : "-");
}

void dl::run::printBenchTable(const Session &session, const std::vector<BenchResult> &results) {
  const auto environment = session.environment();
  std::printf("%s on %s", dlk_package_operator(session.package), session.deviceText().c_str());
  if (session.isCuda())
    std::printf(" (%s)", environment["device_name"].get<std::string>().c_str());
  std::printf(", median times per launch\n\n");
  Table table;
  std::vector<std::string> heading = {"kernel", "target", "B", "T", "HQ", "HV"};
  const bool hasLog = std::any_of(results.begin(), results.end(),
                                  [](const BenchResult &result) { return result.log.length >= 0; });
  if (hasLog)
    heading.push_back("entries");
  if (session.options.verify)
    heading.insert(heading.end(), {"output error", "state error"});
  if (session.isCuda())
    heading.insert(heading.end(),
                   {"ms in a graph", "ms on a stream", "GB/s", "ms of the ceiling", "share of it"});
  else
    heading.push_back("ms");
  table.row(heading);
  for (const BenchResult &result : results) {
    std::vector<std::string> row = {result.kernel,
                                    result.target,
                                    std::to_string(result.shape.B),
                                    std::to_string(result.shape.T),
                                    std::to_string(result.shape.HQ),
                                    std::to_string(result.shape.HV)};
    if (hasLog)
      row.push_back(result.log.str());
    if (session.options.verify)
      addErrors(result, row);
    if (!result.skipped.empty()) {
      row.push_back(result.skipped);
    } else if (session.isCuda()) {
      double ms = result.graph.median(), ceiling = result.ceiling.median();
      row.push_back(format("%.4f", ms));
      row.push_back(format("%.4f", result.stream.median()));
      row.push_back(format("%.0f", double(result.trafficBytes) / ms * 1e-6));
      row.push_back(format("%.4f", ceiling));
      row.push_back(format("%.1f%%", 100 * ceiling / ms));
    } else {
      row.push_back(format("%.4f", result.stream.median()));
    }
    table.row(std::move(row));
  }
  table.print();
  if (session.isCuda())
    std::printf(
        "\nGB/s counts each state read and written once, all other arguments but workspaces "
        "once. The ceiling is an in-place scale of as many\nbytes as the states hold, 16 "
        "bytes per thread, measured in this run.\n");
}

void dl::run::printBenchJson(const Session &session, const std::vector<BenchResult> &results) {
  nlohmann::json json = session.environment();
  json["results"] = nlohmann::json::array();
  for (const BenchResult &result : results) {
    nlohmann::json entry = {{"kernel", result.kernel},
                            {"target", result.target},
                            {"B", result.shape.B},
                            {"T", result.shape.T},
                            {"HQ", result.shape.HQ},
                            {"HV", result.shape.HV},
                            {"entries", result.log.length},
                            {"merge", result.log.merge},
                            {"traffic_bytes", result.trafficBytes},
                            {"state_bytes", result.stateBytes}};
    if (result.check) {
      entry["output_error"] = result.check->outputError;
      entry["state_error"] = result.check->stateError;
    }
    if (!result.skipped.empty())
      entry["skipped"] = result.skipped;
    else if (!session.isCuda())
      entry["cpu"] = result.stream.json();
    else {
      entry["graph"] = result.graph.json();
      entry["stream"] = result.stream.json();
      entry["ceiling"] = result.ceiling.json();
      entry["launches_per_repetition"] = result.count;
      entry["rotations"] = result.rotations;
      entry["gb_per_s"] = double(result.trafficBytes) / result.graph.median() * 1e-6;
      entry["share_of_ceiling"] = result.ceiling.median() / result.graph.median();
    }
    json["results"].push_back(std::move(entry));
  }
  std::cout << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
}
