# engine.py - Kernels by what they are for, and loading them early.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The kernel of a spec, to be called with pools of states; and loading before it matters. Nothing
here needs torch. runtime/ENGINES.md has the rules of a call, with the names used here;
:func:`linattn.step` finds the kernel by its tensors instead."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from . import _specs, cache, packages
from .kernels import DeviceLike, Kernel

Options = Mapping[str, _specs.Option]


def compile(
    spec: str | os.PathLike[str],
    *,
    target: str = "cpu",
    key_dim: int,
    value_dim: int,
    state_layout: str = "kv",
    state_type: str = "f32",
    io_type: str = "bf16",
    index_type: str = "i32",
    options: Options | None = None,
    types: Mapping[str, str] | None = None,
    kind: str | Sequence[str] = "decode",
    window: int = 0,
    max_tokens: int = 4,
    log_type: str = "f32",
) -> packages.Package:
    """Compiles a kernel with dl-compile, for a device that need not be here, or takes the package
    from the cache, where its ``path`` is an ordinary file.

    Args:
        spec: the name of a shipped spec ("gdn", "kda", "rwkv6", "gated_delta_rule"), or the path of
            an ``.mlir`` file.
        target: as dl-compile --list-targets has them: "cpu", "sm_90a".
        key_dim, value_dim: K and V, multiples of 4 from 16 to 256.
        state_layout: "kv" or "vk", the last axis contiguous.
        state_type: data type of the states: "f32", "bf16", "f16".
        io_type: of inputs and outputs that neither the spec nor ``types`` pins.
        index_type: of slot numbers, sequence starts and acceptance: "i32" or "i64".
        options: the spec's options, such as ``{"gate": "bounded", "lower_bound": -5}``.
        types: data types of single inputs, outputs or parameters.
        kind: "decode", the recurrent kernel; "prefill", the chunkwise one, for long rows, which
            keeps a row's last state only; "plan", "append", "merge", "materialize", those of states
            that are a base and a log; or several of them.
        window: entries of a log before it is merged; 0: what the traffic model proposes.
        max_tokens: tokens of a row, drafts included, that a step can append to a log, 1 to 16.
        log_type: data type of what is computed for a log: "f32" or "bf16".

    Raises:
        NotFound: there is no dl-compile; says the command to run where there is one.
        CompileError: dl-compile refuses it, and says why.
    """
    request = packages.Request(
        _specs.find(spec),
        key_dim,
        value_dim,
        state_layout,
        state_type,
        io_type,
        index_type,
        kind if isinstance(kind, str) else ",".join(kind),
        tuple((options or {}).items()),
        tuple((types or {}).items()),
        window,
        max_tokens,
        log_type,
    )
    return cache.compiled(request.resolved(), target)


def kernel(
    spec: str | os.PathLike[str],
    *,
    key_dim: int,
    value_dim: int,
    state_layout: str = "kv",
    state_type: str = "f32",
    io_type: str = "bf16",
    index_type: str = "i32",
    options: Options | None = None,
    types: Mapping[str, str] | None = None,
    kind: str = "decode",
    window: int = 0,
    max_tokens: int = 4,
    log_type: str = "f32",
    device: DeviceLike = "cpu",
) -> Kernel:
    """The kernel of a spec for a device, from a registered package or compiled.

    Args:
        device: where it shall run: "cpu", "cuda:1", a torch.device, a CUDA ordinal.

    The other arguments, and errors, are those of :func:`compile`.
    """
    request = packages.Request(
        _specs.find(spec),
        key_dim,
        value_dim,
        state_layout,
        state_type,
        io_type,
        index_type,
        kind,
        tuple((options or {}).items()),
        tuple((types or {}).items()),
        window,
        max_tokens,
        log_type,
    )
    return packages.find_kernel(request, device)


class LogKernels(NamedTuple):
    """The kernels that keep states as a base and a log, of one package: what
    :class:`linattn.LogPool` calls. They agree in window, longest step and ring."""

    plan: Kernel
    append: Kernel
    merge: Kernel
    materialize: Kernel


def log_kernels(
    spec: str | os.PathLike[str],
    *,
    key_dim: int,
    value_dim: int,
    window: int = 0,
    max_tokens: int = 4,
    log_type: str = "f32",
    state_layout: str = "kv",
    state_type: str = "f32",
    io_type: str = "bf16",
    index_type: str = "i32",
    options: Options | None = None,
    types: Mapping[str, str] | None = None,
    device: DeviceLike = "cpu",
) -> LogKernels:
    """The kernels of a log for a spec and a device, from a registered package or compiled.

    Args:
        window: entries of a log before it is merged; 0: of a registered package any, else what the
            traffic model proposes.
        max_tokens: tokens of a row, drafts included, that a step can append, 1 to 16.
        log_type: data type of what is computed for the log: "f32" or "bf16". Copies of inputs have
            the inputs' types.
        device: where they shall run: "cpu", "cuda:1", a torch.device, a CUDA ordinal.

    The other arguments, and errors, are those of :func:`compile`.
    """
    request = packages.Request(
        _specs.find(spec),
        key_dim,
        value_dim,
        state_layout,
        state_type,
        io_type,
        index_type,
        ",".join(packages.LOG_KINDS),
        tuple((options or {}).items()),
        tuple((types or {}).items()),
        window,
        max_tokens,
        log_type,
    )
    return LogKernels(*packages.find_kernels(request, device))


def prepare(function: Any, *arguments: Any, **named: Any) -> None:
    """Loads what a call will need, without launching anything: ``prepare(fused_recurrent_kda, q, k,
    v, g, beta, ...)`` before a CUDA graph is captured. Only data types, flags, K, V and the device
    count, so small tensors will do.

    Args:
        function: one of this package's functions on torch tensors, or a :class:`linattn.Kernel`.
        *arguments, **named: as in the call.

    Raises:
        Error: what the call itself would raise.
    """
    if isinstance(function, Kernel):
        function.prepare(*arguments, **named)
        return
    import torch

    from . import _forms

    _forms.mode.preparing = True
    try:
        with torch.no_grad():
            function(*arguments, **named)
    finally:
        _forms.mode.preparing = False
