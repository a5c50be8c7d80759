# _library.py - The C interface of the runtime (dl/dlk.h) through ctypes.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Opens libdlk and declares its functions. ``runtime/include/dl/dlk.h`` documents each of them.

The library is looked for in ``LINATTN_LIBRARY`` (a path), beside this file (where the wheel has
it), and then by the dynamic loader's own rules (``libdlk.so.0``)."""

from __future__ import annotations

import ctypes
import functools
import os
from ctypes import POINTER, c_char, c_char_p, c_double, c_int32, c_int64, c_uint32, c_void_p
from pathlib import Path
from typing import Any

from . import _errors

CPU, CUDA = 1, 2  # DLPack's kDLCPU and kDLCUDA
UNSUPPORTED = 5  # DLK_UNSUPPORTED
PLAN_CHECKED, PLAN_NO_PTX, PLAN_PDL = 1, 2, 4

# Types of the manifest and their DLPack codes: dl/abi.h.
DTYPES = {
    "f64": (2, 64),
    "f32": (2, 32),
    "f16": (2, 16),
    "bf16": (4, 16),
    "i64": (0, 64),
    "i32": (0, 32),
    "u8": (1, 8),
    "bool": (6, 8),
}


class Device(ctypes.Structure):
    """dlk_device: by value in arguments."""

    _fields_ = (("type", c_int32), ("id", c_int32))


class Query(ctypes.Structure):
    """dlk_query: null pointers and zeros stand for any."""

    _fields_ = (
        ("name", c_char_p),
        ("kind", c_char_p),
        ("target", c_char_p),
        ("key_dim", c_int64),
        ("value_dim", c_int64),
        ("state_layout", c_char_p),
        ("state_type", c_char_p),
        ("io_type", c_char_p),
        ("index_type", c_char_p),
        ("no_ptx", c_int32),
    )


class Scalar(ctypes.Structure):
    """dlk_scalar: a launch scalar by name."""

    _fields_ = (("name", c_char_p), ("value", c_double))


class Size(ctypes.Structure):
    """dlk_size: a run-time size by symbol."""

    _fields_ = (("symbol", c_char_p), ("value", c_int64))


TENSOR_BYTES = 48  # sizeof(dlk_tensor), asserted in dlk.h; linattn packs them by hand

_STATUS = {
    1: _errors.InvalidArgument,
    2: _errors.FileError,
    3: _errors.BadPackage,
    4: _errors.NotFound,
    5: _errors.Unsupported,
    6: _errors.DeviceError,
    7: _errors.OutOfMemory,
}

_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "dlk_last_error": (c_char_p, []),
    "dlk_runtime_version": (c_char_p, []),
    "dlk_format_version": (c_uint32, []),
    "dlk_package_open_file": (c_int32, [c_char_p, POINTER(c_void_p)]),
    "dlk_package_open_memory": (c_int32, [c_char_p, ctypes.c_size_t, POINTER(c_void_p)]),
    "dlk_package_close": (None, [c_void_p]),
    "dlk_package_manifest": (c_char_p, [c_void_p, c_void_p]),
    "dlk_package_spec": (c_char_p, [c_void_p, c_void_p]),
    "dlk_find": (c_int32, [c_void_p, POINTER(Query), Device, POINTER(c_void_p)]),
    "dlk_supported": (
        c_int32,
        [c_void_p, Device, POINTER(Size), c_int32, POINTER(c_char), ctypes.c_size_t],
    ),
    "dlk_prepare": (c_int32, [c_void_p, Device, c_uint32, POINTER(c_void_p)]),
    "dlk_plan_release": (None, [c_void_p]),
    "dlk_launch": (c_int32, [c_void_p, c_void_p, c_int32, c_void_p, c_int32, c_void_p]),
}


def _candidates() -> list[str]:
    given = os.environ.get("LINATTN_LIBRARY")
    if given:
        return [given]
    beside = Path(__file__).with_name("libdlk.so")
    return [str(beside)] if beside.exists() else ["libdlk.so.0", "libdlk.so"]


@functools.cache
def library() -> ctypes.CDLL:
    """libdlk, opened once.

    Raises:
        FileError: there is no such library, or the loader refuses it.
    """
    reasons = []
    for path in _candidates():
        try:
            opened = ctypes.CDLL(path)
            break
        except OSError as error:
            reasons.append(str(error))
    else:
        raise _errors.FileError(
            "libdlk.so: expected it in this package, on the loader's path or in LINATTN_LIBRARY, "
            f"got: {'; '.join(reasons)}"
        )
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(opened, name)
        function.restype, function.argtypes = result, arguments
    return opened


def last_error() -> str:
    """The line of the last call of this thread that failed."""
    return library().dlk_last_error().decode("utf-8", "replace")


def failure(status: int, message: str | None = None) -> _errors.Error:
    """The exception for a status other than DLK_OK."""
    text = last_error() if message is None else message
    kind = _STATUS.get(status, _errors.DeviceError)
    # The runtime's line for a wrong data type is "argument 'q' dtype: expected bf16, got f32".
    if kind is _errors.InvalidArgument and " dtype: expected" in text:
        kind = _errors.InvalidType
    return kind(text)


def check(status: int) -> None:
    """Raises the exception that belongs to a status."""
    if status:
        raise failure(status)


def version() -> str:
    """Version of the runtime, such as "0.1.0"."""
    return library().dlk_runtime_version().decode()
