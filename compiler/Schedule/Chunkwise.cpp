//===- Chunkwise.cpp - Shape of a chunkwise kernel ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Schedule/Chunkwise.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace dl;
using namespace dl::schedule;

/// Rows and columns of the matrix instructions' tiles.
static constexpr int64_t kTile = 16;

template <typename... Args> static llvm::Error refuse(const char *format, Args &&...args) {
  return llvm::createStringError(llvm::formatv(format, std::forward<Args>(args)...).str());
}

llvm::StringRef schedule::stringify(Products products) {
  return products == Products::Wgmma ? "wgmma" : "mma.sync";
}

llvm::Expected<Products> schedule::parseProducts(llvm::StringRef name) {
  for (Products products : {Products::MmaSync, Products::Wgmma})
    if (name == stringify(products))
      return products;
  return refuse("products: expected mma.sync or wgmma, got '{0}'", name);
}

/// Whole rows to warps, columns to lanes, as many side by side as they are wide.
static layout::BlockedParams rowsToWarps(int64_t rows, int64_t columns, int64_t warps) {
  layout::BlockedParams params;
  params.perThread = {rows / warps, (columns + layout::kWarpSize - 1) / layout::kWarpSize};
  params.lanes = {1, layout::kWarpSize};
  params.warps = {warps, 1};
  params.order = {1, 0};
  params.numWarps = warps;
  return params;
}

/// How matrices of tokens and of rows are dealt to a block's warps.
static void dealRows(ChunkPlan &plan, int64_t keyDim) {
  int64_t tokens = plan.tokensPerChunk(), warps = plan.block.warps;
  plan.tokens = rowsToWarps(tokens, keyDim, warps);
  plan.rows = rowsToWarps(plan.chunk, keyDim, warps);
  plan.pairs = rowsToWarps(plan.chunk, plan.chunk, warps);
  plan.reads = rowsToWarps(tokens, plan.chunk, warps);
}

llvm::StringRef schedule::nameOf(Precision precision) {
  return precision == Precision::HiLo ? "hilo" : "bf16";
}

std::optional<Precision> schedule::parsePrecision(llvm::StringRef name) {
  for (Precision precision : {Precision::BF16, Precision::HiLo})
    if (name == nameOf(precision))
      return precision;
  return std::nullopt;
}

Precision schedule::choosePrecision(std::optional<double> feedback, int64_t keyDim) {
  if (!feedback || *feedback == 0)
    return Precision::BF16;
  return *feedback > 1 || keyDim < 2 * kTile ? Precision::HiLo : Precision::BF16;
}

llvm::Expected<ChunkPlan> schedule::planChunkwise(const RecurrentProblem &problem,
                                                  const ChunkOverrides &overrides,
                                                  int64_t rowsPerToken,
                                                  std::optional<double> feedback) {
  constexpr int64_t mostRows = kTile * kMostRowsPerToken;
  ChunkPlan plan;
  plan.rowsPerToken = rowsPerToken;
  plan.precision = overrides.precision.value_or(choosePrecision(feedback, problem.keyDim));
  // Outputs are a matrix of tokens.
  int64_t fewestRows = kTile * rowsPerToken;
  if (fewestRows > mostRows)
    return refuse("expected at most {0} rows per token, got {1}", kMostRowsPerToken, rowsPerToken);
  plan.chunk = overrides.chunk ? overrides.chunk : std::max<int64_t>(32, fewestRows);
  if (plan.chunk < kTile || plan.chunk > mostRows || !llvm::isPowerOf2_64(plan.chunk))
    return refuse("chunk: expected 16, 32, 64 or 128, got {0}", plan.chunk);
  if (plan.chunk < fewestRows)
    return refuse("chunk: expected at least {0} rows, {1} times those of a token, got {2}",
                  fewestRows, kTile, plan.chunk);
  if (problem.keyDim < kTile || problem.keyDim > 256 || problem.keyDim % kTile != 0)
    return refuse("key-dim: expected a multiple of {0} from {0} to 256, got {1}", kTile,
                  problem.keyDim);
  if (problem.valueDim < 4 || problem.valueDim > 256 || problem.valueDim % 4 != 0)
    return refuse("value-dim: expected a multiple of 4 from 4 to 256, got {0}", problem.valueDim);
  // Four warps, one for each quarter of an SM, unless V is too narrow. wgmma is issued by four.
  plan.products = overrides.products;
  const int64_t narrowest = plan.products == Products::Wgmma ? 4 * kTile : kTile;
  int64_t tile = overrides.valueTile;
  if (tile == 0)
    tile = problem.valueDim > 2 * kTile ? 4 * kTile : problem.valueDim > kTile ? 2 * kTile : kTile;
  if (overrides.valueTile == 0)
    tile = std::max(tile, narrowest);
  int64_t warps = tile / kTile;
  if (tile % narrowest != 0 || warps < 1 || warps > 16 || !llvm::isPowerOf2_64(warps) ||
      plan.tokensPerChunk() % warps != 0)
    return refuse("value-tile: expected a power of two times {0}, at most {1} times the chunk's "
                  "{2} tokens and 256, got {3}",
                  narrowest, kTile, plan.tokensPerChunk(), tile);
  plan.block.valueTile = tile;
  plan.block.warps = warps;
  plan.block.minBlocks = overrides.minBlocks ? overrides.minBlocks : 1;
  plan.block.state.perThread = {1, 1};
  plan.block.state.lanes = {1, layout::kWarpSize};
  plan.block.state.warps = {1, warps};
  plan.block.state.order = {1, 0};
  plan.block.state.numWarps = warps;
  plan.block.keyIsSlice = true;
  if (overrides.blocksPerPart)
    plan.split.blocksPerPart = overrides.blocksPerPart;
  dealRows(plan, problem.keyDim);
  return plan;
}

ChunkPlan schedule::planPreparation(const RecurrentProblem &problem, const ChunkPlan &walk) {
  // With eight rows a thread has the runs of three levels of a Gram in its registers, and K of
  // 128 leaves it room for queries, keys and decays.
  constexpr int64_t rowsPerThread = 4, threadsPerSM = 512;
  ChunkPlan plan = walk;
  int64_t warps =
      std::max<int64_t>(1, walk.chunk / std::max<int64_t>(rowsPerThread, walk.rowsPerToken));
  plan.block.warps = warps;
  plan.block.minBlocks = std::max<int64_t>(1, threadsPerSM / (warps * layout::kWarpSize));
  plan.block.valueTile = kTile * warps;
  while (plan.block.valueTile < problem.valueDim)
    plan.block.valueTile *= 2;
  plan.block.state.warps = {1, warps};
  plan.block.state.numWarps = warps;
  dealRows(plan, problem.keyDim);
  return plan;
}
