# Tests of how FlashInfer is called, on a stand-in with its documented semantics.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import sys

import pytest
import torch

from bench import reference, runner
from bench.cases import Case, decode_cases, prefill_cases
from bench.inputs import make_workload
from bench.peers import flashinfer

from . import fake_flashinfer

HEADS = (2, 4)


@pytest.fixture
def library(monkeypatch) -> flashinfer.Library:
    for name, module in fake_flashinfer.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
    return flashinfer.Library()


def one_case(form: str, B: int, T: int, work: str = "decode", layout: str = "vk") -> Case:
    (case,) = decode_cases(("gdn",), (layout,), (form,), (B,), HEADS, tokens=(T,), work=work)
    return case


def check(library: flashinfer.Library, case: Case, gates: str, num_sets: int = 3) -> list[str]:
    """Runs every way on every buffer set, checks all results, and returns the scopes."""
    assert library.why_not(case) is None
    work = make_workload(case, gates, "cpu", num_sets)
    calls = library.prepare(work)
    want = reference.reference(case, work.sets[0])  # the sets hold the same numbers
    for call in calls:
        for i in range(num_sets):
            work.reset_pool()
            before = None if work.pool is None else work.pool.clone()
            got = runner.read_result(work, call.run(i), i)
            errors = reference.errors_of(case, got, want)
            assert not reference.too_large(errors, reference.LIMITS[case.work]), (
                call.scope,
                i,
                errors,
            )
            if before is not None:
                assert work.pool is not None and work.slots is not None
                others = torch.ones(len(before), dtype=torch.bool)
                others[work.slots[i].flatten().long()] = False
                assert torch.equal(work.pool[others], before[others])
    return [call.scope for call in calls]


@pytest.mark.parametrize("gates", ["weak", "strong"])
@pytest.mark.parametrize("B", [1, 3, 8])
def test_decode_updates_the_slots_of_its_rows(library, B, gates):
    assert check(library, one_case("pool", B, 1), gates) == ["fused"]


@pytest.mark.parametrize("T", [1, 2, 4])
@pytest.mark.parametrize("B", [1, 3])
def test_append_keeps_the_state_of_every_token(library, B, T):
    assert check(library, one_case("snapshots", B, T, "append"), "weak") == ["fused"]


@pytest.mark.parametrize("shape", ["1x40", "3x7"])
def test_prefill_takes_rows_as_they_lie(library, shape):
    (case,) = prefill_cases(("gdn",), ("vk",), (shape,), [HEADS])
    assert check(library, case, "weak", 2) == ["fused", "norms, gates given"]


@pytest.mark.parametrize(
    "case, text",
    [(one_case("pool", 2, 1, layout="kv"), "pool with [V, K] states only"),
     (one_case("snapshots", 2, 2, "append", "kv"), "snapshots with [V, K] states only"),
     (one_case("functional", 2, 1), "no new states"),
     (one_case("functional", 2, 1, layout="kv"), "no new states"),
     (prefill_cases(("gdn",), ("kv",), ("1x40",), [HEADS])[0], "prefill has [V, K]"),
     (decode_cases(("gdn",), ("vk",), ("pool",), (1,), HEADS, (64, 64))[0], "128 x 128"),
     (decode_cases(("kda",), ("vk",), ("pool",), (1,), HEADS)[0], "bf16 states")],
)  # fmt: skip
def test_what_it_lacks_is_said(library, case, text):
    assert text in library.why_not(case)


def test_the_stand_in_refuses_misaligned_slots(library):
    """What parts of one tensor of indices did: those of a second row start 4 bytes further on."""
    s = make_workload(one_case("pool", 1, 1), "weak", "cpu", 1)
    order = torch.arange(4, dtype=torch.int32)
    inputs = s.sets[0]
    function = fake_flashinfer.gated_delta_rule_decode_pretranspose

    def call(indices: torch.Tensor) -> None:
        function(
            inputs.q, inputs.k, inputs.v, None, inputs.A_log, inputs.gate, inputs.dt_bias,
            inputs.b, output=torch.empty_like(inputs.v), initial_state=s.pool,
            initial_state_indices=indices,
        )  # fmt: skip

    call(order[:1])
    with pytest.raises(ValueError, match="Misaligned"):
        call(order[1:2])


@pytest.mark.parametrize("form, T", [("pool", 1), ("snapshots", 2)])
def test_slots_anywhere_in_memory_are_copied(library, form, T):
    work = make_workload(one_case(form, 1, T), "weak", "cpu", 2)
    assert work.slots is not None
    shape = work.slots[0].shape
    together = torch.cat([torch.zeros(1, dtype=torch.int32), *(s.view(-1) for s in work.slots)])
    work.slots = [part.view(shape) for part in together[1:].split(T)]
    assert any(slots.data_ptr() % flashinfer.ALIGNMENT for slots in work.slots)
    (call,) = library.prepare(work)
    for i in range(2):
        call.run(i)


@pytest.mark.parametrize(
    "change, text",
    [(lambda work: setattr(work.sets[1], "q", work.sets[1].q.float()), "q: expected"),
     (lambda work: setattr(work.sets[1], "b", None), "b is missing"),
     (lambda work: setattr(work.sets[1], "dt_bias", torch.zeros(5)[1:]), "dt_bias is not contig"),
     (lambda work: setattr(work, "pool", work.pool[:, :2]), "pool: expected"),
     (lambda work: work.slots[1].fill_(3), "not distinct"),
     (lambda work: work.slots[1].sub_(99), "slots: expected 0..")],
)  # fmt: skip
def test_inputs_of_another_form_are_refused_before_a_launch(library, change, text):
    work = make_workload(one_case("pool", 3, 1), "weak", "cpu", 2)
    change(work)
    with pytest.raises(ValueError, match=text):
        library.prepare(work)
