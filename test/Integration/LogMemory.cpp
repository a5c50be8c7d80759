//===- LogMemory.cpp - Tensors in memory, and launches that are watched ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Integration/Log.h"
#include "tools/dl-run/Numbers.h"

#include <algorithm>
#include <cstring>

namespace dl::test {

static constexpr unsigned char guardByte = 0xff; // all ones is a NaN in every format
static constexpr int64_t guardBytes = 256;

Buffer::Buffer(size_t bytes, Fence fence) : Memory(bytes, fence) {
  std::fill(image.begin(), image.end(), guardByte);
}

//===----------------------------------------------------------------------===//
// Arrays
//===----------------------------------------------------------------------===//

int64_t Array::size() const { return run::numElements(shape); }

size_t Array::place(int64_t n) const {
  return byteOffset + run::elementOffset(shape, strides, n) * dlk_dtype_bytes(dtype);
}

double Array::get(int64_t n) const { return run::decode(dtype, &buffer->image[place(n)]); }

void Array::set(int64_t n, double value) {
  run::encode(dtype, value, &buffer->image[place(n)]);
  buffer->isChanged = true;
}

dlk_tensor Array::view() const {
  dlk_tensor view = {};
  if (isAbsent)
    return view;
  view.data = buffer->data();
  view.device = Device::get().handle;
  view.ndim = static_cast<int32_t>(shape.size());
  view.dtype = dlk_dtype_data_type(dtype);
  view.shape = shape.data();
  view.strides = strides.data();
  view.byte_offset = byteOffset;
  return view;
}

void addRanges(const Array &array, const std::vector<int64_t> &index,
               std::vector<ByteRange> &ranges) {
  const size_t bytes = dlk_dtype_bytes(array.dtype), rank = array.shape.size();
  size_t offset = array.byteOffset;
  for (size_t i = 0; i < index.size(); ++i)
    offset += index[i] * array.strides[i] * bytes;
  if (index.size() == rank) {
    ranges.push_back({array.buffer.get(), offset, bytes});
  } else if (index.size() + 1 == rank && array.strides.back() == 1) {
    ranges.push_back({array.buffer.get(), offset, array.shape.back() * bytes});
  } else {
    std::vector<int64_t> inner = index;
    inner.push_back(0);
    for (; inner.back() < array.shape[index.size()]; ++inner.back())
      addRanges(array, inner, ranges);
  }
}

void addRanges(const Array &array, std::vector<ByteRange> &ranges) { addRanges(array, {}, ranges); }

Array &find(std::vector<Bound> &arguments, const std::string &name) {
  for (Bound &bound : arguments)
    if (bound.info->name == name || bound.info->role == name)
      return bound.array;
  ADD_FAILURE() << "no argument " << name;
  return arguments.front().array;
}

//===----------------------------------------------------------------------===//
// Memory for a launch
//===----------------------------------------------------------------------===//

/// Strides with `padding` units of the alignment between rows; returns the extent in bytes.
static int64_t setStrides(const KernelArgument &argument, int64_t padding, Array &array) {
  const int64_t bytes = dlk_dtype_bytes(array.dtype);
  const int64_t unit = std::max<int64_t>(argument.align / bytes, 1);
  array.strides.assign(array.shape.size(), 1);
  int64_t extent = 1;
  for (size_t i = array.shape.size(); i-- > 0;) {
    const int64_t padded = (extent + unit - 1) / unit * unit + padding * unit;
    array.strides[i] = argument.strides[i] ? argument.strides[i] : padded;
    extent += std::max<int64_t>(array.shape[i] - 1, 0) * array.strides[i];
  }
  return extent * bytes;
}

std::vector<Array> Arena::place(const std::vector<std::pair<const KernelArgument *, Shape>> &wanted,
                                const Placing &placing) {
  std::vector<Array> arrays;
  int64_t total = guardBytes;
  for (const auto &[argument, shape] : wanted) {
    Array array;
    array.dtype = argument->dtype;
    array.shape = shape;
    const int64_t bytes = setStrides(*argument, placing.padding, array);
    if (placing.fence != Fence::None) {
      array.buffer = std::make_shared<Buffer>((bytes + 15) / 16 * 16, placing.fence);
    } else {
      array.byteOffset = total;
      total += (bytes + 15) / 16 * 16 + guardBytes;
    }
    arrays.push_back(array);
  }
  if (placing.fence != Fence::None)
    return arrays;
  if (!buffer || static_cast<int64_t>(buffer->image.size()) < total)
    buffer = std::make_shared<Buffer>(2 * total);
  std::fill(buffer->image.begin(), buffer->image.end(), guardByte);
  buffer->isChanged = true;
  for (Array &array : arrays)
    array.buffer = buffer;
  return arrays;
}

//===----------------------------------------------------------------------===//
// Launching
//===----------------------------------------------------------------------===//

static std::vector<Bound> bind(const LogKernel &kernel, const Bindings &bindings) {
  std::vector<Bound> arguments;
  for (const KernelArgument &info : kernel.arguments) {
    auto array = bindings.find(info.role + ":" + info.name);
    if (array == bindings.end())
      array = bindings.find(info.role);
    Bound bound{&info, {}};
    if (array != bindings.end()) {
      bound.array = array->second;
    } else {
      bound.array.isAbsent = true;
      bound.array.dtype = info.dtype;
      EXPECT_TRUE(info.isNullable)
          << kernel.name << ": nothing for argument " << info.name << " of role " << info.role;
    }
    arguments.push_back(bound);
  }
  return arguments;
}

/// The device's memory becomes the image, and must differ from it where it may alone.
static void collect(const std::vector<Bound> &arguments, const std::vector<ByteRange> &mayWrite) {
  std::map<Buffer *, std::string> buffers;
  for (const Bound &bound : arguments)
    if (bound.array.buffer)
      buffers[bound.array.buffer.get()] += " " + bound.info->name;
  std::vector<unsigned char> scratch;
  for (const auto &[buffer, names] : buffers) {
    const unsigned char *bytes = buffer->look(scratch);
    std::vector<unsigned char> &image = buffer->image;
    for (const ByteRange &range : mayWrite)
      if (range.buffer == buffer)
        std::copy_n(&bytes[range.offset], range.bytes, &image[range.offset]);
    if (std::memcmp(bytes, image.data(), image.size()) == 0)
      continue;
    size_t count = 0, first = 0;
    for (size_t i = 0; i < image.size(); ++i)
      if (bytes[i] != image[i] && count++ == 0)
        first = i;
    std::string where;
    for (const Bound &bound : arguments)
      if (bound.array.buffer.get() == buffer && bound.array.byteOffset <= first)
        where = bound.info->name + " + " + std::to_string(first - bound.array.byteOffset);
    ADD_FAILURE() << count << " bytes written where nothing was to be written, the first at "
                  << where << ", in the memory of" << names;
    buffer->isChanged = true; // as it should be, for what follows
  }
}

bool launch(const LogKernel &kernel, const Bindings &bindings,
            const std::map<std::string, double> &scalars, const std::vector<ByteRange> &mayWrite,
            const LaunchOptions &options) {
  std::vector<Bound> arguments = bind(kernel, bindings);
  if (options.change)
    options.change(arguments);
  std::vector<dlk_tensor> views;
  std::vector<ByteRange> ranges = options.refusal.empty() ? mayWrite : std::vector<ByteRange>();
  for (Bound &bound : arguments) {
    views.push_back(bound.array.view());
    if (bound.array.buffer && bound.array.buffer->isChanged) {
      bound.array.buffer->upload();
      bound.array.buffer->isChanged = false;
    }
    if (options.isGarbage && bound.info->isWritten && bound.array.buffer)
      addRanges(bound.array, ranges);
  }
  if (Device::get().driver) // copies end before their call does for the default stream alone
    EXPECT_EQ(Device::get().driver->ctxSynchronize(), 0);
  std::vector<dlk_scalar> values;
  for (const auto &[name, value] : scalars)
    if (std::count(kernel.scalars.begin(), kernel.scalars.end(), name))
      values.push_back({name.c_str(), value});
  const LaunchStatus status = kernel.launch(views, values, options.flags);
  collect(arguments, ranges);
  if (options.refusal.empty()) {
    EXPECT_EQ(status.code, DLK_OK) << kernel.name << ": " << status.message;
    return status.code == DLK_OK;
  }
  EXPECT_NE(status.code, DLK_OK) << kernel.name << ": expected '" << options.refusal << "'";
  EXPECT_NE(status.message.find(options.refusal), std::string::npos) << status.message;
  EXPECT_EQ(status.message.find('\n'), std::string::npos) << status.message;
  return false;
}

} // namespace dl::test
