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
#include <csignal>
#include <cstring>
#include <string>
#include <sys/resource.h>
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
  const json::Array &symbols = *manifest.getArray("symbols");
  ASSERT_EQ(symbols.size(), 11u);
  EXPECT_EQ(symbols[0], json::Value(json::Object{{"name", "B"}, {"min", 0}}));
  EXPECT_EQ(symbols[2], json::Value("HQ"));
  EXPECT_EQ(symbols[4], json::Value(json::Object{{"name", "N"}, {"min", 0}, {"default", "B"}}));
  EXPECT_EQ(symbols[9],
            json::Value(json::Object{{"name", "checkpoint_width"}, {"min", 1}, {"default", 1}}));
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

namespace {
class WriteFile : public ::testing::Test {
protected:
  llvm::SmallString<128> folder;

  void SetUp() override { ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("dl-writer", folder)); }
  void TearDown() override { EXPECT_FALSE(llvm::sys::fs::remove_directories(folder)); }

  std::string inFolder(llvm::StringRef name) const {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, name);
    return path.str().str();
  }
  std::string contents(llvm::StringRef name) const {
    auto buffer = llvm::MemoryBuffer::getFile(inFolder(name));
    return buffer ? (*buffer)->getBuffer().str() : "(cannot be read)";
  }
  /// Temporary files would count.
  int entries() const {
    std::error_code code;
    int count = 0;
    for (llvm::sys::fs::directory_iterator it(folder, code), end; it != end && !code;
         it.increment(code))
      ++count;
    return count;
  }
};
} // namespace

TEST_F(WriteFile, WholeOrNotAtAll) {
  ASSERT_FALSE(bool(writeFile(inFolder("a.dlk"), "first")));
  ASSERT_FALSE(bool(writeFile(inFolder("a.dlk"), std::string("sec\0nd", 6)))) << "replaces";
  EXPECT_EQ(contents("a.dlk"), std::string("sec\0nd", 6));
  EXPECT_EQ(llvm::toString(writeFile(inFolder("none/a.dlk"), "x")),
            "'" + inFolder("none/a.dlk") + "': No such file or directory");
  EXPECT_EQ(entries(), 1);
}

// A limit on the size of files stands for a full disk.
TEST_F(WriteFile, AWriteErrorLeavesTheOldFile) {
  ASSERT_FALSE(bool(writeFile(inFolder("a.dlk"), "old")));
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  auto *handler = std::signal(SIGXFSZ, SIG_IGN); // else the signal comes before the error
  rlimit small = before;
  small.rlim_cur = 4096;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string message = llvm::toString(writeFile(inFolder("a.dlk"), std::string(10000, 'x')));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(message, "'" + inFolder("a.dlk") + "': File too large");
  EXPECT_EQ(contents("a.dlk"), "old");
  EXPECT_EQ(entries(), 1);
}

TEST_F(WriteFile, ALinkStaysALink) {
  ASSERT_FALSE(bool(writeFile(inFolder("a.dlk"), "old")));
  ASSERT_FALSE(llvm::sys::fs::create_link("a.dlk", inFolder("link.dlk")));
  ASSERT_FALSE(bool(writeFile(inFolder("link.dlk"), "new")));
  EXPECT_TRUE(llvm::sys::fs::is_symlink_file(inFolder("link.dlk")));
  EXPECT_EQ(contents("a.dlk"), "new");
  EXPECT_EQ(entries(), 2);
}

TEST_F(WriteFile, ADeviceIsWrittenThrough) {
  // By way of a link in a folder of ours, should it be replaced after all.
  ASSERT_FALSE(llvm::sys::fs::create_link("/dev/full", inFolder("full")));
  EXPECT_EQ(llvm::toString(writeFile(inFolder("full"), "x")),
            "'" + inFolder("full") + "': No space left on device");
  ASSERT_FALSE(llvm::sys::fs::create_link("/dev/null", inFolder("null")));
  EXPECT_FALSE(bool(writeFile(inFolder("null"), "x")));
  EXPECT_FALSE(llvm::sys::fs::is_regular_file(inFolder("null")));
  EXPECT_EQ(entries(), 2);
}
