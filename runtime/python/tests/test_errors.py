# test_errors.py - Each error names the argument, what was expected, what was given.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import pytest
from cases import DEVICE, Case, torch

import linattn
from linattn import fused_recurrent_gated_delta_rule, fused_recurrent_kda, fused_recurrent_rwkv6

OPTIONS = {"gate": "precomputed", "beta": "value", "normalize": False}


def gdn(case: Case, **changes):
    arguments = dict(q=case.q, k=case.k, v=case.v, g=case.g, beta=case.beta)
    return fused_recurrent_gated_delta_rule(**{**arguments, **changes})


CASE = Case()
VALUES = {  # ValueError: what is passed instead, and what the message says
    "rank": (dict(q=CASE.q[0]), r"argument 'q' rank: expected 4.*, got 3"),
    "heads": (dict(g=CASE.g[..., :3]), r"argument 'g' dimension 2: expected HV = 4 .*, got 3"),
    "tokens": (dict(k=CASE.k[:, :2]), r"argument 'k' dimension 1: expected T = 3 as in 'q', got 2"),
    "batch": (dict(v=CASE.v[:1]), r"dimension 0: expected B = 2 as in 'q', got 1"),
    "groups": (dict(v=CASE.v[:, :, :3], g=CASE.g[..., :3], beta=CASE.beta[..., :3]), "HV must be"),
    "K": (dict(q=CASE.q[..., :16]), r"argument 'k' dimension 3: expected 16, got 32"),
    "K to compile": (
        dict(q=CASE.q[..., :30], k=CASE.k[..., :30]),
        r"dims: expected KxV with both multiples of 4 from 16 to 256, got '30x48'",
    ),
    "value rank": (dict(v=CASE.v[0]), r"argument 'v' rank: expected 4.*, got 3"),
    "sparse": (dict(q=CASE.q.to_sparse()), "argument 'q' layout: expected torch.strided"),
    "value batch": (
        dict(v=CASE.v[:1], initial_state=CASE.h0),
        r"argument 'v' dimension 0: expected B = 2 as in 'q', got 1",
    ),
    "starts rank": (
        dict(
            **{n: getattr(CASE, n)[:1] for n in ("q", "k", "v", "g", "beta")},
            cu_seqlens=torch.tensor([[0, 3]]),
        ),
        r"argument 'cu_seqlens' rank: expected 1 .*, got 2",
    ),
    "a start": (
        dict(
            **{n: getattr(CASE, n)[:1] for n in ("q", "k", "v", "g", "beta")},
            cu_seqlens=torch.tensor(3),
        ),
        r"argument 'cu_seqlens' rank: expected 1 .*, got 0",
    ),
    "initial rows": (
        dict(initial_state=CASE.h0[:1]),
        r"argument 'initial_state' dimension 0: expected N = 2, got 1",
    ),
    "initial layout": (
        dict(initial_state=CASE.h0, state_v_first=True),
        r"argument 'initial_state' dimension 2: expected 48, got 32",
    ),
    "packed batch": (
        dict(cu_seqlens=torch.tensor([0, 3])),
        r"argument 'q' dimension 0: expected B = 1 with cu_seqlens, got 2",
    ),
    "eigenvalues": (dict(allow_neg_eigval=True), "allow_neg_eigval: expected False .*, got True"),
    "head_first": (dict(head_first=True), "head_first: expected False"),
}
TYPES = {  # TypeError
    "f64": (dict(q=CASE.q.double()), r"argument 'q' dtype: expected float32, .*got torch.float64"),
    "state": (
        dict(initial_state=CASE.h0.int()),
        r"argument 'initial_state' dtype: expected torch.float32, got torch.int32",
    ),
    "f32 starts": (
        dict(q=CASE.q[:1], cu_seqlens=torch.tensor([0.0, 3.0])),
        r"argument 'cu_seqlens' dtype: expected int32 or int64, got torch.float32",
    ),
    "no tensor": (dict(k=None), r"argument 'k': expected a torch.Tensor, got NoneType"),
    "a list": (dict(v=[1.0]), r"argument 'v': expected a torch.Tensor, got list"),
    "a list as beta": (dict(beta=[1.0]), r"argument 'beta': expected a torch.Tensor, got list"),
    "initial list": (
        dict(initial_state=[0.0]),
        r"argument 'initial_state': expected a torch.Tensor or None, got list",
    ),
    "start list": (
        dict(q=CASE.q[:1], cu_seqlens=[0, 3]),
        r"argument 'cu_seqlens': expected a torch.Tensor or None, got list",
    ),
    "A_log": (dict(use_gate_in_kernel=True), r"argument 'A_log': expected .*, got NoneType"),
    "name": (dict(gama=1), "unexpected keyword argument 'gama'"),
}


@pytest.mark.parametrize("name", VALUES)
def test_values(name):
    changes, message = VALUES[name]
    with pytest.raises(ValueError, match=message) as caught:
        gdn(CASE, **changes)
    assert isinstance(caught.value, linattn.Error) and "\n" not in str(caught.value)
    gdn(CASE)  # as usable as before


@pytest.mark.parametrize("name", TYPES)
def test_types(name):
    changes, message = TYPES[name]
    with pytest.raises(TypeError, match=message) as caught:
        gdn(CASE, **changes)
    assert isinstance(caught.value, linattn.Error)
    gdn(CASE)


STARTS = {
    "decreasing": ([0, 2, 1, 3], r"'cu_seqlens' .*"),
    "not from 0": ([1, 3], r"'cu_seqlens' .*"),
    "beyond T": ([0, 4], r"'cu_seqlens' .*"),
    "negative": ([0, -1, 3], r"'cu_seqlens' .*"),
    "none at all": ([], r"argument 'cu_seqlens' dimension 0: expected at least 1, got 0"),
}


@pytest.mark.skipif(DEVICE != "cpu", reason="only the host's memory is looked at")
@pytest.mark.parametrize("name", STARTS)
def test_sequence_starts(name):
    """On the CPU what they hold is checked, since it costs little."""
    starts, message = STARTS[name]
    case = Case(T=3, starts=[0, 3])
    with pytest.raises(ValueError, match=message):
        gdn(case, cu_seqlens=torch.tensor(starts, dtype=torch.int64))


def kda(**changes):
    arguments = dict(q=CASE.q, k=CASE.k, v=CASE.v, g=CASE.ak, beta=CASE.beta, A_log=CASE.A_log)
    return fused_recurrent_kda(**{**arguments, "use_gate_in_kernel": True, **changes})


@pytest.mark.parametrize("bound", [0.0, 1.0, -5.01, -20.0, float("nan")])
def test_lower_bound(bound):
    with pytest.raises(ValueError, match="lower_bound: expected at least -5 and below 0, got"):
        kda(lower_bound=bound)


def test_kda_parameters():
    with pytest.raises(ValueError, match=r"'dt_bias' dimension 0: expected HV \* K = 128, got 4"):
        kda(dt_bias=CASE.dt_bias)
    with pytest.raises(ValueError, match="'dt_bias' stride 0: expected 1, got 2"):
        kda(dt_bias=torch.zeros(256)[::2])
    with pytest.raises(ValueError, match="argument 'A_log' dimension 0: expected HV = 4"):
        kda(A_log=CASE.A_log[:3])
    with pytest.raises(TypeError, match="argument 'A_log': expected a torch.Tensor, got NoneType"):
        kda(A_log=None)
    with pytest.raises(ValueError, match="argument 'beta' rank: expected 3 .*, got 4"):
        kda(beta=CASE.betas)
    with pytest.raises(ValueError, match="argument 'g' rank: expected 4, got 3"):
        kda(g=CASE.a)


def test_rwkv6():
    arguments = (CASE.r, CASE.keys, CASE.v, CASE.gk, CASE.u)
    with pytest.raises(ValueError, match="reverse: expected False, got True"):
        fused_recurrent_rwkv6(*arguments, reverse=True)
    with pytest.raises(ValueError, match="argument 'u' dimension 0: expected HQ = 4"):
        fused_recurrent_rwkv6(*arguments[:4], CASE.u[:3])


def test_devices():
    meta = CASE.q.to("meta")
    with pytest.raises(ValueError, match="argument 'q' device: expected cpu or cuda, got meta"):
        linattn.step(
            "gdn", options=OPTIONS, q=meta, k=CASE.k, v=CASE.v, g=CASE.g, beta=CASE.beta, S=CASE.h0
        )


def kernel():
    return linattn.kernel("gdn", key_dim=32, value_dim=48, options=OPTIONS, device=DEVICE)


def steps(**changes):
    arguments = dict(q=CASE.q, k=CASE.k, v=CASE.v, g=CASE.g, beta=CASE.beta, S=CASE.h0.clone())
    return {**arguments, **changes}


def test_kernel_arguments():
    found = kernel()
    with pytest.raises(TypeError, match="expected arguments among q, k, v, .*, got 'a'"):
        found(**steps(a=CASE.a))
    with pytest.raises(TypeError, match="expected arguments S, got none"):
        found(**steps(S=None))
    with pytest.raises(TypeError, match="argument 'g' dtype: expected f32, got bf16"):
        found(**steps(g=CASE.a))
    with pytest.raises(TypeError, match="argument 'q': expected a tensor .*, got list"):
        found(**steps(q=[1]))
    with pytest.raises(TypeError, match="argument 'q' dtype: expected one of .*complex64"):
        found(**steps(q=CASE.q.to(torch.complex64)))
    with pytest.raises(ValueError, match="argument 'q' layout: expected torch.strided"):
        found(**steps(q=CASE.q.float().to_sparse()))
    with pytest.raises(ValueError, match="scalar 'first_slot': expected an integer"):
        found(**steps(first_slot=0.5))
    with pytest.raises(TypeError, match="scalar 'scale': expected a number, got str"):
        found(**steps(scale="1"))


def test_step_arguments():
    def step(**changes):
        return linattn.step("gdn", options=OPTIONS, **steps(**changes))

    with pytest.raises(
        TypeError, match="arguments: expected tensors of 'gdn' among q, .*, got 'w'"
    ):
        linattn.step("gdn", options=OPTIONS, **steps(w=CASE.a))
    slots = torch.tensor([0, 1], dtype=torch.int32)
    with pytest.raises(TypeError, match="'dst_slots' dtype: expected that of 'src_slots', i32"):
        step(src_slots=slots, dst_slots=slots.long())
    with pytest.raises(TypeError, match="argument 'src_slots' dtype: expected int32 or int64"):
        step(src_slots=slots.float())
    with pytest.raises(ValueError, match="'dst_slots' dimension 0: expected N = 3 .*, got 2"):
        step(src_slots=torch.tensor([0, 1, 2], dtype=torch.int32), dst_slots=slots)
    with pytest.raises(ValueError, match="argument 'S' dimension 0: expected at least N = 2"):
        step(S=CASE.h0[:1].clone())
    with pytest.raises(TypeError, match="argument 'o' dtype: expected bf16, got f32"):
        step(o=torch.empty(CASE.v.shape))
    with pytest.raises(ValueError, match="overlap"):
        step(o=CASE.v)
    with pytest.raises(ValueError, match="options: expected names among gate, .*, got 'gates'"):
        linattn.step("gdn", options={"gates": "x"}, **steps())
    with pytest.raises(ValueError, match="option 'gate' to be one of"):
        linattn.step("gdn", options={"gate": "x"}, **steps())


def test_specs(tmp_path):
    with pytest.raises(ValueError, match="spec: expected a path or one of .*gdn.*, got 'gnd'"):
        linattn.kernel("gnd", key_dim=32, value_dim=32)
    with pytest.raises(OSError, match="expected a readable text"):
        linattn.kernel(str(tmp_path / "none.mlir"), key_dim=32, value_dim=32)
    (tmp_path / "empty.mlir").write_text("")
    with pytest.raises(ValueError, match="expected a 'linattn.operator @name', got none"):
        linattn.kernel(str(tmp_path / "empty.mlir"), key_dim=32, value_dim=32)


def test_kda_forward():
    arguments = (CASE.q, CASE.k, CASE.v, CASE.gk, CASE.beta)
    slots = torch.tensor([0, 1])
    with pytest.raises(ValueError, match="'initial_state': expected a pool .*, got None"):
        linattn.fused_recurrent_kda_fwd(*arguments)
    with pytest.raises(ValueError, match="inplace_final_state: expected True"):
        linattn.fused_recurrent_kda_fwd(
            *arguments,
            initial_state=CASE.h0,
            inplace_final_state=False,
            ssm_state_indices=slots,
        )
    with pytest.raises(
        ValueError, match="dimension 0: expected N = 2 as in 'ssm_state_indices', got 3"
    ):
        linattn.fused_recurrent_kda_fwd(
            *arguments,
            initial_state=CASE.h0,
            ssm_state_indices=slots,
            num_accepted_tokens=torch.tensor([1, 1, 1]),
        )
    with pytest.raises(ValueError, match="argument 'out' dimension 3: expected 48"):
        linattn.fused_recurrent_kda_fwd(
            *arguments, initial_state=CASE.h0.clone(), out=CASE.v[..., :44].clone()
        )
