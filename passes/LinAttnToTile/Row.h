//===- Row.h - Which tokens and states a row of a launch has ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A row is one sequence's part of a launch. Its numbers lie in device memory, so that one captured
// graph serves any batch:
//
//   tokens        cu_seqlens[n] .. cu_seqlens[n+1] of batch entry 0, or all T of entry n
//   start state   slot src_slots[n, num_accepted_tokens[n] - 1], or src_slots[n, 0], or n
//   kept states   the last one in dst_slots[n, 0], or, where that array is wider than one, that
//                 after token t in dst_slots[n, t]
//   fresh         has_initial_state[n] = 0: from zeros
//
// All arrays may be left out. Numbers are clamped to what is there: whatever a caller's arrays
// hold, a kernel reads and writes inside the tensors it was given.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LINATTNTOTILE_ROW_H
#define PASSES_LINATTNTOTILE_ROW_H

#include "dialects/Tile/IR/Tile.h"
#include "passes/LinAttnToTile/KernelArguments.h"

namespace dl {

/// Emits a row's numbers. The constructor emits their loads, one behind the other; what has to wait
/// for them is emitted when it is asked for.
class Row {
public:
  Row(mlir::OpBuilder &builder, mlir::Location loc, tile::KernelOp kernel,
      const OperatorArguments &where, mlir::Value row);

  mlir::Value batch;      ///< index: first coordinate of the row's tokens
  mlir::Value first, end; ///< i32: its tokens are first .. end - 1

  mlir::Value source();      ///< index: the slot it starts from
  mlir::Value destination(); ///< index: the slot of its last state, if that is all it keeps
  mlir::Value isFresh();     ///< i1: starts from zeros
  /// i1: has a start state and, if only the last state is kept, a place for it. Other rows are
  /// null: zeros as outputs, no state is touched.
  mlir::Value isActive();
  mlir::Value keepsAll(); ///< i1: the state after every token is kept
  /// Calls `body` with the slot of the state after `token`, under the condition that there is one.
  void ifKept(mlir::Value token, llvm::function_ref<void(mlir::Value)> body);

protected:
  mlir::Value argument(unsigned i) { return kernel.getBody().getArgument(i); }
  mlir::Value index(mlir::Value integer);
  mlir::Value toI32(mlir::Value integer);
  mlir::Value size(unsigned i, mlir::Type like);
  mlir::Value entryOr(unsigned array, mlir::ValueRange indices, mlir::Value fallback);
  mlir::Value isSlot(mlir::Value slot, unsigned pool);
  void ifSlot(unsigned array, mlir::Value entry, llvm::function_ref<void(mlir::Value)> body);
  mlir::Value constant(int64_t value, mlir::Type type);
  void loadNumbers();
  llvm::SmallVector<mlir::Value> loadGiven(mlir::Value isPacked, mlir::Value tokens,
                                           mlir::Value yes);
  void loadSlots();

  mlir::OpBuilder &builder;
  mlir::Location loc;
  tile::KernelOp kernel;
  const OperatorArguments &where;
  mlir::Value number, row, zero; ///< the row as i32, the row and 0 as index
  mlir::Value column, from, to, rawFlag;
  mlir::Value rawSource, rawDestination;
};

} // namespace dl

#endif // PASSES_LINATTNTOTILE_ROW_H
