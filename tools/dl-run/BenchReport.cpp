//===- BenchReport.cpp - Tables, JSON and pages of dl-run bench -----------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bench.h"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

using namespace dl::run;

//===----------------------------------------------------------------------===//
// Goals
//===----------------------------------------------------------------------===//

static bool isSame(const Shape &a, const Shape &b) {
  return a.B == b.B && a.T == b.T && a.HQ == b.HQ && a.HV == b.HV;
}

Goals::Goals(const std::string &path) {
  std::ifstream file(path);
  if (!file)
    throw Error("--goals: cannot read '" + path + "'");
  bool isHeading = true;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (line.empty() || line[0] == '#')
      continue;
    if (isHeading) {
      isHeading = false;
      continue;
    }
    Goal goal;
    std::istringstream cells(line);
    char commas[4] = {}, percent = 0;
    std::getline(cells, goal.kernel, ',');
    cells >> goal.shape.B >> commas[0] >> goal.shape.T >> commas[1] >> goal.shape.HQ >> commas[2] >>
        goal.shape.HV >> commas[3] >> goal.value;
    if (!cells || std::string(commas, 4) != ",,,," || !(goal.value > 0))
      throw Error("--goals: expected kernel,B,T,HQ,HV,goal with a goal in milliseconds or percent, "
                  "got '" +
                  line + "' in line " + std::to_string(number));
    goal.isShare = bool(cells >> percent) && percent == '%';
    goals.push_back(goal);
  }
}

std::string Goals::describe(const BenchResult &result) const {
  for (const Goal &goal : goals) {
    if (goal.kernel != result.kernel || !isSame(goal.shape, result.shape))
      continue;
    if (goal.isShare && result.ceiling.ms.empty())
      continue;
    const double ms = goal.isShare ? 100 * result.ceiling.median() / goal.value : goal.value;
    if (!result.skipped.empty())
      return "not timed";
    if (result.ms() <= ms)
      return format("%.4f, met", ms);
    return format("%.4f, missed by %.1f%%", ms, 100 * (result.ms() / ms - 1));
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Terminal and JSON
//===----------------------------------------------------------------------===//

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
    std::printf("\nGB/s counts each state read and written once, and all other arguments once. The "
                "ceiling is an in-place scale of as many bytes\nas the states hold, 16 bytes per "
                "thread, measured in this run.\n");
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

//===----------------------------------------------------------------------===//
// Markdown
//===----------------------------------------------------------------------===//

static std::string processorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos)
      return line.substr(line.find(": ") + 2);
  return "unknown processor";
}

/// "NVIDIA H200, driver 570.86.15 (CUDA 12.8). 2026-01-31 12:00 UTC. dl 0.1.0. ..."
static std::string describeRun(const Session &session) {
  const nlohmann::json facts = session.environment();
  auto text = [&](const char *key) { return facts.value(key, std::string()); };
  std::string place = "cpu: " + processorName();
  if (session.isCuda()) {
    const int version = facts["driver"];
    const std::string release = text("driver_release");
    place = text("device_name") + ", driver " + (release.empty() ? "" : release + " ") +
            format("(CUDA %d.%d)", version / 1000, version % 1000 / 10);
  }
  const std::string date = text("date"); // 2026-01-31T12:00:00Z
  std::string line = place + ". " + date.substr(0, 10) + " " + date.substr(11, 5) + " UTC. dl " +
                     text("runtime") + ", package by " + text("generator") + ": operator " +
                     text("operator");
  const nlohmann::json settings = session.manifest.value("options", nlohmann::json::object());
  for (const auto &[name, value] : settings.items())
    line += ", " + name + "=" + (value.is_string() ? value.get<std::string>() : value.dump());
  return line + ".";
}

static std::vector<std::string> markdownRow(const BenchResult &result, bool isCuda, bool isChecked,
                                            const Goals *goals) {
  std::vector<std::string> row = {std::to_string(result.shape.B)};
  const bool isTimed = result.skipped.empty();
  auto add = [&](const std::string &text) { row.push_back(isTimed ? text : "-"); };
  add(format("%.4f", isTimed ? result.ms() : 0));
  add(format("%.0f", isTimed ? double(result.trafficBytes) / result.ms() * 1e-6 : 0));
  if (isCuda) {
    const double ceiling = isTimed ? result.ceiling.median() : 0;
    add(format("%.4f", ceiling));
    add(format("%.1f%%", isTimed ? 100 * ceiling / result.ms() : 0));
  }
  if (isChecked)
    addErrors(result, row);
  if (goals)
    row.push_back(goals->describe(result));
  return row;
}

/// The table of results [begin, end), which differ in B alone.
static void printSection(const Session &session, const BenchResult *begin, const BenchResult *end,
                         const Goals *goals) {
  const Shape &shape = begin->shape;
  std::printf("\n### %s, %s\n\nT = %lld, HQ = %lld, HV = %lld\n\n", begin->kernel.c_str(),
              begin->target.c_str(), (long long)shape.T, (long long)shape.HQ, (long long)shape.HV);
  bool hasGoals = false;
  for (const BenchResult *result = begin; result != end && goals; ++result)
    hasGoals |= !goals->describe(*result).empty();
  Table table;
  std::vector<std::string> heading = {"B", session.isCuda() ? "ms in a graph" : "ms", "GB/s"};
  if (session.isCuda())
    heading.insert(heading.end(), {"ceiling ms", "share"});
  if (session.options.verify)
    heading.insert(heading.end(), {"output error", "state error"});
  if (hasGoals)
    heading.push_back("goal ms");
  table.row(heading);
  std::map<std::string, std::string> notes; // why not timed, and at which B
  for (const BenchResult *result = begin; result != end; ++result) {
    table.row(
        markdownRow(*result, session.isCuda(), session.options.verify, hasGoals ? goals : nullptr));
    if (!result->skipped.empty())
      notes[result->skipped] +=
          (notes[result->skipped].empty() ? "B = " : ", ") + std::to_string(result->shape.B);
  }
  table.printMarkdown(0);
  for (const auto &[reason, sizes] : notes)
    std::printf("\n%s: %s\n", sizes.c_str(), reason.c_str());
}

void dl::run::printBenchMarkdown(const Session &session, const std::vector<BenchResult> &results,
                                 const Goals *goals) {
  std::printf("## %s\n\n%s\n", dlk_package_operator(session.package), describeRun(session).c_str());
  auto isTogether = [](const BenchResult &a, const BenchResult &b) {
    return a.kernel == b.kernel && a.target == b.target && a.shape.T == b.shape.T &&
           a.shape.HQ == b.shape.HQ && a.shape.HV == b.shape.HV;
  };
  // Shapes come with B outermost: bring together what belongs in one table.
  std::vector<BenchResult> sorted;
  for (const BenchResult &first : results) {
    bool isDone = false;
    for (const BenchResult &known : sorted)
      isDone |= isTogether(known, first);
    for (const BenchResult &result : results)
      if (!isDone && isTogether(result, first))
        sorted.push_back(result);
  }
  for (size_t begin = 0, end; begin < sorted.size(); begin = end) {
    for (end = begin + 1; end < sorted.size() && isTogether(sorted[begin], sorted[end]);)
      ++end;
    printSection(session, &sorted[begin], &sorted[begin] + (end - begin), goals);
  }
}
