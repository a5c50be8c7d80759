// RUN: dl-opt %s --test-linattn-normal-form -verify-diagnostics -o /dev/null | FileCheck %s

// Operators that no paper has, each for one rule of the analysis. What rules out the chunkwise and
// the log schedule is a remark at the operation.

!key = tensor<?xf32, #linattn.of<key, key_head>>
!channel = tensor<?xf32, #linattn.of<key, value_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!gates = tensor<?xi1, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>

// CHECK-LABEL: operator @value_decay:
// CHECK-NEXT:    state S: identity, diagonal on the value axis
// CHECK-NEXT:      decay along value, l = g  (identity, diagonal on the value axis)
// CHECK:         schedules: recurrent, chunkwise, log{{$}}
linattn.operator @value_decay(%q: !key, %k: !key, %v: !value, %g: !value)
    state(%S: !linattn.state) -> (o: !value) {
  %S1 = linattn.decay %S, %g : !value
  %S2 = linattn.write %S1, %k, %v : !key, !value
  %o = linattn.read %S2, %q : !key -> !value
  linattn.yield %S2, %o : !linattn.state, !value
}

// CHECK-LABEL: operator @value_decay_with_feedback: affine, feedback reads = 1
// CHECK-NEXT:    state S: other
// CHECK:         schedules: recurrent{{$}}
linattn.operator @value_decay_with_feedback(%q: !key, %k: !key, %v: !value, %g: !value)
    state(%S: !linattn.state) -> (o: !value) {
  // expected-remark@below {{A2: expected no decay along value on a state whose reads enter writes, got one}}
  %S1 = linattn.decay %S, %g : !value
  %r = linattn.read %S1, %k : !key -> !value
  %u = arith.subf %v, %r : !value
  %S2 = linattn.write %S1, %k, %u : !key, !value
  %o = linattn.read %S2, %q : !key -> !value
  linattn.yield %S2, %o : !linattn.state, !value
}

// A gate per value channel on the way into the state; the one on the output is free.
// CHECK-LABEL: operator @value_gate: affine, feedback reads = 1
// CHECK-NEXT:    state S: other
// CHECK-NEXT:      write0 at 0, a = k, b = w * (v - read0)  (other)
// CHECK:         output o = w * read1
// CHECK-NEXT:    schedules: recurrent{{$}}
linattn.operator @value_gate(%q: !key, %k: !key, %v: !value, %w: !value)
    state(%S: !linattn.state) -> (o: !value) {
  %r = linattn.read %S, %k : !key -> !value
  %e = arith.subf %v, %r : !value
  // expected-remark@below {{A3: expected what multiplies a read on its way into a write to be one number per head, got one per value channel}}
  %u = arith.mulf %w, %e : !value
  %S1 = linattn.write %S, %k, %u : !key, !value
  %p = linattn.read %S1, %q : !key -> !value
  %o = arith.mulf %w, %p : !value
  linattn.yield %S1, %o : !linattn.state, !value
}

// Gates on the erased key and on the written value leave the system as it is.
// CHECK-LABEL: operator @erase_and_write_gates: affine, feedback reads = 1
// CHECK-NEXT:    state S: diagonal + rank 1
// CHECK-NEXT:      write0 at 0, a = k, b = w * v - read0  (diagonal + rank 1)
// CHECK-NEXT:    read0 of S before event 0 at 0, x = e * k: feedback
// CHECK:         schedules: recurrent, chunkwise, log{{$}}
linattn.operator @erase_and_write_gates(%q: !key, %k: !key, %v: !value, %e: !key, %w: !value)
    state(%S: !linattn.state) -> (o: !value) {
  %x = arith.mulf %e, %k : !key
  %r = linattn.read %S, %x : !key -> !value
  %wv = arith.mulf %w, %v : !value
  %u = arith.subf %wv, %r : !value
  %S1 = linattn.write %S, %k, %u : !key, !value
  %o = linattn.read %S1, %q : !key -> !value
  linattn.yield %S1, %o : !linattn.state, !value
}

// The operation that breaks the form is named, not those that use its result.
// CHECK-LABEL: operator @nonlinear_feedback: not affine, feedback reads = 1
// CHECK-NEXT:    state S: other
// CHECK-NEXT:      write0 at 0, a = k, b = not affine  (other)
// CHECK:         output o = read1
// CHECK-NEXT:    schedules: recurrent{{$}}
linattn.operator @nonlinear_feedback(%q: !key, %k: !key, %v: !value)
    state(%S: !linattn.state) -> (o: !value) {
  %r = linattn.read %S, %k : !key -> !value
  // expected-remark@below {{A4: expected reads to meet token-local values in sums and products only, got 'math.tanh' of a read}}
  %t = math.tanh %r : !value
  %e = math.exp %t : !value
  %u = arith.subf %v, %e : !value
  %S1 = linattn.write %S, %k, %u : !key, !value
  %o = linattn.read %S1, %q : !key -> !value
  linattn.yield %S1, %o : !linattn.state, !value
}

// CHECK-LABEL: operator @nonlinear_output: not affine, feedback reads = 0
// CHECK-NEXT:    state S: identity
// CHECK:         output o = not affine
linattn.operator @nonlinear_output(%q: !key, %k: !key, %v: !value)
    state(%S: !linattn.state) -> (o: !value) {
  %S1 = linattn.write %S, %k, %v : !key, !value
  %r = linattn.read %S1, %q : !key -> !value
  // expected-remark@below {{got 'math.tanh' of a read}}
  %o = math.tanh %r : !value
  linattn.yield %S1, %o : !linattn.state, !value
}

// CHECK-LABEL: operator @products_and_sums: not affine, feedback reads = 2
linattn.operator @products_and_sums(%q: !key, %k: !key, %v: !value, %w: !value)
    state(%S: !linattn.state) -> (o: !value, p: !value, s: !value, t: !value) {
  %r = linattn.read %S, %k : !key -> !value
  %x = linattn.read %S, %q : !key -> !value
  // expected-remark@below {{got a product of two values that depend on the state}}
  %u = arith.mulf %r, %x : !value
  %S1 = linattn.write %S, %k, %u : !key, !value
  // expected-remark@below {{got a division by a value that depends on the state}}
  %o = arith.divf %v, %r : !value
  // expected-remark@below {{got a sum along the value axis}}
  %sum = linattn.reduce %r : !value -> !per_head
  %p = linattn.broadcast %sum : !per_head -> !value
  %c = arith.cmpf ogt, %v, %w : !value
  // expected-remark@below {{got a selection}}
  %s = arith.select %c, %r, %v : !gates, !value
  %y = arith.addf %r, %v : !value
  // expected-remark@below {{got a product of two values that depend on the state}}
  %t = math.fma %y, %x, %v : !value
  linattn.yield %S1, %o, %p, %s, %t : !linattn.state, !value, !value, !value, !value
}

// CHECK-LABEL: operator @decay_and_key_from_a_read: not affine, feedback reads = 1
// CHECK-NEXT:    state S: other
// CHECK-NEXT:      decay along scalar, l = sum(read0)  (other)
// CHECK-NEXT:      write0 at G[t], a = sum(read0), b = not affine  (other)
linattn.operator @decay_and_key_from_a_read(%k: !key, %v: !value) state(%S: !linattn.state)
    -> (o: !value) {
  %r = linattn.read %S, %k : !key -> !value
  %sum = linattn.reduce %r : !value -> !per_head
  // expected-remark@below {{A4: expected a log decay of the token alone, got one that depends on the state}}
  %S1 = linattn.decay %S, %sum : !per_head
  %x = linattn.broadcast %sum : !per_head -> !channel
  // expected-remark@below {{A4: expected a key vector of the token alone, got one that depends on the state}}
  %S2 = linattn.write %S1, %x, %v : !channel, !value
  // expected-remark@below {{A4: expected a key vector of the token alone, got one that depends on the state}}
  %o = linattn.read %S2, %x : !channel -> !value
  linattn.yield %S2, %o : !linattn.state, !value
}

// Clocks between two decays of one token.
// CHECK-LABEL: operator @two_decays:
// CHECK-NEXT:    state S: diagonal
// CHECK-NEXT:      decay along scalar, l = g, l >= -2  (scalar)
// CHECK-NEXT:      write0 at G[t-1] + 1 of 2 decays, a = k, b = v  (identity)
// CHECK-NEXT:      decay along key, l = h  (diagonal)
// CHECK-NEXT:    read0 of S before event 2 at G[t-1] + 1 of 2 decays, x = q: output
// CHECK-NEXT:    read1 of S before event 3 at G[t], x = q: output
// CHECK-NEXT:    output o = read0 + read1
linattn.operator @two_decays(%q: !key, %k: !key, %v: !value, %g: !per_head, %h: !channel)
    state(%S: !linattn.state) -> (o: !value) {
  %S1 = linattn.decay %S, %g bound -2.0 : !per_head
  %S2 = linattn.write %S1, %k, %v : !key, !value
  %S3 = linattn.decay %S2, %h : !channel
  %x = linattn.read %S2, %q : !key -> !value
  %y = linattn.read %S3, %q : !key -> !value
  %o = arith.addf %x, %y : !value
  linattn.yield %S3, %o : !linattn.state, !value
}

// The bonus of RWKV-6 as its paper writes it: a read of a state that is written for this read alone.
// It comes out as a token-local term.
// CHECK-LABEL: operator @branch: affine, feedback reads = 0
// CHECK-NEXT:    state S: diagonal
// CHECK-NEXT:      decay along key, l = w  (diagonal)
// CHECK-NEXT:      write0 at G[t], a = k, b = v  (identity)
// CHECK-NEXT:    read0 of S before event 0 at G[t-1], x = r e^w: output
// CHECK-NEXT:    output o = e^h * read0 + (r . e^w e^h (u * k)) * v
// CHECK-NEXT:    schedules: recurrent, chunkwise, log{{$}}
linattn.operator @branch(%r: !key, %k: !key, %v: !value, %u: !key, %w: !key, %h: !per_head)
    state(%S: !linattn.state) -> (o: !value) {
  %uk = arith.mulf %u, %k : !key
  %B1 = linattn.write %S, %uk, %v : !key, !value
  %B2 = linattn.decay %B1, %w : !key
  %B3 = linattn.decay %B2, %h : !per_head
  %o = linattn.read %B3, %r : !key -> !value
  %S1 = linattn.decay %S, %w : !key
  %S2 = linattn.write %S1, %k, %v : !key, !value
  linattn.yield %S2, %o : !linattn.state, !value
}

// CHECK-LABEL: operator @two_states: affine, feedback reads = 1
// CHECK-NEXT:    state A: scalar
// CHECK-NEXT:      decay along scalar, l = g  (scalar)
// CHECK-NEXT:      write0 at G[t], a = k, b = v  (identity)
// CHECK-NEXT:    state B: diagonal + rank 1, fed by A
// CHECK-NEXT:      write1 at 0, a = q, b = v - 2 * b * read0  (diagonal + rank 1)
// CHECK-NEXT:    read0 of A before event 1 at G[t], x = k: feedback
// CHECK-NEXT:    read1 of B before event 1 at 0, x = q: output
// CHECK-NEXT:    read2 of A before event 2 at G[t], x = q: output
// CHECK-NEXT:    output o = read1 + read2
// CHECK-NEXT:    output p = read2
// CHECK-NEXT:    schedules: recurrent, chunkwise, log{{$}}
linattn.operator @two_states(%q: !key, %k: !key, %v: !value, %g: !per_head, %b: !per_head)
    state(%A: !linattn.state, %B: !linattn.state) -> (o: !value, p: !value) {
  %A1 = linattn.decay %A, %g : !per_head
  %r = linattn.read %A1, %k : !key -> !value
  %bs = linattn.broadcast %b : !per_head -> !value
  %two = arith.constant 2.0 : f32
  %twos = linattn.broadcast %two : f32 -> !value
  %b2 = arith.mulf %twos, %bs : !value
  %s = arith.mulf %b2, %r : !value
  %u = arith.subf %v, %s : !value
  %A2 = linattn.write %A1, %k, %v : !key, !value
  %B1 = linattn.write %B, %q, %u : !key, !value
  %x = linattn.read %B1, %q : !key -> !value
  %p = linattn.read %A2, %q : !key -> !value
  %o = arith.addf %x, %p : !value
  linattn.yield %A2, %B1, %o, %p : !linattn.state, !linattn.state, !value, !value
}

// CHECK-LABEL: operator @nothing: affine, feedback reads = 0
// CHECK-NEXT:    state S: identity
// CHECK-NEXT:    output o = v
// CHECK-NEXT:    schedules: recurrent, chunkwise, log{{$}}
linattn.operator @nothing(%v: !value) state(%S: !linattn.state) -> (o: !value) {
  linattn.yield %S, %v : !linattn.state, !value
}
