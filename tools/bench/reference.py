# The recurrences in fp64, token by token, and the errors against them.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""No chunk form here: one token after the other, on the inputs as they are after rounding."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F

from .cases import LOWER_BOUND, Case
from .inputs import Inputs

# Largest relative RMS errors of ours. Decode keeps an fp32 state nearly exact; a prefill computes
# with 16-bit factors, and may do so in its state too.
LIMITS = {
    "decode": {"output": 5e-3, "state": 1e-4},
    "append": {"output": 5e-3, "state": 1e-4},
    "prefill": {"output": 5e-3, "state": 5e-3, "window": 2e-2},
    "log": {"output": 5e-3, "state": 1e-4},
    # States that are rounded at each step, or merge, and at the start.
    "decode, bf16": {"output": 1e-2, "state": 2e-2},
    "log, bf16": {"output": 1e-2, "state": 2e-2},
}
# Other libraries' limits over ours: what ours may have more than the best of them. One that is
# hardly above our limit is a rival to be compared with, not a wrong one.
PEER_ALLOWANCE = 1.5
WINDOW = 64  # tokens of a row and head whose error is looked at apart


@dataclass
class Result:
    """o: [B, T, HV, V]; state: [N, HV, K, V], after the last token; snapshots: after each."""

    o: torch.Tensor
    state: torch.Tensor | None
    snapshots: list[torch.Tensor] = field(default_factory=list)


def log_decay(case: Case, inputs: Inputs) -> torch.Tensor:
    """The natural logarithm of the decay in fp64: [B, T, HV] or [B, T, HV, K]."""
    gate = inputs.gate.double()
    if case.op == "rwkv6":
        return gate
    assert inputs.A_log is not None and inputs.dt_bias is not None
    biased = gate + inputs.dt_bias.double().view(gate.shape[2:])
    rate = inputs.A_log.double().exp().view(-1, *[1] * (gate.dim() - 3))
    if case.gate == "bounded":
        return LOWER_BOUND * torch.sigmoid(rate * biased)
    return -rate * F.softplus(biased, threshold=100.0)


def l2norm(x: torch.Tensor) -> torch.Tensor:
    return x / torch.sqrt((x * x).sum(-1, keepdim=True) + 1e-6)


class _Step:
    """One token of the rows 0..n: updates `S`, [N, HV, K, V], in place and returns outputs."""

    def __init__(self, case: Case, inputs: Inputs):
        self.case, self.scale = case, inputs.scale
        group = case.HV // case.HQ
        q, k = inputs.q.double(), inputs.k.double()
        if case.op != "rwkv6":
            q, k = l2norm(q), l2norm(k)
        self.q = q.repeat_interleave(group, 2)
        self.k = k.repeat_interleave(group, 2)
        self.v = inputs.v.double()
        decay = log_decay(case, inputs).exp()
        self.decay = decay[..., None, None] if decay.dim() == 3 else decay[..., None]
        self.beta = None if inputs.b is None else torch.sigmoid(inputs.b.double())[..., None]
        self.u = None if inputs.u is None else inputs.u.double()
        if self.u is not None:
            self.u = self.u.repeat_interleave(group, 0)

    def __call__(self, S: torch.Tensor, at: tuple) -> torch.Tensor:
        q, k, v, decay = self.q[at], self.k[at], self.v[at], self.decay[at]
        n, heads, K, V = S.shape
        flat = S.view(n * heads, K, V)

        def read(x: torch.Tensor) -> torch.Tensor:
            return torch.bmm(x.reshape(n * heads, 1, K), flat).view(n, heads, V)

        def write(x: torch.Tensor, y: torch.Tensor) -> None:
            flat.baddbmm_(x.reshape(n * heads, K, 1), y.reshape(n * heads, 1, V))

        if self.u is not None:
            o = read(q) + (q * self.u * k).sum(-1, keepdim=True) * v
            S.mul_(decay)
            write(k, v)
        else:
            assert self.beta is not None
            S.mul_(decay)
            write(k, self.beta[at] * (v - read(k)))
            o = read(q)
        return self.scale * o


def reference(case: Case, inputs: Inputs) -> Result:
    """Outputs and states in fp64."""
    step = _Step(case, inputs)
    S = inputs.state.double()
    S = (S if case.layout == "kv" else S.transpose(2, 3)).contiguous()
    o = torch.empty(inputs.v.shape, dtype=torch.float64, device=inputs.v.device)
    snapshots = []
    if not case.is_packed:
        for t in range(case.T):
            at = (slice(None), t)
            o[at] = step(S, at)
            if case.form == "snapshots":
                snapshots.append(S.clone())
        return Result(o, S, snapshots)
    # The longest rows first: then those that have a token t are the first so many.
    lengths = torch.tensor(case.row_lengths)
    order = torch.argsort(lengths, descending=True, stable=True)
    starts = (lengths.cumsum(0) - lengths)[order].to(S.device)
    order = order.to(S.device)
    S = S[order].contiguous()
    descending = sorted(case.row_lengths, reverse=True)
    rows = len(descending)
    for t in range(case.T):
        while descending[rows - 1] <= t:
            rows -= 1
        where = (0, starts[:rows] + t)
        o[where] = step(S[:rows], where)
    final = torch.empty_like(S)
    final[order] = S
    return Result(o, final)


def relative_rms(got: torch.Tensor, want: torch.Tensor) -> float:
    """rms(got - want) / rms(want); infinite if `got` is not finite everywhere."""
    error = (got.double() - want).square().mean().sqrt().item()
    norm = want.square().mean().sqrt().item()
    return error / (norm + 1e-8) if error == error else float("inf")


def worst_window(case: Case, got: torch.Tensor, want: torch.Tensor) -> float:
    """The largest relative RMS error of any 64 tokens of a row and head.

    A ratio over everything hides one bad tile. The RMS of a window counts as at least 1e-3 of that
    of the whole tensor.
    """
    error = (got.double() - want).square().mean(-1).flatten(0, 1)  # [tokens, HV]
    norm = want.square().mean(-1).flatten(0, 1)
    floor = 1e-3 * want.square().mean().sqrt()
    window_of, count = [], 0
    for length in case.row_lengths:
        window_of.append(torch.arange(length) // WINDOW + count)
        count += -(-length // WINDOW)
    window = torch.cat(window_of).to(error.device)
    shape = (count, error.shape[1])
    sums = torch.zeros((2, *shape), dtype=torch.float64, device=error.device)
    sums[0].index_add_(0, window, error)
    sums[1].index_add_(0, window, norm)
    counts = torch.bincount(window, minlength=shape[0])[:, None]
    rms = (sums / counts).sqrt()
    worst = (rms[0] / torch.maximum(rms[1], floor)).max().item()
    return worst if worst == worst else float("inf")


def limits_of(case: Case) -> dict[str, float]:
    """The limits of a case's errors by name."""
    return LIMITS[case.work if case.state == "f32" else f"{case.work}, {case.state}"]


def errors_of(case: Case, got: Result, want: Result) -> dict[str, float]:
    """Errors by name, as in LIMITS; a missing state is an infinite error."""
    errors = {"output": relative_rms(got.o, want.o)}
    if "window" in limits_of(case):
        errors["window"] = worst_window(case, got.o, want.o)
    if case.form == "snapshots":
        pairs = zip(got.snapshots, want.snapshots, strict=True)
        errors["state"] = max(relative_rms(g, w) for g, w in pairs)
    else:
        assert want.state is not None
        errors["state"] = float("inf") if got.state is None else relative_rms(got.state, want.state)
    return errors


def peer_limits(limits: dict[str, float]) -> dict[str, float]:
    """The limits of other libraries, from ours."""
    return {name: float(f"{PEER_ALLOWANCE * value:.3g}") for name, value in limits.items()}


def too_large(errors: dict[str, float], limits: dict[str, float]) -> list[str]:
    """Which errors exceed their limits, in words. Errors may be text, as JSON has "nan"."""
    return [
        f"{name} error {float(value):.1e} exceeds {limits[name]:.1e}"
        for name, value in errors.items()
        if name in limits and not float(value) <= limits[name]  # of logs, after more tokens
    ]


def judge(row_errors: dict[str, dict[str, float]], limits: dict[str, float]) -> str:
    """What is wrong with a row, by all gates that it was checked with; '' if nothing is."""
    faults = {gates: too_large(errors, limits) for gates, errors in row_errors.items()}
    return "; ".join(f"{gates} gates: {', '.join(text)}" for gates, text in faults.items() if text)
