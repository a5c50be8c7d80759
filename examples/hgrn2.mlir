// HGRN2 (Qin et al., 2024): gated linear attention whose key is what the decay takes away.
//
// For every token, with S the K x V state of a value head:
//   S <- diag(e^g) S + (1 - e^g) v^T     no input k
//   o  = scale S^T q
// Options: gate=logit, g = log(sigmoid(f)) from the layer's input; gate=precomputed, g is an input,
// the natural logarithm of the decay, in f32: for layers with a lower bound on their decays.
// gdn.mlir explains how to read this file.

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>

linattn.operator @hgrn2(%q: !key, %f: !key, %g: !key {linattn.dtype = f32}, %v: !value)
    params(%scale: f32 {linattn.default = "key_dim^-0.5"})
    state(%S: !linattn.state) -> (o: !value) options {gate = ["logit", "precomputed"]} {
  %log_decay = linattn.switch "gate" -> !key
  case "logit" {
    %minus_f = arith.negf %f : !key
    %p = linattn.softplus %minus_f : !key
    %negative = arith.negf %p : !key
    linattn.yield %negative : !key
  }
  case "precomputed" {
    linattn.yield %g : !key
  }
  %decay = math.exp %log_decay : !key
  %one = arith.constant 1.0 : f32
  %ones = linattn.broadcast %one : f32 -> !key
  %k = arith.subf %ones, %decay : !key

  %S1 = linattn.decay %S, %log_decay : !key
  %S2 = linattn.write %S1, %k, %v : !key, !value
  %r = linattn.read %S2, %q : !key -> !value
  %scales = linattn.broadcast %scale : f32 -> !value
  %o = arith.mulf %scales, %r : !value
  linattn.yield %S2, %o : !linattn.state, !value
}
