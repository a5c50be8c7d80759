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
  // SERVED: [[@LINE+1]]:{{[0-9]+}}: error: {{.*}}has no chunkwise kernel yet: expected decays of axis scalar or key, got value
  %S1 = linattn.decay %S, %g : !gate
  %S2 = linattn.write %S1, %k, %v : !key, !value
  %o = linattn.read %S2, %q : !key -> !value
  linattn.yield %S2, %o : !linattn.state, !value
}

// -----

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>

linattn.operator @twice(%q: !key, %k: !key, %r: !key, %v: !value) state(%S: !linattn.state) -> (o: !value) {
  %S1 = linattn.write %S, %k, %v : !key, !value
  // SERVED: [[@LINE+1]]:{{[0-9]+}}: error: {{.*}}has no chunkwise kernel yet: expected one write per token, got 2
  %S2 = linattn.write %S1, %r, %v : !key, !value
  %o = linattn.read %S2, %q : !key -> !value
  linattn.yield %S2, %o : !linattn.state, !value
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
