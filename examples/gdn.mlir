// Gated delta rule (GDN; Qwen3-Next, OLMo-Hybrid).
//
// For every token, with S the K x V state of a value head:
//   S <- e^g S                          one decay per value head
//   S <- S + k (beta (v - S^T k))^T     replace what the state returns for k, by the share beta
//   o  = scale S^T q
//
// How to read this file. A type says along which axis of the state a value lies and whether there
// is one per key head or one per value head: !key is K numbers of a key head, shared by all value
// heads of that key head; !value is V numbers of a value head; !per_head is one number of a value
// head. `%x = op %a, %b : type` names the result of op %x, and each name is given once: %S, %S1 and
// %S2 are the state before, between and after its changes. Multiplying a number into a vector needs
// a `broadcast` first. Sizes, head counts and storage types are chosen when a kernel is compiled.
//
// Options (dl-compile --set NAME=VALUE):
//   gate         softplus     g = -exp(A_log) softplus(a + dt_bias), from the raw gate `a`
//                precomputed  g is an input, the natural logarithm of the decay, in f32
//   normalize    true         q and k are brought to length one: x / sqrt(sum x^2 + 1e-6)
//                false        they already are, or need not be
//   beta         logit        beta = beta_factor sigmoid(b)
//                value        beta is an input, used as it is
//   beta_factor  1 to 2       2 allows beta in (0, 2): negative eigenvalues of the transition
// Inputs which the chosen options do not use vanish from the kernels.

!key = tensor<?xf32, #linattn.of<key, key_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>

linattn.operator @gdn(%q: !key, %k: !key, %v: !value,
                      %a: !per_head,                         // raw gate      (gate=softplus)
                      %g: !per_head {linattn.dtype = f32},   // log decay     (gate=precomputed)
                      %b: !per_head,                         // logit of beta (beta=logit)
                      %beta: !per_head)                      // beta itself   (beta=value)
    params(%A_log: !per_head, %dt_bias: !per_head, %scale: f32 {linattn.default = "key_dim^-0.5"})
    state(%S: !linattn.state) -> (o: !value)
    options {gate = ["softplus", "precomputed"], normalize = true, beta = ["logit", "value"],
             beta_factor = #linattn.number<1.0 from 1.0 to 2.0>} {

  // The log decay of this token.
  %log_decay = linattn.switch "gate" -> !per_head
  case "softplus" {
    %biased = arith.addf %a, %dt_bias : !per_head
    %dt = linattn.softplus %biased : !per_head
    %rate = math.exp %A_log : !per_head
    %product = arith.mulf %rate, %dt : !per_head
    %negative = arith.negf %product : !per_head
    linattn.yield %negative : !per_head
  }
  case "precomputed" {
    linattn.yield %g : !per_head
  }

  // Directions of the query and the key.
  %qn, %kn = linattn.switch "normalize" -> (!key, !key)
  case "true" {
    %q1 = linattn.l2norm %q : !key
    %k1 = linattn.l2norm %k : !key
    linattn.yield %q1, %k1 : !key, !key
  }
  case "false" {
    linattn.yield %q, %k : !key, !key
  }

  // How much of the value is replaced.
  %share = linattn.switch "beta" -> !per_head
  case "logit" {
    %s = linattn.sigmoid %b : !per_head
    %factor = linattn.option "beta_factor" : f32
    %factors = linattn.broadcast %factor : f32 -> !per_head
    %scaled = arith.mulf %s, %factors : !per_head
    linattn.yield %scaled : !per_head
  }
  case "value" {
    linattn.yield %beta : !per_head
  }

  // The step. The correction reads the state after the decay.
  %S1 = linattn.decay %S, %log_decay : !per_head
  %old = linattn.read %S1, %kn : !key -> !value
  %error = arith.subf %v, %old : !value
  %shares = linattn.broadcast %share : !per_head -> !value
  %u = arith.mulf %shares, %error : !value
  %S2 = linattn.write %S1, %kn, %u : !key, !value

  %r = linattn.read %S2, %qn : !key -> !value
  %scales = linattn.broadcast %scale : f32 -> !value
  %o = arith.mulf %scales, %r : !value
  linattn.yield %S2, %o : !linattn.state, !value
}
