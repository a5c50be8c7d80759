// What the analysis says to who asks too early, or for a schedule that is not legal.

// RUN: split-file %s %t
// RUN: not dl-opt %t/switch.mlir --test-linattn-normal-form 2>&1 | FileCheck %s --check-prefix=SWITCH
// RUN: not dl-opt %t/bound.mlir --test-linattn-normal-form 2>&1 | FileCheck %s --check-prefix=BOUND
// RUN: not dl-opt %t/switch.mlir --linattn-set-options --test-linattn-normal-form 2>&1 | FileCheck %s --check-prefix=L2NORM
// RUN: dl-opt %t/gate.mlir --test-linattn-normal-form=require=recurrent
// RUN: not dl-opt %t/gate.mlir --test-linattn-normal-form=require=chunkwise 2>&1 | FileCheck %s --check-prefix=CHUNKWISE
// RUN: not dl-opt %t/gate.mlir --test-linattn-normal-form=require=log 2>&1 | FileCheck %s --check-prefix=LOG

// SWITCH: switch.mlir:6:9: error: 'linattn.switch' op expected options set and ops expanded (linattn-set-options, linattn-expand) before the step is analysed
// BOUND: error: 'linattn.decay' op expected options set and ops expanded
// L2NORM: error: 'linattn.l2norm' op expected options set and ops expanded

// CHUNKWISE: gate.mlir:8:8: error: 'arith.mulf' op rules out the chunkwise schedule of operator 'op' (A3): expected what multiplies a read on its way into a write to be one number per head, got one per value channel
// CHUNKWISE: note: compute the factor per head and broadcast it last, or gate the token-local part of the value only
// CHUNKWISE: gate.mlir:6:8: note: the read is here
// LOG: error: 'arith.mulf' op rules out the log schedule of operator 'op' (A3)

//--- switch.mlir
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>

linattn.operator @op(%q: !key) state(%S: !linattn.state) -> (o: !value)
    options {normalize = true} {
  %qn = linattn.switch "normalize" -> !key
  case "true" {
    %n = linattn.l2norm %q : !key
    linattn.yield %n : !key
  }
  case "false" {
    linattn.yield %q : !key
  }
  %o = linattn.read %S, %qn : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

//--- bound.mlir
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>

linattn.operator @op(%q: !key, %g: !key) state(%S: !linattn.state) -> (o: !value)
    options {floor = #linattn.number<-5.0 from -5.0 below 0.0>} {
  %S1 = linattn.decay %S, %g bound "floor" : !key
  %o = linattn.read %S1, %q : !key -> !value
  linattn.yield %S1, %o : !linattn.state, !value
}

//--- gate.mlir
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>

linattn.operator @op(%q: !key, %k: !key, %v: !value, %w: !value) state(%S: !linattn.state)
    -> (o: !value) {
  %r = linattn.read %S, %k : !key -> !value
  %e = arith.subf %v, %r : !value
  %u = arith.mulf %w, %e : !value
  %S1 = linattn.write %S, %k, %u : !key, !value
  %o = linattn.read %S1, %q : !key -> !value
  linattn.yield %S1, %o : !linattn.state, !value
}
