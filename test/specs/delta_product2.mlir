// Gated DeltaProduct with two delta steps per token: one decay, two corrections, one read. Each
// step has its own key, value and logit. g = -softplus(a).

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>

linattn.operator @delta_product2(%q: !key, %k0: !key, %v0: !value, %b0: !per_head,
                                 %k1: !key, %v1: !value, %b1: !per_head, %a: !per_head)
    params(%scale: f32 {linattn.default = "key_dim^-0.5"})
    state(%S: !linattn.state) -> (o: !value) {
  %qn = linattn.l2norm %q : !key
  %k0n = linattn.l2norm %k0 : !key
  %k1n = linattn.l2norm %k1 : !key
  %beta0 = linattn.sigmoid %b0 : !per_head
  %beta1 = linattn.sigmoid %b1 : !per_head
  %step = linattn.softplus %a : !per_head
  %g = arith.negf %step : !per_head
  %S1 = linattn.decay %S, %g : !per_head

  %old0 = linattn.read %S1, %k0n : !key -> !value
  %error0 = arith.subf %v0, %old0 : !value
  %betas0 = linattn.broadcast %beta0 : !per_head -> !value
  %u0 = arith.mulf %betas0, %error0 : !value
  %S2 = linattn.write %S1, %k0n, %u0 : !key, !value

  %old1 = linattn.read %S2, %k1n : !key -> !value
  %error1 = arith.subf %v1, %old1 : !value
  %betas1 = linattn.broadcast %beta1 : !per_head -> !value
  %u1 = arith.mulf %betas1, %error1 : !value
  %S3 = linattn.write %S2, %k1n, %u1 : !key, !value

  %r = linattn.read %S3, %qn : !key -> !value
  %scales = linattn.broadcast %scale : f32 -> !value
  %o = arith.mulf %scales, %r : !value
  linattn.yield %S3, %o : !linattn.state, !value
}
