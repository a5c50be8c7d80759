# FlashQLA: GDN prefill (TileLang, compiled at the first call).
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import importlib

import torch

from ..cases import Case
from ..inputs import Inputs, Workload
from . import Call, Peer, torch_beta, torch_gate


class Library(Peer):
    """It normalises queries and keys; the gate and beta are left to the caller."""

    name = "flash_qla"

    def __init__(self) -> None:
        self.flash_qla = importlib.import_module("flash_qla")

    def version(self) -> str:
        return f"flash-qla {self.flash_qla.__version__}"

    def why_not(self, case: Case) -> str | None:
        if case.op != "gdn" or case.work != "prefill":
            return "gdn prefill only"
        return None if (case.K, case.V) == (128, 128) else "128 x 128 only"

    def prepare(self, work: Workload) -> list[Call]:
        starts = work.sets[0].cu_seqlens
        starts = None if starts is None else starts.to(torch.int32)

        def call(s: Inputs, g: torch.Tensor, beta: torch.Tensor):
            return self.flash_qla.chunk_gated_delta_rule(
                s.q, s.k, s.v, g, beta, scale=s.scale, initial_state=s.state,
                output_final_state=True, use_qk_l2norm_in_kernel=True, cu_seqlens=starts,
                state_v_first=work.case.layout == "vk",
            )  # fmt: skip

        given = [(torch_gate(work.case, s), torch_beta(s)) for s in work.sets]

        def kernels(i: int):
            return call(work.sets[i], *given[i])

        def with_torch(i: int):
            s = work.sets[i]
            return call(s, torch_gate(work.case, s), torch_beta(s))

        return [
            Call(kernels, "gates given"),
            Call(with_torch, "with torch", "gates by torch"),
        ]
