// RUN: dl-opt %s --linattn-schedule-log="kernel=append window=16 max-tokens=1 key-dim=64 value-dim=64" --canonicalize --cse | FileCheck %s
// RUN: dl-opt %s --linattn-schedule-log="kernel=append window=4 max-tokens=4 key-dim=64 value-dim=64" --canonicalize --cse | FileCheck %s --check-prefix=TOKENS
// RUN: dl-opt %s --linattn-schedule-log="kernel=merge window=16 max-tokens=1 key-dim=64 value-dim=64" --canonicalize --cse | FileCheck %s --check-prefix=MERGE
// RUN: dl-opt %s --linattn-schedule-log="kernel=materialize window=16 max-tokens=1 key-dim=64 value-dim=64" --canonicalize --cse | FileCheck %s --check-prefix=MATERIALIZE
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>

// What they compute is in test/Integration/log_test. A rule without feedback logs its inputs, and the sum of its decays.
// CHECK-LABEL: tile.kernel @linear_append(
// CHECK-SAME:  tile.name = "q", tile.role = "input"
// CHECK-SAME:  tile.name = "o", tile.role = "output"
// CHECK-SAME:  memref<?x?x64x64xf32, {{.*}}tile.access = "rw", tile.name = "S", tile.role = "state", tile.shape = ["slots", "HV", 64, 64]
// CHECK-SAME:  %[[KEYS:[a-z0-9]+]]: memref<?x?x17x64xbf16, {{.*}}tile.access = "rw", tile.name = "log_k", tile.role = "log", tile.shape = ["slots", "HQ", 17, 64]
// CHECK-SAME:  %[[VALUES:[a-z0-9]+]]: memref<?x?x17x64xbf16, {{.*}}tile.name = "log_v", tile.role = "log", tile.shape = ["slots", "HV", 17, 64]
// CHECK-SAME:  %[[DECAYS:[a-z0-9]+]]: memref<?x?x17xf32, {{.*}}tile.name = "log_decay", tile.role = "log", tile.shape = ["slots", "HV", 17]
// CHECK-SAME:  %[[DESCRIPTORS:[a-z0-9]+]]: memref<?x12xi32, {{.*}}tile.role = "descriptors"
// The descriptor at once; then, if a checkpoint is wanted, that.
// CHECK-COUNT-11: memref.load %[[DESCRIPTORS]]
// CHECK:       tile.predicated
// CHECK:       tile.rank_update
// The base and the entries, decayed to the newest; a merge before the token.
// CHECK:       tile.load %{{.+}} axes [2, 3]
// CHECK:       tile.predicated
// CHECK:       tile.ring_load %[[KEYS]][{{.*}}] axes [2, 3] in_bounds [true, true] count %{{.+}} : {{.*}} -> tensor<16x64xbf16
// CHECK:       tile.ring_load %[[VALUES]]
// CHECK:       tile.ring_load %[[DECAYS]][{{.*}}] axes [2]
// CHECK:       tile.rank_update
// The token: one pass for base and entries, and for an empty log one over the base alone.
// CHECK:       tile.dot %{{.+}} with %{{.+}} axis 1
// CHECK:       tile.dot %{{.+}} with %{{.+}} and %{{.+}} with %{{.+}} axis 0
// CHECK:       tile.dot %{{.+}} with %{{.+}} axis 0
// Its entry, or a merge that takes it along.
// CHECK:       tile.insert
// CHECK:       tile.rank_update
// CHECK:       tile.store %{{.+}}, %[[KEYS]]
// CHECK:       tile.store %{{.+}}, %[[VALUES]]
// CHECK:       memref.store %{{.+}}, %[[DECAYS]]

// Several tokens: the log goes from one to the next.
// TOKENS-LABEL: tile.kernel @linear_append(
// TOKENS-SAME:  tile.name = "log_k", tile.role = "log", tile.shape = ["slots", "HQ", 8, 64]
// TOKENS:       scf.for %{{.+}} = %{{.+}} to %{{.+}} step %c1_i32 iter_args({{.*}}) -> (i32, tensor<4x64xf32
// TOKENS:       tile.insert
// TOKENS:       scf.yield

// MERGE-LABEL: tile.kernel @linear_merge(
// MERGE-NOT:   "input"
// MERGE-COUNT-2: tile.rank_update
// MERGE-NOT:   tile.dot

// MATERIALIZE-LABEL: tile.kernel @linear_materialize(
// MATERIALIZE-SAME:  tile.access = "r", tile.name = "S", tile.role = "state_in", tile.shape = ["slots"
// MATERIALIZE-SAME:  tile.name = "cursors", tile.role = "cursors"
// MATERIALIZE-SAME:  tile.name = "counts", tile.nullable, tile.role = "counts"
// MATERIALIZE-SAME:  tile.name = "S", tile.role = "state_out", tile.shape = ["pool_out"
// MATERIALIZE:       tile.rank_update
linattn.operator @linear(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) {
  %S1 = linattn.decay %S, %g : !per_head
  %S2 = linattn.write %S1, %k, %v : !key, !value
  %o = linattn.read %S2, %q : !key -> !value
  linattn.yield %S2, %o : !linattn.state, !value
}
