# chunk.py - The chunkwise functions of the fla library, by the same names.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``chunk_*`` with the argument names, defaults, layouts and return values of
flash-linear-attention 0.6: what :mod:`linattn.fla` computes token by token, for long rows. Kernels
of the kind "prefill" take rows in chunks, on tensor cores. What dl-compile refuses to do in chunks
the recurrent kernel computes, without a warning: factors of single value channels, a K that is no
multiple of 16, a state too large for a chip's registers (K = V = 256 on some).

Operands of products are bfloat16, sums, gates and states float32, whatever the inputs' types. So
float32 inputs gain nothing: relative RMS errors against double precision are 2e-3 to 4.5e-3 for K
from 64 on, of the operators KDA has the largest, and reach 5.3e-3 for K = 16. There is no backward
pass."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from . import _errors, _operators


def _refuse_modes(**modes: Any) -> None:
    """Refuses what has no counterpart here, if it is asked for."""
    for name, value in modes.items():
        if value is not None and value is not False:
            expected = False if value is True else None
            raise _errors.InvalidArgument(f"{name}: expected {expected}, got {value!r}")


def chunk_gated_delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    state_v_first: bool = False,
    cu_seqlens: Tensor | None = None,
    cu_seqlens_cpu: Tensor | None = None,
    chunk_indices: Tensor | None = None,
    cp_context: Any = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Gated delta rule over long rows.

    Args:
        q, k, v, g, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel,
            use_beta_sigmoid_in_kernel, allow_neg_eigval, state_v_first, cu_seqlens: as of
            :func:`linattn.fused_recurrent_gated_delta_rule`.
        cu_seqlens_cpu, chunk_indices: change nothing: kernels find chunks by themselves.
        cp_context: only None is supported.
        **kwargs: use_gate_in_kernel, A_log, dt_bias, as there; chunk_size changes nothing.

    Returns:
        o ``[B, T, HV, V]`` in v's data type, and the final states, float32, or None.

    Raises:
        ValueError, TypeError, NotImplementedError: as
            :func:`linattn.fused_recurrent_gated_delta_rule`.
    """
    _refuse_modes(cp_context=cp_context)
    return _operators.gated_delta_rule(
        _operators.CHUNKWISE,
        q,
        k,
        v,
        g=g,
        beta=beta,
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel,
        use_gate_in_kernel=kwargs.pop("use_gate_in_kernel", False),
        A_log=kwargs.pop("A_log", None),
        dt_bias=kwargs.pop("dt_bias", None),
        use_beta_sigmoid_in_kernel=use_beta_sigmoid_in_kernel,
        allow_neg_eigval=allow_neg_eigval,
        state_v_first=state_v_first,
        cu_seqlens=cu_seqlens,
        extra=kwargs,
    )


chunk_gdn = chunk_gated_delta_rule


def chunk_kda(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    use_gate_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    safe_gate: bool = False,
    lower_bound: float | None = None,
    disable_recompute: bool = False,
    return_intermediate_states: bool = False,
    state_v_first: bool = False,
    cu_seqlens: Tensor | None = None,
    cu_seqlens_cpu: Tensor | None = None,
    cp_context: Any = None,
    use_graph: bool = False,
    max_num_seqs: int | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """Kimi delta attention over long rows.

    Args:
        q, k, v, g, beta, scale, initial_state, output_final_state, use_qk_l2norm_in_kernel,
            use_gate_in_kernel, use_beta_sigmoid_in_kernel, allow_neg_eigval, lower_bound,
            state_v_first, cu_seqlens: as of :func:`linattn.fused_recurrent_kda`.
        safe_gate: requires lower_bound, as in fla, and changes nothing else: kernels take any gate.
        disable_recompute, cu_seqlens_cpu, use_graph: change nothing; calls may always be captured.
        return_intermediate_states, cp_context: only False and None are supported.
        max_num_seqs: N, as in fla, if it is given.
        **kwargs: A_log, dt_bias, as there; chunk_size changes nothing.

    Returns:
        o ``[B, T, HV, V]`` in v's data type, and the final states, float32, or None.

    Raises:
        ValueError, TypeError, NotImplementedError: as
            :func:`linattn.fused_recurrent_gated_delta_rule`.
    """
    _refuse_modes(cp_context=cp_context, return_intermediate_states=return_intermediate_states)
    if safe_gate and use_gate_in_kernel and lower_bound is None:
        raise _errors.InvalidArgument(
            "lower_bound: expected a number with safe_gate and use_gate_in_kernel, got None"
        )
    if max_num_seqs is not None and cu_seqlens is not None:
        rows = cu_seqlens.shape[0] - 1
        if use_graph and rows != max_num_seqs:
            raise _errors.InvalidArgument(
                f"argument 'cu_seqlens' dimension 0: expected max_num_seqs + 1 = "
                f"{max_num_seqs + 1}, got {rows + 1}"
            )
    return _operators.kda(
        _operators.CHUNKWISE,
        q,
        k,
        v,
        g,
        beta,
        A_log=kwargs.pop("A_log", None),
        dt_bias=kwargs.pop("dt_bias", None),
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


def chunk_rwkv6(
    r: Tensor,
    k: Tensor,
    v: Tensor,
    w: Tensor,
    u: Tensor,
    scale: float | None = None,
    initial_state: Tensor | None = None,
    output_final_state: bool = False,
    cu_seqlens: Tensor | None = None,
    cu_seqlens_cpu: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """RWKV-6 time mixing over long rows.

    Args:
        r, k, v, w, u, scale, initial_state, output_final_state, cu_seqlens: as of
            :func:`linattn.fused_recurrent_rwkv6`.
        cu_seqlens_cpu: changes nothing; nor does chunk_size, of the unnamed arguments.

    Returns:
        o ``[B, T, H, V]`` in v's data type, and the final states, float32, or None.

    Raises:
        ValueError, TypeError, NotImplementedError: as
            :func:`linattn.fused_recurrent_gated_delta_rule`.
    """
    return _operators.rwkv6(
        _operators.CHUNKWISE,
        r,
        k,
        v,
        w,
        u,
        scale=scale,
        initial_state=initial_state,
        output_final_state=output_final_state,
        cu_seqlens=cu_seqlens,
        extra=kwargs,
    )
