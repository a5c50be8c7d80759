//===- BlockEmitter.h - What the kernels of an operator have in common ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Block (x, y, z) = (value head and tile of V, row in a layer, layer of rows). A block owns a tile
// K x VT of the states of one value head; this emits where it is and how it meets memory.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LINATTNTOTILE_BLOCKEMITTER_H
#define PASSES_LINATTNTOTILE_BLOCKEMITTER_H

#include "compiler/Schedule/Recurrent.h"
#include "dialects/LinAttn/IR/LinAttn.h"
#include "dialects/Tile/IR/Tile.h"
#include "mlir/IR/IRMapping.h"
#include "passes/LinAttnToTile/KernelArguments.h"
#include "passes/LinAttnToTile/StepEmitter.h"

namespace dl {

/// The layout attribute of a regular distribution.
tile::BlockedAttr toAttr(mlir::MLIRContext *context, const layout::BlockedParams &params);

class BlockEmitter {
public:
  BlockEmitter(linattn::OperatorOp op, const KernelTypes &types,
               const schedule::RecurrentPlan &plan);

protected:
  /// Creates the kernel before the operator, one block per row, value head and tile; the builder is
  /// then in its entry block, behind the return. `suffix` makes its name. `rows`: an expression of
  /// the sizes that says how many there are, N if it is null.
  void createKernel(KernelArguments &arguments, llvm::StringRef suffix, mlir::Attribute rows = {});
  /// What block this is. `headReciprocal`: position of that scalar, if there is one.
  void emitPlacement(std::optional<unsigned> headReciprocal);

  mlir::Value index(int64_t value);
  mlir::Value i32(int64_t value);
  mlir::Value toI32(mlir::Value number);
  mlir::Value toIndex(mlir::Value number);
  mlir::Value toF32(mlir::Value value);
  mlir::Value fromF32(mlir::Value value, mlir::Type element);
  mlir::Value zeroOf(mlir::Type type);
  mlir::Value argument(unsigned i) { return kernel.getBody().getArgument(i); }
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value a, mlir::Value b);
  mlir::Type elementOf(unsigned i);
  mlir::Value head(linattn::HeadGroup group) {
    return group == linattn::HeadGroup::KeyHead ? keyHead : valueHead;
  }
  mlir::Value head(mlir::Type type) { return head(*linattn::groupOf(type)); }
  bool wholeTiles() const { return types.valueDim % plan.valueTile == 0; }

  /// The part of `memory` behind `leading` that a linattn value of this type has in this block.
  mlir::Value load(mlir::Value memory, mlir::ArrayRef<mlir::Value> leading, mlir::Type type);
  void store(mlir::Value value, mlir::Value memory, mlir::ArrayRef<mlir::Value> leading,
             mlir::Type type);
  /// The operator's params, as they lie in memory.
  mlir::IRMapping loadParams(mlir::ArrayRef<unsigned> where);
  /// Binds params, in f32, to the operator's arguments.
  void bindParams(StepEmitter &emitter, const mlir::IRMapping &params);
  /// The inputs of a token in their storage types; zeros unless it is before `end`.
  llvm::SmallVector<mlir::Value> loadInputs(mlir::ArrayRef<unsigned> where, mlir::Value batch,
                                            mlir::Value token, mlir::Value end, bool predicated);
  /// Output number `i`.
  void storeOutput(mlir::ArrayRef<unsigned> where, unsigned i, mlir::Value batch, mlir::Value token,
                   mlir::Value value);
  /// Zeros as the outputs of tokens first .. end - 1.
  void storeZeroOutputs(mlir::ArrayRef<unsigned> where, mlir::Value batch, mlir::Value first,
                        mlir::Value end);
  /// State tiles of a slot, in their storage type.
  llvm::SmallVector<mlir::Value> loadStates(mlir::ArrayRef<unsigned> where, mlir::Value slot);
  /// The same in f32, or zeros.
  llvm::SmallVector<mlir::Value> loadStatesUnless(mlir::Value isZero,
                                                  mlir::ArrayRef<unsigned> where,
                                                  llvm::function_ref<mlir::Value()> slot);
  /// The same without a branch, which would keep what stands behind it from being scheduled beside
  /// these loads.
  llvm::SmallVector<mlir::Value> loadStatesIf(mlir::Value exists, mlir::ArrayRef<unsigned> where,
                                              mlir::Value slot);
  void storeStates(mlir::ArrayRef<unsigned> where, mlir::ValueRange states, mlir::Value slot);

  linattn::OperatorOp op;
  const KernelTypes &types;
  const schedule::RecurrentPlan &plan;
  mlir::OpBuilder builder;
  mlir::Location loc;
  StepLayouts layouts;
  tile::KernelOp kernel;
  mlir::Value row;                ///< i32
  mlir::Value valueHead, keyHead; ///< index
  mlir::Value firstColumn;        ///< index: of the block's tile of V

private:
  struct Access {
    llvm::SmallVector<mlir::Value> indices;
    llvm::SmallVector<int64_t> axes;
    llvm::SmallVector<bool> inBounds;
  };
  Access access(mlir::ArrayRef<mlir::Value> leading, mlir::Type type);
  llvm::SmallVector<mlir::Value> stateIndices(mlir::Value slot);
  llvm::SmallVector<int64_t> stateAxes() const;
  mlir::Value keyHeadOf(mlir::Value reciprocal);
};

} // namespace dl

#endif // PASSES_LINATTNTOTILE_BLOCKEMITTER_H
