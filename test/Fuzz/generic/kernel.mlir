// Kernels of test/Conversion/TileToNVVM/reduce.mlir, likewise.
#blocked = #tile.blocked<per_thread = [4], lanes = [32], warps = [1], order = [0], num_warps = 4>
#blocked1 = #tile.blocked<per_thread = [2, 4], lanes = [2, 16], warps = [4, 1], order = [1, 0], num_warps = 4>
#slice = #tile.slice<0, #blocked1>
#slice1 = #tile.slice<1, #blocked1>
"builtin.module"() ({
  "tile.kernel"() <{function_type = (memref<128xf32, strided<[1]>>, memref<?xf32, strided<[?]>>) -> (), max_registers = 0 : i64, min_blocks = 0 : i64, sym_name = "vector", threads = 128 : i64}> ({
  ^bb0(%arg8: memref<128xf32, strided<[1]>>, %arg9: memref<?xf32, strided<[?]>>):
    %14 = "arith.constant"() <{value = 0 : index}> : () -> index
    %15 = "tile.load"(%arg8, %14) <{axes = array<i64: 0>, in_bounds = array<i1: true>}> : (memref<128xf32, strided<[1]>>, index) -> tensor<128xf32, #blocked>
    %16 = "tile.reduce"(%15) <{axis = 0 : i64}> : (tensor<128xf32, #blocked>) -> f32
    "memref.store"(%16, %arg9, %14) : (f32, memref<?xf32, strided<[?]>>, index) -> ()
    "tile.return"() : () -> ()
  }) : () -> ()
  "tile.kernel"() <{function_type = (memref<16x64xf32, strided<[64, 1]>>, memref<64xf32, strided<[1]>>, memref<64xf32, strided<[1]>>) -> (), max_registers = 0 : i64, min_blocks = 0 : i64, sym_name = "columns", threads = 128 : i64}> ({
  ^bb0(%arg5: memref<16x64xf32, strided<[64, 1]>>, %arg6: memref<64xf32, strided<[1]>>, %arg7: memref<64xf32, strided<[1]>>):
    %10 = "arith.constant"() <{value = 0 : index}> : () -> index
    %11 = "tile.load"(%arg5, %10, %10) <{axes = array<i64: 0, 1>, in_bounds = array<i1: true, true>}> : (memref<16x64xf32, strided<[64, 1]>>, index, index) -> tensor<16x64xf32, #blocked1>
    %12 = "arith.mulf"(%11, %11) <{fastmath = #arith.fastmath<none>}> : (tensor<16x64xf32, #blocked1>, tensor<16x64xf32, #blocked1>) -> tensor<16x64xf32, #blocked1>
    %13:2 = "tile.reduce"(%11, %12) <{axis = 0 : i64}> : (tensor<16x64xf32, #blocked1>, tensor<16x64xf32, #blocked1>) -> (tensor<64xf32, #slice>, tensor<64xf32, #slice>)
    "tile.store"(%13#0, %arg6, %10) <{axes = array<i64: 0>, in_bounds = array<i1: true>}> : (tensor<64xf32, #slice>, memref<64xf32, strided<[1]>>, index) -> ()
    "tile.store"(%13#1, %arg7, %10) <{axes = array<i64: 0>, in_bounds = array<i1: true>}> : (tensor<64xf32, #slice>, memref<64xf32, strided<[1]>>, index) -> ()
    "tile.return"() : () -> ()
  }) : () -> ()
  "tile.kernel"() <{function_type = (memref<16x64xf32, strided<[64, 1]>>, memref<64xf32, strided<[1]>>, memref<16xf32, strided<[1]>>) -> (), max_registers = 0 : i64, min_blocks = 0 : i64, sym_name = "dot", threads = 128 : i64}> ({
  ^bb0(%arg2: memref<16x64xf32, strided<[64, 1]>>, %arg3: memref<64xf32, strided<[1]>>, %arg4: memref<16xf32, strided<[1]>>):
    %6 = "arith.constant"() <{value = 0 : index}> : () -> index
    %7 = "tile.load"(%arg2, %6, %6) <{axes = array<i64: 0, 1>, in_bounds = array<i1: true, true>}> : (memref<16x64xf32, strided<[64, 1]>>, index, index) -> tensor<16x64xf32, #blocked1>
    %8 = "tile.load"(%arg3, %6) <{axes = array<i64: 0>, in_bounds = array<i1: true>}> : (memref<64xf32, strided<[1]>>, index) -> tensor<64xf32, #slice>
    %9 = "tile.dot"(%8, %7) <{axis = 1 : i64}> : (tensor<64xf32, #slice>, tensor<16x64xf32, #blocked1>) -> tensor<16xf32, #slice1>
    "tile.store"(%9, %arg4, %6) <{axes = array<i64: 0>, in_bounds = array<i1: true>}> : (tensor<16xf32, #slice1>, memref<16xf32, strided<[1]>>, index) -> ()
    "tile.return"() : () -> ()
  }) : () -> ()
  "tile.kernel"() <{function_type = (memref<100xf32, strided<[1]>>, memref<?xf32, strided<[?]>>) -> (), max_registers = 0 : i64, min_blocks = 0 : i64, sym_name = "padded", threads = 128 : i64}> ({
  ^bb0(%arg0: memref<100xf32, strided<[1]>>, %arg1: memref<?xf32, strided<[?]>>):
    %0 = "arith.constant"() <{value = 0 : index}> : () -> index
    %1 = "arith.constant"() <{value = 1.000000e+00 : f32}> : () -> f32
    %2 = "tile.load"(%arg0, %0) <{axes = array<i64: 0>, in_bounds = array<i1: true>}> : (memref<100xf32, strided<[1]>>, index) -> tensor<100xf32, #blocked>
    %3 = "tile.splat"(%1) : (f32) -> tensor<100xf32, #blocked>
    %4 = "arith.addf"(%2, %3) <{fastmath = #arith.fastmath<none>}> : (tensor<100xf32, #blocked>, tensor<100xf32, #blocked>) -> tensor<100xf32, #blocked>
    %5 = "tile.reduce"(%4) <{axis = 0 : i64}> : (tensor<100xf32, #blocked>) -> f32
    "memref.store"(%5, %arg1, %0) : (f32, memref<?xf32, strided<[?]>>, index) -> ()
    "tile.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
