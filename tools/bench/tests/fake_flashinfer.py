# FlashInfer's GDN functions in torch, as its documentation has them, and as strict as its kernels.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Only what the benchmark calls. What a compiled kernel refuses raises ValueError here as there."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
import torch.nn.functional as F

Tensor = torch.Tensor
KEY, VALUE = 128, 128


def _aligned(**tensors: Tensor) -> None:
    for name, tensor in tensors.items():
        if tensor.data_ptr() % 16:
            raise ValueError(f"Misaligned Tensor data on argument {name}")


def _has(tensor: Tensor, shape: tuple[int, ...], *kinds: torch.dtype) -> None:
    if tuple(tensor.shape) != shape or tensor.dtype not in kinds:
        raise ValueError(f"expected {shape} {kinds}, got {tuple(tensor.shape)} {tensor.dtype}")


def _unit_stride(tensor: Tensor) -> None:
    if tensor.stride(-1) != 1:
        raise ValueError(f"expected 1 as the last stride, got {tensor.stride()}")


def _norm(x: Tensor) -> Tensor:
    x = x.float()
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)


def _gates(A_log: Tensor, a: Tensor, dt_bias: Tensor) -> Tensor:
    return torch.exp(-A_log.exp() * F.softplus(a.float() + dt_bias))


def _token(S: Tensor, q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor) -> Tensor:
    """One token of rows [n, H, ...] on states [n, H, V, K], in place; returns outputs."""
    S *= decay[..., None, None]
    u = beta[..., None] * (v.float() - (S @ k[..., None])[..., 0])
    S += u[..., None] * k[..., None, :]
    return (S @ q[..., None])[..., 0]


def _check_decode(
    q: Tensor, k: Tensor, v: Tensor, pool: Tensor, read: Tensor, A_log: Tensor, a: Tensor,
    dt_bias: Tensor, b: Tensor, output: Tensor,
) -> None:  # fmt: skip
    B, T, H, _ = q.shape
    HV = v.shape[2]
    bf16, f32 = torch.bfloat16, torch.float32
    _has(q, (B, T, H, KEY), bf16)
    _has(k, (B, T, H, KEY), bf16)
    _has(v, (B, T, HV, VALUE), bf16)
    _has(output, (B, T, HV, VALUE), bf16)
    _has(a, (B, T, HV), bf16)
    _has(b, (B, T, HV), bf16)
    _has(A_log, (HV,), f32)
    _has(dt_bias, (HV,), f32)
    _has(pool, (pool.shape[0], HV, VALUE, KEY), f32)
    _has(read, (B,), torch.int32, torch.int64)
    _aligned(pool=pool, q=q, k=k, v=v, output=output, indices=read)
    for tensor in (q, k, v, a, b, output, pool, read):
        _unit_stride(tensor)


def _decode(
    q: Tensor, k: Tensor, v: Tensor, pool: Tensor, read: Tensor, A_log: Tensor, a: Tensor,
    dt_bias: Tensor, b: Tensor, scale: float | None, output: Tensor, use_qk_l2norm: bool,
    write: list[Tensor | None],
) -> None:  # fmt: skip
    """`write[t]` are the slots that get the state after token t."""
    group = v.shape[2] // q.shape[2]
    q, k = (_norm(x) if use_qk_l2norm else x.float() for x in (q, k))
    q, k = q.repeat_interleave(group, 2), k.repeat_interleave(group, 2)
    decay, beta = _gates(A_log, a, dt_bias), torch.sigmoid(b.float())
    scale = KEY**-0.5 if scale is None else scale
    used = read >= 0
    S = pool[read.clamp(min=0).long()]
    for t, slots in enumerate(write):
        o = scale * _token(S, q[:, t], k[:, t], v[:, t], decay[:, t], beta[:, t])
        output[used, t] = o[used].to(output.dtype)
        if slots is not None:
            pool[slots[used].long()] = S[used]


def gated_delta_rule_decode_pretranspose(
    q: Tensor, k: Tensor, v: Tensor, state: Tensor | None, A_log: Tensor, a: Tensor,
    dt_bias: Tensor, b: Tensor, scale: float | None = None, output: Tensor | None = None,
    use_qk_l2norm: bool = True, initial_state: Tensor | None = None,
    initial_state_indices: Tensor | None = None, output_state_indices: Tensor | None = None,
    intermediate_states_buffer: Any = None, disable_state_update: bool = False,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """One token on [V, K] states in a pool."""
    assert state is None and initial_state is not None and initial_state_indices is not None
    assert output is not None and intermediate_states_buffer is None and not disable_state_update
    assert q.shape[1] == 1
    read = initial_state_indices
    write = read if output_state_indices is None else output_state_indices
    _check_decode(q, k, v, initial_state, read, A_log, a, dt_bias, b, output)
    _aligned(output_indices=write)
    _decode(
        q, k, v, initial_state, read, A_log, a, dt_bias, b, scale, output, use_qk_l2norm, [write]
    )
    return output, initial_state


def gated_delta_rule_decode(*args: Any, **kwargs: Any) -> Any:
    """One token on dense [K, V] states: there is no form of the benchmark to call it for."""
    raise AssertionError("gated_delta_rule_decode has no slots")


def gated_delta_rule_mtp(
    q: Tensor, k: Tensor, v: Tensor, initial_state: Tensor, initial_state_indices: Tensor,
    A_log: Tensor, a: Tensor, dt_bias: Tensor, b: Tensor, scale: float | None = None,
    output: Tensor | None = None, intermediate_states_buffer: Any = None,
    ssm_state_indices: Tensor | None = None, disable_state_update: bool | None = None,
    use_qk_l2norm: bool = True, output_state_indices: Tensor | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Several tokens; each state to a slot of its own, and then nothing else is written."""
    assert output is not None and ssm_state_indices is not None
    assert intermediate_states_buffer is None and disable_state_update is False
    B, T = q.shape[:2]
    assert T >= 2
    read, slots = initial_state_indices, ssm_state_indices
    _check_decode(q, k, v, initial_state, read, A_log, a, dt_bias, b, output)
    _has(slots, (B, T), torch.int32)
    assert output_state_indices is None  # without effect beside ssm_state_indices
    _aligned(ssm_state_indices=slots)
    _unit_stride(slots)
    assert int(slots.min()) >= 0 and int(slots.max()) < len(initial_state)
    _decode(
        q, k, v, initial_state, read, A_log, a, dt_bias, b, scale, output, use_qk_l2norm,
        list(slots.unbind(1)),
    )  # fmt: skip
    return output, initial_state


def chunk_gated_delta_rule(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor | None = None, beta: Tensor | None = None,
    scale: float | None = None, initial_state: Tensor | None = None,
    output_final_state: bool = False, cu_seqlens: Tensor | None = None,
    use_qk_l2norm_in_kernel: bool = False, output: Tensor | None = None,
    output_state: Tensor | None = None, *, max_seqlen: int | None = None,
    gate_domain: str = "linear", use_gate_in_kernel: bool = False, A_log: Tensor | None = None,
    dt_bias: Tensor | None = None, beta_is_logit: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Packed rows on dense [V, K] states; `g` is a factor unless the gate is computed here."""
    assert cu_seqlens is not None and initial_state is not None and output_final_state
    assert output is not None and output_state is not None and gate_domain == "linear"
    assert g is not None and beta is not None and scale is not None
    tokens, H, _ = q.shape
    HV, rows = v.shape[1], len(cu_seqlens) - 1
    bf16, f32 = torch.bfloat16, torch.float32
    _has(q, (tokens, H, KEY), bf16)
    _has(k, (tokens, H, KEY), bf16)
    _has(v, (tokens, HV, VALUE), bf16)
    _has(output, (tokens, HV, VALUE), bf16)
    _has(g, (tokens, HV), f32, *([bf16] if use_gate_in_kernel else []))
    _has(beta, (tokens, HV), f32, *([bf16] if beta_is_logit else []))
    _has(cu_seqlens, (rows + 1,), torch.int32, torch.int64)
    for state in (initial_state, output_state):
        _has(state, (rows, HV, VALUE, KEY), f32)
    everything = (q, k, v, g, beta, output, initial_state, output_state, cu_seqlens)
    assert all(tensor.is_contiguous() for tensor in everything)
    _aligned(**{str(i): tensor for i, tensor in enumerate(everything)})
    starts = cu_seqlens.tolist()
    longest = int(cu_seqlens.diff().max())
    assert max_seqlen is None or longest <= max_seqlen <= tokens
    if use_gate_in_kernel:
        assert A_log is not None and dt_bias is not None
        g = _gates(A_log, g, dt_bias)
    if beta_is_logit:
        beta = torch.sigmoid(beta.float()).to(beta.dtype)
    if use_qk_l2norm_in_kernel:
        q, k = _norm(q).to(bf16), _norm(k).to(bf16)
    q, k = (x.float().repeat_interleave(HV // H, 1) for x in (q, k))
    output_state.copy_(initial_state)
    for row in range(rows):
        S = output_state[row : row + 1]
        for t in range(starts[row], starts[row + 1]):
            at = slice(t, t + 1)
            o = _token(S, q[at], k[at], v[at], g[at], beta[at].float())
            output[at] = (scale * o).to(output.dtype)
    return output, output_state


def modules() -> dict[str, ModuleType]:
    """What sys.modules holds when the library is installed."""
    package = ModuleType("flashinfer")
    package.__dict__["__version__"] = "0.0"
    decode, prefill = ModuleType("flashinfer.gdn_decode"), ModuleType("flashinfer.gdn_prefill")
    for function in (
        gated_delta_rule_decode_pretranspose, gated_delta_rule_decode, gated_delta_rule_mtp,
    ):  # fmt: skip
        setattr(decode, function.__name__, function)
    setattr(prefill, chunk_gated_delta_rule.__name__, chunk_gated_delta_rule)
    return {module.__name__: module for module in (package, decode, prefill)}
