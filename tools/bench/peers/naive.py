# A plain recurrence in torch: slow, and there wherever torch is.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import torch

from ..cases import Case
from ..inputs import Inputs, Workload
from ..variants import Problem, terms_of
from ..variants import recurrence as variant_recurrence
from . import Call, Peer, torch_gate, torch_norm


def recurrence(case: Case, inputs: Inputs, state: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Outputs and new states in fp32; `state` has the layout of the case."""
    group = case.HV // case.HQ
    S = state if case.layout == "kv" else state.transpose(2, 3)
    decay = torch_gate(case, inputs).exp()
    decay = decay[..., None, None] if decay.dim() == 3 else decay[..., None]
    q, k = inputs.q.float(), inputs.k.float()
    if case.op != "rwkv6":
        q, k = torch_norm(q), torch_norm(k)
    q, k = q.repeat_interleave(group, 2), k.repeat_interleave(group, 2)
    v = inputs.v.float()
    outputs = []
    for t in range(case.T):
        key = k[:, t, :, :, None]
        if inputs.u is not None:
            now = (q[:, t] * inputs.u * k[:, t]).sum(-1, keepdim=True) * v[:, t]
            outputs.append((S * q[:, t, :, :, None]).sum(2) + now)
            S = S * decay[:, t] + key * v[:, t, :, None, :]
        else:
            assert inputs.b is not None
            S = S * decay[:, t]
            u = torch.sigmoid(inputs.b[:, t].float())[..., None] * (v[:, t] - (S * key).sum(2))
            S = S + key * u[:, :, None, :]
            outputs.append((S * q[:, t, :, :, None]).sum(2))
    o = (inputs.scale * torch.stack(outputs, 1)).to(inputs.v.dtype)
    return o, S if case.layout == "kv" else S.transpose(2, 3).contiguous()


class Library(Peer):
    name = "naive"

    def version(self) -> str:
        return f"torch {torch.__version__}"

    def why_not(self, case: Case) -> str | None:
        if case.is_packed:
            return "no packed rows"
        return "no snapshots" if case.form == "snapshots" else None

    def why_not_variant(self, case: Case) -> str | None:
        return None

    def variant(self, problem: Problem) -> Call:
        op, is_vk = problem.case.op, problem.case.layout == "vk"

        def run(i: int):
            state = problem.states[i]
            if problem.pool is not None and problem.slots is not None:
                state = problem.pool[problem.slots[i].long()]
            S = (state.transpose(2, 3) if is_vk else state).contiguous().clone()
            o, S = variant_recurrence(terms_of(op, problem.inputs[i], torch.float32), S)
            S = S.transpose(2, 3).contiguous() if is_vk else S
            if problem.pool is None or problem.slots is None:
                return o.bfloat16(), S
            problem.pool.index_copy_(0, problem.slots[i].long(), S)
            return o.bfloat16(), None

        return Call(run)

    def prepare(self, work: Workload) -> list[Call]:
        case = work.case

        def functional(i: int):
            return recurrence(case, work.sets[i], work.sets[i].state)

        def pool(i: int):
            assert work.pool is not None and work.slots is not None
            slots = work.slots[i].long()
            o, state = recurrence(case, work.sets[i], work.pool[slots])
            work.pool.index_copy_(0, slots, state)
            return o, None

        return [Call(functional if case.form == "functional" else pool)]
