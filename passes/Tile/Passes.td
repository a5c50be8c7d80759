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

def TileExpandGram : Pass<"tile-expand-gram", "::dl::tile::KernelOp"> {
  let summary = "Writes decayed Grams by products of factors that never overflow";
  let description = [{
    e^(sum of l between s and t) has to become a factor of token s and one of token t before a matrix instruction can sum
    over k. A single reference point for all tokens will not do: with log decays of -5 per token, e^(G_s - R) leaves the
    range of f32 after 17 of them.

    *One decay per k.* Every pair s < t lies in exactly one block of 2h tokens, h = 1, 2, 4 .. C/2, with s in its earlier and
    t in its later half. The middle of that block is the pair's reference: t takes the decays from there to itself, s those
    from itself to there. Both are sums of decays, at most 0, never differences; so both factors are at most 1, what
    underflows is a product that is zero, -inf is a reset, and no token's result depends on a later token. A level h costs
    one exponential per token and k, whether it takes part as reader or writer, and C h K products, so all levels together
    cost what one Gram costs.

    Where the decay has a bound that keeps blocks of 16 tokens within 80 nats, levels below 16 become one: e^(P + c) for
    readers and e^(-P - c) for writers, with P the sum from the block's start and c, a constant, half of what it can be.

    *One decay per token.* The plain Gram times e^(G_t - G_s), with l not below -104, where f32 has e^l = 0: there is nothing
    beyond but -inf - -inf.

    Buffers of one level are filled while the level before is multiplied, so each level takes one barrier.

    Example: `test/Transforms/tile-expand-gram.mlir`.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

#endif // PASSES_TILE_PASSES
