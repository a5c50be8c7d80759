# What a library must offer to be timed: one file per library in this folder.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A peer is a module here with a class `Library(Peer)`. See README.md, "A new peer"."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ..cases import Case
from ..inputs import Workload


class Missing(Exception):
    """The library cannot be used here; the text says why."""


@dataclass
class Call:
    """A way to call the library. `run(i)` launches on buffer set i of the workload, on the current
    stream, and returns (outputs [B, T, HV, V], new states or None if they are in the pool)."""

    run: Callable[[int], tuple[torch.Tensor, torch.Tensor | None]]
    # What is in the time. "fused": everything from raw inputs, in the library's own launches.
    # "kernels": without what the library leaves to the caller. "with torch": with that, in torch.
    scope: str = "fused"
    note: str = ""


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


def peer_names() -> list[str]:
    """Names of the modules here: what --peers accepts."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__))


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


def per_set(work: Workload, make: Callable[[Any], Any]) -> list[Any]:
    """make(inputs) for every buffer set."""
    return [make(inputs) for inputs in work.sets]
