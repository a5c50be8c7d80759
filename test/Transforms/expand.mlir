// RUN: dl-opt %s --linattn-expand --verify-roundtrip | FileCheck %s
// RUN: dl-opt %s --linattn-expand --cse --canonicalize | FileCheck %s --check-prefix=TIDY

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>

// CHECK-LABEL: linattn.operator @sigmoid
// CHECK-NEXT:      params
// CHECK-NEXT:      state
// CHECK-NEXT:    %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:    %[[ONES:.*]] = linattn.broadcast %[[ONE]] : f32 -> !per_head
// CHECK-NEXT:    %[[NEG:.*]] = arith.negf %b : !per_head
// CHECK-NEXT:    %[[EXP:.*]] = math.exp %[[NEG]] : !per_head
// CHECK-NEXT:    %[[SUM:.*]] = arith.addf %[[ONES]], %[[EXP]] : !per_head
// CHECK-NEXT:    arith.divf %[[ONES]], %[[SUM]] : !per_head
// f32 needs no broadcast:
// CHECK-NEXT:    %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK-NEXT:    arith.negf %x : f32
linattn.operator @sigmoid(%q: !key, %b: !per_head) params(%x: f32) state(%S: !linattn.state)
    -> (o: !value, p: !per_head, r: !per_head) {
  %0 = linattn.sigmoid %b : !per_head
  %1 = linattn.sigmoid %x : f32
  %2 = linattn.broadcast %1 : f32 -> !per_head
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o, %0, %2 : !linattn.state, !value, !per_head, !per_head
}

// CHECK-LABEL: linattn.operator @softplus
// CHECK-NEXT:      state
// CHECK-NEXT:    %[[T:.*]] = arith.constant 2.000000e+01 : f32
// CHECK-NEXT:    %[[TS:.*]] = linattn.broadcast %[[T]] : f32 -> !per_head
// CHECK-NEXT:    %[[LARGE:.*]] = arith.cmpf ogt, %a, %[[TS]] : !per_head
// CHECK-NEXT:    %[[EXP:.*]] = math.exp %a : !per_head
// CHECK-NEXT:    %[[LOG:.*]] = math.log1p %[[EXP]] : !per_head
// CHECK-NEXT:    arith.select %[[LARGE]], %a, %[[LOG]] : tensor<i1, #linattn.of<scalar, value_head>>, !per_head
linattn.operator @softplus(%q: !key, %a: !per_head) state(%S: !linattn.state)
    -> (o: !value, p: !per_head) {
  %0 = linattn.softplus %a : !per_head
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o, %0 : !linattn.state, !value, !per_head
}

// CHECK-LABEL: linattn.operator @l2norm
// CHECK-NEXT:      state
// CHECK-NEXT:    %[[SQ:.*]] = arith.mulf %q, %q : !key
// CHECK-NEXT:    %[[SUM:.*]] = linattn.reduce %[[SQ]] : !key -> !per_key_head
// CHECK-NEXT:    %[[EPS:.*]] = arith.constant 9.99999997E-7 : f32
// CHECK-NEXT:    %[[E:.*]] = linattn.broadcast %[[EPS]] : f32 -> !per_key_head
// CHECK-NEXT:    %[[ADD:.*]] = arith.addf %[[SUM]], %[[E]] : !per_key_head
// CHECK-NEXT:    %[[R:.*]] = math.rsqrt %[[ADD]] : !per_key_head
// CHECK-NEXT:    %[[RS:.*]] = linattn.broadcast %[[R]] : !per_key_head -> !key
// CHECK-NEXT:    %[[N:.*]] = arith.mulf %q, %[[RS]] : !key
// CHECK-NEXT:    linattn.read %S, %[[N]] : !key -> !value

// The usual clean-up shares the constant of two norms.
// TIDY-LABEL: linattn.operator @l2norm
// TIDY:         arith.constant
// TIDY-NOT:     arith.constant
// TIDY:         linattn.yield
linattn.operator @l2norm(%q: !key, %k: !key, %v: !value) state(%S: !linattn.state) -> (o: !value) {
  %0 = linattn.l2norm %q : !key
  %o = linattn.read %S, %0 : !key -> !value
  %1 = linattn.l2norm %k : !key
  %2 = linattn.write %S, %1, %v : !key, !value
  linattn.yield %2, %o : !linattn.state, !value
}
