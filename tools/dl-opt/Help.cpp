//===- Help.cpp - What dl-opt --help says ---------------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// LLVM's own help lists hundreds of options of its code generator, passes in the order of the
// alphabet somewhere between them. This one fits on a screen or two: pipelines, passes by stage,
// and the options of mlir-opt that one needs.
//
//===----------------------------------------------------------------------===//

#include "Help.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

using namespace llvm;

namespace {

struct Section {
  StringRef title;
  std::vector<StringRef> names;
};

} // namespace

/// In the order in which a spec meets them. A pass that is missing here shows up under "Other
/// passes".
static const Section kPasses[] = {
    {"Pipelines, from a spec to machine-level IR",
     {"linattn-prepare", "linattn-to-recurrent", "linattn-to-chunkwise", "linattn-to-log",
      "tile-to-nvvm", "tile-to-cpu"}},
    {"Passes on linattn", {"linattn-set-options", "linattn-expand", "linattn-hoist-scalars"}},
    {"Passes from linattn to tile, one per schedule",
     {"linattn-schedule-recurrent", "linattn-schedule-chunkwise", "linattn-schedule-log"}},
    {"Passes on tile", {"tile-expand-gram", "tile-expand-math"}},
    {"Passes from tile to NVVM and to the CPU", {"convert-tile-to-nvvm", "convert-tile-to-cpu"}},
    {"Passes of MLIR", {"canonicalize", "cse"}},
};

static const Section kOptions[] = {
    {"Input and output",
     {"split-input-file", "allow-unregistered-dialect", "mlir-print-debuginfo",
      "mlir-print-local-scope"}},
    {"Checks", {"verify-diagnostics", "verify-roundtrip", "verify-each"}},
    {"Running passes",
     {"pass-pipeline", "dump-pass-pipeline", "mlir-print-ir-before-all", "mlir-print-ir-after-all",
      "mlir-print-ir-after-change", "mlir-print-op-on-diagnostic", "mlir-disable-threading",
      "mlir-timing", "mlir-pass-statistics"}},
    {"Help", {"help", "help-hidden", "list-passes", "show-dialects", "version"}},
};

static const mlir::PassRegistryEntry *findPass(StringRef name) {
  if (const auto *pipeline = mlir::PassPipelineInfo::lookup(name))
    return pipeline;
  return mlir::PassInfo::lookup(name);
}

static void printLine(const Twine &name, StringRef description) {
  outs() << "  " << left_justify(name.str(), 32) << ' ' << description << '\n';
}

// A name that no longer exists is printed bare: the test of this page finds it.
static void printPasses(const Section &section) {
  outs() << '\n' << section.title << ":\n";
  for (StringRef name : section.names) {
    const mlir::PassRegistryEntry *pass = findPass(name);
    printLine("--" + name, pass ? pass->getPassDescription() : "");
  }
}

static void printOptions(const Section &section) {
  outs() << '\n' << section.title << ":\n";
  for (StringRef name : section.names) {
    const cl::Option *option = cl::getRegisteredOptions().lookup(name);
    bool takesValue = option && option->getValueExpectedFlag() == cl::ValueRequired;
    printLine("--" + name + (takesValue ? "=..." : ""), option ? option->HelpStr : "");
  }
}

/// Passes that are registered, and in none of the sections.
static Section otherPasses() {
  StringSet<> listed;
  for (const Section &section : kPasses)
    listed.insert_range(section.names);
  Section others{"Other passes", {}};
  for (const auto &[name, option] : cl::getRegisteredOptions())
    if (!listed.contains(name) && findPass(name))
      others.names.push_back(name);
  sort(others.names);
  return others;
}

static void printOverview() {
  outs()
      << "Runs passes of dl on a file of MLIR, such as a spec, and prints what they make of it.\n"
         "\n"
         "  dl-opt FILE [--PASS[=\"OPTION=VALUE ...\"]] ... [-o FILE]   '-' is standard input\n"
         "  dl-opt --PASS --help                                     the options of a pass\n";
  for (const Section &section : kPasses)
    printPasses(section);
  if (Section others = otherPasses(); !others.names.empty())
    printPasses(others);
  for (const Section &section : kOptions)
    printOptions(section);
}

bool dl::opt::printHelp(ArrayRef<const char *> arguments) {
  bool isAsked = false;
  std::vector<const mlir::PassRegistryEntry *> passes;
  for (StringRef argument : arguments.drop_front()) {
    isAsked |= is_contained({"--help", "-help", "-h"}, argument);
    if (argument.consume_front("-")) {
      argument.consume_front("-");
      if (const mlir::PassRegistryEntry *pass = findPass(argument.split('=').first))
        passes.push_back(pass);
    }
  }
  if (!isAsked)
    return false;
  size_t width = 0;
  for (const mlir::PassRegistryEntry *pass : passes)
    width = std::max(width, pass->getOptionWidth() + 4);
  for (const mlir::PassRegistryEntry *pass : passes)
    pass->printHelpStr(/*indent=*/0, width);
  if (passes.empty())
    printOverview();
  return true;
}
