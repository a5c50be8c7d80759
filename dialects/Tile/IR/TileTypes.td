//===- TileTypes.td - Shared-memory buffers ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_DIALECTS_TILE_TILETYPES
#define DL_DIALECTS_TILE_TILETYPES

include "dialects/Tile/IR/TileAttrs.td"

def Tile_SharedType : TypeDef<Tile_Dialect, "Shared"> {
  let mnemonic = "shared";
  let summary = "a shared-memory buffer of one thread block, with its layout";
  let description = [{
    The last two axes are a matrix of rows and contiguous columns, axes before them count matrices; one axis is one row.

    Constraints:
    - C1: elements are integers or floats of 1, 2, 4 or 8 bytes.
    - C2: there are 1 to 4 axes, each of 1 to 1048576.

    Example:
    ```mlir
    !buffer = !tile.shared<64x128xbf16, #tile.swizzled<128>>
    ```
  }];
  let parameters = (ins ArrayRefParameter<"int64_t", "static sizes">:$shape, TypeParameter<"::mlir::Type", "what it holds">:$elementType,
                        AttrParameter<"SwizzledAttr", "permutation of its chunks">:$layout);
  let assemblyFormat = "`<` custom<Shape>($shape, $elementType) `,` qualified($layout) `>`";
  let genVerifyDecl = 1;
}

#endif // DL_DIALECTS_TILE_TILETYPES
