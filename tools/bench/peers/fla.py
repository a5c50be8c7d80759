# flash-linear-attention's Triton kernels (fla-core).
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import importlib
import os

from ..cases import LOWER_BOUND, Case
from ..inputs import Workload
from . import Call, Peer, distribution_version, empty_outputs

# fla hands calls to these libraries where they are installed: they are timed as themselves.
for _switch in ("FLA_FLASH_KDA", "FLA_FLASH_QLA"):
    os.environ.setdefault(_switch, "0")


class Library(Peer):
    """Decode and append: fused_recurrent_*; prefill: chunk_*. Everything is fused."""

    name = "fla"

    def __init__(self) -> None:
        self.gdn = importlib.import_module("fla.ops.gated_delta_rule")
        self.kda = importlib.import_module("fla.ops.kda")
        self.rwkv6 = importlib.import_module("fla.ops.rwkv6")
        self.kda_pool = importlib.import_module("fla.ops.kda.fused_recurrent")

    def version(self) -> str:
        return distribution_version("fla-core", "flash-linear-attention")

    def why_not(self, case: Case) -> str | None:
        if case.form != "functional" and case.op != "kda":
            return "no form with a pool of states for this operator"
        if case.op == "rwkv6" and case.layout == "vk":
            return "rwkv6 has [K, V] states only"
        if case.form != "functional" and case.is_packed:
            return "not wired up: packed rows with a pool"
        return None

    def prepare(self, work: Workload) -> list[Call]:
        if work.case.form != "functional":
            return [self._pool(work)]
        return [{"gdn": self._gdn, "kda": self._kda, "rwkv6": self._rwkv6}[work.case.op](work)]

    def _gdn(self, work: Workload) -> Call:
        name = "chunk" if work.case.work == "prefill" else "fused_recurrent"
        function = getattr(self.gdn, f"{name}_gated_delta_rule")
        v_first = work.case.layout == "vk"

        def run(i: int):
            s = work.sets[i]
            return function(
                s.q, s.k, s.v, g=s.gate, beta=s.b, scale=s.scale,
                initial_state=s.state, output_final_state=True,
                use_qk_l2norm_in_kernel=True, use_gate_in_kernel=True,
                A_log=s.A_log, dt_bias=s.dt_bias, use_beta_sigmoid_in_kernel=True,
                state_v_first=v_first, cu_seqlens=s.cu_seqlens,
            )  # fmt: skip

        return Call(run, note=name)

    def _kda_arguments(self, work: Workload) -> dict:
        bounded = work.case.gate == "bounded"
        return {
            "use_qk_l2norm_in_kernel": True,
            "use_gate_in_kernel": True,
            "use_beta_sigmoid_in_kernel": True,
            "lower_bound": LOWER_BOUND if bounded else None,
            "state_v_first": work.case.layout == "vk",
        }

    def _kda(self, work: Workload) -> Call:
        arguments = self._kda_arguments(work)
        name = "chunk" if work.case.work == "prefill" else "fused_recurrent"
        if name == "chunk":
            # The fast path needs the bound; without it fla takes its slow exact one.
            arguments["safe_gate"] = work.case.gate == "bounded"
        function = getattr(self.kda, f"{name}_kda")

        def run(i: int):
            s = work.sets[i]
            return function(
                s.q, s.k, s.v, s.gate, s.b, A_log=s.A_log, dt_bias=s.dt_bias, scale=s.scale,
                initial_state=s.state, output_final_state=True, cu_seqlens=s.cu_seqlens,
                **arguments,
            )  # fmt: skip

        return Call(run, note=name)

    def _pool(self, work: Workload) -> Call:
        """KDA with states in a pool; with two-dimensional slots it keeps every token's state."""
        arguments = self._kda_arguments(work)
        outputs = empty_outputs(work)
        assert work.slots is not None
        slots = work.slots

        def run(i: int):
            s = work.sets[i]
            self.kda_pool.fused_recurrent_kda_fwd(
                s.q, s.k, s.v, s.gate, s.b, A_log=s.A_log, dt_bias=s.dt_bias, scale=s.scale,
                initial_state=work.pool, inplace_final_state=True,
                ssm_state_indices=slots[i], out=outputs[i], **arguments,
            )  # fmt: skip
            return outputs[i], None

        return Call(run, note="fused_recurrent_kda_fwd")

    def _rwkv6(self, work: Workload) -> Call:
        name = "chunk" if work.case.work == "prefill" else "fused_recurrent"
        function = getattr(self.rwkv6, f"{name}_rwkv6")

        def run(i: int):
            s = work.sets[i]
            return function(
                s.q, s.k, s.v, s.gate, s.u, scale=s.scale,
                initial_state=s.state, output_final_state=True, cu_seqlens=s.cu_seqlens,
            )  # fmt: skip

        return Call(run, note=name)
