# logs.py - The log kernels of a drawn operator: steps with drafts, rollback, merges and moves.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What an engine does with a base and a log (test/Reference/LogProtocol.md), in small: some
requests in a pool, of which each step takes a few on by some tokens, of which the next step accepts
a few."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import linattn

import launch
from launch import Comparison, Problem, Shape, Tensor, flat
from operators import Matrix

SLOTS, HQ, HV = 5, 1, 2
States = list[list[Matrix]]  # [head][state]


@dataclass
class Slot:
    """What a slot stands for: the state before its last step, and after each token of it."""

    settled: States
    pending: list[States] = field(default_factory=list)

    def after(self, accepted: int) -> States:
        return [self.settled, *self.pending][accepted]


@dataclass
class Row:
    src: int
    dst: int
    tokens: int
    accepted: int = 0
    initial: int = 1
    flush: int = 0


class Pool:
    def __init__(self, package: linattn.Package, problem: Problem) -> None:
        self.plan, self.append, self.merge, self.materialize = (
            package.kernel(kind) for kind in ("plan", "append", "merge", "materialize")
        )
        self.problem, self.random = problem, problem.random
        self.layout = self.append.state_layout
        sizes = {"slots": SLOTS, "HQ": HQ, "HV": HV}
        self.bases, self.logs = {}, {}
        for parameter in self.append.parameters:
            if parameter.role in ("state", "log"):
                tensor = Tensor(
                    self.append.shape_of(parameter.name, **sizes), parameter.dtype, fill=math.nan
                )
                (self.bases if parameter.role == "state" else self.logs)[parameter.name] = tensor
        self.cursors = Tensor((SLOTS, 4), "i32", fill=0)
        self.slots: dict[int, Slot] = {}
        self.live: list[int] = []
        self.outputs = [Comparison(f"o{n}") for n in range(len(problem.op.outputs))]
        self.states = [Comparison(name) for name in self.bases]
        problem.make_params(self.append, HQ, HV)

    def call(self, kernel: linattn.Kernel, tensors: dict[str, Tensor]) -> None:
        """With those of the pool's and the operator's tensors that it takes."""
        known = {}
        for parameter in kernel.parameters:
            name = parameter.name
            if parameter.role in ("state", "state_in"):
                known[name] = self.bases[name.removesuffix("_in")].view
            elif parameter.role == "log":
                known[name] = self.logs[name].view
            elif parameter.role == "param":
                known[name] = self.problem.params[name].view
            elif name in tensors:
                known[name] = tensors[name].view
        scalars = {"tokens": 1} if "tokens" in kernel.scalars else {}
        kernel.prepare("cpu", checked=True)
        kernel(**known, **scalars)

    def write_base(self, slot: int) -> None:
        """A random state into a slot's base, as a prefill does."""
        pools = list(self.bases.values())
        self.slots[slot] = Slot(
            [self.problem.states_in(pools, (slot, h), self.layout) for h in range(HV)]
        )

    def rows(self) -> list[Row]:
        """Who takes part in the next step."""
        r = self.random
        taken = set(self.live)
        rows = []
        for number, slot in enumerate(self.live):
            if r.random() < 0.25:
                continue
            pending = len(self.slots[slot].pending)
            row = Row(
                slot, slot, r.randint(0, 3), r.randint(0, pending), flush=int(r.random() < 0.1)
            )
            free = [s for s in range(SLOTS) if s not in taken]
            if free and r.random() < 0.15:
                row.dst = r.choice(free)
                taken.add(row.dst)
                self.live[number] = row.dst
            rows.append(row)
        free = [s for s in range(SLOTS) if s not in taken]
        if len(self.live) < 3 and free:
            slot = r.choice(free)
            self.live.append(slot)
            row = Row(slot, slot, r.randint(1, 3), initial=r.choice([0, 2]))
            if row.initial == 2:
                self.write_base(slot)
            rows.append(row)
        return rows

    def step(self) -> None:
        rows = self.rows()
        if not rows:
            return
        problem, shape = self.problem, Shape([row.tokens for row in rows], HQ, HV)
        arrays = {
            name: Tensor((len(rows),), self.append.index_type)
            for name in ("src_slots", "dst_slots", "num_accepted_tokens")
        }
        arrays |= {name: Tensor((len(rows),), "u8") for name in ("initial_state", "flush")}
        arrays["cu_seqlens"] = Tensor((len(rows) + 1,), self.append.index_type)
        arrays["cu_seqlens"].set([sum(shape.rows[:n]) for n in range(len(rows) + 1)])
        for name, member in zip(arrays, ("src", "dst", "accepted", "initial", "flush")):
            arrays[name].set([getattr(row, member) for row in rows])
        descriptors = Tensor((len(rows), 12), "i32", fill=0)
        self.call(self.plan, arrays | {"cursors": self.cursors, "descriptors": descriptors})
        inputs = problem.inputs(self.append, shape)
        outputs = {}
        for comparison in self.outputs:
            dtype = self.append.by_name[comparison.what].dtype
            outputs[comparison.what] = Tensor((*shape.batch, HV, problem.V), dtype, fill=math.nan)
        tensors = inputs | outputs | {"descriptors": descriptors}
        self.call(self.append if sum(shape.rows) else self.merge, tensors)

        written = {}
        for n, row in enumerate(rows):
            if row.initial == 0:
                before = [[problem.zeros() for _ in self.bases] for _ in range(HV)]
            else:
                before = self.slots[row.src].after(row.accepted)
            after = problem.walk(before, inputs, shape, n, row.tokens)
            written[row.dst] = Slot(before, [states for states, _ in after])
            for t, (_, made) in enumerate(after):
                for h in range(HV):
                    for expected, comparison in zip(made[h], self.outputs):
                        o = outputs[comparison.what].get((*shape.place(n, t), h))
                        comparison.add((row.dst, h), o, expected)
        self.slots.update(written)

    def check_states(self) -> None:
        """The states of all requests, drafts included."""
        if not self.live:
            return
        slots = Tensor((len(self.live),), self.append.index_type)
        slots.set(self.live)
        tensors = {"src_slots": slots, "cursors": self.cursors}
        for parameter in self.materialize.parameters:
            if parameter.role == "state_out":
                base = self.bases[parameter.name]
                tensors[parameter.name] = Tensor(
                    (len(self.live), *base.shape[1:]), base.dtype, fill=math.nan
                )
        self.call(self.materialize, tensors)
        for n, slot in enumerate(self.live):
            expected = self.slots[slot].after(len(self.slots[slot].pending))
            for h in range(HV):
                for state, comparison in zip(expected[h], self.states):
                    made = tensors[comparison.what].get((n, h))
                    comparison.add((slot, h), made, flat(state, self.layout))


def run(package: linattn.Package, problem: Problem, margin: float, steps: int = 16) -> list[str]:
    pool = Pool(package, problem)
    for number in range(steps):
        pool.step()
        if number % 4 == 3:
            pool.check_states()
    checked = [c.check(margin * launch.limit_of(pool.append, c.what)) for c in pool.outputs]
    checked += [c.check(margin * launch.limit_of(pool.materialize, c.what)) for c in pool.states]
    return [text for text in checked if text]
