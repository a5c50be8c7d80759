// test/Conversion/TileToNVVM/mma_sync_bf16.mlir, likewise.
#blocked = #tile.blocked<per_thread = [1, 1], lanes = [16, 2], warps = [1, 1], order = [0, 1], num_warps = 1>
#fragment_a = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [2, 2]>
#fragment_a1 = #tile.fragment<"mma.m16n8k16.bf16", "a", warps = [1, 1]>
#fragment_b = #tile.fragment<"mma.m16n8k16.bf16", "b", warps = [2, 2]>
#fragment_b1 = #tile.fragment<"mma.m16n8k16.bf16", "b", warps = [1, 1]>
#fragment_c = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [2, 2]>
#fragment_c1 = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [1, 1]>
"builtin.module"() ({
  "tile.kernel"() <{arg_attrs = [{tile.access = "r", tile.name = "a", tile.role = "input", tile.shape = ["B", 40, 48]}, {tile.access = "r", tile.name = "b", tile.role = "input", tile.shape = ["B", 48, 24]}, {tile.access = "r", tile.name = "c", tile.role = "input", tile.shape = ["B", 40, 24]}, {tile.access = "w", tile.name = "d", tile.role = "output", tile.shape = ["B", 40, 24]}], function_type = (memref<?x40x48xbf16, strided<[?, 48, 1]>>, memref<?x48x24xbf16, strided<[?, 24, 1]>>, memref<?x40x24xf32, strided<[?, 24, 1]>>, memref<?x40x24xf32, strided<[?, 24, 1]>>) -> (), grid = ["B", 1, 1], max_registers = 0 : i64, min_blocks = 0 : i64, sym_name = "product", threads = 128 : i64}> ({
  ^bb0(%arg6: memref<?x40x48xbf16, strided<[?, 48, 1]>>, %arg7: memref<?x48x24xbf16, strided<[?, 24, 1]>>, %arg8: memref<?x40x24xf32, strided<[?, 24, 1]>>, %arg9: memref<?x40x24xf32, strided<[?, 24, 1]>>):
    %24 = "arith.constant"() <{value = 0 : index}> : () -> index
    %25 = "gpu.block_id"() <{dimension = #gpu<dim x>}> : () -> index
    %26 = "tile.load"(%arg6, %25, %24, %24) <{axes = array<i64: 1, 2>, in_bounds = array<i1: true, true>}> : (memref<?x40x48xbf16, strided<[?, 48, 1]>>, index, index, index) -> tensor<40x48xbf16, #fragment_a>
    %27 = "tile.load"(%arg7, %25, %24, %24) <{axes = array<i64: 1, 2>, in_bounds = array<i1: true, true>}> : (memref<?x48x24xbf16, strided<[?, 24, 1]>>, index, index, index) -> tensor<48x24xbf16, #fragment_b>
    %28 = "tile.load"(%arg8, %25, %24, %24) <{axes = array<i64: 1, 2>, in_bounds = array<i1: true, true>}> : (memref<?x40x24xf32, strided<[?, 24, 1]>>, index, index, index) -> tensor<40x24xf32, #fragment_c>
    %29 = "tile.mma"(%26, %27, %28) : (tensor<40x48xbf16, #fragment_a>, tensor<48x24xbf16, #fragment_b>, tensor<40x24xf32, #fragment_c>) -> tensor<40x24xf32, #fragment_c>
    "tile.store"(%29, %arg9, %25, %24, %24) <{axes = array<i64: 1, 2>, in_bounds = array<i1: true, true>}> : (tensor<40x24xf32, #fragment_c>, memref<?x40x24xf32, strided<[?, 24, 1]>>, index, index, index) -> ()
    "tile.return"() : () -> ()
  }) : () -> ()
  "tile.kernel"() <{arg_attrs = [{tile.access = "r", tile.name = "a", tile.role = "input", tile.shape = ["B", 40, 48]}, {tile.access = "r", tile.name = "b_t", tile.role = "input", tile.shape = ["B", 24, 48]}, {tile.access = "w", tile.name = "d", tile.role = "output", tile.shape = ["B", 40, 24]}], function_type = (memref<?x40x48xbf16, strided<[?, 48, 1]>>, memref<?x24x48xbf16, strided<[?, 48, 1]>>, memref<?x40x24xf32, strided<[?, 24, 1]>>) -> (), grid = ["B", 2, 2], max_registers = 0 : i64, min_blocks = 0 : i64, sym_name = "tiles", threads = 128 : i64}> ({
  ^bb0(%arg3: memref<?x40x48xbf16, strided<[?, 48, 1]>>, %arg4: memref<?x24x48xbf16, strided<[?, 48, 1]>>, %arg5: memref<?x40x24xf32, strided<[?, 24, 1]>>):
    %11 = "arith.constant"() <{value = 0 : index}> : () -> index
    %12 = "arith.constant"() <{value = 16 : index}> : () -> index
    %13 = "arith.constant"() <{value = 32 : index}> : () -> index
    %14 = "arith.constant"() <{value = 0.000000e+00 : f32}> : () -> f32
    %15 = "gpu.block_id"() <{dimension = #gpu<dim x>}> : () -> index
    %16 = "gpu.block_id"() <{dimension = #gpu<dim y>}> : () -> index
    %17 = "gpu.block_id"() <{dimension = #gpu<dim z>}> : () -> index
    %18 = "arith.muli"(%16, %13) <{overflowFlags = #arith.overflow<none>}> : (index, index) -> index
    %19 = "arith.muli"(%17, %12) <{overflowFlags = #arith.overflow<none>}> : (index, index) -> index
    %20 = "tile.load"(%arg3, %15, %18, %11) <{axes = array<i64: 1, 2>}> : (memref<?x40x48xbf16, strided<[?, 48, 1]>>, index, index, index) -> tensor<32x64xbf16, #fragment_a>
    %21 = "tile.load"(%arg4, %15, %19, %11) <{axes = array<i64: 2, 1>}> : (memref<?x24x48xbf16, strided<[?, 48, 1]>>, index, index, index) -> tensor<64x16xbf16, #fragment_b>
    %22 = "tile.splat"(%14) : (f32) -> tensor<32x16xf32, #fragment_c>
    %23 = "tile.mma"(%20, %21, %22) : (tensor<32x64xbf16, #fragment_a>, tensor<64x16xbf16, #fragment_b>, tensor<32x16xf32, #fragment_c>) -> tensor<32x16xf32, #fragment_c>
    "tile.store"(%23, %arg5, %15, %18, %19) <{axes = array<i64: 1, 2>}> : (tensor<32x16xf32, #fragment_c>, memref<?x40x24xf32, strided<[?, 24, 1]>>, index, index, index) -> ()
    "tile.return"() : () -> ()
  }) : () -> ()
  "tile.kernel"() <{arg_attrs = [{tile.access = "r", tile.name = "a_t", tile.role = "input", tile.shape = ["B", 13, 13]}, {tile.access = "r", tile.name = "b", tile.role = "input", tile.shape = ["B", 13, 5]}, {tile.access = "w", tile.name = "d", tile.role = "output", tile.shape = ["B", 13, 5]}], function_type = (memref<?x13x13xbf16, strided<[?, 13, 1]>>, memref<?x13x5xbf16, strided<[?, 5, 1]>>, memref<?x13x5xf32, strided<[?, 5, 1]>>) -> (), grid = ["B", 1, 1], max_registers = 0 : i64, min_blocks = 0 : i64, sym_name = "partial", threads = 32 : i64}> ({
  ^bb0(%arg0: memref<?x13x13xbf16, strided<[?, 13, 1]>>, %arg1: memref<?x13x5xbf16, strided<[?, 5, 1]>>, %arg2: memref<?x13x5xf32, strided<[?, 5, 1]>>):
    %0 = "arith.constant"() <{value = 0 : index}> : () -> index
    %1 = "arith.constant"() <{value = 0.000000e+00 : f32}> : () -> f32
    %2 = "gpu.block_id"() <{dimension = #gpu<dim x>}> : () -> index
    %3 = "tile.load"(%arg0, %2, %0, %0) <{axes = array<i64: 2, 1>, in_bounds = array<i1: true, true>}> : (memref<?x13x13xbf16, strided<[?, 13, 1]>>, index, index, index) -> tensor<13x13xbf16, #blocked>
    %4 = "tile.load"(%arg1, %2, %0, %0) <{axes = array<i64: 1, 2>, in_bounds = array<i1: true, true>}> : (memref<?x13x5xbf16, strided<[?, 5, 1]>>, index, index, index) -> tensor<13x5xbf16, #blocked>
    %5 = "tile.alloc"() : () -> !tile.shared<13x13xbf16, #tile.swizzled<0>>
    %6 = "tile.alloc"() : () -> !tile.shared<13x5xbf16, #tile.swizzled<0>>
    "tile.local_store"(%3, %5) : (tensor<13x13xbf16, #blocked>, !tile.shared<13x13xbf16, #tile.swizzled<0>>) -> ()
    "tile.local_store"(%4, %6) : (tensor<13x5xbf16, #blocked>, !tile.shared<13x5xbf16, #tile.swizzled<0>>) -> ()
    "tile.barrier"() : () -> ()
    %7 = "tile.local_load"(%5) : (!tile.shared<13x13xbf16, #tile.swizzled<0>>) -> tensor<13x13xbf16, #fragment_a1>
    %8 = "tile.local_load"(%6) : (!tile.shared<13x5xbf16, #tile.swizzled<0>>) -> tensor<13x5xbf16, #fragment_b1>
    %9 = "tile.splat"(%1) : (f32) -> tensor<13x5xf32, #fragment_c1>
    %10 = "tile.mma"(%7, %8, %9) : (tensor<13x13xbf16, #fragment_a1>, tensor<13x5xbf16, #fragment_b1>, tensor<13x5xf32, #fragment_c1>) -> tensor<13x5xf32, #fragment_c1>
    "tile.store"(%10, %arg2, %2, %0, %0) <{axes = array<i64: 1, 2>, in_bounds = array<i1: true, true>}> : (tensor<13x5xf32, #fragment_c1>, memref<?x13x5xf32, strided<[?, 5, 1]>>, index, index, index) -> ()
    "tile.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
