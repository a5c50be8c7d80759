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

/// Emits one token's step in affine form: the state tile is read once for all queries that are
/// known before, and appears once more in its update.
class StepEmitter {
public:
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

private:
  /// What happened to a state since the token began: decays and writes in order.
  using Path = llvm::SmallVector<mlir::Operation *>;
  struct History {
    unsigned root = 0;
    Path path;
  };
  /// A product of decay factors, by axis; null stands for one.
  struct Factor {
    mlir::Value scalar, key, value, matrix;
  };

  History historyOf(mlir::Value state);
  Factor factorOf(llvm::ArrayRef<mlir::Operation *> events);
  mlir::Value exponential(linattn::DecayOp decay);
  mlir::Value multiply(mlir::Value a, mlir::Value b);
  mlir::Value scale(mlir::Value vector, mlir::Value scalar);
  mlir::Value inTile(mlir::Value keyVector);
  mlir::Value expand(mlir::Value vector, int64_t axis);

  void classify();
  bool isReady(linattn::ReadOp read);
  mlir::LogicalResult emitLocal(mlir::Operation *operation);
  void emitReadsOfBase(llvm::ArrayRef<linattn::ReadOp> reads);
  mlir::Value weightOf(linattn::ReadOp read, const History &history, size_t write);
  void finishRead(linattn::ReadOp read);
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
