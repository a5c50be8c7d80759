# Tests of the lists of cases, the buffers and the floors.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import pytest
import torch

from bench.cases import PREFILL_LENGTHS, Case, decode_cases, parse_rows, prefill_cases
from bench.floors import Ceilings, work_of
from bench.inputs import make_inputs, make_workload
from bench.timing import num_sets


def test_prefill_shapes_hold_what_their_names_say():
    for name in ("1x8192", "8x1024", "mixed6", "uniform20", "skewed10", "128x64"):
        assert sum(PREFILL_LENGTHS[name]) == 8192
    assert len(PREFILL_LENGTHS["uniform20"]) == 20 and len(PREFILL_LENGTHS["skewed10"]) == 10
    assert parse_rows("3x7") == (7, 7, 7)
    for text in ("3", "x3", "3x", "axb", "0x3"):
        with pytest.raises(ValueError, match="ROWSxTOKENS"):
            parse_rows(text)


def test_only_rows_of_several_sequences_are_packed():
    one, several = prefill_cases(("kda",), ("vk",), ("1x64", "mixed6"), [(4, 4)])
    assert not one.is_packed and one.batch_tokens == (1, 64)
    assert several.is_packed and several.batch_tokens == (1, 8192) and several.B == 6
    assert several.gate == "bounded"


def test_rwkv6_has_no_grouped_heads():
    cases = decode_cases(("gdn", "rwkv6"), ("kv",), ("pool",), (1,), (2, 4))
    assert {case.op for case in cases} == {"gdn"}


@pytest.mark.parametrize(
    "op, gate, bytes_per_token, flops",
    [("gdn", "softplus", 1028, 166570), ("kda", "bounded", 1282, 166570),
     ("rwkv6", "log", 1280, 98304)],
)  # fmt: skip
def test_work_of_a_long_row(op, gate, bytes_per_token, flops):
    case = Case("prefill", op, "functional", "kv", 1, 8192, 32, 32, 128, 128, gate)
    work = work_of(case)
    assert work.state_bytes == 2 * 32 * 128 * 128 * 4
    assert (work.bytes - work.state_bytes) == 8192 * 32 * bytes_per_token
    assert work.flops == 8192 * 32 * flops


def test_work_of_decode_is_its_states():
    dense = Case("decode", "gdn", "pool", "kv", 256, 1, 32, 32)
    snapshots = Case("append", "gdn", "snapshots", "kv", 256, 4, 32, 32)
    state = 256 * 32 * 128 * 128 * 4
    assert work_of(dense).state_bytes == 2 * state
    assert work_of(dense).bytes == pytest.approx(2 * state, rel=0.01)
    assert work_of(snapshots).state_bytes == 5 * state


def test_ceilings_are_measured_once():
    ceilings = Ceilings(torch.device("cpu"), 1)
    case = Case("decode", "gdn", "pool", "kv", 2, 1, 2, 2, 16, 16)
    floor = ceilings.floor(case)
    assert floor["ms"] > 0 and floor["tensor_ms"] is None
    assert floor["ms"] == pytest.approx(floor["scale_ms"] * floor["bytes"] / (2 * 4096))
    assert ceilings.floor(case) == floor
    assert [scale["bytes"] for scale in ceilings.to_json()["scales"]] == [4096]


def test_sets_hold_twice_the_cache():
    assert num_sets(2 << 20, 60 << 20) == 60
    assert num_sets(1 << 30, 60 << 20) == 2
    assert num_sets(0, 60) == 120


def test_sets_have_the_same_numbers_elsewhere():
    case = Case("decode", "kda", "pool", "vk", 3, 1, 2, 4, 8, 16)
    work = make_workload(case, "weak", "cpu", 4)
    assert len(work.sets) == 4
    for other in work.sets[1:]:
        assert torch.equal(other.q, work.sets[0].q)
        assert other.q.data_ptr() != work.sets[0].q.data_ptr()
    again = make_inputs(case, "weak", "cpu")
    assert torch.equal(again.state, work.sets[0].state)
    assert not torch.equal(make_inputs(case, "weak", "cpu", seed=2).q, again.q)


@pytest.mark.parametrize("form, per_row", [("pool", 1), ("snapshots", 3)])
def test_slots_are_apart_and_hold_the_states(form, per_row):
    case = Case("append", "gdn", form, "kv", 5, 3, 2, 2, 8, 8)
    work = make_workload(case, "weak", "cpu", 4)
    slots = torch.cat([part.flatten() for part in work.slots])
    assert sorted(slots.tolist()) == list(range(1, 5 * per_row * 4 + 1))  # slot 0 is not used
    work.pool.fill_(7)
    work.reset_pool()
    for inputs, part in zip(work.sets, work.slots, strict=True):
        first = part.view(5, -1)[:, 0].long()
        assert torch.equal(work.pool[first], inputs.state)
    assert (work.pool[0] == 7).all()


@pytest.mark.parametrize("form, T", [("functional", 1), ("pool", 1), ("snapshots", 3)])
@pytest.mark.parametrize("op", ["gdn", "kda", "rwkv6"])
def test_every_tensor_starts_an_allocation(op, form, T):
    """Kernels are compiled for aligned tensors, indices among them, also those of a single row."""
    (case,) = decode_cases((op,), ("kv",), (form,), (1,), (3, 3), (16, 16), tokens=(T,))
    work = make_workload(case, "weak", "cpu", 5)
    tensors = [value for s in work.sets for value in vars(s).values()]
    tensors += [work.pool, *(work.slots or [])]
    found = [tensor for tensor in tensors if isinstance(tensor, torch.Tensor)]
    assert len({tensor.data_ptr() for tensor in found}) == len(found)
    for tensor in found:
        assert tensor.is_contiguous() and tensor.data_ptr() % 64 == 0
        assert tensor.stride() == torch.empty(tensor.shape).stride()
