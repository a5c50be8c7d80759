# What is timed: operators, shapes and the work lists.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A `Case` names one launch to time; `cases_of` lists the cases of a kind of work."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace

OPERATORS = ("gdn", "kda", "rwkv6")
# Operators of examples/ that only --work=variants knows; see variants.py.
VARIANTS = (
    "deltanet", "gla", "retnet", "mamba2", "rwkv7", "gated_deltaproduct", "gdn2", "comba", "hgrn2",
    "two_key_delta",
)  # fmt: skip
WORKS = ("decode", "append", "prefill", "log", "variants")
LAYOUTS = ("kv", "vk")
GATES = ("weak", "strong")

# functional: states go in and new ones come out, in memory of their own.
# pool:       states are slots of a pool and updated in place, as engines do it.
# snapshots:  a pool, and the state after every token goes to a slot of its own.
FORMS = ("functional", "pool", "snapshots")

LOWER_BOUND = -5.0  # of KDA's bounded gate


@dataclass(frozen=True)
class Case:
    """One launch: `B` rows of `T` tokens each, or rows of the given `lengths`, packed."""

    work: str
    op: str
    form: str
    layout: str  # of a state matrix: kv is [K, V], vk is [V, K]
    B: int
    T: int
    HQ: int
    HV: int
    K: int = 128
    V: int = 128
    gate: str = "softplus"  # of raw gates: softplus or bounded; rwkv6: log; variants: empty
    lengths: tuple[int, ...] = ()
    shape_name: str = ""
    window: int = 0  # of a log: entries before a merge
    state: str = "f32"  # how states are stored; only logs have others

    @property
    def is_packed(self) -> bool:
        """Whether rows lie one after the other in entry 0 of the batch, with cu_seqlens."""
        return bool(self.lengths)

    @property
    def row_lengths(self) -> tuple[int, ...]:
        return self.lengths or (self.T,) * self.B

    @property
    def tokens(self) -> int:
        return sum(self.row_lengths)

    @property
    def batch_tokens(self) -> tuple[int, int]:
        """The first two dimensions of q: entries of the batch and tokens of an entry."""
        return (1, self.tokens) if self.is_packed else (self.B, self.T)

    @property
    def series(self) -> tuple[str, ...]:
        """What cases of one table have in common: everything but the batch or the length."""
        kind = (self.work, self.op, self.form, self.layout, self.gate, f"{self.K}x{self.V}")
        return (*kind, self.state) if self.window else kind

    @property
    def name(self) -> str:
        size = self.shape_name or f"B={self.B},T={self.T}"
        log = f" W={self.window} {self.state}" if self.window else ""
        return f"{self.op} {self.form} {self.layout} {size} {self.HQ}/{self.HV}{log}"


def _gate_of(op: str, gate: str) -> str:
    return {"gdn": "softplus", "kda": gate}.get(op, "log")


def decode_cases(
    ops: Iterable[str],
    layouts: Iterable[str],
    forms: Iterable[str],
    batches: Iterable[int],
    heads: tuple[int, int],
    dims: tuple[int, int] = (128, 128),
    kda_gate: str = "softplus",
    tokens: Iterable[int] = (1,),
    work: str = "decode",
) -> list[Case]:
    """Decode, and append: the same with several tokens per row."""
    batches, layouts, forms, tokens = list(batches), list(layouts), list(forms), list(tokens)
    return [
        Case(work, op, form, layout, B, T, *heads, *dims, _gate_of(op, kda_gate))
        for op in ops
        for form in forms
        for layout in layouts
        for T in tokens
        for B in batches
        if op != "rwkv6" or heads[0] == heads[1]
    ]


def log_cases(
    ops: Iterable[str],
    layouts: Iterable[str],
    batches: Iterable[int],
    heads: tuple[int, int],
    dims: tuple[int, int] = (128, 128),
    kda_gate: str = "softplus",
    tokens: Iterable[int] = (1,),
    window: int = 16,
    states: Iterable[str] = ("f32",),
) -> list[Case]:
    """States as a base and a log: steps of one token, or of drafts."""
    return [
        replace(case, window=window, state=state)
        for state in states
        for case in decode_cases(
            ops, layouts, ("pool",), batches, heads, dims, kda_gate, tokens, "log"
        )
    ]


def variant_cases(
    ops: Iterable[str],
    decode_layouts: Iterable[str],
    prefill_layouts: Iterable[str],
    batches: Iterable[int],
    shapes: Iterable[str],
    heads: int,
    dims: tuple[int, int] = (128, 128),
) -> list[Case]:
    """Decode in a pool, and prefill of rows of one length."""
    ops, size = list(ops), (heads, heads, *dims)
    decode = [
        Case("decode", op, "pool", layout, B, 1, *size, gate="")
        for op, layout, B in itertools.product(ops, decode_layouts, batches)
    ]
    prefill = []
    for op, layout, shape in itertools.product(ops, prefill_layouts, shapes):
        rows = parse_rows(shape)
        case = Case("prefill", op, "functional", layout, len(rows), rows[0], *size, gate="")
        prefill.append(replace(case, shape_name=shape))
    return decode + prefill


# Row lengths of prefill by name. "uniform20" and "skewed10" hold 8192 tokens in 20 equal rows, and
# in one row of half of them and nine that share the rest.
PREFILL_LENGTHS: dict[str, tuple[int, ...]] = {
    "1x2048": (2048,),
    "1x8192": (8192,),
    "1x32768": (32768,),
    "8x1024": (1024,) * 8,
    "mixed6": (1300, 547, 2048, 963, 271, 3063),
    "uniform20": (410,) * 12 + (409,) * 8,
    "skewed10": (4096, 456) + (455,) * 8,
    "128x64": (64,) * 128,
}
PREFILL_HEADS = ((4, 4), (8, 8), (16, 16), (32, 32), (64, 64), (96, 96))
GVA_HEADS = (16, 64)


def prefill_cases(
    ops: Iterable[str],
    layouts: Iterable[str],
    shapes: Iterable[str],
    heads: Iterable[tuple[int, int]],
    dims: tuple[int, int] = (128, 128),
    kda_gate: str = "bounded",
) -> list[Case]:
    """Prefill; a single row is a plain batch of one, several are packed."""
    cases = []
    shapes, heads, layouts = list(shapes), list(heads), list(layouts)
    for op in ops:
        for layout in layouts:
            for shape in shapes:
                for HQ, HV in heads:
                    if op == "rwkv6" and HQ != HV:
                        continue
                    rows = PREFILL_LENGTHS[shape] if shape in PREFILL_LENGTHS else parse_rows(shape)
                    case = Case(
                        "prefill", op, "functional", layout, len(rows), max(rows), HQ, HV, *dims,
                        _gate_of(op, kda_gate), shape_name=shape,
                    )  # fmt: skip
                    cases.append(case if len(rows) == 1 else replace(case, lengths=rows))
    return cases


def parse_rows(text: str) -> tuple[int, ...]:
    """'4x2048' is four rows of 2048 tokens."""
    count, _, length = text.partition("x")
    if not (count.isdigit() and length.isdigit() and int(count) > 0 and int(length) > 0):
        names = ", ".join(PREFILL_LENGTHS)
        raise ValueError(f"expected ROWSxTOKENS or one of {names}, got '{text}'")
    return (int(length),) * int(count)
