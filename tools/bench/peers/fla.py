# flash-linear-attention's Triton kernels (fla-core).
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import importlib
import os
from typing import Any

import torch

from ..cases import LOWER_BOUND, Case
from ..inputs import Inputs, Workload, own_memory
from ..variants import OPERATORS, Problem, Tensors, terms_of
from . import Call, Given, Peer, distribution_version, empty_outputs, given_gates

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
        if work.case.op == "rwkv6":
            return [self._rwkv6(work)]
        make = {"gdn": self._gdn, "kda": self._kda}[work.case.op]
        if work.case.form != "functional":
            make = self._pool
        # Its prefill computes gates in kernels of their own in any case.
        both = [None] if work.case.work == "prefill" else [None, given_gates(work)]
        return [make(work, given) for given in both]

    def why_not_variant(self, case: Case) -> str | None:
        return why_not_variant(case)

    def variant(self, problem: Problem) -> Call:
        return variant_call(problem)

    def _function(self, work: Workload, module: Any, name: str) -> tuple[Any, str]:
        prefix = "chunk" if work.case.work == "prefill" else "fused_recurrent"
        return getattr(module, f"{prefix}_{name}"), prefix

    def _gdn(self, work: Workload, given: list[Given] | None) -> Call:
        function, note = self._function(work, self.gdn, "gated_delta_rule")

        def run(i: int):
            s = work.sets[i]
            return function(
                s.q, s.k, s.v, scale=s.scale, initial_state=s.state, output_final_state=True,
                cu_seqlens=s.cu_seqlens, **flags(work.case, s, given[i] if given else None),
            )  # fmt: skip

        return Call(run, scope_of(given), note)

    def _kda(self, work: Workload, given: list[Given] | None) -> Call:
        function, note = self._function(work, self.kda, "kda")
        # Prefill's fast path needs the bound; without it fla takes its slow exact one.
        more = {"safe_gate": work.case.gate == "bounded"} if note == "chunk" else {}

        def run(i: int):
            s = work.sets[i]
            return function(
                s.q, s.k, s.v, scale=s.scale, initial_state=s.state, output_final_state=True,
                cu_seqlens=s.cu_seqlens, **flags(work.case, s, given[i] if given else None), **more,
            )  # fmt: skip

        return Call(run, scope_of(given), note)

    def _pool(self, work: Workload, given: list[Given] | None) -> Call:
        """KDA with states in a pool; with two-dimensional slots it keeps every token's state."""
        outputs = empty_outputs(work)
        assert work.slots is not None
        slots = work.slots

        def run(i: int):
            s = work.sets[i]
            self.kda_pool.fused_recurrent_kda_fwd(
                s.q, s.k, s.v, scale=s.scale, initial_state=work.pool, inplace_final_state=True,
                ssm_state_indices=slots[i], out=outputs[i],
                **flags(work.case, s, given[i] if given else None),
            )  # fmt: skip
            return outputs[i], None

        return Call(run, scope_of(given), "fused_recurrent_kda_fwd")

    def _rwkv6(self, work: Workload) -> Call:
        function, note = self._function(work, self.rwkv6, "rwkv6")

        def run(i: int):
            s = work.sets[i]
            return function(
                s.q, s.k, s.v, s.gate, s.u, scale=s.scale,
                initial_state=s.state, output_final_state=True, cu_seqlens=s.cu_seqlens,
            )  # fmt: skip

        return Call(run, note=note)


def why_not_variant(case: Case) -> str | None:
    if OPERATORS[case.op].fla is None:
        return "no such operator"
    if case.work != "prefill":
        return "timed for prefill only"
    return "timed with [K, V] states only" if case.layout == "vk" else None


def variant_call(problem: Problem) -> Call:
    """The function that does the same as an operator of variants.py, with its arguments made before
    it is timed."""
    op = problem.case.op
    entry = OPERATORS[op].fla
    assert entry is not None
    function = getattr(importlib.import_module(f"fla.ops.{entry.module}"), entry.function)
    launches = []
    for x, state in zip(problem.inputs, problem.states, strict=True):
        terms = terms_of(op, x, torch.float32)
        launches.append({
            **{n: own_memory(v) if isinstance(v, torch.Tensor) else v
               for n, v in entry.arguments(x, terms).items()},
            "scale": terms.scale, "initial_state": state, "output_final_state": True,
        })  # fmt: skip

    def finish(o: torch.Tensor, x: Tensors) -> torch.Tensor:
        skip = terms_of(op, x, torch.float32).skip
        return o if skip is None else o.float() + skip

    def run(i: int):
        return function(**launches[i])

    note = f"{entry.function}, {entry.note}" if entry.note else entry.function
    return Call(run, entry.scope, note, finish)


def scope_of(given: list[Given] | None) -> str:
    return "gates given" if given else "fused"


def flags(case: Case, s: Inputs, given: Given | None) -> dict[str, Any]:
    """fla's arguments for gates and norms, which linattn's functions share."""
    common = {"use_qk_l2norm_in_kernel": True, "state_v_first": case.layout == "vk"}
    if given:
        return {**common, "g": given.g, "beta": given.beta}
    bound = {"lower_bound": LOWER_BOUND if case.gate == "bounded" else None}
    return {
        **common,
        **(bound if case.op == "kda" else {}),
        "g": s.gate,
        "beta": s.b,
        "A_log": s.A_log,
        "dt_bias": s.dt_bias,
        "use_gate_in_kernel": True,
        "use_beta_sigmoid_in_kernel": True,
    }
