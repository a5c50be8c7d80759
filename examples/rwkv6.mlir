// RWKV-6 (Finch) time mixing.
//
// For every token, with S the K x V state of a head:
//   o  = scale (S^T r + (r . (u * k)) v)   the state as the previous token left it, and a bonus u
//                                          for the current token, which it does not hold yet
//   S <- diag(e^w) S + k v^T               one decay per key channel; the new entry is not decayed
//
// gdn.mlir explains how to read such a file. Here r is the query. RWKV-6 has as many key heads as
// value heads; r, k, w and u are declared per key head: grouped value heads would share them.
//
// Options (dl-compile --set NAME=VALUE):
//   decay  log   w is the natural logarithm of the decay (at most 0)
//          raw   w is the output of the layer: the decay is exp(-exp(w))
// `scale` defaults to K^-0.5, as in FLA; the released RWKV-6 models use 1: pass 1.0 at launch.

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_key_head = tensor<f32, #linattn.of<scalar, key_head>>

linattn.operator @rwkv6(%r: !key, %k: !key, %v: !value, %w: !key)
    params(%u: !key, %scale: f32 {linattn.default = "key_dim^-0.5"})
    state(%S: !linattn.state) -> (o: !value)
    options {decay = ["log", "raw"]} {

  %log_decay = linattn.switch "decay" -> !key
  case "log" {
    linattn.yield %w : !key
  }
  case "raw" {
    %rate = math.exp %w : !key
    %negative = arith.negf %rate : !key
    linattn.yield %negative : !key
  }

  // The output: the old state, then the bonus of the current token.
  %old = linattn.read %S, %r : !key -> !value
  %uk = arith.mulf %u, %k : !key
  %ruk = arith.mulf %r, %uk : !key
  %bonus = linattn.reduce %ruk : !key -> !per_key_head
  %bonuses = linattn.broadcast %bonus : !per_key_head -> !value
  %current = arith.mulf %bonuses, %v : !value
  %sum = arith.addf %old, %current : !value
  %scales = linattn.broadcast %scale : f32 -> !value
  %o = arith.mulf %scales, %sum : !value

  %S1 = linattn.decay %S, %log_decay : !key
  %S2 = linattn.write %S1, %k, %v : !key, !value
  linattn.yield %S2, %o : !linattn.state, !value
}
