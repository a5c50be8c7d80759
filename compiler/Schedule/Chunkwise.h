//===- Chunkwise.h - Shape of a chunkwise kernel ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The chunkwise kernel takes a chunk of tokens at a time. A token has a row for each of its n
// writes, rounded up to a power of two, and C rows make a chunk. A block walks the tokens of one
// row and value head and holds VT columns of the state, transposed, in the accumulators of a matrix
// instruction:
//
//   S^T  VT x K    warps split VT, a warp holds whole rows, so that the accumulators of one product
//                  are, without leaving the thread, the factor of the next
//   VT x C         likewise: reads and values to be written, transposed
//   C / n x VT     outputs
//
// Their other factors are made of keys, queries and decays, C x K or C x C, and lie in shared
// memory. They are computed by all threads in a layout in which a thread holds consecutive tokens,
// so that running sums over tokens are sums over registers.
//
//===----------------------------------------------------------------------===//
#ifndef COMPILER_SCHEDULE_CHUNKWISE_H
#define COMPILER_SCHEDULE_CHUNKWISE_H

#include "compiler/Layout/Layout.h"
#include "compiler/Schedule/Recurrent.h"
#include "llvm/Support/Error.h"
#include <optional>

namespace dl::schedule {

/// The blocks of tokens whose decayed Gram is one product where decays have a bound, and how many
/// nats decays may span in one, for factors that are at most e^40 and at least e^-40.
constexpr int64_t kGramBlock = 16;
constexpr double kWidestGramBlock = 80;

/// Whether log decays of a token that are never below `bound` span no more.
inline bool isBoundInGramBlocks(double bound) { return -kGramBlock * bound <= kWidestGramBlock; }

/// A chunk has 16 tokens at least, the tile of its outputs, and 128 rows at most.
constexpr int64_t kMostRowsPerToken = 8;

/// The instructions of the walk's products. With wgmma all accumulators are transposed, since it
/// takes its second factor from shared memory alone.
enum class Products : uint8_t { MmaSync, Wgmma };
llvm::StringRef stringify(Products products);
/// By name; the error lists what exists.
llvm::Expected<Products> parseProducts(llvm::StringRef name);
/// What the products of a chunk keep of their factors.
enum class Precision {
  BF16, ///< 8 bits, what rounding to bf16 leaves; of the triangular system's inverse 16
  HiLo, ///< 16 bits, as two factors in bf16, wherever a product's result enters later writes
};

/// "bf16" or "hilo".
llvm::StringRef nameOf(Precision precision);
/// The one with a name, if there is one.
std::optional<Precision> parsePrecision(llvm::StringRef name);

/// By `feedback`, what no factor with which a read enters a write exceeds; null where nothing
/// bounds it, and then factors are in bf16: the operator may say more.
///
/// What rounding adds to the state enters later writes by that factor. Up to a factor of 1 writes
/// take it away as they do what was there before. By a factor of 2 the state is reflected: all that
/// was ever added stays. Errors of a state relative to it, without decay, 200 tokens, on the cpu
/// target (2026-12-01; random keys of length one, chunks of 32, GDN):
///
///   K =                      16       32       64      128
///   factor 2, bf16      1.5e-02  1.1e-02  7.8e-03  5.6e-03
///   factor 2, hilo      4.5e-05  2.6e-05  1.7e-05  1.1e-05
///
/// of outputs with hilo 2.6e-3 to 4.0e-3. With one key for all tokens, a decay of 1e-3 and one per
/// channel, bf16 has 2.6e-1, hilo 2.6e-3 (K = 128). An error is less the more numbers a key has
/// over which it averages; with 16 a factor of 1 is too much for bf16 as well.
Precision choosePrecision(std::optional<double> feedback, int64_t keyDim);

/// Forced values for tests and tuning; 0 lets the model decide.
struct ChunkOverrides {
  int64_t chunk = 0;     ///< C, rows taken at a time
  int64_t valueTile = 0; ///< columns of V per block
  int64_t minBlocks = 0; ///< resident blocks per SM
  int64_t blocksPerPart = 0;
  Products products = Products::MmaSync;
  std::optional<Precision> precision = std::nullopt;
};

/// How many parts a launch of two kernels is cut into: as many as all of these allow. A part of few
/// chunks is mostly the start and end of its kernels, and where the walk alone has blocks for all
/// SMs there is no room beside it. Measured on an H200 (2026-11-30, 128 x 128, 8192 tokens): with
/// 32 heads 4 parts take .50, .52, .45 ms for GDN, KDA, RWKV6, one .56, .62, .51; 2 to 8 parts are
/// within 5 %; of 8 rows of 1024 tokens, 512 blocks, 4 parts take .39 ms and one .35.
struct ChunkSplit {
  int64_t maxParts = 4;
  int64_t blocksPerPart = 2048; ///< of preparation, at least: a chunk and value head each
  int64_t walkBlocks = 512;     ///< parts times blocks of the walk, at most
};

struct ChunkPlan {
  int64_t chunk = 0, rowsPerToken = 1;
  Products products = Products::MmaSync;
  Precision precision = Precision::BF16;
  RecurrentPlan block;          ///< the tile of V, warps; `state` serves zeros of null rows alone
  layout::BlockedParams tokens; ///< of C / n x K
  layout::BlockedParams rows;   ///< of C x K
  layout::BlockedParams pairs;  ///< of C x C: columns are rows that wrote
  layout::BlockedParams reads;  ///< of C / n x C: those of one row of each token

  ChunkSplit split;

  int64_t tokensPerChunk() const { return chunk / rowsPerToken; }
};

/// The plan for a problem, or one line that says which dimension cannot be served and what could.
/// `rowsPerToken`: a power of two. `feedback`: as in choosePrecision.
llvm::Expected<ChunkPlan> planChunkwise(const RecurrentProblem &problem,
                                        const ChunkOverrides &overrides = {},
                                        int64_t rowsPerToken = 1,
                                        std::optional<double> feedback = std::nullopt);

/// That of the kernel which computes the factors of all chunks, in a block for each, for a kernel
/// that walks them by `walk`. No product with the state is made here, so nothing splits V.
ChunkPlan planPreparation(const RecurrentProblem &problem, const ChunkPlan &walk);

} // namespace dl::schedule

#endif // COMPILER_SCHEDULE_CHUNKWISE_H
