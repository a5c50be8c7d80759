// One decay per element of the state, from an input of K x V numbers per token: g = -softplus(a).
// Legal for the recurrent schedule only.

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!key_value = tensor<?x?xf32, #linattn.of<key_value, value_head>>

linattn.operator @elementwise(%q: !key, %k: !key, %v: !value, %a: !key_value)
    params(%scale: f32 {linattn.default = "key_dim^-0.5"})
    state(%S: !linattn.state) -> (o: !value) {
  %step = linattn.softplus %a : !key_value
  %g = arith.negf %step : !key_value
  %S1 = linattn.decay %S, %g : !key_value
  %S2 = linattn.write %S1, %k, %v : !key, !value
  %r = linattn.read %S2, %q : !key -> !value
  %scales = linattn.broadcast %scale : f32 -> !value
  %o = arith.mulf %scales, %r : !value
  linattn.yield %S2, %o : !linattn.state, !value
}
