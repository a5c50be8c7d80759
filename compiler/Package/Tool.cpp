//===- Tool.cpp - Programs that finish what LLVM cannot ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Package/Tool.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"
#include <chrono>

using namespace llvm;
using namespace dl::package;

std::optional<std::string> dl::package::findTool(const char *variable, ArrayRef<StringRef> names) {
  if (std::optional<std::string> given = sys::Process::GetEnv(variable)) {
    if (given->empty())
      return std::nullopt;
    // One that is not on PATH is kept: running it fails with the name that the user knows.
    ErrorOr<std::string> found = sys::findProgramByName(*given);
    return found ? *found : *given;
  }
  for (StringRef name : names)
    if (ErrorOr<std::string> found = sys::findProgramByName(name))
      return *found;
  return std::nullopt;
}

static Error failure(std::error_code error, StringRef what) {
  return createStringError(error, what + " a temporary file: " + error.message());
}

static Error writeInput(int descriptor, StringRef bytes) {
  raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
  stream << bytes;
  stream.close();
  std::error_code error = stream.error();
  stream.clear_error(); // else the destructor ends the program
  return error ? failure(error, "cannot write") : Error::success();
}

static Expected<std::string> readFile(StringRef path) {
  ErrorOr<std::unique_ptr<MemoryBuffer>> buffer = MemoryBuffer::getFile(path);
  if (!buffer)
    return failure(buffer.getError(), "cannot read");
  return (*buffer)->getBuffer().str();
}

/// Without the white space around, so that a text that starts with empty lines has one, too.
static StringRef firstLine(StringRef text) { return text.trim().split('\n').first.trim(); }

Expected<ToolResult> dl::package::runTool(StringRef tool, ArrayRef<StringRef> options,
                                          StringRef input) {
  SmallString<128> inputPath, outputPath, logPath;
  int descriptor;
  if (std::error_code error = sys::fs::createTemporaryFile("dl", "in", descriptor, inputPath))
    return failure(error, "cannot create");
  FileRemover removeInput(inputPath);
  if (Error error = writeInput(descriptor, input))
    return error;
  if (std::error_code error = sys::fs::createTemporaryFile("dl", "out", outputPath))
    return failure(error, "cannot create");
  FileRemover removeOutput(outputPath);
  if (std::error_code error = sys::fs::createTemporaryFile("dl", "log", logPath))
    return failure(error, "cannot create");
  FileRemover removeLog(logPath);

  SmallVector<StringRef> arguments = {tool};
  arguments.append(options.begin(), options.end());
  arguments.append({inputPath, "-o", outputPath});
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(logPath), StringRef(logPath)};
  auto start = std::chrono::steady_clock::now();
  std::string message;
  int status = sys::ExecuteAndWait(tool, arguments, std::nullopt, redirects,
                                   /*SecondsToWait=*/120, 0, &message);
  ToolResult result;
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  Expected<std::string> log = readFile(logPath);
  if (!log)
    return log.takeError();
  result.log = std::move(*log);
  if (status != 0) {
    StringRef reason = firstLine(message.empty() ? result.log : message);
    return createStringError(reason.empty() ? "status " + std::to_string(status) : reason.str());
  }
  Expected<std::string> output = readFile(outputPath);
  if (!output)
    return output.takeError();
  if (output->empty()) // the file was there before, so a tool that does nothing would pass
    return createStringError("wrote nothing");
  result.output = std::move(*output);
  return result;
}
