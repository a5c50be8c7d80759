# _tensors.py - Tensors of any library as views that the runtime takes.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A :class:`View` is what a ``dlk_tensor`` says: address, device, type, sizes, strides. torch
tensors, numpy arrays and everything with ``__dlpack__`` become views without a copy; what cannot be
viewed as it lies is refused.

The words of a view are kept as the integers that go into the C struct, since a launch is dominated
by such bookkeeping."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from . import _errors, _library

LANES = 1 << 16


def type_word(name: str) -> int:
    """The upper half of dlk_tensor's third word (data type); the lower half is the rank."""
    code, bits = _library.DTYPES[name]
    return (code | bits << 8 | LANES) << 32


def device_word(kind: int, index: int) -> int:
    """dlk_tensor's second word."""
    return kind | index << 32


CPU_WORD = device_word(_library.CPU, 0)
TYPE_NAMES = {type_word(name): name for name in _library.DTYPES}


class View:
    """Memory as a kernel shall see it; ``owner`` keeps it alive. Strides count elements."""

    __slots__ = ("device", "dtype", "owner", "pointer", "readonly", "shape", "strides")

    def __init__(
        self,
        pointer: int,
        device: int,
        dtype: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        owner: Any = None,
        readonly: bool = False,
    ) -> None:
        self.pointer, self.device, self.dtype = pointer, device, dtype
        self.shape, self.strides = shape, strides
        self.owner, self.readonly = owner, readonly

    @property
    def type_name(self) -> str:
        return TYPE_NAMES[self.dtype]


# Filled by _use_torch() once torch is there: torch.dtype -> word, torch.device -> word.
TORCH_TYPES: dict[Any, int] = {}
TORCH_CLASSES: set[type] = set()
TORCH_NAMES: dict[Any, str] = {}


class _Devices(dict):  # type: ignore[type-arg]
    """torch.device -> word; grows as devices are met."""

    def __missing__(self, device: Any) -> int:
        if device.type == "cpu":
            word = CPU_WORD
        elif device.type == "cuda":
            index = device.index
            if index is None:
                index = sys.modules["torch"].cuda.current_device()
            return device_word(_library.CUDA, index)  # "cuda" may mean another one next time
        else:
            raise KeyError(device)
        self[device] = word
        return word


TORCH_DEVICES = _Devices()


def use_torch() -> Any:
    """torch, with the tables above filled. Imports it: call only where torch is known to be wanted
    or is imported already."""
    import torch

    if not TORCH_TYPES:
        names = {
            torch.float64: "f64",
            torch.float32: "f32",
            torch.float16: "f16",
            torch.bfloat16: "bf16",
            torch.int64: "i64",
            torch.int32: "i32",
            torch.uint8: "u8",
            torch.bool: "bool",
        }
        TORCH_NAMES.update(names)
        TORCH_CLASSES.update((torch.Tensor, torch.nn.Parameter))
        TORCH_TYPES.update({dtype: type_word(name) for dtype, name in names.items()})
    return torch


def is_torch(value: Any) -> bool:
    """Whether the value is a torch tensor; does not import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _torch_view(name: str, tensor: Any) -> View:
    torch = use_torch()
    if tensor.layout is not torch.strided:
        raise _errors.InvalidArgument(
            f"argument '{name}' layout: expected torch.strided, got {tensor.layout}"
        )
    word = TORCH_TYPES.get(tensor.dtype)
    if word is None:
        raise _unknown_type(name, tensor.dtype)
    try:
        device = TORCH_DEVICES[tensor.device]
    except KeyError:
        raise _errors.InvalidArgument(
            f"argument '{name}' device: expected cpu or cuda, got {tensor.device}"
        ) from None
    return View(
        tensor.data_ptr(), device, word, tuple(tensor.shape), tuple(tensor.stride()), tensor
    )


def _unknown_type(name: str, given: Any) -> _errors.InvalidType:
    return _errors.InvalidType(
        f"argument '{name}' dtype: expected one of {', '.join(_library.DTYPES)}, got {given}"
    )


def _numpy_name(dtype: Any) -> str | None:
    """The name of a numpy data type; bfloat16 is ml_dtypes' extension type."""
    if dtype.name == "bfloat16":
        return "bf16"
    if not dtype.isnative:
        return None
    names = {"float64": "f64", "float32": "f32", "float16": "f16", "int64": "i64"}
    names |= {"int32": "i32", "uint8": "u8", "bool": "bool"}
    return names.get(dtype.name)


def _numpy_view(name: str, array: Any) -> View:
    type_name = _numpy_name(array.dtype)
    if type_name is None:
        raise _unknown_type(name, array.dtype)
    size = array.dtype.itemsize
    if any(stride % size for stride in array.strides):
        raise _errors.InvalidArgument(
            f"argument '{name}' strides: expected multiples of the element's {size} bytes, "
            f"got {array.strides}"
        )
    return View(
        array.ctypes.data,
        CPU_WORD,
        type_word(type_name),
        tuple(array.shape),
        tuple(stride // size for stride in array.strides),
        array,
        not array.flags.writeable,
    )


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _library.Device),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    )


def _capsule(name: str, value: Any, stream: int | None) -> Any:
    """A capsule that shares the memory. DLPack 1.0 lets us forbid copies; older producers share by
    convention. CUDA streams are told as DLPack numbers them (1: the legacy default stream)."""
    order = {} if stream is None else {"stream": stream or 1}
    for extra in ({"max_version": (1, 0), "copy": False}, {}):
        try:
            return value.__dlpack__(**order, **extra)
        except TypeError as error:
            reason: Exception = error
        except (BufferError, ValueError) as error:
            reason = error
            break
    raise _errors.InvalidArgument(
        f"argument '{name}': expected memory that __dlpack__ can share, got: {reason}"
    )


def _dlpack_view(name: str, value: Any, stream: int | None) -> View:
    kind, _ = value.__dlpack_device__()
    capsule = _capsule(name, value, stream if int(kind) == _library.CUDA else None)
    pythonapi = ctypes.pythonapi
    pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
    pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    pythonapi.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
    readonly = False
    if pythonapi.PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        address = pythonapi.PyCapsule_GetPointer(capsule, b"dltensor_versioned")
        managed = _Versioned.from_address(address)
        tensor, readonly = managed.tensor, bool(managed.flags & 1)
        if managed.flags & 2:
            raise _errors.InvalidArgument(
                f"argument '{name}': expected memory shared by __dlpack__, got a copy"
            )
    else:
        address = pythonapi.PyCapsule_GetPointer(capsule, b"dltensor")
        tensor = _DLTensor.from_address(address)
    word = (tensor.code | tensor.bits << 8 | tensor.lanes << 16) << 32
    if word not in TYPE_NAMES:
        raise _unknown_type(name, f"code {tensor.code} of {tensor.bits} bits")
    shape = tuple(tensor.shape[: tensor.ndim])
    strides = tuple(tensor.strides[: tensor.ndim]) if tensor.strides else _contiguous(shape)
    # The capsule is not consumed: its own destructor frees what it holds, once the view is gone.
    return View(
        (tensor.data or 0) + tensor.byte_offset,
        device_word(tensor.device.type, tensor.device.id),
        word,
        shape,
        strides,
        (value, capsule),
        readonly,
    )


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def as_view(name: str, value: Any, stream: int | None = None) -> View:
    """The view of a torch tensor, a numpy array or any object with ``__dlpack__``.

    Args:
        name: the argument's name, for errors.
        value: the tensor.
        stream: for CUDA objects other than torch's: the CUstream (0: legacy default) that will use
            the memory, which the producer is told through ``__dlpack__``.

    Raises:
        InvalidType: not a tensor, or of a data type that no kernel has.
        InvalidArgument: memory that cannot be shared as it lies.
    """
    if isinstance(value, View):
        return value
    if is_torch(value):
        return _torch_view(name, value)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray):
        return _numpy_view(name, value)
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _dlpack_view(name, value, stream)
    raise _errors.InvalidType(
        f"argument '{name}': expected a tensor (torch, numpy or any with __dlpack__), "
        f"got {type(value).__name__}"
    )


def type_name_of(name: str, value: Any) -> str:
    """The manifest's name of a tensor's data type."""
    if is_torch(value):
        use_torch()
        known = TORCH_NAMES.get(value.dtype)
        if known is None:
            raise _unknown_type(name, value.dtype)
        return known
    return as_view(name, value).type_name


def numpy_empty(name: str, shape: list[int], dtype: str, align: int = 1) -> Any:
    """A new numpy array. bfloat16 needs the package ml_dtypes."""
    import numpy

    if align > 16:  # beyond what numpy's allocator promises
        words = numpy_empty(name, shape, dtype)
        memory = numpy.empty(words.nbytes + align, numpy.uint8)
        begin = -memory.ctypes.data % align
        return memory[begin : begin + words.nbytes].view(words.dtype).reshape(shape)
    names = {"f64": "float64", "f32": "float32", "f16": "float16", "i64": "int64"}
    names |= {"i32": "int32", "u8": "uint8", "bool": "bool"}
    if dtype != "bf16":
        return numpy.empty(shape, names[dtype])
    try:
        import ml_dtypes
    except ImportError:
        raise _errors.InvalidType(
            f"argument '{name}': expected an array to write to (numpy has no bfloat16 without "
            "ml_dtypes), got none"
        ) from None
    return numpy.empty(shape, ml_dtypes.bfloat16)
