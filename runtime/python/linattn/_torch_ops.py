# _torch_ops.py - torch: eager calls, and operators for torch.compile and its kin.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every kernel is also an operator of torch.library, with a schema made from its manifest: outputs
and state pools are mutated arguments, what may be left out is optional, nothing is returned. Plain
eager calls go around the dispatcher, which would cost more than the launch; tracing, fake tensors,
tensor subclasses and dispatch modes go through it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from . import _errors, _launch, _library, _tensors

if TYPE_CHECKING:
    from .kernels import Kernel, Plan

LIBRARY = torch.library.Library("linattn", "FRAGMENT")

# Inductor may not change the strides of what a kernel is given.
TAGS = (
    torch.Tag.pt2_compliant_tag,
    getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order),
)

_tensors.use_torch()
_BY_NAME = {name: dtype for dtype, name in _tensors.TORCH_NAMES.items()}
_PLAIN = _tensors.TORCH_CLASSES
_raw_stream = getattr(torch._C, "_cuda_getCurrentRawStream", None)
_modes = torch._C._len_torch_dispatch_stack
_is_compiling = torch.compiler.is_compiling


def dtype_of(name: str) -> torch.dtype:
    """torch's data type for the manifest's name."""
    return _BY_NAME[name]


def empty(shape: Sequence[int], dtype: str, device: torch.device) -> torch.Tensor:
    """A new contiguous tensor."""
    return torch.empty(shape, dtype=_BY_NAME[dtype], device=device)


def stream_of(index: int) -> int:
    """The current stream of a CUDA device, as the driver's handle."""
    if _raw_stream is not None:
        return int(_raw_stream(index))
    return int(torch.cuda.current_stream(index).cuda_stream)


def is_plain(tensors: Sequence[Any]) -> bool:
    """Whether nothing watches: no tracing, no dispatch mode, no tensor that is more than memory."""
    if _is_compiling() or _modes():
        return False
    for tensor in tensors:
        if tensor is not None and tensor.__class__ not in _PLAIN:
            return False
    return True


def needs_grad(tensors: Sequence[Any]) -> bool:
    """Whether a gradient would be expected of the result."""
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor is not None and tensor.requires_grad:
                return True
    return False


def refuse_grad(what: str, tensors: Sequence[Any]) -> None:
    """Raises GradientError where a result in place would silently lack its gradient."""
    if needs_grad(tensors):
        raise _errors.GradientError(
            f"{what}: expected tensors without requires_grad, or torch.no_grad(), got one that "
            "requires a gradient: there is no backward pass"
        )


def call(
    kernel: Kernel,
    tensors: list[Any],
    scalars: dict[str, float],
    plan: Plan | None,
    stream: int | None,
) -> None:
    """Launches a kernel with torch tensors (in the order of its parameters), on the current stream
    of their device."""
    if is_plain(tensors):
        refuse_grad(f"kernel '{kernel.name}'", tensors)
        run(kernel, tensors, scalars, plan, 0, stream)
        return
    if not _is_compiling() and any(
        tensor is not None and not isinstance(tensor, torch.Tensor) for tensor in tensors
    ):
        views = [
            None if t is None else _tensors.as_view(p.name, t, stream)
            for p, t in zip(kernel.parameters, tensors)
        ]
        run(kernel, views, scalars, plan, 0, stream)
        return
    # A pool that is read where it is written is one argument of the operator.
    passed = list(tensors)
    for written, read in kernel.reads.items():
        if passed[read] is passed[written]:
            passed[read] = None
    flags = 0 if plan is None else plan.flags
    kernel.op(*(passed[index] for index in _order(kernel)), **scalars, flags=flags)


def run(
    kernel: Kernel,
    tensors: Sequence[Any],
    scalars: dict[str, float],
    plan: Plan | None,
    flags: int,
    stream: int | None = None,
) -> None:
    """Launches, with all that the operator's implementation and the eager path share."""
    if plan is None:
        first = next(tensor for tensor in tensors if tensor is not None)
        word = first.device
        if not isinstance(word, int):
            word = _device_word(kernel.parameters[0].name, first)
        where = (word & 0xFFFFFFFF, word >> 32)
        plan = kernel.plan(*where, flags) if flags else kernel.prepare(where)
    if stream is None:
        stream = stream_of(plan.device_index) if plan.is_cuda else 0
    try:
        _launch.launch(plan.handle, tensors, kernel.encoder.encode(scalars), stream)
    except KeyError:
        for parameter, tensor in zip(kernel.parameters, tensors):
            if tensor is not None:
                _tensors.as_view(parameter.name, tensor)  # says what is wrong with it
        raise


def _device_word(name: str, tensor: torch.Tensor) -> int:
    return _tensors.as_view(name, tensor).device


def _order(kernel: Kernel) -> list[int]:
    """The operator's tensors: those that must be given, then those that may be left out."""
    return sorted(range(len(kernel.parameters)), key=lambda i: _is_optional(kernel, i))


def _is_optional(kernel: Kernel, index: int) -> bool:
    parameter = kernel.parameters[index]
    return parameter.nullable or index in kernel.reads.values()


def schema_of(kernel: Kernel, name: str) -> str:
    """The operator's schema, such as "gdn_decode(Tensor q, ..., Tensor(a!) o) -> ()"."""
    parts, alias = [], ord("a")
    for index in _order(kernel):
        parameter = kernel.parameters[index]
        kind = "Tensor"
        if parameter.written:
            kind, alias = f"Tensor({chr(alias)}!)", alias + 1
        optional = _is_optional(kernel, index)
        parts.append(f"{kind}{'?' if optional else ''} {parameter.name}{'=None' * optional}")
    parts.append("*")
    for scalar, dtype in kernel.scalar_types.items():
        parts.append(f"{'float' if dtype in ('f32', 'f64') else 'int'}? {scalar}=None")
    parts.append("int flags=0")
    return f"{name}({', '.join(parts)}) -> ()"


def _unique_name(kernel: Kernel) -> str:
    """Readable, and the same only for kernels that are the same."""
    manifest = json.dumps(kernel.package.manifest, sort_keys=True)
    digest = hashlib.sha256(f"{kernel.name} {manifest}".encode()).hexdigest()
    return f"{kernel.package.operator}_{kernel.kind}_{digest[:12]}"


_registered: dict[str, Any] = {}


def register_kernel(kernel: Kernel) -> Any:
    """Defines the operator of a kernel; kernels of equal content share one."""
    name = _unique_name(kernel)
    if name in _registered:
        return _registered[name]
    order = _order(kernel)
    LIBRARY.define(schema_of(kernel, name), tags=TAGS)

    def implementation(*given: Any, flags: int = 0, **scalars: Any) -> None:
        tensors: list[Any] = [None] * len(order)
        for index, tensor in zip(order, given):
            tensors[index] = tensor
        for written, read in kernel.reads.items():
            if tensors[read] is None:
                tensors[read] = tensors[written]
        values = {key: value for key, value in scalars.items() if value is not None}
        run(kernel, tensors, values, None, flags)

    def autograd(*given: Any, **scalars: Any) -> None:
        refuse_grad(f"kernel '{kernel.name}'", given)
        with torch._C._AutoDispatchBelowAutograd():
            op.default(*given, **scalars)

    def fake(*given: Any, **scalars: Any) -> None:
        return None

    for key in ("CPU", "CUDA"):
        LIBRARY.impl(name, implementation, key)
    LIBRARY.impl(name, autograd, "Autograd")
    torch.library.register_fake(f"linattn::{name}", fake, lib=LIBRARY)
    op = getattr(torch.ops.linattn, name)
    _registered[name] = op
    return op


def word_of(device: torch.device) -> int:
    """A torch device as the runtime's word."""
    return _tensors.TORCH_DEVICES[device]


def device_pair(device: torch.device) -> tuple[int, int]:
    """A torch device as DLPack's type and index."""
    word = word_of(device)
    return word & 0xFFFFFFFF, word >> 32


CPU, CUDA = _library.CPU, _library.CUDA
