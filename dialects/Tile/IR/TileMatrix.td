//===- TileMatrix.td - Products, Grams and triangular systems of one thread block ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Included by TileOps.td, where what ops have in common is defined.
//
//===----------------------------------------------------------------------===//

#ifndef DL_DIALECTS_TILE_TILEMATRIX
#define DL_DIALECTS_TILE_TILEMATRIX

def Tile_MmaOp : Tile_Op<"mma", [MemoryEffects<[MemRead]>, AllTypesMatch<["c", "result"]>]> {
  let summary = "D = A B + C on tensor cores";
  let description = [{
    `c` and the result carry the "c" fragment of an instruction row, `a` its "a" fragment; `b` is the "b" fragment in
    registers (mma.sync) or a shared buffer N x K, K contiguous (either). The instruction repeats over M, N and K; each
    element sums over K in ascending order, padding takes no part. 32-bit factors in registers are rounded to tf32 (to
    nearest, ties away from zero); in shared memory they must be tf32 already, or the hardware drops the low 13 bits.

    With `transposed` the shared buffer is K x N, N contiguous.

    Of mma.sync `a` may be in shared memory instead, M x K with K contiguous, if b is in registers.

    With `hilo` the product has the precision of two factors for each: one in registers is f32, x = hi + lo with hi what x
    rounds to in the row's type and lo what x - hi rounds to, and the one in shared memory is hi with its lo in `rest`, or
    exact without. The sum is hi hi + lo hi + hi lo; lo lo would be below what lo is rounded by.

    A shared factor must be visible: `tile.barrier` after the stores that fill it, with `async_proxy` for instructions that
    read it through descriptors. wgmma runs on until its result is used, but not beyond a `tile.barrier`: behind one,
    buffers may be overwritten.

    Constraints:
    - C1: a is M x K, b is K x N in registers, N x K in shared memory (K x N if transposed), c and the result are M x N.
    - C2: the fragments name the same instruction row and the same split over warps; b is in shared memory where the row
      reads descriptors.
    - C3: element types are those of the row; with `hilo`, f32 in place of those of factors in registers.
    - C4: shared b is swizzled, N a multiple of the row's n times the groups of warps along N, K one of the row's k. For
      mma.sync it has 16-bit elements and any swizzle, and the row's n is 8.
    - C5: only a shared b with elements of 16 bits is transposed.
    - C6: a shared a goes with a row of mma.sync with 16-bit factors and b in registers; M is a multiple of the row's m
      times the groups of warps along M, K one of the row's k.
    - C7: `hilo` goes with a row with 16-bit factors, `rest` with `hilo` and a factor in shared memory,
      whose type it has.

    Examples:
    ```mlir
    %d = tile.mma %a, %b, %c : tensor<64x32xbf16, #fa>, tensor<32x16xbf16, #fb>, tensor<64x16xf32, #fc>
    %e = tile.mma %x, %k rest %l, %c hilo : tensor<64x32xf32, #fa>, !tile.shared<16x32xbf16, #tile.swizzled<64>>
        rest !tile.shared<16x32xbf16, #tile.swizzled<64>>, tensor<64x16xf32, #fc>
    ```
  }];
  let arguments = (ins AnyTypeOf<[Tile_Distributed, Tile_SharedType]>:$a, AnyTypeOf<[Tile_Distributed, Tile_SharedType]>:$b,
                       Tile_Distributed:$c, Optional<Tile_SharedType>:$rest, UnitAttr:$transposed, UnitAttr:$hilo);
  let results = (outs Tile_Distributed:$result);
  let assemblyFormat = [{
    $a `,` $b (`rest` $rest^)? `,` $c (`transposed` $transposed^)? (`hilo` $hilo^)? attr-dict `:` type($a) `,` type($b)
    (`rest` qualified(type($rest))^)? `,` type($c)
  }];
  let hasVerifier = 1;
}

def Tile_TransposeOp : Tile_Op<"transpose", [Pure]> {
  let summary = "a matrix with its axes exchanged";
  let description = [{
    As `tile.convert`, from the operand's layout with its axes exchanged; where threads already hold what they need no
    data moves. So it is with an accumulator that becomes, transposed, the second factor of a product.

    Constraint C1: the operand is M x N, the result N x M, of one element type.

    Example:
    ```mlir
    %b = tile.transpose %s : tensor<64x128xbf16, #fc> -> tensor<128x64xbf16, #fb>
    ```
  }];
  let arguments = (ins Tile_Distributed:$value);
  let results = (outs Tile_Distributed:$result);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_InterleaveOp : Tile_Op<"interleave", [Pure, SameTypeOperands]> {
  let summary = "rows of several tensors in turn";
  let description = [{
    Of n tensors of R rows one of n R: its row n i + j is row i of the j-th. No data moves.

    Constraints:
    - C1: the result has as many rows as all operands together, and is like them along other axes and in its elements.
    - C2: a thread holds, of the result, just the rows that are made of those which it holds of an operand.

    Example:
    ```mlir
    %rows = tile.interleave %first, %second : tensor<16x128xf32, #tokens>, tensor<16x128xf32, #tokens> -> tensor<32x128xf32, #rows>
    ```
  }];
  let arguments = (ins Variadic<Tile_Distributed>:$values);
  let results = (outs Tile_Distributed:$result);
  let assemblyFormat = "$values attr-dict `:` type($values) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_PickOp : Tile_Op<"pick", [Pure]> {
  let summary = "every n-th row of a tensor";
  let description = [{
    Of a tensor of n R rows one of R: its row i is row n i + `which`, the operand of `tile.interleave` back. No data moves.

    Constraints:
    - C1: the operand has n times the result's rows, is like it along other axes and in its elements, and `which` is
      below n.
    - C2: a thread holds, of the operand, just the rows that are made of those which it holds of the result.

    Example:
    ```mlir
    %second = tile.pick 1 of %rows : tensor<32x128xf32, #rows> -> tensor<16x128xf32, #tokens>
    ```
  }];
  let arguments = (ins I64Attr:$which, Tile_Distributed:$value);
  let results = (outs Tile_Distributed:$result);
  let assemblyFormat = "$which `of` $value attr-dict `:` type($value) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_GramOp : Tile_Op<"gram", [MemoryEffects<[MemRead, MemWrite]>, AttrSizedOperandSegments]> {
  let summary = "products of the rows of buffers with earlier rows of another, on tensor cores";
  let description = [{
    Of C x K buffers x and a, and for pairs of rows i and j, result[i, j] = sum over k of x[i, k] a[j, k]. Without `half`
    these are all pairs j <= i, and some more whose values mean nothing. With `half` = h they are the pairs which blocks of
    2h rows have between their later and their earlier half,

      i / 2h = j / 2h,   (i / h) odd,   (j / h) even;

    every pair j < i is one of exactly one h = 1, 2, 4 .. C/2. With `diagonal` they are those of the blocks of 16 rows, i / 16 =
    j / 16, j <= i, and some more whose values mean nothing. Other elements of the result stay as they are.

    With `rest` x and a are hi + lo, the buffers hi and the rests lo, and the sum is hi hi + lo hi + hi lo, as of a `tile.mma`
    with `hilo`.

    Sums over k are in ascending order of steps of 16, in f32. Each x has a result of its own. All are buffers; barriers
    are the user's: `tile.barrier` between the stores that fill x and a and this op, and between it and loads of the result.

    Constraints:
    - C1: x and a are C x K, of bf16 or f16; results are C x C of f32; there are as many x as results and at least one.
    - C2: C and K are multiples of 16.
    - C3: `half`, where it is given, is a power of two that divides C/2, and `diagonal` is not.
    - C4: either each x and a have a rest, of their shape and type of elements, or none has.

    Example:
    ```mlir
    tile.gram %k with %k into %kk half 8 : !tile.shared<32x128xbf16, #tile.swizzled<128>>
        with !tile.shared<32x128xbf16, #tile.swizzled<128>> into !tile.shared<32x32xf32, #tile.swizzled<0>>
    ```
  }];
  let arguments = (ins Variadic<Tile_SharedType>:$x, Variadic<Tile_SharedType>:$xRest, Tile_SharedType:$a,
                       Optional<Tile_SharedType>:$aRest, Variadic<Tile_SharedType>:$gram, OptionalAttr<I64Attr>:$half,
                       UnitAttr:$diagonal);
  let assemblyFormat = [{
    $x (`rest` $xRest^)? `with` $a (`rest` $aRest^)? `into` $gram (`half` $half^)? (`diagonal` $diagonal^)? attr-dict `:`
    qualified(type($x)) (`rest` qualified(type($xRest))^)? `with` qualified(type($a)) (`rest` qualified(type($aRest))^)?
    `into` qualified(type($gram))
  }];
  let hasVerifier = 1;
}

def Tile_DecayedGramOp : Tile_Op<"decayed_gram", [Pure, AttrSizedOperandSegments]> {
  let summary = "products of each token's vectors with those of earlier tokens, decayed in between";
  let description = [{
    For vectors x and a of C tokens, and tokens s < t,

      result[t, s] = sum over k of x[t, k] a[s, k] e^G,   G = l[s+1] + .. + l[t-1], and + l[t] where `inclusive`

    with l the log decay of each token, one number (then `decay` has one axis) or one per k; without it G = 0. `bound`, where it
    is given, promises that no l is below it. Elements with
    s >= t mean nothing. x and a are rounded to `in` type after a part of the decay has been multiplied in; with `hilo` what
    that takes away is a factor too.

    `tile-expand-gram` says how this is computed so that nothing overflows and no token depends on later ones.

    Constraints:
    - C1: each x and a are C x K of one type, C and K multiples of 16; there are as many results as x and at least one.
    - C2: the decay has the type of a, or is its slice along axis 1.
    - C3: results are C x C.
    - C4: `inclusive` has one flag for each x.
    - C5: the type of products is bf16 or f16.

    Example:
    ```mlir
    %n, %m = tile.decayed_gram %k, %q with %k decay %l inclusive [true, true] in bf16
        : tensor<32x128xf32, #rows>, tensor<32x128xf32, #rows> with tensor<32x128xf32, #rows> decay tensor<32x128xf32, #rows>
        -> tensor<32x32xf32, #rows>, tensor<32x32xf32, #rows>
    ```
  }];
  let arguments = (ins Variadic<Tile_DistributedF32>:$x, Tile_DistributedF32:$a, Optional<Tile_DistributedF32>:$decay,
                       DenseBoolArrayAttr:$inclusive, OptionalAttr<F64Attr>:$bound, TypeAttr:$product, UnitAttr:$hilo);
  let results = (outs Variadic<Tile_DistributedF32>:$grams);
  let assemblyFormat = [{
    $x `with` $a (`decay` $decay^)? `inclusive` $inclusive (`bound` $bound^)? `in` $product (`hilo` $hilo^)? attr-dict `:` type($x) `with` type($a)
    (`decay` type($decay)^)? `->` type($grams)
  }];
  let hasVerifier = 1;
}

def Tile_InvertUnitLowerOp : Tile_Op<"invert_unit_lower", [Pure, AllTypesMatch<["value", "result"]>]> {
  let summary = "the inverse of a matrix with ones on its diagonal and zeros above";
  let description = [{
    The result is (I + A)^-1, in f32: the operand's elements below the diagonal are those of A, the others are not looked
    at. Diagonal blocks of 16 rows are inverted by substitution and joined by products of blocks, which grow to twice the
    size in each step: [[P, 0], [X, Q]]^-1 = [[P', 0], [-Q' X P', Q']]. Nothing is squared, so nothing grows that the
    inverse does not have.

    This solves the triangular system of a chunk of tokens, in which writes meet the reads they are made of.

    Constraint C1: the matrix is square, of a power of two times 16 rows, at most 128.

    Example:
    ```mlir
    %t = tile.invert_unit_lower %a : tensor<32x32xf32, #rows>
    ```
  }];
  let arguments = (ins Tile_DistributedF32:$value);
  let results = (outs Tile_DistributedF32:$result);
  let assemblyFormat = "$value attr-dict `:` type($value)";
  let hasVerifier = 1;
}

#endif // DL_DIALECTS_TILE_TILEMATRIX
