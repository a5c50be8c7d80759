# SGLang: an engine with kernels of its own; only looked for.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import importlib

from ..cases import Case
from ..inputs import Workload
from . import Call, Peer, distribution_version


class Library(Peer):
    """Its kernels are private and change from version to version; most derive from fla's."""

    name = "sglang"

    def __init__(self) -> None:
        importlib.import_module("sglang")

    def version(self) -> str:
        return distribution_version("sglang")

    def why_not(self, case: Case) -> str | None:
        return "there, but not wired up"

    def prepare(self, work: Workload) -> list[Call]:
        raise NotImplementedError
