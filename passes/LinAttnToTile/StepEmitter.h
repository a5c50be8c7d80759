//===- StepEmitter.h - One token's step on a tile of the state ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LINATTNTOTILE_STEPEMITTER_H
#define PASSES_LINATTNTOTILE_STEPEMITTER_H

#include "dialects/LinAttn/IR/LinAttn.h"
#include "dialects/Tile/IR/Tile.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

namespace dl {

/// Layouts and sizes of the values of a step in one block.
struct StepLayouts {
  int64_t keyDim = 0, valueTile = 0;
  mlir::Attribute state; ///< of the K x VT tile, axes (key, value)
  mlir::Attribute key;   ///< of key vectors while they are token-local

  mlir::Type place(mlir::Type type,
                   mlir::Type element) const; ///< where a linattn value lives in the block
  mlir::RankedTensorType matrix(mlir::Type element) const;
  mlir::RankedTensorType keyVector(mlir::Type element) const; ///< token-local
  mlir::RankedTensorType keyInTile(mlir::Type element) const; ///< ready to meet the state
  mlir::RankedTensorType valueVector(mlir::Type element) const;
};

/// Emits one token's step in affine form: the state before the token is read once for all queries
/// that are known before, and appears once more in its update.
class StepEmitter {
public:
  /// Emits S^T x for the state before the token and some x: token-local key vectors. `matrix`, if
  /// it is not null, is multiplied into the state first.
  using Reader = llvm::function_ref<llvm::SmallVector<mlir::Value>(
      unsigned state, mlir::Value matrix, mlir::ArrayRef<mlir::Value> keys)>;
  /// A product of decay factors, by axis; null stands for one.
  struct Factor {
    mlir::Value scalar, key, value, matrix;
  };

  StepEmitter(mlir::OpBuilder &builder, linattn::OperatorOp op, const StepLayouts &layouts)
      : builder(builder), op(op), layouts(layouts) {}

  /// Binds an operator's argument (not a state) to its value in the block.
  void bind(mlir::BlockArgument argument, mlir::Value value) { placed.map(argument, value); }

  /// `states`: the tile of each state before the token; the result: after it. Each output is handed
  /// to `store` as soon as it is known, before the new states are computed, so that what they need
  /// of registers does not add up. Fails, with a diagnostic at the op, on maths that has no place
  /// in a block.
  mlir::FailureOr<llvm::SmallVector<mlir::Value>>
  emit(mlir::ValueRange states, llvm::function_ref<void(unsigned, mlir::Value)> store);
  /// The same up to the outputs, whatever form the state has: `read` emits its reads.
  mlir::LogicalResult emit(Reader read, llvm::function_ref<void(unsigned, mlir::Value)> store);
  /// What has no input and no state in it: numbers and vectors that params alone set.
  mlir::LogicalResult emitParamsOnly();

  /// After emit(): the value in the block of one of the operator's body that is no state.
  mlir::Value lookup(mlir::Value value) const { return placed.lookup(value); }
  /// After emit(): what the token multiplies into the state it leaves, number `i`.
  Factor decayOf(unsigned i);
  mlir::Value multiply(mlir::Value a, mlir::Value b); ///< null stands for one
  /// A vector or number times a number; null stands for one.
  mlir::Value scale(mlir::Value vector, mlir::Value scalar);
  mlir::Value inTile(mlir::Value keyVector); ///< a key vector ready to meet the state
  /// S^T x for a tile of the state times `matrix` (null: one), for token-local key vectors.
  llvm::SmallVector<mlir::Value> readTile(mlir::Value state, mlir::Value matrix,
                                          mlir::ArrayRef<mlir::Value> keys);
  /// A tile of the state times factors, which have been found per axis.
  mlir::Value decayed(mlir::Value state, const Factor &factor);

private:
  /// What happened to a state since the token began: decays and writes in order.
  using Path = llvm::SmallVector<mlir::Operation *>;
  struct History {
    unsigned root = 0;
    Path path;
  };
  History historyOf(mlir::Value state);
  Factor factorOf(llvm::ArrayRef<mlir::Operation *> events);
  mlir::Value exponential(linattn::DecayOp decay);
  mlir::Value expand(mlir::Value vector, int64_t axis);

  void classify();
  bool isReady(linattn::ReadOp read);
  mlir::LogicalResult emitLocal(mlir::Operation *operation);
  void emitReadsOfBase(Reader read, llvm::ArrayRef<linattn::ReadOp> reads);
  mlir::Value weightOf(linattn::ReadOp read, const History &history, size_t write);
  void finishRead(Reader reader, linattn::ReadOp read);
  mlir::Value newState(mlir::Value state);

  mlir::OpBuilder &builder;
  linattn::OperatorOp op;
  const StepLayouts &layouts;
  mlir::IRMapping placed;
  mlir::ValueRange base;
  llvm::DenseSet<mlir::Value> afterRead; ///< values that depend on some read
  llvm::DenseMap<mlir::Operation *, mlir::Value>
      ofBase; ///< per read: its part from the state before the token
  llvm::DenseMap<std::pair<mlir::Operation *, size_t>, mlir::Value> weights;
  llvm::DenseMap<mlir::Operation *, mlir::Value> exponentials;
  llvm::DenseMap<mlir::Value, mlir::Value> converted;
};

} // namespace dl

#endif // PASSES_LINATTNTOTILE_STEPEMITTER_H
