# cache.py - Compiling on demand, and keeping what was compiled.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs dl-compile (``LINATTN_DL_COMPILE``, or on ``PATH``) and keeps its packages in
``LINATTN_CACHE`` (default ``$XDG_CACHE_HOME/linattn``, ``~/.cache/linattn``), named by a SHA-256 of
all that they depend on: the spec's text, the arguments, the compiler and the assembler.

Any number of processes may share the folder. One of them compiles while the others wait for its
lock; files appear whole, by renaming; what is damaged is noticed by the package's own hashes and
built again. Where the folder cannot be used, packages are kept in memory, with one warning."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from . import _cuda, _errors, _library

if TYPE_CHECKING:
    from .packages import Package, Request

FORMAT = 1  # of the cache: raise it when keys or entries change their meaning
LOCK_SECONDS = 300.0  # after that we build ourselves: the holder may be stuck

_memory: dict[str, Package] = {}
_memory_lock = threading.RLock()


def directory() -> Path | None:
    """The folder of the cache; None if ``LINATTN_CACHE`` is empty or "off"."""
    given = os.environ.get("LINATTN_CACHE")
    if given is not None:
        return Path(given) if given not in ("", "off") else None
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "linattn"


def compiler() -> str | None:
    """The path of dl-compile: ``LINATTN_DL_COMPILE``, else the one on ``PATH``."""
    given = os.environ.get("LINATTN_DL_COMPILE")
    return given if given else shutil.which("dl-compile")


@functools.cache
def _known_targets(program: str) -> tuple[str, ...]:
    try:
        done = subprocess.run([program, "--list-targets"], capture_output=True, check=False)
    except OSError:
        return ()
    return tuple(done.stdout.decode().split())


def target_of(device: _library.Device) -> str:
    """dl-compile's name for a device: code for exactly this chip ("sm_90a") before that of its
    family before an older chip's, whose PTX the driver compiles.

    Raises:
        DeviceError: there is no such device.
    """
    if device.type == _library.CPU:
        return "cpu"
    program = compiler()
    known = _known_targets(program) if program else ()
    return choose_target(_cuda.capability(device.id), known)


def choose_target(capability: int, known: Sequence[str]) -> str:
    """The best of the known targets for a compute capability of 10 * major + minor."""
    if not known:  # no compiler: only a message will name it
        return f"sm_{capability}a" if capability >= 90 else f"sm_{capability}"
    best, best_rank = "", (-1, -1)
    for name in known:
        match = re.fullmatch(r"sm_(\d+)([af]?)", name)
        if not match or int(match[1]) > capability:
            continue
        number, suffix = int(match[1]), match[2]
        exact, family = number == capability, number // 10 == capability // 10
        if (suffix == "a" and not exact) or (suffix == "f" and not family):
            continue
        rank = (3 if suffix == "a" else 2 if family else 1, number)
        if rank > best_rank:
            best, best_rank = name, rank
    if not best:
        raise _errors.Unsupported(
            f"device: expected compute capability 8.0 or newer, got {capability / 10}"
        )
    return best


def _stamp(path: str) -> tuple[str, int, int]:
    status = os.stat(path)
    return (os.path.realpath(path), status.st_size, status.st_mtime_ns)


@functools.cache
def _digest(stamp: tuple[str, int, int]) -> str:
    """SHA-256 of a file; 0.1 s for dl-compile, once per process."""
    digest = hashlib.sha256()
    with open(stamp[0], "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _assembler() -> list[object]:
    """What stands for ptxas: with another one, or none, packages hold other code."""
    path = os.environ.get("DL_PTXAS") or shutil.which("ptxas")
    try:
        return list(_stamp(path)) if path else []
    except OSError:
        return [path]


def key(request: Request, target: str, program: str) -> str:
    """The name of a request's entry: a SHA-256, in hexadecimal."""
    parts = [
        FORMAT,
        request.spec.text,
        request.compile_arguments(target),
        _digest(_stamp(program)),
        _library.library().dlk_format_version(),
        platform.machine() if target == "cpu" else _assembler(),
    ]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def command(request: Request, target: str, program: str = "dl-compile") -> str:
    """The shell command that builds a package for the request."""
    arguments = request.compile_arguments(target)
    return shlex.join([program, request.spec.path, *arguments, "-o", f"{request.spec.name}.dlk"])


def _run(request: Request, target: str, program: str, output: Path) -> None:
    """Compiles into a file. The text goes through stdin: what is hashed is what is compiled."""
    arguments = [program, "-", *request.compile_arguments(target), "-j", "1", "-o", str(output)]
    try:
        done = subprocess.run(
            arguments, input=request.spec.text.encode(), capture_output=True, check=False
        )
    except OSError as error:
        raise _errors.CompileError(
            f"dl-compile: expected a program that runs, got '{program}': {error}"
        ) from None
    if done.returncode != 0 or not output.exists():
        raise _errors.CompileError(_reason(done, request, target))


def _reason(done: subprocess.CompletedProcess[bytes], request: Request, target: str) -> str:
    lines = done.stderr.decode("utf-8", "replace").splitlines()
    errors = [line for line in lines if "error: " in line]
    text = errors[0].split("error: ", 1)[1] if errors else (lines or ["no message"])[-1]
    return f"dl-compile: {text} (status {done.returncode} of: {command(request, target)})"


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Holds an exclusive lock on a file. Where the file system has no locks, or the holder does not
    let go, we go on without: the worst is that two processes compile the same."""
    import fcntl

    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        end = time.monotonic() + LOCK_SECONDS
        wait = 0.005
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    break
                time.sleep(wait)
                wait = min(2 * wait, 0.1)
            except OSError:
                break
        yield
    finally:
        os.close(descriptor)  # lets go of the lock


def _opened(path: Path) -> Package | None:
    """The package in a file, if it is there and whole. A damaged one is as good as none."""
    from .packages import Package

    try:
        return Package(path)
    except (_errors.FileError, _errors.BadPackage):
        return None


def _from_disk(folder: Path, name: str, request: Request, target: str, program: str) -> Package:
    """Opens the entry, or builds it. OSError if the folder cannot be used."""
    from .packages import Package

    entry = folder / f"{name}.dlk"
    package = _opened(entry)  # needs no right to write
    if package is not None:
        return package
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / f"{name}.lock"):
        package = _opened(entry)
        if package is not None:
            return package
        descriptor, temporary = tempfile.mkstemp(prefix=f"{name}.", suffix=".new", dir=folder)
        os.close(descriptor)
        try:
            _run(request, target, program, Path(temporary))
            os.replace(temporary, entry)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
        return Package(entry)


_warned = False


def _warn(folder: Path | None, error: OSError) -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            f"linattn: the cache folder '{folder}' cannot be used ({error}): kernels are compiled "
            "again in every process; LINATTN_CACHE names another folder",
            RuntimeWarning,
            stacklevel=2,
        )


def _in_memory(request: Request, target: str, program: str) -> Package:
    from .packages import Package

    with tempfile.TemporaryDirectory(prefix="linattn-") as folder:
        output = Path(folder) / "kernel.dlk"
        _run(request, target, program, output)
        return Package(output.read_bytes())


def compiled(request: Request, target: str) -> Package:
    """The package for a request, from memory, from the cache folder, or compiled now.

    Raises:
        NotFound: it is not in the cache and there is no dl-compile.
        CompileError: dl-compile refuses the request.
    """
    program = compiler()
    if program is None:
        raise _errors.NotFound(
            "dl-compile: expected it on PATH or in LINATTN_DL_COMPILE, got neither, and no "
            "registered package has this kernel. Build one where dl-compile is, and register it "
            f"with linattn.add_packages or LINATTN_PACKAGES: {command(request, target)}"
        )
    try:
        name = key(request, target, program)
    except OSError as error:
        raise _errors.NotFound(
            f"dl-compile: expected a program, got '{program}': {error}"
        ) from None
    with _memory_lock:
        if name not in _memory:
            folder = directory()
            try:
                if folder is None:
                    raise NotADirectoryError("LINATTN_CACHE is off")
                _memory[name] = _from_disk(folder, name, request, target, program)
            except _errors.Error:
                raise
            except OSError as error:
                if folder is not None:
                    _warn(folder, error)
                _memory[name] = _in_memory(request, target, program)
        return _memory[name]
