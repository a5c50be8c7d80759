# kernels.py - Calling kernels by what their manifest says.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A :class:`Kernel` takes the tensors that its manifest names. Nothing here knows an operator:
names, roles, data types, shapes, and what may be left out, all come from the package."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _errors, _launch, _library, _shapes, _tensors

if TYPE_CHECKING:
    from .packages import Package

DeviceLike = Any  # "cpu", "cuda:1", torch.device or (type, id)

# What tells kernels of one kind apart.
CONDITIONS = (
    "name",
    "key_dim",
    "value_dim",
    "state_layout",
    "state_type",
    "io_type",
    "index_type",
    "window",
    "max_tokens",
    "ring",
    "log_type",
)


@dataclass(frozen=True)
class Parameter:
    """A tensor that a kernel takes, by the manifest. ``index`` is its place in the launch, ``dims``
    are its dimensions as the manifest has them."""

    name: str
    index: int
    role: str
    dtype: str
    shape: tuple[int | str, ...]
    min_rank: int
    align: int
    nullable: bool
    written: bool
    dims: tuple[Any, ...]

    @property
    def optional(self) -> bool:
        """Whether a call may leave it out: outputs and workspaces are then allocated."""
        return self.nullable or self.allocated or self.role == "state_in"

    @property
    def allocated(self) -> bool:
        """Whether a call allocates it where it is left out."""
        return self.role in ("output", "workspace")


def _parameters(arguments: list[dict[str, Any]]) -> tuple[Parameter, ...]:
    """The manifest's arguments. A state has one name where it is read and where it is written: the
    pool that is read is called NAME_in, and is the one that is written if it is left out."""
    written = {a["name"] for a in arguments if a["role"] == "state_out"}
    parameters = []
    for index, entry in enumerate(arguments):
        role, name = entry["role"], entry["name"]
        if role == "state_in" and name in written:
            name += "_in"
        shape = tuple(_shapes.text(size) for size in entry["shape"])
        parameters.append(
            Parameter(
                name=name,
                index=index,
                role=role,
                dtype=entry["dtype"],
                shape=shape,
                min_rank=entry.get("min_rank", len(shape)),
                align=entry.get("align", 1),
                nullable=entry.get("nullable", False),
                written="w" in entry["access"],
                dims=tuple(entry["shape"]),
            )
        )
    return tuple(parameters)


def parse_device(device: DeviceLike) -> _library.Device:
    """A device from "cpu", "cuda", "cuda:1", a torch.device, an int (CUDA) or (type, id)."""
    if isinstance(device, _library.Device):
        return device
    if isinstance(device, int):
        return _library.Device(_library.CUDA, device)
    if isinstance(device, tuple):
        return _library.Device(*device)
    text = str(device)
    if text == "cuda" and sys.modules.get("torch") is not None:
        return _library.Device(_library.CUDA, sys.modules["torch"].cuda.current_device())
    if text == "cpu":
        return _library.Device(_library.CPU, 0)
    kind, _, index = text.partition(":")
    if kind == "cuda" and (index or "0").isdigit():
        return _library.Device(_library.CUDA, int(index or 0))
    raise _errors.InvalidArgument(f"device: expected 'cpu' or 'cuda:N', got '{text}'")


def _environment_flag(name: str) -> bool:
    return os.environ.get(name, "") not in ("", "0")


def is_capturing() -> bool:
    """Whether torch's current stream is recording a CUDA graph."""
    torch = sys.modules.get("torch")
    return bool(
        torch is not None
        and torch.cuda.is_available()
        and torch.cuda.is_initialized()
        and torch.cuda.is_current_stream_capturing()
    )


def refuse_capture(what: str) -> None:
    """Raises CaptureError if torch's current stream is recording a graph. Nothing was done yet, so
    the capture goes on as if the call had not been made."""
    if is_capturing():
        raise _errors.CaptureError(
            f"{what}: expected it to be loaded before a CUDA graph is captured, got its first call "
            "inside the capture; call linattn.prepare(...), or the function once, before"
        )


class Plan:
    """A kernel, loaded on one device: ``plan(q=..., ...)`` launches it. Immutable; it may be used
    from several threads and on several streams."""

    def __init__(self, kernel: Kernel, device: _library.Device, flags: int) -> None:
        library = _library.library()
        handle = ctypes.c_void_p()
        found = kernel.package.find(device, kernel.name)
        _library.check(library.dlk_prepare(found, device, flags, handle))
        self.kernel, self.flags = kernel, flags
        self.handle: int = handle.value or 0
        self.is_cuda: bool = device.type == _library.CUDA
        self.device_index: int = device.id
        self.device = "cpu" if not self.is_cuda else f"cuda:{device.id}"
        weakref.finalize(self, library.dlk_plan_release, self.handle)

    def __repr__(self) -> str:
        return f"<linattn.Plan {self.kernel.name} on {self.device}>"

    def __call__(self, *, stream: int | None = None, **arguments: Any) -> Any:
        """Launches the kernel; see :meth:`Kernel.__call__`."""
        return self.kernel._call(arguments, stream, self)


class Kernel:
    """One kernel of a package: ``kernel(q=..., S=pool, ...)`` launches it.

    Attributes:
        name: such as "gdn.decode.128x128.kv.f32.bf16".
        kind: "decode", ...
        key_dim, value_dim: K and V.
        state_layout: "kv" (pools [slots, HV, K, V]) or "vk" ([slots, HV, V, K]).
        state_type, io_type, index_type: data types of states, activations, slot numbers.
        window, max_tokens, ring, log_type: of kernels of a log, and those of others are 0 and "":
            entries before a merge, the longest row of a step, entries of memory per slot, and the
            data type of what is computed for it.
        parameters: the tensors that it takes, in order (:class:`Parameter`).
        scalars: its launch scalars, with the default of each (None: must be given).
    """

    def __init__(self, package: Package, entries: list[dict[str, Any]]) -> None:
        first = entries[0]
        self.package = package
        self.name: str = first["name"]
        self.kind: str = first["kind"]
        self.key_dim: int = first["dims"]["K"]
        self.value_dim: int = first["dims"]["V"]
        self.state_layout: str = first["state_layout"]
        self.state_type: str = first["state_type"]
        self.io_type: str = first["io_type"]
        self.index_type: str = first.get("index_type", "i32")
        self.window: int = first.get("window", 0)
        self.max_tokens: int = first.get("max_tokens", 0)
        self.ring: int = first.get("ring", 0)
        self.log_type: str = first.get("log_type", "")
        self.targets = tuple(entry["target"] for entry in entries)
        self.parameters = _parameters(first["args"])
        given = [scalar for scalar in first["scalars"] if "value" not in scalar]
        self.scalars: dict[str, float | None] = {s["name"]: s.get("default") for s in given}
        self.scalar_types: dict[str, str] = {s["name"]: s["dtype"] for s in given}
        self.by_name = {p.name: p for p in self.parameters}
        self.reads = {  # where a state is read, by the place where it is written
            p.index: self.by_name[f"{p.name}_in"].index
            for p in self.parameters
            if p.role == "state_out" and f"{p.name}_in" in self.by_name
        }
        self.encoder = _launch.ScalarEncoder(self.scalars)
        self._plans: dict[tuple[int, int, int], Plan] = {}
        self._lock = threading.Lock()
        self._torch_op: Any = None
        if sys.modules.get("torch") is not None:
            self.op  # registered now: tracing a call must not have to

    def __repr__(self) -> str:
        tensors = ", ".join(f"{p.name}: {p.dtype}{list(p.shape)}" for p in self.parameters)
        return f"<linattn.Kernel {self.name} ({tensors})>"

    def fits(self, conditions: dict[str, Any]) -> bool:
        """Whether attributes have the given values.

        Raises:
            InvalidArgument: there is no such attribute.
        """
        for name, value in conditions.items():
            if name not in CONDITIONS:
                raise _errors.InvalidArgument(
                    f"conditions: expected names among {', '.join(CONDITIONS)}, got '{name}'"
                )
            if getattr(self, name) != value:
                return False
        return True

    def runs_on(self, device: DeviceLike) -> bool:
        """Whether the package has code of this kernel for the device."""
        try:
            self.package.find(parse_device(device), self.name)
        except (_errors.NotFound, _errors.Unsupported):
            return False
        return True

    def supported(self, device: DeviceLike = "cpu", **sizes: int) -> str | None:
        """Why the kernel does not run on a device with run-time sizes (``B``, ``T``, ``HQ``,
        ``HV``, ``N``, ``pool_in``, ``pool_out``, ...; none: the device alone). None if it does.

        Raises:
            NotFound: the package has no code for the device.
            InvalidArgument: a size is unknown, missing or too small.
        """
        where = parse_device(device)
        found = self.package.find(where, self.name)
        array = (_library.Size * max(len(sizes), 1))()
        for entry, (symbol, value) in zip(array, sizes.items()):
            entry.symbol, entry.value = symbol.encode(), value
        reason = ctypes.create_string_buffer(512)
        status = _library.library().dlk_supported(
            found, where, array, len(sizes), reason, len(reason)
        )
        text = reason.value.decode("utf-8", "replace")
        if status and status != _library.UNSUPPORTED:
            raise _library.failure(status, text)
        return text if status else None

    @property
    def op(self) -> Any:
        """The torch.library operator of this kernel (``torch.ops.linattn....``): it mutates outputs
        and state pools, and returns nothing."""
        if self._torch_op is None:
            from . import _torch_ops

            self._torch_op = _torch_ops.register_kernel(self)
        return self._torch_op

    def prepare(
        self, device: DeviceLike = "cpu", *, checked: bool | None = None, pdl: bool | None = None
    ) -> Plan:
        """Loads the kernel on a device, once; the last thing that allocates, loads or compiles.
        Call it before a CUDA graph is captured.

        Args:
            device: "cpu", "cuda:1", a torch.device, or a CUDA ordinal.
            checked: verify slots, row starts and acceptance before each launch (waits for the
                stream, cannot be captured). None: as ``LINATTN_CHECKED`` says.
            pdl: programmatic dependent launch (sm_90 and later). None: where the kernel has it, if
                ``LINATTN_PDL`` is set.

        Raises:
            NotFound: the package has no code for the device.
            Unsupported: the device, or the kernel, lacks what is asked for.
            CaptureError: a CUDA graph is being captured.
        """
        where = parse_device(device)
        flags = 0
        if _environment_flag("LINATTN_CHECKED") if checked is None else checked:
            flags |= _library.PLAN_CHECKED
        if pdl:
            flags |= _library.PLAN_PDL
        elif pdl is None and where.type == _library.CUDA and _environment_flag("LINATTN_PDL"):
            with contextlib.suppress(_errors.Unsupported):
                return self.plan(where.type, where.id, flags | _library.PLAN_PDL)
        return self.plan(where.type, where.id, flags)

    def plan(self, device_type: int, device_index: int, flags: int) -> Plan:
        """The plan for a device and flags of dlk_prepare; loaded when it is first asked for."""
        key = (device_type, device_index, flags)
        plan = self._plans.get(key)
        if plan is None:
            if device_type == _library.CUDA:
                refuse_capture(f"kernel '{self.name}'")
            with self._lock:
                if key not in self._plans:
                    device = _library.Device(device_type, device_index)
                    self._plans[key] = Plan(self, device, flags)
                plan = self._plans[key]
        return plan

    def __call__(self, *, stream: int | None = None, **arguments: Any) -> Any:
        """Launches the kernel on the device of its tensors: for torch on the current stream.

        Args:
            **arguments: tensors and scalars by the names of :attr:`parameters` and
                :attr:`scalars`, as torch tensors, numpy arrays or any ``__dlpack__`` object. Real
                strides are passed on; nothing is copied. An output that is left out is allocated,
                and so is a workspace, whose shape :meth:`shape_of` tells those who keep one.
                A state pool ``S`` is updated in place, unless ``S_in`` is the pool to read from.
            stream: for tensors other than torch's: a CUstream (default: the legacy stream).

        Returns:
            The outputs: a tensor, or a tuple of several. State pools are not returned.

        Raises:
            InvalidArgument: a shape, stride, alignment, size or device that the kernel does not
                take; the message names the argument, what was expected, what was given.
            InvalidType: a name or data type that it does not take.
            GradientError: a torch tensor requires a gradient, and grad mode is on.
        """
        return self._call(arguments, stream, None)

    def _call(self, arguments: dict[str, Any], stream: int | None, plan: Plan | None) -> Any:
        values = {name: value for name, value in arguments.items() if value is not None}
        scalars: dict[str, float] = {}
        for name in self.scalars:
            if name in values:
                scalars[name] = values.pop(name)
        tensors: list[Any] = [None] * len(self.parameters)
        for name, value in values.items():
            parameter = self.by_name.get(name)
            if parameter is None:
                raise self._unknown(name)
            tensors[parameter.index] = value
        self.complete(tensors)
        outputs = [tensors[p.index] for p in self.parameters if p.role == "output"]
        if any(_tensors.is_torch(tensor) for tensor in tensors):
            from . import _torch_ops

            _torch_ops.call(self, tensors, scalars, plan, stream)
        else:
            self._launch_views(tensors, scalars, plan, stream)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _unknown(self, name: str) -> _errors.InvalidType:
        names = [*self.by_name, *self.scalars]
        return _errors.InvalidType(
            f"kernel '{self.name}': expected arguments among {', '.join(names)}, got '{name}'"
        )

    def complete(self, tensors: list[Any]) -> None:
        """Fills in pools that are read where they are written, and allocates missing outputs and
        workspaces."""
        for written, read in self.reads.items():
            if tensors[read] is None:
                tensors[read] = tensors[written]
        missing = [p.name for p in self.parameters if tensors[p.index] is None and not p.optional]
        if missing:
            raise _errors.InvalidType(
                f"kernel '{self.name}': expected arguments {', '.join(missing)}, got none"
            )
        for parameter in self.parameters:
            if parameter.allocated and tensors[parameter.index] is None:
                tensors[parameter.index] = self._allocate(parameter, tensors)

    def shape_of(self, name: str, **sizes: int) -> tuple[int, ...]:
        """The shape of an argument for run-time sizes (``B``, ``T``, ``HQ``, ``HV``, ``N``, ...),
        as of a workspace that is to serve many launches.

        Raises:
            InvalidArgument: there is no such argument, or a size is unknown or missing.
        """
        if name not in self.by_name:
            raise self._unknown(name)
        symbols = self.package.manifest["symbols"]
        known = [s["name"] if isinstance(s, dict) else s for s in symbols]
        for symbol in sizes:
            if symbol not in known:
                raise _errors.InvalidArgument(
                    f"sizes: expected names among {', '.join(known)}, got '{symbol}'"
                )
        values = dict(sizes)
        _shapes.apply_defaults(symbols, values)
        try:
            return tuple(_shapes.evaluate(size, values) for size in self.by_name[name].dims)
        except KeyError as error:
            raise _errors.InvalidArgument(
                f"argument '{name}': expected the size {error}, got {', '.join(sizes) or 'none'}"
            ) from None

    def shape_for(self, parameter: Parameter, tensors: Sequence[Any]) -> list[int]:
        """The shape of an argument beside these tensors (in the order of the parameters)."""
        sizes: dict[str, int] = {}
        for other in self.parameters:
            tensor = tensors[other.index]
            if tensor is None:
                continue
            if not hasattr(tensor, "shape"):
                tensor = _tensors.as_view(other.name, tensor)
            if len(tensor.shape) <= len(other.dims):
                for size, given in zip(other.dims, tensor.shape):
                    _shapes.bind(size, given, sizes)
        _shapes.apply_defaults(self.package.manifest["symbols"], sizes)
        shape = []
        for size in parameter.dims:
            try:
                number = _shapes.evaluate(size, sizes)
            except (KeyError, ZeroDivisionError):
                number = 0
            # What is not known, or less than nothing, is an error that the launch will name.
            shape.append(0 if isinstance(number, int) and number < 0 else number)
        return shape

    def _allocate(self, parameter: Parameter, tensors: Sequence[Any]) -> Any:
        shape = self.shape_for(parameter, tensors)
        first = next(t for t in tensors if t is not None)
        if _tensors.is_torch(first):
            from . import _torch_ops

            return _torch_ops.empty(shape, parameter.dtype, first.device)
        if type(first).__module__ == "numpy":
            return _tensors.numpy_empty(parameter.name, shape, parameter.dtype, parameter.align)
        raise _errors.InvalidType(
            f"argument '{parameter.name}': expected a tensor to write to (only torch and numpy "
            f"{parameter.role}s can be allocated), got none"
        )

    def _launch_views(
        self,
        tensors: list[Any],
        scalars: dict[str, float],
        plan: Plan | None,
        stream: int | None,
    ) -> None:
        views: list[Any] = []
        for parameter, tensor in zip(self.parameters, tensors):
            view = None
            if tensor is not None:
                view = _tensors.as_view(parameter.name, tensor, stream)
                if view.readonly and parameter.written:
                    raise _errors.InvalidArgument(
                        f"argument '{parameter.name}': expected memory that may be written, "
                        "got a read-only tensor"
                    )
            views.append(view)
        first = next(view for view in views if view is not None)
        if plan is None:
            plan = self.prepare((first.device & 0xFFFFFFFF, first.device >> 32))
        _launch.launch(plan.handle, views, self.encoder.encode(scalars), stream or 0)


class Selector:
    """All kernels of one kind in a package; a call takes the one that its tensors fit."""

    def __init__(self, kernels: list[Kernel]) -> None:
        self.kernels = kernels

    def __repr__(self) -> str:
        return f"<linattn.Selector {', '.join(k.name for k in self.kernels)}>"

    def __call__(self, *, stream: int | None = None, **arguments: Any) -> Any:
        """Launches the kernel that fits the tensors; see :meth:`Kernel.__call__`.

        Raises:
            NotFound: none fits, or several do (say which: ``package.kernel(state_layout=...)``).
        """
        return self.select(arguments)(stream=stream, **arguments)

    def select(self, arguments: dict[str, Any]) -> Kernel:
        """The kernel that takes arguments of these data types and fixed sizes."""
        if len(self.kernels) == 1:
            return self.kernels[0]
        fitting = [kernel for kernel in self.kernels if _takes(kernel, arguments)]
        if len(fitting) == 1:
            return fitting[0]
        given = ", ".join(
            f"{name}: {tensor.dtype}{list(tensor.shape)}"
            for name, tensor in arguments.items()
            if hasattr(tensor, "dtype")
        )
        raise _errors.NotFound(
            f"arguments: expected one kernel that takes them, got "
            f"{', '.join(k.name for k in fitting) or 'none'} of "
            f"{', '.join(k.name for k in self.kernels)} for {given}"
        )


def _takes(kernel: Kernel, arguments: dict[str, Any]) -> bool:
    for name, value in arguments.items():
        parameter = kernel.by_name.get(name)
        if parameter is None:
            if name not in kernel.scalars and value is not None:
                return False
            continue
        if value is None:
            continue
        dtype = _tensors.type_name_of(name, value)
        if dtype != parameter.dtype and {dtype, parameter.dtype} != {"u8", "bool"}:
            return False
        for expected, size in zip(parameter.shape, value.shape):
            if isinstance(expected, int) and expected != size:
                return False
    return True
