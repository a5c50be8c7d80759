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
    Example: `!tile.shared<64x128xbf16, #tile.swizzled<128>>`.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape, "::mlir::Type":$elementType, "SwizzledAttr":$layout);
  let assemblyFormat = "`<` custom<Shape>($shape, $elementType) `,` qualified($layout) `>`";
  let genVerifyDecl = 1;
}

#endif // DL_DIALECTS_TILE_TILETYPES
