//===- Arguments.cpp - Checking what a launch is given --------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Arguments.h"
#include "Sizes.h"
#include "Status.h"

#include <algorithm>
#include <cinttypes>

using namespace dl::runtime;

static const char *deviceName(dlk_device device, char (&buffer)[32]) {
  if (device.type == DLK_DEVICE_CPU)
    std::snprintf(buffer, sizeof(buffer), "cpu");
  else if (device.type == DLK_DEVICE_CUDA)
    std::snprintf(buffer, sizeof(buffer), "cuda:%d", device.id);
  else
    std::snprintf(buffer, sizeof(buffer), "device type %d", device.type);
  return buffer;
}

/// Strides travel in 32 bits: a kernel multiplies them by an index in one instruction.
static constexpr int64_t maxStride = UINT32_MAX;
static constexpr dlk_data_type dlpackBool = {6, 8, 1};

static bool operator==(dlk_data_type a, dlk_data_type b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

static const char *typeName(dlk_data_type type, char (&buffer)[48]) {
#define X(NAME, TEXT, CODE, BITS)                                                                  \
  if (type.code == CODE && type.bits == BITS && type.lanes == 1)                                   \
    return TEXT;
  DLK_FOR_EACH_DTYPE(X)
#undef X
  if (type == dlpackBool)
    return "bool";
  std::snprintf(buffer, sizeof(buffer), "type code %u of %u bits and %u lanes", type.code,
                type.bits, type.lanes);
  return buffer;
}

dlk_status ArgumentChecker::checkType(size_t index, const dlk_tensor &view) {
  const Argument &arg = kernel.args[index];
  char a[48], b[32], c[32];
  if (view.device.type != device.type ||
      (device.type != DLK_DEVICE_CPU && view.device.id != device.id))
    return fail(DLK_INVALID_ARGUMENT, "argument %s device: expected %s, got %s", arg.label.c_str(),
                deviceName(device, b), deviceName(view.device, c));
  bool typeFits = view.dtype == dlk_dtype_data_type(arg.dtype) ||
                  (arg.dtype == DLK_U8 && view.dtype == dlpackBool);
  if (!typeFits)
    return fail(DLK_INVALID_ARGUMENT, "argument %s dtype: expected %s, got %s", arg.label.c_str(),
                dlk_dtype_name(arg.dtype), typeName(view.dtype, a));
  const int32_t rank = static_cast<int32_t>(arg.dims.size());
  if (view.ndim < arg.minRank || view.ndim > rank) {
    if (arg.minRank == rank)
      return fail(DLK_INVALID_ARGUMENT, "argument %s rank: expected %d, got %d", arg.label.c_str(),
                  rank, view.ndim);
    return fail(DLK_INVALID_ARGUMENT, "argument %s rank: expected %d to %d, got %d",
                arg.label.c_str(), arg.minRank, rank, view.ndim);
  }
  if (view.ndim > 0 && !view.shape)
    return fail(DLK_INVALID_ARGUMENT, "argument %s shape: expected %d sizes, got NULL",
                arg.label.c_str(), view.ndim);
  for (int32_t i = 0; i < view.ndim; ++i)
    if (view.shape[i] < 0)
      return fail(DLK_INVALID_ARGUMENT, "argument %s dimension %d: expected %s, got %" PRId64,
                  arg.label.c_str(), i, arg.dims[i].text.c_str(), view.shape[i]);
  BoundArgument &result = bound[index];
  result.isNull = false;
  std::fill(std::copy_n(view.shape, view.ndim, result.shape), result.shape + rank, 1);
  return DLK_OK;
}

const char *ArgumentChecker::sourceOf(int64_t symbol) const {
  return boundBy[symbol] < 0 ? "its default" : kernel.args[boundBy[symbol]].label.c_str();
}

dlk_status ArgumentChecker::bindSymbols(size_t index) {
  const Argument &arg = kernel.args[index];
  for (size_t i = 0; i < arg.dims.size(); ++i) {
    const Dimension &dim = arg.dims[i];
    if (dim.symbol < 0)
      continue;
    const int64_t size = bound[index].shape[i], value = size - dim.offset;
    if (value < 0)
      return fail(DLK_INVALID_ARGUMENT,
                  "argument %s dimension %zu: expected at least %" PRId64 ", got %" PRId64,
                  arg.label.c_str(), i, dim.offset, size);
    if (!symbols.bound[dim.symbol]) {
      symbols.bound[dim.symbol] = true;
      symbols.value[dim.symbol] = value;
      boundBy[dim.symbol] = static_cast<int32_t>(index);
    } else if (symbols.value[dim.symbol] != value) {
      int64_t expected = 0;
      const char *reason;
      dim.size.evaluate(symbols, expected, reason);
      return fail(DLK_INVALID_ARGUMENT,
                  "argument %s dimension %zu: expected %s = %" PRId64 " as in %s, got %" PRId64,
                  arg.label.c_str(), i, dim.text.c_str(), expected, sourceOf(dim.symbol), size);
    }
  }
  return DLK_OK;
}

dlk_status ArgumentChecker::checkShape(size_t index) const {
  const Argument &arg = kernel.args[index];
  for (size_t i = 0; i < arg.dims.size(); ++i) {
    const Dimension &dim = arg.dims[i];
    if (dim.symbol >= 0)
      continue;
    const int64_t size = bound[index].shape[i];
    int64_t expected = 0;
    const char *reason;
    if (!dim.size.evaluate(symbols, expected, reason))
      return fail(DLK_UNSUPPORTED, "argument %s dimension %zu: %s: %s", arg.label.c_str(), i,
                  dim.text.c_str(), reason);
    if (expected == size)
      continue;
    if (dim.size.isNumber())
      return fail(DLK_INVALID_ARGUMENT,
                  "argument %s dimension %zu: expected %" PRId64 ", got %" PRId64,
                  arg.label.c_str(), i, expected, size);
    return fail(DLK_INVALID_ARGUMENT,
                "argument %s dimension %zu: expected %s = %" PRId64 ", got %" PRId64,
                arg.label.c_str(), i, dim.text.c_str(), expected, size);
  }
  return DLK_OK;
}

dlk_status ArgumentChecker::checkStrides(size_t index, const dlk_tensor &view) {
  const Argument &arg = kernel.args[index];
  BoundArgument &result = bound[index];
  const int64_t bytes = dlk_dtype_bytes(arg.dtype);
  std::fill(result.strides + view.ndim, result.strides + arg.dims.size(), 0);
  int64_t contiguous = 1;
  for (int32_t i = view.ndim; i-- > 0;) {
    const int64_t size = result.shape[i];
    const int64_t stride = view.strides ? view.strides[i] : contiguous;
    result.strides[i] = stride;
    if (__builtin_mul_overflow(contiguous, std::max<int64_t>(size, 1), &contiguous))
      return fail(DLK_INVALID_ARGUMENT, "argument %s shape: the sizes exceed 64 bits",
                  arg.label.c_str());
    if (size <= 1)
      continue;
    const Dimension &dim = arg.dims[i];
    if (dim.fixedStride) {
      if (stride != dim.fixedStride)
        return fail(DLK_INVALID_ARGUMENT,
                    "argument %s stride %d: expected %" PRId64 ", got %" PRId64, arg.label.c_str(),
                    i, dim.fixedStride, stride);
      continue;
    }
    if (stride < 0 || stride > maxStride)
      return fail(DLK_INVALID_ARGUMENT,
                  "argument %s stride %d: expected 0 to %" PRId64 ", got %" PRId64,
                  arg.label.c_str(), i, maxStride, stride);
    if (int64_t unit = arg.align / bytes; stride % unit != 0)
      return fail(DLK_INVALID_ARGUMENT,
                  "argument %s stride %d: expected a multiple of %" PRId64
                  " elements (%u bytes), got %" PRId64,
                  arg.label.c_str(), i, unit, arg.align, stride);
  }
  return DLK_OK;
}

dlk_status ArgumentChecker::checkMemory(size_t index, const dlk_tensor &view) {
  const Argument &arg = kernel.args[index];
  BoundArgument &result = bound[index];
  const int64_t bytes = dlk_dtype_bytes(arg.dtype);
  result.begin = result.end = reinterpret_cast<uint64_t>(view.data) + view.byte_offset;
  int64_t span = 1;
  bool isEmpty = false, overflows = false;
  for (size_t i = 0; i < arg.dims.size(); ++i) {
    int64_t reach = 0;
    isEmpty |= result.shape[i] == 0;
    if (result.shape[i] > 1)
      overflows |= __builtin_mul_overflow(result.shape[i] - 1, result.strides[i], &reach);
    overflows |= __builtin_add_overflow(span, reach, &span);
  }
  if (isEmpty)
    return DLK_OK;
  overflows |= __builtin_mul_overflow(span, bytes, &span);
  overflows |= __builtin_add_overflow(result.begin, uint64_t(span), &result.end);
  if (overflows)
    return fail(DLK_INVALID_ARGUMENT, "argument %s: shape and strides exceed the address space",
                arg.label.c_str());
  if (!view.data)
    return fail(DLK_INVALID_ARGUMENT, "argument %s data: expected memory, got NULL",
                arg.label.c_str());
  if (uint64_t rest = result.begin % arg.align)
    return fail(DLK_INVALID_ARGUMENT,
                "argument %s data: expected an address aligned to %u bytes, got one %" PRIu64
                " bytes above",
                arg.label.c_str(), arg.align, rest);
  return DLK_OK;
}

dlk_status ArgumentChecker::checkPoolRows(size_t index) const {
  const Argument &arg = kernel.args[index];
  auto isNull = [&](int32_t slots) { return slots < 0 || bound[slots].isNull; };
  const bool isIndexedByRow =
      arg.role == DLK_ROLE_STATE_IN    ? isNull(kernel.slotsIn)
      : arg.role == DLK_ROLE_STATE_OUT ? isNull(kernel.slotsOut)
      : arg.role == DLK_ROLE_CURSORS
          ? isNull(kernel.slotsIn) || (kernel.plansLog() && isNull(kernel.slotsOut))
          : false;
  if (!isIndexedByRow || manifest.rowSymbol < 0)
    return DLK_OK;
  int64_t rows = symbols.value[manifest.rowSymbol];
  if (bound[index].shape[0] < rows)
    return fail(DLK_INVALID_ARGUMENT,
                "argument %s dimension 0: expected at least N = %" PRId64
                " slots because the slot array is null, got %" PRId64,
                arg.label.c_str(), rows, bound[index].shape[0]);
  return DLK_OK;
}

dlk_status ArgumentChecker::checkMinimums() const {
  for (size_t i = 0; i < manifest.symbols.size(); ++i) {
    const int64_t minimum = manifest.symbolRules[i].minimum, value = symbols.value[i];
    if (!symbols.bound[i] || value >= minimum)
      continue;
    const char *name = manifest.symbols[i].c_str();
    if (boundBy[i] >= 0)
      return fail(DLK_INVALID_ARGUMENT, "argument %s: expected a positive %s, got %" PRId64,
                  sourceOf(i), name, value);
    return fail(DLK_INVALID_ARGUMENT, "size '%s': expected %" PRId64 " or more, got %" PRId64, name,
                minimum, value);
  }
  return DLK_OK;
}

dlk_status ArgumentChecker::checkRows() const {
  const int32_t rows = manifest.rowSymbol, batch = manifest.batchSymbol;
  if (rows < 0 || batch < 0 || !symbols.bound[rows] || !symbols.bound[batch])
    return DLK_OK;
  const int64_t numRows = symbols.value[rows], entries = symbols.value[batch];
  if (kernel.rowStarts >= 0 && !bound[kernel.rowStarts].isNull) {
    if (entries == 1)
      return DLK_OK;
    return fail(DLK_INVALID_ARGUMENT,
                "argument %s: expected B = 1 where rows lie in one batch entry, got B = %" PRId64
                " in %s",
                kernel.args[kernel.rowStarts].label.c_str(), entries, sourceOf(batch));
  }
  // Descriptors say where a row's tokens are: in an entry of its own, or in one for all rows.
  if (numRows == entries || (kernel.followsLog() && entries == 1))
    return DLK_OK;
  return fail(DLK_INVALID_ARGUMENT,
              "argument %s: expected N = B = %" PRId64 " as in %s, got N = %" PRId64,
              sourceOf(rows), entries, sourceOf(batch), numRows);
}

bool ArgumentChecker::hasNoRows() const {
  return manifest.rowSymbol >= 0 && symbols.bound[manifest.rowSymbol] &&
         symbols.value[manifest.rowSymbol] == 0;
}

/// Null data also stands for an empty tensor, which is given.
static bool isAbsent(const Argument &arg, const dlk_tensor &view) {
  if (!arg.nullable || view.data)
    return false;
  for (int32_t i = 0; view.shape && i < view.ndim; ++i)
    if (view.shape[i] == 0)
      return false;
  return true;
}

/// Takes types and shapes, and with them the sizes.
dlk_status ArgumentChecker::bind(const dlk_tensor *views, size_t numViews) {
  for (size_t i = 0; i < numViews; ++i) {
    if (isAbsent(kernel.args[i], views[i]))
      continue;
    if (dlk_status status = checkType(i, views[i]))
      return status;
    if (dlk_status status = bindSymbols(i))
      return status;
  }
  applyDefaults(manifest, symbols);
  if (dlk_status status = checkRows())
    return status;
  return hasNoRows() ? DLK_OK : checkMinimums();
}

dlk_status ArgumentChecker::check(const dlk_tensor *views, int32_t numViews) {
  const int32_t most = int32_t(kernel.args.size()), least = kernel.numRequiredArgs;
  if (numViews < least || numViews > most || (numViews > 0 && !views)) {
    if (least == most)
      return fail(DLK_INVALID_ARGUMENT, "kernel '%s' arguments: expected %d, got %d",
                  kernel.name.c_str(), most, views ? numViews : 0);
    return fail(DLK_INVALID_ARGUMENT, "kernel '%s' arguments: expected %d to %d, got %d",
                kernel.name.c_str(), least, most, views ? numViews : 0);
  }
  if (dlk_status status = bind(views, numViews))
    return status;
  for (int32_t i = 0; i < numViews; ++i) {
    if (bound[i].isNull)
      continue;
    if (dlk_status status = checkShape(i))
      return status;
    if (dlk_status status = checkStrides(i, views[i]))
      return status;
    if (hasNoRows())
      continue;
    if (dlk_status status = checkMemory(i, views[i]))
      return status;
  }
  if (hasNoRows())
    return DLK_OK;
  for (size_t i = 0; i < kernel.args.size(); ++i)
    if (!bound[i].isNull)
      if (dlk_status status = checkPoolRows(i))
        return status;
  return checkAliasing();
}
