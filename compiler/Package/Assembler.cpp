//===- Assembler.cpp - PTX to machine code by ptxas ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Package/Assembler.h"
#include "compiler/Package/Tool.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Regex.h"

using namespace llvm;
using namespace dl::package;

std::optional<std::string> dl::package::findAssembler() {
  std::optional<std::string> tool = findTool("DL_PTXAS", {"ptxas"});
  if (tool || sys::Process::GetEnv("DL_PTXAS")) // an empty variable hides the toolkit, too
    return tool;
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (std::optional<std::string> root = sys::Process::GetEnv(variable)) {
      SmallString<128> path(*root);
      sys::path::append(path, "bin", "ptxas");
      if (sys::fs::can_execute(path))
        return path.str().str();
    }
  const char *usual = "/usr/local/cuda/bin/ptxas";
  return sys::fs::can_execute(usual) ? std::optional<std::string>(usual) : std::nullopt;
}

Expected<Resources> dl::package::parseAssemblerOutput(StringRef text) {
  Resources resources;
  SmallVector<StringRef> lines, match;
  text.split(lines, '\n');
  Regex used("Used ([0-9]+) registers");
  Regex spills(
      "([0-9]+) bytes stack frame, ([0-9]+) bytes spill stores, ([0-9]+) bytes spill loads");
  auto number = [](StringRef digits) {
    int64_t value = 0;
    (void)digits.getAsInteger(10, value);
    return value;
  };
  for (StringRef line : lines) {
    if (line.contains("(C75"))
      return createStringError("the assembler would serialise or ignore part of the kernel: " +
                               line.trim().str());
    if (used.match(line, &match))
      resources.registers = std::max(resources.registers, number(match[1]));
    if (spills.match(line, &match)) {
      resources.stackBytes = std::max(resources.stackBytes, number(match[1]));
      resources.spillBytes = std::max(resources.spillBytes, number(match[2]) + number(match[3]));
    }
  }
  return resources;
}

Expected<Assembled> dl::package::assemble(StringRef ptx, StringRef chip) {
  std::optional<std::string> assembler = findAssembler();
  if (!assembler)
    return createStringError(
        "no ptxas found: set DL_PTXAS, or put the CUDA toolkit's bin directory on PATH");
  std::string architecture = ("-arch=" + chip).str();
  Expected<ToolResult> run = runTool(*assembler, {architecture, "-v", "-O3"}, ptx);
  if (!run)
    return createStringError("ptxas failed for " + chip.str() + ": " + toString(run.takeError()));
  Expected<Resources> resources = parseAssemblerOutput(run->log);
  if (!resources)
    return resources.takeError();
  return Assembled{std::move(run->output), *resources, run->seconds};
}
