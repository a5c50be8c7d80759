//===- WriterTest.cpp - The bytes of a package ----------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Package/Writer.h"
#include "dl/dlk.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "gtest/gtest.h"
#include <cstring>
#include <string>
#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace dl::package;
namespace json = llvm::json;

static DlkHeader headerOf(const std::string &file) {
  DlkHeader header = {};
  EXPECT_GE(file.size(), sizeof(header));
  std::memcpy(&header, file.data(), std::min(file.size(), sizeof(header)));
  return header;
}

static json::Object manifestOf(const std::string &file) {
  DlkHeader header = headerOf(file);
  auto value =
      json::parse(llvm::StringRef(file).substr(header.manifest_offset, header.manifest_bytes));
  if (!value || !value->getAsObject()) {
    ADD_FAILURE() << "the manifest is no JSON object";
    return {};
  }
  return *value->getAsObject();
}

/// A small package: blobs of odd sizes, one of them twice, and one kernel.
static std::string smallPackage() {
  Writer writer;
  EXPECT_EQ(writer.addBlob("spec"), 0);
  EXPECT_EQ(writer.addBlob(std::string(65, 'x')), 1);
  EXPECT_EQ(writer.addBlob(""), 2);
  EXPECT_EQ(writer.addBlob(std::string(65, 'x')), 1) << "equal blobs are stored once";
  EXPECT_EQ(writer.addBlob(std::string(64, 'y')), 3);
  writer.set("operator", "op");
  writer.addKernel(json::Object{{"name", "a"}, {"blob", 1}});
  return writer.finish();
}

TEST(Writer, HeaderSaysWhereTheManifestIs) {
  const std::string file = smallPackage();
  const DlkHeader header = headerOf(file);
  EXPECT_EQ(std::string(header.magic, DLK_MAGIC_BYTES), std::string(DLK_MAGIC "\0", 8));
  EXPECT_EQ(header.version, DLK_FORMAT_VERSION);
  EXPECT_EQ(header.header_bytes, 64u);
  EXPECT_EQ(header.file_bytes, file.size());
  EXPECT_EQ(header.manifest_offset + header.manifest_bytes, file.size());
  EXPECT_EQ(header.reserved, 0u);
  EXPECT_EQ(file.back(), '}') << "no terminating zero";
}

/// Hashed by the library everyone uses, not by the code under test.
TEST(Writer, HashesAreXXH3OfTheBytes) {
  const std::string file = smallPackage();
  const DlkHeader header = headerOf(file);
  XXH128_hash_t sum = XXH3_128bits(file.data() + header.manifest_offset, header.manifest_bytes);
  EXPECT_EQ(header.manifest_hash_lo, sum.low64);
  EXPECT_EQ(header.manifest_hash_hi, sum.high64);
  json::Object manifest = manifestOf(file);
  ASSERT_TRUE(manifest.getArray("blobs"));
  for (const json::Value &value : *manifest.getArray("blobs")) {
    const json::Object &blob = *value.getAsObject();
    sum = XXH3_128bits(file.data() + *blob.getInteger("offset"), *blob.getInteger("bytes"));
    char digits[33];
    std::snprintf(digits, sizeof(digits), "%016llx%016llx",
                  static_cast<unsigned long long>(sum.high64),
                  static_cast<unsigned long long>(sum.low64));
    EXPECT_EQ(*blob.getString("hash"), digits);
  }
}

TEST(Writer, BlobsAreAlignedAndDoNotOverlap) {
  const std::string file = smallPackage();
  json::Object manifest = manifestOf(file);
  const json::Array &blobs = *manifest.getArray("blobs");
  ASSERT_EQ(blobs.size(), 4u);
  const int64_t sizes[] = {4, 65, 0, 64};
  int64_t end = sizeof(DlkHeader);
  for (size_t i = 0; i < blobs.size(); ++i) {
    const json::Object &blob = *blobs[i].getAsObject();
    EXPECT_EQ(*blob.getInteger("offset") % DLK_BLOB_ALIGNMENT, 0);
    EXPECT_GE(*blob.getInteger("offset"), end);
    EXPECT_EQ(*blob.getInteger("bytes"), sizes[i]);
    end = *blob.getInteger("offset") + sizes[i];
  }
  EXPECT_GE(int64_t(headerOf(file).manifest_offset), end);
  EXPECT_EQ(file.substr(*blobs[0].getAsObject()->getInteger("offset"), 4), "spec");
}

TEST(Writer, ManifestHasItsFields) {
  json::Object manifest = manifestOf(smallPackage());
  EXPECT_EQ(*manifest.getInteger("format"), int64_t(DLK_FORMAT_VERSION));
  EXPECT_EQ(*manifest.getString("operator"), "op");
  ASSERT_EQ(manifest.getArray("kernels")->size(), 1u);
  ASSERT_EQ(manifest.getArray("symbols")->size(), 4u);
  EXPECT_EQ((*manifest.getArray("symbols"))[0], json::Value("B"));
}

TEST(Writer, SameInputsGiveTheSameBytes) { EXPECT_EQ(smallPackage(), smallPackage()); }

/// Every byte of header, blobs and manifest matters to the reader. (Padding between blobs belongs
/// to nothing, and the last bytes of the header are reserved.)
TEST(Writer, TheRuntimeReadsItAndNoticesDamage) {
  Writer writer;
  writer.set("generator", "test");
  writer.set("operator", "op");
  writer.set("spec", writer.addBlob(std::string(64, 's')));
  std::string file = writer.finish();
  dlk_package *package = nullptr;
  ASSERT_EQ(dlk_package_open_memory(file.data(), file.size(), &package), DLK_OK)
      << dlk_last_error();
  EXPECT_EQ(std::string(dlk_package_operator(package)), "op");
  EXPECT_EQ(std::string(dlk_package_spec(package, nullptr)), std::string(64, 's'));
  dlk_package_close(package);
  const size_t reserved = offsetof(DlkHeader, reserved);
  for (size_t i = 0; i < file.size(); ++i) {
    if (i >= reserved && i < sizeof(DlkHeader))
      continue;
    std::string damaged = file;
    damaged[i] ^= 1;
    EXPECT_EQ(dlk_package_open_memory(damaged.data(), damaged.size(), &package), DLK_BAD_PACKAGE)
        << "byte " << i;
    dlk_package_close(package);
  }
}

TEST(WriteFile, WholeOrNotAtAll) {
  llvm::SmallString<128> folder;
  ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("dl-writer", folder));
  auto inFolder = [&](llvm::StringRef name) {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, name);
    return path.str().str();
  };
  ASSERT_FALSE(bool(writeFile(inFolder("a.dlk"), "first")));
  ASSERT_FALSE(bool(writeFile(inFolder("a.dlk"), std::string("sec\0nd", 6)))) << "replaces";
  auto buffer = llvm::MemoryBuffer::getFile(inFolder("a.dlk"));
  ASSERT_TRUE(bool(buffer));
  EXPECT_EQ((*buffer)->getBuffer(), llvm::StringRef("sec\0nd", 6));
  llvm::Error error = writeFile(inFolder("none/a.dlk"), "x");
  EXPECT_TRUE(bool(error));
  llvm::consumeError(std::move(error));
  // Nothing but the file: temporary ones are gone.
  std::error_code code;
  int entries = 0;
  for (llvm::sys::fs::directory_iterator it(folder, code), end; it != end && !code;
       it.increment(code))
    ++entries;
  EXPECT_EQ(entries, 1);
  EXPECT_FALSE(llvm::sys::fs::remove_directories(folder));
}
