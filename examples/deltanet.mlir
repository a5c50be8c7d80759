// DeltaNet (Schlag, Irie and Schmidhuber, 2021; Yang et al., 2024): the delta rule without decay.
//
// For every token, with S the K x V state of a value head:
//   S <- S + k (beta (v - S^T k))^T     replace what the state returns for k, by the share beta
//   o  = scale S^T q
// beta = sigmoid(b); q and k are brought to length one. gdn.mlir explains how to read this file.

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>

linattn.operator @deltanet(%q: !key, %k: !key, %v: !value, %b: !per_head)
    params(%scale: f32 {linattn.default = "key_dim^-0.5"})
    state(%S: !linattn.state) -> (o: !value) {
  %qn = linattn.l2norm %q : !key
  %kn = linattn.l2norm %k : !key
  %beta = linattn.sigmoid %b : !per_head

  %old = linattn.read %S, %kn : !key -> !value
  %error = arith.subf %v, %old : !value
  %betas = linattn.broadcast %beta : !per_head -> !value
  %u = arith.mulf %betas, %error : !value
  %S1 = linattn.write %S, %kn, %u : !key, !value

  %r = linattn.read %S1, %qn : !key -> !value
  %scales = linattn.broadcast %scale : f32 -> !value
  %o = arith.mulf %scales, %r : !value
  linattn.yield %S1, %o : !linattn.state, !value
}
