# recurrent.py - An operator over whole sequences: new outputs, new states.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The functional form of any operator: sequences in, outputs and final states out, nothing
modified. One operator of torch.library, ``linattn::recurrent``, serves all specs;
:mod:`linattn._forms` says what its first argument means."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from . import _errors, _forms, _launch, _torch_ops

# What the runtime says of a tensor that a packed copy would replace.
_LIES_BADLY = re.compile(
    r"argument '(.*?)' (?:stride \d+: expected (?:1|a multiple)|data: .*align)"
)


def run(
    form: str,
    inputs: Sequence[Tensor | None],
    initial_state: Tensor | None,
    row_starts: Tensor | None,
    scalars: Sequence[float],
    output_final_state: bool,
) -> tuple[Tensor, Tensor | None]:
    """Launches; see :func:`recurrent`. A tensor that the kernel refuses for how it lies is copied,
    as other implementations do, with a warning."""
    rest = (row_starts, scalars, output_final_state)
    try:
        return _run(form, inputs, initial_state, *rest)
    except _errors.InvalidArgument as error:
        refusal = error
    labels = [*(entry.label for entry in _forms.parse(form).inputs), "initial_state"]
    tensors = [*inputs, initial_state]
    copied: list[str] = []
    while True:
        found = _LIES_BADLY.match(str(refusal))
        if found is None or found[1] not in labels or found[1] in copied:
            raise refusal
        copied.append(found[1])
        place = labels.index(found[1])
        tensor = tensors[place]
        assert tensor is not None
        tensors[place] = tensor.clone(memory_format=torch.contiguous_format)
        try:
            result = _run(form, tensors[:-1], tensors[-1], *rest)
            break
        except _errors.InvalidArgument as error:
            refusal = error
    names = ", ".join(f"'{name}'" for name in copied)
    warnings.warn(
        f"arguments {names}: copied, since the kernel cannot read them as they lie; contiguous() "
        "at the caller avoids it",
        _errors.CopyWarning,
        stacklevel=5,
    )
    return result


def _check_sizes(
    bound: _forms.Bound,
    inputs: Sequence[Tensor | None],
    initial_state: Tensor | None,
    row_starts: Tensor | None,
) -> int:
    """The number of sequences; what depends on it has it."""
    form = bound.form
    key, value = inputs[form.key], inputs[form.value]
    assert key is not None and value is not None
    if key.ndim != 4 or value.ndim != 4:
        _forms.check_inputs(form, inputs)
    if key.shape[0] != value.shape[0]:
        raise _errors.InvalidArgument(
            f"argument '{form.inputs[form.value].label}' dimension 0: expected "
            f"B = {key.shape[0]} as in '{form.inputs[0].label}', got {value.shape[0]}"
        )
    rows = value.shape[0]
    if row_starts is not None:
        if row_starts.ndim != 1:
            raise _errors.InvalidArgument(
                f"argument 'cu_seqlens' rank: expected 1 ([N + 1]), got {row_starts.ndim}"
            )
        rows = max(row_starts.shape[0] - 1, 0)
    if initial_state is not None and (initial_state.ndim == 0 or initial_state.shape[0] != rows):
        raise _errors.InvalidArgument(
            f"argument 'initial_state' dimension 0: expected N = {rows}, "
            f"got {initial_state.shape[0] if initial_state.ndim else 'a number'}"
        )
    return rows


def _run(
    form: str,
    inputs: Sequence[Tensor | None],
    initial_state: Tensor | None,
    row_starts: Tensor | None,
    scalars: Sequence[float],
    output_final_state: bool,
) -> tuple[Tensor, Tensor | None]:
    bound = _forms.bound_to(
        form, inputs, initial_state, (("cu_seqlens", row_starts),), row_starts is not None
    )
    value = inputs[bound.form.value]
    assert value is not None
    rows = _check_sizes(bound, inputs, initial_state, row_starts)
    tokens, heads = value.shape[1:3]
    if _forms.mode.preparing:
        return value, initial_state
    output = torch.empty_like(value, memory_format=torch.contiguous_format)
    final: Tensor | None = None
    if output_final_state or not bound.states_by_token:
        final = torch.empty(
            (rows, heads, *bound.matrix), dtype=bound.state_dtype, device=bound.device
        )
    tensors = bound.scatter(inputs)
    tensors[bound.output] = output
    tensors[bound.row_starts] = row_starts
    _set_states(bound, tensors, (rows, tokens, heads), initial_state, final)
    bound.add_workspaces(tensors)
    try:
        _launch.launch(bound.plan.handle, tensors, bound.scalars(scalars), bound.stream())
    except _errors.Error as error:
        state = "final_state" if initial_state is None else "initial_state"
        raise bound.relabelled(error, state_in=state, state_out="final_state") from None
    except (KeyError, RuntimeError):  # of a device or layout that has no address
        bound.explain(tensors, state_in="initial_state", row_starts="cu_seqlens")
        raise
    return output, final if output_final_state else None


def _set_states(
    bound: _forms.Bound,
    tensors: list[Any],
    sizes: tuple[int, int, int],
    initial: Tensor | None,
    final: Tensor | None,
) -> None:
    """The states that are read and written, where any of them may not be wanted."""
    rows, tokens, heads = sizes
    read = initial if initial is not None else final
    if read is None:  # neither read nor written, but a pool has to be there
        shape = (1, heads, *bound.matrix)
        read = torch.empty(shape, dtype=bound.state_dtype, device=bound.device)
        tensors[bound.slots_in] = bound.slot_zero.view((rows,))
    tensors[bound.state_in] = read
    tensors[bound.state_out] = read if final is None else final
    if final is None:
        # Two destinations or more per row, all of them "none": the state is not kept.
        tensors[bound.slots_out] = bound.no_slot.view((rows, max(tokens, 2)))
    if initial is None:
        tensors[bound.row_flags] = bound.fresh.view((rows,))


_torch_ops.LIBRARY.define(
    "recurrent(str form, Tensor?[] inputs, Tensor? initial_state, Tensor? row_starts, "
    "float[] scalars, bool output_final_state) -> (Tensor, Tensor)",
    tags=_torch_ops.TAGS,
)


def _implementation(
    form: str,
    inputs: Sequence[Tensor | None],
    initial_state: Tensor | None,
    row_starts: Tensor | None,
    scalars: Sequence[float],
    output_final_state: bool,
) -> tuple[Tensor, Tensor]:
    output, final = run(form, inputs, initial_state, row_starts, scalars, output_final_state)
    return output, output.new_empty(0, dtype=torch.float32) if final is None else final


def _fake(
    form: str,
    inputs: Sequence[Tensor | None],
    initial_state: Tensor | None,
    row_starts: Tensor | None,
    scalars: Sequence[float],
    output_final_state: bool,
) -> tuple[Tensor, Tensor]:
    parsed = _forms.parse(form)
    _forms.check_inputs(parsed, inputs)
    key, value = inputs[parsed.key], inputs[parsed.value]
    assert key is not None and value is not None
    dtype = torch.float32 if initial_state is None else initial_state.dtype
    output = torch.empty_like(value, memory_format=torch.contiguous_format)
    if not output_final_state:
        return output, value.new_empty(0, dtype=torch.float32)
    rows = value.shape[0] if row_starts is None else row_starts.shape[0] - 1
    matrix = [key.shape[-1], value.shape[-1]]
    if parsed.layout == "vk":
        matrix.reverse()
    shape = (rows, value.shape[2], *matrix)
    return output, value.new_empty(shape, dtype=dtype)


def _backward(ctx: Any, *gradients: Any) -> Any:
    raise _errors.GradientError(
        "linattn: the kernels have no backward pass; train with another library, and call these "
        "under torch.no_grad()"
    )


for _key in ("CPU", "CUDA"):
    _torch_ops.LIBRARY.impl("recurrent", _implementation, _key)
torch.library.register_fake("linattn::recurrent", _fake, lib=_torch_ops.LIBRARY)
torch.library.register_autograd("linattn::recurrent", _backward, lib=_torch_ops.LIBRARY)
_op = torch.ops.linattn.recurrent.default


def recurrent(
    form: str,
    inputs: Sequence[Tensor | None],
    *,
    initial_state: Tensor | None = None,
    cu_seqlens: Tensor | None = None,
    scalars: Sequence[float] = (),
    output_final_state: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Runs an operator over sequences.

    Args:
        form: the operator and how it is called; see :mod:`linattn._forms`.
        inputs: the tensors that the form names, in its order: activations ``[B, T, heads, dim]`` or
            ``[B, T, heads]``, parameters ``[heads, dim]`` or ``[heads]``; float32, float16 or
            bfloat16, each on its own.
        initial_state: ``[N, HV, K, V]`` (layout kv) or ``[N, HV, V, K]`` (vk); not modified. None:
            zeros. This and the inputs are copied, with a :class:`linattn.CopyWarning`, where the
            kernel cannot read them as they lie.
        cu_seqlens: ``[N + 1]``, int32 or int64: where sequences begin in a batch of one. None:
            every entry of the batch is a sequence.
        scalars: the numbers that the form names, in its order.
        output_final_state: whether the states after the last tokens are wanted.

    Returns:
        The output, of the value input's shape and data type, and the final states, new, in the
        initial states' data type (default float32), or None.

    Raises:
        Error: as the functions of :mod:`linattn.fla`.
    """
    watched = (*inputs, initial_state, cu_seqlens)
    if _torch_ops.is_plain(watched) and not _torch_ops.needs_grad(watched):
        return run(form, inputs, initial_state, cu_seqlens, scalars, output_final_state)
    if not torch.compiler.is_compiling():
        _forms.check_inputs(_forms.parse(form), inputs)
        _forms.check_tensors(initial_state=initial_state, cu_seqlens=cu_seqlens)
    output, final = _op(form, inputs, initial_state, cu_seqlens, scalars, output_final_state)
    return output, final if output_final_state else None
