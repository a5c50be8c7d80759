//===- Arguments.cpp - Checking what a launch is given --------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Arguments.h"
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

static const char *typeName(dlk_data_type type, char (&buffer)[48]) {
#define X(NAME, TEXT, CODE, BITS)                                                                  \
  if (type.code == CODE && type.bits == BITS && type.lanes == 1)                                   \
    return TEXT;
  DLK_FOR_EACH_DTYPE(X)
#undef X
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
  dlk_data_type type = dlk_dtype_data_type(arg.dtype);
  if (view.dtype.code != type.code || view.dtype.bits != type.bits || view.dtype.lanes != 1)
    return fail(DLK_INVALID_ARGUMENT, "argument %s dtype: expected %s, got %s", arg.label.c_str(),
                dlk_dtype_name(arg.dtype), typeName(view.dtype, a));
  if (view.ndim != int32_t(arg.dims.size()))
    return fail(DLK_INVALID_ARGUMENT, "argument %s rank: expected %zu, got %d", arg.label.c_str(),
                arg.dims.size(), view.ndim);
  if (view.ndim > 0 && !view.shape)
    return fail(DLK_INVALID_ARGUMENT, "argument %s shape: expected %d sizes, got NULL",
                arg.label.c_str(), view.ndim);
  for (int32_t i = 0; i < view.ndim; ++i)
    if (view.shape[i] < 0)
      return fail(DLK_INVALID_ARGUMENT, "argument %s dimension %d: expected %s, got %" PRId64,
                  arg.label.c_str(), i, arg.dims[i].text.c_str(), view.shape[i]);
  return DLK_OK;
}

dlk_status ArgumentChecker::bindSymbols(size_t index, const dlk_tensor &view) {
  const Argument &arg = kernel.args[index];
  for (size_t i = 0; i < arg.dims.size(); ++i) {
    const Dimension &dim = arg.dims[i];
    if (dim.isFree || !dim.size.isSymbol())
      continue;
    int64_t symbol = dim.size.leaf();
    const char *name = manifest.symbols[symbol].c_str();
    if (!symbols.bound[symbol]) {
      symbols.bound[symbol] = true;
      symbols.value[symbol] = view.shape[i];
      boundBy[symbol] = static_cast<int32_t>(index);
    } else if (symbols.value[symbol] != view.shape[i]) {
      return fail(DLK_INVALID_ARGUMENT,
                  "argument %s dimension %zu: expected %s = %" PRId64 " as in %s, got %" PRId64,
                  arg.label.c_str(), i, name, symbols.value[symbol],
                  kernel.args[boundBy[symbol]].label.c_str(), view.shape[i]);
    }
  }
  return DLK_OK;
}

dlk_status ArgumentChecker::checkShape(size_t index, const dlk_tensor &view) const {
  const Argument &arg = kernel.args[index];
  for (size_t i = 0; i < arg.dims.size(); ++i) {
    const Dimension &dim = arg.dims[i];
    if (dim.isFree || dim.size.isSymbol())
      continue;
    int64_t expected = 0;
    const char *reason;
    if (!dim.size.evaluate(symbols, expected, reason))
      return fail(DLK_UNSUPPORTED, "argument %s dimension %zu: %s: %s", arg.label.c_str(), i,
                  dim.text.c_str(), reason);
    if (expected == view.shape[i])
      continue;
    if (dim.size.isNumber())
      return fail(DLK_INVALID_ARGUMENT,
                  "argument %s dimension %zu: expected %" PRId64 ", got %" PRId64,
                  arg.label.c_str(), i, expected, view.shape[i]);
    return fail(DLK_INVALID_ARGUMENT,
                "argument %s dimension %zu: expected %s = %" PRId64 ", got %" PRId64,
                arg.label.c_str(), i, dim.text.c_str(), expected, view.shape[i]);
  }
  return DLK_OK;
}

dlk_status ArgumentChecker::checkStrides(size_t index, const dlk_tensor &view) {
  const Argument &arg = kernel.args[index];
  BoundArgument &result = bound[index];
  const int64_t bytes = dlk_dtype_bytes(arg.dtype);
  int64_t contiguous = 1;
  for (int32_t i = view.ndim; i-- > 0;) {
    int64_t stride = view.strides ? view.strides[i] : contiguous;
    result.strides[i] = stride;
    if (__builtin_mul_overflow(contiguous, std::max<int64_t>(view.shape[i], 1), &contiguous))
      return fail(DLK_INVALID_ARGUMENT, "argument %s shape: the sizes exceed 64 bits",
                  arg.label.c_str());
    if (view.shape[i] <= 1)
      continue;
    const Dimension &dim = arg.dims[i];
    if (dim.fixedStride) {
      if (stride != dim.fixedStride)
        return fail(DLK_INVALID_ARGUMENT,
                    "argument %s stride %d: expected %" PRId64 ", got %" PRId64, arg.label.c_str(),
                    i, dim.fixedStride, stride);
      continue;
    }
    if (stride < 0)
      return fail(DLK_INVALID_ARGUMENT, "argument %s stride %d: expected 0 or more, got %" PRId64,
                  arg.label.c_str(), i, stride);
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
  result.isNull = false;
  result.begin = result.end = reinterpret_cast<uint64_t>(view.data) + view.byte_offset;
  int64_t span = 1;
  bool isEmpty = false, overflows = false;
  for (int32_t i = 0; i < view.ndim; ++i) {
    int64_t reach = 0;
    isEmpty |= view.shape[i] == 0;
    if (view.shape[i] > 1)
      overflows |= __builtin_mul_overflow(view.shape[i] - 1, result.strides[i], &reach);
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

dlk_status ArgumentChecker::checkSelfOverlap(size_t index, const dlk_tensor &view) const {
  const BoundArgument &arg = bound[index];
  int order[DLK_MAX_RANK], rank = 0; // dimensions by increasing stride
  for (int32_t i = 0; i < view.ndim; ++i) {
    if (view.shape[i] <= 1)
      continue;
    int place = rank++;
    for (; place > 0 && arg.strides[order[place - 1]] > arg.strides[i]; --place)
      order[place] = order[place - 1];
    order[place] = i;
  }
  int64_t span =
      1; // elements up to the last one of the faster dimensions; cannot overflow: checkMemory
  for (int n = 0; n < rank; ++n) {
    int i = order[n];
    if (arg.strides[i] < span)
      return fail(DLK_INVALID_ARGUMENT,
                  "argument %s stride %d: expected at least %" PRId64
                  " so that elements do not overlap, got %" PRId64,
                  kernel.args[index].label.c_str(), i, span, arg.strides[i]);
    span += (view.shape[i] - 1) * arg.strides[i];
  }
  return DLK_OK;
}

dlk_status ArgumentChecker::checkPoolRows(size_t index, const dlk_tensor &view) const {
  const Argument &arg = kernel.args[index];
  int32_t slots = arg.role == DLK_ROLE_STATE_IN    ? kernel.slotsIn
                  : arg.role == DLK_ROLE_STATE_OUT ? kernel.slotsOut
                                                   : -2;
  if (slots == -2 || manifest.rowSymbol < 0 || (slots >= 0 && !bound[slots].isNull))
    return DLK_OK;
  int64_t rows = symbols.value[manifest.rowSymbol];
  if (view.shape[0] < rows)
    return fail(DLK_INVALID_ARGUMENT,
                "argument %s dimension 0: expected at least B = %" PRId64
                " slots because the slot array is null, got %" PRId64,
                arg.label.c_str(), rows, view.shape[0]);
  return DLK_OK;
}

/// The bytes that `range` covers in each period of `pitch` bytes: [first, first + extent). Returns
/// false if it is not made of such repetitions.
static bool residues(const StridedRange &range, int64_t pitch, int64_t &first, int64_t &extent) {
  extent = range.elementBytes;
  for (int i = 0; i < range.rank; ++i) {
    int64_t stride = range.strides[i] * range.elementBytes;
    if (range.shape[i] > 1 && stride % pitch != 0)
      extent += (range.shape[i] - 1) * stride;
  }
  first = static_cast<int64_t>(range.begin % static_cast<uint64_t>(pitch));
  return extent <= pitch;
}

bool dl::runtime::areDisjoint(const StridedRange &a, const StridedRange &b) {
  if (a.end <= b.begin || b.end <= a.begin)
    return true;
  for (const StridedRange *range : {&a, &b}) {
    for (int i = 0; i < range->rank; ++i) {
      int64_t pitch = range->strides[i] * range->elementBytes;
      int64_t firstA, extentA, firstB, extentB;
      if (range->shape[i] <= 1 || pitch <= 0 || !residues(a, pitch, firstA, extentA) ||
          !residues(b, pitch, firstB, extentB))
        continue;
      // Two arcs on a circle of `pitch` bytes.
      int64_t gap = firstB - firstA + (firstB < firstA ? pitch : 0);
      if (gap >= extentA && pitch - gap >= extentB)
        return true;
    }
  }
  return false;
}

/// The pool that is updated in place: the same memory, shape and strides.
bool ArgumentChecker::mayShare(size_t a, size_t b, const dlk_tensor *views) const {
  const Argument &first = kernel.args[a], &second = kernel.args[b];
  bool isPair = first.name == second.name &&
                ((first.role == DLK_ROLE_STATE_IN && second.role == DLK_ROLE_STATE_OUT) ||
                 (first.role == DLK_ROLE_STATE_OUT && second.role == DLK_ROLE_STATE_IN));
  if (!isPair || bound[a].begin != bound[b].begin)
    return false;
  for (int32_t i = 0; i < views[a].ndim; ++i)
    if (views[a].shape[i] > 1 && views[b].shape[i] > 1 &&
        bound[a].strides[i] != bound[b].strides[i])
      return false;
  return true;
}

dlk_status ArgumentChecker::checkAliasing(const dlk_tensor *views) const {
  auto rangeOf = [&](size_t i) {
    return StridedRange{bound[i].begin, bound[i].end,     views[i].ndim,
                        views[i].shape, bound[i].strides, dlk_dtype_bytes(kernel.args[i].dtype)};
  };
  for (size_t i = 0; i < kernel.args.size(); ++i) {
    if (!kernel.args[i].written || bound[i].begin == bound[i].end)
      continue;
    if (dlk_status status = checkSelfOverlap(i, views[i]))
      return status;
    for (size_t j = 0; j < kernel.args.size(); ++j) {
      bool isDone = j < i && kernel.args[j].written;
      if (j == i || isDone || bound[j].begin == bound[j].end ||
          areDisjoint(rangeOf(i), rangeOf(j)) || mayShare(i, j, views))
        continue;
      return fail(DLK_INVALID_ARGUMENT,
                  "argument %s: expected memory of its own, got memory that overlaps %s",
                  kernel.args[i].label.c_str(), kernel.args[j].label.c_str());
    }
  }
  return DLK_OK;
}

dlk_status ArgumentChecker::checkPositive() const {
  for (size_t i = 0; i < manifest.symbols.size(); ++i)
    if (symbols.bound[i] && symbols.value[i] == 0)
      return fail(DLK_INVALID_ARGUMENT, "argument %s: expected a positive %s, got 0",
                  kernel.args[boundBy[i]].label.c_str(), manifest.symbols[i].c_str());
  return DLK_OK;
}

bool ArgumentChecker::hasNoRows() const {
  return manifest.rowSymbol >= 0 && symbols.bound[manifest.rowSymbol] &&
         symbols.value[manifest.rowSymbol] == 0;
}

dlk_status ArgumentChecker::check(const dlk_tensor *views, int32_t numViews) {
  if (numViews != int32_t(kernel.args.size()) || (numViews > 0 && !views))
    return fail(DLK_INVALID_ARGUMENT, "kernel '%s' arguments: expected %zu, got %d",
                kernel.name.c_str(), kernel.args.size(), views ? numViews : 0);
  auto isAbsent = [&](size_t i) { return kernel.args[i].nullable && !views[i].data; };
  for (size_t i = 0; i < kernel.args.size(); ++i) {
    if (isAbsent(i))
      continue;
    if (dlk_status status = checkType(i, views[i]))
      return status;
    if (dlk_status status = bindSymbols(i, views[i]))
      return status;
  }
  if (!hasNoRows())
    if (dlk_status status = checkPositive())
      return status;
  for (size_t i = 0; i < kernel.args.size(); ++i) {
    if (isAbsent(i))
      continue;
    if (dlk_status status = checkShape(i, views[i]))
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
    if (!isAbsent(i))
      if (dlk_status status = checkPoolRows(i, views[i]))
        return status;
  return checkAliasing(views);
}

namespace {
/// The slot arrays of a launch on the CPU, read as the kernel reads them.
struct SlotArrays {
  SlotArrays(const Kernel &kernel, const ArgumentChecker &args, const dlk_tensor *views);
  int64_t operator()(int which, int64_t row) const {
    const BoundArgument *array = arrays[which];
    return array ? reinterpret_cast<const int32_t *>(array->begin)[row * array->strides[0]] : row;
  }
  bool isNullRow(int64_t row, int64_t firstSlot) const {
    return (*this)(0, row) < firstSlot || (*this)(1, row) < firstSlot;
  }

  // Index 0: sources, 1: destinations.
  const BoundArgument *arrays[2] = {}; // nullptr: slot = row
  const char *labels[2] = {"of slots", "of slots"};
  int64_t numSlots[2] = {INT64_MAX, INT64_MAX};
  bool isInPlace = false; // some state is read and written in one pool
};
} // namespace

SlotArrays::SlotArrays(const Kernel &kernel, const ArgumentChecker &args, const dlk_tensor *views) {
  const int32_t indices[2] = {kernel.slotsIn, kernel.slotsOut};
  for (int which : {0, 1})
    if (indices[which] >= 0) {
      labels[which] = kernel.args[indices[which]].label.c_str();
      arrays[which] = args[indices[which]].isNull ? nullptr : &args[indices[which]];
    }
  for (size_t i = 0; i < kernel.args.size(); ++i) {
    dlk_role role = kernel.args[i].role;
    if (role != DLK_ROLE_STATE_IN && role != DLK_ROLE_STATE_OUT)
      continue;
    int64_t &slots = numSlots[role == DLK_ROLE_STATE_OUT];
    slots = std::min(slots, views[i].shape[0]);
    for (size_t j = 0; j < i; ++j)
      isInPlace |= args[i].begin == args[j].begin && args[i].begin != args[i].end;
  }
}

dlk_status dl::runtime::checkSlots(const Kernel &kernel, const ArgumentChecker &args,
                                   const dlk_tensor *views, int64_t numRows, int64_t firstSlot) {
  const SlotArrays slots(kernel, args, views);
  std::vector<std::pair<int64_t, int64_t>> destinations; // (slot, row)
  for (int64_t row = 0; row < numRows; ++row) {
    if (slots.isNullRow(row, firstSlot))
      continue;
    for (int which : {0, 1})
      if (int64_t slot = slots(which, row); slot < 0 || slot >= slots.numSlots[which])
        return fail(DLK_INVALID_ARGUMENT,
                    "argument %s row %" PRId64 ": expected a slot below %" PRId64 ", got %" PRId64,
                    slots.labels[which], row, slots.numSlots[which], slot);
    destinations.push_back({slots(1, row), row});
  }
  std::sort(destinations.begin(), destinations.end());
  for (size_t i = 1; i < destinations.size(); ++i)
    if (destinations[i].first == destinations[i - 1].first)
      return fail(DLK_INVALID_ARGUMENT,
                  "argument %s: expected distinct slots, got %" PRId64 " in rows %" PRId64
                  " and %" PRId64,
                  slots.labels[1], destinations[i].first, destinations[i - 1].second,
                  destinations[i].second);
  for (int64_t row = 0; slots.isInPlace && row < numRows; ++row) {
    if (slots.isNullRow(row, firstSlot))
      continue;
    auto it = std::lower_bound(destinations.begin(), destinations.end(),
                               std::make_pair(slots(0, row), INT64_MIN));
    if (it != destinations.end() && it->first == slots(0, row) && it->second != row)
      return fail(DLK_INVALID_ARGUMENT,
                  "argument %s row %" PRId64
                  ": expected a slot that no other row reads, got %" PRId64 ", which row %" PRId64
                  " reads",
                  slots.labels[1], it->second, it->first, row);
  }
  return DLK_OK;
}
