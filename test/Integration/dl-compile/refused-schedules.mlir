// A schedule that an operator cannot have: which op breaks which condition, where, and what could be
// changed. All of it before anything is compiled: no progress, no table, no file.

// DEFINE: %{compile} = dl-compile %s --target=cpu --dims=64x64 -o %t.dlk
// DEFINE: %{refused} = not %{compile} --kernels=prefill,append --op
// DEFINE: %{check} = FileCheck %s --strict-whitespace --implicit-check-not='{{error:|failed|.1/.}}' --check-prefix

// Without --kernels there is nothing to refuse, and nothing is said: decode is legal for all.
// RUN: %{compile} --op=per_element 2>&1 | FileCheck %s --check-prefix=DECODE --implicit-check-not=error:
// DECODE: per_element.decode.64x64
// RUN: rm %t.dlk

// Kernels that are legal are not built beside those that are not.
// RUN: not %{compile} --op=squashed --kernels=decode,prefill 2>&1 | FileCheck %s --check-prefix=BESIDE --implicit-check-not=squashed.decode
// BESIDE: error: 'math.tanh' op rules out the chunkwise schedule of operator 'squashed' (A4)
// RUN: not ls %t.dlk

// Where two schedules are asked for and one is legal, only the other is spoken of.
// RUN: not %{compile} --op=along_value --kernels=append,prefill 2>&1 | FileCheck %s --check-prefix=ONE --implicit-check-not="log schedule"
// ONE: error: 'linattn.decay' op has no chunkwise kernel yet (B2)
// RUN: %{compile} --op=along_value --kernels=append 2>&1 | FileCheck %s --check-prefix=APPEND
// APPEND: along_value.append.64x64
// RUN: rm %t.dlk

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
!channel = tensor<?xf32, #linattn.of<key, value_head>>
!matrix = tensor<?x?xf32, #linattn.of<key_value, value_head>>
!flags = tensor<?xi1, #linattn.of<value, value_head>>

// A decay per element has no factors along key and value.
// RUN: %{refused}=per_element 2>&1 | %{check}=PER-ELEMENT
// RUN: not ls %t.dlk
// PER-ELEMENT: [[@LINE+5]]:9: error: 'linattn.decay' op rules out the chunkwise and log schedules of operator 'per_element' (A1): expected a decay along scalar, key or value, got key_value
// PER-ELEMENT-NEXT: {{^}}  %S1 = linattn.decay %S, %m : !matrix{{$}}
// PER-ELEMENT-NEXT: {{^ {8}\^$}}
// PER-ELEMENT-NEXT: [[@LINE+2]]:9: note: decay along key and along value, one after the other, if the log decay is a sum of one number per row and one per column; or keep to --kernels=decode, which takes any step, and rows of any number of tokens{{$}}
linattn.operator @per_element(%q: !key, %k: !key, %v: !value, %m: !matrix) state(%S: !linattn.state) -> (o: !value) {
  %S1 = linattn.decay %S, %m : !matrix
  %S2 = linattn.write %S1, %k, %v : !key, !value
  %o = linattn.read %S2, %q : !key -> !value
  linattn.yield %S2, %o : !linattn.state, !value
}

// A system per value channel: by a decay.
// RUN: %{refused}=value_decay 2>&1 | %{check}=VALUE-DECAY
// RUN: not ls %t.dlk
// VALUE-DECAY: [[@LINE+8]]:9: error: 'linattn.decay' op rules out the chunkwise and log schedules of operator 'value_decay' (A2): expected no decay along value on a state whose reads enter writes, got one
// VALUE-DECAY-NEXT: {{^}}  %S1 = linattn.decay %S, %w : !value{{$}}
// VALUE-DECAY-NEXT: {{^ {8}\^$}}
// VALUE-DECAY-NEXT: [[@LINE+5]]:9: note: decay along scalar or key, or write values that do not depend on the state; or keep to --kernels=decode, which takes any step, and rows of any number of tokens{{$}}
// VALUE-DECAY-NEXT: [[@LINE+5]]:8: note: the read is here
// VALUE-DECAY-NEXT: {{^}}  %r = linattn.read %S1, %k : !key -> !value{{$}}
// VALUE-DECAY-NEXT: {{^ {7}\^$}}
linattn.operator @value_decay(%q: !key, %k: !key, %v: !value, %w: !value) state(%S: !linattn.state) -> (o: !value) {
  %S1 = linattn.decay %S, %w : !value
  %r = linattn.read %S1, %k : !key -> !value
  %u = arith.subf %v, %r : !value
  %S2 = linattn.write %S1, %k, %u : !key, !value
  %o = linattn.read %S2, %q : !key -> !value
  linattn.yield %S2, %o : !linattn.state, !value
}

// The same where the reads enter the writes of another state.
// RUN: %{refused}=feeds 2>&1 | %{check}=FEEDS
// RUN: not ls %t.dlk
// FEEDS: [[@LINE+8]]:9: error: 'linattn.decay' op rules out the chunkwise and log schedules of operator 'feeds' (A2): expected no decay along value on a state whose reads enter writes, got one
// FEEDS-NEXT: {{^}}  %A1 = linattn.decay %A, %w : !value{{$}}
// FEEDS-NEXT: {{^ {8}\^$}}
// FEEDS-NEXT: [[@LINE+5]]:9: note: decay along scalar or key, or write values that do not depend on the state; or keep to --kernels=decode, which takes any step, and rows of any number of tokens{{$}}
// FEEDS-NEXT: [[@LINE+5]]:8: note: the read is here
// FEEDS-NEXT: {{^}}  %r = linattn.read %A1, %k : !key -> !value{{$}}
// FEEDS-NEXT: {{^ {7}\^$}}
linattn.operator @feeds(%q: !key, %k: !key, %v: !value, %w: !value) state(%A: !linattn.state, %B: !linattn.state) -> (o: !value) {
  %A1 = linattn.decay %A, %w : !value
  %r = linattn.read %A1, %k : !key -> !value
  %B1 = linattn.write %B, %q, %r : !key, !value
  %o = linattn.read %B1, %q : !key -> !value
  linattn.yield %A1, %B1, %o : !linattn.state, !linattn.state, !value
}

// The same by a gate.
// RUN: %{refused}=value_gate 2>&1 | %{check}=VALUE-GATE
// RUN: not ls %t.dlk
// VALUE-GATE: [[@LINE+10]]:8: error: 'arith.mulf' op rules out the chunkwise and log schedules of operator 'value_gate' (A3): expected what multiplies a read on its way into a write to be one number per head, got one per value channel
// VALUE-GATE-NEXT: {{^}}  %u = arith.mulf %w, %e : !value{{$}}
// VALUE-GATE-NEXT: {{^ {7}\^$}}
// VALUE-GATE-NEXT: [[@LINE+7]]:8: note: compute the factor per head and broadcast it last, or gate the token-local part of the value only; or keep to --kernels=decode, which takes any step, and rows of any number of tokens{{$}}
// VALUE-GATE-NEXT: [[@LINE+4]]:8: note: the read is here
// VALUE-GATE-NEXT: {{^}}  %r = linattn.read %S, %k : !key -> !value{{$}}
// VALUE-GATE-NEXT: {{^ {7}\^$}}
linattn.operator @value_gate(%q: !key, %k: !key, %v: !value, %w: !value) state(%S: !linattn.state) -> (o: !value) {
  %r = linattn.read %S, %k : !key -> !value
  %e = arith.subf %v, %r : !value
  %u = arith.mulf %w, %e : !value
  %S1 = linattn.write %S, %k, %u : !key, !value
  %o = linattn.read %S1, %q : !key -> !value
  linattn.yield %S1, %o : !linattn.state, !value
}

// Systems that are not linear: a function of a read
// RUN: %{refused}=squashed 2>&1 | %{check}=SQUASHED
// RUN: not ls %t.dlk
// SQUASHED: [[@LINE+9]]:8: error: 'math.tanh' op rules out the chunkwise and log schedules of operator 'squashed' (A4): expected reads to meet token-local values in sums and products only, got 'math.tanh' of a read
// SQUASHED-NEXT: {{^}}  %t = math.tanh %r : !value{{$}}
// SQUASHED-NEXT: {{^ {7}\^$}}
// SQUASHED-NEXT: [[@LINE+6]]:8: note: keep what is written a sum of reads times token-local factors; or keep to --kernels=decode, which takes any step, and rows of any number of tokens{{$}}
// SQUASHED-NEXT: [[@LINE+4]]:8: note: the read is here
// SQUASHED-NEXT: {{^}}  %r = linattn.read %S, %k : !key -> !value{{$}}
// SQUASHED-NEXT: {{^ {7}\^$}}
linattn.operator @squashed(%q: !key, %k: !key, %v: !value) state(%S: !linattn.state) -> (o: !value) {
  %r = linattn.read %S, %k : !key -> !value
  %t = math.tanh %r : !value
  %u = arith.subf %v, %t : !value
  %S1 = linattn.write %S, %k, %u : !key, !value
  %o = linattn.read %S1, %q : !key -> !value
  linattn.yield %S1, %o : !linattn.state, !value
}

// its square
// RUN: %{refused}=squared 2>&1 | %{check}=SQUARED
// RUN: not ls %t.dlk
// SQUARED: [[@LINE+9]]:8: error: 'arith.mulf' op rules out the chunkwise and log schedules of operator 'squared' (A4): expected reads to meet token-local values in sums and products only, got a product of two values that depend on the state
// SQUARED-NEXT: {{^}}  %u = arith.mulf %r, %r : !value{{$}}
// SQUARED-NEXT: {{^ {7}\^$}}
// SQUARED-NEXT: [[@LINE+6]]:8: note: keep one factor of each product token-local; or keep to --kernels=decode, which takes any step, and rows of any number of tokens{{$}}
// SQUARED-NEXT: [[@LINE+4]]:8: note: the read is here
// SQUARED-NEXT: {{^}}  %r = linattn.read %S, %k : !key -> !value{{$}}
// SQUARED-NEXT: {{^ {7}\^$}}
linattn.operator @squared(%q: !key, %k: !key, %v: !value) state(%S: !linattn.state) -> (o: !value) {
  %r = linattn.read %S, %k : !key -> !value
  %u = arith.mulf %r, %r : !value
  %S1 = linattn.write %S, %k, %u : !key, !value
  %o = linattn.read %S1, %q : !key -> !value
  linattn.yield %S1, %o : !linattn.state, !value
}

// a quotient
// RUN: %{refused}=divided 2>&1 | %{check}=DIVIDED
// RUN: not ls %t.dlk
// DIVIDED: [[@LINE+9]]:8: error: 'arith.divf' op rules out the chunkwise and log schedules of operator 'divided' (A4): expected reads to meet token-local values in sums and products only, got a division by a value that depends on the state
// DIVIDED-NEXT: {{^}}  %u = arith.divf %v, %r : !value{{$}}
// DIVIDED-NEXT: {{^ {7}\^$}}
// DIVIDED-NEXT: [[@LINE+6]]:8: note: divide by token-local values only; or keep to --kernels=decode, which takes any step, and rows of any number of tokens{{$}}
// DIVIDED-NEXT: [[@LINE+4]]:8: note: the read is here
// DIVIDED-NEXT: {{^}}  %r = linattn.read %S, %k : !key -> !value{{$}}
// DIVIDED-NEXT: {{^ {7}\^$}}
linattn.operator @divided(%q: !key, %k: !key, %v: !value) state(%S: !linattn.state) -> (o: !value) {
  %r = linattn.read %S, %k : !key -> !value
  %u = arith.divf %v, %r : !value
  %S1 = linattn.write %S, %k, %u : !key, !value
  %o = linattn.read %S1, %q : !key -> !value
  linattn.yield %S1, %o : !linattn.state, !value
}

// a sum of all channels
// RUN: %{refused}=summed 2>&1 | %{check}=SUMMED
// RUN: not ls %t.dlk
// SUMMED: [[@LINE+9]]:8: error: 'linattn.reduce' op rules out the chunkwise and log schedules of operator 'summed' (A4): expected reads to meet token-local values in sums and products only, got a sum along the value axis
// SUMMED-NEXT: {{^}}  %s = linattn.reduce %r : !value -> !per_head{{$}}
// SUMMED-NEXT: {{^ {7}\^$}}
// SUMMED-NEXT: [[@LINE+6]]:8: note: sum over token-local vectors only: columns of the state are independent; or keep to --kernels=decode, which takes any step, and rows of any number of tokens{{$}}
// SUMMED-NEXT: [[@LINE+4]]:8: note: the read is here
// SUMMED-NEXT: {{^}}  %r = linattn.read %S, %k : !key -> !value{{$}}
// SUMMED-NEXT: {{^ {7}\^$}}
linattn.operator @summed(%q: !key, %k: !key, %v: !value) state(%S: !linattn.state) -> (o: !value) {
  %r = linattn.read %S, %k : !key -> !value
  %s = linattn.reduce %r : !value -> !per_head
  %u = linattn.broadcast %s : !per_head -> !value
  %S1 = linattn.write %S, %k, %u : !key, !value
  %o = linattn.read %S1, %q : !key -> !value
  linattn.yield %S1, %o : !linattn.state, !value
}

// a choice between a read and something else
// RUN: %{refused}=selected 2>&1 | %{check}=SELECTED
// RUN: not ls %t.dlk
// SELECTED: [[@LINE+10]]:8: error: 'arith.select' op rules out the chunkwise and log schedules of operator 'selected' (A4): expected reads to meet token-local values in sums and products only, got a selection
// SELECTED-NEXT: {{^}}  %u = arith.select %c, %r, %v : !flags, !value{{$}}
// SELECTED-NEXT: {{^ {7}\^$}}
// SELECTED-NEXT: [[@LINE+7]]:8: note: multiply by a gate of zeros and ones instead; or keep to --kernels=decode, which takes any step, and rows of any number of tokens{{$}}
// SELECTED-NEXT: [[@LINE+4]]:8: note: the read is here
// SELECTED-NEXT: {{^}}  %r = linattn.read %S, %k : !key -> !value{{$}}
// SELECTED-NEXT: {{^ {7}\^$}}
linattn.operator @selected(%q: !key, %k: !key, %v: !value, %w: !value) state(%S: !linattn.state) -> (o: !value) {
  %r = linattn.read %S, %k : !key -> !value
  %c = arith.cmpf ogt, %v, %w : !value
  %u = arith.select %c, %r, %v : !flags, !value
  %S1 = linattn.write %S, %k, %u : !key, !value
  %o = linattn.read %S1, %q : !key -> !value
  linattn.yield %S1, %o : !linattn.state, !value
}

// a choice by a read.
// RUN: %{refused}=compared 2>&1 | %{check}=COMPARED
// RUN: not ls %t.dlk
// COMPARED: [[@LINE+9]]:8: error: 'arith.cmpf' op rules out the chunkwise and log schedules of operator 'compared' (A4): expected reads to meet token-local values in sums and products only, got 'arith.cmpf' of a read
// COMPARED-NEXT: {{^}}  %c = arith.cmpf ogt, %r, %w : !value{{$}}
// COMPARED-NEXT: {{^ {7}\^$}}
// COMPARED-NEXT: [[@LINE+6]]:8: note: keep what is written a sum of reads times token-local factors; or keep to --kernels=decode, which takes any step, and rows of any number of tokens{{$}}
// COMPARED-NEXT: [[@LINE+4]]:8: note: the read is here
// COMPARED-NEXT: {{^}}  %r = linattn.read %S, %k : !key -> !value{{$}}
// COMPARED-NEXT: {{^ {7}\^$}}
linattn.operator @compared(%q: !key, %k: !key, %v: !value, %w: !value) state(%S: !linattn.state) -> (o: !value) {
  %r = linattn.read %S, %k : !key -> !value
  %c = arith.cmpf ogt, %r, %w : !value
  %u = arith.select %c, %v, %w : !flags, !value
  %S1 = linattn.write %S, %k, %u : !key, !value
  %o = linattn.read %S1, %q : !key -> !value
  linattn.yield %S1, %o : !linattn.state, !value
}

// A decay, a key or a query that is known only after a read.
// RUN: %{refused}=decay_of_state 2>&1 | %{check}=DECAY-OF-STATE
// RUN: not ls %t.dlk
// DECAY-OF-STATE: [[@LINE+10]]:9: error: 'linattn.decay' op rules out the chunkwise and log schedules of operator 'decay_of_state' (A4): expected a log decay of the token alone, got one that depends on the state
// DECAY-OF-STATE-NEXT: {{^}}  %S1 = linattn.decay %S, %s : !per_head{{$}}
// DECAY-OF-STATE-NEXT: {{^ {8}\^$}}
// DECAY-OF-STATE-NEXT: [[@LINE+7]]:9: note: compute the log decay from inputs and params; or keep to --kernels=decode, which takes any step, and rows of any number of tokens{{$}}
// DECAY-OF-STATE-NEXT: [[@LINE+4]]:8: note: the read is here
// DECAY-OF-STATE-NEXT: {{^}}  %r = linattn.read %S, %k : !key -> !value{{$}}
// DECAY-OF-STATE-NEXT: {{^ {7}\^$}}
linattn.operator @decay_of_state(%q: !key, %k: !key, %v: !value) state(%S: !linattn.state) -> (o: !value) {
  %r = linattn.read %S, %k : !key -> !value
  %s = linattn.reduce %r : !value -> !per_head
  %S1 = linattn.decay %S, %s : !per_head
  %S2 = linattn.write %S1, %k, %v : !key, !value
  %o = linattn.read %S2, %q : !key -> !value
  linattn.yield %S2, %o : !linattn.state, !value
}

// The key of a write
// RUN: %{refused}=key_of_state 2>&1 | %{check}=KEY-OF-STATE
// RUN: not ls %t.dlk
// KEY-OF-STATE: [[@LINE+11]]:9: error: 'linattn.write' op rules out the chunkwise and log schedules of operator 'key_of_state' (A4): expected a key vector of the token alone, got one that depends on the state
// KEY-OF-STATE-NEXT: {{^}}  %S1 = linattn.write %S, %x, %v : !channel, !value{{$}}
// KEY-OF-STATE-NEXT: {{^ {8}\^$}}
// KEY-OF-STATE-NEXT: [[@LINE+8]]:9: note: compute the key vector from inputs and params; or keep to --kernels=decode, which takes any step, and rows of any number of tokens{{$}}
// KEY-OF-STATE-NEXT: [[@LINE+4]]:8: note: the read is here
// KEY-OF-STATE-NEXT: {{^}}  %r = linattn.read %S, %k : !key -> !value{{$}}
// KEY-OF-STATE-NEXT: {{^ {7}\^$}}
linattn.operator @key_of_state(%q: !key, %k: !key, %v: !value) state(%S: !linattn.state) -> (o: !value) {
  %r = linattn.read %S, %k : !key -> !value
  %s = linattn.reduce %r : !value -> !per_head
  %x = linattn.broadcast %s : !per_head -> !channel
  %S1 = linattn.write %S, %x, %v : !channel, !value
  %o = linattn.read %S1, %q : !key -> !value
  linattn.yield %S1, %o : !linattn.state, !value
}

// and that of a read.
// RUN: %{refused}=query_of_state 2>&1 | %{check}=QUERY-OF-STATE
// RUN: not ls %t.dlk
// QUERY-OF-STATE: [[@LINE+12]]:8: error: 'linattn.read' op rules out the chunkwise and log schedules of operator 'query_of_state' (A4): expected a key vector of the token alone, got one that depends on the state
// QUERY-OF-STATE-NEXT: {{^}}  %o = linattn.read %S1, %x : !channel -> !value{{$}}
// QUERY-OF-STATE-NEXT: {{^ {7}\^$}}
// QUERY-OF-STATE-NEXT: [[@LINE+9]]:8: note: compute the key vector from inputs and params; or keep to --kernels=decode, which takes any step, and rows of any number of tokens{{$}}
// QUERY-OF-STATE-NEXT: [[@LINE+4]]:8: note: the read is here
// QUERY-OF-STATE-NEXT: {{^}}  %r = linattn.read %S, %k : !key -> !value{{$}}
// QUERY-OF-STATE-NEXT: {{^ {7}\^$}}
linattn.operator @query_of_state(%k: !key, %v: !value) state(%S: !linattn.state) -> (o: !value) {
  %r = linattn.read %S, %k : !key -> !value
  %s = linattn.reduce %r : !value -> !per_head
  %x = linattn.broadcast %s : !per_head -> !channel
  %S1 = linattn.write %S, %k, %v : !key, !value
  %o = linattn.read %S1, %x : !channel -> !value
  linattn.yield %S1, %o : !linattn.state, !value
}

// An output need not be affine: what is behind the read is no matter of the state.
// RUN: %{refused}=squashed_output 2>&1 | %{check}=SQUASHED-OUTPUT
// RUN: not ls %t.dlk
// SQUASHED-OUTPUT: [[@LINE+10]]:8: error: 'math.tanh' op rules out the chunkwise and log schedules of operator 'squashed_output' (A4): expected reads to meet token-local values in sums and products only, got 'math.tanh' of a read
// SQUASHED-OUTPUT-NEXT: {{^}}  %o = math.tanh %r : !value{{$}}
// SQUASHED-OUTPUT-NEXT: {{^ {7}\^$}}
// SQUASHED-OUTPUT-NEXT: [[@LINE+7]]:8: note: let the output be the value before this operation, which can be applied to it outside; or keep to --kernels=decode, which takes any step, and rows of any number of tokens{{$}}
// SQUASHED-OUTPUT-NEXT: [[@LINE+5]]:8: note: the read is here
// SQUASHED-OUTPUT-NEXT: {{^}}  %r = linattn.read %S1, %q : !key -> !value{{$}}
// SQUASHED-OUTPUT-NEXT: {{^ {7}\^$}}
linattn.operator @squashed_output(%q: !key, %k: !key, %v: !value) state(%S: !linattn.state) -> (o: !value) {
  %S1 = linattn.write %S, %k, %v : !key, !value
  %r = linattn.read %S1, %q : !key -> !value
  %o = math.tanh %r : !value
  linattn.yield %S1, %o : !linattn.state, !value
}

// Legal, and not served yet: two states
// RUN: %{refused}=two_states 2>&1 | %{check}=TWO-STATES
// RUN: not ls %t.dlk
// TWO-STATES: [[@LINE+4]]:1: error: 'linattn.operator' op has no chunkwise kernel yet (B1): expected one state, got 2
// TWO-STATES-NEXT: {{^}}linattn.operator @two_states(%q: !key, %k: !key, %v: !value) state(%A: !linattn.state, %B: !linattn.state) -> (o: !value) {{{$}}
// TWO-STATES-NEXT: {{^\^$}}
// TWO-STATES-NEXT: [[@LINE+1]]:1: note: make an operator of each state, if none reads another's, or append to a log, which serves several; or keep to --kernels=decode, which takes any step, and rows of any number of tokens{{$}}
linattn.operator @two_states(%q: !key, %k: !key, %v: !value) state(%A: !linattn.state, %B: !linattn.state) -> (o: !value) {
  %A1 = linattn.write %A, %k, %v : !key, !value
  %B1 = linattn.write %B, %q, %v : !key, !value
  %o = linattn.read %B1, %q : !key -> !value
  linattn.yield %A1, %B1, %o : !linattn.state, !linattn.state, !value
}

// a decay along value without feedback
// RUN: %{refused}=along_value 2>&1 | %{check}=ALONG-VALUE
// RUN: not ls %t.dlk
// ALONG-VALUE: [[@LINE+5]]:9: error: 'linattn.decay' op has no chunkwise kernel yet (B2): expected decays along scalar or key, got one along value
// ALONG-VALUE-NEXT: {{^}}  %S1 = linattn.decay %S, %w : !value{{$}}
// ALONG-VALUE-NEXT: {{^ {8}\^$}}
// ALONG-VALUE-NEXT: [[@LINE+2]]:9: note: decay along scalar or key, or append to a log, which serves this; or keep to --kernels=decode, which takes any step, and rows of any number of tokens{{$}}
linattn.operator @along_value(%q: !key, %k: !key, %v: !value, %w: !value) state(%S: !linattn.state) -> (o: !value) {
  %S1 = linattn.decay %S, %w : !value
  %S2 = linattn.write %S1, %k, %v : !key, !value
  %o = linattn.read %S2, %q : !key -> !value
  linattn.yield %S2, %o : !linattn.state, !value
}

// a norm of values
// RUN: %{refused}=normalized 2>&1 | %{check}=NORMALIZED
// RUN: not ls %t.dlk
// NORMALIZED: [[@LINE+5]]:8: error: 'linattn.reduce' op has no chunkwise kernel yet (B3): expected sums over key vectors only, got one over a value vector
// NORMALIZED-NEXT: {{^}}  %n = linattn.l2norm %v : !value{{$}}
// NORMALIZED-NEXT: {{^ {7}\^$}}
// NORMALIZED-NEXT: [[@LINE+2]]:8: note: compute what the sum is for, as a norm, outside and make it an input; or keep to --kernels=decode, which takes any step, and rows of any number of tokens{{$}}
linattn.operator @normalized(%q: !key, %k: !key, %v: !value) state(%S: !linattn.state) -> (o: !value) {
  %n = linattn.l2norm %v : !value
  %S1 = linattn.write %S, %k, %n : !key, !value
  %o = linattn.read %S1, %q : !key -> !value
  linattn.yield %S1, %o : !linattn.state, !value
}

// and a log of nothing.
// RUN: not %{compile} --kernels=append --op=constant 2>&1 | %{check}=CONSTANT
// RUN: not ls %t.dlk
// CONSTANT: [[@LINE+4]]:1: error: 'linattn.operator' op has no log kernel yet (B4): expected a step that changes a state, got one that changes none
// CONSTANT-NEXT: {{^}}linattn.operator @constant(%q: !key) state(%S: !linattn.state) -> (o: !value) {{{$}}
// CONSTANT-NEXT: {{^\^$}}
// CONSTANT-NEXT: [[@LINE+1]]:1: note: write to the state or decay it; or keep to --kernels=decode, which takes any step, and rows of any number of tokens{{$}}
linattn.operator @constant(%q: !key) state(%S: !linattn.state) -> (o: !value) {
  %o = linattn.read %S, %q : !key -> !value
  linattn.yield %S, %o : !linattn.state, !value
}
