//===- PlanCheck.cpp - Checked mode: a step of a log ----------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The same as check() of test/Reference/LogPlan.h, but for the number of tokens in the inputs,
// which a plan does not see.
//
//===----------------------------------------------------------------------===//

#include "PlanCheck.h"
#include "RowArray.h"
#include "Status.h"

#include <algorithm>
#include <cinttypes>
#include <map>
#include <string>

using namespace dl::runtime;

namespace {
enum Initial : int64_t { Zero, Stored, BaseOnly };
enum Merge : int64_t { None, Before, After };

/// What a slot's last step was told.
struct Cursor {
  int64_t start, length, pending, merge;
};

class PlanCheck {
public:
  PlanCheck(const Manifest &manifest, const Kernel &kernel, const ArgumentChecker &args,
            int64_t firstSlot, int64_t tokens)
      : kernel(kernel), args(args), firstSlot(firstSlot), tokens(tokens),
        numRows(args.sizes().value[manifest.rowSymbol]), numSlots(args[kernel.cursors].shape[0]) {}

  dlk_status read(const Executable &executable);
  dlk_status check();

private:
  dlk_status checkSlots(int64_t row) const;
  dlk_status checkTokens(int64_t row) const;
  dlk_status checkLive(int64_t row);
  dlk_status claim(const RowArray &array, int64_t row, int64_t slot);
  dlk_status checkSource(int64_t row) const;
  dlk_status checkCursor(int64_t row) const;
  dlk_status checkAcceptance(int64_t row, const Cursor &cursor) const;
  dlk_status checkOffset(int64_t row) const;

  int64_t sourceOf(int64_t row) const { return sources ? sources(row) : row; }
  int64_t destinationOf(int64_t row) const { return destinations ? destinations(row) : row; }
  int64_t initialOf(int64_t row) const { return initial ? initial(row) : int64_t(Stored); }
  int64_t checkpointOf(int64_t row) const { return checkpoints ? checkpoints(row) : -1; }
  int64_t tokensOf(int64_t row) const { return starts ? starts(row + 1) - starts(row) : tokens; }
  Cursor cursorOf(int64_t slot) const {
    return {cursors(slot, 0), cursors(slot, 1), cursors(slot, 2), cursors(slot, 3)};
  }
  bool isSlot(int64_t slot) const { return slot >= firstSlot && slot >= 0; }
  bool isLive(int64_t row) const { return isSlot(sourceOf(row)) && isSlot(destinationOf(row)); }

  const Kernel &kernel;
  const ArgumentChecker &args;
  const int64_t firstSlot, tokens, numRows, numSlots;
  RowArray sources, destinations, starts, accepted, initial, checkpoints, offsets, cursors;
  std::map<int64_t, int64_t> writers; // slot -> row
};
} // namespace

static dlk_status expectRange(const std::string &what, int64_t given, int64_t low, int64_t high) {
  if (given >= low && given <= high)
    return DLK_OK;
  if (low == high)
    return fail(DLK_INVALID_ARGUMENT, "%s: expected %" PRId64 ", got %" PRId64, what.c_str(), low,
                given);
  return fail(DLK_INVALID_ARGUMENT, "%s: expected %" PRId64 " to %" PRId64 ", got %" PRId64,
              what.c_str(), low, high, given);
}

/// "argument 'flush' row 3"
static std::string place(const RowArray &array, int64_t row) {
  return std::string("argument ") + array.label + " row " + std::to_string(row);
}

dlk_status PlanCheck::read(const Executable &executable) {
  const std::pair<RowArray *, int32_t> arrays[] = {
      {&sources, kernel.slotsIn},           {&destinations, kernel.slotsOut},
      {&starts, kernel.rowStarts},          {&accepted, kernel.accepted},
      {&initial, kernel.rowFlags},          {&checkpoints, kernel.checkpointSlots},
      {&offsets, kernel.checkpointOffsets}, {&cursors, kernel.cursors}};
  for (const auto &[array, index] : arrays)
    if (dlk_status status = array->read(kernel, index, args, executable))
      return status;
  return DLK_OK;
}

dlk_status PlanCheck::checkSlots(int64_t row) const {
  const std::pair<const RowArray &, int64_t> slots[] = {{sources, sourceOf(row)},
                                                        {destinations, destinationOf(row)},
                                                        {checkpoints, checkpointOf(row)}};
  for (const auto &[array, slot] : slots)
    if (slot >= numSlots)
      return fail(DLK_INVALID_ARGUMENT, "%s: expected a slot below %" PRId64 ", got %" PRId64,
                  place(array, row).c_str(), numSlots, slot);
  return DLK_OK;
}

dlk_status PlanCheck::checkTokens(int64_t row) const {
  if (!starts)
    return expectRange("scalar 'tokens'", tokens, 0, kernel.maxTokens);
  if (row == 0 && starts(0) != 0)
    return expectRange(place(starts, 0), starts(0), 0, 0);
  if (starts(row + 1) < starts(row))
    return fail(DLK_INVALID_ARGUMENT, "%s: expected its end at %" PRId64 " or later, got %" PRId64,
                place(starts, row).c_str(), starts(row), starts(row + 1));
  // Rows that do nothing may be padding of any length.
  if (isLive(row))
    return expectRange(place(starts, row) + " tokens", tokensOf(row), 0, kernel.maxTokens);
  return DLK_OK;
}

/// A slot is written at most once in a launch.
dlk_status PlanCheck::claim(const RowArray &array, int64_t row, int64_t slot) {
  auto [writer, isNew] = writers.emplace(slot, row);
  if (isNew)
    return DLK_OK;
  return fail(DLK_INVALID_ARGUMENT,
              "%s: expected a slot of its own, got %" PRId64 ", which row %" PRId64 " writes too",
              place(array, row).c_str(), slot, writer->second);
}

/// What a row that is not null writes, and what it asks for.
dlk_status PlanCheck::checkLive(int64_t row) {
  if (dlk_status status = claim(destinations, row, destinationOf(row)))
    return status;
  const int64_t checkpoint = checkpointOf(row);
  if (isSlot(checkpoint)) {
    if (initialOf(row) == Zero)
      return fail(DLK_INVALID_ARGUMENT,
                  "%s: expected none in a row that starts from zero, got %" PRId64,
                  place(checkpoints, row).c_str(), checkpoint);
    if (dlk_status status = claim(checkpoints, row, checkpoint))
      return status;
  }
  if (initialOf(row) == Stored)
    if (dlk_status status = checkCursor(row))
      return status;
  return isSlot(checkpoint) && offsets ? checkOffset(row) : DLK_OK;
}

/// Only its own row may write the slot that a row reads, and only as a whole.
dlk_status PlanCheck::checkSource(int64_t row) const {
  const int64_t source = sourceOf(row);
  auto writer = writers.find(source);
  if (writer == writers.end() || (writer->second == row && destinationOf(row) == source))
    return DLK_OK;
  return fail(DLK_INVALID_ARGUMENT,
              "%s: expected a slot that no other row writes, got %" PRId64 ", which row %" PRId64
              " writes",
              place(sources, row).c_str(), source, writer->second);
}

dlk_status PlanCheck::checkCursor(int64_t row) const {
  const Cursor cursor = cursorOf(sourceOf(row));
  const int64_t longest = std::max(kernel.window, kernel.maxTokens);
  const std::string slot = "cursors slot " + std::to_string(sourceOf(row));
  if (dlk_status status = expectRange(slot + " start", cursor.start, 0, kernel.ring - 1))
    return status;
  if (dlk_status status = expectRange(slot + " length", cursor.length, 0, longest))
    return status;
  if (dlk_status status = expectRange(slot + " pending", cursor.pending, 0, kernel.maxTokens))
    return status;
  if (dlk_status status = expectRange(slot + " merge", cursor.merge, None, After))
    return status;
  if (cursor.merge == None)
    if (dlk_status status =
            expectRange(slot + " length + pending", cursor.length + cursor.pending, 0, longest))
      return status;
  return checkAcceptance(row, cursor);
}

dlk_status PlanCheck::checkAcceptance(int64_t row, const Cursor &cursor) const {
  // Engines pad with 1, also where no step has gone before.
  if (!accepted || cursor.pending == 0)
    return DLK_OK;
  const int64_t least = cursor.merge == After ? cursor.pending : 0;
  return expectRange(place(accepted, row), accepted(row), least, cursor.pending);
}

/// What has not been reached may be asked for in advance; what a merge has gone past is lost.
dlk_status PlanCheck::checkOffset(int64_t row) const {
  int64_t committed = 0;
  if (initialOf(row) == Stored) {
    const Cursor cursor = cursorOf(sourceOf(row));
    committed = cursor.merge == None ? cursor.length : cursor.merge == After ? -cursor.pending : 0;
  }
  if (offsets(row) >= -committed)
    return DLK_OK;
  return fail(DLK_INVALID_ARGUMENT,
              "%s: expected %" PRId64 " or more: the rest is merged, got %" PRId64,
              place(offsets, row).c_str(), -committed, offsets(row));
}

dlk_status PlanCheck::check() {
  for (int64_t row = 0; row < numRows; ++row) {
    if (dlk_status status = checkSlots(row))
      return status;
    if (dlk_status status = checkTokens(row))
      return status;
    if (dlk_status status = expectRange(place(initial, row), initialOf(row), Zero, BaseOnly))
      return status;
  }
  for (int64_t row = 0; row < numRows; ++row)
    if (isLive(row))
      if (dlk_status status = checkLive(row))
        return status;
  for (int64_t row = 0; row < numRows; ++row)
    if (isLive(row) && initialOf(row) != Zero)
      if (dlk_status status = checkSource(row))
        return status;
  return DLK_OK;
}

dlk_status dl::runtime::checkPlan(const Manifest &manifest, const Kernel &kernel,
                                  const ArgumentChecker &args, const Executable &executable,
                                  int64_t firstSlot, int64_t tokens) {
  PlanCheck plan(manifest, kernel, args, firstSlot, tokens);
  if (dlk_status status = plan.read(executable))
    return status;
  return plan.check();
}
