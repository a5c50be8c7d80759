//===- TileCopy.td - Rows of bytes, rings of buffers and copies in the background ---===//
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

def Tile_StoreImageOp : Tile_Op<"store_image", [MemoryEffects<[MemWrite]>]> {
  let summary = "registers to global memory, as a buffer in shared memory would hold them";
  let description = [{
    The last dimension of the memory is a row of bytes. From byte `offset` of the row that `indices` choose, the elements are
    written where a buffer of the type `as` has them: a copy of the row to shared memory then holds that buffer.

    Constraints:
    - C1: the memory is of i8 with one index per dimension but the last, which is static and packed.
    - C2: `as` has the shape and the element type of the tensor.
    - C3: `offset` is a multiple of the buffer's alignment (16, or 8 times its swizzle), and the buffer lies inside of the row.

    Example:
    ```mlir
    tile.store_image %x, %workspace[%c, %h] offset 4096 as !tile.shared<32x128xbf16, #tile.swizzled<128>>
        : tensor<32x128xbf16, #rows>, memref<?x?x12288xi8, strided<[?, ?, 1]>>
    ```
  }];
  let arguments = (ins Tile_Distributed:$value, AnyMemRef:$memory, Variadic<Index>:$indices, I64Attr:$offset, TypeAttr:$image);
  let assemblyFormat = "$value `,` $memory `[` $indices `]` `offset` $offset `as` $image attr-dict `:` type($value) `,` type($memory)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    SharedType getBufferType() { return ::mlir::cast<SharedType>(getImage()); }
  }];
}

def Tile_LocalPartOp : Tile_Op<"local_part", [Pure]> {
  let summary = "a buffer inside of a buffer of bytes";
  let description = [{
    Constraints:
    - C1: the operand is one row of i8.
    - C2: `offset` is a multiple of the result's alignment (16, or 8 times its swizzle), and the result lies inside of the operand.

    Example:
    ```mlir
    %b = tile.local_part %row offset 4096 : !tile.shared<12288xi8, #tile.swizzled<0>> -> !tile.shared<32x128xbf16, #tile.swizzled<128>>
    ```
  }];
  let arguments = (ins Tile_SharedType:$bytes, I64Attr:$offset);
  let results = (outs Tile_SharedType:$result);
  let assemblyFormat = "$bytes `offset` $offset attr-dict `:` qualified(type($bytes)) `->` qualified(type($result))";
  let hasVerifier = 1;
}

def Tile_StageOp : Tile_Op<"stage", [Pure]> {
  let summary = "one of several equal buffers that were allocated together";
  let description = [{
    Constraint C1: the operand comes from `tile.alloc` and has three axes, the result the last two of them, or the last one
    where the one before it has size one; with the same elements and layout.

    Example:
    ```mlir
    %ring = tile.alloc : !tile.shared<2x32x128xbf16, #tile.swizzled<128>>
    %b = tile.stage %ring[%i] : !tile.shared<2x32x128xbf16, #tile.swizzled<128>> -> !tile.shared<32x128xbf16, #tile.swizzled<128>>
    ```
  }];
  let arguments = (ins Tile_SharedType:$ring, I32:$index);
  let results = (outs Tile_SharedType:$result);
  let assemblyFormat = "$ring `[` $index `]` attr-dict `:` qualified(type($ring)) `->` qualified(type($result))";
  let hasVerifier = 1;
}

def Tile_CopyAsyncOp : Tile_Op<"copy_async", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "a row of bytes from global to shared memory, in the background";
  let description = [{
    Copies the row of the memory's last dimension that `indices` choose. Pieces of 16 bytes are dealt to the threads, none
    of which waits: the copies issued since the last `tile.copy_commit` make up a group, and `tile.copy_wait` waits for
    groups.

    Constraint C1: the memory is of i8 with one index per dimension but the last, which is static, packed and as long as the
    buffer, a row of i8 of a multiple of 16 bytes.

    Example:
    ```mlir
    tile.copy_async %workspace[%c, %h] into %row : memref<?x?x12288xi8, strided<[?, ?, 1]>>, !tile.shared<12288xi8, #tile.swizzled<0>>
    tile.copy_commit
    tile.copy_wait 0
    tile.barrier
    ```
  }];
  let arguments = (ins AnyMemRef:$memory, Variadic<Index>:$indices, Tile_SharedType:$buffer);
  let assemblyFormat = "$memory `[` $indices `]` `into` $buffer attr-dict `:` type($memory) `,` qualified(type($buffer))";
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

def Tile_ArrivalsOp : Tile_Op<"arrivals", [MemoryEffects<[MemAlloc, MemWrite]>]> {
  let summary = "counters of bytes that have arrived in shared memory";
  let description = [{
    Each counter has phases, which end in turn: one when the bytes of one `tile.copy_bulk` have arrived. No thread goes on
    before all see the counters. They are those of the whole kernel: the op is not in a loop.

    Constraint C1: the result is a row of at most 16 i64.

    Example:
    ```mlir
    %counters = tile.arrivals : !tile.shared<2xi64, #tile.swizzled<0>>
    ```
  }];
  let results = (outs Tile_SharedType:$result);
  let assemblyFormat = "attr-dict `:` qualified(type($result))";
  let hasVerifier = 1;
}

def Tile_CopyBulkOp : Tile_Op<"copy_bulk", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "a row of bytes from global to shared memory by one instruction, in the background";
  let description = [{
    Copies the row of the memory's last dimension that `indices` choose, and ends a phase of counter `stage` when all of
    it has arrived. One thread orders it: what others have read from the buffer lies before a barrier. What lies in the
    buffer then is visible to descriptors, without `async_proxy`, and to every thread behind `tile.await`. A block that
    ends before its copies have arrived is undefined.

    Constraints:
    - C1: the memory is of i8 with one index per dimension but the last, which is static, packed and as long as the buffer,
      a row of i8 of a multiple of 16 bytes, less than 2^20.
    - C2: the counters come from `tile.arrivals`.

    Example:
    ```mlir
    %arrivals = tile.arrivals : !tile.shared<2xi64, #tile.swizzled<0>>
    tile.copy_bulk %workspace[%c, %h] into %row arriving %arrivals[%i]
        : memref<?x?x12288xi8, strided<[?, ?, 1]>>, !tile.shared<12288xi8, #tile.swizzled<0>>, !tile.shared<2xi64, #tile.swizzled<0>>
    ```
  }];
  let arguments = (ins AnyMemRef:$memory, Variadic<Index>:$indices, Tile_SharedType:$buffer, Tile_SharedType:$arrivals, I32:$stage);
  let assemblyFormat = "$memory `[` $indices `]` `into` $buffer `arriving` $arrivals `[` $stage `]` attr-dict `:` type($memory) `,` qualified(type($buffer)) `,` qualified(type($arrivals))";
  let hasVerifier = 1;
}

def Tile_AwaitOp : Tile_Op<"await", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits until a phase of a counter has ended";
  let description = [{
    `parity` is 0 for the counter's first phase, 1 for the second one, and so on in turn. A phase must have been waited for
    before the one after the next begins.

    Constraint C1: the counters come from `tile.arrivals`.

    Example:
    ```mlir
    %arrivals = tile.arrivals : !tile.shared<2xi64, #tile.swizzled<0>>
    tile.await %arrivals[%i] parity %p : !tile.shared<2xi64, #tile.swizzled<0>>
    ```
  }];
  let arguments = (ins Tile_SharedType:$arrivals, I32:$stage, I32:$parity);
  let assemblyFormat = "$arrivals `[` $stage `]` `parity` $parity attr-dict `:` qualified(type($arrivals))";
  let hasVerifier = 1;
}

#endif // DL_DIALECTS_TILE_TILECOPY
