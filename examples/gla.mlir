// Gated linear attention (Yang et al., 2023): one decay per key channel and a plain write.
//
// For every token, with S the K x V state of a value head:
//   S <- diag(e^g) S + k v^T            the new entry is not decayed
//   o  = scale S^T q
// g = log(sigmoid(a)) / 16, the layer's gate, so that any input decays; the value heads of a key
// head share it. gdn.mlir explains how to read this file.

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>

linattn.operator @gla(%q: !key, %k: !key, %v: !value, %a: !key)
    params(%scale: f32 {linattn.default = "key_dim^-0.5"})
    state(%S: !linattn.state) -> (o: !value) {
  %minus_a = arith.negf %a : !key
  %p = linattn.softplus %minus_a : !key          // -log sigmoid(a)
  %c = arith.constant -0.0625 : f32
  %cs = linattn.broadcast %c : f32 -> !key
  %g = arith.mulf %cs, %p : !key

  %S1 = linattn.decay %S, %g : !key
  %S2 = linattn.write %S1, %k, %v : !key, !value
  %r = linattn.read %S2, %q : !key -> !value
  %scales = linattn.broadcast %scale : f32 -> !value
  %o = arith.mulf %scales, %r : !value
  linattn.yield %S2, %o : !linattn.state, !value
}
