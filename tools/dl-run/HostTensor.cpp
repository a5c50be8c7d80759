//===- HostTensor.cpp - A strided tensor with guards around every element -===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostTensor.h"
#include "Numbers.h"

#include <algorithm>
#include <cstring>

using namespace dl::run;

static constexpr size_t guardBytes =
    1024; // a multiple of every alignment that a manifest may ask for

HostTensor::HostTensor(const dlk_arg_info &arg, std::vector<int64_t> newShape, int64_t padding)
    : dtype(arg.dtype), shape(std::move(newShape)), strides(shape.size(), 1) {
  const int64_t elementBytes = dlk_dtype_bytes(dtype);
  const int64_t unit = std::max<int64_t>(arg.align / elementBytes, 1);
  int64_t extent = 1; // elements spanned by the faster dimensions
  for (size_t i = shape.size(); i-- > 0;) {
    int64_t padded = (extent + unit - 1) / unit * unit + padding * unit;
    strides[i] = arg.stride[i] ? arg.stride[i] : padded;
    extent = std::max<int64_t>(shape[i] - 1, 0) * strides[i] + extent;
  }
  bytes.assign(extent * elementBytes + 2 * guardBytes, char(0xff));
}

int64_t HostTensor::numElements() const { return run::numElements(shape); }

size_t HostTensor::place(int64_t n) const {
  return guardBytes + run::elementOffset(shape, strides, n) * dlk_dtype_bytes(dtype);
}

void HostTensor::set(int64_t n, double value) { encode(dtype, value, &bytes[place(n)]); }

double HostTensor::get(int64_t n) const { return decode(dtype, &bytes[place(n)]); }

bool HostTensor::sameExcept(const HostTensor &before,
                            const std::function<bool(int64_t)> &mayChange) const {
  std::vector<char> masked = bytes;
  const int64_t side = !shape.empty() && strides.back() == 1 ? shape.back() : 1;
  for (int64_t n = 0, count = numElements(); n < count; n += side)
    if (mayChange(n))
      std::memcpy(&masked[place(n)], &before.bytes[place(n)], side * dlk_dtype_bytes(dtype));
  return masked == before.bytes;
}

dlk_tensor HostTensor::view(const Buffer &buffer, dlk_device device) const {
  dlk_tensor view = {};
  view.data = buffer.data();
  view.byte_offset = guardBytes;
  view.device = device;
  view.ndim = static_cast<int32_t>(shape.size());
  view.dtype = dlk_dtype_data_type(dtype);
  view.shape = shape.data();
  view.strides = strides.data();
  return view;
}
