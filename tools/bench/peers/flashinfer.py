# FlashInfer's GDN kernels (CuTe DSL, compiled at the first call).
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import importlib

import torch

from ..cases import Case
from ..inputs import Workload, own_memory
from . import Call, Peer, empty_outputs, packed_starts, torch_beta, torch_gate, torch_norm

# Bytes. The kernels are compiled for tensors, indices among them, that start at multiples of this,
# and a launch with another one is an error.
ALIGNMENT = 16


class Library(Peer):
    """Decode updates [V, K] states in a pool by slots.

    Its other function for one token, of [K, V] states, has no slots: it takes the states of a batch
    in order. That is neither a pool nor functional, so it is not timed.
    """

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
            return "decode returns no new states: it updates states in place"
        if case.layout == "kv":
            return f"{case.form} with [V, K] states only: its [K, V] decode takes no slots"
        return "not wired up: packed rows with a pool" if case.is_packed else None

    def prepare(self, work: Workload) -> list[Call]:
        if work.case.work == "prefill":
            return [self._prefill(work), self._prefill_kernels(work)]
        many = work.case.form == "snapshots" and work.case.T > 1
        return [self._snapshots(work) if many else self._decode_pool(work)]

    def _decode_pool(self, work: Workload) -> Call:
        """A row's state is read from its slot and written back to it."""
        function = self.decode.gated_delta_rule_decode_pretranspose
        outputs = empty_outputs(work)
        assert work.slots is not None
        slots = [own_memory(indices.view(-1)) for indices in work.slots]
        _check_decode(work, outputs)
        _check_slots(work, slots, (work.case.B,))

        def run(i: int):
            s = work.sets[i]
            function(
                s.q, s.k, s.v, None, s.A_log, s.gate, s.dt_bias, s.b, scale=s.scale,
                output=outputs[i], initial_state=work.pool, initial_state_indices=slots[i],
            )  # fmt: skip
            return outputs[i], None

        return Call(run, note="gated_delta_rule_decode_pretranspose")

    def _snapshots(self, work: Workload) -> Call:
        """Token t's state goes to slots[:, t]. The final one is the last of these: with slots per
        token nothing else is written, so there are no output indices to pass."""
        function = self.decode.gated_delta_rule_mtp
        outputs = empty_outputs(work)
        assert work.slots is not None
        slots = [own_memory(indices) for indices in work.slots]
        first = [own_memory(indices[:, 0]) for indices in work.slots]
        _check_decode(work, outputs)
        _check_slots(work, first, (work.case.B,))
        _check_slots(work, slots, (work.case.B, work.case.T))

        def run(i: int):
            s = work.sets[i]
            function(
                s.q, s.k, s.v, work.pool, first[i], s.A_log, s.gate, s.dt_bias, s.b,
                scale=s.scale, output=outputs[i], ssm_state_indices=slots[i],
                disable_state_update=False,
            )  # fmt: skip
            return outputs[i], None

        return Call(run, note="gated_delta_rule_mtp")

    def _prefill(self, work: Workload) -> Call:
        """From raw inputs: the library normalises in a kernel, and has torch compute the decay and
        a beta rounded to bf16."""
        starts = packed_starts(work)
        outputs, states = _flat(empty_outputs(work)), _states(work)
        _check_prefill(work, outputs, states, starts)

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

        return Call(run, note="norms, gate and beta by kernels that the library launches")

    def _prefill_kernels(self, work: Workload) -> Call:
        """Its decays are factors, not logarithms."""
        starts = packed_starts(work)
        outputs, states = _flat(empty_outputs(work)), _states(work)
        _check_prefill(work, outputs, states, starts)
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


def _check(name: str, tensor: torch.Tensor | None, shape: tuple[int, ...], kind: torch.dtype):
    """Raises for what the library would take on trust, or refuse only in a launch."""
    if tensor is None:
        raise ValueError(f"{name} is missing")
    if tuple(tensor.shape) != shape or tensor.dtype != kind:
        got = f"{tuple(tensor.shape)} {tensor.dtype}"
        raise ValueError(f"{name}: expected {shape} {kind}, got {got}")
    if not tensor.is_contiguous() or tensor.data_ptr() % ALIGNMENT:
        raise ValueError(f"{name} is not contiguous from a multiple of {ALIGNMENT} bytes")


def _check_inputs(work: Workload) -> None:
    case, bf16, f32 = work.case, torch.bfloat16, torch.float32
    tokens = case.batch_tokens
    for s in work.sets:
        _check("q", s.q, (*tokens, case.HQ, case.K), bf16)
        _check("k", s.k, (*tokens, case.HQ, case.K), bf16)
        _check("v", s.v, (*tokens, case.HV, case.V), bf16)
        _check("a", s.gate, (*tokens, case.HV), bf16)
        _check("b", s.b, (*tokens, case.HV), bf16)
        _check("A_log", s.A_log, (case.HV,), f32)
        _check("dt_bias", s.dt_bias, (case.HV,), f32)


def _check_decode(work: Workload, outputs: list[torch.Tensor]) -> None:
    case = work.case
    _check_inputs(work)
    assert work.pool is not None
    _check("pool", work.pool, (len(work.pool), case.HV, case.V, case.K), torch.float32)
    for output in outputs:
        _check("output", output, (case.B, case.T, case.HV, case.V), torch.bfloat16)


def _check_slots(work: Workload, slots: list[torch.Tensor], shape: tuple[int, ...]) -> None:
    """The kernels would write to a slot wherever it is."""
    assert work.pool is not None
    last = len(work.pool) - 1
    for each in slots:
        _check("slots", each, shape, torch.int32)
        if not 0 <= int(each.min()) <= int(each.max()) <= last:
            raise ValueError(f"slots: expected 0..{last}, got {int(each.min())}..{int(each.max())}")
        if each.unique().numel() != each.numel():
            raise ValueError("slots are not distinct")


def _check_prefill(
    work: Workload, outputs: list[torch.Tensor], states: list[torch.Tensor], starts: torch.Tensor
) -> None:
    case = work.case
    rows = len(case.row_lengths)
    _check_inputs(work)
    _check("starts", starts, (rows + 1,), torch.int32)
    for s, output, state in zip(work.sets, outputs, states, strict=True):
        _check("output", output, (case.tokens, case.HV, case.V), torch.bfloat16)
        _check("initial state", s.state, (rows, case.HV, case.V, case.K), torch.float32)
        _check("final state", state, (rows, case.HV, case.V, case.K), torch.float32)
