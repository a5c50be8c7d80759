//===- Writer.h - Package files ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef COMPILER_PACKAGE_WRITER_H
#define COMPILER_PACKAGE_WRITER_H

#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"
#include <string>
#include <vector>

namespace dl::package {

/// Collects blobs and kernels and lays out one `.dlk` file. Same inputs, same bytes: nothing in it
/// depends on time, paths or the order of threads.
class Writer {
public:
  /// Returns the blob's number; equal blobs are stored once.
  int64_t addBlob(std::string bytes);
  void addKernel(llvm::json::Object kernel) { kernels.push_back(std::move(kernel)); }
  /// A top-level field of the manifest.
  void set(llvm::StringRef field, llvm::json::Value value) { manifest[field] = std::move(value); }

  /// The whole file.
  std::string finish();

private:
  std::vector<std::string> blobs;
  llvm::json::Array kernels;
  llvm::json::Object manifest;
};

/// Writes a file whole or not at all: to a temporary name beside it, then renamed. A link's target
/// is replaced, devices and fifos are written through, "-" is standard output.
llvm::Error writeFile(llvm::StringRef path, llvm::StringRef contents);

} // namespace dl::package

#endif // COMPILER_PACKAGE_WRITER_H
