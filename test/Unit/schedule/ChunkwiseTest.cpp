//===- ChunkwiseTest.cpp - Shapes of chunkwise kernels --------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/Schedule/Chunkwise.h"
#include "gtest/gtest.h"
#include <functional>
#include <string>

using namespace dl;
using namespace dl::schedule;

static RecurrentProblem problemOf(int64_t key, int64_t value) {
  RecurrentProblem problem;
  problem.keyDim = key;
  problem.valueDim = value;
  return problem;
}

static ChunkOverrides forced(int64_t chunk, int64_t valueTile = 0, int64_t minBlocks = 0) {
  ChunkOverrides result;
  result.chunk = chunk;
  result.valueTile = valueTile;
  result.minBlocks = minBlocks;
  return result;
}

/// The plan; an empty one, and a failure, if there is none.
static ChunkPlan planOf(const RecurrentProblem &problem, const ChunkOverrides &overrides = {}) {
  llvm::Expected<ChunkPlan> plan = planChunkwise(problem, overrides);
  if (plan)
    return *plan;
  ADD_FAILURE() << problem.keyDim << "x" << problem.valueDim << ": "
                << llvm::toString(plan.takeError());
  return {};
}

static std::string errorOf(const RecurrentProblem &problem, const ChunkOverrides &overrides = {}) {
  llvm::Expected<ChunkPlan> plan = planChunkwise(problem, overrides);
  return plan ? "no error" : llvm::toString(plan.takeError());
}

/// All K and V that there are prefills for, in chunks of all sizes.
static void
forAllPlans(const std::function<void(const RecurrentProblem &, const ChunkPlan &)> &check) {
  for (int64_t key = 16; key <= 256; key += 16)
    for (int64_t value = 16; value <= 256; value += 4)
      for (int64_t chunk : {16, 32, 64, 128}) {
        SCOPED_TRACE(std::to_string(key) + "x" + std::to_string(value) + " by " +
                     std::to_string(chunk));
        const RecurrentProblem problem = problemOf(key, value);
        check(problem, planOf(problem, forced(chunk)));
      }
}

/// Rows are dealt to warps without a rest, columns to lanes with one at most.
static void expectRowsToWarps(const layout::BlockedParams &params, int64_t rows, int64_t columns,
                              int64_t warps) {
  llvm::Expected<layout::RegisterLayout> layout = layout::blocked({rows, columns}, params);
  ASSERT_TRUE(bool(layout)) << llvm::toString(layout.takeError());
  EXPECT_EQ(params.numWarps, warps);
  EXPECT_EQ(params.perThread[0] * params.lanes[0] * params.warps[0], rows);
  EXPECT_EQ(params.lanes[0], 1) << "a thread has whole runs of tokens";
  EXPECT_EQ(params.warps[1], 1);
  EXPECT_GE(params.perThread[1] * params.lanes[1], columns);
  EXPECT_LT(params.perThread[1] * params.lanes[1], columns + layout::kWarpSize);
}

TEST(Chunkwise, ChunksOf32UnlessForced) {
  EXPECT_EQ(planOf(problemOf(128, 128)).chunk, 32);
  for (int64_t chunk : {16, 32, 64, 128})
    EXPECT_EQ(planOf(problemOf(128, 128), forced(chunk)).chunk, chunk);
}

TEST(Chunkwise, PrecisionFollowsTheFactorOfFeedback) {
  EXPECT_EQ(choosePrecision(0, 16), Precision::BF16) << "no feedback";
  EXPECT_EQ(choosePrecision(std::nullopt, 16), Precision::BF16) << "nothing known";
  EXPECT_EQ(choosePrecision(1, 128), Precision::BF16);
  EXPECT_EQ(choosePrecision(1, 32), Precision::BF16);
  EXPECT_EQ(choosePrecision(1, 16), Precision::HiLo) << "keys of few numbers";
  EXPECT_EQ(choosePrecision(1.25, 128), Precision::HiLo);
  EXPECT_EQ(choosePrecision(2, 128), Precision::HiLo);
  for (Precision precision : {Precision::BF16, Precision::HiLo}) {
    EXPECT_EQ(parsePrecision(nameOf(precision)), precision);
    ChunkOverrides overrides;
    overrides.precision = precision;
    for (std::optional<double> feedback : {std::optional<double>(), {1.0}, {2.0}})
      EXPECT_EQ(llvm::cantFail(planChunkwise(problemOf(64, 64), overrides, 1, feedback)).precision,
                precision);
  }
  EXPECT_EQ(parsePrecision("tf32"), std::nullopt);
  EXPECT_EQ(planOf(problemOf(64, 64)).precision, Precision::BF16);
}

TEST(Chunkwise, TilesOfV) {
  for (auto [value, tile] :
       {std::pair<int64_t, int64_t>{4, 16}, {16, 16}, {20, 32}, {32, 32}, {36, 64}, {256, 64}}) {
    const ChunkPlan plan = planOf(problemOf(64, value));
    EXPECT_EQ(plan.block.valueTile, tile) << value;
    EXPECT_EQ(plan.block.warps, tile / 16) << value;
  }
  const ChunkPlan plan = planOf(problemOf(64, 256), forced(16, 128, 2));
  EXPECT_EQ(plan.block.valueTile, 128);
  EXPECT_EQ(plan.block.warps, 8);
  EXPECT_EQ(plan.block.minBlocks, 2);
}

/// wgmma is issued by four warps, each with 16 columns, in the preparing kernel too.
TEST(Chunkwise, WgmmaTakesTilesOf64) {
  ChunkOverrides overrides;
  overrides.products = Products::Wgmma;
  for (auto [value, tile] : {std::pair<int64_t, int64_t>{4, 64}, {32, 64}, {64, 64}, {256, 64}})
    for (int64_t chunk : {0, 16, 32, 64, 128}) {
      overrides.chunk = chunk;
      const ChunkPlan plan = planOf(problemOf(64, value), overrides);
      EXPECT_EQ(plan.products, Products::Wgmma);
      EXPECT_EQ(plan.block.valueTile, tile) << value;
      EXPECT_EQ(plan.block.warps, 4);
      EXPECT_EQ(planPreparation(problemOf(64, value), plan).block.warps % 4, 0);
    }
  overrides.valueTile = 128;
  EXPECT_EQ(planOf(problemOf(64, 256), overrides).block.warps, 8);
  overrides.valueTile = 32;
  EXPECT_EQ(errorOf(problemOf(64, 256), overrides),
            "value-tile: expected a power of two times 64, at most 16 times the chunk's 128 tokens "
            "and 256, got 32");
  for (Products products : {Products::MmaSync, Products::Wgmma})
    EXPECT_EQ(llvm::cantFail(parseProducts(stringify(products))), products);
  llvm::Expected<Products> none = parseProducts("fma");
  ASSERT_FALSE(bool(none));
  EXPECT_EQ(llvm::toString(none.takeError()), "products: expected mma.sync or wgmma, got 'fma'");
}

TEST(Chunkwise, TokensAndPairsFitTheBlock) {
  forAllPlans([](const RecurrentProblem &problem, const ChunkPlan &plan) {
    EXPECT_EQ(plan.block.valueTile, 16 * plan.block.warps);
    EXPECT_EQ(plan.block.state.numWarps, plan.block.warps);
    EXPECT_GE(plan.block.minBlocks, 1);
    expectRowsToWarps(plan.tokens, plan.chunk, problem.keyDim, plan.block.warps);
    expectRowsToWarps(plan.pairs, plan.chunk, plan.chunk, plan.block.warps);
  });
}

/// A block for all of V, with the walk's chunks; not more threads than a block can have.
TEST(Chunkwise, Preparations) {
  forAllPlans([](const RecurrentProblem &problem, const ChunkPlan &walk) {
    const ChunkPlan plan = planPreparation(problem, walk);
    EXPECT_EQ(plan.chunk, walk.chunk);
    EXPECT_GE(plan.block.valueTile, problem.valueDim);
    EXPECT_EQ(plan.block.tiles(problem.valueDim), 1);
    EXPECT_EQ(plan.block.valueTile % (16 * plan.block.warps), 0);
    EXPECT_EQ(plan.block.warps, plan.chunk / 4);
    EXPECT_LE(plan.block.warps * layout::kWarpSize, 1024);
    EXPECT_GE(plan.block.minBlocks, 1);
    EXPECT_EQ(plan.block.state.numWarps, plan.block.warps);
    expectRowsToWarps(plan.tokens, plan.chunk, problem.keyDim, plan.block.warps);
    expectRowsToWarps(plan.pairs, plan.chunk, plan.chunk, plan.block.warps);
  });
}

/// How V is split is nothing to those who prepare.
TEST(Chunkwise, PreparationsDoNotDependOnTheTile) {
  const RecurrentProblem problem = problemOf(128, 128);
  const ChunkPlan narrow = planPreparation(problem, planOf(problem, forced(32, 16))),
                  wide = planPreparation(problem, planOf(problem, forced(32, 128)));
  EXPECT_EQ(narrow.block.valueTile, wide.block.valueTile);
  EXPECT_EQ(narrow.block.warps, wide.block.warps);
  EXPECT_EQ(narrow.block.minBlocks, wide.block.minBlocks);
}

TEST(Chunkwise, Refused) {
  const RecurrentProblem good = problemOf(64, 64);
  for (int64_t chunk : {-32, 1, 8, 24, 48, 256})
    EXPECT_EQ(errorOf(good, forced(chunk)),
              "chunk: expected 16, 32, 64 or 128, got " + std::to_string(chunk));
  for (int64_t key : {0, 8, 36, 100, 272})
    EXPECT_EQ(errorOf(problemOf(key, 64)),
              "key-dim: expected a multiple of 16 from 16 to 256, got " + std::to_string(key));
  for (int64_t value : {0, 2, 66, 260})
    EXPECT_EQ(errorOf(problemOf(64, value)),
              "value-dim: expected a multiple of 4 from 4 to 256, got " + std::to_string(value));
  for (int64_t tile : {-16, 8, 24, 48, 512})
    EXPECT_EQ(
        errorOf(good, forced(32, tile)),
        "value-tile: expected a power of two times 16, at most 16 times the chunk's 32 tokens "
        "and 256, got " +
            std::to_string(tile));
  EXPECT_EQ(errorOf(good, forced(16, 256)), "no error");
}

/// Several writes per token: whole tiles of tokens, whose rows stay in the warp of the token.
TEST(Chunkwise, SeveralRowsPerToken) {
  for (auto [rows, chunk] : {std::pair<int64_t, int64_t>{2, 32}, {4, 64}, {8, 128}}) {
    const RecurrentProblem problem = problemOf(64, 128);
    llvm::Expected<ChunkPlan> walk = planChunkwise(problem, {}, rows);
    ASSERT_TRUE(bool(walk)) << llvm::toString(walk.takeError());
    EXPECT_EQ(walk->chunk, chunk);
    for (const ChunkPlan &plan : {*walk, planPreparation(problem, *walk)}) {
      EXPECT_EQ(plan.rowsPerToken, rows);
      EXPECT_EQ(plan.tokensPerChunk(), 16);
      expectRowsToWarps(plan.tokens, 16, 64, plan.block.warps);
      expectRowsToWarps(plan.rows, chunk, 64, plan.block.warps);
      expectRowsToWarps(plan.pairs, chunk, chunk, plan.block.warps);
      expectRowsToWarps(plan.reads, 16, chunk, plan.block.warps);
      EXPECT_EQ(plan.rows.perThread[0], rows * plan.tokens.perThread[0]);
      EXPECT_LE(plan.block.warps * layout::kWarpSize, 1024);
    }
  }
  auto error = [](int64_t rows, const ChunkOverrides &overrides) {
    llvm::Expected<ChunkPlan> plan = planChunkwise(problemOf(64, 64), overrides, rows);
    return plan ? "no error" : llvm::toString(plan.takeError());
  };
  EXPECT_EQ(error(16, {}), "expected at most 8 rows per token, got 16");
  EXPECT_EQ(error(4, forced(32)),
            "chunk: expected at least 64 rows, 16 times those of a token, got 32");
  EXPECT_EQ(error(2, forced(128)), "no error");
  EXPECT_EQ(error(2, forced(32, 512)),
            "value-tile: expected a power of two times 16, at most 16 times the chunk's 16 tokens "
            "and 256, got 512");
}

TEST(Chunkwise, Parts) {
  EXPECT_EQ(planOf(problemOf(64, 64)).split.blocksPerPart, 2048);
  ChunkOverrides overrides;
  overrides.blocksPerPart = 4;
  EXPECT_EQ(planOf(problemOf(64, 64), overrides).split.blocksPerPart, 4);
}
