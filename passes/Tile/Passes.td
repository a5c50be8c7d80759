//===- Passes.td - Passes on tile kernels ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TILE_PASSES
#define PASSES_TILE_PASSES

include "mlir/Pass/PassBase.td"

def TileExpandMath : Pass<"tile-expand-math", "::dl::tile::KernelOp"> {
  let summary = "Writes exp, log, log1p and tanh by exp2, bit operations and fused multiply-adds";
  let description = [{
    What remains (exp2, sqrt, rsqrt, abs, fma) is a machine instruction or a few on every target, so a gate computes the
    same on all of them up to the last bits of exp2 and rsqrt. Exponents are base 2 inside. log is a polynomial of degree 9
    on [sqrt(1/2), sqrt(2)) (Cephes `logf`; error below 1 ulp of the result over the normal range); log1p adds the
    rounding error of 1 + x back, so it is exact to a few ulp down to the smallest x.

    Example:
    ```mlir
    %e = math.exp %x : f32
    // becomes
    %log2e = arith.constant 1.44269502 : f32
    %t = arith.mulf %x, %log2e : f32
    %e = math.exp2 %t : f32
    ```
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

#endif // PASSES_TILE_PASSES
