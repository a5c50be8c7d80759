// A recurrence that nobody has published: it erases along one key, writes along another, and reads
// before it writes. For every token, with S the K x V state of a value head:
//   S <- diag(e^g) S                          one log decay per key channel, an input
//   o  = scale (S^T q + (q . (u * k)) v)      what the past has left, and a bonus for this token
//   S <- S + k (beta (v - S^T e))^T           beta = sigmoid(b); e, k, q have length one
// gdn.mlir explains how to read this file.
!key = tensor<?xf32, #linattn.of<key, key_head>>
!channel = tensor<?xf32, #linattn.of<key, value_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>
!per_key_head = tensor<f32, #linattn.of<scalar, key_head>>

linattn.operator @two_key_delta(%q: !key, %e: !key, %k: !key, %v: !value, %b: !per_head,
                                %g: !channel {linattn.dtype = f32})
    params(%u: !key, %scale: f32 {linattn.default = "key_dim^-0.5"})
    state(%S: !linattn.state) -> (o: !value) {
  %qn = linattn.l2norm %q : !key
  %en = linattn.l2norm %e : !key
  %kn = linattn.l2norm %k : !key
  %S1 = linattn.decay %S, %g : !channel

  %past = linattn.read %S1, %qn : !key -> !value
  %uk = arith.mulf %u, %kn : !key
  %quk = arith.mulf %qn, %uk : !key
  %bonus = linattn.reduce %quk : !key -> !per_key_head
  %bonuses = linattn.broadcast %bonus : !per_key_head -> !value
  %now = arith.mulf %bonuses, %v : !value
  %sum = arith.addf %past, %now : !value
  %scales = linattn.broadcast %scale : f32 -> !value
  %o = arith.mulf %scales, %sum : !value

  %old = linattn.read %S1, %en : !key -> !value
  %error = arith.subf %v, %old : !value
  %beta = linattn.sigmoid %b : !per_head
  %betas = linattn.broadcast %beta : !per_head -> !value
  %change = arith.mulf %betas, %error : !value
  %S2 = linattn.write %S1, %kn, %change : !key, !value
  linattn.yield %S2, %o : !linattn.state, !value
}
