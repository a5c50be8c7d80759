# FlashInfer's GDN kernels (CuTe DSL, compiled at the first call).
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import importlib

import torch

from ..cases import Case
from ..inputs import Workload
from . import Call, Peer, empty_outputs, packed_starts, torch_beta, torch_gate, torch_norm


class Library(Peer):
    """Decode updates states in place: in a pool by slots for [V, K], densely for [K, V]."""

    name = "flashinfer"

    def __init__(self) -> None:
        self.flashinfer = importlib.import_module("flashinfer")
        self.decode = importlib.import_module("flashinfer.gdn_decode")
        self.prefill = importlib.import_module("flashinfer.gdn_prefill")

    def version(self) -> str:
        return f"flashinfer {self.flashinfer.__version__}"

    def why_not(self, case: Case) -> str | None:
        if case.op == "kda":
            return "kda: decode has bf16 states only, prefill on Hopper is cuDNN's"
        if case.op != "gdn":
            return f"no {case.op}"
        if (case.K, case.V) != (128, 128):
            return "128 x 128 only"
        if case.work == "prefill":
            return None if case.layout == "vk" else "prefill has [V, K] states only"
        if case.form == "functional":
            return "states are updated in place only"
        if case.form == "snapshots" and case.layout == "kv":
            return "snapshots with [V, K] states only"
        return None

    def prepare(self, work: Workload) -> list[Call]:
        if work.case.work == "prefill":
            return [self._prefill(work), self._prefill_kernels(work)]
        if work.case.layout == "kv":
            return [self._decode_dense(work)]
        many = work.case.form == "snapshots" and work.case.T > 1
        return [self._snapshots(work) if many else self._decode_pool(work)]

    def _decode_pool(self, work: Workload) -> Call:
        function = self.decode.gated_delta_rule_decode_pretranspose
        outputs = empty_outputs(work)
        assert work.slots is not None
        slots = [indices.view(-1) for indices in work.slots]

        def run(i: int):
            s = work.sets[i]
            function(
                s.q, s.k, s.v, None, s.A_log, s.gate, s.dt_bias, s.b, scale=s.scale,
                output=outputs[i], initial_state=work.pool, initial_state_indices=slots[i],
            )  # fmt: skip
            return outputs[i], None

        return Call(run, note="gated_delta_rule_decode_pretranspose")

    def _decode_dense(self, work: Workload) -> Call:
        function = self.decode.gated_delta_rule_decode
        outputs = empty_outputs(work)
        states = [inputs.state.clone() for inputs in work.sets]

        def run(i: int):
            s = work.sets[i]
            function(
                s.q, s.k, s.v, states[i], s.A_log, s.gate, s.dt_bias, s.b, scale=s.scale,
                output=outputs[i],
            )  # fmt: skip
            return outputs[i], states[i]

        return Call(run, note="gated_delta_rule_decode: in place, but no slots")

    def _snapshots(self, work: Workload) -> Call:
        function = self.decode.gated_delta_rule_mtp
        outputs = empty_outputs(work)
        assert work.slots is not None
        slots = work.slots
        first = [indices[:, 0].contiguous() for indices in slots]
        last = [indices[:, -1].contiguous() for indices in slots]

        def run(i: int):
            s = work.sets[i]
            function(
                s.q, s.k, s.v, work.pool, first[i], s.A_log, s.gate, s.dt_bias, s.b,
                scale=s.scale, output=outputs[i], ssm_state_indices=slots[i],
                output_state_indices=last[i], disable_state_update=False,
            )  # fmt: skip
            return outputs[i], None

        return Call(run, note="gated_delta_rule_mtp")

    def _prefill(self, work: Workload) -> Call:
        """From raw inputs: the library launches kernels for the norms, the gate and beta."""
        starts = packed_starts(work)
        outputs, states = _flat(empty_outputs(work)), _states(work)

        def run(i: int):
            s = work.sets[i]
            self.prefill.chunk_gated_delta_rule(
                s.q.flatten(0, 1), s.k.flatten(0, 1), s.v.flatten(0, 1), s.gate.flatten(0, 1),
                None if s.b is None else s.b.flatten(0, 1), s.scale, s.state, True, starts,
                use_qk_l2norm_in_kernel=True, output=outputs[i], output_state=states[i],
                max_seqlen=work.case.T, use_gate_in_kernel=True, A_log=s.A_log,
                dt_bias=s.dt_bias, beta_is_logit=True,
            )  # fmt: skip
            return outputs[i], states[i]

        return Call(run, note="norms, gate and beta by kernels of the library's")

    def _prefill_kernels(self, work: Workload) -> Call:
        starts = packed_starts(work)
        outputs, states = _flat(empty_outputs(work)), _states(work)
        given = [
            (torch_norm(s.q), torch_norm(s.k), s.v, torch_gate(work.case, s).exp(), torch_beta(s))
            for s in work.sets
        ]
        flat = [tuple(tensor.flatten(0, 1) for tensor in tensors) for tensors in given]

        def run(i: int):
            s = work.sets[i]
            self.prefill.chunk_gated_delta_rule(
                *flat[i], s.scale, s.state, True, starts, output=outputs[i],
                output_state=states[i], max_seqlen=work.case.T,
            )  # fmt: skip
            return outputs[i], states[i]

        return Call(run, "norms, gates given")


def _flat(outputs: list[torch.Tensor]) -> list[torch.Tensor]:
    return [output.flatten(0, 1) for output in outputs]


def _states(work: Workload) -> list[torch.Tensor]:
    return [torch.full_like(inputs.state, float("nan")) for inputs in work.sets]
