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

    A matrix product becomes the mma.sync or wgmma instructions of its fragments' row.

    ```mlir
    #row = #tile.blocked<per_thread = [2], lanes = [32], warps = [1], order = [0], num_warps = 1>
    tile.kernel @double(%x: memref<64xf32, strided<[1]>>) attributes {threads = 32 : i64} {
      %c0 = arith.constant 0 : index
      %v = tile.load %x[%c0] axes [0] in_bounds [true] : memref<64xf32, strided<[1]>> -> tensor<64xf32, #row>
      %y = arith.addf %v, %v : tensor<64xf32, #row>
      tile.store %y, %x[%c0] axes [0] in_bounds [true] : tensor<64xf32, #row>, memref<64xf32, strided<[1]>>
      tile.return
    }
    // becomes, with constants folded
    gpu.module @kernels {
      llvm.func @double(%params: !llvm.ptr {llvm.align = 8 : i64, llvm.byval = !llvm.array<8 x i8>, nvvm.grid_constant})
          attributes {dl.shared_bytes = 0 : i64, nvvm.kernel, nvvm.reqntid = array<i32: 32>} {
        %thread = nvvm.read.ptx.sreg.tid.x : i32
        %x = llvm.load %params : !llvm.ptr -> !llvm.ptr<1>
        %bytes = arith.constant 8 : i32
        %offset = arith.muli %thread, %bytes : i32
        %at = llvm.getelementptr inbounds %x[%offset] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i8
        %v = llvm.load %at {alignment = 8 : i64} : !llvm.ptr<1> -> vector<2xf32>
        %c0 = arith.constant 0 : i32
        %c1 = arith.constant 1 : i32
        %v0 = llvm.extractelement %v[%c0 : i32] : vector<2xf32>
        %v1 = llvm.extractelement %v[%c1 : i32] : vector<2xf32>
        %y0 = arith.addf %v0, %v0 : f32
        %y1 = arith.addf %v1, %v1 : f32
        %none = llvm.mlir.poison : vector<2xf32>
        %first = llvm.insertelement %y0, %none[%c0 : i32] : vector<2xf32>
        %y = llvm.insertelement %y1, %first[%c1 : i32] : vector<2xf32>
        llvm.store %y, %at {alignment = 8 : i64} : vector<2xf32>, !llvm.ptr<1>
        llvm.return
      }
    }
    ```
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect", "::mlir::NVVM::NVVMDialect", "::mlir::gpu::GPUDialect",
                           "::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

#endif // PASSES_TILETONVVM_PASSES
