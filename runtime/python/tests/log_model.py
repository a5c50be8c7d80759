# log_model.py - What an engine does with a LogPool, beside the recurrences in double precision.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A :class:`Model` makes random steps on a pool and keeps, for each slot, the states that it should
stand for: those after each accepted token, and after each token of the last step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import reference
from cases import DEVICE, array, torch

import linattn

K, V = 32, 48
GDN = {"gate": "precomputed", "beta": "value", "normalize": False}

# One token of one head: (state, inputs by name at [row, head]) -> (state, output).
Step = Callable[[np.ndarray, dict[str, np.ndarray]], tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Operator:
    """A spec with inputs for it. Axes: k, v, or - for a number."""

    spec: str
    options: dict[str, Any]
    inputs: dict[str, tuple[str, str]]  # name -> (heads, axis)
    params: dict[str, tuple[str, str]]
    decays: tuple[str, ...]
    step: Step


def _delta(S: np.ndarray, x: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    decay = np.exp(x["g"])
    q = x["q"] * K**-0.5
    return reference.delta_step(
        S, q, x["k"], x["v"], decay[:, None] if decay.ndim else decay, x["beta"]
    )


def _rwkv6(S: np.ndarray, x: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    S, o = reference.rwkv6_step(S, x["r"], x["k"], x["v"], x["w"], x["u"])
    return S, K**-0.5 * o


def _inputs(key: str, heads: str, gate: tuple[str, str, str]) -> dict[str, tuple[str, str]]:
    name, gate_heads, axis = gate
    return {
        key: (heads, "k"),
        "k": (heads, "k"),
        "v": ("HV", "v"),
        name: (gate_heads, axis),
    }


_BETA = {"beta": ("HV", "-")}
OPERATORS = {
    "gdn": Operator(
        "gdn", GDN, {**_inputs("q", "HQ", ("g", "HV", "-")), **_BETA}, {}, ("g",), _delta
    ),
    "kda": Operator(
        "kda", GDN, {**_inputs("q", "HQ", ("g", "HV", "k")), **_BETA}, {}, ("g",), _delta
    ),
    "rwkv6": Operator(
        "rwkv6", {}, _inputs("r", "HQ", ("w", "HQ", "k")), {"u": ("HQ", "k")}, ("w",), _rwkv6
    ),
}


def kernels_of(name: str, layout: str = "kv", **changes: Any) -> linattn.LogKernels:
    """Small kernels of an operator: a window of 5, steps of up to 3 tokens, in float32."""
    arguments: dict[str, Any] = dict(
        key_dim=K,
        value_dim=V,
        window=5,
        max_tokens=3,
        state_layout=layout,
        io_type="f32",
        options=OPERATORS[name].options,
        device=DEVICE,
    )
    return linattn.log_kernels(OPERATORS[name].spec, **{**arguments, **changes})


@dataclasses.dataclass
class Slot:
    """What a slot stands for. ``history``: states after accepted tokens, oldest first, the last one
    being that before its last step; ``pending``: after each token of that step."""

    history: list[np.ndarray]
    pending: list[np.ndarray]

    def settled(self, accepted: int) -> list[np.ndarray]:
        return self.history + self.pending[:accepted]


class Model:
    """A pool, and what its slots should hold."""

    def __init__(
        self,
        pool: linattn.LogPool,
        name: str,
        seed: int = 0,
        index: Any = torch.int32,
        limit: float = 1e-5,
    ) -> None:
        self.pool, self.operator, self.index, self.limit = pool, OPERATORS[name], index, limit
        self.random = np.random.default_rng(seed)
        self.heads = {"HQ": pool.key_heads, "HV": pool.value_heads}
        self.params = {n: self.normal(*self.shape(*p)) for n, p in self.operator.params.items()}
        self.slots: dict[int, Slot] = {}
        self.checkpoints = self.merges = 0

    def normal(self, *shape: int) -> Any:
        return torch.tensor(self.random.standard_normal(shape), dtype=torch.float32, device=DEVICE)

    def shape(self, heads: str, axis: str) -> tuple[int, ...]:
        return (self.heads[heads], *{"k": (K,), "v": (V,), "-": ()}[axis])

    def inputs(self, batch: int, tokens: int) -> dict[str, Any]:
        """Random inputs of a launch."""
        made = {}
        for name, (heads, axis) in self.operator.inputs.items():
            x = self.normal(batch, tokens, *self.shape(heads, axis))
            if name == "k":
                x = torch.nn.functional.normalize(x, dim=-1)
            elif name in self.operator.decays:
                x = -x.abs() * self.random.choice([0.1, 1.0, 20.0])
            elif name == "beta":
                x = x.sigmoid()
            made[name] = x
        return made

    def walk(
        self, state: np.ndarray, inputs: dict[str, np.ndarray], at: list[tuple[int, int]]
    ) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """States and outputs after each of the tokens at these places."""
        states, outputs = [], []
        group = self.heads["HV"] // self.heads["HQ"]
        for place in at:
            state, output = state.copy(), np.zeros((self.heads["HV"], V))
            for head in range(self.heads["HV"]):

                def of(x: np.ndarray, heads: str, head: int = head) -> np.ndarray:
                    return x[head if heads == "HV" else head // group]

                values = {n: of(inputs[n][place], h) for n, (h, _) in self.operator.inputs.items()}
                for name, (heads, _) in self.operator.params.items():
                    values[name] = of(array(self.params[name]), heads)
                state[head], output[head] = self.operator.step(state[head], values)
            states.append(state)
            outputs.append(output)
        return states, outputs

    def array(self, numbers: Any, dtype: Any = None) -> Any:
        return torch.tensor(numbers, dtype=dtype or self.index, device=DEVICE)

    def prefill(self, slot: int) -> None:
        """Writes a random state into a slot's base, as a prefill does."""
        base = self.pool.layers[0].states["S"]
        state = self.normal(*base.shape[1:])
        base[slot] = state.to(base.dtype)
        self.slots[slot] = Slot([self.dense(base[slot])], [])

    def dense(self, state: Any) -> np.ndarray:
        """A state as [HV, K, V]."""
        x = array(state)
        return x if self.pool.kernels.append.state_layout == "kv" else x.swapaxes(-1, -2)

    def zeros(self) -> np.ndarray:
        return np.zeros((self.heads["HV"], K, V))

    def close(self, actual: np.ndarray, expected: np.ndarray, what: str) -> None:
        error = reference.error(actual, expected)
        assert error <= self.limit, f"{what}: relative error {error:.1e}"

    def step(self, rows: list[dict[str, Any]], packed: bool = True, final: bool = False) -> None:
        """One step. A row: src, dst, tokens; maybe accepted, initial, flush, checkpoint (slot,
        offset). Checks outputs and, where one was made, the checkpoint."""
        pool, N = self.pool, len(rows)
        tokens = [row["tokens"] for row in rows]
        starts = np.concatenate([[0], np.cumsum(tokens)])
        batch, length = (1, int(starts[-1])) if packed else (N, max(tokens, default=1))
        inputs = self.inputs(batch, length)
        read = {name: array(x) for name, x in inputs.items()}
        accepted = [row.get("accepted", 0) for row in rows]
        checkpoints = [row.get("checkpoint", (-1, 0)) for row in rows]
        descriptors = pool.plan(
            self.array([row["src"] for row in rows]),
            self.array([row["dst"] for row in rows]),
            cu_seqlens=self.array(starts) if packed else None,
            tokens=length,
            num_accepted_tokens=self.array(accepted),
            initial_state=self.array([row.get("initial", 1) for row in rows], torch.uint8),
            flush=self.array([row.get("flush", 0) for row in rows], torch.uint8),
            checkpoint_slots=self.array([slot for slot, _ in checkpoints]),
            checkpoint_offsets=self.array([offset for _, offset in checkpoints]),
            final=final,
        )
        assert descriptors.shape == (N, 12)
        if length:
            outputs = array(pool.append(0, **inputs, **self.params))
        else:
            pool.merge(0, **self.params)
        made = descriptors.tolist()
        written: dict[int, Slot] = {}
        for n, row in enumerate(rows):
            if row["dst"] < pool.first_slot:
                at = [(0, t) if packed else (n, t) for t in range(starts[n], starts[n + 1])]
                assert not any(outputs[place].any() for place in at)
                continue
            initial = row.get("initial", 1)
            source = Slot([self.zeros()], []) if initial == 0 else self.slots[row["src"]]
            if initial == 2:
                source = Slot(source.history[-1:], [])
            settled = source.settled(accepted[n])
            self.merges += made[n][7] != 0
            self.check_checkpoint(row, source, settled, made[n])
            at = [(0, int(starts[n]) + t) if packed else (n, t) for t in range(tokens[n])]
            states, expected = self.walk(settled[-1], read, at)
            for place, want in zip(at, expected):
                self.close(outputs[place], want, f"output of row {n} of {row}")
            written[row["dst"]] = Slot(settled[-12:], states)
        self.slots.update(written)

    def check_checkpoint(
        self, row: dict[str, Any], source: Slot, settled: list[np.ndarray], made: list[int]
    ) -> None:
        """The state of a checkpoint, if what is accepted reaches so far; else there is none."""
        slot, offset = row.get("checkpoint", (-1, 0))
        if slot < self.pool.first_slot:
            assert made[9] < 0
            return
        is_reached = offset <= len(settled) - len(source.history)
        assert made[9] == (slot if is_reached else -1), (row, made)
        if made[9] >= 0:
            state = (source.history + source.pending)[len(source.history) - 1 + offset]
            base = self.pool.layers[0].states["S"][slot]
            self.close(self.dense(base), state, f"checkpoint of {row}")
            self.slots[slot] = Slot([self.dense(base)], [])
            self.checkpoints += 1

    def check_states(self, slots: list[int]) -> None:
        """materialize against the states, drafts included."""
        got = self.pool.materialize(0, src_slots=self.array(slots), **self.params)
        for n, slot in enumerate(slots):
            wanted = self.slots[slot]
            state = (wanted.history + wanted.pending)[-1]
            self.close(self.dense(got[n]), state, f"state of slot {slot}")


class Engine:
    """Random traffic: which requests take part in a step, and how. ``live``: the slot of each."""

    def __init__(self, model: Model) -> None:
        self.model, self.random = model, model.random
        self.live: dict[int, int] = {}
        self.taken: set[int] = set()  # slots that a step may not be given
        self.born = self.forks = 0

    def chance(self, share: float) -> bool:
        return bool(self.random.random() < share)

    def free_slot(self) -> int | None:
        """A slot that no request has; it is taken then."""
        pool = self.model.pool
        free = [slot for slot in range(pool.first_slot, pool.slots) if slot not in self.taken]
        if len(free) < 2:
            return None
        slot = int(self.random.choice(free))
        self.taken.add(slot)
        return slot

    def admit(self, slot: int) -> None:
        self.live[self.born] = slot
        self.born += 1

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the next step."""
        self.taken = set(self.live.values())
        while len(self.live) < 3:
            slot = self.free_slot()
            assert slot is not None
            self.model.slots.pop(slot, None)  # what is in there does not matter
            self.admit(slot)
        if len(self.live) > 3 or self.chance(0.1):
            self.live.pop(int(self.random.choice(list(self.live))))
        rows: list[dict[str, Any]] = []
        for request, slot in list(self.live.items()):
            if self.chance(0.8):
                row = self.first(slot) if slot not in self.model.slots else self.next(slot)
                self.live[request] = row["dst"]
                rows.append(row)
                if row["dst"] != slot and self.chance(0.5):
                    rows += self.fork(slot)
        if self.chance(0.3):
            rows.insert(0, {"src": 0, "dst": 0, "tokens": 1})  # padding
        return rows

    def first(self, slot: int) -> dict[str, Any]:
        """A request begins: from zeros, or after a prefill."""
        row = {"src": slot, "dst": slot, "tokens": int(self.random.integers(0, 4)), "initial": 0}
        if self.chance(0.5):
            self.model.prefill(slot)
            row["initial"] = 2
        return row

    def next(self, slot: int) -> dict[str, Any]:
        """A request goes on, where it is or elsewhere, perhaps with a checkpoint."""
        pending = len(self.model.slots[slot].pending)
        row: dict[str, Any] = {"src": slot, "dst": slot}
        row["tokens"] = int(self.random.integers(0, 4))
        row["accepted"] = int(self.random.integers(0, pending + 1))
        row["flush"] = int(self.chance(0.1))
        other = self.free_slot() if self.chance(0.6) else None
        if other is not None and self.chance(0.5):
            row["dst"] = other
        elif other is not None:
            _, length, _, merge = self.model.pool.cursors[slot].tolist()
            oldest = 0 if merge else -length  # what is merged is out of reach
            row["checkpoint"] = (other, int(self.random.integers(oldest, 4)))
        return row

    def fork(self, slot: int) -> list[dict[str, Any]]:
        """Another request from the slot that one has left, with its own acceptance."""
        other = self.free_slot()
        if other is None:
            return []
        self.admit(other)
        self.forks += 1
        accepted = int(self.random.integers(0, len(self.model.slots[slot].pending) + 1))
        return [{"src": slot, "dst": other, "tokens": 1, "accepted": accepted}]
