# fla.py - Functions that users of the fla library know, by the same names.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``fused_recurrent_*`` with the argument names, defaults, layouts and return values of
flash-linear-attention 0.5, on kernels that are compiled ahead of time. This is a thin layer: each
function turns its flags into a form (:mod:`linattn.recurrent`) and hands over its tensors.

The mathematics is that of the specs (``examples/*.mlir``), which is fla's own: GDN is
arXiv:2412.06464, KDA arXiv:2510.26692, RWKV-6 arXiv:2404.05892. Arithmetic and states are float32.

Real strides are passed on; a tensor that no kernel can read as it lies (fla copies all that are not
contiguous) is copied, with a :class:`linattn.CopyWarning`. There is no backward pass, and asking
for a gradient raises ``NotImplementedError``.
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

from . import _errors
from .recurrent import recurrent
from .steps import LABELS, step_form

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
            stacklevel=3,
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
            stacklevel=3,
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


def fused_recurrent_gated_delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None = None,
    gk: Tensor | None = None,
    gv: Tensor | None = None,
    beta: Tensor | None = None,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    use_gate_in_kernel: bool = False,
    A_log: Tensor | None = None,
    dt_bias: Tensor | None = None,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    state_v_first: bool = False,
    cu_seqlens: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Gated delta rule. For each token, with S the K x V state of a value head:

    ``S = exp(g) S;  S = S + k (beta (v - S^T k))^T;  o = scale S^T q``

    Args:
        q: queries ``[B, T, H, K]``.
        k: keys ``[B, T, H, K]``.
        v: values ``[B, T, HV, V]``; HV a multiple of H: value head j uses q and k of ``j*H//HV``.
        g: decays ``[B, T, HV]``, natural logarithms (at most 0). None: no decay. With
            use_gate_in_kernel the raw gate.
        gk: decays of each key channel ``[B, T, HV, K]``, natural logarithms.
        gv: decays of each value channel ``[B, T, HV, V]``, natural logarithms.
        beta: share of the value that is replaced, ``[B, T, HV]``. None: 1. With
            use_beta_sigmoid_in_kernel its logit.
        scale: factor of o. None: ``K ** -0.5``.
        initial_state: float32 ``[N, HV, K, V]`` (``[N, HV, V, K]`` with state_v_first) for N
            sequences; not modified. None: zeros.
        output_final_state: whether to return the final states.
        use_qk_l2norm_in_kernel: divides q and k by ``sqrt(sum of squares + 1e-6)``.
        use_gate_in_kernel: the decay is ``-exp(A_log) softplus(g + dt_bias)``.
        A_log: ``[HV]``; required by use_gate_in_kernel.
        dt_bias: ``[HV]``. None: 0.
        use_beta_sigmoid_in_kernel: beta is ``sigmoid(beta)``.
        allow_neg_eigval: beta is ``2 sigmoid(beta)``; requires use_beta_sigmoid_in_kernel.
        state_v_first: states are ``[V, K]`` matrices instead of ``[K, V]``.
        cu_seqlens: ``[N + 1]``, int64 or int32: sequence n has the tokens from cu_seqlens[n] to
            cu_seqlens[n + 1] of a batch of one. The caller's promise: begins with 0, never
            decreases, ends at most at T (on the CPU this is checked). Tokens behind the last
            sequence have undefined outputs.

    Activations and parameters are float32, float16 or bfloat16, each on its own; K and V are
    multiples of 4 from 16 to 256.

    Returns:
        o ``[B, T, HV, V]`` in v's data type, and the final states, float32, or None.

    Raises:
        ValueError: a shape, stride, alignment, device or combination that is not supported.
        TypeError: a data type, or an unknown argument.
        NotImplementedError: on backward.
    """
    layout = _state_layout(state_v_first, kwargs)
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
        f"{spec}|{layout}|gate={gate},{options}|q,k,v,{names},{beta_input}|{_scale(scale)}",
        [q, k, v, *gates, beta],
        initial_state=initial_state,
        cu_seqlens=cu_seqlens,
        scalars=[] if scale is None else [scale],
        output_final_state=output_final_state,
    )


fused_recurrent_gdn = fused_recurrent_gated_delta_rule


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


def fused_recurrent_kda(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    A_log: Tensor | None = None,
    dt_bias: Tensor | None = None,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    use_gate_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    lower_bound: float | None = None,
    state_v_first: bool = False,
    cu_seqlens: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Kimi delta attention: the gated delta rule with a decay of each key channel.

    ``S = diag(exp(g)) S;  S = S + k (beta (v - S^T k))^T;  o = scale S^T q``

    Args:
        q: queries ``[B, T, H, K]``.
        k: keys ``[B, T, H, K]``.
        v: values ``[B, T, HV, V]``; HV a multiple of H.
        g: decays ``[B, T, HV, K]``, natural logarithms; with use_gate_in_kernel the raw gate.
        beta: share of the value that is replaced, ``[B, T, HV]``; with
            use_beta_sigmoid_in_kernel its logit.
        A_log: ``[HV]``. None only with lower_bound: ``lower_bound sigmoid(g + dt_bias)``.
        dt_bias: ``[HV, K]`` or ``[HV * K]``. None: 0.
        scale: factor of o. None: ``K ** -0.5``.
        initial_state: float32 ``[N, HV, K, V]`` (``[N, HV, V, K]`` with state_v_first); not
            modified. None: zeros.
        output_final_state: whether to return the final states.
        use_qk_l2norm_in_kernel: divides q and k by ``sqrt(sum of squares + 1e-6)``.
        use_gate_in_kernel: the decay is ``-exp(A_log) softplus(g + dt_bias)``, or with lower_bound
            ``lower_bound sigmoid(exp(A_log) (g + dt_bias))``.
        use_beta_sigmoid_in_kernel: beta is ``sigmoid(beta)``.
        allow_neg_eigval: beta is ``2 sigmoid(beta)``; requires use_beta_sigmoid_in_kernel.
        lower_bound: least log decay, at least -5 and below 0; used with use_gate_in_kernel only.
        state_v_first: states are ``[V, K]`` matrices instead of ``[K, V]``.
        cu_seqlens: ``[N + 1]``, int64 or int32; see :func:`fused_recurrent_gated_delta_rule`.

    Returns:
        o ``[B, T, HV, V]`` in v's data type, and the final states, float32, or None.

    Raises:
        ValueError, TypeError, NotImplementedError: as
            :func:`fused_recurrent_gated_delta_rule`.
    """
    layout = _state_layout(state_v_first, kwargs)
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
        _scale(scale),
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


def fused_recurrent_kda_fwd(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    A_log: Tensor | None = None,
    dt_bias: Tensor | None = None,
    initial_state: Tensor | None = None,
    scale: float | None = None,
    output_final_state: bool = False,
    inplace_final_state: bool = True,
    state_v_first: bool = False,
    cu_seqlens: Tensor | None = None,
    ssm_state_indices: Tensor | None = None,
    num_accepted_tokens: Tensor | None = None,
    use_qk_l2norm_in_kernel: bool = False,
    use_gate_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    lower_bound: float | None = None,
    out: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Kimi delta attention on a pool of states; see :func:`fused_recurrent_kda` for the rest.

    Args:
        initial_state: the pool ``[slots, HV, K, V]`` (``[slots, HV, V, K]`` with state_v_first),
            float32, bfloat16 or float16, any slot stride; with inplace_final_state it is updated.
        inplace_final_state: False: as :func:`fused_recurrent_kda`; ssm_state_indices must be None.
        ssm_state_indices: ``[N]``: the slot of each row; ``[N, width]``: row n starts from
            ``[n, num_accepted_tokens[n] - 1]``, and the state after its token t goes to ``[n, t]``.
            A slot below 0 is padding: no state is touched, the outputs are zeros. None: slot n.
        num_accepted_tokens: ``[N]``, from 1 on. None: 1.
        out: ``[B, T, HV, V]``, written. None: allocated.

    ssm_state_indices, cu_seqlens and num_accepted_tokens are all int32 or all int64.

    Returns:
        out, and the pool (or what :func:`fused_recurrent_kda` returns).

    Raises:
        ValueError, TypeError: as :func:`fused_recurrent_gated_delta_rule`.
        NotImplementedError: a tensor requires a gradient, and grad mode is on.
    """
    layout = _state_layout(state_v_first, kwargs)
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
    scalars = [] if scale is None else [scale]
    if not inplace_final_state:
        if ssm_state_indices is not None or num_accepted_tokens is not None or out is not None:
            raise _errors.InvalidArgument(
                "inplace_final_state: expected True with ssm_state_indices, num_accepted_tokens or "
                "out, got False"
            )
        initial_state = _float32_state(initial_state)
        return recurrent(
            form,
            inputs,
            initial_state=initial_state,
            cu_seqlens=cu_seqlens,
            scalars=scalars,
            output_final_state=output_final_state,
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
        scalars=scalars,
        labels=_POOL_LABELS,
    )
    return out, initial_state


def fused_recurrent_rwkv6(
    r: Tensor,
    k: Tensor,
    v: Tensor,
    w: Tensor,
    u: Tensor,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    reverse: bool = False,
    cu_seqlens: Tensor | None = None,
) -> tuple[Tensor, Tensor | None]:
    """RWKV-6 time mixing: the output reads the state before the token changes it.

    ``o = scale (S^T r + (r . (u * k)) v);  S = diag(exp(w)) S + k v^T``

    Args:
        r: receptances ``[B, T, H, K]``.
        k: keys ``[B, T, H, K]``.
        v: values ``[B, T, H, V]``.
        w: decays ``[B, T, H, K]``, natural logarithms (at most 0).
        u: bonus of the current token ``[H, K]``.
        scale: factor of o. None: ``K ** -0.5``; the released RWKV-6 models use 1.
        initial_state: float32 ``[N, H, K, V]``; not modified. None: zeros.
        output_final_state: whether to return the final states.
        reverse: only False is supported.
        cu_seqlens: ``[N + 1]``, int64 or int32; see :func:`fused_recurrent_gated_delta_rule`.

    Returns:
        o ``[B, T, H, V]`` in v's data type, and the final states, float32, or None.

    Raises:
        ValueError, TypeError, NotImplementedError: as
            :func:`fused_recurrent_gated_delta_rule`.
    """
    if reverse:
        raise _errors.InvalidArgument("reverse: expected False, got True")
    _check_batch("r", r, cu_seqlens)
    initial_state = _float32_state(initial_state)
    return recurrent(
        f"rwkv6|kv|decay=log|r,k,v,w,u|{_scale(scale)}",
        [r, k, v, w, u],
        initial_state=initial_state,
        cu_seqlens=cu_seqlens,
        scalars=[] if scale is None else [scale],
        output_final_state=output_final_state,
    )
