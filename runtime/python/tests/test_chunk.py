# test_chunk.py - The chunkwise functions of the fla library against the recurrences.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operands of products are bfloat16 whatever the inputs' types, so there is one limit for all."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
import pytest
import reference
from cases import DEVICE, Case, array, close, torch

import linattn
from linattn import _forms, chunk_gated_delta_rule, chunk_kda, chunk_rwkv6

TYPES = [torch.bfloat16, torch.float16, torch.float32]
FUNCTIONS = [chunk_gated_delta_rule, chunk_kda, chunk_rwkv6]
LIMIT = 5e-3
LONG = 70  # more than two chunks, whose sizes are powers of two, and a part of one


def turned(states, v_first=True):
    return states.transpose(-1, -2).contiguous() if v_first else states


def inputs_of(function, case):
    """The positional arguments: decays and betas are given."""
    if function is chunk_rwkv6:
        return case.r, case.keys, case.v, case.gk, case.u
    g = case.g if function is chunk_gated_delta_rule else case.gk
    return case.q, case.k, case.v, g, case.beta


def expected_of(function, case, initial=True):
    """What a call with these should give: outputs and final states."""
    states = array(case.h0) * initial
    if function is chunk_rwkv6:
        inputs = [array(x) for x in inputs_of(function, case)]
        return reference.rwkv6(*inputs, states, case.sizes[4] ** -0.5, case.starts)[:2]
    decay = array(case.g)[..., None, None] if function is chunk_gated_delta_rule else None
    decay = array(case.gk)[..., None] if decay is None else decay
    return case.delta(np.exp(decay), array(case.beta), state=states)[:2]


def case_of(function, **sizes):
    heads = dict(H=2, HV=2) if function is chunk_rwkv6 else dict(H=1, HV=2)
    return Case(**{"T": LONG, "V": 48, **heads, **sizes})


def agrees(result, expected):
    close(result[0], expected[0], LIMIT)
    close(result[1], expected[1], LIMIT)


def kinds():
    """The kinds of all kernels that were bound."""
    return {bound.kernel.kind for bound in _forms._bound.values()}


@pytest.fixture
def unbound():
    """Nothing has been called yet."""
    kept = dict(_forms._bound)
    _forms._bound.clear()
    yield
    _forms._bound.update(kept)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_types(function, dtype, initial, unbound):
    case = case_of(function, dtype=dtype)
    kept = case.h0.clone()
    o, h = function(
        *inputs_of(function, case),
        initial_state=case.h0 if initial else None,
        output_final_state=True,
    )
    assert o.dtype == dtype and o.shape == case.v.shape and h.dtype == torch.float32
    agrees((o, h), expected_of(function, case, initial))
    assert torch.equal(case.h0, kept) and kinds() == {"prefill"}


@pytest.mark.parametrize(("K", "V"), [(64, 64), (128, 20), (48, 132)])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_sizes(function, K, V):
    case = case_of(function, B=1, T=40, K=K, V=V)
    result = function(*inputs_of(function, case), initial_state=case.h0, output_final_state=True)
    agrees(result, expected_of(function, case))


@pytest.mark.parametrize("gate", [False, True])
@pytest.mark.parametrize("sigmoid", [0, 1, 2])
@pytest.mark.parametrize("v_first", [False, True])
def test_gdn_flags(gate, sigmoid, v_first):
    case = case_of(chunk_gated_delta_rule)
    g = case.a if gate else case.g
    o, h = chunk_gated_delta_rule(
        case.q,
        case.k,
        case.v,
        g,
        case.b if sigmoid else case.beta,
        scale=0.3,
        initial_state=turned(case.h0, v_first),
        output_final_state=True,
        use_qk_l2norm_in_kernel=True,
        use_gate_in_kernel=gate,
        A_log=case.A_log,
        dt_bias=case.dt_bias,
        use_beta_sigmoid_in_kernel=sigmoid > 0,
        allow_neg_eigval=sigmoid == 2,
        state_v_first=v_first,
        chunk_size=64,
    )
    log = array(g)
    if gate:
        log = -np.exp(array(case.A_log)) * reference.softplus(log + array(case.dt_bias))
    share = sigmoid * reference.sigmoid(array(case.b)) if sigmoid else array(case.beta)
    decay = np.exp(log)[..., None, None]
    agrees((o, turned(h, v_first)), case.delta(decay, share, normalize=True, scale=0.3)[:2])


@pytest.mark.parametrize("gate", ["precomputed", "softplus", "bounded"])
@pytest.mark.parametrize("v_first", [False, True])
def test_kda_flags(gate, v_first):
    case = case_of(chunk_kda)
    in_kernel, bound = gate != "precomputed", -3.7 if gate == "bounded" else None
    o, h = chunk_kda(
        case.q,
        case.k,
        case.v,
        case.ak if in_kernel else case.gk,
        case.b,
        initial_state=turned(case.h0, v_first),
        output_final_state=True,
        use_qk_l2norm_in_kernel=True,
        use_gate_in_kernel=in_kernel,
        use_beta_sigmoid_in_kernel=True,
        safe_gate=gate == "bounded",
        lower_bound=bound,
        state_v_first=v_first,
        A_log=case.A_log,
        dt_bias=case.dt_bias_k.flatten(),
    )
    log = array(case.gk)
    if in_kernel:
        raw = array(case.ak) + array(case.dt_bias_k)
        rate = np.exp(array(case.A_log))[..., None]
        log = bound * reference.sigmoid(rate * raw) if bound else -rate * reference.softplus(raw)
    share = reference.sigmoid(array(case.b))
    expected = case.delta(np.exp(log)[..., None], share, normalize=True)[:2]
    agrees((o, turned(h, v_first)), expected)


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("starts", [[0, 0, 1, 66, 66, 70], [0, 69, 70], [0, 1, 2, 70, 70]])
@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_packed_sequences(function, index, starts, initial):
    case = case_of(function, starts=starts)
    o, h = function(
        *inputs_of(function, case),
        initial_state=case.h0 if initial else None,
        output_final_state=True,
        cu_seqlens=case.cu_seqlens(index),
        cu_seqlens_cpu=case.cu_seqlens(index).cpu(),
    )
    agrees((o, h), expected_of(function, case, initial))
    for n, (first, end) in enumerate(zip(starts, starts[1:])):  # an empty sequence moves nothing
        if first == end:
            assert torch.equal(h[n], case.h0[n] if initial else torch.zeros_like(h[n]))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_final_state_not_wanted(function):
    case = case_of(function)
    inputs = inputs_of(function, case)
    expected, _ = function(*inputs, initial_state=case.h0, output_final_state=True)
    o, h = function(*inputs, initial_state=case.h0)
    assert h is None and torch.equal(o, expected)
    zero, _ = function(*inputs, initial_state=torch.zeros_like(case.h0))
    assert torch.equal(function(*inputs)[0], zero)


@pytest.mark.parametrize("sizes", [dict(B=0), dict(T=0), dict(T=0, starts=[0])])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_nothing_to_do(function, sizes):
    case = case_of(function, **sizes)
    o, h = function(
        *inputs_of(function, case),
        initial_state=case.h0,
        output_final_state=True,
        cu_seqlens=case.cu_seqlens(),
    )
    assert o.shape == case.v.shape and torch.equal(h, case.h0)


def test_column_slices_are_read_where_they_lie():
    case = case_of(chunk_kda, H=2, K=32, V=32)
    wide = torch.cat([x.flatten(2) for x in (case.q, case.k, case.v)], dim=-1)
    q, k, v = (part.unflatten(-1, (2, 32)) for part in wide.split(64, dim=-1))
    assert not q.is_contiguous()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sliced = chunk_kda(q, k, v, case.gk, case.beta)
    assert torch.equal(sliced[0], chunk_kda(case.q, case.k, case.v, case.gk, case.beta)[0])


def test_copies_warn_at_the_caller():
    case = case_of(chunk_kda)
    apart = torch.stack([case.q, case.q], dim=-1)[..., 0]
    inputs = (apart, case.k, case.v, case.gk, case.beta)
    with pytest.warns(linattn.CopyWarning) as caught:
        o, _ = chunk_kda(*inputs, initial_state=case.h0.half())
    assert [entry.filename for entry in caught] == [__file__] * 2
    texts = [str(entry.message) for entry in caught]
    assert "'initial_state': converted" in texts[0] and "arguments 'q': copied" in texts[1]
    same = chunk_kda(case.q, *inputs[1:], initial_state=case.h0.half().float())
    assert torch.equal(o, same[0])


@pytest.mark.parametrize("what", ["beta per channel", "K"])
def test_what_has_no_chunkwise_form_is_computed_token_by_token(what, unbound):
    case = case_of(chunk_kda, K=40 if what == "K" else 32)
    beta = case.beta if what == "K" else case.betas
    inputs = (case.q, case.k, case.v, case.gk, beta)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = chunk_kda(*inputs, initial_state=case.h0, output_final_state=True)
    assert kinds() == {"decode"}
    same = linattn.fused_recurrent_kda(*inputs, initial_state=case.h0, output_final_state=True)
    assert all(torch.equal(a, b) for a, b in zip(result, same))


@pytest.mark.parametrize("state_type", ["f32", "bf16"])
def test_a_pool_of_states(state_type):
    """Slots, null rows, rows from zeros; by step, and by the kernel with a workspace of its own."""
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[state_type]
    case = case_of(chunk_gated_delta_rule, B=4)
    options = {"gate": "precomputed", "beta": "value"}
    pool = torch.randn(6, 2, 32, 48).to(dtype)
    slots = torch.tensor([5, 2, -1, 1], dtype=torch.int32)
    fresh = torch.tensor([True, False, True, True])
    tensors = dict(q=case.q, k=case.k, v=case.v, g=case.g, beta=case.beta, src_slots=slots)
    tensors |= dict(dst_slots=slots, has_initial_state=fresh)
    before = pool.clone()
    o = linattn.step("gdn", kind="prefill", options=options, S=pool, **tensors)
    states = np.zeros((4, 2, 32, 48))
    states[0], states[3] = array(before[5]), array(before[1])
    decay = np.exp(array(case.g))[..., None, None]
    expected_o, expected_h, _ = case.delta(decay, array(case.beta), state=states, normalize=True)
    rows = [0, 1, 3]
    close(o[rows], expected_o[rows], LIMIT)
    close(pool[[5, 2, 1]], expected_h[rows], LIMIT)
    assert not o[2].any() and torch.equal(pool[[0, 3, 4]], before[[0, 3, 4]])

    kernel = linattn.kernel(
        "gdn", kind="prefill", key_dim=32, value_dim=48, options=options, state_type=state_type,
        types={"g": "f32"}, device=DEVICE,
    )  # fmt: skip
    shape = kernel.shape_of("workspace", B=4, T=LONG, HV=2)
    workspace, again = torch.full(shape, 0xFF, dtype=torch.uint8), before.clone()
    assert torch.equal(kernel(S=again, workspace=workspace, **tensors), o)
    assert torch.equal(again, pool)


def test_a_pool_keeps_last_states_only_and_falls_back_to_nothing():
    case = case_of(chunk_gated_delta_rule)
    tensors = dict(q=case.q, k=case.k, v=case.v, a=case.a, b=case.b, A_log=case.A_log)
    tensors |= dict(dt_bias=case.dt_bias, kind="prefill")
    slots = torch.arange(4, dtype=torch.int32).view(2, 2)
    with pytest.raises(linattn.Unsupported, match="dst_slots must have one column"):
        linattn.step("gdn", S=torch.zeros(4, 2, 32, 48), dst_slots=slots, **tensors)
    for name in "qk":
        tensors[name] = torch.zeros(2, LONG, 1, 40, dtype=torch.bfloat16)
    with pytest.raises(linattn.CompileError, match="expected a multiple of 16 .* got 40"):
        linattn.step("gdn", S=torch.zeros(4, 2, 40, 48), **tensors)


def test_names_order_and_defaults():
    """The argument lists of fla 0.6, written down here: fla itself need not be installed."""
    expected = {
        chunk_gated_delta_rule: "q k v g beta scale=None initial_state=None "
        "output_final_state=False use_qk_l2norm_in_kernel=False use_beta_sigmoid_in_kernel=False "
        "allow_neg_eigval=False state_v_first=False cu_seqlens=None cu_seqlens_cpu=None "
        "chunk_indices=None cp_context=None **kwargs",
        chunk_kda: "q k v g beta scale=None initial_state=None output_final_state=False "
        "use_qk_l2norm_in_kernel=False use_gate_in_kernel=False use_beta_sigmoid_in_kernel=False "
        "allow_neg_eigval=False safe_gate=False lower_bound=None disable_recompute=False "
        "return_intermediate_states=False state_v_first=False cu_seqlens=None cu_seqlens_cpu=None "
        "cp_context=None use_graph=False max_num_seqs=None **kwargs",
        chunk_rwkv6: "r k v w u scale=None initial_state=None output_final_state=False "
        "cu_seqlens=None cu_seqlens_cpu=None **kwargs",
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
    assert linattn.chunk_gdn is chunk_gated_delta_rule


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (chunk_gated_delta_rule, dict(cp_context=object()), "cp_context: expected None"),
        (chunk_kda, dict(cp_context=object()), "cp_context: expected None"),
        (chunk_kda, dict(return_intermediate_states=True), "expected False, got True"),
        (chunk_kda, dict(use_gate_in_kernel=True, safe_gate=True), "lower_bound: expected a"),
        (chunk_kda, dict(use_graph=True, max_num_seqs=2), "expected max_num_seqs . 1 = 3, got 2"),
        (chunk_rwkv6, dict(head_first=True), "head_first: expected False"),
        (chunk_rwkv6, dict(reverse=True), "unexpected keyword argument 'reverse'"),
        (chunk_gated_delta_rule, dict(allow_neg_eigval=True), "allow_neg_eigval: expected False"),
    ],
)  # fmt: skip
def test_refusals(function, arguments, message):
    case = case_of(function, starts=[0, LONG])
    kind = TypeError if "keyword" in message else ValueError
    with pytest.raises(kind, match=message):
        function(*inputs_of(function, case), cu_seqlens=case.cu_seqlens(), **arguments)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_torch_compile(function, backend):
    torch._dynamo.reset()
    case = case_of(function)

    def call(q, rest, h0):
        return function(q * 2, *rest, initial_state=h0, output_final_state=True)

    compiled = torch.compile(call, fullgraph=True, backend=backend)
    for state in (case.h0, None):
        first, *rest = inputs_of(function, case)
        eager = call(first, rest, state)
        assert all(torch.equal(a, b) for a, b in zip(compiled(first, rest, state), eager))


@pytest.mark.parametrize("final", [False, True])
def test_operators(final):
    case = case_of(chunk_gated_delta_rule, T=20)
    form = "gdn|kv|gate=precomputed,beta=value|q,k,v,g,beta|scale|prefill,decode"
    inputs = [case.q, case.k, case.v, case.g, case.beta]
    arguments = (form, inputs, case.h0, None, [0.5], final)
    torch.library.opcheck(torch.ops.linattn.recurrent.default, arguments)
    slots = torch.tensor([1, 0], dtype=torch.int32)
    arguments = (form.replace("scale|prefill,decode", "|prefill"), inputs, case.h0.clone())
    torch.library.opcheck(torch.ops.linattn.step_new.default, (*arguments, None, slots, slots))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_gradient(function):
    case = case_of(function, T=20)
    first, *rest = inputs_of(function, case)
    o, _ = function(first.clone().requires_grad_(), *rest)
    with pytest.raises(NotImplementedError, match="no backward pass"):
        o.float().sum().backward()


@pytest.mark.skipif(DEVICE == "cpu", reason="no CUDA device")
@pytest.mark.parametrize("function", FUNCTIONS)
def test_graph(function):
    """One serves all lengths of rows that its memory holds."""
    case = case_of(function, starts=[0, 0, 30, LONG])
    inputs, starts = inputs_of(function, case), case.cu_seqlens()

    def call():
        return function(*inputs, initial_state=case.h0, output_final_state=True, cu_seqlens=starts)

    call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o, h = call()
    for numbers in ([0, 0, 30, LONG], [0, 1, 69, LONG], [0, LONG, LONG, LONG]):
        case.starts = numbers
        starts.copy_(torch.tensor(numbers))
        graph.replay()
        torch.cuda.synchronize()
        agrees((o, h), expected_of(function, case))
