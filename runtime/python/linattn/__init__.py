# __init__.py - What users of linattn see.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Linear-attention kernels, compiled ahead of time, from Python.

* ``fused_recurrent_gated_delta_rule``, ``fused_recurrent_kda``, ``fused_recurrent_rwkv6``: the fla
  library's functions (:mod:`linattn.fla`); they need torch. ``chunk_gated_delta_rule``,
  ``chunk_kda``, ``chunk_rwkv6``: the same for long rows (:mod:`linattn.chunk`).
* ``load("x.dlk").decode(q=..., S=pool, ...)``: any kernel of any operator, with torch tensors,
  numpy arrays or whatever has ``__dlpack__`` (:mod:`linattn.kernels`); torch is not needed.
* ``kernel("gdn", ...)``, ``compile("gdn", ...)``: the same from a spec, by dl-compile and a cache.
* ``step("gdn", S=pool, q=q, ...)``: one step on a pool of states, the kernel chosen by the tensors;
  it needs torch.
* ``LogPool(log_kernels("gdn", ...), slots=...)``: states as a base and a log of updates, with
  drafts, rollback and checkpoints (:mod:`linattn.log_pool`); it needs torch.
* ``prepare``: loads what a call will need, before a CUDA graph is captured.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from ._errors import (
    BadPackage,
    CaptureError,
    CompileError,
    CopyWarning,
    DeviceError,
    Error,
    FileError,
    GradientError,
    InvalidArgument,
    InvalidType,
    NotFound,
    OutOfMemory,
    Unsupported,
)
from .engine import LogKernels, compile, kernel, log_kernels, prepare
from .kernels import Kernel, Plan
from .packages import Package, add_packages, load

if TYPE_CHECKING:
    from .chunk import chunk_gated_delta_rule, chunk_gdn, chunk_kda, chunk_rwkv6
    from .fla import (
        fused_recurrent_gated_delta_rule,
        fused_recurrent_gdn,
        fused_recurrent_kda,
        fused_recurrent_kda_fwd,
        fused_recurrent_rwkv6,
    )
    from .log_pool import LogPool
    from .steps import step

__version__ = "0.1.0"

# What needs torch is imported when it is asked for, or now if torch is there already: a function
# that is being compiled by torch must not have to import anything.
_TORCH = {
    "LogPool": "log_pool",
    "chunk_gated_delta_rule": "chunk",
    "chunk_gdn": "chunk",
    "chunk_kda": "chunk",
    "chunk_rwkv6": "chunk",
    "fused_recurrent_gated_delta_rule": "fla",
    "fused_recurrent_gdn": "fla",
    "fused_recurrent_kda": "fla",
    "fused_recurrent_kda_fwd": "fla",
    "fused_recurrent_rwkv6": "fla",
    "step": "steps",
}

__all__ = [
    "BadPackage",
    "CaptureError",
    "CompileError",
    "CopyWarning",
    "DeviceError",
    "Error",
    "FileError",
    "GradientError",
    "InvalidArgument",
    "InvalidType",
    "Kernel",
    "LogKernels",
    "LogPool",
    "NotFound",
    "OutOfMemory",
    "Package",
    "Plan",
    "Unsupported",
    "add_packages",
    "chunk_gated_delta_rule",
    "chunk_gdn",
    "chunk_kda",
    "chunk_rwkv6",
    "compile",
    "fused_recurrent_gated_delta_rule",
    "fused_recurrent_gdn",
    "fused_recurrent_kda",
    "fused_recurrent_kda_fwd",
    "fused_recurrent_rwkv6",
    "kernel",
    "load",
    "log_kernels",
    "prepare",
    "step",
]


def __getattr__(name: str) -> Any:
    if name not in _TORCH:
        raise AttributeError(f"module 'linattn' has no attribute '{name}'")
    module = importlib.import_module(f"linattn.{_TORCH[name]}")
    value = getattr(module, name)
    globals()[name] = value
    return value


if sys.modules.get("torch") is not None:
    for _name in _TORCH:
        __getattr__(_name)
