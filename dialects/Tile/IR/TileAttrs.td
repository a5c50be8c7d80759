//===- TileAttrs.td - Register and shared-memory layouts ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_DIALECTS_TILE_TILEATTRS
#define DL_DIALECTS_TILE_TILEATTRS

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/IR/EnumAttr.td"
include "dialects/Tile/IR/TileDialect.td"

def Tile_LayoutInterface : AttrInterface<"RegisterLayoutInterface"> {
  let cppNamespace = "::dl::tile";
  let description = [{
    A layout of a distributed tensor. It answers one pure question: which coordinate does register r of thread t hold?
    Everything else (masks, conversions, both lowerings) follows from the answer; see compiler/Layout.
  }];
  let methods = [
    InterfaceMethod<"The layout of a tensor of this shape, or an error that says why there is none.",
      "::llvm::Expected<::dl::layout::RegisterLayout>", "getRegisterLayout",
      (ins "::llvm::ArrayRef<int64_t>":$shape)>
  ];
}

class Tile_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Tile_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

class Tile_RegisterLayout<string name, string attrMnemonic>
    : Tile_Attr<name, attrMnemonic,
        [DeclareAttrInterfaceMethods<Tile_LayoutInterface, ["getRegisterLayout"]>,
         DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]>;

def Tile_BlockedAttr : Tile_RegisterLayout<"Blocked", "blocked"> {
  let summary = "each thread holds a small brick, lanes and warps tile the bricks";
  let description = [{
    Along each axis, coordinate = ((rep * warps + warp) * lanes + lane) * per_thread + element. The repeat count follows
    from the shape; any integer is legal, so 96 and 192 need no padding. `order` lists the axes from fastest to slowest.
    If `warps` multiplies to fewer than the kernel's warps, the rest hold copies: `num_warps` says how many there are.

    Example:
    ```mlir
    #rows = #tile.blocked<per_thread = [8, 4], lanes = [2, 16], warps = [8, 1], order = [1, 0], num_warps = 8>
    %s = tile.load %pool[%slot, %h, %c0, %v0] axes [2, 3] : memref<?x?x128x128xf32, strided<[?, ?, 128, 1]>> -> tensor<128x64xf32, #rows>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$perThread, ArrayRefParameter<"int64_t">:$lanes,
                        ArrayRefParameter<"int64_t">:$warps, ArrayRefParameter<"int64_t">:$order, "int64_t":$numWarps);
  let assemblyFormat = [{ `<` `per_thread` `=` `[` $perThread `]` `,` `lanes` `=` `[` $lanes `]` `,` `warps` `=` `[` $warps `]`
                          `,` `order` `=` `[` $order `]` `,` `num_warps` `=` $numWarps `>` }];
  let genVerifyDecl = 1;
}

def Tile_SliceAttr : Tile_RegisterLayout<"Slice", "slice"> {
  let summary = "the layout that remains of `parent` when its axis is reduced away";
  let description = [{
    Threads that differed only along the axis hold copies.

    Example:
    ```mlir
    %k = tile.load %keys[%n, %t, %h, %c0] axes [3] : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>> -> tensor<128xbf16, #tile.slice<1, #rows>>
    ```
  }];
  let parameters = (ins "int64_t":$axis, "::mlir::Attribute":$parent);
  let assemblyFormat = "`<` $axis `,` $parent `>`";
  let genVerifyDecl = 1;
}

def Tile_FragmentAttr : Tile_RegisterLayout<"Fragment", "fragment"> {
  let summary = "operand of a matrix instruction: a row of the instruction table, repeated over warps and registers";
  let description = [{
    `instruction` names a row of compiler/Layout/Atoms, `operand` is "a", "b" or "c".

    Example:
    ```mlir
    #acc = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [2, 2]>
    ```
  }];
  let parameters = (ins StringRefParameter<"instruction row">:$instruction, StringRefParameter<"a, b or c">:$operand,
                        ArrayRefParameter<"int64_t">:$warps);
  let assemblyFormat = "`<` $instruction `,` $operand `,` `warps` `=` `[` $warps `]` `>`";
  let genVerifyDecl = 1;
}

def Tile_SwizzledAttr : Tile_Attr<"Swizzled", "swizzled"> {
  let summary = "row-major shared memory whose 16-byte chunks are permuted in rows of 32, 64 or 128 bytes (0: none)";
  let description = [{
    Example:
    ```mlir
    %b = tile.alloc : !tile.shared<64x64xbf16, #tile.swizzled<128>>
    ```
  }];
  let parameters = (ins "int64_t":$bytes);
  let assemblyFormat = "`<` $bytes `>`";
  let genVerifyDecl = 1;
}

#endif // DL_DIALECTS_TILE_TILEATTRS
