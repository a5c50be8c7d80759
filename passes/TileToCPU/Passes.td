//===- Passes.td - From tile to a function of the host --------------------===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TILETOCPU_PASSES
#define PASSES_TILETOCPU_PASSES

include "mlir/Pass/PassBase.td"

def ConvertTileToCPU : Pass<"convert-tile-to-cpu", "::mlir::ModuleOp"> {
  let summary = "Writes each tile.kernel as a host function that runs one thread block lane by lane";
  let description = [{
    The host keeps the layouts. A distributed tensor is an array [threads][registers] in scratch memory
    and each op runs for all threads before the next one starts, so the same fragment maps, swizzles,
    masks and summation trees are executed as on a GPU, without one.

    - Elementwise ops of one layout run in a common loop over threads and registers; what only they use
      stays in host registers.
    - Coordinates, and the places of elements in other layouts, are sums of digits of the loop indices.
    - Sums go registers, lanes, warps: as in `convert-tile-to-nvvm`.
    - A matrix product takes every element from the lane and register its fragment says, of the warps
      that hold the accumulator; padding along K takes no part.
    - Shared memory is a byte array with its swizzle; barriers need no code.
    - bf16 and f16 are converted by integer arithmetic, tf32 is rounded as by cvt.rna: nothing beyond
      the mathematical functions of libm is called.

    The function is `int32_t NAME(const void *params, const uint32_t block[3], void *scratch)`: the
    parameter struct of the GPU kernel, the block's index, and `dl.scratch_bytes` bytes (an attribute of
    the function) aligned to 64. It returns 0. Loops and branches stay scf, arithmetic stays arith and
    math; upstream conversions finish the way to the LLVM dialect.

    ```mlir
    #row = #tile.blocked<per_thread = [2], lanes = [32], warps = [1], order = [0], num_warps = 1>
    tile.kernel @double(%x: memref<64xf32, strided<[1]>>) attributes {threads = 32 : i64} {
      %c0 = arith.constant 0 : index
      %v = tile.load %x[%c0] axes [0] : memref<64xf32, strided<[1]>> -> tensor<64xf32, #row>
      %y = arith.addf %v, %v : tensor<64xf32, #row>
      tile.store %y, %x[%c0] axes [0] : tensor<64xf32, #row>, memref<64xf32, strided<[1]>>
      tile.return
    }
    // becomes
    llvm.func @double(%params: !llvm.ptr, %block: !llvm.ptr, %scratch: !llvm.ptr) -> i32
        attributes {dl.scratch_bytes = 512 : i64} {
      %x = llvm.load %params : !llvm.ptr -> !llvm.ptr
      scf.for %t = %c0 to %c32 step %c1 : i64 {
        %base = arith.muli %t, %c2 : i64
        scf.for %r = %c0 to %c2 step %c1 : i64 {
          %coordinate = arith.addi %base, %r : i64
          // %v[%t][%r] = %x[%coordinate]
        }
      }
      scf.for %i = %c0 to %c64 step %c1 : i64 {
        // %y[%i] = %v[%i] + %v[%i]
      }
      ...
    ```
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect"];
}

#endif // PASSES_TILETOCPU_PASSES
