// RUN: dl-opt %s -split-input-file -verify-diagnostics
//
// One negative per check of the verifiers, in the order of the constraints.

// C1: rank of the axis
// expected-error @+1 {{expected rank 0 for axis scalar, got rank 1}}
!bad = tensor<?xf32, #linattn.of<scalar, key_head>>

// -----

// C1
// expected-error @+1 {{expected rank 1 for axis value, got rank 2}}
!bad = tensor<?x?xf32, #linattn.of<value, value_head>>

// -----

// C1
// expected-error @+1 {{expected rank 2 for axis key_value, got rank 1}}
!bad = tensor<?xf32, #linattn.of<key_value, value_head>>

// -----

// C2: element type
// expected-error @+1 {{expected element type f32 (or i1 for a comparison) with #linattn.of<key, key_head>, got 'bf16'}}
!bad = tensor<?xbf16, #linattn.of<key, key_head>>

// -----

// C3: dynamic sizes
// expected-error @+1 {{expected dimension '?' with #linattn.of<key, key_head>, got 128: sizes are chosen when a kernel is compiled}}
!bad = tensor<128xf32, #linattn.of<key, key_head>>

// -----

// Words of the encoding
// expected-error @+1 {{expected axis scalar, key, value or key_value, got 'row'}}
!bad = tensor<?xf32, #linattn.of<row, key_head>>

// -----

// expected-error @+1 {{expected group key_head or value_head, got 'head'}}
!bad = tensor<?xf32, #linattn.of<key, head>>

// -----

// C4: number options
// expected-error @+1 {{expected a default from 0.0 below 1.0, got 1.0}}
module attributes {n = #linattn.number<1.0 from 0.0 below 1.0>} {}

// -----

// C4
// expected-error @+1 {{expected a default above 0.0 to 1.0, got 0.0}}
module attributes {n = #linattn.number<0.0 above 0.0 to 1.0>} {}

// -----

// C4
// expected-error @+1 {{expected finite numbers in #linattn.number}}
module attributes {n = #linattn.number<0.0 from 0.0 to 1.0e999>} {}

// -----

// C4: assembly
// expected-error @+1 {{expected 'to' or 'below'}}
module attributes {n = #linattn.number<0.0 from 0.0 until 1.0>} {}

// -----

// C5: names and arguments
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
// expected-error @+1 {{expected one body argument per name, got 3 names and 2 arguments}}
"linattn.operator"() <{sym_name = "op", input_names = ["q", "k"], param_names = [], state_names = ["S"], output_names = ["o"], output_types = [!value]}> ({
^bb0(%q: !key, %S: !linattn.state):
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}) : () -> ()

// -----

// C5
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
// expected-error @+1 {{expected one dictionary per argument in arg_attrs, got 1 for 2 arguments}}
"linattn.operator"() <{sym_name = "op", input_names = ["q"], param_names = [], state_names = ["S"], output_names = ["o"], output_types = [!value], arg_attrs = [{}]}> ({
^bb0(%q: !key, %S: !linattn.state):
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}) : () -> ()

// -----

// C6: names
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
// expected-error @+1 {{expected an identifier as name, got 'q r'}}
"linattn.operator"() <{sym_name = "op", input_names = ["q r"], param_names = [], state_names = ["S"], output_names = ["o"], output_types = [!value]}> ({
^bb0(%q: !key, %S: !linattn.state):
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}) : () -> ()

// -----

// C6
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
// expected-error @+1 {{expected an identifier as name, got '0'}}
linattn.operator @op(%0: !key) state(%S: !linattn.state) -> (o: !value) {
  %o = linattn.read %S, %0 : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C6: the operator's name is part of the kernels' names
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
// expected-error @+1 {{expected an identifier as the operator's name, got 'a/b'}}
linattn.operator @"a/b"(%q: !key) state(%S: !linattn.state) -> (o: !value) {
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C6: an output called like an input
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
// expected-error @+1 {{expected different names for inputs, params, states and outputs, got two 'q'}}
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (q: !value) {
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C7: inputs
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
// expected-error @+1 {{expected an f32 tensor with a #linattn.of encoding for input 'x', got 'f32'}}
linattn.operator @op(%q: !key, %x: f32) state(%S: !linattn.state) -> (o: !value) {
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C7: not a condition
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
// expected-error @+1 {{expected an f32 tensor with a #linattn.of encoding for input 'x', got 'tensor<?xi1, #linattn.of<key, key_head>>'}}
linattn.operator @op(%q: !key, %x: tensor<?xi1, #linattn.of<key, key_head>>) state(%S: !linattn.state) -> (o: !value) {
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C8: params
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
// expected-error @+1 {{expected f32 or an f32 tensor with a #linattn.of encoding for param 'x', got 'tensor<?xf32>'}}
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) params(%x: tensor<?xf32>) state(%S: !linattn.state) -> (o: !value) {
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C9: states
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
// expected-error @+1 {{expected at least one state}}
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state() -> (o: !value) {
  %o = linattn.l2norm %v : !value
  linattn.yield %o : !value
}

// -----

// C9
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
// expected-error @+1 {{expected !linattn.state for state 'R', got 'f32'}}
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state, %R: f32) -> (o: !value) {
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %S, %o : !linattn.state, !linattn.state, !value
}

// -----

// C10: outputs
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
// expected-error @+1 {{expected at least one output}}
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> () {
  linattn.yield %S : !linattn.state
}

// -----

// C10
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
// expected-error @+1 {{expected an f32 tensor of value heads for output 'o', got 'tensor<?xf32, #linattn.of<key, key_head>>'}}
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !key) {
  linattn.yield %S, %q : !linattn.state, !key
}

// -----

// C10
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
// expected-error @+1 {{expected one type per output, got 1 names and 2 types}}
"linattn.operator"() <{sym_name = "op", input_names = ["q"], param_names = [], state_names = ["S"], output_names = ["o"], output_types = [!value, !value]}> ({
^bb0(%q: !key, %S: !linattn.state):
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}) : () -> ()

// -----

// C11: attributes of arguments
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
// expected-error @+1 {{expected linattn.dtype = f32, bf16 or f16 on a tensor, got f64 on 'q' of type 'tensor<?xf32, #linattn.of<key, key_head>>'}}
linattn.operator @op(%q: !key {linattn.dtype = f64}) state(%S: !linattn.state) -> (o: !value) {
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C11: an f32 param is passed by value
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
// expected-error @+1 {{expected linattn.dtype = f32, bf16 or f16 on a tensor, got f32 on 'x' of type 'f32'}}
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) params(%x: f32 {linattn.dtype = f32}) state(%S: !linattn.state) -> (o: !value) {
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C11
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
// expected-error @+1 {{expected linattn.default to be a finite number or "key_dim^P", P from -8 to 8, on an f32 param, got "value_dim^-0.5" on 'x' of type 'f32'}}
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) params(%x: f32 {linattn.default = "value_dim^-0.5"}) state(%S: !linattn.state) -> (o: !value) {
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C11
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
// expected-error @+1 {{expected linattn.default to be a finite number or "key_dim^P", P from -8 to 8, on an f32 param, got "key_dim^9" on 'x' of type 'f32'}}
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) params(%x: f32 {linattn.default = "key_dim^9"}) state(%S: !linattn.state) -> (o: !value) {
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C11
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
// expected-error @+1 {{expected linattn.default to be a finite number or "key_dim^P", P from -8 to 8, on an f32 param, got 1.000000e+00 : f64 on 'x'}}
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) params(%x: !per_head {linattn.default = 1.0}) state(%S: !linattn.state) -> (o: !value) {
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C11
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
// expected-error @+1 {{expected linattn.dtype, linattn.default or linattn.bound, got linattn.layout on 'S'}}
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state {linattn.layout = "kv"}) -> (o: !value) {
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C12: options
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
// expected-error @+1 {{expected an identifier as option name, got 'a-b'}}
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) options {"a-b" = true} {
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C12
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
// expected-error @+1 {{expected a list of names, a bool or #linattn.number for option 'a', got []}}
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) options {a = []} {
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C12
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
// expected-error @+1 {{expected a list of names, a bool or #linattn.number for option 'a', got 1.000000e+00 : f64}}
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) options {a = 1.0} {
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C12
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
// expected-error @+1 {{expected identifiers as choices of option 'a', got "y,z"}}
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) options {a = ["x", "y,z"]} {
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C12
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
// expected-error @+1 {{expected different choices for option 'a', got two "x"}}
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) options {a = ["x", "x"]} {
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C13: operations of a body
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) params(%x: f32) state(%S: !linattn.state) -> (o: !value) {
  %c = arith.cmpf ogt, %x, %x : f32
  // expected-error @+1 {{'scf.if' op is not allowed in a linattn.operator: expected linattn ops, arith.constant and elementwise arith and math ops}}
  scf.if %c {
  }
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// An operator in an operator
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
linattn.operator @op(%q: !key) state(%S: !linattn.state) -> (o: !value) {
  // expected-error @+1 {{'linattn.operator' op symbol's parent must have the SymbolTable trait}}
  linattn.operator @inner(%x: !key) state(%R: !linattn.state) -> (y: !value) {
    %y = linattn.read %R, %x : !key -> !value
    linattn.yield %R, %y : !linattn.state, !value
  }
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C13: types of a body
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) params(%x: f32) state(%S: !linattn.state) -> (o: !value) {
  // expected-error @+1 {{'arith.fptosi' op expected f32, i1 or a tensor with a #linattn.of encoding, got 'i32'}}
  %i = arith.fptosi %x : f32 to i32
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C13: states are no operands of arith
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) params(%x: f32) state(%S: !linattn.state) -> (o: !value) {
  %c = arith.cmpf ogt, %x, %x : f32
  // expected-error @+2 {{'arith.select' op expected f32, i1 or a tensor with a #linattn.of encoding, got a state}}
  // expected-note @+1 {{a state changes by linattn.decay and linattn.write, and is seen through linattn.read}}
  %S1 = arith.select %c, %S, %S : !linattn.state
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C13: the end of a body
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) {
  %o = linattn.read %S, %q : !key -> !value
  // expected-error @+1 {{'llvm.unreachable' op is not allowed in a linattn.operator: expected linattn.yield}}
  llvm.unreachable
}

// -----

// C14: states yielded
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state, %R: !linattn.state) -> (o: !value) {
  %o = linattn.read %S, %q : !key -> !value
  // expected-error @+1 {{expected operand #0 to derive from state 'S', got a state derived from 'R'}}
  linattn.yield %R, %S, %o : !linattn.state, !linattn.state, !value
}

// -----

// C14: found through writes and decays
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state, %R: !linattn.state) -> (o: !value) {
  %S1 = linattn.decay %S, %g : !per_head
  %S2 = linattn.write %S1, %k, %v : !key, !value
  %o = linattn.read %S, %q : !key -> !value
  // expected-error @+1 {{expected operand #1 to derive from state 'R', got a state derived from 'S'}}
  linattn.yield %S, %S2, %o : !linattn.state, !linattn.state, !value
}

// -----

// C14: a cycle derives from nothing
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) {
  %S1 = linattn.decay %S2, %g : !per_head
  %S2 = linattn.decay %S1, %g : !per_head
  %o = linattn.read %S, %q : !key -> !value
  // expected-error @+1 {{expected operand #0 to derive from state 'S', got a state that derives from none}}
  linattn.yield %S2, %o : !linattn.state, !value
}

// -----

// C15: operands of yield
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) {
  %o = linattn.read %S, %q : !key -> !value
  // expected-error @+1 {{expected 2 operands (states, then outputs), got 1}}
  linattn.yield %S : !linattn.state
}

// -----

// C15
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) {
  %o = linattn.read %S, %q : !key -> !value
  // expected-error @+1 {{expected type '!linattn.state' for operand #0, got 'tensor<?xf32, #linattn.of<value, value_head>>'}}
  linattn.yield %o, %S : !value, !linattn.state
}

// -----

// C15: in a case
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) options {flag = true} {
  linattn.switch "flag" -> !key
  case "true" {
    // expected-error @+1 {{expected 1 operands (results of the switch), got 2}}
    linattn.yield %q, %k : !key, !key
  }
  case "false" {
    linattn.yield %k : !key
  }
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C15: parent
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
func.func @f(%x: !key) {
  // expected-error @+1 {{'linattn.yield' op expects parent op to be one of 'linattn.operator, linattn.switch'}}
  linattn.yield %x : !key
}

// -----

// C16: option of a switch
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) options {flag = true} {
  // expected-error @+1 {{expected an option of operator 'op', got 'mode'}}
  %x = linattn.switch "mode" -> !key
  case "true" {
    linattn.yield %q : !key
  }
  case "false" {
    linattn.yield %k : !key
  }
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C16
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) options {n = #linattn.number<0.0 from 0.0 to 1.0>} {
  // expected-error @+1 {{expected a choice or a flag, got number option 'n'}}
  %x = linattn.switch "n" -> !key
  case "true" {
    linattn.yield %q : !key
  }
  case "false" {
    linattn.yield %k : !key
  }
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C16
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
func.func @f(%q: !key, %k: !key) {
  // expected-error @+1 {{expected to be in a linattn.operator, which declares option 'flag'}}
  %x = linattn.switch "flag" -> !key
  case "true" {
    linattn.yield %q : !key
  }
  case "false" {
    linattn.yield %k : !key
  }
  return
}

// -----

// C17: cases of a switch
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) options {flag = true} {
  // expected-error @+1 {{expected cases "true", "false", got "maybe"}}
  %x = linattn.switch "flag" -> !key
  case "true" {
    linattn.yield %q : !key
  }
  case "maybe" {
    linattn.yield %k : !key
  }
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C17
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) options {mode = ["x", "y"]} {
  // expected-error @+1 {{expected one case "x", got two}}
  %x = linattn.switch "mode" -> !key
  case "x" {
    linattn.yield %q : !key
  }
  case "x" {
    linattn.yield %k : !key
  }
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C17
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) options {mode = ["x", "y", "z"]} {
  // expected-error @+1 {{expected cases "x", "y", "z", got none for "z"}}
  %x = linattn.switch "mode" -> !key
  case "x" {
    linattn.yield %q : !key
  }
  case "y" {
    linattn.yield %k : !key
  }
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C18: states of the cases
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state, %R: !linattn.state) -> (o: !value) options {flag = true} {
  // expected-error @+1 {{expected each case to yield a state derived from the same state argument as result #0}}
  %T = linattn.switch "flag" -> !linattn.state
  case "true" {
    linattn.yield %S : !linattn.state
  }
  case "false" {
    linattn.yield %R : !linattn.state
  }
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %R, %o : !linattn.state, !linattn.state, !value
}

// -----

// C19: number options
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) options {flag = true} {
  // expected-error @+1 {{expected a number option, got 'flag' = true}}
  %x = linattn.option "flag" : f32
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C19
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) {
  // expected-error @+1 {{expected an option of operator 'op', got 'x'}}
  %x = linattn.option "x" : f32
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C20: the log decay
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) params(%x: f32) state(%S: !linattn.state) -> (o: !value) {
  // expected-error @+1 {{operand #1 must be f32 tensor with a #linattn.of encoding, but got 'f32'}}
  %S1 = linattn.decay %S, %x : f32
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C21: the bound
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) {
  // expected-error @+1 {{expected a finite negative bound, got 0.0}}
  %S1 = linattn.decay %S, %g bound 0.0 : !per_head
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C21
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) {
  // expected-error @+1 {{expected a finite negative bound, got -inf}}
  %S1 = linattn.decay %S, %g bound -1.0e999 : !per_head
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C21
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) {
  // expected-error @+1 {{expected an option of operator 'op', got 'floor'}}
  %S1 = linattn.decay %S, %g bound "floor" : !per_head
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C21
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) options {flag = true} {
  // expected-error @+1 {{expected a number option as bound, got 'flag' = true}}
  %S1 = linattn.decay %S, %g bound "flag" : !per_head
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C21
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) options {floor = #linattn.number<-5.0 from -5.0 to 0.0>} {
  // expected-error @+1 {{expected a bound with a negative range, got 'floor' from -5.0 to 0.0}}
  %S1 = linattn.decay %S, %g bound "floor" : !per_head
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C22: read
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) {
  // expected-error @+1 {{operand #1 must be key vector (f32, axis key, either group), but got 'tensor<?xf32, #linattn.of<value, value_head>>'}}
  %x = linattn.read %S, %v : !value -> !value
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C22
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) {
  // expected-error @+1 {{result #0 must be tensor<?xf32, #linattn.of<value, value_head>>, but got 'tensor<?xf32, #linattn.of<key, key_head>>'}}
  %x = linattn.read %S, %q : !key -> !key
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C23: write
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) {
  // expected-error @+1 {{operand #1 must be key vector (f32, axis key, either group), but got 'tensor<?xf32, #linattn.of<value, value_head>>'}}
  %x = linattn.write %S, %v, %k : !value, !key
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C23
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) {
  // expected-error @+1 {{operand #2 must be value vector (f32, axis value, either group), but got 'tensor<?xf32, #linattn.of<key, key_head>>'}}
  %x = linattn.write %S, %k, %q : !key, !key
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C24: broadcast
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) params(%x: f32) state(%S: !linattn.state) -> (o: !value) {
  // expected-error @+1 {{result #0 must be f32 tensor with a #linattn.of encoding, but got 'tensor<?xf32>'}}
  %y = linattn.broadcast %x : f32 -> tensor<?xf32>
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C25: widening
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) {
  // expected-error @+1 {{expected a result wider than the operand, got the same type}}
  %x = linattn.broadcast %q : !key -> !key
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C25
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) {
  // expected-error @+1 {{expected axis key to stay (only scalar widens), got value}}
  %x = linattn.broadcast %q : !key -> !value
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C25
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) {
  // expected-error @+1 {{expected group value_head to stay (only key_head widens), got key_head}}
  %x = linattn.broadcast %g : !per_head -> !key
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C26: reduce
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) {
  // expected-error @+1 {{operand #0 must be key vector (f32, axis key, either group) or value vector (f32, axis value, either group), but got 'tensor<f32, #linattn.of<scalar, value_head>>'}}
  %x = linattn.reduce %g : !per_head -> !per_head
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C26
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) {
  // expected-error @+1 {{result #0 must be scalar of a head (f32, axis scalar, either group), but got 'tensor<?xf32, #linattn.of<key, key_head>>'}}
  %x = linattn.reduce %q : !key -> !key
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C26
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) {
  // expected-error @+1 {{expected a result of group key_head, that of the operand, got value_head}}
  %x = linattn.reduce %q : !key -> !per_head
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C27: elementwise
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) {
  // expected-error @+1 {{operand #0 must be 32-bit float or f32 tensor with a #linattn.of encoding, but got '!linattn.state'}}
  %x = linattn.sigmoid %S : !linattn.state
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C27
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) {
  // expected-error @+1 {{requires the same encoding for all operands and results}}
  %x = "linattn.softplus"(%q) : (!key) -> !value
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C28: l2norm
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) {
  // expected-error @+1 {{operand #0 must be key vector (f32, axis key, either group) or value vector (f32, axis value, either group), but got 'tensor<f32, #linattn.of<scalar, value_head>>'}}
  %x = linattn.l2norm %g : !per_head
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C28
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) {
  // expected-error @+1 {{requires the same encoding for all operands and results}}
  %x = "linattn.l2norm"(%q) : (!key) -> !value
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// Mixing kinds does not parse
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
// expected-note @+1 {{prior use here}}
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) {
  // expected-error @+1 {{use of value '%v' expects different type than prior uses}}
  %x = arith.mulf %q, %v : !key
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// Assembly: the state list is not optional
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
// expected-error @+1 {{expected 'state'}}
linattn.operator @op(%q: !key) -> (o: !value) {
}

// -----

// Assembly: a case has a name
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @op(%q: !key, %k: !key, %v: !value, %g: !per_head) state(%S: !linattn.state) -> (o: !value) options {flag = true} {
  linattn.switch "flag"
  // expected-error @+1 {{expected string}}
  case true {
    linattn.yield
  }
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}

// -----

// C11
// expected-error @+1 {{expected linattn.bound to be a positive finite number on an input or param, got 0.000000e+00}}
linattn.operator @bad(%k: tensor<?xf32, #linattn.of<key, key_head>>, %v: tensor<?xf32, #linattn.of<value, value_head>> {linattn.bound = 0.0}) state(%S: !linattn.state) -> (o: tensor<?xf32, #linattn.of<value, value_head>>) {
  %o = linattn.read %S, %k : tensor<?xf32, #linattn.of<key, key_head>> -> tensor<?xf32, #linattn.of<value, value_head>>
  linattn.yield %S, %o : !linattn.state, tensor<?xf32, #linattn.of<value, value_head>>
}
