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
    Along each axis, coordinate = ((rep * warps + warp) * lanes + lane) * per_thread + element. How often the whole
    repeats (rep) follows from the shape; any number is legal, so 96 and 192 need no padding. `order` lists the axes from
    fastest to slowest. If `warps` multiplies to fewer than the kernel's warps, the rest hold copies: `num_warps` says how
    many warps there are in all.

    Constraints:
    - C1: `per_thread`, `lanes` and `warps` have one positive number for each axis, and so many axes has the tensor: at
      most 4.
    - C2: `lanes` multiplies to 32.
    - C3: `order` names each axis once.
    - C4: `num_warps` is a multiple of the product of `warps` (0: that product) and at most 32.

    Example:
    ```mlir
    #rows = #tile.blocked<per_thread = [8, 4], lanes = [2, 16], warps = [8, 1], order = [1, 0], num_warps = 8>
    %s = tile.load %pool[%slot, %h, %c0, %v0] axes [2, 3] : memref<?x?x128x128xf32, strided<[?, ?, 128, 1]>> -> tensor<128x64xf32, #rows>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"int64_t", "consecutive elements of a thread, per axis">:$perThread,
                        ArrayRefParameter<"int64_t", "lanes of a warp along each axis">:$lanes,
                        ArrayRefParameter<"int64_t", "warps along each axis">:$warps,
                        ArrayRefParameter<"int64_t", "the axes, fastest first">:$order,
                        AttrParameter<"int64_t", "warps of the kernel">:$numWarps);
  let assemblyFormat = [{ `<` `per_thread` `=` `[` $perThread `]` `,` `lanes` `=` `[` $lanes `]` `,` `warps` `=` `[` $warps `]`
                          `,` `order` `=` `[` $order `]` `,` `num_warps` `=` $numWarps `>` }];
  let genVerifyDecl = 1;
}

def Tile_SliceAttr : Tile_RegisterLayout<"Slice", "slice"> {
  let summary = "the layout that remains of another when one of its axes is reduced away";
  let description = [{
    Threads that differed only along the axis hold copies.

    Constraints:
    - C1: the parent is a register layout.
    - C2: the axis is one of the parent's, which has one axis more than the tensor.

    Example:
    ```mlir
    %k = tile.load %keys[%n, %t, %h, %c0] axes [3] : memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>> -> tensor<128xbf16, #tile.slice<1, #rows>>
    ```
  }];
  let parameters = (ins AttrParameter<"int64_t", "axis of the parent">:$axis, AttrParameter<"::mlir::Attribute", "its layout">:$parent);
  let assemblyFormat = "`<` $axis `,` $parent `>`";
  let genVerifyDecl = 1;
}

def Tile_FragmentAttr : Tile_RegisterLayout<"Fragment", "fragment"> {
  let summary = "operand of a matrix instruction: a row of the instruction table, repeated over warps and registers";
  let description = [{
    D = A B + C on tensor cores: A is M x K, B is K x N, C and D are M x N and share the fragment "c". M is split over the
    first number of `warps`, N over the second, K never. A wgmma instruction is issued by four warps together, so there
    `warps` counts groups of four.

    Constraints:
    - C1: `instruction` is a row of compiler/Layout/Atoms: mma.m16n8k16.{bf16,f16}, mma.m16n16k16.bf16, mma.m16n8k8.tf32,
      wgmma.m64nNk16.{bf16,f16} or wgmma.m64nNk8.tf32 with N = 8, 16 .. 256.
    - C2: `operand` is "a", "b" or "c", and one that the instruction takes from registers: not "b" of wgmma.
    - C3: `warps` holds two positive numbers.
    - C4: the tensor has two axes.

    Example:
    ```mlir
    #acc = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [2, 2]>
    !acc = tensor<32x16xf32, #acc>
    ```
  }];
  let parameters = (ins StringRefParameter<"row of the instruction table">:$instruction,
                        StringRefParameter<"a, b or c">:$operand,
                        ArrayRefParameter<"int64_t", "groups of warps along M and N">:$warps);
  let assemblyFormat = "`<` $instruction `,` $operand `,` `warps` `=` `[` $warps `]` `>`";
  let genVerifyDecl = 1;
}

def Tile_SwizzledAttr : Tile_Attr<"Swizzled", "swizzled"> {
  let summary = "row-major shared memory whose 16-byte chunks are permuted in rows of 32, 64 or 128 bytes (0: none)";
  let description = [{
    The permutations are those of the hardware (wgmma, bulk copies), against bank conflicts along columns.
    A row longer than `bytes` is cut into panels of that width, which follow each other; see compiler/Layout/Shared.h.

    Constraint C1: the width is 0, 32, 64 or 128.

    Example:
    ```mlir
    %b = tile.alloc : !tile.shared<64x64xbf16, #tile.swizzled<128>>
    ```
  }];
  let parameters = (ins AttrParameter<"int64_t", "width of the permuted rows">:$bytes);
  let assemblyFormat = "`<` $bytes `>`";
  let genVerifyDecl = 1;
}

#endif // DL_DIALECTS_TILE_TILEATTRS
