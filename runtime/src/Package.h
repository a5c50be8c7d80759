//===- Package.h - A package in memory, and code loaded from it -----------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_RUNTIME_PACKAGE_H
#define DL_RUNTIME_PACKAGE_H

#include "Manifest.h"
#include "dl/dlk.h"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

namespace dl::runtime {

/// Code of one blob, loaded on one device. Destroying it unloads.
class LoadedCode {
public:
  virtual ~LoadedCode() = default;
};

/// The bytes of a package and its manifest. Immutable but for the cache of loaded code; shared by
/// the package handle and by every plan, so that plans outlive the handle.
class Package {
public:
  /// Takes the bytes of a file and checks header, hashes and manifest.
  static dlk_status create(std::vector<char> bytes, std::shared_ptr<Package> &result);
  static dlk_status readFile(const char *path, std::vector<char> &bytes);

  const Manifest &manifest() const { return contents; }
  const std::string &manifestText() const { return text; }
  const std::string &specText() const { return spec; }
  const char *blobData(const Blob &blob) const { return bytes.data() + blob.offset; }

  /// (blob, device type, device id)
  using CodeKey = std::tuple<uint32_t, int32_t, int32_t>;

  /// Returns the code loaded for `key`, calling `load` if no plan holds it. Loading is serialised.
  template <typename Load>
  dlk_status loadOnce(const CodeKey &key, std::shared_ptr<LoadedCode> &code, Load load) {
    std::lock_guard<std::mutex> lock(mutex);
    std::weak_ptr<LoadedCode> &entry = loaded[key];
    if ((code = entry.lock()))
      return DLK_OK;
    dlk_status status = load(code);
    if (status == DLK_OK)
      entry = code;
    return status;
  }

private:
  dlk_status checkHeader() const;
  dlk_status checkBlobs() const;

  std::vector<char> bytes;
  Manifest contents;
  std::string text, spec;
  std::mutex mutex;
  std::map<CodeKey, std::weak_ptr<LoadedCode>> loaded;
};

} // namespace dl::runtime

/// The handles of the C API.
struct dlk_kernel {
  std::shared_ptr<dl::runtime::Package> package;
  const dl::runtime::Kernel *kernel = nullptr;
};

struct dlk_package {
  std::shared_ptr<dl::runtime::Package> package;
  std::vector<dlk_kernel> kernels;
};

#endif // DL_RUNTIME_PACKAGE_H
