// RWKV-7 (Goose; Peng et al., 2025): two terms per token, one of which moves what the state holds.
//
// For every token, with S the K x V state of a head:
//   S <- diag(e^g) S + b (S^T a)^T + k v^T     S^T a reads the state *before* the decay
//   o  = scale S^T q
// a = -kappa and b = kappa * sigmoid(eta), with kappa brought to length one; sigmoid(eta) is the
// in-context learning rate. g = -e^-0.5 sigmoid(w), hence never below -0.6065307.
// gdn.mlir explains how to read this file.

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>

linattn.operator @rwkv7(%q: !key, %k: !key, %v: !value, %w: !key, %kappa: !key, %eta: !key)
    params(%scale: f32 {linattn.default = 1.0})
    state(%S: !linattn.state) -> (o: !value) {
  %s = linattn.sigmoid %w : !key
  %c = arith.constant -0.60653066 : f32
  %cs = linattn.broadcast %c : f32 -> !key
  %g = arith.mulf %cs, %s : !key
  %direction = linattn.l2norm %kappa : !key
  %a = arith.negf %direction : !key
  %rate = linattn.sigmoid %eta : !key
  %b = arith.mulf %direction, %rate : !key

  %removed = linattn.read %S, %a : !key -> !value
  %S1 = linattn.decay %S, %g bound -0.6065307 : !key
  %S2 = linattn.write %S1, %b, %removed : !key, !value
  %S3 = linattn.write %S2, %k, %v : !key, !value
  %r = linattn.read %S3, %q : !key -> !value
  %scales = linattn.broadcast %scale : f32 -> !value
  %o = arith.mulf %scales, %r : !value
  linattn.yield %S3, %o : !linattn.state, !value
}
