# FlashKDA: KDA prefill for Hopper (CUTLASS). Not on PyPI.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import importlib

import torch

from ..cases import LOWER_BOUND, Case
from ..inputs import Workload
from . import Call, Peer, distribution_version, empty_outputs


class Library(Peer):
    """It carries states in bf16 inside, though they go in and come out in fp32."""

    name = "flash_kda"

    def __init__(self) -> None:
        self.flash_kda = importlib.import_module("flash_kda")

    def version(self) -> str:
        return distribution_version("flash-kda", "flash_kda")

    def why_not(self, case: Case) -> str | None:
        if case.op != "kda" or case.work != "prefill":
            return "kda prefill only"
        if case.gate != "bounded":
            return "the bounded gate only"
        if case.layout != "vk":
            return "[V, K] states only"
        if case.HQ != case.HV or (case.K, case.V) != (128, 128):
            return "as many value heads as key heads, and 128 x 128, only"
        return None

    def prepare(self, work: Workload) -> list[Call]:
        outputs = empty_outputs(work)
        states = [torch.full_like(inputs.state, float("nan")) for inputs in work.sets]
        biases = [
            None if s.dt_bias is None else s.dt_bias.view(work.case.HV, work.case.K)
            for s in work.sets
        ]

        def run(i: int):
            s = work.sets[i]
            self.flash_kda.fwd(
                s.q, s.k, s.v, s.gate, s.b, s.scale, outputs[i], A_log=s.A_log,
                dt_bias=biases[i], lower_bound=LOWER_BOUND, initial_state=s.state,
                final_state=states[i], cu_seqlens=s.cu_seqlens,
            )  # fmt: skip
            return outputs[i], states[i]

        return [Call(run)]
