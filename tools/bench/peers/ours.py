# Our kernels, through the Python package linattn (runtime/python).
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import importlib
from typing import Any

import torch

from ..cases import LOWER_BOUND, Case
from ..inputs import Inputs, Workload
from ..variants import Problem
from . import Call, Given, Peer, empty_outputs, given_gates
from .fla import flags, scope_of


class Library(Peer):
    """functional: linattn's functions with fla's names, chunk_* for prefill; pool, snapshots:
    linattn.step."""

    name = "ours"
    is_ours = True

    def __init__(self) -> None:
        self.linattn = importlib.import_module("linattn")

    def version(self) -> str:
        return f"linattn {self.linattn.__version__}"

    def why_not(self, case: Case) -> str | None:
        if case.is_packed and case.form != "functional":
            return "not wired up: packed rows with a pool"
        if case.op == "rwkv6" and case.form == "functional" and case.layout == "vk":
            return "rwkv6's function has [K, V] states, as fla's"
        return None

    def prepare(self, work: Workload) -> list[Call]:
        both = [None] if work.case.op == "rwkv6" else [None, given_gates(work)]
        if work.case.work == "prefill":
            for given in both:
                self._kernel(work, given, "prefill")  # else chunk_* would call the recurrent one
        if work.case.form == "functional":
            return [self._functional(work, given) for given in both]
        return [self._pool(work, given) for given in both] + self._overlapped(work)

    def _functional(self, work: Workload, given: list[Given] | None) -> Call:
        case = work.case
        prefix = "chunk" if case.work == "prefill" else "fused_recurrent"
        names = {"gdn": "gated_delta_rule"}
        function = getattr(self.linattn, f"{prefix}_{names.get(case.op, case.op)}")
        note = prefix if case.work == "prefill" else ""
        if case.op == "rwkv6":

            def run_rwkv6(i: int):
                s = work.sets[i]
                return function(
                    s.q, s.k, s.v, s.gate, s.u, scale=s.scale, initial_state=s.state,
                    output_final_state=True, cu_seqlens=s.cu_seqlens,
                )  # fmt: skip

            return Call(run_rwkv6, note=note)

        def run(i: int):
            s = work.sets[i]
            return function(
                s.q, s.k, s.v, scale=s.scale, initial_state=s.state, output_final_state=True,
                cu_seqlens=s.cu_seqlens, **flags(case, s, given[i] if given else None),
            )  # fmt: skip

        return Call(run, scope_of(given), note)

    def _kernel(self, work: Workload, given: list[Given] | None, kind: str) -> Any:
        """The kernel of a kind for a case; an error if there can be none."""
        case, device = work.case, work.device
        kinds = {torch.bfloat16: "bf16", torch.float32: "f32"}
        tensors = tensors_of(case, work.sets[0], given[0] if given else None)
        return self.linattn.kernel(
            case.op, kind=kind, key_dim=case.K, value_dim=case.V, state_layout=case.layout,
            state_type=case.state, options=options_of(case, given is not None), device=device,
            types={"o": "bf16", **{name: kinds[t.dtype] for name, t in tensors.items()}},
        )  # fmt: skip

    def _pool(self, work: Workload, given: list[Given] | None) -> Call:
        """One step on a pool; with a row of slots per row it keeps the state of every token."""
        launches = pool_launches(work, given)
        options = options_of(work.case, given is not None)

        def run(i: int):
            self.linattn.step(
                work.case.op, state_layout=work.case.layout, options=options, **launches[i]
            )
            return launches[i]["o"], None

        return Call(run, scope_of(given))

    def why_not_variant(self, case: Case) -> str | None:
        return None

    def variant(self, problem: Problem) -> Call:
        """Decode in the pool, prefill from states to new states, by the kernel's manifest."""
        case, first = problem.case, problem.inputs[0]
        device = problem.states[0].device
        kinds = {torch.bfloat16: "bf16", torch.float32: "f32"}
        kernel = self.linattn.kernel(
            case.op, kind=case.work, key_dim=case.K, value_dim=case.V, state_layout=case.layout,
            types={"o": "bf16", **{name: kinds[t.dtype] for name, t in first.items()}},
            device=device,
        )  # fmt: skip
        plan = kernel.prepare(device)
        shape = (case.B, case.T, case.HV, case.V)
        nan = float("nan")
        launches = []
        for i, (inputs, state) in enumerate(zip(problem.inputs, problem.states, strict=True)):
            o = torch.full(shape, nan, dtype=torch.bfloat16, device=device)
            if problem.slots is not None:
                slots = problem.slots[i]
                states = {"S": problem.pool, "src_slots": slots, "dst_slots": slots}
            else:
                states = {"S_in": state, "S": torch.full_like(state, nan)}
            launches.append({**inputs, **states, "o": o})

        def run(i: int):
            plan(**launches[i])
            return launches[i]["o"], None if problem.slots is not None else launches[i]["S"]

        return Call(run)

    def _overlapped(self, work: Workload) -> list[Call]:
        """The same kernel by programmatic dependent launch, where there is that."""
        if work.device.type != "cuda":
            return []
        try:
            plan = self._kernel(work, None, "decode").prepare(work.device, pdl=True)
        except self.linattn.Unsupported:
            return []
        launches = pool_launches(work, None)

        def run(i: int):
            plan(**launches[i])
            return launches[i]["o"], None

        return [Call(run, "pdl", "may start while the kernel before it still runs")]


def options_of(case: Case, is_given: bool) -> dict[str, Any]:
    """Options of the specs in examples/ for a case."""
    if is_given:
        return {"gate": "precomputed", "beta": "value"}
    return {"gate": "bounded", "lower_bound": LOWER_BOUND} if case.gate == "bounded" else {}


def pool_launches(work: Workload, given: list[Given] | None) -> list[dict[str, Any]]:
    """The arguments of a launch on each buffer set."""
    assert work.slots is not None
    outputs = empty_outputs(work)
    return [
        {
            **tensors_of(work.case, inputs, given[i] if given else None),
            "S": work.pool,
            "o": outputs[i],
            "src_slots": slots if slots.dim() == 1 else slots[:, 0],
            "dst_slots": slots,
            "scale": inputs.scale,
        }
        for i, (inputs, slots) in enumerate(zip(work.sets, work.slots, strict=True))
    ]


def tensors_of(case: Case, s: Inputs, given: Given | None) -> dict[str, Any]:
    """A launch's tensors by the names of the specs in examples/."""
    if case.op == "rwkv6":
        return {"r": s.q, "k": s.k, "v": s.v, "w": s.gate, "u": s.u}
    if given:
        return {"q": s.q, "k": s.k, "v": s.v, "g": given.g, "beta": given.beta}
    dt_bias = s.dt_bias
    if case.op == "kda" and dt_bias is not None:
        dt_bias = dt_bias.view(case.HV, case.K)
    tensors = {"q": s.q, "k": s.k, "v": s.v, "a": s.gate, "b": s.b}
    return {**tensors, "A_log": s.A_log, "dt_bias": dt_bias}
