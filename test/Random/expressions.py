# expressions.py - Token-local values of a drawn operator: as MLIR and in double precision.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A :class:`Value` knows how it is written in a spec and, apart from that, what it is. Nothing here
asks the compiler or its reference: what an operation means is said once more, in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable

AXES = ("scalar", "key", "value", "key_value")
ALIASES = {
    ("key", "key_head"): "!key",
    ("key", "value_head"): "!channel",
    ("value", "value_head"): "!value",
    ("value", "key_head"): "!shared_value",
    ("scalar", "value_head"): "!per_head",
    ("scalar", "key_head"): "!per_key_head",
    ("key_value", "key_head"): "!shared_element",
    ("key_value", "value_head"): "!element",
}

# What a value is: a number, or the list of its elements (of a key_value, row by row).
Number = float | list[float]


class Value:
    """A node of an expression. ``axis`` is None for an f32 that is the same for all heads."""

    def __init__(
        self,
        op: str,
        args: tuple[Value, ...] = (),
        axis: str | None = None,
        group: str = "key_head",
        name: str = "",
        constant: float = 0.0,
    ) -> None:
        self.op, self.args, self.axis, self.group = op, args, axis, group
        self.name, self.constant = name, constant

    @property
    def type(self) -> str:
        return "f32" if self.axis is None else ALIASES[self.axis, self.group]

    @property
    def dependent(self) -> bool:
        """Whether it depends on the state."""
        return self.op == "read" or any(x.dependent for x in self.args)


def constant(x: float) -> Value:
    return Value("constant", constant=x)


def unary(op: str, x: Value) -> Value:
    return Value(op, (x,), x.axis, x.group)


def neg(x: Value) -> Value:
    return unary("arith.negf", x)


def exp(x: Value) -> Value:
    return unary("math.exp", x)


def sigmoid(x: Value) -> Value:
    return unary("linattn.sigmoid", x)


def softplus(x: Value) -> Value:
    return unary("linattn.softplus", x)


def l2norm(x: Value) -> Value:
    return unary("linattn.l2norm", x)


def reduce(x: Value) -> Value:
    return Value("linattn.reduce", (x,), "scalar", x.group)


def broadcast(x: Value, axis: str, group: str) -> Value:
    if (x.axis, x.group) == (axis, group):
        return x
    return Value("linattn.broadcast", (x,), axis, group)


def _joined(a: Value, b: Value) -> tuple[str, str]:
    """The kind of tensor that both can be broadcast to."""
    axes = {x.axis for x in (a, b)} - {None, "scalar"}
    assert len(axes) <= 1, axes
    groups = {x.group for x in (a, b) if x.axis is not None}
    return axes.pop() if axes else "scalar", "value_head" if "value_head" in groups else "key_head"


def binary(op: str, a: Value, b: Value) -> Value:
    if a.axis is None and b.axis is None:
        return Value(op, (a, b))
    axis, group = _joined(a, b)
    return Value(op, (broadcast(a, axis, group), broadcast(b, axis, group)), axis, group)


def add(a: Value, b: Value) -> Value:
    return binary("arith.addf", a, b)


def sub(a: Value, b: Value) -> Value:
    return binary("arith.subf", a, b)


def mul(a: Value, b: Value) -> Value:
    return binary("arith.mulf", a, b)


# ===-----------------------------------------------------------------------===#
# As MLIR
# ===-----------------------------------------------------------------------===#


class Printer:
    """Lines of a spec's body; a value is written before it is first used."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[int, str] = {}
        self.kept: list[Value] = []  # or their ids would be given to others

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def define(self, value: Value, name: str) -> None:
        self.names[id(value)] = name
        self.kept.append(value)

    def use(self, value: Value) -> str:
        if id(value) in self.names:
            return self.names[id(value)]
        args = ", ".join([self.use(x) for x in value.args])
        name = f"%t{len(self.names)}"
        if value.op == "constant":
            self.line(f"{name} = arith.constant {value.constant!r} : f32")
        elif value.op in ("linattn.broadcast", "linattn.reduce"):
            self.line(f"{name} = {value.op} {args} : {value.args[0].type} -> {value.type}")
        else:
            assert value.op not in ("input", "param", "read"), value.name
            self.line(f"{name} = {value.op} {args} : {value.type}")
        self.define(value, name)
        return name


# ===-----------------------------------------------------------------------===#
# In double precision
# ===-----------------------------------------------------------------------===#


def _sigmoid(x: float) -> float:
    if x >= 0:
        return 1 / (1 + math.exp(-x))
    e = math.exp(x)
    return e / (1 + e)


def _exp(x: float) -> float:
    return math.exp(x) if x < 709 else math.inf


_UNARY: dict[str, Callable[[float], float]] = {
    "arith.negf": lambda x: -x,
    "math.exp": _exp,
    "math.tanh": math.tanh,
    "linattn.sigmoid": _sigmoid,
    "linattn.softplus": lambda x: max(x, 0.0) + math.log1p(math.exp(-abs(x))),
}
_BINARY: dict[str, Callable[[float, float], float]] = {
    "arith.addf": lambda a, b: a + b,
    "arith.subf": lambda a, b: a - b,
    "arith.mulf": lambda a, b: a * b,
}


class Evaluation:
    """The values of one token of one value head; inputs, params and reads are known by name."""

    def __init__(self, known: dict[str, Number], sizes: dict[str, int]) -> None:
        self.known, self.sizes = known, sizes
        self.values: dict[int, Number] = {}

    def of(self, value: Value) -> Number:
        if value.name:
            return self.known[value.name]
        result = self.values.get(id(value))
        if result is None:
            result = self.values[id(value)] = self._compute(value)
        return result

    def _compute(self, value: Value) -> Number:
        op = value.op
        if op == "constant":
            return value.constant
        args = [self.of(x) for x in value.args]
        if op == "linattn.broadcast":
            isNumber = not isinstance(args[0], list)
            return (
                [args[0]] * self.sizes[value.axis]
                if isNumber and value.axis != "scalar"
                else args[0]
            )
        if op == "linattn.reduce":
            return math.fsum(args[0])
        if op == "linattn.l2norm":
            length = math.sqrt(math.fsum(x * x for x in args[0]) + 1e-6)
            return [x / length for x in args[0]]
        f = _UNARY.get(op) or _BINARY[op]
        if isinstance(args[0], list):
            return [f(*x) for x in zip(*args)]
        return f(*args)
