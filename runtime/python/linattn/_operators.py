# _operators.py - The calls of fla's functions as forms.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each operator has one function here, which turns fla's flags into a form (:mod:`linattn._forms`)
and hands over the tensors. Its first argument says which kinds of kernels may serve the call. The
functions that users call are in :mod:`linattn.fla` and :mod:`linattn.chunk`; they call these
directly, since warnings name the line of their callers."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from . import _errors
from .recurrent import recurrent
from .steps import LABELS, step_form

# Kinds of kernels, the first that there can be. What has no chunkwise form (a factor per value
# channel, a K that is no multiple of 16) the recurrent kernel computes.
RECURRENT = "decode"
CHUNKWISE = "prefill,decode"

# Arguments of fla's other modes that callers pass along, which change nothing here.
_IGNORED = ("safe_gate", "chunk_size", "cu_seqlens_cpu", "disable_recompute")


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _scale(scale: float | None) -> str:
    """The names of the scalars that are given."""
    return "" if scale is None else "scale"


def _per_channel(options: str, beta_input: str) -> tuple[str, str]:
    """The same for a beta of each value channel, ``[B, T, HV, V]``."""
    options = options.replace("beta=logit", "beta=logits").replace("beta=value", "beta=values")
    return options, "bs:beta" if beta_input.startswith("b:") else "betas:beta"


def _state_layout(state_v_first: bool, extra: dict[str, Any]) -> str:
    """The state's layout, with the older name of the flag; refuses names that mean nothing."""
    if "transpose_state_layout" in extra:
        if state_v_first:
            raise _errors.InvalidArgument(
                "transpose_state_layout: expected state_v_first alone, its newer name, got both"
            )
        warnings.warn(
            "transpose_state_layout is the older name of state_v_first",
            DeprecationWarning,
            stacklevel=4,
        )
        state_v_first = extra.pop("transpose_state_layout")
    if extra.pop("head_first", False):
        raise _errors.InvalidArgument(
            "head_first: expected False ([B, T, heads, dim] tensors), got True"
        )
    unknown = [name for name in extra if name not in _IGNORED]
    if unknown:
        raise _errors.InvalidType(f"unexpected keyword argument '{unknown[0]}'")
    return "vk" if state_v_first else "kv"


def _rank(tensor: Any) -> int:
    """The number of dimensions; 0 for what is no tensor, which is refused later, by name."""
    return tensor.ndim if isinstance(tensor, Tensor) else 0


def _float32_state(initial_state: Tensor | None) -> Tensor | None:
    """The states as kernels take them; those of another type are converted, with a warning."""
    if not isinstance(initial_state, Tensor) or initial_state.dtype is torch.float32:
        return initial_state
    if not initial_state.dtype.is_floating_point:
        raise _errors.InvalidType(
            f"argument 'initial_state' dtype: expected torch.float32, got {initial_state.dtype}"
        )
    if not torch.compiler.is_compiling():
        warnings.warn(
            f"argument 'initial_state': converted from {initial_state.dtype} to torch.float32",
            _errors.CopyWarning,
            stacklevel=4,
        )
    return initial_state.float()


def _check_batch(name: str, tensor: Tensor, cu_seqlens: Tensor | None) -> None:
    if cu_seqlens is not None and _rank(tensor) and tensor.shape[0] != 1:
        raise _errors.InvalidArgument(
            f"argument '{name}' dimension 0: expected B = 1 with cu_seqlens, got {tensor.shape[0]}"
        )


def _beta(sigmoid: bool, negative: bool, default: str) -> tuple[str, str]:
    """Options and input of beta."""
    if negative and not sigmoid:
        raise _errors.InvalidArgument(
            "allow_neg_eigval: expected False without use_beta_sigmoid_in_kernel, got True"
        )
    if sigmoid:
        return f"beta=logit,beta_factor={2 if negative else 1}", f"b:beta{default}"
    return "beta=value", f"beta{default}"


def gated_delta_rule(
    kinds: str,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    g: Tensor | None,
    beta: Tensor | None,
    gk: Tensor | None = None,
    gv: Tensor | None = None,
    scale: float | None,
    initial_state: Tensor | None,
    output_final_state: bool,
    use_qk_l2norm_in_kernel: bool,
    use_gate_in_kernel: bool,
    A_log: Tensor | None,
    dt_bias: Tensor | None,
    use_beta_sigmoid_in_kernel: bool,
    allow_neg_eigval: bool,
    state_v_first: bool,
    cu_seqlens: Tensor | None,
    extra: dict[str, Any],
) -> tuple[Tensor, Tensor | None]:
    """See :func:`linattn.fused_recurrent_gated_delta_rule`; extra are unnamed arguments."""
    layout = _state_layout(state_v_first, extra)
    _check_batch("q", q, cu_seqlens)
    initial_state = _float32_state(initial_state)
    options, beta_input = _beta(use_beta_sigmoid_in_kernel, allow_neg_eigval, "=1")
    options += f",normalize={_flag(use_qk_l2norm_in_kernel)}"
    if use_gate_in_kernel:
        gate, names, gates = "softplus", "a:g,A_log,dt_bias=0", [g, A_log, dt_bias]
    else:
        gate, names, gates = "precomputed", "g=0", [g]
    spec, wide_beta = "gdn", _rank(beta) == 4
    if gv is not None or wide_beta or (gk is not None and (g is not None or use_gate_in_kernel)):
        spec = "gated_delta_rule"  # the spec with all of it
        options += f",key_gate={_flag(gk is not None)},value_gate={_flag(gv is not None)}"
        for name, tensor in (("gk", gk), ("gv", gv)):
            if tensor is not None:
                names, gates = f"{names},{name}", [*gates, tensor]
        if wide_beta:
            options, beta_input = _per_channel(options, beta_input)
    elif gk is not None:
        spec, names, gates = "kda", "g:gk", [gk]
    return recurrent(
        f"{spec}|{layout}|gate={gate},{options}|q,k,v,{names},{beta_input}|{_scale(scale)}|{kinds}",
        [q, k, v, *gates, beta],
        initial_state=initial_state,
        cu_seqlens=cu_seqlens,
        scalars=[] if scale is None else [scale],
        output_final_state=output_final_state,
    )


def _kda_gate(
    in_kernel: bool,
    lower_bound: float | None,
    g: Tensor,
    A_log: Tensor | None,
    dt_bias: Tensor | None,
    v: Tensor,
    k: Tensor,
) -> tuple[str, str, list[Tensor | None]]:
    """Options, names and tensors of KDA's gate."""
    if not in_kernel:
        return "gate=precomputed", "g", [g]
    if dt_bias is not None and (_rank(dt_bias), _rank(v), _rank(k)) == (1, 4, 4):
        heads, channels = v.shape[2], k.shape[3]
        if dt_bias.shape[0] != heads * channels:
            raise _errors.InvalidArgument(
                f"argument 'dt_bias' dimension 0: expected HV * K = {heads * channels}, "
                f"got {dt_bias.shape[0]}"
            )
        if dt_bias.stride(0) != 1:
            raise _errors.InvalidArgument(
                f"argument 'dt_bias' stride 0: expected 1, got {dt_bias.stride(0)}"
            )
        dt_bias = dt_bias.view(heads, channels)
    if lower_bound is None:
        return "gate=softplus", "a:g,A_log,dt_bias=0", [g, A_log, dt_bias]
    if not -5 <= lower_bound < 0:
        raise _errors.InvalidArgument(
            f"lower_bound: expected at least -5 and below 0, got {lower_bound}"
        )
    gate = f"gate=bounded,lower_bound={float(lower_bound)!r}"
    return gate, "a:g,A_log=0,dt_bias=0", [g, A_log, dt_bias]


def _kda_form(
    layout: str,
    tensors: tuple[Tensor, Tensor, Tensor, Tensor, Tensor],
    gate_tensors: tuple[Tensor | None, Tensor | None],
    in_kernel: tuple[bool, bool, bool, bool],
    lower_bound: float | None,
    scalars: str,
) -> tuple[str, list[Tensor | None]]:
    """The form of a call of KDA and its tensors, from (q, k, v, g, beta), (A_log, dt_bias), and the
    flags (normalize, gate, sigmoid of beta, negative eigenvalues)."""
    q, k, v, g, beta = tensors
    normalize, gate_in_kernel, sigmoid, negative = in_kernel
    gate, names, gates = _kda_gate(gate_in_kernel, lower_bound, g, *gate_tensors, v, k)
    options, beta_input = _beta(sigmoid, negative, "")
    options += f",normalize={_flag(normalize)}"
    spec = "kda"
    if _rank(beta) == 4:
        if gate_in_kernel:
            raise _errors.InvalidArgument(
                "argument 'beta' rank: expected 3 ([B, T, HV]) with use_gate_in_kernel, got 4"
            )
        spec, gate, names = "gated_delta_rule", "gate=none,key_gate=true", "gk:g"
        options, beta_input = _per_channel(options, beta_input)
    form = f"{spec}|{layout}|{gate},{options}|q,k,v,{names},{beta_input}|{scalars}"
    return form, [q, k, v, *gates, beta]


def kda(
    kinds: str,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    *,
    A_log: Tensor | None,
    dt_bias: Tensor | None,
    scale: float | None,
    initial_state: Tensor | None,
    output_final_state: bool,
    use_qk_l2norm_in_kernel: bool,
    use_gate_in_kernel: bool,
    use_beta_sigmoid_in_kernel: bool,
    allow_neg_eigval: bool,
    lower_bound: float | None,
    state_v_first: bool,
    cu_seqlens: Tensor | None,
    extra: dict[str, Any],
) -> tuple[Tensor, Tensor | None]:
    """See :func:`linattn.fused_recurrent_kda`; extra are unnamed arguments."""
    layout = _state_layout(state_v_first, extra)
    _check_batch("q", q, cu_seqlens)
    initial_state = _float32_state(initial_state)
    form, inputs = _kda_form(
        layout,
        (q, k, v, g, beta),
        (A_log, dt_bias),
        (
            use_qk_l2norm_in_kernel,
            use_gate_in_kernel,
            use_beta_sigmoid_in_kernel,
            allow_neg_eigval,
        ),
        lower_bound,
        f"{_scale(scale)}|{kinds}",
    )
    return recurrent(
        form,
        inputs,
        initial_state=initial_state,
        cu_seqlens=cu_seqlens,
        scalars=[] if scale is None else [scale],
        output_final_state=output_final_state,
    )


# What the arguments of fused_recurrent_kda_fwd are called, by their roles.
_POOL_LABELS = {
    **LABELS,
    "output": "out",
    "state_in": "initial_state",
    "state_out": "initial_state",
    "slots_in": "ssm_state_indices",
    "slots_out": "ssm_state_indices",
}


def kda_pool(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    *,
    A_log: Tensor | None,
    dt_bias: Tensor | None,
    scale: float | None,
    initial_state: Tensor | None,
    use_qk_l2norm_in_kernel: bool,
    use_gate_in_kernel: bool,
    use_beta_sigmoid_in_kernel: bool,
    allow_neg_eigval: bool,
    lower_bound: float | None,
    state_v_first: bool,
    cu_seqlens: Tensor | None,
    ssm_state_indices: Tensor | None,
    num_accepted_tokens: Tensor | None,
    out: Tensor | None,
    extra: dict[str, Any],
) -> tuple[Tensor, Tensor | None]:
    """See :func:`linattn.fused_recurrent_kda_fwd`; extra are unnamed arguments."""
    layout = _state_layout(state_v_first, extra)
    _check_batch("q", q, cu_seqlens)
    form, inputs = _kda_form(
        layout,
        (q, k, v, g, beta),
        (A_log, dt_bias),
        (
            use_qk_l2norm_in_kernel,
            use_gate_in_kernel,
            use_beta_sigmoid_in_kernel,
            allow_neg_eigval,
        ),
        lower_bound,
        _scale(scale),
    )
    if initial_state is None:
        raise _errors.InvalidArgument(
            "argument 'initial_state': expected a pool with inplace_final_state, got None"
        )
    if out is None and cu_seqlens is not None:
        out = torch.zeros_like(v)  # tokens of no sequence are not written
    out = step_form(
        form,
        inputs,
        pool=initial_state,
        output=out,
        src_slots=ssm_state_indices,
        dst_slots=ssm_state_indices,
        row_starts=cu_seqlens,
        accepted=num_accepted_tokens,
        scalars=[] if scale is None else [scale],
        labels=_POOL_LABELS,
    )
    return out, initial_state


def rwkv6(
    kinds: str,
    r: Tensor,
    k: Tensor,
    v: Tensor,
    w: Tensor,
    u: Tensor,
    *,
    scale: float | None,
    initial_state: Tensor | None,
    output_final_state: bool,
    cu_seqlens: Tensor | None,
    extra: dict[str, Any],
) -> tuple[Tensor, Tensor | None]:
    """See :func:`linattn.fused_recurrent_rwkv6`; extra are unnamed arguments."""
    _state_layout(False, extra)
    _check_batch("r", r, cu_seqlens)
    initial_state = _float32_state(initial_state)
    return recurrent(
        f"rwkv6|kv|decay=log|r,k,v,w,u|{_scale(scale)}|{kinds}",
        [r, k, v, w, u],
        initial_state=initial_state,
        cu_seqlens=cu_seqlens,
        scalars=[] if scale is None else [scale],
        output_final_state=output_final_state,
    )
