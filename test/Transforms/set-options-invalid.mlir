// A wrong setting is one error that names what was given and what is allowed.

// RUN: split-file %s %t
// RUN: not dl-opt %t/op.mlir --linattn-set-options='set=gat=soft' 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not dl-opt %t/op.mlir --linattn-set-options='set=gate=hard' 2>&1 | FileCheck %s --check-prefix=CHOICE
// RUN: not dl-opt %t/op.mlir --linattn-set-options='set=gate=' 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not dl-opt %t/op.mlir --linattn-set-options='set=flag=yes' 2>&1 | FileCheck %s --check-prefix=FLAG
// RUN: not dl-opt %t/op.mlir --linattn-set-options='set=floor=0' 2>&1 | FileCheck %s --check-prefix=ZERO
// RUN: not dl-opt %t/op.mlir --linattn-set-options='set=floor=-5.01' 2>&1 | FileCheck %s --check-prefix=BELOW
// RUN: not dl-opt %t/op.mlir --linattn-set-options='set=floor=nan' 2>&1 | FileCheck %s --check-prefix=NAN
// RUN: not dl-opt %t/op.mlir --linattn-set-options='set=floor=low' 2>&1 | FileCheck %s --check-prefix=TEXT
// RUN: not dl-opt %t/op.mlir --linattn-set-options='set=flag' 2>&1 | FileCheck %s --check-prefix=PAIR
// RUN: not dl-opt %t/op.mlir --linattn-set-options='set=gate=soft,gate=given' 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not dl-opt %t/bare.mlir --linattn-set-options='set=x=1' 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: dl-opt %t/op.mlir --linattn-set-options='set=gate=soft,flag=true' 2>&1 | FileCheck %s --check-prefix=UNUSED

// UNKNOWN: error: expected an option of operator 'op' (flag, floor, gate), got 'gat'
// CHOICE: error: expected option 'gate' to be one of soft, given, got 'hard'
// EMPTY: error: expected option 'gate' to be one of soft, given, got ''
// FLAG: error: expected option 'flag' to be true or false, got 'yes'
// ZERO: error: expected option 'floor' to be a number from -5.0 below 0.0, got '0'
// BELOW: error: expected option 'floor' to be a number from -5.0 below 0.0, got '-5.01'
// NAN: error: expected option 'floor' to be a number from -5.0 below 0.0, got 'nan'
// TEXT: error: expected option 'floor' to be a number from -5.0 below 0.0, got 'low'
// PAIR: error: expected NAME=VALUE as option of operator 'op', got 'flag'
// TWICE: error: expected option 'gate' once, got it twice
// NONE: error: expected an option of operator 'bare' (it has none), got 'x'

// A setting that no remaining code asks for is a warning: it was meant to change something.
// UNUSED: warning: option 'gate' has no effect with the other settings
// UNUSED: warning: option 'flag' has no effect with the other settings
// UNUSED: linattn.operator @op

//--- op.mlir
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>

linattn.operator @op(%q: !key) state(%S: !linattn.state) -> (o: !value)
    options {flag = true, floor = #linattn.number<-5.0 from -5.0 below 0.0>, gate = ["soft", "given"]} {
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

//--- bare.mlir
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>

linattn.operator @bare(%q: !key) state(%S: !linattn.state) -> (o: !value) {
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}
