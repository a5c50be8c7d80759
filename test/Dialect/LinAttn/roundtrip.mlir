// RUN: dl-opt %s --verify-roundtrip | FileCheck %s
// RUN: dl-opt %s --mlir-print-op-generic | dl-opt | FileCheck %s
// RUN: dl-opt %s --emit-bytecode | dl-opt | FileCheck %s

// Kinds of tensors print as aliases, whatever the source calls them.
// CHECK-DAG: !key = tensor<?xf32, #linattn.of<key, key_head>>
// CHECK-DAG: !key_per_value_head = tensor<?xf32, #linattn.of<key, value_head>>
// CHECK-DAG: !value = tensor<?xf32, #linattn.of<value, value_head>>
// CHECK-DAG: !value_per_key_head = tensor<?xf32, #linattn.of<value, key_head>>
// CHECK-DAG: !per_head = tensor<f32, #linattn.of<scalar, value_head>>
// CHECK-DAG: !per_key_head = tensor<f32, #linattn.of<scalar, key_head>>
// CHECK-DAG: !key_value = tensor<?x?xf32, #linattn.of<key_value, value_head>>
!key = tensor<?xf32, #linattn.of<key, key_head>>
!channel = tensor<?xf32, #linattn.of<key, value_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!column = tensor<?xf32, #linattn.of<value, key_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
!per_key_head = tensor<f32, #linattn.of<scalar, key_head>>
!element = tensor<?x?xf32, #linattn.of<key_value, value_head>>

// CHECK-LABEL: linattn.operator @plain(%q: !key, %k: !key, %v: !value)
// CHECK-NEXT:      state(%S: !linattn.state) -> (o: !value) {
// CHECK-NEXT:    %[[S1:.*]] = linattn.write %S, %k, %v : !key, !value
// CHECK-NEXT:    %[[O:.*]] = linattn.read %[[S1]], %q : !key -> !value
// CHECK-NEXT:    linattn.yield %[[S1]], %[[O]] : !linattn.state, !value
linattn.operator @plain(%q: !key, %k: !key, %v: !value) state(%S: !linattn.state) -> (o: !value) {
  %S1 = linattn.write %S, %k, %v : !key, !value
  %o = linattn.read %S1, %q : !key -> !value
  linattn.yield %S1, %o : !linattn.state, !value
}

// The same names again: argument names belong to their operator and survive every form.
// CHECK-LABEL: linattn.operator @gated(%q: !key, %k: !key, %v: !value, %g: !per_head {linattn.dtype = f32})
// CHECK-NEXT:      params(%scale: f32 {linattn.default = "key_dim^-0.5"})
// CHECK-NEXT:      state(%S: !linattn.state) -> (o: !value)
// CHECK-NEXT:      options {floor = #linattn.number<-5.0 from -5.0 below 0.0>, kind = ["plain", "scaled"]} {
// CHECK-NEXT:    linattn.decay %S, %g bound "floor" : !per_head
// CHECK:         linattn.switch "kind" -> !value
// CHECK-NEXT:    case "plain" {
// CHECK-NEXT:      linattn.yield %{{.*}} : !value
// CHECK-NEXT:    }
// CHECK-NEXT:    case "scaled" {
// CHECK-NEXT:      linattn.broadcast %scale : f32 -> !value
linattn.operator @gated(%q: !key, %k: !key, %v: !value, %g: !per_head {linattn.dtype = f32})
    params(%scale: f32 {linattn.default = "key_dim^-0.5"})
    state(%S: !linattn.state) -> (o: !value)
    options {floor = #linattn.number<-5.0 from -5.0 below 0.0>, kind = ["plain", "scaled"]} {
  %S1 = linattn.decay %S, %g bound "floor" : !per_head
  %S2 = linattn.write %S1, %k, %v : !key, !value
  %r = linattn.read %S2, %q : !key -> !value
  %o = linattn.switch "kind" -> !value
  case "plain" {
    linattn.yield %r : !value
  }
  case "scaled" {
    %s = linattn.broadcast %scale : f32 -> !value
    %rs = arith.mulf %r, %s : !value
    linattn.yield %rs : !value
  }
  linattn.yield %S2, %o : !linattn.state, !value
}

// Every axis decays; a bound is a number, an option or absent; a state may be used twice.
// CHECK-LABEL: linattn.operator @decays(
// CHECK:         linattn.decay %S, %s : !per_head
// CHECK:         linattn.decay %{{.*}}, %c bound -5.0 : !key_per_value_head
// CHECK:         linattn.decay %{{.*}}, %v bound -1.0e-06 : !value
// CHECK:         linattn.decay %{{.*}}, %e : !key_value
// CHECK:         linattn.write %{{.*}}, %c, %u : !key_per_value_head, !value_per_key_head
// CHECK:         linattn.read %S, %c : !key_per_value_head -> !value
linattn.operator @decays(%s: !per_head, %c: !channel, %v: !value, %u: !column,
                         %e: !element {linattn.dtype = bf16})
    state(%S: !linattn.state) -> (o: !value) {
  %S1 = linattn.decay %S, %s : !per_head
  %S2 = linattn.decay %S1, %c bound -5.0 : !channel
  %S3 = linattn.decay %S2, %v bound -0.000001 : !value
  %S4 = linattn.decay %S3, %e : !element
  %S5 = linattn.write %S4, %c, %u : !channel, !column
  %o = linattn.read %S, %c : !channel -> !value
  linattn.yield %S5, %o : !linattn.state, !value
}

// CHECK-LABEL: linattn.operator @tensors(
// CHECK-NEXT:      params(%p: !key_per_value_head {linattn.dtype = f16}, %x: f32 {linattn.default = 1.000000e+00 : f64}, %y: f32)
// CHECK:         linattn.broadcast %x : f32 -> !key_value
// CHECK:         linattn.broadcast %{{.*}} : !per_key_head -> !value
// CHECK:         linattn.broadcast %{{.*}} : !per_key_head -> !per_head
// CHECK:         linattn.broadcast %q : !key -> !key_per_value_head
// CHECK:         linattn.reduce %q : !key -> !per_key_head
// CHECK:         linattn.sigmoid %y : f32
// CHECK:         linattn.sigmoid %{{.*}} : !per_key_head
// CHECK:         linattn.softplus %p : !key_per_value_head
// CHECK:         linattn.l2norm %q : !key
// CHECK:         arith.cmpf ogt, %q, %q : !key
// CHECK:         arith.select %{{.*}}, %q, %q : tensor<?xi1, #linattn.of<key, key_head>>, !key
linattn.operator @tensors(%q: !key)
    params(%p: !channel {linattn.dtype = f16}, %x: f32 {linattn.default = 1.0}, %y: f32)
    state(%S: !linattn.state) -> (o: !value) {
  %0 = linattn.broadcast %x : f32 -> !element
  %1 = linattn.reduce %q : !key -> !per_key_head
  %2 = linattn.broadcast %1 : !per_key_head -> !value
  %3 = linattn.broadcast %1 : !per_key_head -> !per_head
  %4 = linattn.broadcast %q : !key -> !channel
  %5 = linattn.reduce %q : !key -> !per_key_head
  %6 = linattn.sigmoid %y : f32
  %7 = linattn.sigmoid %1 : !per_key_head
  %8 = linattn.softplus %p : !channel
  %9 = linattn.l2norm %q : !key
  %10 = arith.cmpf ogt, %q, %q : !key
  %11 = arith.select %10, %q, %q : tensor<?xi1, #linattn.of<key, key_head>>, !key
  %12 = linattn.read %S, %11 : !key -> !value
  linattn.yield %S, %12 : !linattn.state, !value
}

// Two states, two outputs, a switch in a switch, a switch between states, a flag, numbers of all forms.
// CHECK-LABEL: linattn.operator @options(
// CHECK-NEXT:      state(%S: !linattn.state, %R: !linattn.state) -> (o: !value, p: !per_head)
// CHECK-NEXT:      options {a = #linattn.number<0.5 above 0.0 to 1.0>, b = #linattn.number<-1.0e-10 above -1.0 below 1.0e+20>, flag = false, mode = ["x"]}
// CHECK-NEXT:      settings {done = true}
// CHECK-SAME:      attributes {note = "kept"} {
// CHECK-NEXT:    linattn.switch "flag" -> (!linattn.state, !per_head)
// CHECK-NEXT:    case "false" {
// CHECK:           linattn.switch "mode" -> !linattn.state
// CHECK-NEXT:      case "x" {
// CHECK:         case "true" {
// CHECK:         linattn.option "a" : f32
linattn.operator @options(%q: !key, %g: !per_head) state(%S: !linattn.state, %R: !linattn.state)
    -> (o: !value, p: !per_head)
    options {flag = false, mode = ["x"], a = #linattn.number<0.5 above 0.0 to 1.0>,
             b = #linattn.number<-0.0000000001 above -1.0 below 1.0e20>}
    settings {done = true} attributes {note = "kept"} {
  %S1, %h = linattn.switch "flag" -> (!linattn.state, !per_head)
  case "false" {
    %S2 = linattn.switch "mode" -> !linattn.state
    case "x" {
      %S3 = linattn.decay %S, %g : !per_head
      linattn.yield %S3 : !linattn.state
    }
    linattn.yield %S2, %g : !linattn.state, !per_head
  }
  case "true" {
    linattn.yield %S, %g : !linattn.state, !per_head
  }
  %a = linattn.option "a" : f32
  %o = linattn.read %R, %q : !key -> !value
  linattn.yield %S1, %R, %o, %h : !linattn.state, !linattn.state, !value, !per_head
}

// The examples of the op descriptions.
// CHECK-LABEL: linattn.operator @descriptions(
linattn.operator @descriptions(%q: !key, %k: !key, %qk: !key, %u: !value, %g: !per_head,
                               %a: !per_head, %b: !per_head, %beta: !per_head)
    params(%one: f32) state(%S: !linattn.state) -> (y: !value)
    options {normalize = true, lower_bound = #linattn.number<-5.0 from -5.0 below 0.0>} {
  %kn = linattn.switch "normalize" -> !key
  case "true" {
    %n = linattn.l2norm %k : !key
    linattn.yield %n : !key
  }
  case "false" {
    linattn.yield %k : !key
  }
  %floor = linattn.option "lower_bound" : f32
  %S1 = linattn.decay %S, %g : !per_head
  %S2 = linattn.decay %S, %g bound -5.0 : !per_head
  %S3 = linattn.decay %S, %g bound "lower_bound" : !per_head
  %S4 = linattn.write %S, %k, %u : !key, !value
  %ones = linattn.broadcast %one : f32 -> !key
  %betas = linattn.broadcast %beta : !per_head -> !value
  %dot = linattn.reduce %qk : !key -> tensor<f32, #linattn.of<scalar, key_head>>
  %share = linattn.sigmoid %b : !per_head
  %dt = linattn.softplus %a : !per_head
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S2, %o : !linattn.state, !value
}
