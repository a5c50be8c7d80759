// RUN: dl-opt %s --split-input-file --linattn-schedule-chunkwise="key-dim=64 value-dim=128 chunk=32" --canonicalize --cse | FileCheck %s
// RUN: dl-opt %s --split-input-file --linattn-schedule-chunkwise="key-dim=64 value-dim=128 chunk=32 part=prepare" --canonicalize --cse | FileCheck %s --check-prefix=PREPARE
// RUN: dl-opt %s --split-input-file --linattn-schedule-chunkwise="key-dim=64 value-dim=128 chunk=32 part=walk" --canonicalize --cse | FileCheck %s --check-prefix=WALK

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>

// The delta rule with one decay per token.
// CHECK-DAG: #[[TOKENS:.+]] = #tile.blocked<per_thread = [8, 2], lanes = [1, 32], warps = [4, 1]
// CHECK-DAG: #[[PAIRS:.+]] = #tile.blocked<per_thread = [8, 1], lanes = [1, 32], warps = [4, 1]
// CHECK-DAG: #[[ACC:.+]] = #tile.fragment<"mma.m16n8k16.bf16", "c", warps = [4, 1]>
// CHECK-DAG: #[[OUT:.+]] = #tile.fragment<"mma.m16n16k16.bf16", "c", warps = [1, 4]>
// CHECK-LABEL: tile.kernel @delta_prefill(
// CHECK-SAME: dst_slots must have one column
// CHECK:      %[[S0:.+]] = scf.if {{.*}} -> (tensor<64x64xf32, #[[ACC]]>)
// CHECK:      scf.for %[[T:.+]] = %{{.+}} to %{{.+}} step %c32_i32 iter_args(%[[S:.+]] = %[[S0]], %[[V:.+]] = %{{.+}})
// CHECK:        %[[COUNT:.+]] = arith.minsi %{{.+}}, %c32_i32
// The values of the next chunk.
// CHECK:        %[[NEXT:.+]] = tile.load {{.*}} axes [3, 1] in_bounds [true, false] count %{{.+}}
// CHECK:        %[[Q:.+]] = tile.load {{.*}} axes [1, 3] in_bounds [false, true] count %[[COUNT]]
// Tokens that are not there do not decay.
// CHECK:        %[[L:.+]] = arith.select %{{.+}} : tensor<32xi1, {{.*}}>, tensor<32xf32
// Factors of the state: keys and queries decayed from the chunk's start, keys to its end.
// CHECK:        tile.scan %{{.+}} axis 0 run 32 :
// CHECK:        tile.local_store %{{.+}}, %[[XQ:.+]] : tensor<32x64xbf16
// CHECK:        tile.local_store %{{.+}}, %[[XK:.+]] : tensor<32x64xbf16
// CHECK:        tile.scan %{{.+}} axis 0 run 32 reverse exclusive
// CHECK:        tile.local_store %{{.+}}, %[[A:.+]] : tensor<32x64xbf16
// CHECK:        %[[N:.+]]:2 = tile.decayed_gram %[[K:.+]], %{{.+}} with %[[K]] decay %{{.+}} inclusive [true, true] in bf16
// CHECK:        tile.local_store %{{.+}}, %[[NQ:.+]] : tensor<32x32xbf16
// CHECK:        %[[INVERSE:.+]] = tile.invert_unit_lower
// The inverse without its diagonal of ones, and what bf16 has no room for.
// CHECK:        tile.local_store %{{.+}}, %[[TI:.+]] : tensor<32x32xbf16
// CHECK:        tile.local_store %{{.+}}, %[[REST:.+]] : tensor<32x32xbf16
// CHECK:        tile.barrier
// The walk: right-hand side, solution, outputs, state.
// CHECK:        %[[RHS:.+]] = tile.mma %{{.+}}, %[[XK]], %{{.+}} :
// CHECK:        %[[MOST:.+]] = tile.mma %{{.+}}, %[[TI]], %[[RHS]] :
// CHECK:        tile.mma %{{.+}}, %[[REST]], %[[MOST]] :
// CHECK:        tile.transpose %{{.+}} : tensor<64x64xbf16, #[[ACC]]> -> tensor<64x64xbf16
// CHECK:        tile.transpose %{{.+}} : tensor<64x32xbf16, #[[ACC]]> -> tensor<32x64xbf16
// CHECK:        %[[O:.+]] = tile.mma %[[XQ]], %{{.+}}, %{{.+}} :
// CHECK:        tile.mma %[[NQ]], %{{.+}}, %[[O]] :
// CHECK:        tile.store {{.*}} axes [1, 3] in_bounds [false, true] count %[[COUNT]] : tensor<32x64xbf16, #[[OUT]]>
// CHECK:        %[[NEW:.+]] = tile.mma %{{.+}}, %[[A]], %{{.+}} transposed
// CHECK:        scf.yield %[[NEW]], %[[NEXT]]
// In two kernels: one finds the row of its chunk, and leaves buffers as the other one will have them.
// PREPARE-LABEL: tile.kernel @delta_prepare(
// PREPARE-SAME:  memref<?x?x20480xi8, strided<[?, ?, 1]>> {{.*}}tile.role = "workspace", tile.shape = {{\[\[}}"add", ["div", ["mul", "B", "T"], 32], "N"], "HV", 20480]
// PREPARE:       scf.for {{.*}} -> (i32, i32)
// PREPARE:       tile.store_image {{.*}} offset 0 as !tile.shared<32x64xbf16, #tile.swizzled<128>>
// PREPARE:       tile.decayed_gram
// PREPARE:       tile.invert_unit_lower
// PREPARE-NOT:   tile.mma

// WALK-LABEL: tile.kernel @delta_prefill(
// WALK:       %[[RING:.+]] = tile.alloc : !tile.shared<2x1x20480xi8
// WALK:       tile.copy_async
// WALK:       scf.for
// WALK:         tile.copy_wait 0
// WALK-NEXT:    tile.barrier
// WALK:         tile.copy_async
// WALK-NEXT:    tile.copy_commit
// WALK:         %[[ROW:.+]] = tile.stage %[[RING]]
// WALK:         tile.local_part %[[ROW]] offset 0 :
// WALK-NOT:     tile.barrier
// WALK-COUNT-6: tile.mma
// WALK-NOT:     tile.decayed_gram
linattn.operator @delta(%q: !key, %k: !key, %v: !value, %g: !per_head, %beta: !per_head)
    state(%S: !linattn.state) -> (o: !value) {
  %S1 = linattn.decay %S, %g : !per_head
  %p = linattn.read %S1, %k : !key -> !value
  %e = arith.subf %v, %p : !value
  %b = linattn.broadcast %beta : !per_head -> !value
  %u = arith.mulf %b, %e : !value
  %S2 = linattn.write %S1, %k, %u : !key, !value
  %o = linattn.read %S2, %q : !key -> !value
  linattn.yield %S2, %o : !linattn.state, !value
}

// -----

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>

// Without feedback there is no system; without a decay no sums. A read before the write has no diagonal.
// CHECK-LABEL: tile.kernel @before_prefill(
// CHECK:       tile.decayed_gram %{{.+}} with %{{.+}} inclusive [true] in bf16
// CHECK-NOT:   tile.scan
// CHECK-NOT:   tile.invert_unit_lower
// CHECK-NOT:   tile.reduce
// CHECK:       %[[O:.+]] = tile.mma
// CHECK:       tile.mma %{{.+}}, %{{.+}}, %[[O]]
// CHECK:       tile.mma %{{.+}} transposed
linattn.operator @before(%q: !key, %k: !key, %v: !value) state(%S: !linattn.state) -> (o: !value) {
  %o = linattn.read %S, %q : !key -> !value
  %S1 = linattn.write %S, %k, %v : !key, !value
  linattn.yield %S1, %o : !linattn.state, !value
}
