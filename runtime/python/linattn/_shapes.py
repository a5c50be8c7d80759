# _shapes.py - Sizes of arguments, by the expressions of the manifest.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A dimension is a number, the name of a size ("B", "HV"), or an expression of them, such as
``["add", "N", 1]``: runtime/README.md. What is allocated for a call is as large as they say."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

Size = Any  # int, str, or [operator, operand, operand, ...]

_MARKS = {"add": "+", "sub": "-", "mul": "*"}
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.floordiv,
    "ceildiv": lambda a, b: -(-a // b),
    "mod": operator.mod,
    "min": min,
    "max": max,
}


def text(size: Size) -> int | str:
    """A dimension for people: 128, "HV", "(N+1)"."""
    if isinstance(size, list):
        name, *parts = size
        texts = [str(text(part)) for part in parts]
        if name in _MARKS:
            return f"({_MARKS[name].join(texts)})"
        return f"{name}({','.join(texts)})"
    return size


def evaluate(size: Size, sizes: Mapping[str, int]) -> int:
    """The number that a dimension is.

    Raises:
        KeyError: of a size that is not known.
        ZeroDivisionError: there is none.
    """
    if isinstance(size, list):
        name, *parts = size
        return functools.reduce(_OPERATORS[name], (evaluate(part, sizes) for part in parts))
    return sizes[size] if isinstance(size, str) else size


def bind(size: Size, given: int, sizes: dict[str, int]) -> None:
    """Notes what a dimension of this length shows: "X" and ["add", "X", number] show X."""
    match size:
        case str():
            sizes.setdefault(size, given)
        case ["add", str(symbol), int(offset)]:
            sizes.setdefault(symbol, given - offset)


def apply_defaults(symbols: list[Any], sizes: dict[str, int]) -> None:
    """Gives sizes that nothing shows their defaults, by the manifest's symbols."""
    for symbol in symbols:
        if isinstance(symbol, dict) and "default" in symbol and symbol["name"] not in sizes:
            try:
                sizes[symbol["name"]] = evaluate(symbol["default"], sizes)
            except (KeyError, ZeroDivisionError):
                continue
