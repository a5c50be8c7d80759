//===- RowArray.h - An array of integers, for checked mode ----------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_RUNTIME_ROWARRAY_H
#define DL_RUNTIME_ROWARRAY_H

#include "Arguments.h"
#include "Code.h"

#include <cstring>

namespace dl::runtime {

/// An array with one or more entries per row, readable on the host. One that was not given, or that
/// the kernel does not have, tests false.
class RowArray {
public:
  dlk_status read(const Kernel &kernel, int32_t index, const ArgumentChecker &args,
                  const Executable &executable);
  explicit operator bool() const { return data != nullptr; }
  int64_t operator()(int64_t row, int64_t entry = 0) const {
    const char *element = data + (row * strides[0] + entry * strides[1]) * bytes;
    auto load = [&](auto typed) {
      std::memcpy(&typed, element, sizeof(typed));
      return static_cast<int64_t>(typed);
    };
    return bytes == 8 ? load(int64_t()) : bytes == 4 ? load(int32_t()) : load(uint8_t());
  }

  const char *label = "of slots"; // for messages, also where the array is null
  int64_t width = 1;

private:
  const char *data = nullptr;
  int64_t bytes = 0, strides[2] = {};
  std::vector<char> copy;
};

} // namespace dl::runtime

#endif // DL_RUNTIME_ROWARRAY_H
