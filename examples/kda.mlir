// Kimi delta attention (KDA; Kimi-Linear, Ling-3): the gated delta rule with one decay per row.
//
// For every token, with S the K x V state of a value head:
//   S <- diag(e^g) S                    one decay per key channel
//   S <- S + k (beta (v - S^T k))^T     replace what the state returns for k, by the share beta
//   o  = scale S^T q
//
// gdn.mlir explains how to read such a file. New here: !channel is K numbers of a value head (the
// decay differs between the value heads of a key head, q and k do not).
//
// Options (dl-compile --set NAME=VALUE):
//   gate         softplus     g = -exp(A_log) softplus(a + dt_bias), per channel, from the raw gate
//                bounded      g = lower_bound sigmoid(exp(A_log) (a + dt_bias)): never below
//                             lower_bound, which lets the prefill kernels factor more
//                precomputed  g is an input, the natural logarithm of the decay, in f32
//   lower_bound  -5 <= x < 0  used by gate=bounded only
//   normalize    true         q and k are brought to length one: x / sqrt(sum x^2 + 1e-6)
//                false        they already are, or need not be
//   beta         logit        beta = beta_factor sigmoid(b)
//                value        beta is an input, used as it is
//   beta_factor  1 to 2       2 allows beta in (0, 2): negative eigenvalues of the transition
// Inputs which the chosen options do not use vanish from the kernels.

!key = tensor<?xf32, #linattn.of<key, key_head>>
!channel = tensor<?xf32, #linattn.of<key, value_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>

linattn.operator @kda(%q: !key, %k: !key, %v: !value,
                      %a: !channel,                         // raw gate (gate=softplus, bounded)
                      %g: !channel {linattn.dtype = f32},   // log decay     (gate=precomputed)
                      %b: !per_head,                        // logit of beta (beta=logit)
                      %beta: !per_head)                     // beta itself   (beta=value)
    params(%A_log: !per_head, %dt_bias: !channel, %scale: f32 {linattn.default = "key_dim^-0.5"})
    state(%S: !linattn.state) -> (o: !value)
    options {gate = ["softplus", "bounded", "precomputed"],
             lower_bound = #linattn.number<-5.0 from -5.0 below 0.0>,
             normalize = true, beta = ["logit", "value"],
             beta_factor = #linattn.number<1.0 from 1.0 to 2.0>} {

  // The decay, with the bound where there is one.
  %S1 = linattn.switch "gate" -> !linattn.state
  case "softplus" {
    %biased = arith.addf %a, %dt_bias : !channel
    %dt = linattn.softplus %biased : !channel
    %rate = math.exp %A_log : !per_head
    %rates = linattn.broadcast %rate : !per_head -> !channel
    %product = arith.mulf %rates, %dt : !channel
    %log_decay = arith.negf %product : !channel
    %decayed = linattn.decay %S, %log_decay : !channel
    linattn.yield %decayed : !linattn.state
  }
  case "bounded" {
    %biased = arith.addf %a, %dt_bias : !channel
    %rate = math.exp %A_log : !per_head
    %rates = linattn.broadcast %rate : !per_head -> !channel
    %steep = arith.mulf %rates, %biased : !channel
    %fraction = linattn.sigmoid %steep : !channel
    %lower_bound = linattn.option "lower_bound" : f32
    %lower_bounds = linattn.broadcast %lower_bound : f32 -> !channel
    %log_decay = arith.mulf %lower_bounds, %fraction : !channel
    %decayed = linattn.decay %S, %log_decay bound "lower_bound" : !channel
    linattn.yield %decayed : !linattn.state
  }
  case "precomputed" {
    %decayed = linattn.decay %S, %g : !channel
    linattn.yield %decayed : !linattn.state
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

  // The rest of the step. The correction reads the state after the decay.
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
