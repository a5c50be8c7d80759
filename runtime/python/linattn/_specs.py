# _specs.py - The specs that come with the package, and what their text says.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A spec is the MLIR text that dl-compile turns into kernels. Shipped ones are found by name
(``"gdn"``), others by path. Nothing here understands MLIR: the options that a spec declares, and
their defaults, are read from its ``options {...}`` list."""

from __future__ import annotations

import functools
import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from . import _errors

Option = str | bool | float


@dataclass(frozen=True)
class Spec:
    """A spec: the operator's name, its text, and where it was read."""

    name: str
    text: str = field(repr=False)
    path: str

    @functools.cached_property
    def normal(self) -> str:
        """The text without comments and layout: what two equal operators agree in."""
        return normalize(self.text)

    @functools.cached_property
    def options(self) -> dict[str, Option]:
        """The declared options with their defaults."""
        return _declared(self.normal)

    @functools.cached_property
    def signature(self) -> Signature:
        """The operator's inputs, parameters and outputs.

        Raises:
            InvalidArgument: it is not written as expected, or has no input of K or V numbers.
        """
        return _signature(self)


@dataclass(frozen=True)
class Signature:
    """What an operator takes and gives: the axis of each value by its name ("key", "value", or
    "scalar"); numbers that all heads share; data types that the spec pins."""

    inputs: dict[str, str]
    params: dict[str, str]
    outputs: dict[str, str]
    scalars: tuple[str, ...]
    pinned: dict[str, str]

    def first(self, axis: str) -> str:
        """The first input along an axis."""
        return next(name for name, other in self.inputs.items() if other == axis)


def normalize(text: str) -> str:
    """The text of a spec without comments, and with single spaces."""
    return " ".join(re.sub(r"//[^\n]*", "", text).split())


def directories() -> list[Path]:
    """Where specs are looked for by name: in the installed package, then in the source tree."""
    here = Path(__file__).resolve().parent
    return [here / "specs", here.parents[2] / "examples"]


def _declared(text: str) -> dict[str, Option]:
    match = re.search(r"\boptions \{(.*?)\} \{", text)
    if not match:
        return {}
    options: dict[str, Option] = {}
    entry = r'(\w+) = (?:\[ ?"([^"]*)"|(true|false)|#linattn\.number<([-+.\w]+))'
    for name, choice, flag, number in re.findall(entry, match[1]):
        options[name] = choice or (flag == "true" if flag else float(number))
    return options


_TENSOR = r"tensor<[^<>]*#linattn\.of<(\w+), (\w+)>>"


def _signature(spec: Spec) -> Signature:
    text = spec.normal
    axes = {alias: axis for alias, axis, _ in re.findall(rf"!(\w+) = {_TENSOR}", text)}

    def read(pattern: str, mark: str) -> dict[str, str]:
        match = re.search(pattern, text)
        found = {}
        value = rf"{mark}(\w+): (?:!(\w+)|{_TENSOR}|f32)"
        for name, alias, axis, _ in re.findall(value, match[1] if match else ""):
            found[name] = axes.get(alias, "uniform") if alias else axis or "uniform"
        return found

    params = read(r"\bparams\((.*?)\) state\(", "%")
    signature = Signature(
        inputs=read(rf"@{spec.name}\((.*?)\) (?:params|state)\(", "%"),
        params={name: axis for name, axis in params.items() if axis != "uniform"},
        outputs=read(r"-> \((.*?)\) (?:options|attributes|\{)", r"\b"),
        scalars=tuple(name for name, axis in params.items() if axis == "uniform"),
        pinned=dict(re.findall(r"%(\w+): [^%{]*\{linattn\.dtype = (\w+)\}", text)),
    )
    if not {"key", "value"} <= set(signature.inputs.values()):
        raise _errors.InvalidArgument(
            f"spec '{spec.path}': expected inputs along the key and the value axis, "
            f"got {', '.join(signature.inputs) or 'none'}"
        )
    return signature


@functools.cache
def _shipped(name: str) -> Spec:
    for directory in directories():
        path = directory / f"{name}.mlir"
        if path.exists():
            return _read(path)
    known = sorted({path.stem for folder in directories() for path in folder.glob("*.mlir")})
    raise _errors.NotFound(f"spec: expected a path or one of {', '.join(known)}, got '{name}'")


def _read(path: Path) -> Spec:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _errors.FileError(f"spec '{path}': expected a readable text, got: {error}") from None
    match = re.search(r"linattn\.operator @(\w+)", text)
    if not match:
        raise _errors.InvalidArgument(
            f"spec '{path}': expected a 'linattn.operator @name', got none"
        )
    return Spec(match[1], text, str(path))


def find(spec: str | os.PathLike[str] | Spec) -> Spec:
    """The spec of that name, or in that file.

    Raises:
        NotFound: a name that no shipped spec has.
        FileError: a file that cannot be read.
    """
    if isinstance(spec, Spec):
        return spec
    text = os.fspath(spec)
    if text.endswith(".mlir") or os.sep in text:
        return _read(Path(text))
    return _shipped(text)


def option_text(value: Option) -> str:
    """An option's value as --set takes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(float(value))
