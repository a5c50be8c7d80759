// RUN: dl-opt %s --linattn-schedule-log="kernel=plan window=16 max-tokens=4" --canonicalize --cse | FileCheck %s
// RUN: dl-opt %s --linattn-schedule-log="kernel=plan window=1 max-tokens=16 index-type=i64 starts-early=1" --canonicalize --cse | FileCheck %s --check-prefix=EARLY
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>

// What it computes is in test/Integration/log_plan_test.cpp. Of the operator only the name is left.
// CHECK-LABEL: tile.kernel @linear_plan(
// CHECK-SAME:  %[[SRC:[a-z0-9]+]]: memref<?xi32, strided<[?]>> {tile.access = "r", tile.name = "src_slots", tile.nullable, tile.role = "slots_in", tile.shape = ["N"]}
// CHECK-SAME:  tile.name = "dst_slots", tile.nullable, tile.role = "slots_out"
// CHECK-SAME:  tile.name = "cu_seqlens", tile.nullable, tile.role = "row_starts", tile.shape = {{\[\["add", "N", 1\]\]}}
// CHECK-SAME:  tile.name = "num_accepted_tokens", tile.nullable, tile.role = "accepted"
// CHECK-SAME:  memref<?xi8, strided<[?]>> {{{.*}}tile.name = "initial_state", tile.nullable, tile.role = "row_flags"
// CHECK-SAME:  memref<?xi8, strided<[?]>> {{{.*}}tile.name = "flush", tile.nullable, tile.role = "flush"
// CHECK-SAME:  tile.name = "checkpoint_slots", tile.nullable, tile.role = "checkpoint_slots"
// CHECK-SAME:  tile.name = "checkpoint_offsets", tile.nullable, tile.role = "checkpoint_offsets"
// CHECK-SAME:  %[[CURSORS:[a-z0-9]+]]: memref<?x4xi32, strided<[?, 1]>> {tile.access = "rw", tile.name = "cursors", tile.role = "cursors", tile.shape = ["slots", 4]}
// CHECK-SAME:  %[[DESCRIPTORS:[a-z0-9]+]]: memref<?x12xi32, strided<[?, 1]>> {tile.access = "w", tile.name = "descriptors", tile.role = "descriptors", tile.shape = ["N", 12]}
// CHECK-SAME:  {tile.default = 0 : i64, tile.name = "first_slot"
// CHECK-SAME:  {tile.default = 1 : i64, tile.name = "tokens"
// CHECK-SAME:  {tile.default = 0 : i64, tile.name = "final"
// CHECK-SAME:  tile.value = "N"}
// CHECK-SAME:  tile.value = "slots"}
// CHECK-SAME:  grid = ["N", 1, 1]
// CHECK-SAME:  threads = 32
// CHECK-NOT:   tile.grid_wait
// CHECK:       %[[ROW:.+]] = gpu.block_id x
// The cursor is read if the row is live and does not start anew; it is clamped before use.
// CHECK:       %[[CURSOR:.+]]:4 = scf.if %[[READS:.+]] -> (i32, i32, i32, i32)
// CHECK-COUNT-4: memref.load %[[CURSORS]][%[[SLOT:.+]], %{{.+}}]
// CHECK:       arith.maxsi %[[CURSOR]]#0, %c0_i32
// CHECK-NEXT:  arith.minsi %{{.+}}, %c19_i32
// CHECK:       arith.maxsi %[[CURSOR]]#1, %c0_i32
// CHECK-NEXT:  arith.minsi %{{.+}}, %c16_i32
// CHECK:       arith.maxsi %[[CURSOR]]#2, %c0_i32
// CHECK-NEXT:  arith.minsi %{{.+}}, %c4_i32
// Every row has a descriptor; cursors are written by live rows, and where there is a checkpoint.
// CHECK-COUNT-12: memref.store %{{.+}}, %[[DESCRIPTORS]][%[[ROW]], %{{.+}}]
// CHECK:       scf.if
// CHECK-COUNT-4: memref.store %{{.+}}, %[[CURSORS]]
// CHECK:       scf.if
// CHECK-COUNT-4: memref.store %c0_i32, %[[CURSORS]]

// EARLY:       memref<?xi64, strided<[?]>> {{{.*}}tile.name = "src_slots"
// EARLY:       tile.grid_release
// EARLY-NEXT:  tile.grid_wait
// EARLY:       memref.load
linattn.operator @linear(%q: !key, %k: !key, %v: !value) state(%S: !linattn.state) -> (o: !value) {
  %S1 = linattn.write %S, %k, %v : !key, !value
  %o = linattn.read %S1, %q : !key -> !value
  linattn.yield %S1, %o : !linattn.state, !value
}
