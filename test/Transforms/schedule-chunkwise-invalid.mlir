// RUN: not dl-opt %s --split-input-file --linattn-schedule-chunkwise="chunk=48" 2>&1 | FileCheck %s --check-prefix=CHUNK
// RUN: not dl-opt %s --split-input-file --linattn-schedule-chunkwise="key-dim=100" 2>&1 | FileCheck %s --check-prefix=KEYDIM
// RUN: not dl-opt %s --split-input-file --linattn-schedule-chunkwise="value-tile=48" 2>&1 | FileCheck %s --check-prefix=TILE
// RUN: not dl-opt %s --split-input-file --linattn-schedule-chunkwise 2>&1 | FileCheck %s --check-prefix=SERVED

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>

// CHUNK:  [[@LINE+3]]:1: error: chunk: expected 16, 32, 64 or 128, got 48
// KEYDIM: [[@LINE+2]]:1: error: key-dim: expected a multiple of 16 from 16 to 256, got 100
// TILE:   [[@LINE+1]]:1: error: value-tile: expected a power of two times 16, at most 16 times the chunk's 32 tokens and 256, got 48
linattn.operator @linear(%q: !key, %k: !key, %v: !value) state(%S: !linattn.state) -> (o: !value) {
  %S1 = linattn.write %S, %k, %v : !key, !value
  %o = linattn.read %S1, %q : !key -> !value
  linattn.yield %S1, %o : !linattn.state, !value
}

// -----

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!gate = tensor<?xf32, #linattn.of<value, value_head>>

linattn.operator @along_value(%q: !key, %k: !key, %v: !value, %g: !gate) state(%S: !linattn.state) -> (o: !value) {
  // SERVED: [[@LINE+1]]:{{[0-9]+}}: error: {{.*}}has no chunkwise kernel yet (B2): expected decays along scalar or key, got one along value
  %S1 = linattn.decay %S, %g : !gate
  %S2 = linattn.write %S1, %k, %v : !key, !value
  %o = linattn.read %S2, %q : !key -> !value
  linattn.yield %S2, %o : !linattn.state, !value
}

// -----

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>

// The second write is a row behind the decay, where what was read before it has no place.
linattn.operator @late(%q: !key, %k: !key, %r: !key, %v: !value, %g: !key) state(%S: !linattn.state) -> (o: !value) {
  %old = linattn.read %S, %k : !key -> !value
  %S1 = linattn.decay %S, %g : !key
  %S2 = linattn.write %S1, %k, %v : !key, !value
  // SERVED: [[@LINE+1]]:{{[0-9]+}}: error: {{.*}}has no chunkwise kernel yet (B6): expected no decay between an earlier write and a read before it
  %S3 = linattn.write %S2, %r, %old : !key, !value
  %o = linattn.read %S3, %q : !key -> !value
  linattn.yield %S3, %o : !linattn.state, !value
}

// -----

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!matrix = tensor<?x?xf32, #linattn.of<key_value, value_head>>

// What no chunkwise form has is refused by the analysis.
linattn.operator @elementwise(%q: !key, %k: !key, %v: !value, %g: !matrix) state(%S: !linattn.state) -> (o: !value) {
  // SERVED: [[@LINE+1]]:{{[0-9]+}}: error: {{.*}}A1
  %S1 = linattn.decay %S, %g : !matrix
  %S2 = linattn.write %S1, %k, %v : !key, !value
  %o = linattn.read %S2, %q : !key -> !value
  linattn.yield %S2, %o : !linattn.state, !value
}
