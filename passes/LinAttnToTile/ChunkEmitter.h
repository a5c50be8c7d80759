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
// diagonal of N if that comes before it. With n writes per token the same holds of rows, n for each
// token (ChunkRows.h): C of them make a chunk of T = C / n tokens.
//
// Values live in three places. Keys and numbers of tokens are T x K and T, over all threads
// (ChunkPlan::tokens), and get to rows, C x K and C, without leaving their thread. What has a
// column of V is in accumulators: what writes are made of is transposed, VT x C, as is the state;
// outputs are T x VT, or transposed too. A transposed accumulator is, without leaving its thread,
// the first factor of a product that is transposed and, of mma.sync, the second of one that is not:
// wgmma takes no second factor from registers. All other factors lie in shared memory.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LINATTNTOTILE_CHUNKEMITTER_H
#define PASSES_LINATTNTOTILE_CHUNKEMITTER_H

#include "compiler/Schedule/Chunkwise.h"
#include "dialects/Tile/IR/Tile.h"
#include "mlir/IR/IRMapping.h"
#include "passes/LinAttnToTile/ChunkRows.h"
#include "llvm/ADT/MapVector.h"

namespace dl {

/// What a value with a column of V takes part in.
enum class ChunkSide { Writes, Outputs };

/// Where the values of a chunk live in the block.
struct ChunkLayouts {
  ChunkLayouts(mlir::MLIRContext *context, const schedule::ChunkPlan &plan, int64_t keyDim);

  mlir::RankedTensorType tokenKeys(mlir::Type element) const; ///< T x K
  mlir::RankedTensorType tokens(mlir::Type element) const;    ///< T, beside tokenKeys
  mlir::RankedTensorType keys(mlir::Type element) const;      ///< K, beside tokenKeys
  mlir::RankedTensorType rowKeys(mlir::Type element) const;   ///< C x K
  mlir::RankedTensorType pairs(mlir::Type element) const;     ///< C x C
  mlir::RankedTensorType reads(mlir::Type element) const;     ///< T x C, one row of each token
  /// VT x C for writes; T x VT for outputs, or VT x T where they are transposed.
  mlir::RankedTensorType values(ChunkSide side, mlir::Type element) const;
  bool isTransposed(ChunkSide side) const {
    return side == ChunkSide::Writes || products == schedule::Products::Wgmma;
  }
  /// In memory's order: a token's values side by side in threads, as many as may be.
  mlir::RankedTensorType valuesInMemory(ChunkSide side, mlir::Type element) const;
  mlir::RankedTensorType valueRows(ChunkSide side, mlir::Type element) const;    ///< C or T, beside
  mlir::RankedTensorType valueColumns(ChunkSide side, mlir::Type element) const; ///< VT, beside
  mlir::RankedTensorType state(mlir::Type element) const;                        ///< VT x K
  /// A transposed accumulator as the first factor of a transposed product like `sum`, or as the
  /// second one of a product that is not.
  mlir::RankedTensorType firstFactor(mlir::RankedTensorType type, mlir::RankedTensorType sum,
                                     mlir::Type element) const;
  mlir::RankedTensorType secondFactor(mlir::RankedTensorType type, mlir::Type element) const;
  /// A factor in shared memory, of the shape of a matrix.
  tile::SharedType shared(mlir::RankedTensorType matrix) const;

  int64_t chunk, rowsPerToken, tokensPerChunk, keyDim, valueTile, warps;
  schedule::Products products;
  schedule::Precision precision;
  mlir::Attribute tokenLayout, rowLayout, pairLayout, readLayout;

private:
  /// VT x `columns`.
  mlir::RankedTensorType transposedSum(int64_t columns, mlir::Type element) const;
  mlir::Attribute plain(llvm::StringRef operand) const;
};

/// How values get from keys and tokens to the accumulators. What is handed over comes in the same
/// order whenever the same step is emitted, so that one kernel can write it to memory and another
/// one read it.
class ChunkCrossing {
public:
  virtual ~ChunkCrossing() = default;
  /// Before the first matrix.
  virtual void start() {}
  /// A factor with rows or tokens for rows, of bf16: the buffer in shared memory that holds it.
  virtual mlir::Value matrix(mlir::Value value, tile::SharedType type) = 0;
  /// A number per row, token or key, in f32, beside an accumulator.
  virtual mlir::Value vector(mlir::Value value, mlir::RankedTensorType type) = 0;
  /// Behind the last matrix, before the first product.
  virtual void ready() {}
};

class ChunkEmitter {
public:
  ChunkEmitter(mlir::OpBuilder &builder, const analysis::StepAnalysis &step, const ChunkRows &rows,
               const ChunkLayouts &layouts, ChunkCrossing &crossing)
      : builder(builder), loc(linattn::OperatorOp(step.op)->getLoc()), step(step), rows(rows),
        layouts(layouts), crossing(crossing) {}

  /// The arguments with columns of V that a side needs.
  static llvm::SmallVector<mlir::BlockArgument> valuesOf(const analysis::StepAnalysis &step,
                                                         ChunkSide side);

  /// Binds an operator's argument to its value in the block, in f32: a number of all heads, T, or
  /// T x K. Inputs are zero for tokens that are not there.
  void bind(mlir::BlockArgument argument, mlir::Value value) { placed.map(argument, value); }
  /// The same for an argument with columns of V, on one side; writes have it for each row.
  void bind(mlir::BlockArgument argument, ChunkSide side, mlir::Value value) {
    of(side).map(argument, value);
  }

  /// `state`: the tile before the chunk; the result: after it. `count`: how many of the T tokens
  /// there are. Each output, T x VT, is handed to `store`. Fails, with a diagnostic at the op, on
  /// maths that has no place in a block.
  mlir::FailureOr<mlir::Value> emit(mlir::Value state, mlir::Value count,
                                    llvm::function_ref<void(unsigned, mlir::Value)> store);

private:
  /// A factor, and for one in shared memory what its rounding to bf16 takes away if that counts.
  struct ProductFactor {
    ProductFactor(mlir::Value value = {}, mlir::Value rest = {}) : value(value), rest(rest) {}
    mlir::Value value, rest;
  };

  /// What an output read is made of.
  struct OutputFactors {
    mlir::Value diagonal; ///< T: what it gets of its row's write, or null
    mlir::Value inShared; ///< X
    ProductFactor pairs;  ///< N in shared memory, T x C
  };

  // Token-local maths
  llvm::DenseSet<mlir::Value> neededLocals() const;
  mlir::LogicalResult emitLocals();
  mlir::LogicalResult emitLocal(mlir::Operation *operation);
  mlir::Type place(mlir::Type type);
  mlir::IRMapping &of(ChunkSide side) { return onSide[side == ChunkSide::Outputs]; }
  mlir::Value valueOf(mlir::Value value, ChunkSide side);   ///< a value with columns of V
  mlir::Value onValues(mlir::Value tokens, ChunkSide side); ///< one number per token, over values
  mlir::Value onKeys(mlir::Value tokens);                   ///< one number per token, over T x K
  mlir::Value inRows(llvm::ArrayRef<mlir::Value> tokens);   ///< T to C; null stands for zero
  mlir::Value asTokens(mlir::Value number);           ///< a number of all heads, one per token
  mlir::Value multiply(mlir::Value a, mlir::Value b); ///< null stands for one
  mlir::Value add(mlir::Value a, mlir::Value b);      ///< null stands for zero
  mlir::Value exp(mlir::Value x);
  mlir::Value zero(mlir::RankedTensorType type);
  mlir::Value integers(mlir::Type type, int32_t value); ///< all of them this one
  mlir::Value toBF16(mlir::Value value);
  mlir::Value coordinate(mlir::RankedTensorType type, int64_t axis);

  // Coefficients
  mlir::Value emitFactor(const analysis::Factor &factor, ChunkSide side = ChunkSide::Writes);
  mlir::Value tokensOf(const analysis::Product &product); ///< null stands for one
  mlir::Value tokensOf(const analysis::Coefficient &coefficient);
  /// Over values; null stands for one.
  mlir::Value valuesOf(const analysis::Product &product, ChunkSide side);
  mlir::Value valuesOf(const analysis::Coefficient &coefficient, ChunkSide side);
  /// Over values; null stands for zero.
  mlir::Value localsOf(const analysis::AffineForm &form, ChunkSide side);

  // Decays
  mlir::Value sumOfDecays(unsigned from, unsigned to); ///< T x K or T; null stands for zero
  mlir::Value decayedBy(mlir::Value keys, llvm::ArrayRef<mlir::Value> logDecays);
  mlir::Value decayedKey(mlir::Value key, unsigned from, unsigned to,
                         llvm::ArrayRef<linattn::DecayOp> others = {});
  mlir::Value scan(bool reverse, bool exclusive); ///< T x K; null stands for one
  mlir::Value inBase2();
  mlir::Value decayOfChunk(mlir::Value state);

  // Masks: tokens that are not there
  void emitMasks(mlir::Value count);
  bool isInput(mlir::Value value);
  mlir::Value ifThere(mlir::Value value);
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, mlir::Value a, mlir::Value b);

  // The chunk
  void emitGrams();
  mlir::Value onDiagonal(const analysis::Read &read, ChunkPlace place);
  mlir::Value decayedRead(unsigned read);
  void emitFactors();
  void emitSystem();
  mlir::Value onPairs(mlir::Value numbers, mlir::RankedTensorType pairs);
  mlir::Value systemOf(unsigned matrix);
  mlir::Value pairsOf(ChunkPlace place, mlir::Value diagonal);
  mlir::Value toShared(mlir::Value matrix);
  mlir::Value restToShared(mlir::Value matrix);
  ProductFactor bothToShared(mlir::Value matrix);
  bool isHiLo() const { return layouts.precision == schedule::Precision::HiLo; }
  mlir::Value asFirst(mlir::Value accumulator, mlir::Value sum, bool hilo);
  mlir::Value asSecond(mlir::Value accumulator, bool hilo);
  mlir::Value product(const ProductFactor &a, const ProductFactor &b, mlir::Value c,
                      bool transposed = false);
  mlir::Value localWrites();
  mlir::Value emitRightHandSide(mlir::Value state);
  mlir::Value solve(mlir::Value rightHandSide);
  mlir::Value readState(const OutputFactors &factors, mlir::Value state);
  mlir::Value addWrites(const OutputFactors &factors, mlir::Value writes, mlir::Value sum);
  mlir::Value emitWalk(mlir::Value state, llvm::function_ref<void(unsigned, mlir::Value)> store);
  void storeOutputs(const llvm::DenseMap<unsigned, mlir::Value> &results,
                    llvm::function_ref<void(unsigned, mlir::Value)> store);

  unsigned allDecays() const { return step.states.front().decays.size(); }

  mlir::OpBuilder &builder;
  mlir::Location loc;
  const analysis::StepAnalysis &step;
  const ChunkRows &rows;
  const ChunkLayouts &layouts;
  ChunkCrossing &crossing;
  mlir::IRMapping placed;
  std::array<mlir::IRMapping, 2> onSide;                           ///< values with columns of V
  llvm::DenseMap<mlir::Value, mlir::Value> raised;                 ///< e^x of x
  std::array<llvm::DenseMap<mlir::Value, mlir::Value>, 2> crossed; ///< tokens over values
  mlir::Value logDecay;                 ///< of a token: T x K, T, or null
  std::array<mlir::Value, 2> scans;     ///< up to a token: without and with its own
  llvm::SmallVector<mlir::Value> grams; ///< of rows.matrices: C x C, valid below the diagonal
  ProductFactor writesInShared;         ///< A
  ProductFactor inverse;                ///< of the system, less I
  ProductFactor feedbackInShared;
  llvm::MapVector<unsigned, OutputFactors> outputs; ///< by the number of the read
  mlir::Value tokenIsThere, keyIsThere, valueIsThere;
};

} // namespace dl

#endif // PASSES_LINATTNTOTILE_CHUNKEMITTER_H
