# Our kernels, through the Python package linattn (runtime/python).
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import importlib
from typing import Any

from ..cases import LOWER_BOUND, Case
from ..inputs import Inputs, Workload
from . import Call, Peer, empty_outputs


class Library(Peer):
    """functional: linattn's functions with fla's names; pool, snapshots: linattn.step."""

    name = "ours"
    is_ours = True

    def __init__(self) -> None:
        self.linattn = importlib.import_module("linattn")

    def version(self) -> str:
        return f"linattn {self.linattn.__version__}"

    def why_not(self, case: Case) -> str | None:
        if case.work == "prefill":
            return "no prefill kernels yet"
        if case.is_packed and case.form != "functional":
            return "not wired up: packed rows with a pool"
        if case.op == "rwkv6" and case.form == "functional" and case.layout == "vk":
            return "rwkv6's function has [K, V] states, as fla's"
        return None

    def prepare(self, work: Workload) -> list[Call]:
        return [self._functional(work) if work.case.form == "functional" else self._pool(work)]

    def _functional(self, work: Workload) -> Call:
        fused: dict[str, Any] = {
            "use_qk_l2norm_in_kernel": True,
            "use_gate_in_kernel": True,
            "use_beta_sigmoid_in_kernel": True,
            "state_v_first": work.case.layout == "vk",
        }
        if work.case.op == "rwkv6":
            function = self.linattn.fused_recurrent_rwkv6

            def run_rwkv6(i: int):
                s = work.sets[i]
                return function(
                    s.q, s.k, s.v, s.gate, s.u, scale=s.scale, initial_state=s.state,
                    output_final_state=True, cu_seqlens=s.cu_seqlens,
                )  # fmt: skip

            return Call(run_rwkv6)
        if work.case.op == "kda":
            function = self.linattn.fused_recurrent_kda
            fused["lower_bound"] = LOWER_BOUND if work.case.gate == "bounded" else None
        else:
            function = self.linattn.fused_recurrent_gated_delta_rule

        def run(i: int):
            s = work.sets[i]
            return function(
                s.q, s.k, s.v, g=s.gate, beta=s.b, A_log=s.A_log, dt_bias=s.dt_bias,
                scale=s.scale, initial_state=s.state, output_final_state=True,
                cu_seqlens=s.cu_seqlens, **fused,
            )  # fmt: skip

        return Call(run)

    def _pool(self, work: Workload) -> Call:
        """One step on a pool; with a row of slots per row it keeps the state of every token."""
        case = work.case
        options = {"gate": "bounded", "lower_bound": LOWER_BOUND} if case.gate == "bounded" else {}
        outputs = empty_outputs(work)
        tensors = [tensors_of(case, inputs) for inputs in work.sets]
        assert work.slots is not None
        slots = work.slots
        sources = [indices if indices.dim() == 1 else indices[:, 0] for indices in slots]

        def run(i: int):
            self.linattn.step(
                case.op, S=work.pool, o=outputs[i], src_slots=sources[i], dst_slots=slots[i],
                state_layout=case.layout, options=options, scale=work.sets[i].scale, **tensors[i],
            )  # fmt: skip
            return outputs[i], None

        return Call(run)


def tensors_of(case: Case, s: Inputs) -> dict[str, Any]:
    """A launch's tensors by the names of the specs in examples/."""
    if case.op == "rwkv6":
        return {"r": s.q, "k": s.k, "v": s.v, "w": s.gate, "u": s.u}
    dt_bias = s.dt_bias
    if case.op == "kda" and dt_bias is not None:
        dt_bias = dt_bias.view(case.HV, case.K)
    tensors = {"q": s.q, "k": s.k, "v": s.v, "a": s.gate, "b": s.b}
    return {**tensors, "A_log": s.A_log, "dt_bias": dt_bias}
