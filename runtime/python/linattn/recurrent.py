# recurrent.py - An operator over whole sequences: new outputs, new states.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The functional form of any operator: sequences in, outputs and final states out, nothing modified.
One torch operator, ``linattn::recurrent``, serves all specs; what it is asked for is a *form*, a
short text that names the spec, its options, the state's layout and the inputs:

    gdn|kv|gate=precomputed,beta=value|q,k,v,g,beta=1

Inputs are ``name``, ``name:label`` (what the caller calls it, for errors), and ``name=number`` or
``name:label=number`` for one that may be missing and is that number everywhere then."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from . import _errors, _launch, _tensors, _torch_ops, packages, specs
from .operator import Kernel, Parameter, Plan, refuse_capture

Tensor = torch.Tensor


@dataclass(frozen=True)
class Input:
    name: str
    label: str
    fill: float | None


@dataclass(frozen=True)
class Form:
    """A parsed form."""

    spec: specs.Spec
    layout: str
    options: tuple[tuple[str, specs.Option], ...]
    inputs: tuple[Input, ...]
    key: int  # which input shows K
    value: int  # which input shows V, the value heads, and the outputs' data type


def _option(text: str) -> specs.Option:
    if text in ("true", "false"):
        return text == "true"
    try:
        return float(text)
    except ValueError:
        return text


@functools.cache
def parse(form: str) -> Form:
    """Reads a form."""
    name, layout, options, inputs = form.split("|")
    spec = specs.find(name)
    pairs = [entry.split("=") for entry in options.split(",") if entry]
    parsed = []
    for entry in inputs.split(","):
        named, _, fill = entry.partition("=")
        own, _, label = named.partition(":")
        parsed.append(Input(own, label or own, float(fill) if fill else None))
    names = [entry.name for entry in parsed]
    return Form(
        spec,
        layout,
        tuple((key, _option(value)) for key, value in pairs),
        tuple(parsed),
        names.index(spec.signature.first("key")),
        names.index(spec.signature.first("value")),
    )


class _Constants:
    """Small tensors that stand for what is missing: zeros, ones, slot -1. They are made when a
    kernel is bound, before any capture, and read through strides of 0."""

    def __init__(self) -> None:
        self._made: dict[tuple[Any, ...], Tensor] = {}

    def get(self, device: torch.device, dtype: torch.dtype, value: float) -> Tensor:
        key = (device, dtype, value)
        if key not in self._made:
            # 256 numbers, the largest K and V, since a last dimension may have to be contiguous.
            made = torch.full((256,), value, dtype=dtype, device=device)
            if made.is_cuda:
                torch.cuda.current_stream(made.device).synchronize()  # other streams will read it
            self._made[key] = made
        return self._made[key]


_constants = _Constants()


class _Constant:
    """Makes views of a constant with any sizes of a parameter's dimensions."""

    __slots__ = ("device", "dtype", "owner", "pointer", "unit")

    def __init__(self, owner: Tensor, device: torch.device, unit: bool) -> None:
        self.owner, self.pointer = owner, owner.data_ptr()
        self.device = _torch_ops.word_of(device)
        self.dtype = _tensors.TORCH_TYPES[owner.dtype]
        self.unit = unit  # the last dimension's stride must be 1

    def view(self, shape: tuple[int, ...]) -> _tensors.View:
        strides = (0,) * (len(shape) - 1) + (1 if self.unit else 0,)
        return _tensors.View(self.pointer, self.device, self.dtype, shape, strides, self.owner)


class Bound:
    """A form, bound to a kernel on a device: where each tensor goes in the launch."""

    def __init__(self, form: Form, kernel: Kernel, plan: Plan, device: torch.device) -> None:
        self.form, self.kernel, self.plan = form, kernel, plan
        self.roles = {p.role: p.index for p in kernel.parameters}
        names = kernel.by_name
        self.places = [names[entry.name].index for entry in form.inputs]
        self.fills: list[tuple[int, int, _Constant, Parameter]] = []
        for number, entry in enumerate(form.inputs):
            if entry.fill is not None:
                parameter = names[entry.name]
                dtype = _torch_ops.dtype_of(parameter.dtype)
                owner = _constants.get(device, dtype, entry.fill)
                unit = isinstance(parameter.shape[-1], int)
                self.fills.append(
                    (number, parameter.index, _Constant(owner, device, unit), parameter)
                )
        index = _torch_ops.dtype_of(kernel.index_type)
        self.no_slot = _Constant(_constants.get(device, index, -1), device, False)
        self.slot_zero = _Constant(_constants.get(device, index, 0), device, False)
        self.fresh = _Constant(_constants.get(device, torch.uint8, 0), device, False)
        self.state_dtype = _torch_ops.dtype_of(kernel.state_type)
        self.matrix = kernel.parameters[self.roles["state_out"]].shape[2:]
        self.labels = {entry.name: entry.label for entry in form.inputs}

    def relabelled(self, error: _errors.Error, has_initial: bool) -> _errors.Error:
        """The error with the caller's names for the arguments."""
        state = "initial_state" if has_initial else "final_state"
        labels = {**self.labels, "S": state, "S_in": state}
        for parameter in self.kernel.parameters:
            if parameter.role in ("state_in", "state_out"):
                labels[parameter.name] = state
        text = str(error)
        parts = text.split("'")
        parts[1::2] = [labels.get(part, part) for part in parts[1::2]]
        return type(error)("'".join(parts))


_bound: dict[tuple[Any, ...], Bound] = {}
_bind_lock = threading.RLock()


def _type_name(label: str, tensor: Tensor) -> str:
    name = _tensors.TORCH_NAMES.get(tensor.dtype)
    if name not in ("f32", "f16", "bf16"):
        raise _errors.InvalidType(
            f"argument '{label}' dtype: expected float32, float16 or bfloat16, got {tensor.dtype}"
        )
    return name


def _index_type(row_starts: Tensor | None) -> str:
    if row_starts is None:
        return "i32"
    names = {torch.int32: "i32", torch.int64: "i64"}
    if row_starts.dtype not in names:
        raise _errors.InvalidType(
            f"argument 'cu_seqlens' dtype: expected int64 or int32, got {row_starts.dtype}"
        )
    return names[row_starts.dtype]


def check_inputs(form: Form, inputs: Sequence[Tensor | None]) -> None:
    """Checks what has to hold before a kernel can be named.

    Raises:
        InvalidType: not a tensor.
        InvalidArgument: a rank or a device that is not the expected one.
    """
    for entry, tensor in zip(form.inputs, inputs):
        if tensor is None and entry.fill is not None:
            continue
        if not isinstance(tensor, Tensor):
            raise _errors.InvalidType(
                f"argument '{entry.label}': expected a torch.Tensor, got {type(tensor).__name__}"
            )
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
    initial_state: Tensor | None,
    row_starts: Tensor | None,
) -> packages.Request:
    """The kernel that a form needs for these tensors."""
    check_inputs(form, inputs)
    key, value = inputs[form.key], inputs[form.value]
    assert key is not None and value is not None
    io_type = _type_name(form.inputs[form.value].label, value)
    types = [(name, io_type) for name in form.spec.signature.outputs]
    for entry, tensor in zip(form.inputs, inputs):
        types.append((entry.name, "f32" if tensor is None else _type_name(entry.label, tensor)))
    state = "f32" if initial_state is None else _type_name("initial_state", initial_state)
    return packages.Request(
        spec=form.spec,
        key_dim=key.shape[-1],
        value_dim=value.shape[-1],
        state_layout=form.layout,
        state_type=state,
        io_type=io_type,
        index_type=_index_type(row_starts),
        options=form.options,
        types=tuple(types),
    )


def bind(
    form: str,
    inputs: Sequence[Tensor | None],
    initial_state: Tensor | None = None,
    row_starts: Tensor | None = None,
) -> Bound:
    """Finds or compiles the kernel for these tensors and loads it: the slow part of a first call.

    Raises:
        CaptureError: a CUDA graph is being captured.
        NotFound, CompileError: there is no such kernel.
    """
    parsed = parse(form)
    request = request_of(parsed, inputs, initial_state, row_starts)
    value = inputs[parsed.value]
    assert value is not None
    device = value.device
    kind, index = _torch_ops.device_pair(device)
    if kind == _torch_ops.CUDA:
        refuse_capture(f"{parsed.spec.name} {request.key_dim}x{request.value_dim}")
    with _bind_lock:
        kernel = packages.find_kernel(request, (kind, index))
        plan = kernel.prepare((kind, index))
        return Bound(parsed, kernel, plan, device)


def run(
    form: str,
    inputs: Sequence[Tensor | None],
    initial_state: Tensor | None,
    row_starts: Tensor | None,
    scale: float | None,
    output_final_state: bool,
) -> tuple[Tensor, Tensor | None]:
    """Launches; see :func:`recurrent`."""
    parsed = parse(form)
    key, value = inputs[parsed.key], inputs[parsed.value]
    try:
        signature = (
            form,
            [None if t is None else t.dtype for t in inputs].__str__(),
            key.shape[-1],
            value.shape[-1],
            value.device,
            None if row_starts is None else row_starts.dtype,
            None if initial_state is None else initial_state.dtype,
        )
    except (AttributeError, IndexError):
        check_inputs(parsed, inputs)
        raise
    bound = _bound.get(signature)
    if bound is None:
        bound = _bound[signature] = bind(form, inputs, initial_state, row_starts)
    try:
        return _run(bound, inputs, initial_state, row_starts, scale, output_final_state)
    except KeyError:
        check_inputs(parsed, inputs)
        raise
    except _errors.Error as error:
        raise bound.relabelled(error, initial_state is not None) from None


def _run(
    bound: Bound,
    inputs: Sequence[Tensor | None],
    initial_state: Tensor | None,
    row_starts: Tensor | None,
    scale: float | None,
    output_final_state: bool,
) -> tuple[Tensor, Tensor | None]:
    roles, plan = bound.roles, bound.plan
    value = inputs[bound.form.value]
    assert value is not None
    batch, tokens, heads = value.shape[:3]
    rows = batch if row_starts is None else max(row_starts.shape[0] - 1, 0)
    tensors: list[Any] = [None] * len(bound.kernel.parameters)
    for place, tensor in zip(bound.places, inputs):
        tensors[place] = tensor
    for number, place, constant, parameter in bound.fills:
        if inputs[number] is None:
            sizes = {"B": batch, "T": tokens, "HV": heads}
            shape = tuple(sizes[s] if isinstance(s, str) else s for s in parameter.shape)
            tensors[place] = constant.view(shape)
    output = torch.empty_like(value)
    tensors[roles["output"]] = output
    final: Tensor | None = None
    if output_final_state:
        final = torch.empty(
            (rows, heads, *bound.matrix), dtype=bound.state_dtype, device=value.device
        )
    if initial_state is not None and initial_state.shape[0] != rows:
        raise _errors.InvalidArgument(
            f"argument 'initial_state' dimension 0: expected N = {rows}, "
            f"got {initial_state.shape[0]}"
        )
    read = initial_state if initial_state is not None else final
    if read is None:  # neither read nor written, but a pool has to be there
        read = torch.empty((1, heads, *bound.matrix), dtype=bound.state_dtype, device=value.device)
        tensors[roles["slots_in"]] = bound.slot_zero.view((rows,))
    tensors[roles["state_in"]] = read
    tensors[roles["state_out"]] = read if final is None else final
    if final is None:
        # Two destinations or more per row, all of them "none": the state is not kept.
        tensors[roles["slots_out"]] = bound.no_slot.view((rows, max(tokens, 2)))
    if initial_state is None:
        tensors[roles["row_flags"]] = bound.fresh.view((rows,))
    tensors[roles["row_starts"]] = row_starts
    scalars = bound.kernel.encoder.encode({} if scale is None else {"scale": scale})
    stream = _torch_ops.stream_of(plan.device_index) if plan.is_cuda else 0
    _launch.launch(plan.handle, tensors, scalars, stream)
    return output, final


_torch_ops.LIBRARY.define(
    "recurrent(str form, Tensor?[] inputs, Tensor? initial_state, Tensor? row_starts, "
    "float? scale, bool output_final_state) -> (Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)


def _implementation(
    form: str,
    inputs: Sequence[Tensor | None],
    initial_state: Tensor | None,
    row_starts: Tensor | None,
    scale: float | None,
    output_final_state: bool,
) -> tuple[Tensor, Tensor]:
    output, final = run(form, inputs, initial_state, row_starts, scale, output_final_state)
    return output, output.new_empty(0, dtype=torch.float32) if final is None else final


def _fake(
    form: str,
    inputs: Sequence[Tensor | None],
    initial_state: Tensor | None,
    row_starts: Tensor | None,
    scale: float | None,
    output_final_state: bool,
) -> tuple[Tensor, Tensor]:
    parsed = parse(form)
    check_inputs(parsed, inputs)
    key, value = inputs[parsed.key], inputs[parsed.value]
    assert key is not None and value is not None
    dtype = torch.float32 if initial_state is None else initial_state.dtype
    if not output_final_state:
        return torch.empty_like(value), value.new_empty(0, dtype=torch.float32)
    rows = value.shape[0] if row_starts is None else row_starts.shape[0] - 1
    matrix = [key.shape[-1], value.shape[-1]]
    if parsed.layout == "vk":
        matrix.reverse()
    shape = (rows, value.shape[2], *matrix)
    return torch.empty_like(value), value.new_empty(shape, dtype=dtype)


for _key in ("CPU", "CUDA"):
    _torch_ops.LIBRARY.impl("recurrent", _implementation, _key)
torch.library.register_fake("linattn::recurrent", _fake, lib=_torch_ops.LIBRARY)


def _backward(ctx: Any, *gradients: Any) -> Any:
    raise _errors.GradientError(
        "linattn: the recurrent kernels have no backward pass; train with a chunkwise form, and "
        "call these under torch.no_grad()"
    )


torch.library.register_autograd("linattn::recurrent", _backward, lib=_torch_ops.LIBRARY)
_op = torch.ops.linattn.recurrent.default


def recurrent(
    form: str,
    inputs: Sequence[Tensor | None],
    *,
    initial_state: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    scale: float | None = None,
    output_final_state: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Runs an operator over sequences, token by token.

    Args:
        form: the operator and how it is called, ``spec|layout|options|inputs``; see the module.
        inputs: the tensors that the form names, in its order: activations ``[B, T, heads, dim]`` or
            ``[B, T, heads]``, parameters ``[heads, dim]`` or ``[heads]``; float32, float16 or
            bfloat16, each on its own.
        initial_state: ``[N, HV, K, V]`` (layout kv) or ``[N, HV, V, K]`` (vk); not modified. None:
            zeros.
        cu_seqlens: ``[N + 1]``, int32 or int64: where sequences begin in a batch of one. None:
            every entry of the batch is a sequence.
        scale: of the outputs. None: the spec's default.
        output_final_state: whether the states after the last tokens are wanted.

    Returns:
        The output, of the value input's shape and data type, and the final states, new, in the
        initial states' data type (default float32), or None.
    """
    watched = (*inputs, initial_state, cu_seqlens)
    if _torch_ops.is_plain(watched) and not _torch_ops.needs_grad(watched):
        return run(form, inputs, initial_state, cu_seqlens, scale, output_final_state)
    output, final = _op(form, inputs, initial_state, cu_seqlens, scale, output_final_state)
    return output, final if output_final_state else None
