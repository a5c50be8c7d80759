// How precise the factors of products are: by the factor with which reads enter writes, or as is forced.
//
// RUN: dl-opt %s --split-input-file --linattn-schedule-chunkwise="key-dim=64 value-dim=64" --canonicalize --cse | FileCheck %s
// RUN: dl-opt %s --split-input-file --linattn-schedule-chunkwise="key-dim=16 value-dim=64" --canonicalize --cse | FileCheck %s --check-prefix=NARROW
// RUN: dl-opt %s --split-input-file --linattn-schedule-chunkwise="key-dim=64 value-dim=64 precision=hilo" --canonicalize --cse | FileCheck %s --check-prefix=HILO
// RUN: dl-opt %s --split-input-file --linattn-schedule-chunkwise="key-dim=64 value-dim=64 precision=bf16" --canonicalize --cse | FileCheck %s --check-prefix=BF16
// RUN: not dl-opt %s --split-input-file --linattn-schedule-chunkwise="precision=tf32" 2>&1 | FileCheck %s --check-prefix=ERROR
//
// ERROR: precision: expected auto, bf16 or hilo, got 'tf32'
// BF16-NOT: hilo

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>

// Two at most: the Gram, the right-hand side, the solution and the new state, and in outputs the product with writes. What
// is read of the state before the chunk by outputs alone is in bf16.
// CHECK-LABEL: tile.kernel @two_prefill(
// CHECK:        tile.local_store %{{.+}}, %[[XQ:.+]] : tensor<32x64xbf16
// CHECK:        tile.local_store %{{.+}}, %[[XK:.+]] : tensor<32x64xbf16
// CHECK:        tile.local_store %{{.+}}, %[[XK_REST:.+]] : tensor<32x64xbf16
// CHECK:        tile.local_store %{{.+}}, %[[A:.+]] : tensor<32x64xbf16
// CHECK:        tile.local_store %{{.+}}, %[[A_REST:.+]] : tensor<32x64xbf16
// CHECK:        tile.decayed_gram {{.*}} in bf16 hilo
// CHECK:        tile.local_store %{{.+}}, %[[NQ:.+]] : tensor<32x32xbf16
// CHECK:        tile.local_store %{{.+}}, %[[NQ_REST:.+]] : tensor<32x32xbf16
// CHECK:        tile.local_store %{{.+}}, %[[INVERSE:.+]] : tensor<32x32xbf16
// CHECK:        tile.local_store %{{.+}}, %[[INVERSE_REST:.+]] : tensor<32x32xbf16
// CHECK:        %[[RHS:.+]] = tile.mma %{{.+}}, %[[XK]] rest %[[XK_REST]], %{{.+}} hilo : tensor<64x64xf32
// CHECK:        %[[B:.+]] = tile.mma %{{.+}}, %[[INVERSE]] rest %[[INVERSE_REST]], %[[RHS]] hilo : tensor<64x32xf32
// CHECK:        %[[O:.+]] = tile.mma %[[XQ]], %{{.+}}, %{{.+}} : {{.*}}tensor<64x64xbf16
// CHECK:        %[[WRITES:.+]] = tile.transpose %[[B]] : tensor<64x32xf32
// CHECK:        tile.mma %[[NQ]], %[[WRITES]] rest %[[NQ_REST]], %[[O]] hilo :
// CHECK:        tile.mma %{{.+}}, %[[A]] rest %[[A_REST]], %{{.+}} transposed hilo : tensor<64x32xf32
// BF16-LABEL:   tile.kernel @two_prefill(
linattn.operator @two(%q: !key, %k: !key, %v: !value, %beta: !per_head {linattn.bound = 2.0}) state(%S: !linattn.state) -> (o: !value) {
  %p = linattn.read %S, %k : !key -> !value
  %e = arith.subf %v, %p : !value
  %b = linattn.broadcast %beta : !per_head -> !value
  %u = arith.mulf %b, %e : !value
  %S1 = linattn.write %S, %k, %u : !key, !value
  %o = linattn.read %S1, %q : !key -> !value
  linattn.yield %S1, %o : !linattn.state, !value
}

// -----

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>

// One at most: bf16, unless keys are short.
// CHECK-LABEL: tile.kernel @one_prefill(
// CHECK-NOT:   hilo
// NARROW-LABEL: tile.kernel @one_prefill(
// NARROW:       hilo
// HILO-LABEL:  tile.kernel @one_prefill(
// HILO-COUNT-5: hilo
linattn.operator @one(%q: !key, %k: !key, %v: !value, %beta: !per_head {linattn.bound = 1.0}) state(%S: !linattn.state) -> (o: !value) {
  %p = linattn.read %S, %k : !key -> !value
  %e = arith.subf %v, %p : !value
  %b = linattn.broadcast %beta : !per_head -> !value
  %u = arith.mulf %b, %e : !value
  %S1 = linattn.write %S, %k, %u : !key, !value
  %o = linattn.read %S1, %q : !key -> !value
  linattn.yield %S1, %o : !linattn.state, !value
}

// -----

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>

// Nothing says how large it is: bf16.
// CHECK-LABEL: tile.kernel @unknown_prefill(
// CHECK-NOT:   hilo
// NARROW-LABEL: tile.kernel @unknown_prefill(
// NARROW-NOT:  hilo
// HILO-LABEL:  tile.kernel @unknown_prefill(
// HILO-COUNT-5: hilo
linattn.operator @unknown(%q: !key, %k: !key, %v: !value, %beta: !per_head) state(%S: !linattn.state) -> (o: !value) {
  %p = linattn.read %S, %k : !key -> !value
  %e = arith.subf %v, %p : !value
  %b = linattn.broadcast %beta : !per_head -> !value
  %u = arith.mulf %b, %e : !value
  %S1 = linattn.write %S, %k, %u : !key, !value
  %o = linattn.read %S1, %q : !key -> !value
  linattn.yield %S1, %o : !linattn.state, !value
}
