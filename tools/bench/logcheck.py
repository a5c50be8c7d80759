# Errors of states that are a base and a log, against the recurrences in fp64.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Relative RMS errors, rms(got - want) / rms(want), over all rows, heads and tokens: of outputs up
to some token, and of the states after it. Rows start from random states, and go on from what is
stored: a base of bf16 is rounded at the beginning and at every merge."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from . import reference
from .inputs import Inputs, make_inputs

if TYPE_CHECKING:
    from .logs import Kernels

ROWS, FEW_ROWS = 64, 8  # that many rows, and of more than MANY tokens few
MANY = 1024
BLOCK = 64  # tokens that are drawn at once


def errors_of(
    kernels: Kernels,
    gates: str,
    after: tuple[int, ...],
    seed: int,
    remaining: Callable[[], float],
) -> dict[str, float]:
    """Errors by name: "output", "state" after the first number of tokens, "output 4096" and so on
    after others, which only steps of single tokens have. Fewer where the time is up."""
    if kernels.case.T > 1:
        errors = _drafts(kernels, gates, after[0], seed)
    else:
        errors = _single(kernels, gates, after[:1], seed, remaining)
        if after[1:]:
            errors |= _single(kernels, gates, after[1:], seed, remaining)
    # Named by the number where it is not the first one.
    names = {f"{kind} {after[0]}": kind for kind in ("output", "state")}
    return {
        names.get(name, name): value if value == value else float("inf")
        for name, value in errors.items()
    }


class _Errors:
    """Sums of squares, on the device: asking for them would wait."""

    def __init__(self, device: torch.device) -> None:
        self.sums = torch.zeros(2, dtype=torch.float64, device=device)

    def add(self, got: torch.Tensor, want: torch.Tensor) -> None:
        self.sums[0] += (got.double() - want).square().sum()
        self.sums[1] += want.square().sum()

    @property
    def relative(self) -> float:
        error, norm = self.sums.tolist()
        return (error / (norm + 1e-30)) ** 0.5


def _bed(kernels: Kernels, inputs: Inputs, seed: int) -> Any:
    from .logs import Bed

    return Bed(kernels, [inputs], shuffle=True, seed=seed)


def _stored(bed: Any) -> torch.Tensor:
    """The states of a pool without logs."""
    return bed.pool.layers[0].states["S"][bed.slots.long()].float()


def _single(
    kernels: Kernels,
    gates: str,
    after: tuple[int, ...],
    seed: int,
    remaining: Callable[[], float],
) -> dict[str, float]:
    """Steps of one token, final."""
    device, total, errors = kernels.device, max(after), {}
    rows = min(kernels.case.B, ROWS if total <= MANY else FEW_ROWS)
    sums, done = _Errors(device), 0
    bed: Any = None
    first: Any = None
    state: Any = None
    while done < total and (not done or remaining() > 0):
        until = min(number for number in after if number > done)
        case = dataclasses.replace(kernels.case, B=rows, T=min(BLOCK, until - done))
        block = make_inputs(case, gates, str(device), seed + done)
        if bed is None:
            first = block
            bed = _bed(kernels, block, seed)
            state = _stored(bed)
        # The layer's parameters stay, and the reference goes on from where it was.
        kept = {name: getattr(first, name) for name in ("A_log", "dt_bias", "u")}
        block = dataclasses.replace(block, **kept, state=state)
        want = reference.reference(case, block)
        assert want.state is not None
        state = want.state if case.layout == "kv" else want.state.transpose(2, 3)
        tokens = kernels.activations(block)
        for t in range(case.T):
            initial = bed.whole if done + t == 0 else None
            bed.pool.plan(bed.slots, bed.slots, initial_state=initial, final=True)
            o = bed.pool.append(0, **{name: x[:, t : t + 1] for name, x in tokens.items()})
            sums.add(o[:, 0], want.o[:, t])
        done += case.T
        if done in after:
            errors[f"output {done}"] = sums.relative
            got = bed.pool.materialize(0, src_slots=bed.slots)
            errors[f"state {done}"] = reference.relative_rms(got, state)
    return errors


def _drafts(kernels: Kernels, gates: str, total: int, seed: int) -> dict[str, float]:
    """Steps of T tokens of which 1 to T are accepted, until each row has so many; what is rejected
    are tokens from elsewhere. Outputs of accepted tokens count."""
    device, T = kernels.device, kernels.case.T
    rows = min(kernels.case.B, ROWS)
    case = dataclasses.replace(kernels.case, B=rows, T=total)
    inputs = make_inputs(case, gates, str(device), seed)
    bed = _bed(kernels, inputs, seed)
    want = reference.reference(case, dataclasses.replace(inputs, state=_stored(bed)))
    assert want.state is not None
    tokens, sums = kernels.activations(inputs), _Errors(device)
    generator = torch.Generator().manual_seed(seed)
    row, place = torch.arange(rows)[:, None], torch.arange(T)[None]
    done, accepted = torch.zeros(rows, dtype=torch.int64), None
    while True:
        given = None if accepted is None else accepted.to(torch.int32).to(device)
        bed.pool.plan(
            bed.slots, bed.slots, tokens=T if (done < total).any() else 0,
            num_accepted_tokens=given, initial_state=bed.whole if given is None else None,
        )  # fmt: skip
        if not (done < total).any():
            break
        accepted = torch.minimum(
            torch.randint(1, T + 1, (rows,), generator=generator), total - done
        )
        is_kept = place < accepted[:, None]
        at = torch.where(is_kept, done[:, None] + place, (done[:, None] + 37 * place + 5) % total)
        where = (row.to(device), at.to(device))
        o = bed.pool.append(0, **{name: x[where] for name, x in tokens.items()})
        kept = is_kept.to(device)
        sums.add(o[kept], want.o[where][kept])
        done += accepted
    bed.pool.merge(0)  # nobody has tokens: the last acceptance is taken, and the log stays
    state = want.state if case.layout == "kv" else want.state.transpose(2, 3)
    got = bed.pool.materialize(0, src_slots=bed.slots)
    return {
        f"output {total}": sums.relative,
        f"state {total}": reference.relative_rms(got, state),
    }
