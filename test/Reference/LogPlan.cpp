//===- LogPlan.cpp - What a step does to each slot's log, in integers -----===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Reference/LogPlan.h"

#include <algorithm>

namespace dl::deltalog {

/// Ring positions and lengths that a descriptor may have, whatever the cursor holds.
static Cursor clamped(const Limits &limits, const Cursor &cursor) {
  return {std::clamp(cursor.start, 0, limits.ring - 1),
          std::clamp(cursor.length, 0, limits.longestLog()),
          std::clamp(cursor.pending, 0, limits.maxTokens), cursor.merge};
}

Standing settle(const Limits &limits, const Cursor &told, int64_t accepted) {
  Cursor cursor = clamped(limits, told);
  Standing now{cursor.start, cursor.length, cursor.length};
  if (cursor.merge != Merge::None) {
    now.start = wrap(limits, cursor.start + cursor.length);
    now.length = now.committed = 0;
  }
  // A token that was merged is in the base, and its entry was never written. The
  // state before it lies before the base.
  if (cursor.merge == Merge::After)
    now.committed = -cursor.pending;
  else
    now.length = std::min<int32_t>(
        limits.longestLog(), now.length + static_cast<int32_t>(std::clamp<int64_t>(
                                              accepted, 0, static_cast<int64_t>(cursor.pending))));
  return now;
}

/// Entry n of an array that may be absent. 64 bits wide: what does not fit into 32
/// must be seen to be out of range, not cut off.
template <typename Array> static int64_t at(const Array &array, int64_t n, int64_t otherwise) {
  return array.empty() ? otherwise : static_cast<int64_t>(array[n]);
}

namespace {
/// What one thread of the launch does.
template <typename Index> class RowPlanner {
public:
  RowPlanner(const Limits &limits, const Rows<Index> &rows, int64_t slots, int64_t row)
      : limits(limits), rows(rows), slots(slots), row(row), src(at(rows.src, row, row)),
        dst(at(rows.dst, row, row)), initial(at(rows.initial, row, Stored)) {
    int64_t usual = row * static_cast<int64_t>(rows.tokens);
    int64_t from = rows.starts.empty() ? usual : rows.starts[row];
    int64_t to = rows.starts.empty() ? usual + rows.tokens : rows.starts[row + 1];
    // Numbers of a descriptor, never negative.
    first = std::clamp<int64_t>(from, 0, INT32_MAX);
    tokens = std::clamp<int64_t>(to, first, INT32_MAX) - first;
  }

  Descriptor run(std::vector<Cursor> &cursors) const {
    Descriptor d;
    d.token = static_cast<int32_t>(first);
    d.tokens = static_cast<int32_t>(tokens);
    // Too long a row would overwrite entries that it still reads.
    if (!isSlot(src) || !isSlot(dst) || tokens > limits.maxTokens)
      return d;
    d.src = static_cast<int32_t>(src);
    d.dst = static_cast<int32_t>(dst);
    d.fresh = initial == Zero ? 1 : 0;

    Standing now;
    if (initial != Zero && initial != BaseOnly)
      now = settle(limits, cursors[src], at(rows.accepted, row, AllPending));
    d.start = now.start;
    d.length = now.length;
    d.merge = chooseMerge(now.length);
    setCheckpoint(d, now);

    Cursor next{now.start, now.length, d.tokens, d.merge};
    // A merge into another slot, or of nothing, leaves no log to settle there.
    if (d.fresh || src != dst)
      next = Cursor{0, 0, d.tokens, Merge::None};
    d.write = wrap(limits, next.start + next.length);
    cursors[dst] = next;
    if (d.checkpointSlot >= 0)
      cursors[d.checkpointSlot] = Cursor{};
    return d;
  }

private:
  bool isSlot(int64_t slot) const { return slot >= rows.firstSlot && slot >= 0 && slot < slots; }

  Merge chooseMerge(int32_t length) const {
    if (initial == Zero || src != dst)
      return Merge::Before;
    bool flush = at(rows.flush, row, 0) != 0;
    // A last token that would fill the log goes with it, and the next step finds
    // the log empty rather than full. A log that is full has no room for it: no
    // kernel ever looks at more than the longest log.
    if (rows.final && !flush && tokens == 1 && length + 1 >= limits.window &&
        length < limits.longestLog())
      return Merge::After;
    bool full = length + tokens > limits.window;
    return length > 0 && (flush || full) ? Merge::Before : Merge::None;
  }

  void setCheckpoint(Descriptor &d, const Standing &now) const {
    int64_t slot = at(rows.checkpointSlots, row, -1);
    int64_t offset = at(rows.checkpointOffsets, row, 0);
    // Of a fresh row nothing has been accepted yet. Too low an offset asks for a
    // state that an earlier merge has gone past; too high a one, for a state that
    // was rejected or is still to come.
    if (!isSlot(slot) || d.fresh || offset < -now.committed || offset > now.length - now.committed)
      return;
    d.checkpointSlot = static_cast<int32_t>(slot);
    d.checkpointCount = now.committed + static_cast<int32_t>(offset);
  }

  const Limits &limits;
  const Rows<Index> &rows;
  int64_t slots;
  int64_t row;
  int64_t src;
  int64_t dst;
  int64_t initial;
  int64_t first;
  int64_t tokens;
};
} // namespace

template <typename Index>
std::vector<Descriptor> plan(const Limits &limits, const Rows<Index> &rows,
                             std::vector<Cursor> &cursors) {
  std::vector<Descriptor> descriptors;
  for (int64_t row = 0; row < rows.count; ++row)
    descriptors.push_back(
        RowPlanner<Index>(limits, rows, static_cast<int64_t>(cursors.size()), row).run(cursors));
  return descriptors;
}

template std::vector<Descriptor> plan(const Limits &, const Rows<int32_t> &, std::vector<Cursor> &);
template std::vector<Descriptor> plan(const Limits &, const Rows<int64_t> &, std::vector<Cursor> &);

} // namespace dl::deltalog
