//===- Aliasing.cpp - Which arguments may share memory --------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Arguments.h"
#include "Status.h"

#include <cinttypes>

using namespace dl::runtime;

dlk_status ArgumentChecker::checkSelfOverlap(size_t index) const {
  const BoundArgument &arg = bound[index];
  int order[DLK_MAX_RANK], rank = 0; // dimensions by increasing stride
  for (int i = 0; i < int(kernel.args[index].dims.size()); ++i) {
    if (arg.shape[i] <= 1)
      continue;
    int place = rank++;
    for (; place > 0 && arg.strides[order[place - 1]] > arg.strides[i]; --place)
      order[place] = order[place - 1];
    order[place] = i;
  }
  // Elements up to the last one of the faster dimensions; cannot overflow: checkMemory.
  int64_t span = 1;
  for (int n = 0; n < rank; ++n) {
    int i = order[n];
    if (arg.strides[i] < span)
      return fail(DLK_INVALID_ARGUMENT,
                  "argument %s stride %d: expected at least %" PRId64
                  " so that elements do not overlap, got %" PRId64,
                  kernel.args[index].label.c_str(), i, span, arg.strides[i]);
    span += (arg.shape[i] - 1) * arg.strides[i];
  }
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
bool ArgumentChecker::mayShare(size_t a, size_t b) const {
  const Argument &first = kernel.args[a], &second = kernel.args[b];
  bool isPair = bound[a].begin == bound[b].begin &&
                ((first.role == DLK_ROLE_STATE_IN && second.role == DLK_ROLE_STATE_OUT) ||
                 (first.role == DLK_ROLE_STATE_OUT && second.role == DLK_ROLE_STATE_IN)) &&
                first.name == second.name;
  if (!isPair)
    return false;
  for (size_t i = 0; i < first.dims.size(); ++i)
    if (bound[a].shape[i] > 1 && bound[b].shape[i] > 1 &&
        bound[a].strides[i] != bound[b].strides[i])
      return false;
  return true;
}

dlk_status ArgumentChecker::checkAliasing() const {
  auto isEmpty = [&](size_t i) { return bound[i].isNull || bound[i].begin == bound[i].end; };
  auto rangeOf = [&](size_t i) {
    return StridedRange{bound[i].begin, bound[i].end,     int(kernel.args[i].dims.size()),
                        bound[i].shape, bound[i].strides, dlk_dtype_bytes(kernel.args[i].dtype)};
  };
  for (size_t i = 0; i < kernel.args.size(); ++i) {
    if (!kernel.args[i].written || isEmpty(i))
      continue;
    if (dlk_status status = checkSelfOverlap(i))
      return status;
    for (size_t j = 0; j < kernel.args.size(); ++j) {
      bool isDone = j < i && kernel.args[j].written;
      // Sharing is the usual case of a pool, and soon found.
      if (j == i || isDone || isEmpty(j) || mayShare(i, j) || areDisjoint(rangeOf(i), rangeOf(j)))
        continue;
      return fail(DLK_INVALID_ARGUMENT,
                  "argument %s: expected memory of its own, got memory that overlaps %s",
                  kernel.args[i].label.c_str(), kernel.args[j].label.c_str());
    }
  }
  return DLK_OK;
}
