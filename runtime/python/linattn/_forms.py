# _forms.py - From a call's tensors to the kernel that serves it.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a function asks for is written as a *form*: spec, state layout, options, inputs, scalars,
and kinds of kernels, which may be left out where it is "decode".

    gdn|kv|gate=precomputed,beta=value|q,k,v,g,beta=1|scale|prefill,decode

Inputs are ``name``, ``name:label`` (what the caller calls it, for errors), and ``name=number`` or
``name:label=number`` for one that may be missing and is that number everywhere then. Of several
kinds the first serves that dl-compile does not refuse: not all that can be computed token by token
can be in chunks. A form is a string since torch's operators take strings; it is read once. Together
with data types, K and V, and the device it names a kernel."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from . import _cuda, _errors, _specs, _tensors, _torch_ops, packages
from .kernels import Kernel, Plan, refuse_capture


@dataclass(frozen=True)
class Input:
    name: str
    label: str
    fill: float | None


@dataclass(frozen=True)
class Form:
    """A form that was read."""

    spec: _specs.Spec
    layout: str
    options: tuple[tuple[str, _specs.Option], ...]
    inputs: tuple[Input, ...]
    scalars: tuple[str, ...]
    kinds: tuple[str, ...]
    key: int  # which input shows K
    value: int  # which input shows V, the value heads, and the outputs' data type


def _option(text: str) -> _specs.Option:
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text)
    except ValueError:
        return text


def _check_names(spec: _specs.Spec, names: Sequence[str], numbers: Sequence[str]) -> None:
    signature = spec.signature
    known = [*signature.inputs, *signature.params]
    scalars = [*signature.scalars, "first_slot"]  # the runtime's own: dl/dlk.h
    for name in (*names, *numbers):
        expected, kind = (known, "tensors") if name in names else (scalars, "numbers")
        if name not in expected:
            raise _errors.InvalidType(
                f"arguments: expected {kind} of '{spec.name}' among {', '.join(expected)}, "
                f"got '{name}'"
            )


@functools.cache
def parse(form: str) -> Form:
    """Reads a form."""
    name, layout, options, inputs, scalars, *kinds = form.split("|")
    spec = _specs.find(name)
    pairs = [entry.split("=") for entry in options.split(",") if entry]
    parsed = []
    for entry in inputs.split(","):
        named, _, fill = entry.partition("=")
        own, _, label = named.partition(":")
        parsed.append(Input(own, label or own, float(fill) if fill else None))
    names = [entry.name for entry in parsed]
    numbers = tuple(scalars.split(",")) if scalars else ()
    _check_names(spec, names, numbers)
    places = []
    for axis in ("key", "value"):
        first = spec.signature.first(axis)
        if first not in names:
            raise _errors.InvalidType(f"argument '{first}': expected a tensor, got none")
        places.append(names.index(first))
    return Form(
        spec,
        layout,
        tuple((key, _option(value)) for key, value in pairs),
        tuple(parsed),
        numbers,
        tuple(kinds[0].split(",")) if kinds else ("decode",),
        *places,
    )


class Constant:
    """A number as a tensor of any sizes: made when a kernel is bound, so before any capture, and
    read through strides of 0."""

    __slots__ = ("device", "dtype", "owner", "pointer", "unit")

    def __init__(self, device: torch.device, dtype: str, value: float, unit: bool = False) -> None:
        self.device = _torch_ops.word_of(device)
        self.dtype = _tensors.type_word(dtype)
        self.unit = unit  # the last dimension's stride has to be 1
        # 256 numbers, the largest K and V.
        self.owner = torch.full((256,), value, dtype=_torch_ops.dtype_of(dtype), device="cpu")
        self.pointer = self.owner.data_ptr()
        if device.type == "cuda":
            data = ctypes.string_at(self.pointer, self.owner.numel() * self.owner.itemsize)
            self.pointer = _cuda.constant(self.device >> 32, data)

    def view(self, shape: tuple[int, ...]) -> _tensors.View:
        strides = (0,) * (len(shape) - 1) + (1 if self.unit else 0,)
        return _tensors.View(self.pointer, self.device, self.dtype, shape, strides, self.owner)


class Bound:
    """A form, bound to a kernel on a device: where each tensor goes in the launch."""

    def __init__(self, form: Form, kernel: Kernel, plan: Plan, device: torch.device) -> None:
        self.form, self.kernel, self.plan, self.device = form, kernel, plan, device
        self.roles = {p.role: p.index for p in kernel.parameters}
        by_role = [p.role for p in kernel.parameters]
        if by_role.count("output") != 1 or by_role.count("state_out") != 1:
            raise _errors.InvalidArgument(
                f"spec '{form.spec.name}': expected one output and one state, got "
                f"{by_role.count('output')} and {by_role.count('state_out')}; call its kernel"
            )
        self.output = self.roles["output"]
        self.state_in, self.state_out = self.roles["state_in"], self.roles["state_out"]
        self.slots_in, self.slots_out = self.roles["slots_in"], self.roles["slots_out"]
        self.row_starts, self.row_flags = self.roles["row_starts"], self.roles["row_flags"]
        self.accepted = self.roles["accepted"]
        # Whether all of a row's states may be wanted, or none; else it is the last one.
        self.states_by_token = kernel.kind != "prefill"
        self.workspaces = [p for p in kernel.parameters if p.role == "workspace"]
        self.count = len(kernel.parameters)
        names = kernel.by_name
        self.places = [names[entry.name].index for entry in form.inputs]
        self.fills: list[tuple[int, int, Constant, tuple[int | str, ...]]] = []
        for number, entry in enumerate(form.inputs):
            if entry.fill is not None:
                parameter = names[entry.name]
                unit = isinstance(parameter.shape[-1], int)
                constant = Constant(device, parameter.dtype, entry.fill, unit)
                self.fills.append((number, parameter.index, constant, parameter.shape))
        self.no_slot = Constant(device, kernel.index_type, -1)
        self.slot_zero = Constant(device, kernel.index_type, 0)
        self.fresh = Constant(device, "u8", 0)
        self.state_dtype = _torch_ops.dtype_of(kernel.state_type)
        self.matrix = tuple(int(size) for size in kernel.parameters[self.state_out].shape[2:])

    def scatter(self, inputs: Sequence[Tensor | None]) -> list[Any]:
        """The launch's list of tensors with the inputs in their places, and constants for those
        that are missing."""
        tensors: list[Any] = [None] * self.count
        for place, tensor in zip(self.places, inputs):
            tensors[place] = tensor
        for number, place, constant, dims in self.fills:
            if inputs[number] is None:
                value = inputs[self.form.value]
                assert value is not None
                batch, tokens, heads = value.shape[:3]
                sizes = {"B": batch, "T": tokens, "HV": heads}
                shape = tuple(sizes[s] if isinstance(s, str) else s for s in dims)
                tensors[place] = constant.view(shape)
        return tensors

    def add_workspaces(self, tensors: list[Any]) -> None:
        """Allocates what a launch with these tensors needs to work in."""
        for parameter in self.workspaces:
            shape = self.kernel.shape_for(parameter, tensors)
            tensors[parameter.index] = _torch_ops.empty(shape, parameter.dtype, self.device)

    def scalars(self, values: Sequence[float]) -> tuple[Any, int, int]:
        """The launch scalars for the values of the form's names."""
        return self.kernel.encoder.encode(dict(zip(self.form.scalars, values)))

    def stream(self) -> int:
        """torch's current stream on the device."""
        return _torch_ops.stream_of(self.plan.device_index) if self.plan.is_cuda else 0

    def explain(self, tensors: Sequence[Any], **labels: str) -> None:
        """Raises the error for a tensor that cannot be viewed; labels are by role."""
        for parameter, tensor in zip(self.kernel.parameters, tensors):
            if tensor is not None:
                label = labels.get(parameter.role, parameter.name)
                try:
                    _tensors.as_view(label, tensor)
                except _errors.Error as error:
                    raise self.relabelled(error) from None

    def relabelled(self, error: _errors.Error, **labels: str) -> _errors.Error:
        """The error with the caller's names for the arguments; labels are by role."""
        text = str(error)
        names = {entry.name: entry.label for entry in self.form.inputs}
        for parameter in self.kernel.parameters:
            label = labels.get(parameter.role)
            if label is not None:
                name = parameter.name.removesuffix("_in")
                text = text.replace(f"'{name}' ({parameter.role})", f"'{label}'")
                names[name] = label
        parts = text.split("'")
        parts[1::2] = [names.get(part, part) for part in parts[1::2]]
        return type(error)("'".join(parts))


_bound: dict[tuple[Any, ...], Bound] = {}
_lock = threading.RLock()


class _Mode(threading.local):
    preparing = False


mode = _Mode()


def type_name(label: str, tensor: Tensor) -> str:
    """The manifest's name of a floating-point data type."""
    name = _tensors.TORCH_NAMES.get(tensor.dtype)
    if name not in ("f32", "f16", "bf16"):
        raise _errors.InvalidType(
            f"argument '{label}' dtype: expected float32, float16 or bfloat16, got {tensor.dtype}"
        )
    return name


Indices = Sequence[tuple[str, Tensor | None]]  # slot arrays and the like, with their labels


def _index_type(indices: Indices) -> str:
    """The common data type of slot arrays and the like."""
    found: dict[str, str] = {}
    for label, tensor in indices:
        if tensor is None:
            continue
        name = _tensors.TORCH_NAMES.get(tensor.dtype)
        if name not in ("i32", "i64"):
            raise _errors.InvalidType(
                f"argument '{label}' dtype: expected int32 or int64, got {tensor.dtype}"
            )
        for other, type_ in found.items():
            if type_ != name:
                raise _errors.InvalidType(
                    f"argument '{label}' dtype: expected that of '{other}', {type_}, got {name}"
                )
        found[label] = name
    return next(iter(found.values()), "i32")


def check_tensors(**tensors: Any) -> None:
    """Checks that these are tensors, or None.

    Raises:
        InvalidType: one is something else.
    """
    for label, tensor in tensors.items():
        if tensor is not None and not isinstance(tensor, Tensor):
            raise _errors.InvalidType(
                f"argument '{label}': expected a torch.Tensor or None, got {type(tensor).__name__}"
            )


def check_inputs(form: Form, inputs: Sequence[Tensor | None]) -> None:
    """Checks what has to hold before a kernel can be named.

    Raises:
        InvalidType: not a tensor, or not one of numbers that kernels have.
        InvalidArgument: a rank that is not the expected one.
    """
    for entry, tensor in zip(form.inputs, inputs):
        if tensor is None and entry.fill is not None:
            continue
        if not isinstance(tensor, Tensor):
            raise _errors.InvalidType(
                f"argument '{entry.label}': expected a torch.Tensor, got {type(tensor).__name__}"
            )
        type_name(entry.label, tensor)
    for number in (form.key, form.value):
        tensor = inputs[number]
        assert tensor is not None
        if tensor.ndim != 4:
            raise _errors.InvalidArgument(
                f"argument '{form.inputs[number].label}' rank: expected 4 ([B, T, heads, dim]), "
                f"got {tensor.ndim}"
            )


def request_of(
    form: Form,
    inputs: Sequence[Tensor | None],
    state: Tensor | None,
    indices: Indices,
) -> packages.Request:
    """The kernel that a form needs for these tensors, of its last kind."""
    check_inputs(form, inputs)
    key, value = inputs[form.key], inputs[form.value]
    assert key is not None and value is not None
    io_type = type_name(form.inputs[form.value].label, value)
    types = [(name, io_type) for name in form.spec.signature.outputs]
    for entry, tensor in zip(form.inputs, inputs):
        types.append((entry.name, "f32" if tensor is None else type_name(entry.label, tensor)))
    return packages.Request(
        spec=form.spec,
        key_dim=key.shape[-1],
        value_dim=value.shape[-1],
        state_layout=form.layout,
        state_type="f32" if state is None else type_name("state", state),
        io_type=io_type,
        index_type=_index_type(indices),
        kind=form.kinds[-1],
        options=form.options,
        types=tuple(types),
    )


def _find_kernel(request: packages.Request, kinds: Sequence[str], where: tuple[int, int]) -> Kernel:
    """The kernel of the first of these kinds that there can be."""
    for kind in kinds[:-1]:
        with contextlib.suppress(_errors.CompileError):
            return packages.find_kernel(dataclasses.replace(request, kind=kind), where)
    return packages.find_kernel(request, where)


def _bind(
    form: Form,
    inputs: Sequence[Tensor | None],
    state: Tensor | None,
    indices: Indices,
    checked_on_cpu: bool,
) -> Bound:
    """Finds or compiles the kernel for these tensors, and loads it: the slow part of a call."""
    request = request_of(form, inputs, state, indices)
    key = inputs[form.key]
    assert key is not None
    try:
        kind, index = _torch_ops.device_pair(key.device)
    except KeyError:
        raise _errors.InvalidArgument(
            f"argument '{form.inputs[form.key].label}' device: expected cpu or cuda, "
            f"got {key.device}"
        ) from None
    if kind == _torch_ops.CUDA:
        refuse_capture(f"{form.spec.name} {request.key_dim}x{request.value_dim}")
    kernel = _find_kernel(request, form.kinds, (kind, index))
    checked = True if checked_on_cpu and kind == _torch_ops.CPU else None
    return Bound(form, kernel, kernel.prepare((kind, index), checked=checked), key.device)


def bound_to(
    form: str,
    inputs: Sequence[Tensor | None],
    state: Tensor | None,
    indices: Indices,
    checked_on_cpu: bool = False,
) -> Bound:
    """The kernel for a form and these tensors, loaded; from a table after the first call. Checking
    what arrays of rows hold costs little where the host can see them.

    Raises:
        CaptureError: it is not loaded yet, and a CUDA graph is being captured.
        NotFound, CompileError: there is no such kernel.
        InvalidType, InvalidArgument: the tensors name no kernel.
    """
    parsed = parse(form)
    try:
        value = inputs[parsed.value]
        signature = (
            form,
            checked_on_cpu,
            tuple([None if t is None else t.dtype for t in inputs]),
            inputs[parsed.key].shape[-1],  # type: ignore[union-attr]
            value.shape[-1],  # type: ignore[union-attr]
            inputs[parsed.key].device,  # type: ignore[union-attr]
            None if state is None else state.dtype,
            tuple([None if t is None else t.dtype for _, t in indices]),
        )
    except (AttributeError, IndexError):
        check_inputs(parsed, inputs)
        raise
    bound = _bound.get(signature)
    if bound is None:
        with _lock:
            bound = _bound.get(signature) or _bind(parsed, inputs, state, indices, checked_on_cpu)
            _bound[signature] = bound
    return bound
