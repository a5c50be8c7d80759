//===- HostTensor.h - A strided tensor with guards around every element ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_TOOLS_DLRUN_HOSTTENSOR_H
#define DL_TOOLS_DLRUN_HOSTTENSOR_H

#include "Session.h"

#include <functional>

namespace dl::run {

/// The host's image of a kernel argument. All bytes that belong to no element (padding between
/// rows, guards before and after) are 0xff, which is NaN in every float type: a kernel that reads
/// them produces NaN, one that writes them is found out by sameExcept().
class HostTensor {
public:
  HostTensor() = default;
  /// `padding`: multiples of the alignment added to every stride that may be free.
  HostTensor(const dlk_arg_info &arg, std::vector<int64_t> shape, int64_t padding);

  int64_t numElements() const;
  /// Byte position of element `n`, counted row-major over the shape.
  size_t place(int64_t n) const;
  void set(int64_t n, double value);
  double get(int64_t n) const;

  /// True if all bytes equal those of `before`, leaving out the elements for which `mayChange(n)`.
  /// Elements side by side in the last dimension go by the first of them.
  bool sameExcept(const HostTensor &before, const std::function<bool(int64_t)> &mayChange) const;

  /// A view of a copy in device memory that begins with this image.
  dlk_tensor view(const Buffer &buffer, dlk_device device) const;

  dlk_dtype dtype = DLK_F32;
  std::vector<int64_t> shape, strides;
  std::vector<char> bytes;
};

} // namespace dl::run

#endif // DL_TOOLS_DLRUN_HOSTTENSOR_H
