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
    """functional: linattn's functions with fla's names; pool, snapshots: kernels by slots."""

    name = "ours"
    is_ours = True

    def __init__(self) -> None:
        self.linattn = importlib.import_module("linattn")
        self.packages = importlib.import_module("linattn.packages")
        self.specs = getattr(self.packages, "_specs", None) or self.packages.specs

    def version(self) -> str:
        return f"linattn {self.linattn.__version__}"

    def why_not(self, case: Case) -> str | None:
        if case.work == "prefill":
            return "no prefill kernels yet"
        if case.op == "rwkv6" and case.form == "functional" and case.layout == "vk":
            return "rwkv6's function has [K, V] states, as fla's"
        return None

    def prepare(self, work: Workload) -> list[Call]:
        return [self._functional(work) if work.case.form == "functional" else self._pool(work)]

    def _functional(self, work: Workload) -> Call:
        fused = {
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

    def _request(self, case: Case) -> Any:
        """Which decode kernel is wanted: it comes from LINATTN_PACKAGES, the cache, or dl-compile."""
        spec = self.specs.find(case.op)
        inputs = {"rwkv6": ("r", "k", "v", "w"), "kda": ("q", "k", "v", "a", "b")}.get(
            case.op, ("q", "k", "v", "a", "b")
        )
        params = ("u",) if case.op == "rwkv6" else ("A_log", "dt_bias")
        types = {**dict.fromkeys(inputs, "bf16"), **dict.fromkeys(params, "f32"), "o": "bf16"}
        options = {"gate": "bounded", "lower_bound": LOWER_BOUND}
        return self.packages.Request(
            spec=spec,
            key_dim=case.K,
            value_dim=case.V,
            state_layout=case.layout,
            options=tuple(options.items()) if case.gate == "bounded" else (),
            types=tuple(types.items()),
        )

    def _pool(self, work: Workload) -> Call:
        case, device = work.case, work.device
        where = "cpu" if device.type == "cpu" else f"cuda:{device.index or 0}"
        kernel = self.packages.find_kernel(self._request(case), where)
        plan = kernel.prepare(where)
        outputs = empty_outputs(work)
        arguments = []
        assert work.slots is not None
        for inputs, slots, output in zip(work.sets, work.slots, outputs, strict=True):
            first = slots if slots.dim() == 1 else slots[:, 0]
            arguments.append(
                {**tensors_of(case, inputs), "o": output, "S": work.pool,
                 "src_slots": first, "dst_slots": slots, "scale": inputs.scale}
            )  # fmt: skip

        def run(i: int):
            plan(**arguments[i])
            return outputs[i], None

        return Call(run, note=kernel.name)


def tensors_of(case: Case, s: Inputs) -> dict[str, Any]:
    """A launch's tensors by the names of the specs in examples/."""
    if case.op == "rwkv6":
        return {"r": s.q, "k": s.k, "v": s.v, "w": s.gate, "u": s.u}
    dt_bias = s.dt_bias
    if case.op == "kda" and dt_bias is not None:
        dt_bias = dt_bias.view(case.HV, case.K)
    tensors = {"q": s.q, "k": s.k, "v": s.v, "a": s.gate, "b": s.b}
    return {**tensors, "A_log": s.A_log, "dt_bias": dt_bias}
