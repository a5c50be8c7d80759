//===- RowCheck.cpp - Checked mode: what the arrays of rows hold ----------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowCheck.h"
#include "PlanCheck.h"
#include "RowArray.h"
#include "Status.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <tuple>

using namespace dl::runtime;

namespace {
/// A state that a row writes, to a slot that an array names.
struct Destination {
  int64_t slot, row, entry;
  const RowArray *array;
  bool operator<(const Destination &other) const {
    return std::tie(slot, row, entry) < std::tie(other.slot, other.row, other.entry);
  }
};

/// "row 2", or "row 2 entry 1" where rows have several.
struct Place {
  Place(int64_t row, int64_t entry, int64_t width) {
    int length = std::snprintf(text, sizeof(text), "row %" PRId64, row);
    if (width > 1)
      std::snprintf(text + length, sizeof(text) - length, " entry %" PRId64, entry);
  }
  char text[64];
};

class RowCheck {
public:
  RowCheck(const Manifest &manifest, const Kernel &kernel, const ArgumentChecker &args,
           int64_t firstSlot);
  dlk_status read(const Executable &executable);
  dlk_status check();

private:
  dlk_status checkStarts() const;
  dlk_status checkRow(int64_t row);
  dlk_status checkCheckpoints(int64_t row);
  dlk_status checkSlot(const RowArray &array, int64_t row, int64_t entry, int64_t slot,
                       int64_t poolSlots) const;
  dlk_status checkWrites();
  dlk_status checkReads() const;

  int64_t tokensOf(int64_t row) const { return starts ? starts(row + 1) - starts(row) : numTokens; }
  /// The entry of `sources` that the row starts from; as the kernels do, within the row.
  int64_t startEntry(int64_t row) const {
    return accepted ? std::clamp<int64_t>(accepted(row), 1, sources.width) - 1 : 0;
  }
  int64_t startSlot(int64_t row) const { return sources ? sources(row, startEntry(row)) : row; }
  int64_t destination(int64_t row, int64_t entry) const {
    return destinations ? destinations(row, entry) : row;
  }
  bool isNull(int64_t row) const {
    return startSlot(row) < firstSlot ||
           (destinations.width == 1 && destination(row, 0) < firstSlot);
  }
  /// Those that a row has tokens for.
  int64_t checkpointsOf(int64_t row) const {
    const int64_t offset = std::max<int64_t>(offsets ? offsets(row) : kernel.checkpointInterval, 0);
    const int64_t tokens = tokensOf(row);
    return tokens < offset ? 0 : (tokens - offset) / kernel.checkpointInterval + 1;
  }
  bool readsState(int64_t row) const { return !isNull(row) && (!flags || flags(row) != 0); }

  const Kernel &kernel;
  const ArgumentChecker &args;
  const int64_t firstSlot;
  int64_t numRows = 0, numTokens = 1;
  int64_t slotsIn = INT64_MAX, slotsOut = INT64_MAX; // of the pools; no state: no limit
  bool isInPlace = false;                            // some state is read and written in one pool
  RowArray starts, flags, accepted, sources, destinations, checkpoints, offsets;
  std::vector<Destination> writes;
};
} // namespace

RowCheck::RowCheck(const Manifest &manifest, const Kernel &kernel, const ArgumentChecker &args,
                   int64_t firstSlot)
    : kernel(kernel), args(args), firstSlot(firstSlot) {
  const SymbolValues &sizes = args.sizes();
  numRows = sizes.value[manifest.rowSymbol];
  if (manifest.tokenSymbol >= 0 && sizes.bound[manifest.tokenSymbol])
    numTokens = sizes.value[manifest.tokenSymbol];
  for (size_t i = 0; i < kernel.args.size(); ++i) {
    const dlk_role role = kernel.args[i].role;
    if (args[i].isNull || (role != DLK_ROLE_STATE_IN && role != DLK_ROLE_STATE_OUT))
      continue;
    int64_t &slots = role == DLK_ROLE_STATE_IN ? slotsIn : slotsOut;
    slots = std::min(slots, args[i].shape[0]);
    for (size_t j = 0; j < kernel.args.size(); ++j)
      isInPlace |= role == DLK_ROLE_STATE_IN && kernel.args[j].role == DLK_ROLE_STATE_OUT &&
                   !args[j].isNull && args[i].begin == args[j].begin &&
                   args[i].begin != args[i].end;
  }
}

dlk_status RowCheck::read(const Executable &executable) {
  const std::pair<RowArray *, int32_t> arrays[] = {
      {&starts, kernel.rowStarts},         {&flags, kernel.rowFlags},
      {&accepted, kernel.accepted},        {&sources, kernel.slotsIn},
      {&destinations, kernel.slotsOut},    {&checkpoints, kernel.checkpointSlots},
      {&offsets, kernel.checkpointOffsets}};
  for (const auto &[array, index] : arrays)
    if (dlk_status status = array->read(kernel, index, args, executable))
      return status;
  return DLK_OK;
}

dlk_status RowCheck::checkStarts() const {
  if (starts(0) != 0)
    return fail(DLK_INVALID_ARGUMENT, "argument %s row 0: expected 0, got %" PRId64, starts.label,
                starts(0));
  for (int64_t row = 0; row < numRows; ++row)
    if (starts(row + 1) < starts(row))
      return fail(DLK_INVALID_ARGUMENT,
                  "argument %s row %" PRId64 ": expected its end at %" PRId64
                  " or later, got %" PRId64,
                  starts.label, row, starts(row), starts(row + 1));
  if (starts(numRows) > numTokens)
    return fail(DLK_INVALID_ARGUMENT,
                "argument %s row %" PRId64 ": expected its end at T = %" PRId64
                " or before, got %" PRId64,
                starts.label, numRows - 1, numTokens, starts(numRows));
  return DLK_OK;
}

/// Null rows may name any slot below the first one, but nothing beyond the pool: that is a mistake.
dlk_status RowCheck::checkSlot(const RowArray &array, int64_t row, int64_t entry, int64_t slot,
                               int64_t poolSlots) const {
  if (slot < poolSlots && (slot >= 0 || slot < firstSlot))
    return DLK_OK;
  return fail(DLK_INVALID_ARGUMENT,
              "argument %s %s: expected a slot below %" PRId64 ", got %" PRId64, array.label,
              Place(row, entry, array.width).text, poolSlots, slot);
}

dlk_status RowCheck::checkRow(int64_t row) {
  const int64_t tokens = tokensOf(row), width = destinations.width;
  if (dlk_status status = checkSlot(sources, row, startEntry(row), startSlot(row), slotsIn))
    return status;
  const int64_t entries = width == 1 ? 1 : std::min(tokens, width);
  for (int64_t entry = 0; entry < entries; ++entry)
    if (dlk_status status = checkSlot(destinations, row, entry, destination(row, entry), slotsOut))
      return status;
  if (isNull(row))
    return DLK_OK;
  if (accepted && accepted(row) != startEntry(row) + 1)
    return fail(DLK_INVALID_ARGUMENT,
                "argument %s row %" PRId64 ": expected 1 to %" PRId64 ", got %" PRId64,
                accepted.label, row, sources.width, accepted(row));
  if (width > 1 && tokens > width)
    return fail(DLK_INVALID_ARGUMENT,
                "argument %s row %" PRId64 ": expected at most %" PRId64
                " tokens, one per entry, got %" PRId64,
                destinations.label, row, width, tokens);
  for (int64_t entry = 0; entry < entries; ++entry)
    if (int64_t slot = destination(row, entry); slot >= firstSlot)
      writes.push_back({slot, row, entry, &destinations});
  return kernel.checkpointInterval > 0 && checkpoints ? checkCheckpoints(row) : DLK_OK;
}

dlk_status RowCheck::checkCheckpoints(int64_t row) {
  const int64_t entries = std::min(checkpoints.width, checkpointsOf(row));
  for (int64_t entry = 0; entry < entries; ++entry) {
    const int64_t slot = checkpoints(row, entry);
    if (dlk_status status = checkSlot(checkpoints, row, entry, slot, slotsOut))
      return status;
    if (slot >= firstSlot)
      writes.push_back({slot, row, entry, &checkpoints});
  }
  return DLK_OK;
}

dlk_status RowCheck::checkWrites() {
  std::sort(writes.begin(), writes.end());
  for (size_t i = 1; i < writes.size(); ++i) {
    const Destination &first = writes[i - 1], &second = writes[i];
    if (first.slot == second.slot)
      return fail(DLK_INVALID_ARGUMENT,
                  "argument %s %s: expected a slot of its own, got %" PRId64
                  ", which %s writes too",
                  second.array->label, Place(second.row, second.entry, second.array->width).text,
                  second.slot, Place(first.row, first.entry, first.array->width).text);
  }
  return DLK_OK;
}

dlk_status RowCheck::checkReads() const {
  for (int64_t row = 0; row < numRows; ++row) {
    if (!readsState(row))
      continue;
    auto it =
        std::lower_bound(writes.begin(), writes.end(), Destination{startSlot(row), 0, 0, nullptr});
    if (it != writes.end() && it->slot == startSlot(row) && it->row != row)
      return fail(DLK_INVALID_ARGUMENT,
                  "argument %s %s: expected a slot that no other row reads, got %" PRId64
                  ", which row %" PRId64 " reads",
                  it->array->label, Place(it->row, it->entry, it->array->width).text, it->slot,
                  row);
  }
  return DLK_OK;
}

dlk_status RowCheck::check() {
  if (starts)
    if (dlk_status status = checkStarts())
      return status;
  for (int64_t row = 0; row < numRows; ++row)
    if (dlk_status status = checkRow(row))
      return status;
  if (dlk_status status = checkWrites())
    return status;
  return isInPlace ? checkReads() : DLK_OK;
}

/// An i32 scalar of the kernel, by name; 0 if it has none.
static int64_t scalarOf(const Kernel &kernel, const char *params, const char *name) {
  int32_t value = 0;
  for (const Scalar &scalar : kernel.scalars)
    if (scalar.name == name && scalar.dtype == DLK_I32)
      std::memcpy(&value, params + scalar.offset, sizeof(value));
  return value;
}

dlk_status dl::runtime::checkRows(const Manifest &manifest, const Kernel &kernel,
                                  const ArgumentChecker &args, const Executable &executable,
                                  void *stream, const char *params) {
  if (kernel.followsLog()) // what descriptors say was checked where they were made
    return DLK_OK;
  if (dlk_status status = executable.wait(stream))
    return status;
  if (kernel.plansLog())
    return checkPlan(manifest, kernel, args, executable, scalarOf(kernel, params, "first_slot"),
                     scalarOf(kernel, params, "tokens"));
  RowCheck rows(manifest, kernel, args, scalarOf(kernel, params, "first_slot"));
  if (dlk_status status = rows.read(executable))
    return status;
  return rows.check();
}
