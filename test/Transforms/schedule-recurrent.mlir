// RUN: dl-opt %s --split-input-file --linattn-schedule-recurrent="key-dim=64 value-dim=128 value-tile=64" --canonicalize --cse | FileCheck %s --check-prefixes=ALL,KV
// RUN: dl-opt %s --split-input-file --linattn-schedule-recurrent="key-dim=64 value-dim=128 state-layout=vk state-type=bf16 value-tile=64" --canonicalize --cse | FileCheck %s --check-prefixes=ALL,VK
// RUN: dl-opt %s --split-input-file --linattn-schedule-recurrent="key-dim=64 value-dim=48" --canonicalize --cse | FileCheck %s --check-prefix=MASK
// RUN: dl-opt %s --split-input-file --linattn-schedule-recurrent="key-dim=128 value-dim=128 state-layout=vk io-type=f32 min-blocks=3" --canonicalize --cse | FileCheck %s --check-prefix=F32
// RUN: dl-opt %s --split-input-file --linattn-schedule-recurrent="key-dim=64 value-dim=128 starts-early=1 index-type=i64 types=v=f32,o=f16" --canonicalize --cse | FileCheck %s --check-prefix=EARLY
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>

// How the state is dealt to threads. With kv a read sums over 4 lanes and the warps of a column; with vk lanes run along K.
// Key vectors have a layout of their own in which no lane computes what another one does.
// KV-DAG: #[[STATE:.+]] = #tile.blocked<per_thread = [{{[0-9]+}}, 4], lanes = [4, 8], warps = [2, 2], order = [1, 0], num_warps = 4>
// VK-DAG: #[[STATE:.+]] = #tile.blocked<per_thread = [8, {{[0-9]+}}], lanes = [8, 4], warps = [1, 4], order = [0, 1], num_warps = 4>
// ALL-DAG: #[[KEY:.+]] = #tile.blocked<per_thread = [2], lanes = [32], warps = [1], order = [0], num_warps = 4>
// ALL-DAG: #[[OFVALUE:.+]] = #tile.slice<0, #[[STATE]]>
// ALL-DAG: #[[OFKEY:.+]] = #tile.slice<1, #[[STATE]]>

// The arguments say what the package has to know.
// ALL-LABEL: tile.kernel @delta_decode(
// ALL-SAME:  %[[Q:[a-z0-9]+]]: memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>> {tile.access = "r", tile.name = "q", tile.role = "input", tile.shape = ["B", "T", "HQ", 64]}
// ALL-SAME:  %[[K:[a-z0-9]+]]: memref<?x?x?x64xbf16, strided<[?, ?, ?, 1]>> {tile.access = "r", tile.name = "k"
// ALL-SAME:  %[[V:[a-z0-9]+]]: memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>> {tile.access = "r", tile.name = "v", tile.role = "input", tile.shape = ["B", "T", "HV", 128]}
// ALL-SAME:  %[[G:[a-z0-9]+]]: memref<?x?x?xbf16, strided<[?, ?, ?]>> {{{.*}}tile.name = "g"{{.*}} tile.shape = ["B", "T", "HV"]}
// ALL-SAME:  %[[O:[a-z0-9]+]]: memref<?x?x?x128xbf16, strided<[?, ?, ?, 1]>> {tile.access = "w", tile.name = "o", tile.role = "output"
// KV-SAME:   %[[IN:[a-z0-9]+]]: memref<?x?x64x128xf32, strided<[?, ?, 128, 1]>> {tile.access = "r", tile.name = "S", tile.role = "state_in", tile.shape = ["pool_in", "HV", 64, 128]}
// KV-SAME:   %[[OUT:[a-z0-9]+]]: memref<?x?x64x128xf32, strided<[?, ?, 128, 1]>> {tile.access = "w", tile.name = "S", tile.role = "state_out"
// VK-SAME:   %[[IN:[a-z0-9]+]]: memref<?x?x128x64xbf16, strided<[?, ?, 64, 1]>> {tile.access = "r", tile.name = "S", tile.role = "state_in", tile.shape = ["pool_in", "HV", 128, 64]}
// VK-SAME:   %[[OUT:[a-z0-9]+]]: memref<?x?x128x64xbf16, strided<[?, ?, 64, 1]>> {tile.access = "w", tile.name = "S", tile.role = "state_out"
// ALL-SAME:  %[[SRC:[a-z0-9]+]]: memref<?x?xi32, strided<[?, ?]>> {{{.*}}tile.min_rank = 1 : i64, tile.name = "src_slots", tile.nullable, {{.*}}tile.shape = ["N", "src_width"]
// ALL-SAME:  %[[DST:[a-z0-9]+]]: memref<?x?xi32, strided<[?, ?]>> {{{.*}}tile.name = "dst_slots", tile.nullable
// ALL-SAME:  %[[STARTS:[a-z0-9]+]]: memref<?xi32, strided<[?]>> {{{.*}}tile.name = "cu_seqlens", tile.nullable, tile.role = "row_starts", tile.shape = {{\[\["add", "N", 1\]\]}}}
// ALL-SAME:  %[[FLAGS:[a-z0-9]+]]: memref<?xi8, strided<[?]>> {{{.*}}tile.name = "has_initial_state", tile.nullable
// ALL-SAME:  %[[ACCEPTED:[a-z0-9]+]]: memref<?xi32, strided<[?]>> {{{.*}}tile.name = "num_accepted_tokens", tile.nullable
// ALL-SAME:  %[[FIRST:[a-z0-9]+]]: i32 {tile.default = 0 : i64, tile.name = "first_slot"
// ALL-SAME:  %[[T:[a-z0-9]+]]: i32 {tile.name = "T", {{.*}}tile.value = "T"}
// ALL-SAME:  %[[N:[a-z0-9]+]]: i32 {tile.name = "N"
// ALL-SAME:  %[[POOLIN:[a-z0-9]+]]: i32 {tile.name = "pool_in"
// ALL-SAME:  %[[POOLOUT:[a-z0-9]+]]: i32 {tile.name = "pool_out"
// ALL-SAME:  %[[SRCWIDTH:[a-z0-9]+]]: i32 {tile.name = "src_width"
// ALL-SAME:  %[[DSTWIDTH:[a-z0-9]+]]: i32 {tile.name = "dst_width"
// ALL-SAME:  %[[RECIPROCAL:[a-z0-9]+]]: i64 {{{.*}}tile.value = ["ceildiv", 4294967296, ["div", "HV", "HQ"]]}
// Blocks split heads, tiles of V and rows; never K.
// ALL-SAME:  grid = {{\[\["mul", "HV", 2\], \["min", "N", 32768\], \["ceildiv", "N", 32768\]\]}}
// KV-SAME:   tile.state_bytes = 16384
// VK-SAME:   tile.state_bytes = 8192

// ALL-DAG:   %[[C0:.+]] = arith.constant 0 : index
// ALL-DAG:   %[[C2:.+]] = arith.constant 2 : index
// ALL-DAG:   %[[C64:.+]] = arith.constant 64 : index
// ALL-DAG:   %[[X:.+]] = gpu.block_id x
// ALL-DAG:   %[[Y:.+]] = gpu.block_id y
// ALL-DAG:   %[[Y32:.+]] = arith.index_castui %[[Y]]
// ALL-DAG:   %[[ROW32:.+]] = arith.addi %{{.+}}, %[[Y32]]
// ALL-DAG:   %[[ROW:.+]] = arith.index_castui %[[ROW32]]
// ALL-DAG:   %[[HEAD:.+]] = arith.divui %[[X]], %[[C2]]
// ALL-DAG:   %[[TILE:.+]] = arith.remui %[[X]], %[[C2]]
// ALL-DAG:   %[[COLUMN:.+]] = arith.muli %[[TILE]], %[[C64]]
// The key head, by the reciprocal of the ratio.
// ALL-DAG:   %[[R:.+]] = arith.trunci %[[RECIPROCAL]]
// ALL-DAG:   %[[HEAD32:.+]] = arith.index_castui %[[HEAD]]
// ALL-DAG:   %[[QUOTIENT:.+]] = arith.trunci %{{.+}} : i64 to i32
// ALL-DAG:   %[[KEYHEAD32:.+]] = arith.select %{{.+}}, %[[HEAD32]], %[[QUOTIENT]]
// ALL-DAG:   %[[KEYHEAD:.+]] = arith.index_castui %[[KEYHEAD32]]

// What the caller's arrays say of the row; a plain decode step has none of them.
// ALL-DAG:   %[[PACKED:.+]] = tile.is_present %[[STARTS]]
// ALL-DAG:   tile.is_present %[[FLAGS]]
// ALL-DAG:   tile.is_present %[[ACCEPTED]]
// ALL:       %[[NUMBERS:.+]]:5 = scf.if
// ALL:         memref.load %[[STARTS]][%[[ROW]]]
// ALL:         memref.load %[[STARTS]][%{{.+}}]
// ALL:         memref.load %[[FLAGS]][%[[ROW]]]
// ALL:         memref.load %[[ACCEPTED]][%[[ROW]]]
// ALL:         arith.minsi %{{.+}}, %[[SRCWIDTH]]
// ALL:         arith.select %[[PACKED]], %{{.+}}, %[[ROW32]]
// ALL:       } else {
// ALL:         scf.yield %{{.+}}, %[[ROW32]], %{{.+}}, %[[T]], %{{.+}}
// ALL:       %[[PLACE:.+]] = arith.index_castui %[[NUMBERS]]#0
// ALL:       %[[BATCH:.+]] = arith.index_castui %[[NUMBERS]]#1
// The slots, in a way that stops nothing behind them.
// ALL:       tile.is_present %[[SRC]]
// ALL:       %[[FROM:.+]] = scf.if
// ALL:         memref.load %[[SRC]][%[[ROW]], %[[PLACE]]]
// ALL:       } {tile.predicated}
// ALL:       tile.is_present %[[DST]]
// ALL:       %[[TO:.+]] = scf.if
// ALL:         memref.load %[[DST]][%[[ROW]], %[[C0]]]
// ALL:       } {tile.predicated}
// ALL:       %[[BEGIN32:.+]] = arith.maxsi %[[NUMBERS]]#2
// ALL:       arith.minsi %[[NUMBERS]]#3, %[[T]]

// Nor do the inputs of the first token wait for the slot.
// ALL-NOT:   arith.cmpi sge
// ALL:       %[[BEGIN:.+]] = arith.index_castui %[[BEGIN32]]
// ALL:       %[[INPUTS:.+]]:4 = scf.if
// ALL:         tile.load %[[Q]][%[[BATCH]], %[[BEGIN]], %[[KEYHEAD]], %[[C0]]] axes [3] in_bounds [true] {{.*}} -> tensor<64xbf16, #[[KEY]]>
// ALL:         tile.load %[[K]][%[[BATCH]], %[[BEGIN]], %[[KEYHEAD]], %[[C0]]]
// ALL:         tile.load %[[V]][%[[BATCH]], %[[BEGIN]], %[[HEAD]], %[[COLUMN]]] axes [3] in_bounds [true] {{.*}} -> tensor<64xbf16, #[[OFVALUE]]>
// ALL:         memref.load %[[G]][%[[BATCH]], %[[BEGIN]], %[[HEAD]]]
// ALL:       } {tile.predicated}

// A row without a start slot, or without a place for the one state that it is to keep, is left alone.
// ALL-DAG:   arith.cmpi sge, %[[FROM]], %[[FIRST]]
// ALL-DAG:   arith.cmpi slt, %[[FROM]], %[[POOLIN]]
// ALL-DAG:   arith.cmpi sge, %[[TO]], %[[FIRST]]
// ALL-DAG:   arith.cmpi slt, %[[TO]], %[[POOLOUT]]
// ALL-DAG:   %[[ALL:.+]] = arith.cmpi sgt, %[[DSTWIDTH]]
// ALL:       scf.if %{{.+}} {

// The state comes before all maths, which is done while it is on its way.
// ALL:         %[[STORED:.+]] = scf.if
// ALL:           tile.splat
// ALL:         } else {
// KV:            tile.load %[[IN]][%{{.+}}, %[[HEAD]], %[[C0]], %[[COLUMN]]] axes [2, 3] in_bounds [true, true] {{.*}} -> tensor<64x64xf32, #[[STATE]]>
// VK:            tile.load %[[IN]][%{{.+}}, %[[HEAD]], %[[COLUMN]], %[[C0]]] axes [3, 2] in_bounds [true, true] {{.*}} -> tensor<64x64xbf16, #[[STATE]]>
// VK:          arith.extf %[[STORED]]
// ALL:         %[[LAST:.+]]:5 = scf.for %[[TOKEN:.+]] = %[[BEGIN32]] to %[[END:.+]] step %{{.+}} iter_args(%[[S:.+]] = %{{.+}}, %[[Q0:.+]] = %[[INPUTS]]#0, %[[K0:.+]] = %[[INPUTS]]#1, %[[V0:.+]] = %[[INPUTS]]#2, %[[G0:.+]] = %[[INPUTS]]#3)
// ALL:           %[[QF:.+]] = arith.extf %[[Q0]]
// ALL:           %[[KF:.+]] = arith.extf %[[K0]]
// ALL:           %[[VF:.+]] = arith.extf %[[V0]]
// ALL:           %[[GF:.+]] = arith.extf %[[G0]]
// How much of the write the output gets, q.k, is known before the state is looked at.
// ALL:           %[[PRODUCT:.+]] = arith.mulf %[[QF]], %[[KF]]
// ALL:           %[[QK:.+]] = tile.reduce %[[PRODUCT]] axis 0
// ALL-DAG:       %[[E:.+]] = math.exp %[[GF]]
// ALL-DAG:       %[[KT:.+]] = tile.convert %[[KF]] : {{.*}} -> tensor<64xf32, #[[OFKEY]]>
// ALL-DAG:       %[[QT:.+]] = tile.convert %[[QF]] : {{.*}} -> tensor<64xf32, #[[OFKEY]]>
// One pass over the state for both reads, although the second reads the state after the write.
// ALL-NOT:       tile.dot
// ALL:           %[[READS:.+]]:2 = tile.dot %[[KT]], %[[QT]] with %[[S]] axis 0
// ALL-NOT:       tile.dot
// The decay of a head comes after the sum: V products instead of K x V.
// ALL:           %[[ES:.+]] = tile.splat %[[E]] : f32 -> tensor<64xf32, #[[OFVALUE]]>
// ALL-DAG:       %[[OLD:.+]] = arith.mulf %[[READS]]#0, %[[ES]]
// ALL-DAG:       %[[BASE:.+]] = arith.mulf %[[READS]]#1, %[[ES]]
// ALL:           %[[U:.+]] = arith.subf %[[VF]], %[[OLD]]
// ALL:           %[[QKS:.+]] = tile.splat %[[QK]]
// ALL:           %[[OUTPUT:.+]] = math.fma %[[QKS]], %[[U]], %[[BASE]]
// ALL:           %[[ROUNDED:.+]] = arith.truncf %[[OUTPUT]]
// ALL:           tile.store %[[ROUNDED]], %[[O]][%[[BATCH]], %{{.+}}, %[[HEAD]], %[[COLUMN]]] axes [3] in_bounds [true]
// The next token's inputs take the place of this one's while the state is updated.
// ALL:           %[[NEXTINPUTS:.+]]:4 = scf.if
// ALL:             tile.load %[[Q]]
// ALL:             memref.load %[[G]]
// The new state, e^g S + k u^T, once.
// ALL:           %[[EM:.+]] = tile.splat %[[E]] : f32 -> tensor<64x64xf32, #[[STATE]]>
// ALL:           %[[DECAYED:.+]] = arith.mulf %[[S]], %[[EM]]
// ALL:           %[[A:.+]] = tile.expand %[[KT]] axis 1
// ALL:           %[[B:.+]] = tile.expand %[[U]] axis 0
// ALL:           %[[NEXT:.+]] = math.fma %[[A]], %[[B]], %[[DECAYED]]
// Where every state is kept, each goes to its own slot; null entries keep none.
// ALL:           scf.if
// ALL:             memref.load %[[DST]][%[[ROW]], %{{.+}}]
// ALL:             scf.if
// ALL:               tile.store {{.*}}, %[[OUT]]
// ALL:           scf.yield %[[NEXT]], %[[NEXTINPUTS]]#0
// ALL:         }
// Else the last one, rounded once.
// ALL:         scf.if
// VK:            %[[STATEOUT:.+]] = arith.truncf %[[LAST]]#0
// KV:            tile.store %[[LAST]]#0, %[[OUT]][%{{.+}}, %[[HEAD]], %[[C0]], %[[COLUMN]]] axes [2, 3] in_bounds [true, true]
// VK:            tile.store %[[STATEOUT]], %[[OUT]][%{{.+}}, %[[HEAD]], %[[COLUMN]], %[[C0]]] axes [3, 2] in_bounds [true, true]
// Null rows get zeros and touch no state.
// ALL:       } else {
// ALL-NOT:     load
// ALL:         scf.for %[[TOKEN:.+]] = %[[BEGIN32]] to %[[END]]
// ALL:           tile.store %{{.+}}, %[[O]][%[[BATCH]], %{{.+}}, %[[HEAD]], %[[COLUMN]]]
// ALL-NOT:     tile.store
// ALL:       tile.return

// Where tiles overhang V, every access along V is masked, no other: state in, value, output, state out, zeros.
// MASK-LABEL: tile.kernel @delta_decode(
// MASK-SAME:  grid = ["HV", ["min", "N", 32768]
// MASK:       tile.load {{.*}} axes [3] in_bounds [true] : memref<?x?x?x64xbf16,
// MASK:       tile.load {{.*}} axes [3] in_bounds [true] : memref<?x?x?x64xbf16,
// MASK:       tile.load {{.*}} axes [3] in_bounds [false] : memref<?x?x?x48xbf16, {{.*}} -> tensor<64xbf16,
// MASK:       tile.load {{.*}} axes [2, 3] in_bounds [true, false] : memref<?x?x64x48xf32, {{.*}} -> tensor<64x64xf32,
// MASK:       tile.store {{.*}} axes [3] in_bounds [false]
// MASK:       tile.store {{.*}} axes [2, 3] in_bounds [true, false]
// MASK:       tile.store {{.*}} axes [2, 3] in_bounds [true, false]
// MASK:       } else {
// MASK:       tile.store {{.*}} axes [3] in_bounds [false]

// F32-LABEL:  tile.kernel @delta_decode(
// F32-SAME:   memref<?x?x?x128xf32
// F32-SAME:   memref<?x?x?xf32
// F32-SAME:   min_blocks = 3
// F32-NOT:    arith.{{extf|truncf}}
// Where the lanes of the tile hold each key once, key vectors are computed in the tile's own layout.
// F32-NOT:    tile.convert
// F32:        tile.dot
// F32-NOT:    tile.convert
// F32-NOT:    arith.{{extf|truncf}}
// F32:        tile.return

// Single arguments have types of their own, slots are of 64 bits. A launch may start early: it waits before it reads anything,
// and lets the next one in before the state goes out.
// EARLY-LABEL: tile.kernel @delta_decode(
// EARLY-SAME:  memref<?x?x?x128xf32, strided<[?, ?, ?, 1]>> {tile.access = "r", tile.name = "v"
// EARLY-SAME:  memref<?x?x?x128xf16, strided<[?, ?, ?, 1]>> {tile.access = "w", tile.name = "o"
// EARLY-SAME:  memref<?x?xi64, strided<[?, ?]>> {{{.*}}tile.name = "src_slots"
// EARLY-SAME:  memref<?xi64, strided<[?]>> {{{.*}}tile.name = "cu_seqlens"
// EARLY-NOT:   load
// EARLY:       tile.grid_wait
// EARLY:       memref.load
// EARLY:       scf.for
// EARLY:         scf.yield
// EARLY:       tile.grid_release
// EARLY:       scf.if
// EARLY-NOT:   tile.grid_release
// EARLY:       tile.return

linattn.operator @delta(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) {
  %S1 = linattn.decay %S, %g : !per_head
  %old = linattn.read %S1, %k : !key -> !value
  %u = arith.subf %v, %old : !value
  %S2 = linattn.write %S1, %k, %u : !key, !value
  %o = linattn.read %S2, %q : !key -> !value
  linattn.yield %S2, %o : !linattn.state, !value
}

// -----

!key = tensor<?xf32, #linattn.of<key, value_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>

// A read before the decay and the write sees the state as it was. The decay of a channel goes to the key of a read and to the
// rows of the state. Nothing here belongs to key heads, so there is no head ratio.
// ALL-LABEL: tile.kernel @early_decode(
// ALL-NOT:   head_ratio
// ALL:       scf.for {{.*}} iter_args(%[[S:[a-z0-9]+]] = %
// KV-DAG:      %[[X:.+]] = tile.convert %[[XL:.+]] :
// KV-DAG:      tile.dot %[[X]] with %[[S]] axis 0
// ALL:         tile.store
// ALL:         %[[E:.+]] = math.exp
// ALL:         %[[ROWS:.+]] = tile.expand %{{.+}} axis 1
// ALL:         %[[DECAYED:.+]] = arith.mulf %[[S]], %[[ROWS]]
// ALL:         math.fma %{{.+}}, %{{.+}}, %[[DECAYED]]
linattn.operator @early(%x: !key, %w: !key, %v: !value) state(%S: !linattn.state) -> (o: !value) {
  %o = linattn.read %S, %x : !key -> !value
  %S1 = linattn.decay %S, %w : !key
  %S2 = linattn.write %S1, %x, %v : !key, !value
  linattn.yield %S2, %o : !linattn.state, !value
}
