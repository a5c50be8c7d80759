# test_handover.py - One pool: prefill, decode, drafts on logs, a checkpoint, more prompt.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import numpy as np
import pytest
from cases import DEVICE, array, torch
from log_model import OPERATORS, K, Model, Slot, V, kernels_of

import linattn


class Prompts:
    """Prompts of a model's slots, by a prefill kernel, and single tokens by the decode kernel."""

    def __init__(self, model: Model, layout: str) -> None:
        self.model = model
        self.states = model.pool.layers[0].states["S"]
        operator = model.operator
        self.kernels = {
            kind: linattn.kernel(
                operator.spec,
                kind=kind,
                key_dim=K,
                value_dim=V,
                state_layout=layout,
                io_type="f32",
                options=operator.options,
                device=DEVICE,
            )
            for kind in ("prefill", "decode")
        }

    def run(self, kind: str, rows: list[tuple[int, int, int]], starts: bool) -> None:
        """Packed rows (from slot, to slot, tokens), from the slots' states or from zeros."""
        model, ends = self.model, [0]
        for _, _, tokens in rows:
            ends.append(ends[-1] + tokens)
        inputs = model.inputs(1, ends[-1])
        read = {name: array(x) for name, x in inputs.items()}
        before = {src: model.dense(self.states[src]) for src, _, _ in rows}
        outputs = self.kernels[kind](
            **inputs,
            **model.params,
            S=self.states,
            src_slots=model.array([src for src, _, _ in rows]),
            dst_slots=model.array([dst for _, dst, _ in rows]),
            cu_seqlens=model.array(ends),
            has_initial_state=model.array([starts] * len(rows), torch.uint8),
        )
        for n, (src, dst, tokens) in enumerate(rows):
            at = [(0, t) for t in range(ends[n], ends[n] + tokens)]
            states, expected = model.walk(before[src] if starts else model.zeros(), read, at)
            actual = array(outputs)[0, ends[n] : ends[n + 1]]
            model.close(actual, np.stack(expected), f"{kind}: outputs of row {n}")
            model.close(model.dense(self.states[dst]), states[-1], f"{kind}: state of row {n}")
            model.slots[dst] = Slot([model.dense(self.states[dst])], [])


@pytest.mark.parametrize("layout", ["kv", "vk"])
@pytest.mark.parametrize("name", list(OPERATORS))
def test_from_prompt_to_drafts_and_on(name, layout):
    heads = (2, 2) if name == "rwkv6" else (1, 2)
    pool = linattn.LogPool(kernels_of(name, layout), slots=5, heads=heads, device=DEVICE)
    model = Model(pool, name, seed=len(name), limit=5e-3)
    prompts = Prompts(model, layout)
    # Rows begin anywhere, and one of them is short.
    prompts.run("prefill", [(2, 2, 37), (0, 0, 1), (4, 4, 64)], starts=False)
    prompts.run("decode", [(0, 0, 1), (2, 2, 1)], starts=True)
    # Drafts on a log whose base is the prompt's state; one of three is taken, then both.
    model.step([{"src": s, "dst": s, "tokens": 3, "initial": 2} for s in (2, 4)])
    model.step([{"src": s, "dst": s, "tokens": 2, "accepted": 1} for s in (2, 4)])
    # A checkpoint in the middle of the log: the prompt goes on from there, in a slot of its own.
    model.step([{"src": 2, "dst": 2, "tokens": 1, "accepted": 2, "checkpoint": (1, 1)}])
    assert model.checkpoints == 1
    prompts.run("prefill", [(1, 3, 33)], starts=True)
    prompts.run("decode", [(3, 3, 1)], starts=True)
