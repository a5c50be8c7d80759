//===- LogCheck.cpp - What a step of the log refuses, and how it says so --===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/Reference/LogPlan.h"

#include <map>
#include <stdexcept>
#include <string>

namespace dl::deltalog {

[[noreturn]] static void refuse(const std::string &what, const std::string &allowed,
                                int64_t given) {
  throw std::invalid_argument(what + ": expected " + allowed + ", got " + std::to_string(given));
}

static void expectRange(const std::string &what, int64_t given, int64_t low, int64_t high) {
  if (given < low || given > high)
    refuse(what,
           low == high ? std::to_string(low) : std::to_string(low) + " to " + std::to_string(high),
           given);
}

void check(const Limits &limits) {
  if (limits.window < 1)
    refuse("window", "1 or more", limits.window);
  expectRange("max-tokens", limits.maxTokens, 1, 16);
  if (limits.ring < limits.smallestRing())
    refuse("ring",
           "at least max(window, max-tokens) + max-tokens = " +
               std::to_string(limits.smallestRing()),
           limits.ring);
}

namespace {
template <typename Index> class StepChecker {
public:
  StepChecker(const Limits &limits, const Rows<Index> &rows, const std::vector<Cursor> &cursors,
              int64_t slots, int64_t packed)
      : limits(limits), rows(rows), cursors(cursors), slots(slots), packed(packed) {}

  void run() {
    checkLengths();
    for (int64_t row = 0; row < rows.count; ++row) {
      checkSlots(row);
      checkTokens(row);
      if (!rows.initial.empty())
        expectRange(named("initial_state", row), rows.initial[row], Zero, BaseOnly);
    }
    for (int64_t row = 0; row < rows.count; ++row)
      if (isLive(row))
        checkLive(row);
    for (int64_t row = 0; row < rows.count; ++row)
      if (isLive(row) && initialOf(row) != Zero)
        checkSource(row);
  }

private:
  static std::string named(const char *argument, int64_t row) {
    return std::string("argument '") + argument + "' row " + std::to_string(row);
  }

  int64_t srcOf(int64_t row) const { return rows.src.empty() ? row : rows.src[row]; }
  int64_t dstOf(int64_t row) const { return rows.dst.empty() ? row : rows.dst[row]; }
  int64_t initialOf(int64_t row) const { return rows.initial.empty() ? Stored : rows.initial[row]; }
  int64_t checkpointOf(int64_t row) const {
    return rows.checkpointSlots.empty() ? -1 : rows.checkpointSlots[row];
  }
  bool isSlot(int64_t slot) const { return slot >= rows.firstSlot && slot >= 0; }
  bool isLive(int64_t row) const { return isSlot(srcOf(row)) && isSlot(dstOf(row)); }

  template <typename Array>
  void checkLength(const char *argument, const Array &array, int64_t length) const {
    if (!array.empty() && static_cast<int64_t>(array.size()) != length)
      refuse(std::string("argument '") + argument + "'",
             std::to_string(length) + " entries for " + std::to_string(rows.count) + " rows",
             static_cast<int64_t>(array.size()));
  }

  void checkLengths() const {
    if (static_cast<int64_t>(cursors.size()) != slots)
      refuse("argument 'cursors'", std::to_string(slots) + " entries, one per slot",
             static_cast<int64_t>(cursors.size()));
    checkLength("src_slots", rows.src, rows.count);
    checkLength("dst_slots", rows.dst, rows.count);
    checkLength("cu_seqlens", rows.starts, rows.count + 1);
    checkLength("num_accepted_tokens", rows.accepted, rows.count);
    checkLength("initial_state", rows.initial, rows.count);
    checkLength("flush", rows.flush, rows.count);
    checkLength("checkpoint_slots", rows.checkpointSlots, rows.count);
    checkLength("checkpoint_offsets", rows.checkpointOffsets, rows.count);
    if (rows.starts.empty())
      expectRange("tokens per row", rows.tokens, 0, limits.maxTokens);
  }

  void checkSlots(int64_t row) const {
    auto expectInPool = [&](const char *argument, int64_t slot) {
      if (slot >= slots)
        refuse(named(argument, row), "a slot below " + std::to_string(slots), slot);
    };
    expectInPool("src_slots", srcOf(row));
    expectInPool("dst_slots", dstOf(row));
    expectInPool("checkpoint_slots", checkpointOf(row));
  }

  void checkTokens(int64_t row) const {
    int64_t first = rows.starts.empty() ? row * rows.tokens : rows.starts[row];
    int64_t end = rows.starts.empty() ? first + rows.tokens : rows.starts[row + 1];
    if (row == 0)
      expectRange("argument 'cu_seqlens' entry 0", first, 0, 0);
    expectRange(named(rows.starts.empty() ? "q" : "cu_seqlens", row) + " end", end, first, packed);
    // Rows that do nothing may be padding of any length.
    if (isLive(row))
      expectRange(named("cu_seqlens", row) + " tokens", end - first, 0, limits.maxTokens);
  }

  /// What a row that is not null writes, and what it asks for.
  void checkLive(int64_t row) {
    claim("dst_slots", row, dstOf(row));
    int64_t checkpoint = checkpointOf(row);
    if (isSlot(checkpoint)) {
      if (initialOf(row) == Zero)
        refuse(named("checkpoint_slots", row), "none in a row that starts from zero", checkpoint);
      claim("checkpoint_slots", row, checkpoint);
    }
    if (initialOf(row) == Stored)
      checkCursor(row);
    if (isSlot(checkpoint) && !rows.checkpointOffsets.empty())
      checkOffset(row, rows.checkpointOffsets[row]);
  }

  /// A slot is written at most once in a launch.
  void claim(const char *argument, int64_t row, int64_t slot) {
    auto [writer, isNew] = writers.emplace(slot, row);
    if (!isNew)
      throw std::invalid_argument(named(argument, row) + ": expected a slot of its own, got " +
                                  std::to_string(slot) + ", which row " +
                                  std::to_string(writer->second) + " writes too");
  }

  /// Only its own row may write the slot that a row reads, and only as a whole.
  void checkSource(int64_t row) const {
    int64_t src = srcOf(row);
    auto writer = writers.find(src);
    if (writer == writers.end() || (writer->second == row && dstOf(row) == src))
      return;
    throw std::invalid_argument(
        named("src_slots", row) + ": expected a slot that no other row writes, got " +
        std::to_string(src) + ", which row " + std::to_string(writer->second) + " writes");
  }

  void checkCursor(int64_t row) const {
    const Cursor &cursor = cursors[srcOf(row)];
    std::string slot = "cursors slot " + std::to_string(srcOf(row));
    expectRange(slot + " start", cursor.start, 0, limits.ring - 1);
    expectRange(slot + " length", cursor.length, 0, limits.longestLog());
    expectRange(slot + " pending", cursor.pending, 0, limits.maxTokens);
    expectRange(slot + " merge", static_cast<int32_t>(cursor.merge), 0, 2);
    if (cursor.merge == Merge::None)
      expectRange(slot + " length + pending", cursor.length + cursor.pending, 0,
                  limits.longestLog());
    // Engines pad with 1, also where no step has gone before.
    if (rows.accepted.empty() || cursor.pending == 0)
      return;
    int64_t least = cursor.merge == Merge::After ? cursor.pending : 0;
    expectRange(named("num_accepted_tokens", row), rows.accepted[row], least, cursor.pending);
  }

  void checkOffset(int64_t row, int64_t offset) const {
    Standing all;
    if (initialOf(row) == Stored)
      all = settle(limits, cursors[srcOf(row)], AllPending);
    // What has not been reached may be asked for in advance.
    if (offset < -all.committed)
      refuse(named("checkpoint_offsets", row),
             std::to_string(-all.committed) + " or more: the rest is merged", offset);
  }

  const Limits &limits;
  const Rows<Index> &rows;
  const std::vector<Cursor> &cursors;
  int64_t slots;
  int64_t packed;
  std::map<int64_t, int64_t> writers; ///< slot -> row
};
} // namespace

template <typename Index>
void check(const Limits &limits, const Rows<Index> &rows, const std::vector<Cursor> &cursors,
           int64_t slots, int64_t packed) {
  check(limits);
  StepChecker<Index>(limits, rows, cursors, slots, packed).run();
}

template void check(const Limits &, const Rows<int32_t> &, const std::vector<Cursor> &, int64_t,
                    int64_t);
template void check(const Limits &, const Rows<int64_t> &, const std::vector<Cursor> &, int64_t,
                    int64_t);

} // namespace dl::deltalog
