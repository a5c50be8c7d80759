//===- JsonReader.h - Typed access to untrusted JSON ----------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_RUNTIME_JSONREADER_H
#define DL_RUNTIME_JSONREADER_H

#include <nlohmann/json.hpp>

#include <cstdint>
#include <initializer_list>
#include <string>

namespace dl::runtime {

/// A JSON value and where it stands ("kernels[0].args[2].dtype"). Accessors check type and range;
/// the first failure is kept in the shared `error` and every accessor then returns a harmless
/// value, so that readers need no early returns.
class JsonReader {
public:
  JsonReader(const nlohmann::json *value, std::string path, std::string &error)
      : value(value), path(std::move(path)), error(&error) {}

  /// A member that must exist.
  JsonReader at(const char *key) const;
  /// A member that may be absent or null: test with `if`.
  JsonReader find(const char *key) const;
  /// An element; size() is 0 (and an error) if this is not an array.
  JsonReader operator[](size_t index) const;
  size_t size() const;
  explicit operator bool() const { return value != nullptr; }

  std::string text() const;
  int64_t integer(int64_t low, int64_t high) const;
  double number() const;
  bool flag() const;
  /// The index of this text in `names`.
  int choice(std::initializer_list<const char *> names) const;

  const nlohmann::json *raw() const { return value; }
  bool failed() const { return !error->empty(); }
  /// Records "path: message" unless an earlier failure is recorded.
  void fail(const std::string &message) const;

private:
  const nlohmann::json *value; // nullptr: absent, or lost to an error
  std::string path;
  std::string *error;
};

} // namespace dl::runtime

#endif // DL_RUNTIME_JSONREADER_H
