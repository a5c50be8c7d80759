//===- LogOptions.h - What the kernels of a log agree on ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A state is a dense base and a ring of entries, one per token since. test/Reference/LogProtocol.md
// says what the arrays below mean; test/Reference/LogPlan.h has the same in C++.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LINATTNTOTILE_LOGOPTIONS_H
#define PASSES_LINATTNTOTILE_LOGOPTIONS_H

#include "compiler/Schedule/Log.h"
#include "mlir/IR/Types.h"
#include <algorithm>

namespace dl {

/// The same for all kernels of a pool.
struct LogOptions {
  int64_t window = 16;   ///< W: a row merges before its log would grow longer
  int64_t maxTokens = 4; ///< T_max: the longest row of a step
  mlir::Type type;       ///< of numbers that are computed: f32 or bf16

  /// Entries that a log has at most once a step is done.
  int64_t longestLog() const { return std::max(window, maxTokens); }
  /// R: entries of memory per slot.
  int64_t ring() const { return schedule::ringCapacity(window, maxTokens); }
};

/// Columns of `cursors`, i32 [slots, 4].
struct CursorField {
  enum : int64_t { Start, Length, Pending, Merge, Count };
};

/// Columns of `descriptors`, i32 [N, 12].
struct DescriptorField {
  enum : int64_t {
    Source,
    Destination, ///< below 0: a null row
    Token,
    Tokens,
    Start,
    Length,
    Write,
    Merge,
    Fresh,
    CheckpointSlot, ///< below 0: none
    CheckpointCount,
    Reserved,
    Count
  };
};

/// Values of the columns Merge.
struct MergeKind {
  enum : int64_t { None, Before, After };
};

} // namespace dl

#endif // PASSES_LINATTNTOTILE_LOGOPTIONS_H
