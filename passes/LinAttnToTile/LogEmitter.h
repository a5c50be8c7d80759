//===- LogEmitter.h - A state as a base and a log, in one block ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With L the log decay since the base and L_i its value after entry i (Analysis/LogEntry.h),
//
//   S       = e^L Base + sum over entries i and their writes of A_i B_i^T,    A_i = e^{L - L_i} a_i
//   S^T x   = e^L (Base^T x) + B^T (A x)
//
// A block holds its tile of the base, A (entries x K) and B (entries x tile of V) in registers, and
// L. A and B are as of now: a token multiplies its decay into A (along V: into B) and adds a row.
// So a read through the log is two small products, whatever the number of entries, and a merge is
// one update of the tile by a matrix of that rank.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LINATTNTOTILE_LOGEMITTER_H
#define PASSES_LINATTNTOTILE_LOGEMITTER_H

#include "passes/LinAttnToTile/BlockEmitter.h"
#include "passes/LinAttnToTile/LogFields.h"

namespace dl {

class LogEmitter : protected BlockEmitter {
public:
  LogEmitter(linattn::OperatorOp op, const analysis::StepAnalysis &step,
             const analysis::LogEntry &entry, mlir::ArrayRef<HeldField> fields,
             const KernelTypes &types, const schedule::RecurrentPlan &plan,
             const LogOptions &options);

protected:
  /// A part of L: of one state, along one axis, with the field that holds it.
  struct Clock {
    unsigned state;
    linattn::Axis axis; ///< scalar, key or value
    int field;
  };
  /// The log of a row as values of the block. Rows of A and B from `length` on are zero.
  struct Log {
    mlir::Value length;                          ///< i32
    llvm::SmallVector<mlir::Value> keys, values; ///< A and B, one each per write
    llvm::SmallVector<mlir::Value> clocks;       ///< L, per Clock
    llvm::SmallVector<mlir::Value> flatten() const;
  };
  Log unflatten(mlir::ValueRange values) const;
  Log emptyLog();
  /// The first `count` (i32) entries from ring position `start` (i32) on of `slot` (index).
  Log loadLog(mlir::Value slot, mlir::Value start, mlir::Value count);

  /// S^T x for each x of `keys`.
  llvm::SmallVector<mlir::Value> read(mlir::ValueRange base, const Log &log, unsigned state,
                                      mlir::ArrayRef<mlir::Value> keys);
  /// The dense states, rounded as they are stored.
  llvm::SmallVector<mlir::Value> merged(mlir::ValueRange base, const Log &log);

  /// What an entry holds of a token, in storage types, per field.
  llvm::SmallVector<mlir::Value> makeEntry(StepEmitter &emitter, mlir::ValueRange inputs,
                                           const Log &log);
  /// Writes it to ring position `position` (index) of `slot` (index).
  void storeEntry(mlir::ArrayRef<mlir::Value> held, mlir::Value slot, mlir::Value position);
  /// The log with the token in it.
  Log advance(StepEmitter &emitter, const Log &log, mlir::ArrayRef<mlir::Value> held);

  mlir::Value wrap(mlir::Value position); ///< i32, below 2 R, as a position of the ring
  mlir::Value minimum(mlir::Value a, int64_t b);
  mlir::Value isSlot(mlir::Value slot, unsigned pool); ///< i1: 0 <= slot < the scalar's value

  const analysis::StepAnalysis &step;
  const analysis::LogEntry &entry;
  mlir::ArrayRef<HeldField> fields;
  const LogOptions &options;
  llvm::SmallVector<unsigned> logArguments; ///< positions, per field
  std::optional<unsigned> headRatio;        ///< position; none: nothing belongs to key heads
  mlir::IRMapping params;                   ///< as loaded

private:
  mlir::RankedTensorType keysType(mlir::Type element) const;
  mlir::RankedTensorType valuesType(mlir::Type element) const;
  mlir::Value loadRows(unsigned field, mlir::Type type, mlir::Value slot, mlir::Value start,
                       mlir::Value count);
  mlir::Value loadNewest(unsigned field, mlir::Value slot, mlir::Value start, mlir::Value count);
  mlir::Value rowsOf(mlir::RankedTensorType matrix, mlir::Value rows);
  mlir::Value alongRows(mlir::RankedTensorType matrix, mlir::Value vector);
  void loadWrite(Log &log, unsigned write, mlir::Value slot, mlir::Value start, mlir::Value count,
                 StepEmitter &params);
  void decayRows(Log &log, unsigned write, mlir::Value slot, mlir::Value start, mlir::Value count);
  llvm::SmallVector<mlir::Value> weigh(const Log &log, unsigned write,
                                       mlir::ArrayRef<mlir::Value> keys);
  llvm::SmallVector<mlir::Value> readLog(mlir::ValueRange base, const Log &log, unsigned state,
                                         mlir::ArrayRef<mlir::Value> keys);
  StepEmitter::Factor factorOf(const Log &log, unsigned state);
  mlir::Value product(StepEmitter &emitter, const analysis::Product &product);
  mlir::Value heldKey(StepEmitter &emitter, unsigned write);
  mlir::Value heldValue(StepEmitter &emitter, unsigned write);
  mlir::Value clockAfter(StepEmitter &emitter, const Log &log, unsigned clock);
  std::optional<StepEmitter> emitterOfParams();
  mlir::Value asVector(mlir::Value value, mlir::Type like);

  llvm::SmallVector<Clock> clocks;
  mlir::Attribute keysLayout, valuesLayout;
};

} // namespace dl

#endif // PASSES_LINATTNTOTILE_LOGEMITTER_H
