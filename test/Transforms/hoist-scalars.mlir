// RUN: dl-opt %s --linattn-hoist-scalars --canonicalize --cse | FileCheck %s

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
!per_key_head = tensor<f32, #linattn.of<scalar, key_head>>

// A read's factor multiplies its result, a write's its value; so does a product of two. A factor that is a vector stays.

// CHECK-LABEL: linattn.operator @hoist
// CHECK-SAME:  (%q: !key, %k: !key, %v: !value, %n: !per_key_head
linattn.operator @hoist(%q: !key, %k: !key, %v: !value, %n: !per_key_head)
    params(%scale: f32) state(%S: !linattn.state) -> (o: !value) {
  %norm = linattn.broadcast %n : !per_key_head -> !key
  %kn = arith.mulf %k, %norm : !key
  // CHECK-DAG: %[[N:.+]] = linattn.broadcast %n : !per_key_head -> !value
  // CHECK-DAG: %[[VN:.+]] = arith.mulf %v, %[[N]] : !value
  // CHECK:     %[[S1:.+]] = linattn.write %S, %k, %[[VN]]
  %S1 = linattn.write %S, %kn, %v : !key, !value
  %scales = linattn.broadcast %scale : f32 -> !key
  %q1 = arith.mulf %scales, %q : !key
  %q2 = arith.mulf %q1, %norm : !key
  // CHECK-DAG: %[[PRODUCT:.+]] = linattn.read %[[S1]], %q : !key -> !value
  // CHECK-DAG: %[[SCALE:.+]] = linattn.broadcast %scale : f32 -> !value
  // CHECK-DAG: %[[SCALED:.+]] = arith.mulf %[[PRODUCT]], %[[SCALE]] : !value
  // CHECK-DAG: %[[R:.+]] = arith.mulf %[[SCALED]], %[[N]] : !value
  %r = linattn.read %S1, %q2 : !key -> !value
  // CHECK-DAG: %[[QK:.+]] = arith.mulf %q, %k : !key
  // CHECK-DAG: %[[VECTOR:.+]] = linattn.read %[[S1]], %[[QK]]
  %qk = arith.mulf %q, %k : !key
  %vector = linattn.read %S1, %qk : !key -> !value
  // CHECK:     arith.addf %[[R]], %[[VECTOR]]
  %o = arith.addf %r, %vector : !value
  linattn.yield %S1, %o : !linattn.state, !value
}
