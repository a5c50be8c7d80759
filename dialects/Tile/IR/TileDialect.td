//===- TileDialect.td - What one thread block does ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DL_DIALECTS_TILE_TILEDIALECT
#define DL_DIALECTS_TILE_TILEDIALECT

include "mlir/IR/DialectBase.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let cppNamespace = "::dl::tile";
  let summary = "Programs for one thread block on tensors whose layout is in the type";
  let description = [{
    A `tile.kernel` is the program of one thread block. Its values are statically shaped tensors whose encoding says
    where each element lives (which thread, which register), `!tile.shared` buffers, and plain scalars that are uniform
    over the block. Elementwise work is arith/math on the tensors, loops and branches are scf, so only data movement and
    cross-thread work need ops of their own.

    The dialect decides nothing: the schedule has written every layout; `--tile-to-nvvm` and `--tile-to-cpu` follow it
    mechanically. Elements of a layout beyond the tensor's shape are padding: their registers hold unspecified values and
    every op that mixes positions or touches memory leaves them out.

    Examples that are no whole kernel are lines of one with 256 threads, and use these layouts:

    ```mlir
    #rows = #tile.blocked<per_thread = [8, 4], lanes = [2, 16], warps = [8, 1], order = [1, 0], num_warps = 8>
    #tokens = #tile.blocked<per_thread = [4, 4], lanes = [2, 16], warps = [8, 1], order = [1, 0], num_warps = 8>
    #row = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 8>
    #fa = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [4, 2]>
    #fb = #tile.fragment<"mma.m16n8k16.bf16", "b", warps = [4, 2]>
    #fc = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [4, 2]>
    ```

    Constraints are numbered C1, C2, ... for each op, attribute and type.
  }];
  let useDefaultAttributePrinterParser = 1;
  let useDefaultTypePrinterParser = 1;
  let dependentDialects = ["::mlir::arith::ArithDialect"];
}

#endif // DL_DIALECTS_TILE_TILEDIALECT
