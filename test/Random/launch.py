# launch.py - Kernels of a drawn operator beside its recurrence, on the cpu.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Launches what a package has through the C interface (the Python package, without torch or numpy)
and compares it with :meth:`operators.Operator.step`, walked token by token in plain Python."""

from __future__ import annotations

import ctypes
import math
import random
import struct
from dataclasses import dataclass

import linattn
from linattn import _tensors

from operators import Matrix, Operator

CTYPES = {
    "f32": ctypes.c_float,
    "bf16": ctypes.c_uint16,
    "f16": ctypes.c_uint16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "u8": ctypes.c_uint8,
}
ALIGNMENT = 256


def _to_bf16(numbers: list[float]) -> list[int]:
    """Bits, rounded to nearest even; infinities stay what they are."""
    words = struct.unpack(f"{len(numbers)}I", struct.pack(f"{len(numbers)}f", *numbers))
    return [x + 0x7FFF + (x >> 16 & 1) >> 16 for x in words]


def _from_bf16(bits: list[int]) -> list[float]:
    words = struct.pack(f"{len(bits)}I", *(x << 16 for x in bits))
    return list(struct.unpack(f"{len(bits)}f", words))


def _to_f16(numbers: list[float]) -> list[int]:
    return list(struct.unpack(f"{len(numbers)}H", struct.pack(f"{len(numbers)}e", *numbers)))


def _from_f16(bits: list[int]) -> list[float]:
    return list(struct.unpack(f"{len(bits)}e", struct.pack(f"{len(bits)}H", *bits)))


ENCODE = {"bf16": _to_bf16, "f16": _to_f16}
DECODE = {"bf16": _from_bf16, "f16": _from_f16}


class Tensor:
    """Contiguous memory of one of the kernels' types."""

    def __init__(
        self, shape: tuple[int, ...], dtype: str = "f32", fill: float | None = None
    ) -> None:
        self.shape, self.dtype = tuple(shape), dtype
        self.count = math.prod(shape)
        element = CTYPES[dtype]
        size = max(self.count, 1) * ctypes.sizeof(element)
        self.memory = ctypes.create_string_buffer(size + ALIGNMENT)
        address = -(-ctypes.addressof(self.memory) // ALIGNMENT) * ALIGNMENT
        self.data = (element * self.count).from_address(address)
        if fill is not None:
            self.set([fill] * self.count)
        strides = [math.prod(shape[i + 1 :]) for i in range(len(shape))]
        word = _tensors.type_word(dtype)
        self.view = _tensors.View(
            address, _tensors.CPU_WORD, word, self.shape, tuple(strides), self
        )

    def set(self, numbers: list[float]) -> None:
        self.put((), numbers)

    def put(self, index: tuple[int, ...], numbers: list[float]) -> None:
        at, encode = self._at(index), ENCODE.get(self.dtype, list)
        self.data[at : at + len(numbers)] = encode(numbers)

    def get(self, index: tuple[int, ...]) -> list[float]:
        at, decode = self._at(index), DECODE.get(self.dtype, list)
        return decode(self.data[at : at + math.prod(self.shape[len(index) :])])

    def _at(self, index: tuple[int, ...]) -> int:
        at = 0
        for i, size in enumerate(self.shape):
            at = at * size + (index[i] if i < len(index) else 0)
        return at


@dataclass
class Shape:
    """Rows of tokens, one behind the other (packed) or of one length."""

    rows: list[int]
    HQ: int = 1
    HV: int = 2
    packed: bool = True

    @property
    def batch(self) -> tuple[int, int]:
        return (1, sum(self.rows)) if self.packed else (len(self.rows), self.rows[0])

    def place(self, row: int, token: int) -> tuple[int, int]:
        return (0, sum(self.rows[:row]) + token) if self.packed else (row, token)


class Problem:
    """Numbers for an operator, and what it makes of them."""

    def __init__(self, op: Operator, K: int, V: int, seed: int) -> None:
        self.op, self.K, self.V = op, K, V
        self.random = random.Random(seed)
        self.strength = self.random.choice([0.02, 1.0, 20.0])
        self.params: dict[str, Tensor] = {}

    def size(self, axis: str) -> int:
        return {"scalar": 1, "key": self.K, "value": self.V, "key_value": self.K * self.V}[axis]

    def dims(self, axis: str) -> tuple[int, ...]:
        return {"scalar": (), "key": (self.K,), "value": (self.V,), "key_value": (self.K, self.V)}[
            axis
        ]

    def number(self, role: str) -> float:
        r = self.random
        if role == "direction":
            return r.gauss(0, 1) / math.sqrt(self.K)
        if role == "gate":  # decays of all sizes, among them none and resets
            kind = r.random()
            if kind < 0.08:
                return 0.0
            if kind < 0.12:
                return -math.inf
            if kind < 0.16:
                return -r.choice([1000.0, 90.0, 104.0, 1e30])
            return -self.strength * r.random()
        if role == "share":
            return r.random()
        if role == "logit":
            return r.gauss(0, 2)
        return r.gauss(0, 0.5 if role == "rate" else 1)

    def make_params(self, kernel: linattn.Kernel, HQ: int, HV: int) -> None:
        for port in self.op.params:
            if port.value.name in kernel.by_name:
                dims = self.dims(port.value.axis)
                dtype = kernel.by_name[port.value.name].dtype
                tensor = Tensor((self.heads(port, HQ, HV), *dims), dtype)
                tensor.set([self.number(port.role) for _ in range(tensor.count)])
                self.params[port.value.name] = tensor

    @staticmethod
    def heads(port, HQ: int, HV: int) -> int:
        return HQ if port.value.group == "key_head" else HV

    def inputs(self, kernel: linattn.Kernel, shape: Shape) -> dict[str, Tensor]:
        made = {}
        for port in self.op.inputs:
            heads = self.heads(port, shape.HQ, shape.HV)
            parameter = kernel.by_name.get(port.value.name)
            dtype = parameter.dtype if parameter else "f32"  # what nothing depends on vanishes
            tensor = Tensor((*shape.batch, heads, *self.dims(port.value.axis)), dtype)
            tensor.set([self.number(port.role) for _ in range(tensor.count)])
            made[port.value.name] = tensor
        return made

    def states_in(self, pools: list[Tensor], place: tuple[int, ...], layout: str) -> list[Matrix]:
        """Random states of one head, put there, as memory then has them."""
        made = []
        for pool in pools:
            pool.put(place, [self.random.gauss(0, 1) for _ in range(self.K * self.V)])
            made.append(unflat(pool.get(place), self.K, self.V, layout))
        return made

    def zeros(self) -> Matrix:
        return [[0.0] * self.V for _ in range(self.K)]

    def token(
        self, inputs: dict[str, Tensor], shape: Shape, place: tuple[int, int], head: int
    ) -> dict:
        """What is known of a token of a value head, by name."""
        known = dict(self.op.scales)
        group = shape.HV // shape.HQ
        for port, tensor in [(p, inputs[p.value.name]) for p in self.op.inputs] + [
            (p, self.params[p.value.name]) for p in self.op.params if p.value.name in self.params
        ]:
            at = head // group if port.value.group == "key_head" else head
            index = (*place, at) if port.value.op == "input" else (at,)
            numbers = tensor.get(index)
            known[port.value.name] = numbers[0] if port.value.axis == "scalar" else numbers
        return known

    def walk(self, states: list[list[Matrix]], inputs, shape: Shape, row: int, count: int):
        """States [head][state] and outputs [head][output] after each of a row's tokens."""
        after = []
        for t in range(count):
            made = [
                self.op.step(states[h], self.token(inputs, shape, shape.place(row, t), h))
                for h in range(shape.HV)
            ]
            states = [new for new, _ in made]
            after.append((states, [outputs for _, outputs in made]))
        return after


class Comparison:
    """Relative RMS error of all that is added and of its parts, each a head of a row."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.parts: dict[
            tuple[int, int], list[float]
        ] = {}  # sums of squares of error and size, count

    def add(self, part: tuple[int, int], actual: list[float], expected: list[float]) -> None:
        sums = self.parts.setdefault(part, [0.0, 0.0, 0])
        sums[0] += math.fsum((a - x) ** 2 for a, x in zip(actual, expected))
        sums[1] += math.fsum(x * x for x in expected)
        sums[2] += len(expected)

    def worst(self) -> float:
        """Of the whole or of a part, which counts a quarter and has some size at least."""
        error, size, count = (sum(sums[i] for sums in self.parts.values()) for i in range(3))
        if not count:
            return 0.0
        size = math.sqrt(size / count)
        worst = math.sqrt(error / count) / (size + 1e-8)
        if math.isnan(worst):
            return worst
        for error, own, n in self.parts.values():
            part = math.sqrt(error / n) / (max(math.sqrt(own / n), 1e-3 * size) + 1e-8)
            worst = max(worst, part / 4)
        return worst

    def check(self, limit: float) -> str:
        worst = self.worst()
        return (
            "" if worst <= limit else f"{self.what}: relative error {worst:.2g} exceeds {limit:.2g}"
        )


def flat(state: Matrix, layout: str) -> list[float]:
    """In the order of memory."""
    rows = state if layout == "kv" else zip(*state)
    return [x for row in rows for x in row]


def unflat(numbers: list[float], K: int, V: int, layout: str) -> Matrix:
    if layout == "vk":
        return [numbers[k::K] for k in range(K)]
    return [numbers[k * V : (k + 1) * V] for k in range(K)]


def limit_of(kernel: linattn.Kernel, parameter: str) -> float:
    """What dl-run allows (tools/dl-run/Case.cpp); sums of a log lose a few bits more."""
    entry = kernel.by_name[parameter]
    is_log = kernel.kind not in ("decode", "prefill")
    if entry.role != "output" and entry.dtype != "f32":
        return 2e-2
    if kernel.kind == "prefill" or entry.dtype != "f32":
        return 5e-3
    if is_log:  # whose tokens see what merges have rounded
        return 2.5e-4 if kernel.state_type == "f32" else 1e-2
    return 1e-4


def run_dense(kernel: linattn.Kernel, problem: Problem, shape: Shape, margin: float) -> list[str]:
    """A decode or prefill kernel on rows of tokens."""
    op, layout = problem.op, kernel.state_layout
    problem.make_params(kernel, shape.HQ, shape.HV)
    inputs = problem.inputs(kernel, shape)
    N, B, T = len(shape.rows), *shape.batch
    names = ["S" + str(n) for n in range(op.num_states)]
    dims = (problem.K, problem.V) if layout == "kv" else (problem.V, problem.K)
    pools = [Tensor((N, shape.HV, *dims), kernel.state_type) for _ in names]
    before = [[problem.states_in(pools, (n, h), layout) for h in range(shape.HV)] for n in range(N)]
    tensors = dict(zip(names, pools)) | inputs | problem.params
    for n in range(len(op.outputs)):
        dtype = kernel.by_name[f"o{n}"].dtype
        tensors[f"o{n}"] = Tensor((B, T, shape.HV, problem.V), dtype, fill=math.nan)
    if shape.packed:
        tensors["cu_seqlens"] = Tensor((N + 1,), kernel.index_type)
        tensors["cu_seqlens"].set([sum(shape.rows[:n]) for n in range(N + 1)])
    launch(kernel, tensors, dict(B=B, T=T, N=N, HQ=shape.HQ, HV=shape.HV))

    outputs = [Comparison(f"o{n}") for n in range(len(op.outputs))]
    states = [Comparison(name) for name in names]
    for n, length in enumerate(shape.rows):
        after = problem.walk(before[n], inputs, shape, n, length)
        for h in range(shape.HV):
            for t, (_, made) in enumerate(after):
                for expected, comparison in zip(made[h], outputs):
                    place = (*shape.place(n, t), h)
                    comparison.add((n, h), tensors[comparison.what].get(place), expected)
            final = after[-1][0] if after else before[n]
            for state, comparison in zip(final[h], states):
                pool = tensors[comparison.what]
                comparison.add((n, h), pool.get((n, h)), flat(state, layout))
    checked = [c.check(margin * limit_of(kernel, c.what)) for c in outputs + states]
    return [text for text in checked if text]


def launch(kernel: linattn.Kernel, tensors: dict[str, Tensor], sizes: dict[str, int]) -> None:
    """With memory for what the kernel keeps, and without what it does not take."""
    known = {name: tensor.view for name, tensor in tensors.items() if name in kernel.by_name}
    kept = []
    for parameter in kernel.parameters:
        if parameter.role == "workspace":
            kept.append(Tensor(kernel.shape_of(parameter.name, **sizes), parameter.dtype, fill=0))
            known[parameter.name] = kept[-1].view
    kernel.prepare("cpu", checked=True)
    kernel(**known)
