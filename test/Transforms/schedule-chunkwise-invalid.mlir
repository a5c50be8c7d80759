// RUN: not dl-opt %s --split-input-file --linattn-schedule-chunkwise="chunk=48" 2>&1 | FileCheck %s --check-prefix=CHUNK
// RUN: not dl-opt %s --split-input-file --linattn-schedule-chunkwise="key-dim=100" 2>&1 | FileCheck %s --check-prefix=KEYDIM
// RUN: not dl-opt %s --split-input-file --linattn-schedule-chunkwise="value-tile=48" 2>&1 | FileCheck %s --check-prefix=TILE
// RUN: not dl-opt %s --split-input-file --linattn-schedule-chunkwise="chunk=16" 2>&1 | FileCheck %s --check-prefix=FEWROWS
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

// FEWROWS: [[@LINE+1]]:1: error: chunk: expected at least 32 rows, 16 times those of a token, got 16
linattn.operator @twice(%q: !key, %k: !key, %r: !key, %v: !value) state(%S: !linattn.state) -> (o: !value) {
  %S1 = linattn.write %S, %k, %v : !key, !value
  %S2 = linattn.write %S1, %r, %v : !key, !value
  %o = linattn.read %S2, %q : !key -> !value
  linattn.yield %S2, %o : !linattn.state, !value
}

// -----

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>

// In the row of the second write what the read saw is decayed by more than the row's decay.
linattn.operator @decayed(%q: !key, %k: !key, %r: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) {
  // SERVED: [[@LINE+4]]:{{[0-9]+}}: error: {{.*}}has no chunkwise kernel yet (B6): expected no decay between an earlier write and a read before it
  %old = linattn.read %S, %k : !key -> !value
  %S1 = linattn.decay %S, %g : !per_head
  %S2 = linattn.write %S1, %k, %v : !key, !value
  %S3 = linattn.write %S2, %r, %old : !key, !value
  %o = linattn.read %S3, %q : !key -> !value
  linattn.yield %S3, %o : !linattn.state, !value
}

// -----

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>

linattn.operator @nine(%q: !key, %k: !key, %v: !value) state(%S: !linattn.state) -> (o: !value) {
  %S1 = linattn.write %S, %k, %v : !key, !value
  %S2 = linattn.write %S1, %k, %v : !key, !value
  %S3 = linattn.write %S2, %k, %v : !key, !value
  %S4 = linattn.write %S3, %k, %v : !key, !value
  %S5 = linattn.write %S4, %k, %v : !key, !value
  %S6 = linattn.write %S5, %k, %v : !key, !value
  %S7 = linattn.write %S6, %k, %v : !key, !value
  %S8 = linattn.write %S7, %k, %v : !key, !value
  // SERVED: [[@LINE+1]]:{{[0-9]+}}: error: {{.*}}has no chunkwise kernel yet (B5): expected at most 8 writes per token, got 9
  %S9 = linattn.write %S8, %k, %v : !key, !value
  %o = linattn.read %S9, %q : !key -> !value
  linattn.yield %S9, %o : !linattn.state, !value
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
