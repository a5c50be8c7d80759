//===- Passes.td - From tile to LLVM and NVVM ---===//
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_TILETONVVM_PASSES
#define PASSES_TILETONVVM_PASSES

include "mlir/Pass/PassBase.td"

def ConvertTileToNVVM : Pass<"convert-tile-to-nvvm", "::mlir::ModuleOp"> {
  let summary = "Writes each tile.kernel as the program of one thread, in a gpu.module";
  let description = [{
    Mechanical: every distributed tensor becomes one SSA value per register, fully unrolled, in the order of the layout;
    memory accesses are as wide as the layout allows, with one base pointer per access and constant byte offsets; sums go
    registers, lanes (shuffles), warps (shared memory). Fused multiply-adds appear only where the IR says so. Shared memory
    is one dynamic allocation (`dl.shared_bytes` on the function says how much). Loops and branches stay scf; scalar
    arithmetic stays arith; the pipeline `--tile-to-nvvm` finishes the way to the LLVM dialect.

    Example: `test/Conversion/TileToNVVM/memory.mlir`.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect", "::mlir::gpu::GPUDialect",
                           "::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

#endif // PASSES_TILETONVVM_PASSES
