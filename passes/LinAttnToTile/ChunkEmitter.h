//===- ChunkEmitter.h - The maths of a chunk of tokens in one block ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With S0 the state before the chunk and G_t the sum of log decays up to token t, the normal form
// of StepAnalysis.h becomes, for a step with one write b at key a,
//
//   reads     R_r = X_r S0 + N_r B              X_r[t] = x_r e^{G_t},  N_r[t, s] = x_r a e^{G_t -
//   G_s} writes    B = D + sum over feedback of gamma_r R_r,   hence
//             (I - sum gamma_r N_r) B = D + (sum gamma_r X_r) S0
//   state     S_C = e^{G_C} S0 + A^T B          A[s] = a e^{G_C - G_s}
//
// where a read before its token's decay has G_{t-1} for G_t, and sees its token's write on the
// diagonal of N if that comes before it.
//
// Values live in two places. Keys and numbers of tokens are C x K and C, over all threads
// (ChunkPlan::tokens); what has a column of V is transposed, VT x C, in accumulators. Between them
// lie factors in shared memory.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LINATTNTOTILE_CHUNKEMITTER_H
#define PASSES_LINATTNTOTILE_CHUNKEMITTER_H

#include "compiler/Schedule/Chunkwise.h"
#include "dialects/Tile/IR/Tile.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Analysis/StepAnalysis.h"

namespace dl {

/// Where the values of a chunk live in the block.
struct ChunkLayouts {
  ChunkLayouts(mlir::MLIRContext *context, const schedule::ChunkPlan &plan, int64_t keyDim);

  mlir::RankedTensorType tokenKeys(mlir::Type element) const;    ///< C x K
  mlir::RankedTensorType tokens(mlir::Type element) const;       ///< C, beside tokenKeys
  mlir::RankedTensorType keys(mlir::Type element) const;         ///< K, beside tokenKeys
  mlir::RankedTensorType pairs(mlir::Type element) const;        ///< C x C
  mlir::RankedTensorType values(mlir::Type element) const;       ///< VT x C
  mlir::RankedTensorType valueTokens(mlir::Type element) const;  ///< C, beside values
  mlir::RankedTensorType valueColumns(mlir::Type element) const; ///< VT, beside values
  mlir::RankedTensorType movedValues(mlir::Type element) const;  ///< VT x C, to and from memory
  mlir::RankedTensorType state(mlir::Type element) const;        ///< VT x K
  /// An accumulator as the first factor of a product.
  mlir::RankedTensorType factor(mlir::RankedTensorType accumulator, mlir::Type element) const;
  /// A second factor, in shared memory.
  tile::SharedType shared(int64_t columns, mlir::Type element) const;

  int64_t chunk, keyDim, valueTile;
  mlir::Attribute tokenLayout, pairLayout, accumulator, firstFactor, moved;
};

/// How values get from keys and tokens to the accumulators. What is handed over comes in the same
/// order whenever the same step is emitted, so that one kernel can write it to memory and another
/// one read it.
class ChunkCrossing {
public:
  virtual ~ChunkCrossing() = default;
  /// A second factor, C x K or C x C of bf16: the buffer in shared memory that holds it.
  virtual mlir::Value matrix(mlir::Value value, tile::SharedType type) = 0;
  /// A number per token or key, in f32, beside an accumulator.
  virtual mlir::Value vector(mlir::Value value, mlir::RankedTensorType type) = 0;
  /// Behind the last matrix, before the first product.
  virtual void ready() {}
};

class ChunkEmitter {
public:
  ChunkEmitter(mlir::OpBuilder &builder, const analysis::StepAnalysis &step,
               const ChunkLayouts &layouts, ChunkCrossing &crossing)
      : builder(builder), loc(linattn::OperatorOp(step.op)->getLoc()), step(step), layouts(layouts),
        crossing(crossing) {}

  /// Binds an operator's argument to its value in the block, in f32: a number of all heads, or what
  /// `ChunkLayouts` has for its axis. Inputs are zero for tokens that are not there.
  void bind(mlir::BlockArgument argument, mlir::Value value) { placed.map(argument, value); }

  /// `state`: the tile before the chunk; the result: after it. `count`: how many of the C tokens
  /// there are. Each output, VT x C, is handed to `store`. Fails, with a diagnostic at the op, on
  /// maths that has no place in a block.
  mlir::FailureOr<mlir::Value> emit(mlir::Value state, mlir::Value count,
                                    llvm::function_ref<void(unsigned, mlir::Value)> store);

private:
  /// A read: its key at the token's start or, if it comes after all decays, at its end.
  struct ReadFactors {
    unsigned number = 0;
    mlir::Value key;       ///< C x K
    mlir::Value gram;      ///< C x C: N, valid below the diagonal
    mlir::Value inShared;  ///< X
    mlir::Value pairs;     ///< N in shared memory
    bool inclusive = true; ///< sees its own token's decays
  };

  // Token-local maths
  llvm::DenseSet<mlir::Operation *> neededLocals() const;
  mlir::LogicalResult emitLocals();
  mlir::LogicalResult emitLocal(mlir::Operation *operation);
  mlir::Type place(mlir::Type type);
  mlir::Value onValues(mlir::Value tokens);           ///< one number per token, over VT x C
  mlir::Value onKeys(mlir::Value tokens);             ///< one number per token, over C x K
  mlir::Value asTokens(mlir::Value number);           ///< a number of all heads, one per token
  mlir::Value multiply(mlir::Value a, mlir::Value b); ///< null stands for one
  mlir::Value add(mlir::Value a, mlir::Value b);      ///< null stands for zero
  mlir::Value exp(mlir::Value x);
  mlir::Value zero(mlir::RankedTensorType type);

  // Coefficients
  mlir::Value emitFactor(const analysis::Factor &factor);
  mlir::Value tokensOf(const analysis::Product &product); ///< null stands for one
  mlir::Value tokensOf(const analysis::Coefficient &coefficient);
  mlir::Value valuesOf(const analysis::Product &product); ///< VT x C, null stands for one
  mlir::Value valuesOf(const analysis::Coefficient &coefficient);
  mlir::Value localsOf(const analysis::AffineForm &form); ///< VT x C, null stands for zero

  // Decays
  void sumDecays();
  mlir::Value decayedBy(mlir::Value keys, llvm::ArrayRef<mlir::Value> logDecays);
  llvm::SmallVector<mlir::Value> decaysBetween(unsigned from, unsigned to);
  mlir::Value scan(bool reverse, bool exclusive); ///< over the chunk, over C x K or C; or null
  mlir::Value overChunk(mlir::Value keys, mlir::Value logDecay);
  mlir::Value decayOfChunk(mlir::Value state);

  // Masks: tokens that are not there
  void emitMasks(mlir::Value count);
  bool isInput(mlir::Value value);
  mlir::Value ifThere(mlir::Value value);
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value a, mlir::Value b);

  // The chunk
  void emitReads();
  void emitGrams();
  mlir::Value onDiagonal(const ReadFactors &read);
  void emitFactors();
  void emitSystem();
  mlir::Value toShared(mlir::Value matrix);
  mlir::Value asFactor(mlir::Value accumulator);
  mlir::Value product(mlir::Value a, mlir::Value b, mlir::Value c, bool transposed = false);
  mlir::Value emitWrites(mlir::Value state);

  const analysis::Write &write() const { return step.writes.front(); }
  unsigned allDecays() const { return step.states.front().decays.size(); }

  mlir::OpBuilder &builder;
  mlir::Location loc;
  const analysis::StepAnalysis &step;
  const ChunkLayouts &layouts;
  ChunkCrossing &crossing;
  mlir::IRMapping placed;
  llvm::DenseMap<mlir::Value, mlir::Value> raised, crossed; ///< e^x of x; tokens over values
  mlir::Value logDecay;                           ///< of a token: C x K, C, or null
  mlir::Value writeKey, writesInShared;           ///< C x K
  mlir::Value inverse, feedbackInShared;          ///< of the system
  std::vector<ReadFactors> reads;                 ///< as StepAnalysis::reads
  mlir::Value tokenIsThere, keyIsThere, valueIsThere;
};

} // namespace dl

#endif // PASSES_LINATTNTOTILE_CHUNKEMITTER_H
