// Mamba-2 (SSD; Dao and Gu, 2024): one decay per head from the step size, and a skip.
//
// For every token, with S the K x V state of a value head and step = softplus(dt + dt_bias):
//   S <- e^(-exp(A_log) step) S + k (step v)^T     the new entry is not decayed
//   o  = S^T q + D v                               the token itself, past the state
// In the names of the paper q is C, k is B, v is x and o is y; key heads are its groups.
// gdn.mlir explains how to read this file.

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>

linattn.operator @mamba2(%q: !key, %k: !key, %v: !value, %dt: !per_head)
    params(%A_log: !per_head, %dt_bias: !per_head, %D: !per_head)
    state(%S: !linattn.state) -> (o: !value) {
  %biased = arith.addf %dt, %dt_bias : !per_head
  %step = linattn.softplus %biased : !per_head
  %rate = math.exp %A_log : !per_head
  %product = arith.mulf %rate, %step : !per_head
  %g = arith.negf %product : !per_head

  %S1 = linattn.decay %S, %g : !per_head
  %steps = linattn.broadcast %step : !per_head -> !value
  %u = arith.mulf %steps, %v : !value
  %S2 = linattn.write %S1, %k, %u : !key, !value

  %r = linattn.read %S2, %q : !key -> !value
  %Ds = linattn.broadcast %D : !per_head -> !value
  %skip = arith.mulf %Ds, %v : !value
  %o = arith.addf %r, %skip : !value
  linattn.yield %S2, %o : !linattn.state, !value
}
