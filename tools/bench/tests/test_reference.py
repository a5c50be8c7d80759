# Tests of the fp64 recurrences and of the errors against them.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from bench.cases import Case, decode_cases, prefill_cases
from bench.inputs import make_inputs, make_workload
from bench.peers import naive
from bench.reference import (
    LIMITS,
    Result,
    errors_of,
    log_decay,
    reference,
    relative_rms,
    too_large,
    worst_window,
)


def case_of(op: str, layout: str = "kv", T: int = 5, B: int = 2, **changes) -> Case:
    gate = "log" if op == "rwkv6" else changes.pop("gate", "softplus")
    heads = (2, 2) if op == "rwkv6" else (2, 4)
    case = Case("append", op, "functional", layout, B, T, *heads, 8, 12, gate)
    return replace(case, **changes)


@pytest.mark.parametrize("layout", ["kv", "vk"])
@pytest.mark.parametrize("gates", ["weak", "strong"])
@pytest.mark.parametrize("op", ["gdn", "kda", "kda bounded", "rwkv6"])
def test_agrees_with_the_recurrence_in_torch(op, gates, layout):
    name, _, gate = op.partition(" ")
    case = case_of(name, layout, gate=gate or "softplus")
    inputs = make_inputs(case, gates, "cpu")
    want = reference(case, inputs)
    o, state = naive.recurrence(case, inputs, inputs.state)
    state = state if layout == "kv" else state.transpose(2, 3)
    assert relative_rms(o, want.o) < 5e-3  # bf16 outputs
    assert relative_rms(state, want.state) < 1e-6


def test_equal_keys_have_a_closed_form():
    """Unit keys k, decay a, beta b, values 1: p_t = a (1 - b) p_{t-1} + b, S = k p."""
    case = case_of("gdn", T=7, B=1, HQ=1, HV=1, K=4, V=3)
    inputs = make_inputs(case, "weak", "cpu")
    k = torch.zeros(1, 7, 1, 4)
    k[..., 1] = 1.0
    inputs.q = inputs.k = k.bfloat16()
    inputs.v = torch.ones(1, 7, 1, 3).bfloat16()
    inputs.state = torch.zeros(1, 1, 4, 3)
    inputs.A_log, inputs.dt_bias = torch.tensor([0.3]), torch.tensor([-1.0])
    inputs.gate, inputs.b = torch.zeros(1, 7, 1).bfloat16(), torch.zeros(1, 7, 1).bfloat16()
    a, unit = log_decay(case, inputs).exp()[0, 0, 0].item(), (1 + 1e-6) ** -0.5
    p, want = 0.0, []
    for _ in range(7):
        # What is read for a key of length `unit`, and what is written for it.
        p = a * p + 0.5 * (1 - a * p * unit) * 1.0 * unit
        want.append(p * unit * inputs.scale)
    got = reference(case, inputs)
    assert torch.allclose(got.o[0, :, 0, 0], torch.tensor(want, dtype=torch.float64), atol=1e-12)
    assert abs(got.state[0, 0, 1, 2].item() - p) < 1e-12
    assert got.state[0, 0, 0].abs().max() == 0


def test_rwkv6_reads_the_state_before_it_changes():
    case = case_of("rwkv6", T=1, B=1, HQ=1, HV=1, K=4, V=4)
    inputs = make_inputs(case, "strong", "cpu")
    inputs.k = torch.zeros_like(inputs.k)
    inputs.q = torch.tensor([0.0, 0.0, 1.0, 0.0]).view(1, 1, 1, 4).bfloat16()
    got = reference(case, inputs)
    state = inputs.state[0, 0].double()
    assert torch.equal(got.o[0, 0, 0], state[2])
    decay = inputs.gate.double().exp()[0, 0, 0]
    assert torch.allclose(got.state[0, 0], decay[:, None] * state, atol=1e-15)


@pytest.mark.parametrize("op", ["gdn", "kda", "rwkv6"])
def test_packed_rows_equal_rows_alone(op):
    heads = [(2, 2)]
    (packed,) = prefill_cases((op,), ("kv",), ("3x5",), heads, (8, 8))
    packed = replace(packed, lengths=(3, 7, 0, 5), B=4, T=7)
    inputs = make_inputs(packed, "weak", "cpu")
    got = reference(packed, inputs)
    start = 0
    for row, length in enumerate(packed.lengths):
        single = replace(packed, lengths=(), B=1, T=length)
        part = make_inputs(packed, "weak", "cpu")
        for name in ("q", "k", "v", "gate", "b"):
            tensor = getattr(part, name)
            if tensor is not None:
                setattr(part, name, tensor[:, start : start + length])
        part.state = part.state[row : row + 1]
        want = reference(single, part)
        assert torch.allclose(got.o[:, start : start + length], want.o, atol=1e-12)
        assert torch.allclose(got.state[row], want.state[0], atol=1e-12)
        start += length


def test_snapshots_are_the_states_after_each_token():
    case = replace(case_of("kda", T=3), form="snapshots")
    work = make_workload(case, "weak", "cpu", 2)
    want = reference(case, work.sets[0])
    assert len(want.snapshots) == 3
    assert torch.equal(want.snapshots[-1], want.state)
    short = replace(case, T=2)
    inputs = work.sets[0]
    for name in ("q", "k", "v", "gate", "b"):
        setattr(inputs, name, getattr(inputs, name)[:, :2])
    assert torch.allclose(reference(short, inputs).state, want.snapshots[1], atol=1e-15)


def test_one_bad_tile_shows_in_its_window_only():
    (case,) = prefill_cases(("gdn",), ("kv",), ("1x256",), [(2, 4)], (8, 8))
    want = torch.randn(1, 256, 4, 8, dtype=torch.float64)
    got = want.clone()
    got[0, 70:74, 2] *= 1.4
    assert relative_rms(got, want) < 5e-2
    assert worst_window(case, got, want) > 5e-2
    assert worst_window(case, want, want) == 0


def test_windows_do_not_cross_rows():
    (case,) = prefill_cases(("gdn",), ("kv",), ("2x70",), [(1, 1)], (8, 8))
    want = torch.ones(1, 140, 1, 1, dtype=torch.float64)
    got = want.clone()
    got[0, 64:70] = 1.1  # a window of six tokens
    assert worst_window(case, got, want) == pytest.approx(0.1)


def test_what_is_not_finite_or_missing_is_an_infinite_error():
    case = case_of("gdn")
    want = reference(case, make_inputs(case, "weak", "cpu"))
    o = want.o.clone()
    o[0, 0, 0, 0] = float("nan")
    errors = errors_of(case, Result(o, None), want)
    assert errors == {"output": float("inf"), "state": float("inf")}
    assert len(too_large(errors, LIMITS[case.work])) == 2
    assert too_large({"output": 4.9e-3, "state": 9e-5}, LIMITS[case.work]) == []


def test_gates_are_as_strong_as_they_say():
    for op, gate in (("gdn", "softplus"), ("kda", "softplus"), ("kda", "bounded")):
        (case,) = decode_cases((op,), ("kv",), ("functional",), (64,), (16, 16), (64, 64), gate)
        strong = log_decay(case, make_inputs(case, "strong", "cpu"))
        weak = log_decay(case, make_inputs(case, "weak", "cpu"))
        assert strong.mean().item() == pytest.approx(-3.3, abs=0.25)
        assert (strong < 0).all() and (weak < 0).all()
        assert weak.mean().item() > -0.8
        if gate == "bounded":
            assert weak.min().item() > -0.1 and weak.mean().item() > -0.01
            assert strong.min().item() >= -5
    (case,) = decode_cases(("rwkv6",), ("kv",), ("functional",), (64,), (16, 16), (64, 64))
    strong = log_decay(case, make_inputs(case, "strong", "cpu"))
    weak = log_decay(case, make_inputs(case, "weak", "cpu"))
    assert strong.mean().item() == pytest.approx(-3.3, abs=0.05)
    assert weak.min().item() > -0.4
