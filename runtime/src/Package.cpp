//===- Package.cpp - A package in memory ----------------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Package.h"
#include "Status.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>

using namespace dl::runtime;

dlk_status Package::readFile(const char *path, std::vector<char> &bytes) {
  std::unique_ptr<FILE, int (*)(FILE *)> file(std::fopen(path, "rb"), std::fclose);
  if (!file)
    return fail(DLK_IO_ERROR, "cannot open '%s': %s", path, std::strerror(errno));
  // Read to the end instead of asking for the size: pipes and /proc files have none.
  constexpr size_t step = 1 << 20;
  size_t used = 0, got = 0;
  do {
    bytes.resize(used + step);
    got = std::fread(bytes.data() + used, 1, step, file.get());
    used += got;
  } while (got == step);
  if (std::ferror(file.get()))
    return fail(DLK_IO_ERROR, "cannot read '%s': %s", path, std::strerror(errno));
  bytes.resize(used);
  return DLK_OK;
}

dlk_status Package::checkHeader() const {
  DlkHeader header;
  if (bytes.size() < sizeof(header))
    return fail(DLK_BAD_PACKAGE, "truncated package: expected at least %zu bytes, got %zu",
                sizeof(header), bytes.size());
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.magic, DLK_MAGIC, DLK_MAGIC_BYTES) != 0)
    return fail(DLK_BAD_PACKAGE, "not a package: it does not start with 'DLKPKG'");
  if (header.version != DLK_FORMAT_VERSION)
    return fail(DLK_BAD_PACKAGE, "package format: expected version %u, got %u", DLK_FORMAT_VERSION,
                header.version);
  if (header.header_bytes != sizeof(header))
    return fail(DLK_BAD_PACKAGE, "package header: expected %zu bytes, got %u", sizeof(header),
                header.header_bytes);
  if (header.file_bytes != bytes.size())
    return fail(DLK_BAD_PACKAGE, "truncated package: expected %" PRIu64 " bytes, got %zu",
                header.file_bytes, bytes.size());
  if (header.manifest_offset < sizeof(header) || header.manifest_offset > bytes.size() ||
      header.manifest_bytes > bytes.size() - header.manifest_offset)
    return fail(DLK_BAD_PACKAGE,
                "manifest: bytes %" PRIu64 " + %" PRIu64 " lie outside the file of %zu",
                header.manifest_offset, header.manifest_bytes, bytes.size());
  XXH128_hash_t hash = XXH3_128bits(bytes.data() + header.manifest_offset, header.manifest_bytes);
  if (hash.low64 != header.manifest_hash_lo || hash.high64 != header.manifest_hash_hi)
    return fail(DLK_BAD_PACKAGE,
                "manifest hash: expected %016" PRIx64 "%016" PRIx64 ", got %016" PRIx64
                "%016" PRIx64,
                header.manifest_hash_hi, header.manifest_hash_lo, uint64_t(hash.high64),
                uint64_t(hash.low64));
  return DLK_OK;
}

dlk_status Package::checkBlobs() const {
  for (size_t i = 0; i < contents.blobs.size(); ++i) {
    const Blob &blob = contents.blobs[i];
    XXH128_hash_t hash = XXH3_128bits(blobData(blob), blob.bytes);
    if (hash.low64 != blob.hashLow || hash.high64 != blob.hashHigh)
      return fail(DLK_BAD_PACKAGE,
                  "blobs[%zu] hash: expected %016" PRIx64 "%016" PRIx64 ", got %016" PRIx64
                  "%016" PRIx64,
                  i, blob.hashHigh, blob.hashLow, uint64_t(hash.high64), uint64_t(hash.low64));
  }
  return DLK_OK;
}

dlk_status Package::create(std::vector<char> bytes, std::shared_ptr<Package> &result) {
  auto package = std::make_shared<Package>();
  package->bytes = std::move(bytes);
  if (dlk_status status = package->checkHeader())
    return status;
  DlkHeader header;
  std::memcpy(&header, package->bytes.data(), sizeof(header));
  package->text.assign(package->bytes.data() + header.manifest_offset, header.manifest_bytes);
  Manifest &manifest = package->contents;
  std::string error;
  if (!parseManifest(package->text.data(), package->text.size(), package->bytes.size(), manifest,
                     error))
    return fail(DLK_BAD_PACKAGE, "%s", error.c_str());
  if (dlk_status status = package->checkBlobs())
    return status;
  if (manifest.specBlob >= 0) {
    const Blob &blob = manifest.blobs[manifest.specBlob];
    package->spec.assign(package->blobData(blob), blob.bytes);
  }
  result = std::move(package);
  return DLK_OK;
}
