// RUN: dl-opt %s --split-input-file --linattn-schedule-chunkwise="key-dim=64 value-dim=128" --canonicalize --cse | FileCheck %s
// RUN: dl-opt %s --split-input-file --linattn-schedule-chunkwise="key-dim=64 value-dim=128 part=prepare starts-early=1" --canonicalize --cse | FileCheck %s --check-prefix=PREPARE
// RUN: dl-opt %s --split-input-file --linattn-schedule-chunkwise="key-dim=64 value-dim=128 part=walk starts-early=1" --canonicalize --cse | FileCheck %s --check-prefix=WALK
// RUN: dl-opt %s --split-input-file --linattn-schedule-chunkwise="key-dim=64 value-dim=128 part=walk products=wgmma" --canonicalize --cse | FileCheck %s --check-prefix=WGMMA

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
// CHECK:        %[[O:.+]] = tile.mma %[[XQ]], %{{.+}}, %{{.+}} :
// CHECK:        tile.transpose %{{.+}} : tensor<64x32xbf16, #[[ACC]]> -> tensor<32x64xbf16
// CHECK:        tile.mma %[[NQ]], %{{.+}}, %[[O]] :
// CHECK:        tile.store {{.*}} axes [1, 3] in_bounds [false, true] count %[[COUNT]] : tensor<32x64xbf16, #[[OUT]]>
// CHECK:        %[[NEW:.+]] = tile.mma %{{.+}}, %[[A]], %{{.+}} transposed
// CHECK:        scf.yield %[[NEW]], %[[NEXT]]
// In two kernels: one finds the row of its chunk, and leaves buffers as the other one will have them.
// PREPARE-LABEL: tile.kernel @delta_prepare(
// The workspace holds two parts, or all chunks where that is less; a state of each parity is handed from part to part.
// PREPARE-SAME:  memref<?x?x20480xi8, strided<[?, ?, 1]>> {{{[^}]*}}tile.role = "workspace", tile.shape = {{\[\[}}"min", ["add", ["div", ["mul", "B", "T"], 32], "N"], ["mul", [[SIZE:.+]], 2]], "HV", 20480]}
// PREPARE-SAME:  memref<2x?x128x64xf32, {{[^}]*}}tile.name = "carried", tile.role = "workspace", tile.shape = [2, "HV", 128, 64]
// PREPARE-SAME:  tile.name = "chunks_per_part", tile.role = "scalar", tile.value = [[SIZE]]}
// PREPARE-SAME:  tile.name = "part", tile.parts = ["ceildiv", ["add", ["div", ["mul", "B", "T"], 32], "N"], [[SIZE]]], tile.role = "scalar"}
// PREPARE-SAME:  grid = ["HV", ["min", [[SIZE]], 32768]
// Blocks of the first part wait for what is before the launch.
// PREPARE:       scf.if %{{.+}} {
// PREPARE-NEXT:    tile.grid_wait
// PREPARE:       scf.for {{.*}} -> (i32, i32)
// Odd parts have the second half of the workspace: the first one is being walked.
// PREPARE:       %[[ODD:.+]] = arith.andi %{{arg[0-9]+}}, %c1_i32 : i32
// PREPARE-NEXT:  %[[HALF:.+]] = arith.muli %[[ODD]], %{{arg[0-9]+}} : i32
// PREPARE-NEXT:  %[[SUM:.+]] = arith.addi %{{.+}}, %[[HALF]] : i32
// PREPARE-NEXT:  %[[AT:.+]] = arith.index_castui %[[SUM]] : i32 to index
// PREPARE:       tile.store_image {{.*}}[%[[AT]], {{.*}} offset 0 as !tile.shared<32x64xbf16, #tile.swizzled<128>>
// PREPARE:       tile.decayed_gram
// PREPARE:       tile.invert_unit_lower
// PREPARE-NOT:   tile.mma
// One block of each later part stays until the walk of the part before is done.
// PREPARE:       scf.if %{{.+}} {
// PREPARE-NEXT:    tile.grid_wait
// PREPARE-NEXT:  }
// PREPARE-NEXT:  tile.return

// WALK-LABEL: tile.kernel @delta_prefill(
// WALK:       tile.grid_wait
// WALK-NEXT:  tile.grid_release
// WALK:       %[[ODD:.+]] = arith.andi %{{arg[0-9]+}}, %c1_i32 : i32
// WALK-NEXT:  %[[HALF:.+]] = arith.muli %[[ODD]], %{{arg[0-9]+}} : i32
// WALK-NEXT:  arith.addi %{{.+}}, %[[HALF]] : i32
// WALK:       %[[RING:.+]] = tile.alloc : !tile.shared<2x1x20480xi8
// WALK:       tile.copy_async
// A row begins from its slot or from what the part before it left, in f32; it ends in its slot or leaves its state.
// WALK:       scf.if %{{.+}} -> (tensor<64x64xf32,
// WALK:         tile.load %[[CARRIED:.+]][{{.*}}] axes [2, 3] {{.*}} : memref<2x?x128x64xf32
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

// By wgmma everything is transposed; products that do not depend on each other follow each other, and each one's instruction
// has all columns of its result. Values come, and outputs leave, with a token's columns side by side.
// WGMMA-LABEL: tile.kernel @delta_prefill(
// WGMMA:       %[[COUNTERS:.+]] = tile.arrivals : !tile.shared<2xi64
// WGMMA:       scf.if
// WGMMA:         tile.copy_bulk
// WGMMA:       %[[V:.+]] = tile.load {{.*}} axes [1, 3] {{.*}} -> tensor<32x64xbf16
// WGMMA:       scf.for {{.*}} iter_args(%[[S:.+]] = %{{.+}}, %{{.+}} = %[[V]])
// WGMMA:         tile.barrier{{$}}
// WGMMA:         scf.if
// WGMMA:           tile.copy_bulk {{.*}} arriving %[[COUNTERS]][%{{.+}}]
// WGMMA:         tile.await %[[COUNTERS]][%{{.+}}] parity
// WGMMA:         tile.transpose %{{.+}} : tensor<32x64xbf16, {{.*}} -> tensor<64x32xbf16
// WGMMA:         %[[RHS:.+]] = tile.mma %{{.+}}, %[[XK:.+]], %{{.+}} : tensor<64x64xbf16, {{.*}}, tensor<64x32xf32
// WGMMA:         %[[OS:.+]] = tile.mma %{{.+}}, %[[XQ:.+]], %cst{{.*}} : tensor<64x64xbf16, {{.*}}, tensor<64x32xf32
// WGMMA:         arith.truncf %[[RHS]]
// WGMMA:         tile.mma %[[F:.+]], %{{.+}}, %[[RHS]]
// WGMMA-NEXT:    %[[W:.+]] = tile.mma %[[F]]
// WGMMA:         arith.mulf %[[S]],
// WGMMA:         %[[O:.+]] = tile.mma %{{.+}}, %{{.+}}, %[[OS]]
// WGMMA:         tile.mma %{{.+}} transposed {{.*}}, tensor<64x64xf32
// WGMMA:         arith.truncf %[[O]]
// WGMMA:         tile.transpose %{{.+}} : tensor<64x32xbf16, {{.*}} -> tensor<32x64xbf16
// WGMMA:         tile.store {{.*}} axes [1, 3]
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

// -----

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>

// Two writes: 32 rows of 16 tokens. A value lies in both rows of its token.
// CHECK-LABEL: tile.kernel @twice_prefill(
// CHECK:       scf.for {{.*}} step %c16_i32
// CHECK:         tile.load {{.*}} axes [3, 1] repeats [1, 2] in_bounds [true, false] count %{{.+}} -> tensor<64x32xbf16
// CHECK:         arith.extf %{{.+}} : tensor<16x64xbf16
// CHECK:         %[[K:.+]] = arith.extf %{{.+}} : tensor<16x64xbf16
// CHECK:         %[[R:.+]] = arith.extf %{{.+}} : tensor<16x64xbf16
// CHECK:         %[[G:.+]] = arith.extf %{{.+}} : tensor<16xbf16
// CHECK:         tile.interleave %[[XK:.+]], %[[XR:.+]] : tensor<16x64xf32
// CHECK:         tile.interleave %[[AK:.+]], %[[AR:.+]] : tensor<16x64xf32
// The token's decay is that of its first row. Both feedback reads are one matrix; the output's read stands in the second row.
// CHECK:         %[[KEYS:.+]] = tile.interleave %[[K]], %[[R]] :
// CHECK:         %[[READS:.+]] = tile.interleave %{{.+}}, %{{.+}} :
// CHECK:         %[[DECAYS:.+]] = tile.interleave %[[G]], %{{cst.*}} : tensor<16xf32
// CHECK:         %[[N:.+]]:2 = tile.decayed_gram %[[KEYS]], %[[READS]] with %[[KEYS]] decay %[[DECAYS]] inclusive [true, true]
// CHECK:         tile.pick 1 of %[[N]]#1 : tensor<32x32xf32, {{.*}}> -> tensor<16x32xf32
// CHECK:         arith.mulf %[[N]]#0,
// CHECK:         tile.invert_unit_lower %{{.+}} : tensor<32x32xf32
// Each value is written in its row alone.
// CHECK:         %[[ROW:.+]] = arith.andi %{{.+}} : tensor<64x32xi32
// CHECK:         %[[IS0:.+]] = arith.cmpi eq, %[[ROW]], %{{.+}}
// CHECK:         %[[D0:.+]] = arith.select %[[IS0]]
// CHECK:         %[[IS1:.+]] = arith.cmpi eq, %[[ROW]], %{{.+}}
// CHECK:         arith.select %[[IS1]], %{{.+}}, %[[D0]]
linattn.operator @twice(%q: !key, %k: !key, %r: !key, %v: !value, %w: !value, %g: !per_head, %beta: !per_head)
    state(%S: !linattn.state) -> (o: !value) {
  %S1 = linattn.decay %S, %g : !per_head
  %p = linattn.read %S1, %k : !key -> !value
  %e = arith.subf %v, %p : !value
  %S2 = linattn.write %S1, %k, %e : !key, !value
  %p2 = linattn.read %S2, %r : !key -> !value
  %d = arith.subf %w, %p2 : !value
  %b = linattn.broadcast %beta : !per_head -> !value
  %u = arith.mulf %b, %d : !value
  %S3 = linattn.write %S2, %r, %u : !key, !value
  %o = linattn.read %S3, %q : !key -> !value
  linattn.yield %S3, %o : !linattn.state, !value
}

// -----

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>

// What is read between the writes stands in the row of the write behind it, and sees none of it: no diagonal.
// CHECK-LABEL: tile.kernel @between_prefill(
// CHECK-NOT:     tile.reduce %{{.+}} axis 1
// CHECK:         tile.decayed_gram {{.*}} inclusive [true] in bf16
// CHECK:         tile.pick 1 of
// CHECK-NOT:     tile.invert_unit_lower
linattn.operator @between(%q: !key, %k: !key, %r: !key, %v: !value, %g: !per_head)
    state(%S: !linattn.state) -> (o: !value) {
  %S1 = linattn.decay %S, %g : !per_head
  %S2 = linattn.write %S1, %k, %v : !key, !value
  %o = linattn.read %S2, %q : !key -> !value
  %S3 = linattn.write %S2, %r, %v : !key, !value
  linattn.yield %S3, %o : !linattn.state, !value
}

// -----

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>

// Three writes take four rows. What the first two writes are made of is one read: in the row of the second one it misses the
// row before it. The decay is the third row's; the output reads before it.
// CHECK-LABEL: tile.kernel @three_prefill(
// CHECK-DAG:   %[[NONE:.+]] = arith.constant dense<0> : tensor<16xi32
// CHECK-DAG:   %[[ONE:.+]] = arith.constant dense<1> : tensor<16xi32
// CHECK-DAG:   %[[ZERO:.+]] = arith.constant dense<0.000000e+00> : tensor<16xf32
// CHECK:         tile.load {{.*}} repeats [1, 4] {{.*}} -> tensor<64x64xbf16
// CHECK:         %[[H:.+]] = arith.extf %{{.+}} : tensor<16xbf16
// CHECK:         %[[DECAYS:.+]] = tile.interleave %[[ZERO]], %[[ZERO]], %[[H]], %[[ZERO]] :
// CHECK:         %[[N:.+]] = tile.decayed_gram {{.*}} decay %[[DECAYS]] inclusive [false] in bf16
// CHECK:         tile.pick 2 of %[[N]] :
// CHECK:         %[[UNSEEN:.+]] = tile.interleave %[[NONE]], %[[ONE]], %[[NONE]], %[[NONE]] : tensor<16xi32
// CHECK:         %[[MISSED:.+]] = tile.expand %[[UNSEEN]] axis 1
// CHECK:         %[[END:.+]] = arith.subi %{{.+}}, %[[MISSED]]
// CHECK:         %[[SEEN:.+]] = arith.cmpi slt, %{{.+}}, %[[END]]
// CHECK:         %[[SYSTEM:.+]] = arith.select %[[SEEN]]
// CHECK:         %[[NEGATED:.+]] = arith.negf %[[SYSTEM]]
// CHECK:         tile.invert_unit_lower %[[NEGATED]]
linattn.operator @three(%q: !key, %k: !key, %r: !key, %v: !value, %h: !per_head)
    state(%S: !linattn.state) -> (o: !value) {
  %old = linattn.read %S, %k : !key -> !value
  %e = arith.subf %v, %old : !value
  %S1 = linattn.write %S, %k, %e : !key, !value
  %S2 = linattn.write %S1, %r, %old : !key, !value
  %o = linattn.read %S2, %q : !key -> !value
  %S3 = linattn.decay %S2, %h : !per_head
  %S4 = linattn.write %S3, %k, %v : !key, !value
  linattn.yield %S4, %o : !linattn.state, !value
}
