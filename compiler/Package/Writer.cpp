//===- Writer.cpp - Package files ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Package/Writer.h"
#include "runtime/include/dl/abi.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"
#include <cstring>

using namespace llvm;
using namespace dl::package;

int64_t Writer::addBlob(std::string bytes) {
  auto known = llvm::find(blobs, bytes);
  if (known != blobs.end())
    return known - blobs.begin();
  blobs.push_back(std::move(bytes));
  return static_cast<int64_t>(blobs.size()) - 1;
}

static XXH128_hash_t hash(StringRef bytes) { return xxh3_128bits(arrayRefFromStringRef(bytes)); }

/// The sizes that launches choose. What may be left out has a default.
static json::Array describeSymbols() {
  auto symbol = [](StringRef name, int64_t low, json::Value fallback) {
    json::Object result{{"name", name}, {"min", low}};
    if (fallback != nullptr)
      result["default"] = std::move(fallback);
    return result;
  };
  return json::Array{symbol("B", 0, nullptr),
                     symbol("T", 0, nullptr),
                     "HQ",
                     "HV",
                     symbol("N", 0, "B"),
                     "pool_in",
                     "pool_out",
                     symbol("src_width", 1, 1),
                     symbol("dst_width", 1, 1),
                     symbol("checkpoint_width", 1, 1),
                     "slots"};
}

std::string Writer::finish() {
  std::string file(sizeof(DlkHeader), '\0');
  json::Array table;
  for (const std::string &blob : blobs) {
    file.append((DLK_BLOB_ALIGNMENT - file.size() % DLK_BLOB_ALIGNMENT) % DLK_BLOB_ALIGNMENT, '\0');
    XXH128_hash_t sum = hash(blob);
    table.push_back(
        json::Object{{"offset", static_cast<int64_t>(file.size())},
                     {"bytes", static_cast<int64_t>(blob.size())},
                     {"hash", formatv("{0:x-16}{1:x-16}", sum.high64, sum.low64).str()}});
    file += blob;
  }
  manifest["format"] = static_cast<int64_t>(DLK_FORMAT_VERSION);
  manifest["symbols"] = describeSymbols();
  manifest["kernels"] = std::move(kernels);
  manifest["blobs"] = std::move(table);
  std::string text = formatv("{0}", json::Value(json::Object(manifest))).str();

  DlkHeader header = {};
  std::memcpy(header.magic, DLK_MAGIC, DLK_MAGIC_BYTES);
  header.version = DLK_FORMAT_VERSION;
  header.header_bytes = sizeof(DlkHeader);
  header.manifest_offset = file.size();
  header.manifest_bytes = text.size();
  XXH128_hash_t sum = hash(text);
  header.manifest_hash_lo = sum.low64;
  header.manifest_hash_hi = sum.high64;
  header.file_bytes = file.size() + text.size();
  std::memcpy(file.data(), &header, sizeof header);
  return file + text;
}

static Error writeTo(raw_fd_ostream &stream, StringRef path, StringRef contents) {
  stream << contents;
  stream.flush();
  std::error_code error = stream.error();
  stream.clear_error(); // else the destructor ends the program
  return error ? createFileError(path, error) : Error::success();
}

Error dl::package::writeFile(StringRef path, StringRef contents) {
  if (path == "-")
    return writeTo(outs(), "standard output", contents);
  // A device or fifo is written through: a file in its place is not what was asked for.
  if (sys::fs::exists(path) && !sys::fs::is_regular_file(path)) {
    std::error_code error;
    raw_fd_ostream stream(path, error);
    return error ? createFileError(path, error) : writeTo(stream, path, contents);
  }
  // The file that a link leads to is replaced, not the link. What is not there yet stays as given.
  SmallString<128> real;
  if (sys::fs::real_path(path, real))
    real = path;
  Expected<sys::fs::TempFile> file = sys::fs::TempFile::create(real + ".%%%%%%");
  if (!file)
    return createFileError(path, file.takeError());
  Error error = [&] {
    raw_fd_ostream stream(file->FD, /*shouldClose=*/false);
    return writeTo(stream, path, contents);
  }();
  if (error) {
    consumeError(file->discard());
    return error;
  }
  if (Error renamed = file->keep(real))
    return createFileError(path, std::move(renamed));
  return Error::success();
}
