# steps.py - Steps on pools of states, as inference engines make them.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""States live in pools ``[slots, HV, K, V]`` (layout kv) or ``[slots, HV, V, K]`` (vk) that a step
updates in place, with slot numbers, sequence starts and acceptance read from device memory when it
runs: one CUDA graph serves them all. runtime/ENGINES.md has the rules, with the names used here.

The operator of torch.library is ``linattn::step``: it writes an output and a pool, and returns
nothing. :mod:`linattn._forms` says what its first argument means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from . import _errors, _forms, _launch, _specs, _torch_ops
from .engine import Options

LABELS = {
    "output": "o",
    "state_in": "S_in",
    "state_out": "S",
    "slots_in": "src_slots",
    "slots_out": "dst_slots",
    "row_starts": "cu_seqlens",
    "row_flags": "has_initial_state",
    "accepted": "num_accepted_tokens",
}
_ROLES = tuple(LABELS)


def _launch_step(
    form: str,
    inputs: Sequence[Tensor | None],
    pool: Tensor,
    output: Tensor,
    pool_in: Tensor | None,
    src_slots: Tensor | None,
    dst_slots: Tensor | None,
    row_starts: Tensor | None,
    row_flags: Tensor | None,
    accepted: Tensor | None,
    scalars: Sequence[float],
    labels: dict[str, str],
) -> None:
    indices = (
        (labels["slots_in"], src_slots),
        (labels["slots_out"], dst_slots),
        (labels["row_starts"], row_starts),
        (labels["accepted"], accepted),
    )
    bound = _forms.bound_to(form, inputs, pool, indices)
    if _forms.mode.preparing:
        return
    tensors = bound.scatter(inputs)
    tensors[bound.output] = output
    tensors[bound.state_in] = pool if pool_in is None else pool_in
    tensors[bound.state_out] = pool
    tensors[bound.slots_in] = src_slots
    tensors[bound.slots_out] = dst_slots
    tensors[bound.row_starts] = row_starts
    tensors[bound.row_flags] = row_flags
    tensors[bound.accepted] = accepted
    bound.add_workspaces(tensors)
    try:
        _launch.launch(bound.plan.handle, tensors, bound.scalars(scalars), bound.stream())
    except _errors.Error as error:
        if pool_in is None:
            labels = {**labels, "state_in": labels["state_out"]}
        raise bound.relabelled(error, **labels) from None
    except (KeyError, RuntimeError):  # of a device or layout that has no address
        bound.explain(tensors, **labels)
        raise


# The same with an output that is given, and with a new one.
_REST = (
    "Tensor? pool_in=None, Tensor? src_slots=None, Tensor? dst_slots=None, "
    "Tensor? row_starts=None, Tensor? row_flags=None, Tensor? accepted=None, float[] scalars=[])"
)
for _schema in (
    f"step(str form, Tensor?[] inputs, Tensor(a!) pool, Tensor(b!) output, {_REST} -> ()",
    f"step_new(str form, Tensor?[] inputs, Tensor(a!) pool, {_REST} -> Tensor",
):
    _torch_ops.LIBRARY.define(_schema, tags=_torch_ops.TAGS)


def _new_output(form: str, inputs: Sequence[Tensor | None]) -> Tensor:
    parsed = _forms.parse(form)
    _forms.check_inputs(parsed, inputs)
    value = inputs[parsed.value]
    assert value is not None
    return torch.empty_like(value, memory_format=torch.contiguous_format)


def _step(
    form: str,
    inputs: Sequence[Tensor | None],
    pool: Tensor,
    output: Tensor,
    pool_in: Tensor | None = None,
    src_slots: Tensor | None = None,
    dst_slots: Tensor | None = None,
    row_starts: Tensor | None = None,
    row_flags: Tensor | None = None,
    accepted: Tensor | None = None,
    scalars: Sequence[float] = (),
) -> None:
    indices = (src_slots, dst_slots, row_starts, row_flags, accepted)
    _launch_step(form, inputs, pool, output, pool_in, *indices, scalars, LABELS)


def _step_new(
    form: str, inputs: Sequence[Tensor | None], pool: Tensor, *others: Any, **named: Any
) -> Tensor:
    output = _new_output(form, inputs)
    _step(form, inputs, pool, output, *others, **named)
    return output


def _fake_step(form: str, inputs: Sequence[Tensor | None], *others: Any, **named: Any) -> None:
    _forms.check_inputs(_forms.parse(form), inputs)


def _fake_step_new(
    form: str, inputs: Sequence[Tensor | None], *others: Any, **named: Any
) -> Tensor:
    return _new_output(form, inputs)


def _register(name: str, implementation: Any, fake: Any) -> Any:
    """Registers an operator for both devices; gradients are refused rather than forgotten."""

    def autograd(form: str, inputs: Sequence[Tensor | None], *others: Any, **named: Any) -> Any:
        tensors = (*inputs, *others, *named.values())
        _torch_ops.refuse_grad("step", [t for t in tensors if isinstance(t, Tensor)])
        with torch._C._AutoDispatchBelowAutograd():
            return op(form, inputs, *others, **named)

    for key in ("CPU", "CUDA"):
        _torch_ops.LIBRARY.impl(name, implementation, key)
    _torch_ops.LIBRARY.impl(name, autograd, "Autograd")
    torch.library.register_fake(f"linattn::{name}", fake, lib=_torch_ops.LIBRARY)
    op = getattr(torch.ops.linattn, name).default
    return op


_op = _register("step", _step, _fake_step)
_op_new = _register("step_new", _step_new, _fake_step_new)


def step_form(
    form: str,
    inputs: Sequence[Tensor | None],
    *,
    pool: Tensor,
    pool_in: Tensor | None = None,
    output: Tensor | None = None,
    src_slots: Tensor | None = None,
    dst_slots: Tensor | None = None,
    row_starts: Tensor | None = None,
    row_flags: Tensor | None = None,
    accepted: Tensor | None = None,
    scalars: Sequence[float] = (),
    labels: dict[str, str] = LABELS,
) -> Tensor:
    """Makes a step; see :func:`step`. Labels are what the caller calls the roles, for errors."""
    if pool_in is pool:
        pool_in = None
    indices = (src_slots, dst_slots, row_starts, row_flags, accepted)
    watched = (*inputs, output, pool, pool_in, *indices)
    if _torch_ops.is_plain(watched):
        _torch_ops.refuse_grad("step", watched)
        if output is None:
            output = _new_output(form, inputs)
        _launch_step(form, inputs, pool, output, pool_in, *indices, scalars, labels)
        return output
    if not torch.compiler.is_compiling():
        _forms.check_inputs(_forms.parse(form), inputs)
        named = zip(_ROLES, (output, pool_in, pool, *indices))
        _forms.check_tensors(**{labels[role]: tensor for role, tensor in named})
    if output is None:
        output = _op_new(form, inputs, pool, pool_in, *indices, scalars)
    else:
        _op(form, inputs, pool, output, pool_in, *indices, scalars)
    return output


def _option_texts(options: Options | None) -> str:
    pairs = sorted((options or {}).items())
    return ",".join(f"{name}={_specs.option_text(value)}" for name, value in pairs)


def step(
    spec: str,
    *,
    S: Any,
    S_in: Any = None,
    o: Any = None,
    src_slots: Any = None,
    dst_slots: Any = None,
    cu_seqlens: Any = None,
    has_initial_state: Any = None,
    num_accepted_tokens: Any = None,
    state_layout: str = "kv",
    options: Options | None = None,
    kind: str = "decode",
    **arguments: Any,
) -> Any:
    """One step of all rows on a pool of states, with torch tensors.

    Args:
        spec: the name of a shipped spec, or the path of an ``.mlir`` file.
        S: the pool ``[slots, HV, K, V]`` or ``[slots, HV, V, K]``, updated in place; float32,
            bfloat16 or float16; any slot and head strides, matrices packed.
        S_in: the pool to read from, if it is another one.
        o: the output to write. None: allocated.
        src_slots: ``[N]`` or ``[N, width]``: where row n starts from; None: slot n.
        dst_slots: ``[N]``: where its state goes; ``[N, width]``, width above 1: where the state
            after each token goes, and numbers below first_slot keep none. None: slot n.
        cu_seqlens: ``[N + 1]``: row n has these tokens of a batch of one. None: entry n.
        has_initial_state: ``[N]``, bool or uint8: False starts from zeros.
        num_accepted_tokens: ``[N]``: row n starts from ``src_slots[n, accepted - 1]``.
        state_layout: "kv" or "vk".
        options: the spec's options, by its own names.
        kind: "decode", token by token, or "prefill", in chunks on tensor cores: for long rows; then
            dst_slots is ``[N]``.
        **arguments: the spec's inputs and parameters by name, and scalars: ``scale``, and
            ``first_slot`` (default 0: rows whose slot is less are padding: no state is touched and
            their outputs are zeros).

    Slot arrays, cu_seqlens and num_accepted_tokens are all int32 or all int64.

    Returns:
        The output, ``[B, T, HV, V]``.

    Raises:
        ValueError: a shape, stride, alignment, size, device or option that is not supported.
        TypeError: a data type, or an unknown argument.
        NotImplementedError: a tensor requires a gradient, and grad mode is on.
    """
    names, tensors, scalar_names, scalars = [], [], [], []
    for name, value in arguments.items():
        if isinstance(value, Tensor):
            names.append(name)
            tensors.append(value)
        elif isinstance(value, (int, float)):
            scalar_names.append(name)
            scalars.append(float(value))
        elif value is not None:
            raise _errors.InvalidType(
                f"argument '{name}': expected a torch.Tensor or a number, "
                f"got {type(value).__name__}"
            )
    form = (
        f"{spec}|{state_layout}|{_option_texts(options)}|{','.join(names)}|{','.join(scalar_names)}"
        f"|{kind}"
    )
    return step_form(
        form,
        tensors,
        pool=S,
        pool_in=S_in,
        output=o,
        src_slots=src_slots,
        dst_slots=dst_slots,
        row_starts=cu_seqlens,
        row_flags=has_initial_state,
        accepted=num_accepted_tokens,
        scalars=scalars,
    )
