//===- TileOps.td - Data movement and cross-thread work of one thread block ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_DIALECTS_TILE_TILEOPS
#define DL_DIALECTS_TILE_TILEOPS

include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "dialects/Tile/IR/TileTypes.td"

class Tile_Op<string opMnemonic, list<Trait> traits = []> : Op<Tile_Dialect, opMnemonic, traits>;

def Tile_Distributed : Type<CPred<"::dl::tile::isDistributed($_self)">, "statically shaped tensor with a register layout",
                            "::mlir::RankedTensorType">;
def Tile_DistributedF32 : Type<CPred<"::dl::tile::isDistributed($_self) && ::mlir::cast<::mlir::RankedTensorType>($_self).getElementType().isF32()">,
                               "f32 tensor with a register layout", "::mlir::RankedTensorType">;

def Tile_KernelOp : Tile_Op<"kernel", [FunctionOpInterface, IsolatedFromAbove, Symbol, SingleBlock, SingleBlockImplicitTerminator<"ReturnOp">]> {
  let summary = "the program of one thread block";
  let description = [{
    Arguments are strided memrefs (global memory; dynamic sizes are never read, dynamic strides are parameters) and scalars.
    All of them travel in one by-value struct, laid out in order (`getParameterLayout`): a memref takes a pointer and one
    uint32 per dynamic stride, counted in elements. The argument attributes (`tile.name`, `tile.role`, ...) describe each
    to the package writer; `tile.requires` says what must hold of the sizes.

    `threads` is the block size, `grid` the launch grid as three expressions of the sizes at launch (B rows, T tokens, HQ
    key heads, HV value heads), each a number, a name or a list such as `["mul", "HV", 2]`; `min_blocks` is how many
    blocks an SM shall hold at once, from which the register budget follows (0: no wish), and
    `max_registers` that budget where it is set outright (0: not).

    Example:
    ```mlir
    tile.kernel @scale(%x: memref<?x128xf32, strided<[?, 1]>> {tile.name = "x"}, %f: f32 {tile.name = "f"}) attributes {threads = 256 : i64} {
      %n = gpu.block_id x
      %c0 = arith.constant 0 : index
      %v = tile.load %x[%n, %c0] axes [1] : memref<?x128xf32, strided<[?, 1]>> -> tensor<128xf32, #row>
      %s = tile.splat %f : f32 -> tensor<128xf32, #row>
      %y = arith.mulf %v, %s : tensor<128xf32, #row>
      tile.store %y, %x[%n, %c0] axes [1] : tensor<128xf32, #row>, memref<?x128xf32, strided<[?, 1]>>
      tile.return
    }
    ```

    Constraints:
    - C1: arguments are memrefs of f32, bf16, f16, i8, i32 or i64 with a strided layout, or f32, i32 or i64 scalars.
    - C2: `threads` is a positive multiple of 32, at most 1024.
    - C3: every distributed tensor in the body has a layout for exactly `threads` threads.
    - C4: the name is an identifier: letters, digits and underscores, no digit first.
    - C5: what goes into a manifest (the grid, and what is said of arguments) is text, integers of at most 64 bits, finite
      numbers or arrays of them.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type, I64Attr:$threads,
                       OptionalAttr<ArrayAttr>:$grid, DefaultValuedAttr<I64Attr, "0">:$min_blocks,
                       DefaultValuedAttr<I64Attr, "0">:$max_registers,
                       OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
  }];
}

def Tile_ReturnOp : Tile_Op<"return", [Pure, Terminator, HasParent<"KernelOp">]> {
  let summary = "ends a kernel";
  let description = [{
    It has no operands: what a kernel computes is in memory.

    Example:
    ```mlir
    tile.return
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Tile_IsPresentOp : Tile_Op<"is_present", [Pure]> {
  let summary = "whether the caller gave an argument that may be left out";
  let description = [{
    An argument with `tile.nullable` may be a null pointer; its strides are then zero and it must not be accessed.

    Constraint C1: the operand is an argument of the kernel.

    Example:
    ```mlir
    %given = tile.is_present %slots : memref<?xi32, strided<[?]>>
    ```
  }];
  let arguments = (ins AnyMemRef:$memory);
  let results = (outs I1:$present);
  let assemblyFormat = "$memory attr-dict `:` type($memory)";
  let hasVerifier = 1;
}

def Tile_GridWaitOp : Tile_Op<"grid_wait", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "waits for the grids before this one";
  let description = [{
    A launch with the programmatic attribute may start while the grid before it still runs. This waits until that grid is
    done and what it wrote is visible; it comes before the first access to global memory. Does nothing in other launches.

    Example:
    ```mlir
    tile.grid_wait
    ```
  }];
  let assemblyFormat = "attr-dict";
}

def Tile_GridReleaseOp : Tile_Op<"grid_release", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "lets the grid behind this one start";
  let description = [{
    Once every block has come here or ended, blocks of the next grid take the places that become free. They wait at their
    own `tile.grid_wait` for the whole of this grid, so this may stand anywhere; where it stands is a matter of speed.

    Example:
    ```mlir
    tile.grid_release
    ```
  }];
  let assemblyFormat = "attr-dict";
}

class Tile_MemoryOp<string opMnemonic, list<Trait> traits = []> : Tile_Op<opMnemonic, traits> {
  string commonDescription = [{
    `indices` locate the tile's first element; tensor axis i runs along memref dimension axes[i]. Along these dimensions the
    memref's size must be static: elements at or past it are left out (loads give zero). `in_bounds` promises, for each axis,
    that no element of the tensor is one of these. With `count` one of the dimensions is dynamic, and along it elements
    from the tile's `count`-th on are left out.

    Constraints:
    - C1: one index per memref dimension; one axis and, if present, one `in_bounds` per tensor dimension; axes distinct
      and in range.
    - C2: element types agree; the memref dimensions of `axes` are static, but for exactly one if there is a `count`.

  }];
}

def Tile_LoadOp : Tile_MemoryOp<"load", [MemoryEffects<[MemRead]>, AttrSizedOperandSegments]> {
  let summary = "global memory to registers";
  let description = commonDescription # [{
    - C3: `repeats`, if present, has a positive number per tensor dimension. With n along an axis, n consecutive elements
      of the tensor are one of memory; `count` counts those of memory. What a thread and a register add to the place
      among the n is below n.

    Example:
    ```mlir
    %v = tile.load %values[%n, %t, %h, %v0] axes [3] : memref<?x?x?x96xbf16, strided<[?, ?, ?, 1]>> -> tensor<64xbf16, #tile.slice<0, #rows>>
    %c = tile.load %values[%n, %t, %h, %v0] axes [1, 3] count %left : memref<?x?x?x96xbf16, strided<[?, ?, ?, 1]>> -> tensor<32x96xbf16, #rows>
    ```
  }];
  let arguments = (ins AnyMemRef:$memory, Variadic<Index>:$indices, DenseI64ArrayAttr:$axes, OptionalAttr<DenseBoolArrayAttr>:$in_bounds,
                       Optional<I32>:$count, OptionalAttr<DenseI64ArrayAttr>:$repeats);
  let results = (outs Tile_Distributed:$result);
  let assemblyFormat = [{
    $memory `[` $indices `]` `axes` $axes (`repeats` $repeats^)? (`in_bounds` $in_bounds^)? (`count` $count^)? attr-dict
    `:` type($memory) `->` type($result)
  }];
  let builders = [
    OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$memory, "::mlir::ValueRange":$indices,
                   "::llvm::ArrayRef<int64_t>":$axes, "::mlir::DenseBoolArrayAttr":$inBounds, "::mlir::Value":$count), [{
      build($_builder, $_state, result, memory, indices, $_builder.getDenseI64ArrayAttr(axes), inBounds, count,
            ::mlir::DenseI64ArrayAttr());
    }]>];
  let hasVerifier = 1;
}

def Tile_StoreOp : Tile_MemoryOp<"store", [MemoryEffects<[MemWrite]>, AttrSizedOperandSegments]> {
  let summary = "registers to global memory; of several copies of an element one is written";
  let description = commonDescription # [{
    Example:
    ```mlir
    tile.store %o, %out[%n, %t, %h, %v0] axes [3] : tensor<64xbf16, #tile.slice<0, #rows>>, memref<?x?x?x96xbf16, strided<[?, ?, ?, 1]>>
    ```
  }];
  let arguments = (ins Tile_Distributed:$value, AnyMemRef:$memory, Variadic<Index>:$indices, DenseI64ArrayAttr:$axes,
                       OptionalAttr<DenseBoolArrayAttr>:$in_bounds, Optional<I32>:$count);
  let assemblyFormat = [{
    $value `,` $memory `[` $indices `]` `axes` $axes (`in_bounds` $in_bounds^)? (`count` $count^)? attr-dict `:`
    type($value) `,` type($memory)
  }];
  let hasVerifier = 1;
}

def Tile_RingLoadOp : Tile_Op<"ring_load", [MemoryEffects<[MemRead]>]> {
  let summary = "rows of a ring in global memory to registers";
  let description = [{
    Memref dimension axes[0] is a ring of as many rows as it is long, R; tensor axis 0 runs along it. `indices` locate the
    tile's first element, so row i comes from position s + i of the ring, less R where that reaches R, if s is the index of
    that dimension; 0 <= s < R. Rows from `count` on are not read and are zero. The other tensor axes and what `in_bounds`
    says of them are as in `tile.load`; what it says of axis 0 does not count.

    Constraints:
    - C1: one index per memref dimension; one axis and, if present, one `in_bounds` per tensor dimension; axes distinct
      and in range.
    - C2: element types agree; the memref dimensions of `axes` are static.
    - C3: the tensor has at most as many rows as the ring.

    Example:
    ```mlir
    %k = tile.ring_load %log[%n, %h, %t, %c0] axes [2, 3] in_bounds [true, true] count %size
        : memref<?x?x16x128xbf16, strided<[?, ?, 128, 1]>> -> tensor<16x128xbf16, #rows>
    ```
  }];
  let arguments = (ins AnyMemRef:$memory, Variadic<Index>:$indices, DenseI64ArrayAttr:$axes, OptionalAttr<DenseBoolArrayAttr>:$in_bounds,
                       I32:$count);
  let results = (outs Tile_Distributed:$result);
  let assemblyFormat = "$memory `[` $indices `]` `axes` $axes (`in_bounds` $in_bounds^)? `count` $count attr-dict `:` type($memory) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_SplatOp : Tile_Op<"splat", [Pure]> {
  let summary = "one scalar in every element";
  let description = [{
    Constraint C1: the scalar has the tensor's element type.

    Example:
    ```mlir
    %s = tile.splat %scale : f32 -> tensor<128xf32, #row>
    ```
  }];
  let arguments = (ins AnyTypeOf<[F32, BF16, F16, I32]>:$scalar);
  let results = (outs Tile_Distributed:$result);
  let assemblyFormat = "$scalar attr-dict `:` type($scalar) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_ExpandOp : Tile_Op<"expand", [Pure]> {
  let summary = "repeats a tensor along a new axis; no data moves";
  let description = [{
    The operand's layout is the slice of the result's along `axis`.

    Constraint C1: operand type = result type without `axis`, layout `#tile.slice<axis, result layout>`.

    Example:
    ```mlir
    %m = tile.expand %k axis 1 : tensor<128xf32, #tile.slice<1, #rows>> -> tensor<128x64xf32, #rows>
    ```
  }];
  let arguments = (ins Tile_Distributed:$value, I64Attr:$axis);
  let results = (outs Tile_Distributed:$result);
  let assemblyFormat = "$value `axis` $axis attr-dict `:` type($value) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_InsertOp : Tile_Op<"insert", [Pure, AllTypesMatch<["matrix", "result"]>]> {
  let summary = "replaces one row of a tensor; no data moves";
  let description = [{
    The elements whose coordinate along `axis` is `row` come from the vector, all others stay. A row outside of the tensor
    changes nothing.

    Constraint C1: vector type = matrix type without `axis`, layout `#tile.slice<axis, matrix layout>`.

    Example:
    ```mlir
    %m = tile.insert %u into %s[%row] axis 0 : tensor<64xf32, #tile.slice<0, #rows>> into tensor<128x64xf32, #rows>
    ```
  }];
  let arguments = (ins Tile_Distributed:$vector, Tile_Distributed:$matrix, I32:$row, I64Attr:$axis);
  let results = (outs Tile_Distributed:$result);
  let assemblyFormat = "$vector `into` $matrix `[` $row `]` `axis` $axis attr-dict `:` type($vector) `into` type($matrix)";
  let hasVerifier = 1;
}

def Tile_ReduceOp : Tile_Op<"reduce", [Pure]> {
  let summary = "sums along an axis in one fixed tree";
  let description = [{
    Sums each operand along `axis`: registers in ascending order, then lanes by a butterfly, then warps in ascending order.
    The tree depends on the layout's digits of that axis alone, so it is the same however the other axes are split. Several
    operands of one type share the exchange between warps. A rank-1 operand gives a scalar, uniform over the block; a
    matrix gives a vector in the slice layout.

    Constraint C1: operands have one type and that axis; there is one result per operand: f32, or the sliced type.

    Example:
    ```mlir
    %n = tile.reduce %squares axis 0 : tensor<128xf32, #row> -> f32
    ```
  }];
  let arguments = (ins Variadic<Tile_DistributedF32>:$values, I64Attr:$axis);
  let results = (outs Variadic<AnyType>:$results);
  let assemblyFormat = "$values `axis` $axis attr-dict `:` type($values) `->` type($results)";
  let hasVerifier = 1;
}

def Tile_CoordinateOp : Tile_Op<"coordinate", [Pure]> {
  let summary = "each element's coordinate along an axis";
  let description = [{
    Constraint C1: the axis is one of the result's, whose elements are i32.

    Example:
    ```mlir
    %i = tile.coordinate axis 0 : tensor<32x128xi32, #rows>
    ```
  }];
  let arguments = (ins I64Attr:$axis);
  let results = (outs Tile_Distributed:$result);
  let assemblyFormat = "`axis` $axis attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Tile_ScanOp : Tile_Op<"scan", [Pure, AllTypesMatch<["value", "result"]>]> {
  let summary = "running sums along an axis, within runs";
  let description = [{
    The axis is cut into runs of `run` elements. An element of the result is the sum of its run's elements up to and
    including itself or, `reverse`, from itself to the run's end; `exclusive` leaves itself out. Sums are of neighbours
    only, never differences, so that an infinity or a large number stays where it is.

    The order is fixed by the layout: a thread's own elements first, then threads in the order of the axis.

    Constraint C1: the axis is one of the operand's and `run` a positive divisor of its size.

    Example:
    ```mlir
    %g = tile.scan %log_decay axis 0 run 16 reverse exclusive : tensor<32x128xf32, #rows>
    ```
  }];
  let arguments = (ins Tile_DistributedF32:$value, I64Attr:$axis, I64Attr:$run, UnitAttr:$reverse, UnitAttr:$exclusive);
  let results = (outs Tile_DistributedF32:$result);
  let assemblyFormat = "$value `axis` $axis `run` $run (`reverse` $reverse^)? (`exclusive` $exclusive^)? attr-dict `:` type($value)";
  let hasVerifier = 1;
}

def Tile_DotOp : Tile_Op<"dot", [Pure, AttrSizedOperandSegments]> {
  let summary = "products of vectors with a matrix, summed along an axis in one fixed tree";
  let description = [{
    Result number i is the sum over `axis` of vector number i times the matrix: products are added by fused multiply-adds
    in register order, then as in `tile.reduce`.
    This is a state read: the matrix is the state tile, each vector a (decayed) query or key.

    A second part, after `and`, has as many vectors and a matrix of its own, which may have another size along `axis`. Its
    products come after those of the first part in the same sums, so that only these are combined across lanes and warps:
    the entries of a log take part in a state read at the price of their products.

    Constraints:
    - C1: vectors are laid out as the slice of the matrix along the other axis, results as its slice along `axis`.
    - C2: a second part has as many vectors as the first, laid out as the slice of its own matrix.
    - C3: both matrices distribute the axis that remains alike, their slices along `axis` being equal digit by digit, and
      combine the same lanes and the same warps along `axis`.

    Example:
    ```mlir
    %p, %r = tile.dot %k, %q with %s axis 0 : tensor<128xf32, #tile.slice<1, #rows>>, tensor<128xf32, #tile.slice<1, #rows>>
        with tensor<128x64xf32, #rows> -> tensor<64xf32, #tile.slice<0, #rows>>, tensor<64xf32, #tile.slice<0, #rows>>
    %t = tile.dot %q with %s and %w with %u axis 0 : tensor<128xf32, #tile.slice<1, #rows>> with tensor<128x64xf32, #rows>
        and tensor<16xf32, #tile.slice<1, #rows>> with tensor<16x64xf32, #rows> -> tensor<64xf32, #tile.slice<0, #rows>>
    ```
  }];
  let arguments = (ins Variadic<Tile_DistributedF32>:$vectors, Tile_DistributedF32:$matrix,
                       Variadic<Tile_DistributedF32>:$more_vectors, Optional<Tile_DistributedF32>:$more_matrix, I64Attr:$axis);
  let results = (outs Variadic<Tile_DistributedF32>:$results);
  let assemblyFormat = [{
    $vectors `with` $matrix (`and` $more_vectors^ `with` $more_matrix)? `axis` $axis attr-dict `:` type($vectors) `with`
    type($matrix) (`and` type($more_vectors)^ `with` type($more_matrix))? `->` type($results)
  }];
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::TypeRange":$results, "::mlir::ValueRange":$vectors, "::mlir::Value":$matrix, "int64_t":$axis), [{
    build($_builder, $_state, results, vectors, matrix, ::mlir::ValueRange(), ::mlir::Value(), axis);
  }]>];
}

def Tile_RankUpdateOp : Tile_Op<"rank_update", [Pure, AllTypesMatch<["c", "result"]>]> {
  let summary = "adds outer products of rows to a matrix, one after the other";
  let description = [{
    result[k, v] = c[k, v] + a[0, k] b[0, v] + ... + a[count - 1, k] b[count - 1, v], added from left to right by fused
    multiply-adds. Rows from `count` on take no part. The layouts of a, b and c have nothing to do with each other: a and b
    go through shared memory, from where each thread reads what its elements of c need.
    This is how a state takes in the entries of a log.

    Constraint C1: a is R x K, b is R x V, c is K x V.

    Example:
    ```mlir
    %t = tile.rank_update %k, %u, %s count %size : tensor<16x128xf32, #rows>, tensor<16x64xf32, #rows>, tensor<128x64xf32, #rows>
    ```
  }];
  let arguments = (ins Tile_DistributedF32:$a, Tile_DistributedF32:$b, Tile_DistributedF32:$c, I32:$count);
  let results = (outs Tile_DistributedF32:$result);
  let assemblyFormat = "$a `,` $b `,` $c `count` $count attr-dict `:` type($a) `,` type($b) `,` type($c)";
  let hasVerifier = 1;
}

def Tile_ConvertOp : Tile_Op<"convert", [Pure]> {
  let summary = "the same tensor in another layout";
  let description = [{
    Through shared memory, or within each warp where every warp already holds what it needs. The tensor stays there: each
    user reads it anew, so that it occupies no registers in between.

    Constraint C1: operand and result have one shape and element type.

    Example:
    ```mlir
    %k1 = tile.convert %k : tensor<128xf32, #row> -> tensor<128xf32, #tile.slice<1, #rows>>
    ```
  }];
  let arguments = (ins Tile_Distributed:$value);
  let results = (outs Tile_Distributed:$result);
  let assemblyFormat = "$value attr-dict `:` type($value) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Tile_AllocOp : Tile_Op<"alloc"> {
  let summary = "a shared-memory buffer that lives as long as the block";
  let description = [{
    Its contents are unspecified until they are stored.

    Example:
    ```mlir
    %b = tile.alloc : !tile.shared<64x64xbf16, #tile.swizzled<128>>
    ```
  }];
  let results = (outs Res<Tile_SharedType, "the buffer", [MemAlloc]>:$result);
  let assemblyFormat = "attr-dict `:` qualified(type($result))";
}

def Tile_LocalStoreOp : Tile_Op<"local_store", [MemoryEffects<[MemWrite]>]> {
  let summary = "registers to shared memory";
  let description = [{
    Other threads see the elements after a `tile.barrier`.

    Constraint C1: tensor and buffer have one shape and element type.

    Example:
    ```mlir
    tile.local_store %x, %b : tensor<64x64xbf16, #rows>, !tile.shared<64x64xbf16, #tile.swizzled<128>>
    ```
  }];
  let arguments = (ins Tile_Distributed:$value, Tile_SharedType:$buffer);
  let assemblyFormat = "$value `,` $buffer attr-dict `:` type($value) `,` qualified(type($buffer))";
  let hasVerifier = 1;
}

def Tile_LocalLoadOp : Tile_Op<"local_load", [MemoryEffects<[MemRead]>]> {
  let summary = "shared memory to registers";
  let description = [{
    Constraint C1: tensor and buffer have one shape and element type.

    Example:
    ```mlir
    %x = tile.local_load %b : !tile.shared<64x64xbf16, #tile.swizzled<128>> -> tensor<64x64xbf16, #rows>
    ```
  }];
  let arguments = (ins Tile_SharedType:$buffer);
  let results = (outs Tile_Distributed:$result);
  let assemblyFormat = "$buffer attr-dict `:` qualified(type($buffer)) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_BarrierOp : Tile_Op<"barrier", [MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "orders shared-memory accesses of all threads of the block";
  let description = [{
    With `async_proxy`, ordinary stores before it are also visible to instructions that read shared memory through
    descriptors (wgmma, bulk copies).

    Example:
    ```mlir
    tile.barrier async_proxy
    ```
  }];
  let arguments = (ins UnitAttr:$async_proxy);
  let assemblyFormat = "(`async_proxy` $async_proxy^)? attr-dict";
}

include "dialects/Tile/IR/TileCopy.td"
include "dialects/Tile/IR/TileMatrix.td"

#endif // DL_DIALECTS_TILE_TILEOPS
