// Gated DeltaProduct (Siems et al., 2025) with two steps per token: one decay, S <- e^g S with
// g = -exp(A_log) softplus(a + dt_bias), then twice the delta rule S <- S + k (beta (v - S^T k))^T,
// each time with a key, a value and beta = sigmoid(b) of its own, then o = scale S^T q.
// gdn.mlir explains how to read this file.
!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
linattn.operator @gated_deltaproduct(%q: !key, %k0: !key, %v0: !value, %b0: !per_head,
                                     %k1: !key, %v1: !value, %b1: !per_head, %a: !per_head)
    params(%A_log: !per_head, %dt_bias: !per_head, %scale: f32 {linattn.default = "key_dim^-0.5"})
    state(%S: !linattn.state) -> (o: !value) {
  %biased = arith.addf %a, %dt_bias : !per_head
  %dt = linattn.softplus %biased : !per_head
  %rate = math.exp %A_log : !per_head
  %product = arith.mulf %rate, %dt : !per_head
  %g = arith.negf %product : !per_head
  %S1 = linattn.decay %S, %g : !per_head

  %k0n = linattn.l2norm %k0 : !key
  %old0 = linattn.read %S1, %k0n : !key -> !value
  %error0 = arith.subf %v0, %old0 : !value
  %beta0 = linattn.sigmoid %b0 : !per_head
  %betas0 = linattn.broadcast %beta0 : !per_head -> !value
  %u0 = arith.mulf %betas0, %error0 : !value
  %S2 = linattn.write %S1, %k0n, %u0 : !key, !value
  %k1n = linattn.l2norm %k1 : !key
  %old1 = linattn.read %S2, %k1n : !key -> !value
  %error1 = arith.subf %v1, %old1 : !value
  %beta1 = linattn.sigmoid %b1 : !per_head
  %betas1 = linattn.broadcast %beta1 : !per_head -> !value
  %u1 = arith.mulf %betas1, %error1 : !value
  %S3 = linattn.write %S2, %k1n, %u1 : !key, !value

  %qn = linattn.l2norm %q : !key
  %r = linattn.read %S3, %qn : !key -> !value
  %scales = linattn.broadcast %scale : f32 -> !value
  %o = arith.mulf %scales, %r : !value
  linattn.yield %S3, %o : !linattn.state, !value
}
