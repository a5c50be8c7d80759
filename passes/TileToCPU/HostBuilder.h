//===- HostBuilder.h - Small pieces of host code --------------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TILETOCPU_HOSTBUILDER_H
#define PASSES_TILETOCPU_HOSTBUILDER_H

#include "compiler/Layout/Layout.h"
#include "mlir/IR/Builders.h"

namespace dl::tile {

/// Emits index arithmetic (all of it i64 and not negative), loops and memory accesses at an
/// insertion point. A null condition stands for true.
class HostBuilder : public mlir::OpBuilder {
public:
  /// `entry`: the function's first block, where constants go.
  HostBuilder(mlir::Location loc, mlir::Block *entry)
      : OpBuilder(mlir::OpBuilder::atBlockEnd(entry)), loc(loc), entry(entry) {}

  mlir::Location loc; ///< of what is emitted next

  mlir::Value i64(int64_t value) { return constant(getI64IntegerAttr(value)); }
  mlir::Value constant(mlir::TypedAttr value);

  // Index arithmetic; a constant operand that changes nothing emits nothing.
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value add(mlir::Value a, int64_t b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, int64_t b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value div(mlir::Value a, int64_t b);
  mlir::Value rem(mlir::Value a, int64_t b);
  mlir::Value bitAnd(mlir::Value a, int64_t b);
  mlir::Value bitXor(mlir::Value a, mlir::Value b);
  mlir::Value less(mlir::Value a, int64_t b);
  mlir::Value isZero(mlir::Value a);
  mlir::Value both(mlir::Value a, mlir::Value b);
  mlir::Value toI64(mlir::Value integer); ///< from index or a narrower signed integer

  /// One term of a mixed-radix sum: ((index / div) % mod) * weight, for an index below `count`.
  struct Term {
    int64_t div, mod, weight;
  };
  mlir::Value sum(mlir::Value index, int64_t count, llvm::ArrayRef<Term> terms);

  /// for i in 0 .. n-1. One iteration makes no loop.
  void loop(int64_t n, llvm::function_ref<void(mlir::Value)> body);
  llvm::SmallVector<mlir::Value>
  loop(int64_t n, mlir::ValueRange init,
       llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value, mlir::ValueRange)> body);
  void ifTrue(mlir::Value condition, llvm::function_ref<void()> body);
  mlir::Value select(mlir::Value condition, llvm::function_ref<mlir::Value()> then,
                     mlir::Value otherwise);

  // Memory. Element i of an array; accesses have the element's alignment. bf16 and f16 are i16
  // wherever they are held: as floats the host's compiler moves them through f32, by functions not
  // all hosts have.
  mlir::Type stored(mlir::Type element);
  mlir::Value bytes(mlir::Value pointer, mlir::Value offset);
  mlir::Value bytes(mlir::Value pointer, int64_t offset) { return bytes(pointer, i64(offset)); }
  mlir::Value element(mlir::Value array, mlir::Type type, mlir::Value index);
  mlir::Value load(mlir::Value pointer, mlir::Type type);
  void store(mlir::Value value, mlir::Value pointer);
  mlir::Value zero(mlir::Type type);
  mlir::Value elementConstant(mlir::TypedAttr value);

  /// Bits of bf16 or f16 to f32 and back (to nearest, ties to even; NaN stays NaN), in integer
  /// arithmetic.
  mlir::Value widen(mlir::Value bits, mlir::Type half);
  mlir::Value narrow(mlir::Value single, mlir::Type half);
  /// f32 rounded to the 10 bits of tf32, ties away from zero: cvt.rna.tf32.f32.
  mlir::Value roundToTF32(mlir::Value single);

private:
  mlir::Value i32(int32_t value) { return constant(getI32IntegerAttr(value)); }
  template <typename OpTy> mlir::Value apply(mlir::Value a, int32_t b);
  mlir::Value widenF16(mlir::Value bits);
  mlir::Value narrowF16(mlir::Value bits);
  mlir::Value narrowBF16(mlir::Value bits);

  mlir::Block *entry;
  llvm::DenseMap<mlir::Attribute, mlir::Value> constants;
};

} // namespace dl::tile

#endif // PASSES_TILETOCPU_HOSTBUILDER_H
