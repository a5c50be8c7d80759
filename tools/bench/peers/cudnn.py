# cuDNN's front end: KDA prefill for Hopper (compiled by NVRTC at the first call).
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import importlib

from ..cases import LOWER_BOUND, Case
from ..inputs import Workload
from . import Call, Peer, packed_starts


class Library(Peer):
    """Cuts long rows into segments that begin with no state once older tokens have decayed: to be
    looked at with weak and with strong gates."""

    name = "cudnn"

    def __init__(self) -> None:
        self.cudnn = importlib.import_module("cudnn")
        self.function = importlib.import_module("cudnn.linear_attention").kimi_delta_attention

    def version(self) -> str:
        return f"cudnn front end {self.cudnn.__version__}"

    def why_not(self, case: Case) -> str | None:
        if case.op != "kda" or case.work != "prefill":
            return "on Hopper kda prefill only"
        if case.gate != "bounded":
            return "not wired up: gates without a bound"
        if case.layout != "vk":
            return "[V, K] states only"
        return None if (case.K, case.V) == (128, 128) else "128 x 128 only"

    def prepare(self, work: Workload) -> list[Call]:
        starts = packed_starts(work)
        case = work.case

        def run(i: int):
            s = work.sets[i]
            assert s.b is not None and s.dt_bias is not None
            o, state = self.function(
                s.q.flatten(0, 1), s.k.flatten(0, 1), s.v.flatten(0, 1), s.gate.flatten(0, 1),
                s.b.flatten(0, 1), starts, scale=s.scale, initial_state=s.state,
                output_final_state=True, use_qk_l2norm_in_kernel=True,
                use_beta_sigmoid_in_kernel=True, safe_gate=True, gate_lower_bound=LOWER_BOUND,
                a_log=s.A_log, dt_bias=s.dt_bias.view(case.HV, case.K),
            )[:2]  # fmt: skip
            return o, state

        return [Call(run)]
