# Engines with kernels of their own: SGLang and vLLM; only looked for.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import importlib.util

from ..cases import Case
from ..inputs import Workload
from . import Call, Missing, Peer, distribution_version

ENGINES = ("sglang", "vllm")


class Library(Peer):
    """Their kernels are private and change from version to version; most derive from fla's.

    They are not imported, which takes long and changes the process that the others are timed in.
    """

    name = "engines"

    def __init__(self) -> None:
        self.there = [name for name in ENGINES if importlib.util.find_spec(name)]
        if not self.there:
            raise Missing(f"no {' and no '.join(ENGINES)}")

    def version(self) -> str:
        return ", ".join(distribution_version(name) for name in self.there)

    def why_not(self, case: Case) -> str | None:
        return "there, but not wired up"

    def prepare(self, work: Workload) -> list[Call]:
        raise NotImplementedError
