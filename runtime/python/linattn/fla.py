# fla.py - Functions that users of the fla library know, by the same names.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``fused_recurrent_*`` with the argument names, defaults, layouts and return values of
flash-linear-attention 0.5, on kernels that are compiled ahead of time. This is a thin layer:
:mod:`linattn._operators` turns flags into a form and hands over the tensors.

The mathematics is that of the specs (``examples/*.mlir``), which is fla's own: GDN is
arXiv:2412.06464, KDA arXiv:2510.26692, RWKV-6 arXiv:2404.05892. Arithmetic and states are float32.

Real strides are passed on; a tensor that no kernel can read as it lies (fla copies all that are not
contiguous) is copied, with a :class:`linattn.CopyWarning`. There is no backward pass, and asking
for a gradient raises ``NotImplementedError``.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from . import _errors, _operators


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
    return _operators.gated_delta_rule(
        _operators.RECURRENT,
        q,
        k,
        v,
        g=g,
        gk=gk,
        gv=gv,
        beta=beta,
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel,
        use_gate_in_kernel=use_gate_in_kernel,
        A_log=A_log,
        dt_bias=dt_bias,
        use_beta_sigmoid_in_kernel=use_beta_sigmoid_in_kernel,
        allow_neg_eigval=allow_neg_eigval,
        state_v_first=state_v_first,
        cu_seqlens=cu_seqlens,
        extra=kwargs,
    )


fused_recurrent_gdn = fused_recurrent_gated_delta_rule


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
    return _operators.kda(
        _operators.RECURRENT,
        q,
        k,
        v,
        g,
        beta,
        A_log=A_log,
        dt_bias=dt_bias,
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel,
        use_gate_in_kernel=use_gate_in_kernel,
        use_beta_sigmoid_in_kernel=use_beta_sigmoid_in_kernel,
        allow_neg_eigval=allow_neg_eigval,
        lower_bound=lower_bound,
        state_v_first=state_v_first,
        cu_seqlens=cu_seqlens,
        extra=kwargs,
    )


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
    if not inplace_final_state:
        if ssm_state_indices is not None or num_accepted_tokens is not None or out is not None:
            raise _errors.InvalidArgument(
                "inplace_final_state: expected True with ssm_state_indices, num_accepted_tokens or "
                "out, got False"
            )
        return _operators.kda(
            _operators.RECURRENT,
            q,
            k,
            v,
            g,
            beta,
            A_log=A_log,
            dt_bias=dt_bias,
            scale=scale,
            initial_state=initial_state,
            output_final_state=output_final_state,
            use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel,
            use_gate_in_kernel=use_gate_in_kernel,
            use_beta_sigmoid_in_kernel=use_beta_sigmoid_in_kernel,
            allow_neg_eigval=allow_neg_eigval,
            lower_bound=lower_bound,
            state_v_first=state_v_first,
            cu_seqlens=cu_seqlens,
            extra=kwargs,
        )
    return _operators.kda_pool(
        q,
        k,
        v,
        g,
        beta,
        A_log=A_log,
        dt_bias=dt_bias,
        scale=scale,
        initial_state=initial_state,
        use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel,
        use_gate_in_kernel=use_gate_in_kernel,
        use_beta_sigmoid_in_kernel=use_beta_sigmoid_in_kernel,
        allow_neg_eigval=allow_neg_eigval,
        lower_bound=lower_bound,
        state_v_first=state_v_first,
        cu_seqlens=cu_seqlens,
        ssm_state_indices=ssm_state_indices,
        num_accepted_tokens=num_accepted_tokens,
        out=out,
        extra=kwargs,
    )


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
    return _operators.rwkv6(
        _operators.RECURRENT,
        r,
        k,
        v,
        w,
        u,
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        cu_seqlens=cu_seqlens,
        extra={},
    )
