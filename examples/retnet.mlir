// Retention (RetNet; Sun et al., 2023) and lightning attention (TransNormerLLM, MiniMax-01): one
// decay per head, the same for all tokens.
//
// For every token, with S the K x V state of a value head:
//   S <- e^-slope S + k v^T             the new entry is not decayed
//   o  = scale S^T q
// RetNet: slope = -log(1 - 2^(-5 - h)) of head h. Lightning attention: slope = 2^(-8 (h + 1) / H),
// times a factor that falls with the layer. gdn.mlir explains how to read this file.

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>

linattn.operator @retnet(%q: !key, %k: !key, %v: !value)
    params(%slope: !per_head, %scale: f32 {linattn.default = "key_dim^-0.5"})
    state(%S: !linattn.state) -> (o: !value) {
  %g = arith.negf %slope : !per_head
  %S1 = linattn.decay %S, %g : !per_head
  %S2 = linattn.write %S1, %k, %v : !key, !value
  %r = linattn.read %S2, %q : !key -> !value
  %scales = linattn.broadcast %scale : f32 -> !value
  %o = arith.mulf %scales, %r : !value
  linattn.yield %S2, %o : !linattn.state, !value
}
