# packages.py - Packages that are open, and which of them serve a request.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A :class:`Request` says which kernel is wanted: spec, options, K and V, state layout, data types.
It is answered by a package that was registered (:func:`add_packages`, ``LINATTN_PACKAGES``) or,
failing that, by dl-compile (:mod:`linattn.cache`)."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import threading
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import _errors, _library, _specs
from .kernels import DeviceLike, Kernel, Selector, parse_device

PathLike = str | os.PathLike[str]


class Package:
    """An open ``.dlk`` file: ``package.decode(q=..., ...)`` launches its decode kernel.

    Attributes:
        path: where it was read, or "<memory>".
        manifest: the manifest as a dict; runtime/README.md documents it.
        operator: the operator's name.
        options: the operator's options as they were compiled.
        kernels: one :class:`Kernel` for each name (kernels of one name differ in target only).
    """

    def __init__(self, source: PathLike | bytes) -> None:
        """Opens a package from a path or from its bytes; hashes are checked, nothing is run.

        Raises:
            FileError: the file cannot be read.
            BadPackage: truncated, corrupt, or of another version.
        """
        self._library = _library.library()
        handle = ctypes.c_void_p()
        if isinstance(source, bytes):
            self.path = "<memory>"
            status = self._library.dlk_package_open_memory(source, len(source), handle)
        else:
            self.path = os.fspath(source)
            status = self._library.dlk_package_open_file(os.fsencode(source), handle)
        _library.check(status)
        self._handle: int = handle.value or 0
        weakref.finalize(self, self._library.dlk_package_close, self._handle)
        text = self._library.dlk_package_manifest(self._handle, None)
        self.manifest: dict[str, Any] = json.loads(text)
        self.operator: str = self.manifest["operator"]
        self.options: dict[str, Any] = self.manifest.get("options", {})
        self.spec: str = self._library.dlk_package_spec(self._handle, None).decode()
        groups: dict[str, list[dict[str, Any]]] = {}
        for entry in self.manifest["kernels"]:
            if "variant_of" in entry or "prepares" in entry:
                continue  # launched by the kernel that it belongs to
            groups.setdefault(entry["name"], []).append(entry)
        self.kernels = [Kernel(self, entries) for entries in groups.values()]

    def __repr__(self) -> str:
        return f"<linattn.Package {self.path}: {', '.join(k.name for k in self.kernels)}>"

    def find(self, device: _library.Device, name: str) -> int:
        """The ``dlk_kernel *`` of that name which fits the device best."""
        found = ctypes.c_void_p()
        query = _library.Query(name=name.encode())
        _library.check(self._library.dlk_find(self._handle, query, device, found))
        return found.value or 0

    def kernel(self, kind: str = "decode", **conditions: Any) -> Kernel:
        """The one kernel of a kind that meets the conditions.

        Args:
            kind: "decode", ...
            **conditions: name, key_dim, value_dim, state_layout ("kv", "vk"), state_type, io_type,
                index_type; of a log also window, max_tokens, ring, log_type.

        Raises:
            NotFound: there is none, or there are several.
        """
        fitting = [k for k in self.kernels if k.kind == kind and k.fits(conditions)]
        if len(fitting) == 1:
            return fitting[0]
        wanted = ", ".join(f"{key}={value}" for key, value in {"kind": kind, **conditions}.items())
        raise _errors.NotFound(
            f"package '{self.path}': expected one kernel with {wanted}, "
            f"got {', '.join(k.name for k in fitting) or 'none'} "
            f"(it has {', '.join(k.name for k in self.kernels)})"
        )

    def __getattr__(self, kind: str) -> Selector:
        if not kind.startswith("_") and any(k.kind == kind for k in self.__dict__["kernels"]):
            selector = Selector([k for k in self.kernels if k.kind == kind])
            self.__dict__[kind] = selector
            return selector
        raise AttributeError(f"package '{self.path}' has no kernels of the kind '{kind}'")


# What keeps a state as a base and a log; LogPool calls all of them.
LOG_KINDS = ("plan", "append", "merge", "materialize")


@dataclass(frozen=True)
class Request:
    """Which kernel is wanted. ``types`` are the data types of inputs, outputs and parameters that
    are not what spec and ``io_type`` say; ``options`` those that are not the spec's defaults.
    ``kind`` may be several, with commas between, which one package then has to have. ``window`` 0
    is the compiler's choice, and any window of a package."""

    spec: _specs.Spec
    key_dim: int
    value_dim: int
    state_layout: str = "kv"
    state_type: str = "f32"
    io_type: str = "bf16"
    index_type: str = "i32"
    kind: str = "decode"
    options: tuple[tuple[str, _specs.Option], ...] = ()
    types: tuple[tuple[str, str], ...] = ()
    window: int = 0
    max_tokens: int = 4
    log_type: str = "f32"

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of kernels that are wanted."""
        return tuple(self.kind.split(","))

    def compile_arguments(self, target: str) -> list[str]:
        """The options of dl-compile that build this kernel."""
        arguments = [
            f"--kernels={self.kind}",
            f"--target={target}",
            f"--dims={self.key_dim}x{self.value_dim}",
            f"--state-layout={self.state_layout}",
            f"--state-type={self.state_type}",
            f"--io-type={self.io_type}",
            f"--index-type={self.index_type}",
        ]
        arguments += [f"--type={name}={dtype}" for name, dtype in sorted(self.types)]
        for name, value in sorted(self.options):
            arguments += ["--set", f"{name}={_specs.option_text(value)}"]
        if any(kind in LOG_KINDS for kind in self.kinds):
            arguments += [f"--max-tokens={self.max_tokens}", f"--log-type={self.log_type}"]
            arguments += [f"--window={self.window}"] if self.window else []
        return arguments

    def type_of(self, name: str) -> str:
        """The data type wanted of an input, output or parameter."""
        return dict(self.types).get(name) or self._default_type(name)

    def resolved(self) -> Request:
        """The same with options checked against the spec, and without what is the default.

        Raises:
            InvalidArgument: an option that the spec does not declare.
        """
        declared, kept = self.spec.options, []
        for name, value in sorted(dict(self.options).items()):
            if name not in declared:
                raise _errors.InvalidArgument(
                    f"options: expected names among {', '.join(declared) or 'none'}, got '{name}'"
                )
            if _plain(value) != _plain(declared[name]):
                kept.append((name, value))
        types = [
            (name, dtype)
            for name, dtype in sorted(dict(self.types).items())
            if dtype != self._default_type(name)
        ]
        return dataclasses.replace(self, options=tuple(kept), types=tuple(types))

    def _default_type(self, name: str) -> str:
        signature = self.spec.signature
        default = "f32" if name in signature.params else self.io_type
        return signature.pinned.get(name, default)

    def served_by(self, package: Package) -> tuple[Kernel, ...] | None:
        """The package's kernels that answer this request, one of each kind, if it has them. A
        package holds its operator as the options left it, not the text of the spec: operators are
        told apart by name, options, and the names of their arguments."""
        if package.operator != self.spec.name:
            return None
        options = {**self.spec.options, **dict(self.options)}
        for name, value in package.options.items():
            if name not in options or _plain(value) != _plain(options[name]):
                return None
        conditions = {
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "state_layout": self.state_layout,
            "state_type": self.state_type,
            "index_type": self.index_type,
        }
        found: list[Kernel] = []
        for kind in self.kinds:
            wanted = conditions
            if kind in LOG_KINDS:
                window = self.window or next((k.window for k in found if k.window), 0)
                wanted = {**conditions, "max_tokens": self.max_tokens, "log_type": self.log_type}
                wanted |= {"window": window} if window else {}
            fitting = (k for k in package.kernels if k.kind == kind and k.fits(wanted))
            kernel = next((k for k in fitting if self._has_types(k)), None)
            if kernel is None:
                return None
            found.append(kernel)
        return tuple(found)

    def _has_types(self, kernel: Kernel) -> bool:
        """Whether a kernel's arguments have the data types that are wanted. Of a log the copies of
        inputs have these inputs' types."""
        roles = ("input", "param", "output")
        given = {p.name: p.dtype for p in kernel.parameters if p.role in roles}
        if kernel.kind in ("prefill", "decode", "append"):
            if not all(name in given for name, _ in self.types):
                return False
        else:
            logged = {p.name: p.dtype for p in kernel.parameters if p.role == "log"}
            copies = {name: logged.get(f"log_{name}") for name in self.spec.signature.inputs}
            computed = ("key", "value", "factor", "decay")  # where the compiler names a field
            given |= {
                n: t for n, t in copies.items() if t and n.rstrip("0123456789") not in computed
            }
        return all(self.type_of(name) == dtype for name, dtype in given.items())


def _plain(value: _specs.Option) -> str:
    """An option's value as text that compares: 1, 1.0 and "1" are the same."""
    text = _specs.option_text(value)
    try:
        return repr(float(text))
    except ValueError:
        return text


class _Registry:
    """Packages that were registered, in order. Paths are opened when first looked at."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.pending: list[Path] = []
        self.packages: list[Package] = []
        self.environment: str | None = None

    def add(self, path: Path) -> None:
        if path.is_dir():
            self.pending += sorted(path.glob("*.dlk"))
        elif path.exists():
            self.pending.append(path)
        else:
            raise _errors.FileError(f"packages: expected a file or folder, got '{path}'")

    def __iter__(self) -> Iterator[Package]:
        with self.lock:
            given = os.environ.get("LINATTN_PACKAGES", "")
            if given != self.environment:
                for entry in filter(None, given.split(os.pathsep)):
                    self.add(Path(entry))
                self.environment = given
            while self.pending:  # one that cannot be opened stays, and is an error each time
                self.packages.append(Package(self.pending[0]))
                self.pending.pop(0)
            return iter(list(self.packages))


_registry = _Registry()


def add_packages(*paths: PathLike) -> None:
    """Registers packages, or folders of ``.dlk`` files, that requests look in first.

    ``LINATTN_PACKAGES`` does the same for a list of paths, separated by colons. A package is code:
    register only what you trust as much as a shared library.

    Raises:
        FileError: there is no such file or folder.
    """
    with _registry.lock:
        for path in paths:
            _registry.add(Path(path))


def load(source: PathLike | bytes) -> Package:
    """Opens a ``.dlk`` file, or its bytes.

    >>> package = linattn.load("gdn.dlk")
    >>> o = package.decode(q=q, k=k, v=v, a=a, b=b, A_log=A_log, dt_bias=dt_bias, S=pool)

    Raises:
        FileError: the file cannot be read.
        BadPackage: truncated, corrupt, or of another version.
    """
    return Package(source)


def find_kernel(request: Request, device: DeviceLike) -> Kernel:
    """The kernel for a request of one kind; see :func:`find_kernels`."""
    return find_kernels(request, device)[0]


def find_kernels(request: Request, device: DeviceLike) -> tuple[Kernel, ...]:
    """The kernels for a request, one of each kind: from a registered package that has code for the
    device, or compiled for it.

    Raises:
        NotFound: no package has it, and there is no dl-compile; says the command that builds it.
        CompileError: dl-compile refuses it.
    """
    from . import cache

    where = parse_device(device)
    request = request.resolved()
    for package in _registry:
        kernels = request.served_by(package)
        if kernels is not None and all(kernel.runs_on(where) for kernel in kernels):
            return kernels
    package = cache.compiled(request, cache.target_of(where))
    kernels = request.served_by(package)
    if kernels is None:
        raise _errors.BadPackage(
            f"package '{package.path}': expected kernels for the request it was compiled from, "
            f"got {package!r}"
        )
    return kernels
