# _launch.py - From tensors to dlk_launch: what runs at every step.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packs tensors into an array of ``dlk_tensor`` and launches. At decode a launch takes less time on
the device than a careless caller takes to prepare it, so the structs are written by one
``struct.pack_into`` into memory that each thread keeps; the runtime does the checking."""

from __future__ import annotations

import ctypes
import functools
import struct
import threading
from collections.abc import Sequence
from typing import Any

from . import _errors, _library, _tensors

MAX_ARGUMENTS, MAX_RANK = 64, 8  # of dl/abi.h
_ABSENT = (0, 0, 0, 0, 0, 0)
_BYTES = MAX_ARGUMENTS * (_library.TENSOR_BYTES + 2 * 8 * MAX_RANK)


class _Scratch(threading.local):
    """Memory of one thread for the structs of one launch, and the sizes they point to."""

    def __init__(self) -> None:
        self.buffer = ctypes.create_string_buffer(_BYTES)
        self.address = ctypes.addressof(self.buffer)


_scratch = _Scratch()


@functools.cache
def _packer(words: int) -> Any:
    return struct.Struct(f"={words}q").pack_into


class ScalarEncoder:
    """Launch scalars as the array that dlk_launch takes. Calls repeat their values, so arrays are
    kept; a varying scale may not make the cache grow without end."""

    def __init__(self, scalars: dict[str, float | None]) -> None:
        self._names = {name: name.encode() for name in scalars}
        self._arrays: dict[tuple[tuple[str, float], ...], tuple[Any, int, int]] = {}

    def encode(self, values: dict[str, float]) -> tuple[Any, int, int]:
        """(owner, address, count) of an array with these values."""
        key = tuple(values.items())
        encoded = self._arrays.get(key)
        if encoded is None:
            array = (_library.Scalar * max(len(values), 1))()
            for entry, (name, value) in zip(array, key):
                entry.name = self._names[name]
                try:
                    entry.value = value  # takes numbers alone
                except TypeError:
                    raise _errors.InvalidType(
                        f"scalar '{name}': expected a number, got {type(value).__name__}"
                    ) from None
            encoded = (array, ctypes.addressof(array), len(values))
            if len(self._arrays) >= 256:
                self._arrays.clear()
            self._arrays[key] = encoded
        return encoded


def launch(plan: int, tensors: Sequence[Any], scalars: tuple[Any, int, int], stream: int) -> None:
    """Launches a plan with tensors (torch tensors or views; None: left out) in the order of its
    arguments.

    Raises:
        Error: what the runtime says.
    """
    scratch = _scratch
    count = len(tensors)
    head: list[int] = []
    sizes: list[int] = []
    address = scratch.address
    at = address + 48 * count
    types, devices, view_class = _tensors.TORCH_TYPES, _tensors.TORCH_DEVICES, _tensors.View
    for tensor in tensors:
        if tensor is None:
            head += _ABSENT
            continue
        shape = tensor.shape
        rank = len(shape)
        bytes_ = 8 * rank
        if tensor.__class__ is view_class:
            head += (tensor.pointer, tensor.device, tensor.dtype + rank, at, at + bytes_, 0)
            sizes += shape
            sizes += tensor.strides
        else:
            head += (
                tensor.data_ptr(),
                devices[tensor.device],
                types[tensor.dtype] + rank,
                at,
                at + bytes_,
                0,
            )
            sizes += shape
            sizes += tensor.stride()
        at += 2 * bytes_
    if at > address + _BYTES:
        raise _errors.InvalidArgument(
            f"arguments: expected at most {MAX_ARGUMENTS} of at most {MAX_RANK} dimensions"
        )
    head += sizes
    _packer(len(head))(scratch.buffer, 0, *head)
    _, scalar_address, scalar_count = scalars
    status = _library.library().dlk_launch(
        plan, address, count, scalar_address, scalar_count, stream
    )
    if status:
        raise _library.failure(status)
