//===- TileCopy.td - Memory in parts, rings of buffers and copies in the background ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Included by TileOps.td, where what ops have in common is defined.
//
//===----------------------------------------------------------------------===//

#ifndef DL_DIALECTS_TILE_TILECOPY
#define DL_DIALECTS_TILE_TILECOPY

def Tile_PartOp : Tile_Op<"part", [Pure]> {
  let summary = "a run of bytes of each row of a byte array, as an array of its own";
  let description = [{
    The last dimension of the operand, of bytes, is cut into parts which hold arrays of other types: of every row the bytes
    from `offset` on are the trailing dimensions of the result, packed. Leading dimensions are those of the operand, whose
    rows are as far apart as they were: its dynamic strides are multiples of 16 bytes.

    Constraints:
    - C1: the operand is an argument of the kernel, of i8, its last dimension static and packed.
    - C2: the result has the leading dimensions of the operand, with dynamic strides, and static, packed ones behind them,
      which lie inside of the row.
    - C3: `offset` is a multiple of 16.

    Example:
    ```mlir
    %f = tile.part %workspace offset 4096 : memref<?x?x12288xi8, strided<[?, ?, 1]>> -> memref<?x?x32x128xbf16, strided<[?, ?, 128, 1]>>
    ```
  }];
  let arguments = (ins AnyMemRef:$memory, I64Attr:$offset);
  let results = (outs AnyMemRef:$result);
  let assemblyFormat = "$memory `offset` $offset attr-dict `:` type($memory) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_StageOp : Tile_Op<"stage", [Pure]> {
  let summary = "one of several equal buffers that were allocated together";
  let description = [{
    Constraint C1: the operand comes from `tile.alloc` and has three axes, the result the last two of them, or the last one
    where the one before it has size one; with the same elements and layout.

    Example:
    ```mlir
    %b = tile.stage %ring[%i] : !tile.shared<2x32x128xbf16, #tile.swizzled<128>> -> !tile.shared<32x128xbf16, #tile.swizzled<128>>
    ```
  }];
  let arguments = (ins Tile_SharedType:$ring, I32:$index);
  let results = (outs Tile_SharedType:$result);
  let assemblyFormat = "$ring `[` $index `]` attr-dict `:` qualified(type($ring)) `->` qualified(type($result))";
  let hasVerifier = 1;
}

def Tile_CopyAsyncOp : Tile_Op<"copy_async", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "global to shared memory, in the background";
  let description = [{
    Copies the tile of the buffer's shape whose first element `indices` locate; buffer axis i runs along memref dimension
    axes[i]. Pieces of 16 bytes are dealt to the threads, none of which waits: the copies issued since the last
    `tile.copy_commit` make up a group, and `tile.copy_wait` waits for groups. Nothing is left out, so the tile lies in
    the memory.

    Constraints:
    - C1: one index per memref dimension; as many distinct axes in range as the buffer has, one or two, of which the last
      one is packed.
    - C2: element types agree; the rows of the buffer are a multiple of 16 bytes and swizzled or packed.
    - C3: the memory comes from `tile.part`, by which its rows are aligned.

    Example:
    ```mlir
    tile.copy_async %f[%c, %h, %c0, %c0] axes [2, 3] into %b : memref<?x?x32x128xbf16, strided<[?, ?, 128, 1]>>, !tile.shared<32x128xbf16, #tile.swizzled<128>>
    tile.copy_commit
    tile.copy_wait 0
    tile.barrier
    ```
  }];
  let arguments = (ins AnyMemRef:$memory, Variadic<Index>:$indices, DenseI64ArrayAttr:$axes, Tile_SharedType:$buffer);
  let assemblyFormat = "$memory `[` $indices `]` `axes` $axes `into` $buffer attr-dict `:` type($memory) `,` qualified(type($buffer))";
  let hasVerifier = 1;
}

def Tile_CopyCommitOp : Tile_Op<"copy_commit", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "ends a group of copies in the background";
  let description = [{
    Example:
    ```mlir
    tile.copy_commit
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Tile_CopyWaitOp : Tile_Op<"copy_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until at most so many groups of the thread's copies are on their way";
  let description = [{
    Each thread waits for its own copies: others see them after a `tile.barrier`.

    Example:
    ```mlir
    tile.copy_wait 1
    ```
  }];
  let arguments = (ins I64Attr:$pending);
  let assemblyFormat = "$pending attr-dict";
}

#endif // DL_DIALECTS_TILE_TILECOPY
