# test_pool.py - Steps on pools of states: slots, null rows, drafts.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import numpy as np
import pytest
from cases import DEVICE, Case, array, close, torch

import linattn

OPTIONS = {"gate": "precomputed", "beta": "value", "normalize": False}


def tensors(case: Case) -> dict:
    return dict(q=case.q, k=case.k, v=case.v, g=case.g, beta=case.beta)


def pool_of(slots: int, HV: int = 4, K: int = 32, V: int = 48, dtype=torch.float32, seed=5):
    generator = torch.Generator("cpu").manual_seed(seed)
    return torch.randn(slots, HV, K, V, generator=generator, device="cpu").to(dtype).to(DEVICE)


def expected(case: Case, states) -> tuple:
    return case.delta(np.exp(array(case.g))[..., None, None], array(case.beta), state=array(states))


@pytest.fixture(params=["step", "kernel", "operator"])
def step(request):
    """The three ways to make a step; each takes the same arguments and returns the output."""

    def through_step(state_layout="kv", **arguments):
        return linattn.step("gdn", state_layout=state_layout, options=OPTIONS, **arguments)

    def through_kernel(state_layout="kv", **arguments):
        pool, slots = arguments["S"], arguments.get("src_slots")
        name = "i64" if slots is not None and slots.dtype == torch.int64 else "i32"
        states = {torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
        kernel = linattn.kernel(
            "gdn",
            key_dim=32,
            value_dim=48,
            state_layout=state_layout,
            state_type=states[pool.dtype],
            index_type=name,
            options=OPTIONS,
            device=DEVICE,
        )
        if request.param == "kernel":
            return kernel(**arguments)
        arguments.setdefault("o", torch.empty_like(arguments["v"]))
        kernel.op(**arguments)
        return arguments["o"]

    return through_step if request.param == "step" else through_kernel


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("v_first", [False, True])
def test_in_place(step, index, v_first):
    case = Case(B=3)
    pool = pool_of(6)
    kept = pool.clone()
    slots = torch.tensor([4, 0, 2], dtype=index)
    layout = "vk" if v_first else "kv"
    used = pool.transpose(-1, -2).contiguous() if v_first else pool
    o = step(**tensors(case), S=used, src_slots=slots, dst_slots=slots, state_layout=layout)
    pool = used.transpose(-1, -2) if v_first else used
    expected_o, states, _ = expected(case, kept[slots.long()])
    close(o, expected_o)
    close(pool[slots.long()], states)
    for other in (1, 3, 5):
        assert torch.equal(pool[other], kept[other])


def test_without_slots_row_n_has_slot_n(step):
    case = Case(B=2)
    pool = pool_of(4)
    kept = pool.clone()
    o = step(**tensors(case), S=pool)
    expected_o, states, _ = expected(case, kept[:2])
    close(o, expected_o)
    close(pool[:2], states)
    assert torch.equal(pool[2:], kept[2:])


def test_null_rows(step):
    case = Case(B=4)
    pool = pool_of(4)
    kept = pool.clone()
    slots = torch.tensor([-1, 2, 0, 99], dtype=torch.int32)
    o = step(**tensors(case), S=pool, src_slots=slots, dst_slots=slots, first_slot=1)
    for null in (0, 2, 3):
        assert not o[null].any()
    assert o[1].any() and not torch.equal(pool[2], kept[2])
    for other in (0, 1, 3):
        assert torch.equal(pool[other], kept[other])


def test_from_slot_to_slot(step):
    case = Case(B=3)
    pool = pool_of(6)
    kept = pool.clone()
    source = torch.tensor([4, 4, 1], dtype=torch.int32)
    target = torch.tensor([2, 3, 1], dtype=torch.int32)
    step(**tensors(case), S=pool, src_slots=source, dst_slots=target)
    _, states, _ = expected(case, kept[source.long()])
    close(pool[target.long()], states)
    assert torch.equal(pool[4], kept[4])


def test_from_pool_to_pool(step):
    case = Case(B=2)
    source, target = pool_of(3), pool_of(5, seed=7)
    kept = source.clone()
    slots = torch.tensor([2, 0], dtype=torch.int32)
    target_slots = torch.tensor([4, 1], dtype=torch.int32)
    step(**tensors(case), S=target, S_in=source, src_slots=slots, dst_slots=target_slots)
    _, states, _ = expected(case, kept[slots.long()])
    close(target[target_slots.long()], states)
    assert torch.equal(source, kept)


def test_drafts_and_acceptance(step):
    """A state is kept after each token; the next step starts from the accepted one."""
    starts = [0, 3, 5, 8]
    case = Case(T=8, starts=starts)
    pool = pool_of(13)
    kept = pool.clone()
    table = torch.tensor([[3, 7, 1], [10, 2, 5], [0, 12, 4]], dtype=torch.int32)
    accepted = torch.tensor([1, 3, 2], dtype=torch.int32)
    o = step(
        **tensors(case),
        S=pool,
        src_slots=table,
        dst_slots=table,
        cu_seqlens=case.cu_seqlens(torch.int32),
        num_accepted_tokens=accepted,
    )
    begin = [table[n, accepted[n] - 1].item() for n in range(3)]
    expected_o, _, history = expected(case, kept[begin])
    close(o, expected_o)
    for n in range(3):
        for t in range(starts[n + 1] - starts[n]):
            close(pool[table[n, t].item()], history[n][t])
    assert torch.equal(pool[5], kept[5])  # row 1 has two tokens only


@pytest.mark.parametrize("flags", [torch.bool, torch.uint8])
def test_fresh_rows_do_not_read_the_pool(step, flags):
    case = Case(B=2)
    pool = pool_of(2)
    kept = pool.clone()
    kept[0] = 0
    pool[0] = float("nan")
    fresh = torch.tensor([0, 1]).to(flags)
    o = step(**tensors(case), S=pool, has_initial_state=fresh)
    expected_o, states, _ = expected(case, kept)
    close(o, expected_o)
    close(pool, states)


def test_output_and_scale_are_given(step):
    case = Case()
    out = torch.zeros_like(case.v)
    o = step(**tensors(case), S=case.h0.clone(), o=out, scale=2.0)
    assert o is out
    close(out, 2.0 * 32**0.5 * expected(case, case.h0)[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_pools_of_16_bits(step, dtype):
    case = Case()
    pool = case.h0.to(dtype)
    kept = pool.clone()
    step(**tensors(case), S=pool)
    close(pool, expected(case, kept)[1], 2e-2)


def test_page_strides(step):
    """A layer's part of pages that other data shares: the pitch is more than the state."""
    case = Case()
    pages = torch.full((5, 4 * 32 * 48 + 64), 7.0)
    pool = pages[:, : 4 * 32 * 48].unflatten(1, (4, 32, 48))
    pool.copy_(pool_of(5))
    kept = pool.clone()
    slots = torch.tensor([3, 1], dtype=torch.int32)
    step(**tensors(case), S=pool, src_slots=slots, dst_slots=slots)
    close(pool[[3, 1]], expected(case, kept[[3, 1]])[1])
    assert (pages[:, 4 * 32 * 48 :] == 7.0).all()


def test_checked_mode(monkeypatch):
    case = Case(B=2)
    twice = torch.tensor([2, 2], dtype=torch.int32)
    monkeypatch.setenv("LINATTN_CHECKED", "1")
    kernel = linattn.kernel("gdn", key_dim=32, value_dim=48, options=OPTIONS, device=DEVICE)
    pool = pool_of(4)
    kept = pool.clone()
    with pytest.raises(ValueError, match="'dst_slots' row 1: expected a slot of its own, got 2"):
        kernel(**tensors(case), S=pool, src_slots=twice, dst_slots=twice)
    assert torch.equal(pool, kept)
    plan = kernel.prepare(DEVICE, checked=False)
    plan(**tensors(case), S=pool)


def test_every_operator():
    case = Case(H=4)
    pools = [case.h0.clone() for _ in range(2)]
    linattn.step(
        "kda",
        options={"gate": "bounded", "lower_bound": -4.5},
        q=case.q,
        k=case.k,
        v=case.v,
        a=case.ak,
        b=case.b,
        A_log=case.A_log,
        dt_bias=case.dt_bias_k,
        S=pools[0],
    )
    linattn.step("rwkv6", r=case.r, k=case.keys, v=case.v, w=case.gk, u=case.u, S=pools[1])
    _, h = linattn.fused_recurrent_rwkv6(
        case.r, case.keys, case.v, case.gk, case.u, None, case.h0, True
    )
    assert torch.equal(pools[1], h) and not torch.equal(pools[0], case.h0)


class TestKdaForward:
    """fused_recurrent_kda_fwd, fla's form of a step."""

    def inputs(self, case):
        return (case.q, case.k, case.v, case.gk, case.beta)

    def expected(self, case, states):
        decay = np.exp(array(case.gk))[..., None]
        return case.delta(decay, array(case.beta), state=array(states))

    @pytest.mark.parametrize("index", [torch.int32, torch.int64])
    def test_slots(self, index):
        case = Case(B=3, T=1)
        pool = pool_of(5)
        kept = pool.clone()
        slots = torch.tensor([4, -1, 2], dtype=index)
        out = torch.empty_like(case.v)
        o, final = linattn.fused_recurrent_kda_fwd(
            *self.inputs(case), initial_state=pool, ssm_state_indices=slots, out=out
        )
        assert o is out and final is pool and not o[1].any()
        expected_o, states, _ = self.expected(case, kept[[4, 0, 2]])
        close(o[[0, 2]], expected_o[[0, 2]])
        close(pool[[4, 2]], states[[0, 2]])
        assert torch.equal(pool[[0, 1, 3]], kept[[0, 1, 3]])

    def test_drafts(self):
        case = Case(T=6, starts=[0, 2, 6, 6])
        pool = pool_of(12)
        kept = pool.clone()
        table = torch.arange(12).view(3, 4)
        accepted = torch.tensor([2, 1, 1])
        o, _ = linattn.fused_recurrent_kda_fwd(
            *self.inputs(case),
            initial_state=pool,
            cu_seqlens=case.cu_seqlens(),
            ssm_state_indices=table,
            num_accepted_tokens=accepted,
        )
        expected_o, _, history = self.expected(case, kept[[1, 4, 8]])
        close(o, expected_o)
        close(pool[[0, 1]], history[0])
        close(pool[4:8], history[1])
        assert torch.equal(pool[8:], kept[8:])

    def test_not_in_place(self):
        case = Case()
        kept = case.h0.clone()
        o, h = linattn.fused_recurrent_kda_fwd(
            *self.inputs(case),
            initial_state=case.h0,
            inplace_final_state=False,
            output_final_state=True,
        )
        expected_o, states, _ = self.expected(case, kept)
        close(o, expected_o)
        close(h, states)
        assert torch.equal(case.h0, kept)

    def test_padding_is_zero(self):
        case = Case(T=6, starts=[0, 2, 4])
        o, _ = linattn.fused_recurrent_kda_fwd(
            *self.inputs(case), initial_state=case.h0, cu_seqlens=case.cu_seqlens()
        )
        assert not o[:, 4:].any()
