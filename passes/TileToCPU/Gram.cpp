//===- Gram.cpp - Products of the rows of shared buffers ------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Pair by pair, and only those that the op defines: what else stands in the result is not needed.
// Each sums over k in ascending order, in f32 with fused multiply-adds.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "passes/TileToCPU/Lowering.h"

using namespace mlir;
using namespace dl::tile;

void LaneLowering::emitGramPair(GramOp op, Value i, Value j) {
  Type element = op.getA().getType().getElementType();
  auto factor = [&](Value buffer, Value row, Value k) {
    return host->widen(host->load(sharedElement(buffer, {row, k}), element), element);
  };
  SmallVector<Value> zeros(op.getX().size(), host->zero(host->getF32Type()));
  auto body = [&](Value k, ValueRange sums) {
    SmallVector<Value> after(sums);
    auto add = [&](ValueRange xs, Value a) {
      Value factorA = factor(a, j, k);
      for (auto [x, sum] : llvm::zip(xs, after))
        sum = math::FmaOp::create(*host, host->loc, factor(x, i, k), factorA, sum);
    };
    add(op.getX(), op.getA());
    if (op.getARest()) {
      add(op.getXRest(), op.getA());
      add(op.getX(), op.getARest());
    }
    return after;
  };
  SmallVector<Value> sums = host->loop(op.getA().getType().getShape()[1], zeros, body);
  for (auto [gram, sum] : llvm::zip(op.getGram(), sums))
    host->store(sum, sharedElement(gram, {i, j}));
}

LogicalResult LaneLowering::lowerGram(GramOp op) {
  int64_t rows = op.getA().getType().getShape()[0];
  if (!op.getHalf()) {
    host->loop(rows, [&](Value i) {
      Value first = op.getDiagonal() ? host->sub(i, host->rem(i, 16)) : host->i64(0);
      auto earlier = scf::ForOp::create(*host, host->loc, first, host->add(i, 1), host->i64(1));
      OpBuilder::InsertionGuard guard(*host);
      host->setInsertionPointToStart(earlier.getBody());
      emitGramPair(op, i, earlier.getInductionVar());
    });
    return success();
  }
  int64_t half = *op.getHalf();
  host->loop(rows / (2 * half), [&](Value block) {
    Value first = host->mul(block, 2 * half);
    host->loop(half, [&](Value i) {
      Value later = host->add(host->add(first, half), i);
      host->loop(half, [&](Value j) { emitGramPair(op, later, host->add(first, j)); });
    });
  });
  return success();
}
