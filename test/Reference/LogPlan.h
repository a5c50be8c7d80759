//===- LogPlan.h - What a step does to each slot's log, in integers -------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The integer half of the protocol that LogProtocol.md explains. A slot holds a
// dense base and a ring of entries, one per token, in every layer. All layers do
// the same to it, so what they do is decided once per step: `plan` reads the
// step's row arrays and the cursors, which live as long as the pool, and writes
// one descriptor per row.
//
// Decisions, and why:
//
// - A cursor is what the slot's last step was told, not what is true after it:
//   the next plan that reads the slot `settle`s it, by that step's merge and by the
//   acceptance the row brings. No launch is needed when a step ends, a row that
//   sits out a step keeps its cursor, and a cursor may be copied with its slot at
//   any time. A merge is settled whatever was accepted: its base is written. It
//   cannot be settled twice, since the plan that settles it writes a new cursor.
// - Acceptance is an argument of the row that reads the slot, hence kept by the
//   engine with the request until that request takes part again. Rows that share
//   a source may accept different prefixes of its drafts: siblings of one parent.
// - Row n writes the cursors of its own destination and checkpoint slot and reads
//   only that of its source. By the promise that no row writes what another one
//   reads, rows need no order, and one launch with a thread per row will do.
// - A row moves (src != dst) by a merge into dst, whose old log is never looked
//   at: its ring starts at 0. So slot reuse cannot go wrong there, and `src` stays
//   as it was, drafts included, for any number of further readers.
// - Whether the state starts from zero, from the slot, or from the slot's base
//   alone is said by the row, never found out from the slot: prefill, transfers
//   and slot reuse leave stale cursors, which must not matter.
// - A row without tokens still settles, merges if asked to, moves and checkpoints:
//   merge, copy, commit and reset need no launches or arguments of their own.
// - Checkpoints are asked for by an offset from the end of what had been accepted
//   before the slot's last step. That the engine knows before it knows the
//   acceptance; whether the draft at the boundary was accepted the plan finds out.
// - What is wrong on the device makes a row null rather than undefined, and cursors
//   are clamped before they are used: no descriptor leads outside a pool or a ring.
//   `check` names it on the host.
//
//===----------------------------------------------------------------------===//

#ifndef DL_TEST_REFERENCE_LOGPLAN_H
#define DL_TEST_REFERENCE_LOGPLAN_H

#include <cstdint>
#include <vector>

namespace dl::deltalog {

/// Compile-time attributes, the same for all kernels of a pool.
struct Limits {
  int32_t window = 16;   ///< W: a row merges before its log would grow longer
  int32_t maxTokens = 4; ///< T_max: the longest row of a step, 1 to 16
  int32_t ring = 20;     ///< R: entries of memory per slot

  /// Accepted entries that a log can have: W, or one whole step if that is more. A
  /// merge takes no more, its own step's token included.
  int32_t longestLog() const { return window > maxTokens ? window : maxTokens; }
  /// Entries being merged are never those being written.
  int32_t smallestRing() const { return longestLog() + maxTokens; }
};

/// When a row writes the state into its destination's base.
enum class Merge : int32_t {
  None,
  Before, ///< all accepted entries, before the tokens of the step, which see the result
  After,  ///< all accepted entries and the step's only token, which cannot be taken back
};

/// i32 [slots, 4], packed, one array for all layers; zeroed once, then written by
/// `plan` alone. What the slot's last step was told.
struct Cursor {
  int32_t start = 0;   ///< ring position of the oldest accepted entry, 0 to R - 1
  int32_t length = 0;  ///< accepted entries
  int32_t pending = 0; ///< tokens of the step, in the ring behind the accepted entries
  Merge merge = Merge::None;
};
static_assert(sizeof(Cursor) == 16);

/// i32 [N, 12], packed: what every layer's kernel does with one row.
struct Descriptor {
  int32_t src = 0;              ///< slot whose base and log the row starts from
  int32_t dst = -1;             ///< slot that gets merge and new entries; -1: null row
  int32_t token = 0;            ///< the row's first token in the packed inputs
  int32_t tokens = 0;           ///< T
  int32_t start = 0;            ///< ring position of src's oldest entry
  int32_t length = 0;           ///< L: accepted entries of src
  int32_t write = 0;            ///< ring position of dst that the first new entry gets
  Merge merge = Merge::None;    ///< into dst
  int32_t fresh = 0;            ///< 1: the state is zero; src's base is not read
  int32_t checkpointSlot = -1;  ///< gets the state as its base; -1: no checkpoint
  int32_t checkpointCount = -1; ///< after so many entries of src, 0 to L
  int32_t reserved = 0;         ///< keeps rows 16-byte aligned

  bool isNull() const { return dst < 0; }
};
static_assert(sizeof(Descriptor) == 48);

/// Where a row's state comes from: u8 [N]. The first two are what a bool array
/// `has_initial_state` says.
enum Initial : uint8_t {
  Zero = 0,     ///< no state: neither base nor log nor cursor of src are read
  Stored = 1,   ///< base and log, as the cursor says
  BaseOnly = 2, ///< the base is the whole state: prefill or a transfer wrote it
};

/// The arguments of `plan`, `Index` being i32 or i64. An empty array is a null
/// pointer. Arrays but the cursors may have any stride on the device.
template <typename Index> struct Rows {
  int64_t count = 0;                    ///< N, padding included
  std::vector<Index> src;               ///< [N]; absent: slot n for row n
  std::vector<Index> dst;               ///< [N]; absent: slot n for row n
  std::vector<Index> starts;            ///< cu_seqlens [N + 1]; absent: rows of `tokens` each
  int32_t tokens = 1;                   ///< T of every row, without `starts`
  std::vector<Index> accepted;          ///< [N] of src's pending tokens; absent: all of them
  std::vector<uint8_t> initial;         ///< [N] of Initial; absent: all Stored
  std::vector<uint8_t> flush;           ///< [N]; not 0: merge before the tokens at any length
  std::vector<Index> checkpointSlots;   ///< [N]; below firstSlot: none. Absent: none at all
  std::vector<Index> checkpointOffsets; ///< [N]; absent: 0
  int32_t firstSlot = 0;                ///< slots below are null: 0, or 1 if slot 0 is reserved
  bool final = false;                   ///< no token of this step will be rejected
};

/// Where the log stands between two steps.
struct Standing {
  int32_t start = 0;
  int32_t length = 0;    ///< accepted entries, those of the last step included
  int32_t committed = 0; ///< accepted entries before the last step; -1 if its token was merged
};

/// All pending tokens, whatever their number.
constexpr int64_t AllPending = INT64_MAX;

/// p, which is below 2 R, as a position of the ring.
inline int32_t wrap(const Limits &limits, int32_t p) {
  return p >= limits.ring ? p - limits.ring : p;
}

/// Applies the merge of the slot's last step, then its acceptance.
Standing settle(const Limits &limits, const Cursor &cursor, int64_t accepted);

/// The launch before layer 1: one descriptor per row, and the cursors of all slots
/// that rows write. A row depends on its own arguments and cursor alone. To be run
/// once per step: the second time, the step would count as done.
template <typename Index>
std::vector<Descriptor> plan(const Limits &limits, const Rows<Index> &rows,
                             std::vector<Cursor> &cursors);

/// Throws std::invalid_argument, one line that names the attribute, what was given
/// and what is allowed. Compilers and loaders refuse such kernels.
void check(const Limits &limits);

/// The same for a step: lengths of arrays as every launch checks them, then, as the
/// checked mode does, contents. `slots` is the size of the pool, `packed` the
/// number of tokens of the inputs.
template <typename Index>
void check(const Limits &limits, const Rows<Index> &rows, const std::vector<Cursor> &cursors,
           int64_t slots, int64_t packed);

} // namespace dl::deltalog

#endif // DL_TEST_REFERENCE_LOGPLAN_H
