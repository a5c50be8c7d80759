# What a library must offer to be timed: one file per library in this folder.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A peer is a module here with a class `Library(Peer)`. See README.md, "A new peer"."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from ..cases import LOWER_BOUND, Case
from ..inputs import Inputs, Workload
from ..variants import Problem


class Missing(Exception):
    """The library cannot be used here; the text says why."""


@dataclass
class Call:
    """A way to call the library. `run(i)` launches on buffer set i of the workload, on the current
    stream, and returns (outputs [B, T, HV, V], new states or None if they are in the pool)."""

    run: Callable[[int], tuple[torch.Tensor, torch.Tensor | None]]
    # What is in the time. "fused": everything from raw inputs, by one call of the library. "gates
    # given": log decays and betas are inputs. "with torch": what is left to the caller, by torch.
    scope: str = "fused"
    note: str = ""
    # What is done to outputs, with the inputs, before they are compared, outside of the time.
    finish: Callable[[torch.Tensor, dict[str, torch.Tensor]], torch.Tensor] | None = None


class Peer:
    """One library. Its constructor imports it, and raises `Missing` or whatever importing does."""

    name = "?"
    # The peer by which the others' times are divided; one of them has this set.
    is_ours = False

    def version(self) -> str:
        return "unknown"

    def why_not(self, case: Case) -> str | None:
        """The reason why the library has nothing for this case, or None."""
        raise NotImplementedError

    def prepare(self, work: Workload) -> list[Call]:
        """Brings the inputs into the library's form, outside of what is timed."""
        raise NotImplementedError

    def why_not_variant(self, case: Case) -> str | None:
        """The same as `why_not` for an operator of variants.py."""
        return "not wired up"

    def variant(self, problem: Problem) -> Call:
        """The call for an operator of variants.py."""
        raise NotImplementedError


def load_peer(name: str) -> Peer:
    """Imports a peer's module and its library."""
    return importlib.import_module(f"{__name__}.{name}").Library()


def distribution_version(*names: str) -> str:
    """The version of the first installed distribution of these, with its name."""
    from importlib import metadata

    for name in names:
        try:
            return f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
    return "unknown"


def empty_outputs(work: Workload, dtype: torch.dtype = torch.bfloat16) -> list[torch.Tensor]:
    """An output buffer per set, full of NaN: what a kernel leaves out is seen."""
    return [torch.full_like(s.v, float("nan"), dtype=dtype) for s in work.sets]


def torch_gate(case: Case, inputs: Inputs) -> torch.Tensor:
    """The log decay in fp32, for libraries that leave its computation to the caller."""
    gate = inputs.gate.float()
    if inputs.A_log is None or inputs.dt_bias is None:
        return gate
    biased = gate + inputs.dt_bias.view(gate.shape[2:])
    rate = inputs.A_log.exp().view(-1, *[1] * (gate.dim() - 3))
    if case.gate == "bounded":
        return LOWER_BOUND * torch.sigmoid(rate * biased)
    return -rate * F.softplus(biased)


def torch_beta(inputs: Inputs) -> torch.Tensor:
    """beta in fp32."""
    assert inputs.b is not None
    return torch.sigmoid(inputs.b.float())


@dataclass
class Given:
    """Log decays and betas in fp32, for calls that take them as inputs."""

    g: torch.Tensor
    beta: torch.Tensor


def given_gates(work: Workload) -> list[Given]:
    """Computed once per buffer set, outside of what is timed."""
    return [Given(torch_gate(work.case, s), torch_beta(s)) for s in work.sets]


def torch_norm(x: torch.Tensor) -> torch.Tensor:
    """Normalised queries or keys in their own type."""
    y = x.float()
    return (y * torch.rsqrt((y * y).sum(-1, keepdim=True) + 1e-6)).to(x.dtype)


def packed_starts(work: Workload, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    """cu_seqlens for libraries that want them always, also for a batch of rows of one length."""
    starts = work.sets[0].cu_seqlens
    if starts is None:
        case = work.case
        starts = torch.arange(case.B + 1, device=work.device) * case.T
    return starts.to(dtype)
