// Gated DeltaNet 2: KDA with beta split into two gates, per key channel for what is erased and per
// value channel for what is written. For every token, with S the K x V state of a value head:
//   S <- diag(e^g) S                                       g = -exp(A_log) softplus(a + dt_bias)
//   S <- S + k (sigmoid(w) v - S^T (sigmoid(b) k))^T       q and k have length one
//   o  = scale S^T q
// gdn.mlir explains how to read this file.
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_key_head = tensor<f32, #linattn.of<scalar, key_head>>

linattn.operator @gdn2(%q: !key, %k: !key, %v: !value, %a: !key, %b: !key, %w: !value)
    params(%A_log: !per_key_head, %dt_bias: !key, %scale: f32 {linattn.default = "key_dim^-0.5"})
    state(%S: !linattn.state) -> (o: !value) {
  %biased = arith.addf %a, %dt_bias : !key
  %dt = linattn.softplus %biased : !key
  %rate = math.exp %A_log : !per_key_head
  %rates = linattn.broadcast %rate : !per_key_head -> !key
  %product = arith.mulf %rates, %dt : !key
  %g = arith.negf %product : !key
  %S1 = linattn.decay %S, %g : !key

  %kn = linattn.l2norm %k : !key
  %erase = linattn.sigmoid %b : !key
  %e = arith.mulf %erase, %kn : !key
  %old = linattn.read %S1, %e : !key -> !value
  %share = linattn.sigmoid %w : !value
  %new = arith.mulf %share, %v : !value
  %u = arith.subf %new, %old : !value
  %S2 = linattn.write %S1, %kn, %u : !key, !value

  %qn = linattn.l2norm %q : !key
  %r = linattn.read %S2, %qn : !key -> !value
  %scales = linattn.broadcast %scale : f32 -> !value
  %o = arith.mulf %scales, %r : !value
  linattn.yield %S2, %o : !linattn.state, !value
}
