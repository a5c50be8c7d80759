// RUN: dl-opt %s --linattn-schedule-recurrent="key-dim=64 value-dim=256" --canonicalize --cse | FileCheck %s
// RUN: dl-opt %s --linattn-schedule-recurrent="key-dim=64 value-dim=256 state-layout=vk" --canonicalize --cse | FileCheck %s
// RUN: dl-opt %s --linattn-schedule-recurrent="key-dim=64 value-dim=200" --canonicalize --cse | FileCheck %s --check-prefix=OVERHANG

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>

// The second read's key depends on the first read, so it takes a pass of its own; and the step sums along V, so no block holds
// less than all of V, whatever else would be chosen.
// CHECK-LABEL: tile.kernel @chained_decode(
// CHECK-SAME:  grid = ["HV", ["min", "N", 32768], ["ceildiv", "N", 32768]]
// CHECK:       tile.load {{.*}} -> tensor<64x256xf32,
// CHECK:       tile.dot {{.*}} -> tensor<256xf32,
// CHECK:       tile.reduce
// CHECK:       tile.dot {{.*}} -> tensor<256xf32,
// CHECK-NOT:   tile.dot
// Of columns beyond V a sum must see nothing: not even zeros, which need not stay zeros on the way to it. So the tile is exactly
// V wide, though its layout would hold more.
// OVERHANG:  tile.load {{.*}} axes [2, 3] in_bounds [true, true] : memref<?x?x64x200xf32, {{.*}} -> tensor<64x200xf32,
// OVERHANG:  tile.reduce %{{.+}} axis 0 : tensor<200xf32, {{.*}} -> f32
linattn.operator @chained(%q: !key, %k: !key, %v: !value) state(%S: !linattn.state) -> (o: !value) {
  %first = linattn.read %S, %q : !key -> !value
  %sum = linattn.reduce %first : !value -> !per_head
  %keys = linattn.broadcast %sum : !per_head -> tensor<?xf32, #linattn.of<key, value_head>>
  %o = linattn.read %S, %keys : tensor<?xf32, #linattn.of<key, value_head>> -> !value
  %S1 = linattn.write %S, %k, %v : !key, !value
  linattn.yield %S1, %o : !linattn.state, !value
}
