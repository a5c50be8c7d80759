# _cuda.py - The few things asked of the CUDA driver itself.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Through ctypes, since neither torch nor a CUDA toolkit need be there."""

from __future__ import annotations

import ctypes
import functools

from . import _errors


@functools.cache
def _driver() -> ctypes.CDLL:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise _errors.DeviceError(f"libcuda.so.1: expected a CUDA driver, got: {error}") from None
    # Declared, so that addresses are not cut to 32 bits.
    address, size, where = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p
    driver.cuMemAlloc_v2.argtypes = [ctypes.POINTER(address), size]
    driver.cuMemcpyHtoD_v2.argtypes = [address, ctypes.c_char_p, size]
    driver.cuDevicePrimaryCtxRetain.argtypes = [ctypes.POINTER(where), ctypes.c_int]
    driver.cuCtxPushCurrent_v2.argtypes = [where]
    driver.cuCtxPopCurrent_v2.argtypes = [ctypes.POINTER(where)]
    _check("cuInit", driver.cuInit(0))
    return driver


def _check(what: str, status: int) -> None:
    if status:
        raise _errors.DeviceError(f"{what}: expected success, got CUDA error {status}")


def _device(index: int) -> ctypes.c_int:
    device = ctypes.c_int()
    _check(f"cuda:{index}", _driver().cuDeviceGet(ctypes.byref(device), index))
    return device


@functools.cache
def capability(index: int) -> int:
    """A device's compute capability as 10 * major + minor.

    Raises:
        DeviceError: there is no driver, or no such device.
    """
    device = _device(index)
    numbers = []
    for attribute in (75, 76):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
        number = ctypes.c_int()
        status = _driver().cuDeviceGetAttribute(ctypes.byref(number), attribute, device)
        _check("cuDeviceGetAttribute", status)
        numbers.append(number.value)
    return 10 * numbers[0] + numbers[1]


@functools.cache
def constant(index: int, data: bytes) -> int:
    """The address of device memory with these bytes, never freed.

    Not from torch's allocator: while torch records a graph or warms one up, its memory belongs to
    the graph, and these bytes outlive it."""
    driver, device = _driver(), _device(index)
    context, memory = ctypes.c_void_p(), ctypes.c_uint64()
    _check(
        "cuDevicePrimaryCtxRetain",
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
    )
    _check("cuCtxPushCurrent", driver.cuCtxPushCurrent_v2(context))
    try:
        _check("cuMemAlloc", driver.cuMemAlloc_v2(ctypes.byref(memory), len(data)))
        _check("cuMemcpyHtoD", driver.cuMemcpyHtoD_v2(memory, data, len(data)))
        _check("cuCtxSynchronize", driver.cuCtxSynchronize())  # any stream may read it now
    finally:
        driver.cuCtxPopCurrent_v2(ctypes.byref(context))
    return memory.value
