//===- Assembler.cpp - PTX to machine code by ptxas ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Package/Assembler.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>

using namespace llvm;
using namespace dl::package;

std::optional<std::string> dl::package::findAssembler() {
  if (std::optional<std::string> given = sys::Process::GetEnv("DL_PTXAS"))
    return given->empty() ? std::nullopt : given;
  if (ErrorOr<std::string> found = sys::findProgramByName("ptxas"))
    return *found;
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

static Expected<std::string> readFile(StringRef path) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> buffer = MemoryBuffer::getFile(path);
  if (!buffer)
    return createStringError(buffer.getError(), "cannot read " + path.str());
  return (*buffer)->getBuffer().str();
}

Expected<Assembled> dl::package::assemble(StringRef ptx, StringRef chip) {
  std::optional<std::string> assembler = findAssembler();
  if (!assembler)
    return createStringError(
        "no ptxas found: set DL_PTXAS, or put the CUDA toolkit's bin directory on PATH");
  SmallString<128> input, output, log;
  int descriptor;
  if (std::error_code error = sys::fs::createTemporaryFile("dl", "ptx", descriptor, input))
    return createStringError(error, "cannot create a temporary file");
  FileRemover removeInput(input);
  {
    raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
    stream << ptx;
  }
  if (std::error_code error = sys::fs::createTemporaryFile("dl", "cubin", output))
    return createStringError(error, "cannot create a temporary file");
  FileRemover removeOutput(output);
  if (std::error_code error = sys::fs::createTemporaryFile("dl", "log", log))
    return createStringError(error, "cannot create a temporary file");
  FileRemover removeLog(log);

  std::string architecture = ("-arch=" + chip).str();
  StringRef arguments[] = {*assembler, architecture, "-v", "-O3", input, "-o", output};
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(log), StringRef(log)};
  auto start = std::chrono::steady_clock::now();
  std::string message;
  int status = sys::ExecuteAndWait(*assembler, arguments, std::nullopt, redirects,
                                   /*SecondsToWait=*/120, 0, &message);
  Assembled result;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  Expected<std::string> text = readFile(log);
  if (!text)
    return text.takeError();
  if (status != 0)
    return createStringError("ptxas failed for " + chip.str() + ": status " +
                             std::to_string(status) + " " +
                             (message.empty() ? StringRef(*text).trim().str() : message));
  Expected<Resources> resources = parseAssemblerOutput(*text);
  if (!resources)
    return resources.takeError();
  result.resources = *resources;
  Expected<std::string> cubin = readFile(output);
  if (!cubin)
    return cubin.takeError();
  result.cubin = std::move(*cubin);
  return result;
}
