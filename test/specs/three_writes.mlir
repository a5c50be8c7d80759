// Of no paper: three writes per token, of which the last one has a decay before it; one read enters two writes, and of what
// lies between the writes there is an output. Three writes are four rows of a chunk.

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>

linattn.operator @three_writes(%q: !key, %k: !key, %r: !key, %v: !value, %w: !value, %a: !key, %b: !per_head)
    params(%scale: f32 {linattn.default = "key_dim^-0.5"})
    state(%S: !linattn.state) -> (o: !value) {
  %kn = linattn.l2norm %k : !key
  %rn = linattn.l2norm %r : !key
  %step = linattn.softplus %a : !key
  %g = arith.negf %step : !key
  %share = linattn.sigmoid %b : !per_head
  %h = arith.negf %share : !per_head
  %shares = linattn.broadcast %share : !per_head -> !value

  %S1 = linattn.decay %S, %g : !key
  %old = linattn.read %S1, %kn : !key -> !value
  %error = arith.subf %v, %old : !value
  %S2 = linattn.write %S1, %kn, %error : !key, !value
  %part = arith.mulf %shares, %old : !value
  %S3 = linattn.write %S2, %rn, %part : !key, !value
  %between = linattn.read %S3, %q : !key -> !value
  %S4 = linattn.decay %S3, %h : !per_head
  %rest = linattn.read %S4, %rn : !key -> !value
  %change = arith.subf %w, %rest : !value
  %u = arith.mulf %shares, %change : !value
  %S5 = linattn.write %S4, %rn, %u : !key, !value
  %after = linattn.read %S5, %q : !key -> !value
  %both = arith.addf %between, %after : !value
  %scales = linattn.broadcast %scale : f32 -> !value
  %o = arith.mulf %scales, %both : !value
  linattn.yield %S5, %o : !linattn.state, !value
}
