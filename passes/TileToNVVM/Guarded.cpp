//===- Guarded.cpp - Loads that happen under a condition, without a branch ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A branch ends a basic block, and the assembler schedules blocks one by one: what stands behind
// the branch is not on its way while something before it is waited for. At small batches a kernel
// takes as long as its chain of loads, so a schedule may ask that a branch which does nothing but
// load is predicated: addresses are then computed in any case, and the loads depend on it.
//
//===----------------------------------------------------------------------===//

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "passes/TileToNVVM/Lowering.h"

using namespace mlir;
using namespace dl;
using namespace dl::tile;

bool KernelLowering::onlyLoads(scf::IfOp branch) {
  if (!branch->hasAttr(kPredicatedAttrName))
    return false;
  for (Operation &op : branch.thenBlock()->without_terminator())
    if (!isa<LoadOp, memref::LoadOp, arith::ConstantOp>(op))
      return false;
  for (Operation &op : branch.elseBlock()->without_terminator())
    if (!isa<SplatOp, arith::ConstantOp>(op))
      return false;
  for (Value value : branch.thenYield().getOperands()) {
    Operation *load = value.getDefiningOp();
    if (!load || load->getBlock() != branch.thenBlock() || !value.hasOneUse() ||
        !isa<LoadOp, memref::LoadOp>(load))
      return false;
  }
  return true;
}

LogicalResult KernelLowering::lowerGuardedLoads(scf::IfOp branch) {
  Value condition = scalar(branch.getCondition());
  for (Operation &op : branch.elseBlock()->without_terminator())
    if (failed(lower(&op)))
      return failure();
  for (Operation &op : branch.thenBlock()->without_terminator())
    if (isa<arith::ConstantOp>(op) && failed(lower(&op)))
      return failure();
  for (auto [result, loaded, otherwise] :
       llvm::zip(branch.getResults(), branch.thenYield().getOperands(),
                 branch.elseYield().getOperands())) {
    if (auto load = loaded.getDefiningOp<LoadOp>())
      registers[result] = loadTile(load, condition, distributed(otherwise));
    else
      scalars.map(result, loadScalar(cast<memref::LoadOp>(loaded.getDefiningOp()), condition,
                                     scalar(otherwise)));
  }
  return success();
}

KernelLowering::Registers KernelLowering::loadIf(Value condition, Value pointer,
                                                 ValueRange otherwise, bool invariant) {
  Type element = otherwise.front().getType();
  int64_t elementBits = element.getIntOrFloatBitWidth(), bits = elementBits * otherwise.size();
  bool singleByte = bits < 16;
  // Registers of a load hold 16, 32 or 64 bits.
  int64_t wordBits =
      std::max<int64_t>(std::min<int64_t>(bits, 32), std::max<int64_t>(16, elementBits));
  int64_t perWord = std::max<int64_t>(1, wordBits / elementBits);
  Type word = builder.getIntegerType(wordBits);
  Registers words;
  for (size_t i = 0; i < otherwise.size(); i += perWord) {
    Value value = otherwise[i];
    if (perWord > 1 && !singleByte) {
      value = LLVM::PoisonOp::create(builder, loc, VectorType::get(perWord, element));
      for (int64_t j = 0; j < perWord; ++j)
        value = LLVM::InsertElementOp::create(builder, loc, value, otherwise[i + j], i32(j));
    }
    words.push_back(singleByte ? arith::ExtUIOp::create(builder, loc, word, value).getResult()
                               : LLVM::BitcastOp::create(builder, loc, word, value).getResult());
  }
  size_t count = words.size();
  auto operand = [](size_t i) { return "$" + std::to_string(i); };
  std::string text = "{ .reg .pred p; setp.ne.b32 p, " + operand(2 * count) + ", 0; @p ld.global";
  text += invariant ? ".nc" : "";
  text += count > 1 ? ".v" + std::to_string(count) : "";
  text += singleByte ? ".u8 " : ".b" + std::to_string(wordBits) + " ";
  text += count > 1 ? operandList(0, count) : operand(0);
  text += ", [" + operand(2 * count + 1) + "]; }";
  Value flag = arith::ExtUIOp::create(builder, loc, builder.getI32Type(), condition);
  words = inlineAssembly(text, words, {flag, pointer});
  Registers result;
  for (Value value : words) {
    if (singleByte) {
      result.push_back(arith::TruncIOp::create(builder, loc, element, value));
    } else if (perWord == 1) {
      result.push_back(LLVM::BitcastOp::create(builder, loc, element, value));
    } else {
      Value vector =
          LLVM::BitcastOp::create(builder, loc, VectorType::get(perWord, element), value);
      for (int64_t j = 0; j < perWord; ++j)
        result.push_back(LLVM::ExtractElementOp::create(builder, loc, vector, i32(j)));
    }
  }
  return result;
}
