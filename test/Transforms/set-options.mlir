// RUN: dl-opt %s --linattn-set-options --verify-roundtrip | FileCheck %s --check-prefixes=CHECK,DEFAULT
// RUN: dl-opt %s --linattn-set-options='set=gate=bounded,floor=-2.5,normalize=false' | FileCheck %s --check-prefixes=CHECK,BOUNDED
// RUN: dl-opt %s --linattn-set-options='set=gate=given,both=false' | FileCheck %s --check-prefixes=CHECK,GIVEN

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>

// Arguments that the chosen code does not use disappear, with their attributes; the state stays even
// if nothing reads it. Dead code around the switches goes first (%scaled keeps %scale alive in one
// case only).

// CHECK-LABEL: linattn.operator @op

// DEFAULT-SAME:  (%q: !key, %k: !key, %v: !value, %a: !per_head)
// DEFAULT-NEXT:    params(%rate: !per_head)
// DEFAULT-NEXT:    state(%S: !linattn.state, %R: !linattn.state) -> (o: !value)
// DEFAULT-NEXT:    settings {both = true, floor = -5.000000e+00 : f64, gate = "soft", normalize = true} {
// DEFAULT-NEXT:  %[[K:.*]] = linattn.l2norm %k : !key
// DEFAULT-NEXT:  %[[G:.*]] = arith.mulf %rate, %a : !per_head
// DEFAULT-NEXT:  %[[S1:.*]] = linattn.decay %S, %[[G]] : !per_head
// DEFAULT-NEXT:  %[[S2:.*]] = linattn.write %[[S1]], %[[K]], %v : !key, !value
// DEFAULT-NEXT:  %[[O:.*]] = linattn.read %[[S2]], %q : !key -> !value
// DEFAULT-NEXT:  linattn.yield %[[S2]], %R, %[[O]]

// BOUNDED-SAME:  (%q: !key, %k: !key, %v: !value, %a: !per_head)
// BOUNDED-NEXT:    state(%S: !linattn.state, %R: !linattn.state) -> (o: !value)
// BOUNDED-NEXT:    settings {both = true, floor = -2.500000e+00 : f64, gate = "bounded", normalize = false} {
// BOUNDED-NEXT:  %[[F:.*]] = arith.constant -2.500000e+00 : f32
// BOUNDED-NEXT:  %[[FS:.*]] = linattn.broadcast %[[F]] : f32 -> !per_head
// BOUNDED-NEXT:  %[[A:.*]] = linattn.sigmoid %a : !per_head
// BOUNDED-NEXT:  %[[G:.*]] = arith.mulf %[[FS]], %[[A]] : !per_head
// BOUNDED-NEXT:  linattn.decay %S, %[[G]] bound -2.5 : !per_head
// BOUNDED-NEXT:  linattn.write %{{.*}}, %k, %v : !key, !value

// GIVEN-SAME:    (%q: !key, %k: !key, %v: !value, %g: !per_head {linattn.dtype = f32})
// GIVEN-NEXT:      params(%scale: f32 {linattn.default = 2.000000e+00 : f64})
// GIVEN-NEXT:      state(%S: !linattn.state, %R: !linattn.state) -> (o: !value)
// GIVEN-NEXT:      settings {both = false, floor = -5.000000e+00 : f64, gate = "given", normalize = true} {
// GIVEN-NEXT:    linattn.broadcast %scale : f32 -> !per_head
// GIVEN-NEXT:    linattn.l2norm %k : !key
// GIVEN-NEXT:    arith.mulf %{{.*}}, %g : !per_head
// GIVEN-NEXT:    linattn.decay %S, %{{.*}} : !per_head

// CHECK-NOT:   {{linattn.switch|linattn.option|case}}
linattn.operator @op(%q: !key, %k: !key, %v: !value, %a: !per_head,
                     %g: !per_head {linattn.dtype = f32})
    params(%rate: !per_head, %scale: f32 {linattn.default = 2.0})
    state(%S: !linattn.state, %R: !linattn.state) -> (o: !value)
    options {gate = ["soft", "bounded", "given"], normalize = true, both = true,
             floor = #linattn.number<-5.0 from -5.0 below 0.0>} {
  %scaled = linattn.broadcast %scale : f32 -> !per_head
  %kn = linattn.switch "normalize" -> !key
  case "false" {
    linattn.yield %k : !key
  }
  case "true" {
    %n = linattn.l2norm %k : !key
    linattn.yield %n : !key
  }
  %S1 = linattn.switch "gate" -> !linattn.state
  case "soft" {
    %d = arith.mulf %rate, %a : !per_head
    %T = linattn.decay %S, %d : !per_head
    linattn.yield %T : !linattn.state
  }
  case "bounded" {
    %floor = linattn.option "floor" : f32
    %floors = linattn.broadcast %floor : f32 -> !per_head
    %s = linattn.sigmoid %a : !per_head
    %d = arith.mulf %floors, %s : !per_head
    %T = linattn.decay %S, %d bound "floor" : !per_head
    linattn.yield %T : !linattn.state
  }
  case "given" {
    %d = linattn.switch "both" -> !per_head
    case "true" {
      linattn.yield %g : !per_head
    }
    case "false" {
      %m = arith.mulf %scaled, %g : !per_head
      linattn.yield %m : !per_head
    }
    %T = linattn.decay %S, %d : !per_head
    linattn.yield %T : !linattn.state
  }
  %S2 = linattn.write %S1, %kn, %v : !key, !value
  %o = linattn.read %S2, %q : !key -> !value
  linattn.yield %S2, %R, %o : !linattn.state, !linattn.state, !value
}
