// Comba (Hu et al., 2025): one decay, a correction by a key p of its own, a corrected query.
//   S <- e^g S + k (beta (v - S^T p))^T     S^T p reads the state *before* the decay
//   o  = scale S^T l2norm(q - D p)          k and p are brought to length one, beta = sigmoid(b)
// g = -exp(A_log) softplus(a + dt_bias). The layer makes p a learned part of k, d k.
// gdn.mlir explains how to read this file.
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
!per_key_head = tensor<f32, #linattn.of<scalar, key_head>>

linattn.operator @comba(%q: !key, %k: !key, %p: !key, %v: !value, %a: !per_head, %b: !per_head)
    params(%A_log: !per_head, %dt_bias: !per_head, %D: !per_key_head,
           %scale: f32 {linattn.default = "key_dim^-0.5"})
    state(%S: !linattn.state) -> (o: !value) {
  %biased = arith.addf %a, %dt_bias : !per_head
  %dt = linattn.softplus %biased : !per_head
  %rate = math.exp %A_log : !per_head
  %product = arith.mulf %rate, %dt : !per_head
  %g = arith.negf %product : !per_head

  %pn = linattn.l2norm %p : !key
  %old = linattn.read %S, %pn : !key -> !value
  %error = arith.subf %v, %old : !value
  %beta = linattn.sigmoid %b : !per_head
  %betas = linattn.broadcast %beta : !per_head -> !value
  %u = arith.mulf %betas, %error : !value
  %S1 = linattn.decay %S, %g : !per_head
  %kn = linattn.l2norm %k : !key
  %S2 = linattn.write %S1, %kn, %u : !key, !value
  %Ds = linattn.broadcast %D : !per_key_head -> !key
  %Dp = arith.mulf %Ds, %p : !key
  %shifted = arith.subf %q, %Dp : !key
  %qn = linattn.l2norm %shifted : !key
  %r = linattn.read %S2, %qn : !key -> !value
  %scales = linattn.broadcast %scale : f32 -> !value
  %o = arith.mulf %scales, %r : !value
  linattn.yield %S2, %o : !linattn.state, !value
}
