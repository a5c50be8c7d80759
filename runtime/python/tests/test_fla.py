# test_fla.py - The functions of the fla library against the recurrences.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
import reference
from cases import Case, array, close, torch

import linattn
from linattn import (
    fused_recurrent_gated_delta_rule,
    fused_recurrent_kda,
    fused_recurrent_kda_fwd,
    fused_recurrent_rwkv6,
)

TYPES = [torch.bfloat16, torch.float16, torch.float32]


def per_head(x: np.ndarray) -> np.ndarray:
    return x[..., None, None]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("v_first", [False, True])
@pytest.mark.parametrize(("K", "V"), [(32, 48), (96, 192), (64, 16)])
def test_gdn_precomputed(dtype, v_first, K, V):
    case = Case(K=K, V=V, dtype=dtype)
    h0 = case.h0.transpose(-1, -2).contiguous() if v_first else case.h0
    kept = h0.clone()
    o, h = fused_recurrent_gated_delta_rule(
        case.q,
        case.k,
        case.v,
        case.g,
        beta=case.beta,
        initial_state=h0,
        output_final_state=True,
        state_v_first=v_first,
    )
    expected_o, expected_h, _ = case.delta(per_head(np.exp(array(case.g))), array(case.beta))
    assert o.dtype == dtype and o.shape == case.v.shape and h.dtype == torch.float32
    close(o, expected_o)
    close(h.transpose(-1, -2) if v_first else h, expected_h, 1e-5)
    assert torch.equal(h0, kept)


@pytest.mark.parametrize("gate", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("sigmoid", [0, 1, 2])
@pytest.mark.parametrize("normalize", [False, True])
def test_gdn_flags(gate, bias, sigmoid, normalize):
    case = Case()
    g = case.a if gate else case.g
    beta = case.b if sigmoid else case.beta
    o, h = fused_recurrent_gated_delta_rule(
        case.q,
        case.k,
        case.v,
        g,
        beta=beta,
        scale=0.3,
        initial_state=case.h0,
        output_final_state=True,
        use_qk_l2norm_in_kernel=normalize,
        use_gate_in_kernel=gate,
        A_log=case.A_log,
        dt_bias=case.dt_bias if bias else None,
        use_beta_sigmoid_in_kernel=sigmoid > 0,
        allow_neg_eigval=sigmoid == 2,
    )
    log = array(g)
    if gate:
        raw = log + (array(case.dt_bias) if bias else 0)
        log = -np.exp(array(case.A_log)) * reference.softplus(raw)
    share = sigmoid * reference.sigmoid(array(beta)) if sigmoid else array(beta)
    expected_o, expected_h, _ = case.delta(
        per_head(np.exp(log)), share, normalize=normalize, scale=0.3
    )
    close(o, expected_o)
    close(h, expected_h, 1e-4)


@pytest.mark.parametrize("which", ["", "g", "gk", "gv", "g gk", "g gv", "gk gv", "g gk gv"])
@pytest.mark.parametrize("beta", ["none", "head", "channel", "channel logits"])
def test_gdn_decays_and_betas(which, beta):
    case = Case(K=16, V=32)
    given = {name: getattr(case, name) for name in which.split()}
    along = {
        "g": lambda log: log[..., None, None],
        "gk": lambda log: log[..., None],
        "gv": lambda log: log[..., None, :],
    }
    log = sum((along[name](array(tensor)) for name, tensor in given.items()), np.zeros(()))
    decay = np.exp(np.broadcast_to(log, (2, 3, 4, 16, 32)))
    share = np.ones((2, 3, 4))
    sigmoid = beta == "channel logits"
    if beta == "head":
        given["beta"], share = case.beta, array(case.beta)
    elif beta != "none":
        given["beta"], share = case.betas, array(case.betas)
        share = 2 * reference.sigmoid(share) if sigmoid else share
    o, h = fused_recurrent_gated_delta_rule(
        case.q,
        case.k,
        case.v,
        **given,
        initial_state=case.h0,
        output_final_state=True,
        use_beta_sigmoid_in_kernel=sigmoid,
        allow_neg_eigval=sigmoid,
    )
    expected_o, expected_h, _ = case.delta(decay, share)
    close(o, expected_o)
    close(h, expected_h, 1e-4)


@pytest.mark.parametrize("gate", ["precomputed", "softplus", "bounded", "bounded without A_log"])
@pytest.mark.parametrize("bias", ["none", "flat", "matrix"])
@pytest.mark.parametrize("v_first", [False, True])
def test_kda(gate, bias, v_first):
    case = Case()
    in_kernel = gate != "precomputed"
    bound = -3.7 if "bounded" in gate else None
    A_log = None if gate == "bounded without A_log" else case.A_log
    h0 = case.h0.transpose(-1, -2).contiguous() if v_first else case.h0
    dt_bias = {"none": None, "flat": case.dt_bias_k.flatten(), "matrix": case.dt_bias_k}[bias]
    o, h = fused_recurrent_kda(
        case.q,
        case.k,
        case.v,
        case.ak if in_kernel else case.gk,
        case.b,
        A_log=A_log if in_kernel else None,
        dt_bias=dt_bias if in_kernel else None,
        initial_state=h0,
        output_final_state=True,
        use_qk_l2norm_in_kernel=True,
        use_gate_in_kernel=in_kernel,
        use_beta_sigmoid_in_kernel=True,
        allow_neg_eigval=True,
        lower_bound=bound,
        state_v_first=v_first,
    )
    log = array(case.gk)
    if in_kernel:
        raw = array(case.ak) + (0 if dt_bias is None else array(case.dt_bias_k))
        rate = np.exp(0 if A_log is None else array(A_log))[..., None]
        log = -rate * reference.softplus(raw)
        if bound is not None:
            log = bound * reference.sigmoid(rate * raw)
    share = 2 * reference.sigmoid(array(case.b))
    expected_o, expected_h, _ = case.delta(np.exp(log)[..., None], share, normalize=True)
    close(o, expected_o)
    close(h.transpose(-1, -2) if v_first else h, expected_h, 1e-4)


@pytest.mark.parametrize("dtype", TYPES)
def test_kda_types(dtype):
    case = Case(dtype=dtype)
    o, _ = fused_recurrent_kda(case.q, case.k, case.v, case.gk.to(dtype), case.beta.float())
    decay = np.exp(array(case.gk.to(dtype)))[..., None]
    close(o, case.delta(decay, array(case.beta), state=None)[0])


def test_kda_beta_per_channel():
    case = Case()
    o, h = fused_recurrent_kda(case.q, case.k, case.v, case.gk, case.betas, output_final_state=True)
    decay = np.exp(array(case.gk))[..., None]
    expected_o, expected_h, _ = case.delta(decay, array(case.betas), state=None)
    close(o, expected_o)
    close(h, expected_h, 1e-4)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("scale", [None, 1.0])
@pytest.mark.parametrize("initial", [False, True])
def test_rwkv6(dtype, scale, initial):
    case = Case(dtype=dtype, H=3, HV=3)
    o, h = fused_recurrent_rwkv6(
        case.r,
        case.keys,
        case.v,
        case.gk,
        case.u,
        scale=scale,
        initial_state=case.h0 if initial else None,
        output_final_state=True,
    )
    expected_o, expected_h, _ = reference.rwkv6(
        array(case.r),
        array(case.keys),
        array(case.v),
        array(case.gk),
        array(case.u),
        array(case.h0) * initial,
        32**-0.5 if scale is None else scale,
    )
    assert o.dtype == dtype
    close(o, expected_o)
    close(h, expected_h, 1e-4)


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("starts", [[0, 4, 4, 7], [0, 0, 7], [0, 7, 7], [0, 1, 2, 3, 4, 5, 6, 7]])
@pytest.mark.parametrize("initial", [False, True])
def test_packed_sequences(index, starts, initial):
    case = Case(T=7, starts=starts)
    o, h = fused_recurrent_gated_delta_rule(
        case.q,
        case.k,
        case.v,
        case.g,
        beta=case.beta,
        initial_state=case.h0 if initial else None,
        output_final_state=True,
        cu_seqlens=case.cu_seqlens(index),
    )
    expected_o, expected_h, _ = case.delta(
        per_head(np.exp(array(case.g))), array(case.beta), state="h0" if initial else None
    )
    close(o, expected_o)
    close(h, expected_h, 1e-4)
    for n, (first, end) in enumerate(zip(starts, starts[1:])):  # an empty sequence moves nothing
        if first == end:
            assert torch.equal(h[n], case.h0[n] if initial else torch.zeros_like(h[n]))


@pytest.mark.parametrize("packed", [False, True])
def test_final_state_not_wanted(packed):
    case = Case(T=7, starts=[0, 3, 3, 7] if packed else None)
    kept = case.h0.clone()
    arguments = dict(beta=case.beta, cu_seqlens=case.cu_seqlens())
    inputs = (case.q, case.k, case.v, case.g)
    with_state, _ = fused_recurrent_gated_delta_rule(
        *inputs, **arguments, initial_state=case.h0, output_final_state=True
    )
    o, h = fused_recurrent_gated_delta_rule(*inputs, **arguments, initial_state=case.h0)
    assert h is None and torch.equal(o, with_state) and torch.equal(case.h0, kept)
    o, h = fused_recurrent_gated_delta_rule(*inputs, **arguments)
    zero, _ = fused_recurrent_gated_delta_rule(
        *inputs, **arguments, initial_state=torch.zeros_like(case.h0)
    )
    assert h is None and torch.equal(o, zero)


@pytest.mark.parametrize(
    "sizes", [dict(B=0), dict(T=0), dict(T=0, starts=[0]), dict(T=3, starts=[0])]
)
def test_nothing_to_do(sizes):
    case = Case(**sizes)
    for initial in (case.h0, None):
        o, h = fused_recurrent_kda(
            case.q,
            case.k,
            case.v,
            case.gk,
            case.beta,
            initial_state=initial,
            output_final_state=True,
            cu_seqlens=case.cu_seqlens(),
        )
        assert o.shape == case.v.shape and h.shape == case.h0.shape
        assert torch.equal(h, case.h0 if initial is not None else torch.zeros_like(case.h0))


def test_column_slices_are_read_where_they_lie():
    case = Case(H=2, HV=2, K=32, V=32)
    B, T = 2, 3
    wide = torch.cat([x.flatten(2) for x in (case.q, case.k, case.v)], dim=-1)
    q, k, v = (part.unflatten(-1, (2, 32)) for part in wide.split(64, dim=-1))
    gates = torch.stack([case.g, case.beta.float()], dim=-1).movedim(-1, 0)  # two views of one
    assert not q.is_contiguous() and v.data_ptr() != wide.data_ptr() and gates.shape[1:3] == (B, T)
    sliced = fused_recurrent_gated_delta_rule(q, k, v, gates[0], beta=gates[1])
    whole = fused_recurrent_gated_delta_rule(case.q, case.k, case.v, case.g, beta=case.beta.float())
    assert torch.equal(sliced[0], whole[0])


@pytest.mark.parametrize("compiled", [False, True])
def test_what_cannot_be_read_is_copied_with_a_warning(compiled):
    case = Case(K=32, V=32)

    def call(q, v, state):
        return fused_recurrent_gated_delta_rule(
            q, case.k, v, case.g, beta=case.beta, initial_state=state, output_final_state=True
        )

    expected = call(case.q, case.v, case.h0)
    if compiled:
        call = torch.compile(call, fullgraph=True, backend="aot_eager")
    apart = torch.stack([case.q, case.q], dim=-1)[..., 0]  # a last dimension of stride 2
    flat = torch.empty(case.v.numel() + 1, dtype=case.v.dtype)
    shifted = flat[1:].view(case.v.shape).copy_(case.v)  # not at a multiple of 16 bytes
    turned = case.h0.transpose(-1, -2).contiguous().transpose(-1, -2)
    for names, arguments in {
        "'q'": (apart, case.v, case.h0),
        "'v'": (case.q, shifted, case.h0),
        "'initial_state'": (case.q, case.v, turned),
        "'q', 'v', 'initial_state'": (apart, shifted, turned),
    }.items():
        with pytest.warns(linattn.CopyWarning, match=f"arguments {names}: copied"):
            result = call(*arguments)
        assert all(torch.equal(a, b) for a, b in zip(result, expected))


def test_states_of_other_types_are_converted_with_a_warning():
    case = Case(K=32, V=32)
    half = case.h0.half()
    arguments = dict(beta=case.beta, output_final_state=True)
    inputs = (case.q, case.k, case.v, case.g)
    expected = fused_recurrent_gated_delta_rule(*inputs, initial_state=half.float(), **arguments)
    with pytest.warns(linattn.CopyWarning, match="'initial_state': converted from torch.float16"):
        o, h = fused_recurrent_gated_delta_rule(*inputs, initial_state=half, **arguments)
    assert torch.equal(o, expected[0]) and torch.equal(h, expected[1]) and h.dtype == torch.float32


def test_names_order_and_defaults():
    """The argument lists of fla 0.5, written down here: fla itself need not be installed."""
    expected = {
        fused_recurrent_gated_delta_rule: "q k v g=None gk=None gv=None beta=None scale=None "
        "initial_state=None output_final_state=False use_qk_l2norm_in_kernel=False "
        "use_gate_in_kernel=False A_log=None dt_bias=None use_beta_sigmoid_in_kernel=False "
        "allow_neg_eigval=False state_v_first=False cu_seqlens=None **kwargs",
        fused_recurrent_kda: "q k v g beta A_log=None dt_bias=None scale=None initial_state=None "
        "output_final_state=False use_qk_l2norm_in_kernel=False use_gate_in_kernel=False "
        "use_beta_sigmoid_in_kernel=False allow_neg_eigval=False lower_bound=None "
        "state_v_first=False cu_seqlens=None **kwargs",
        fused_recurrent_kda_fwd: "q k v g beta A_log=None dt_bias=None initial_state=None "
        "scale=None output_final_state=False inplace_final_state=True state_v_first=False "
        "cu_seqlens=None ssm_state_indices=None num_accepted_tokens=None "
        "use_qk_l2norm_in_kernel=False use_gate_in_kernel=False use_beta_sigmoid_in_kernel=False "
        "allow_neg_eigval=False lower_bound=None out=None **kwargs",
        fused_recurrent_rwkv6: "r k v w u scale=None initial_state=None output_final_state=False "
        "reverse=False cu_seqlens=None",
    }
    for function, text in expected.items():
        parts = []
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                parts.append(f"**{name}")
            elif parameter.default is inspect.Parameter.empty:
                parts.append(name)
            else:
                parts.append(f"{name}={parameter.default}")
        assert " ".join(parts) == text
    assert linattn.fused_recurrent_gdn is fused_recurrent_gated_delta_rule


def test_older_names():
    case = Case(K=32, V=32)
    arguments = (case.q, case.k, case.v, case.gk, case.beta)
    with pytest.warns(DeprecationWarning):
        old = fused_recurrent_kda(*arguments, transpose_state_layout=True, output_final_state=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        new = fused_recurrent_kda(*arguments, state_v_first=True, output_final_state=True)
    assert torch.equal(old[1], new[1])
    with pytest.raises(ValueError, match="transpose_state_layout: expected"):
        fused_recurrent_kda(*arguments, state_v_first=True, transpose_state_layout=True)
