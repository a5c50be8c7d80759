// The gated delta rule in full: decays per head, per key channel and per value channel, each of
// which may be missing, and shares that may differ between value channels. It serves the calls of
// fused_recurrent_gated_delta_rule that examples/gdn.mlir and kda.mlir, which schedules like
// better, have no option for.
//
// For every token, with S the K x V state of a value head:
//   S <- e^g diag(e^gk) S diag(e^gv)
//   S <- S + k (beta * (v - S^T k))^T
//   o  = scale S^T q
//
// Options (dl-compile --set NAME=VALUE):
//   gate         none         no decay per head
//                softplus     g = -exp(A_log) softplus(a + dt_bias), from the raw gate `a`
//                precomputed  g is an input, the natural logarithm of the decay
//   key_gate, value_gate      true: gk, gv are inputs, natural logarithms of decays per channel
//   normalize    true         q and k are brought to length one: x / sqrt(sum x^2 + 1e-6)
//   beta         logit, value         one per head: beta_factor sigmoid(b), or beta itself
//                logits, values       the same per value channel, from bs and betas
//   beta_factor  1 to 2
//
// Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

!key = tensor<?xf32, #linattn.of<key, key_head>>
!channel = tensor<?xf32, #linattn.of<key, value_head>>
!value = tensor<?xf32, #linattn.of<value, value_head>>
!per_head = tensor<f32, #linattn.of<scalar, value_head>>

linattn.operator @gated_delta_rule(%q: !key, %k: !key, %v: !value,
                                   %a: !per_head, %g: !per_head {linattn.dtype = f32},
                                   %gk: !channel {linattn.dtype = f32},
                                   %gv: !value {linattn.dtype = f32},
                                   %b: !per_head, %beta: !per_head, %bs: !value, %betas: !value)
    params(%A_log: !per_head, %dt_bias: !per_head, %scale: f32 {linattn.default = "key_dim^-0.5"})
    state(%S: !linattn.state) -> (o: !value)
    options {gate = ["none", "softplus", "precomputed"], key_gate = false, value_gate = false,
             normalize = true, beta = ["logit", "value", "logits", "values"],
             beta_factor = #linattn.number<1.0 from 1.0 to 2.0>} {

  // The decays, one after the other.
  %S1 = linattn.switch "gate" -> !linattn.state
  case "none" {
    linattn.yield %S : !linattn.state
  }
  case "softplus" {
    %biased = arith.addf %a, %dt_bias : !per_head
    %dt = linattn.softplus %biased : !per_head
    %rate = math.exp %A_log : !per_head
    %product = arith.mulf %rate, %dt : !per_head
    %log_decay = arith.negf %product : !per_head
    %decayed = linattn.decay %S, %log_decay : !per_head
    linattn.yield %decayed : !linattn.state
  }
  case "precomputed" {
    %decayed = linattn.decay %S, %g : !per_head
    linattn.yield %decayed : !linattn.state
  }
  %S2 = linattn.switch "key_gate" -> !linattn.state
  case "true" {
    %decayed = linattn.decay %S1, %gk : !channel
    linattn.yield %decayed : !linattn.state
  }
  case "false" {
    linattn.yield %S1 : !linattn.state
  }
  %S3 = linattn.switch "value_gate" -> !linattn.state
  case "true" {
    %decayed = linattn.decay %S2, %gv : !value
    linattn.yield %decayed : !linattn.state
  }
  case "false" {
    linattn.yield %S2 : !linattn.state
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

  // How much of each value channel is replaced.
  %shares = linattn.switch "beta" -> !value
  case "logit" {
    %s = linattn.sigmoid %b : !per_head
    %factor = linattn.option "beta_factor" : f32
    %factors = linattn.broadcast %factor : f32 -> !per_head
    %scaled = arith.mulf %s, %factors : !per_head
    %spread = linattn.broadcast %scaled : !per_head -> !value
    linattn.yield %spread : !value
  }
  case "value" {
    %spread = linattn.broadcast %beta : !per_head -> !value
    linattn.yield %spread : !value
  }
  case "logits" {
    %s = linattn.sigmoid %bs : !value
    %factor = linattn.option "beta_factor" : f32
    %factors = linattn.broadcast %factor : f32 -> !value
    %scaled = arith.mulf %s, %factors : !value
    linattn.yield %scaled : !value
  }
  case "values" {
    linattn.yield %betas : !value
  }

  // The step. The correction reads the state after the decays.
  %old = linattn.read %S3, %kn : !key -> !value
  %error = arith.subf %v, %old : !value
  %u = arith.mulf %shares, %error : !value
  %S4 = linattn.write %S3, %kn, %u : !key, !value

  %r = linattn.read %S4, %qn : !key -> !value
  %scales = linattn.broadcast %scale : f32 -> !value
  %o = arith.mulf %scales, %r : !value
  linattn.yield %S4, %o : !linattn.state, !value
}
