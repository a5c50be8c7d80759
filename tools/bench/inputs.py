# Random inputs of a case, and the buffers that a timing rotates over.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Inputs are the same tensors for every peer. They hold what a model's layer would hand over: raw
gates, logits of beta, queries and keys that are not normalised. Activations are bf16, parameters
and states fp32."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import torch

from .cases import Case


@dataclass
class Inputs:
    """The tensors of one launch. `q` is r for RWKV6, `gate` is its log decay w.

    q, k: [B, T, HQ, K]; v: [B, T, HV, V]; gate: [B, T, HV] (gdn), [B, T, HV, K] (kda) or
    [B, T, HQ, K] (rwkv6); b: [B, T, HV]; A_log: [HV]; dt_bias: [HV] or [HV * K]; u: [HQ, K];
    state: [N, HV, K, V] or [N, HV, V, K]; cu_seqlens: [N + 1], int64. Packed rows have B = 1.
    """

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    gate: torch.Tensor
    b: torch.Tensor | None
    A_log: torch.Tensor | None
    dt_bias: torch.Tensor | None
    u: torch.Tensor | None
    state: torch.Tensor
    cu_seqlens: torch.Tensor | None
    scale: float

    def copy(self) -> Inputs:
        """The same numbers at other addresses. `cu_seqlens` is shared: libraries remember what
        they derived from it on the host by the tensor's identity, and cannot in a capture."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        for name, value in values.items():
            if isinstance(value, torch.Tensor) and name != "cu_seqlens":
                values[name] = value.clone()
        return Inputs(**values)


@dataclass
class Workload:
    """A case with its buffers. Launch number i of a timing works on set i of `sets`.

    pool: [slots, HV, ...] and slots[i]: [N] or, for snapshots, [N, T], int32; slot 0 stays unused,
    as engines keep it for padding. Only the forms that have a pool have these. Every tensor, the
    slots of a set too, is contiguous and in memory of its own.
    """

    case: Case
    gates: str
    sets: list[Inputs]
    pool: torch.Tensor | None = None
    slots: list[torch.Tensor] | None = None

    @property
    def device(self) -> torch.device:
        return self.sets[0].q.device

    def reset_pool(self) -> None:
        """Puts the initial states into the slots from which the rows of each set start."""
        if self.pool is None or self.slots is None:
            return
        for inputs, slots in zip(self.sets, self.slots, strict=True):
            first = slots if slots.dim() == 1 else slots[:, 0]
            self.pool.index_copy_(0, first.long(), inputs.state.to(self.pool.dtype))


def own_memory(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous copy that starts where allocations do: aligned to 64 bytes, on a GPU to 512.

    A part of a tensor may start anywhere, and keeps strides of its own in dimensions of size 1 even
    where it counts as contiguous: kernels that were compiled for an alignment then refuse it.
    """
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device).copy_(tensor)


def _randn(shape: tuple[int, ...], device: str, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(shape, device=device, generator=generator)


def _uniform(shape: tuple[int, ...], low: float, high: float, device: str, g: torch.Generator):
    return torch.rand(shape, device=device, generator=g) * (high - low) + low


def _softplus_gate(case: Case, shape: tuple[int, ...], gates: str, device: str, g: torch.Generator):
    """Raw gates with A_log and dt_bias for g = -exp(A_log) softplus(a + dt_bias).

    weak: as layers are initialised, A uniform in 1..16 and softplus(dt_bias) log-uniform in
    1e-3..0.1. strong: the mean of g is -3.3 (softplus of a standard normal has the mean 0.806).
    """
    bias_shape = (math.prod(shape[2:]),)
    if gates == "weak":
        A_log = _uniform((case.HV,), 1, 16, device, g).log()
        dt = _uniform(bias_shape, math.log(1e-3), math.log(0.1), device, g).exp()
        dt_bias = dt + torch.log(-torch.expm1(-dt))  # the inverse of softplus
        return 0.5 * _randn(shape, device, g), A_log, dt_bias
    A_log = torch.full((case.HV,), math.log(3.3 / 0.806), device=device)
    noise = _randn(shape, device, g)
    bias = 0.5 * _randn(bias_shape, device, g)
    # The sum with the bias is standard normal again.
    return noise - bias.view(shape[2:]), A_log, bias


def _bounded_gate(case: Case, shape: tuple[int, ...], gates: str, device: str, g: torch.Generator):
    """The same for g = LOWER_BOUND sigmoid(exp(A_log) (a + dt_bias)).

    weak: g above -0.02 or so in every channel, -0.008 on average. strong: -3.3 on average.
    """
    mean, deviation = (-6.5, 0.4) if gates == "weak" else (0.78, 1.0)
    A_log = torch.zeros((case.HV,), device=device)
    bias = 0.1 * _randn((math.prod(shape[2:]),), device, g) + mean
    return deviation * _randn(shape, device, g), A_log, bias


def _log_gate(shape: tuple[int, ...], gates: str, device: str, g: torch.Generator) -> torch.Tensor:
    """RWKV6's w = -exp(x). weak: x uniform in -6..-1, as its layers begin. strong: mean w -3.3."""
    if gates == "weak":
        return -_uniform(shape, -6, -1, device, g).exp()
    spread = 0.5
    mean = math.log(3.3) - spread**2 / 2
    return -(mean + spread * _randn(shape, device, g)).exp()


def make_inputs(case: Case, gates: str, device: str, seed: int = 1) -> Inputs:
    """Draws the inputs of a case; the same seed gives the same numbers on one kind of device."""
    g = torch.Generator(device=device)
    g.manual_seed(seed)
    B, T = case.batch_tokens
    bf16 = torch.bfloat16
    gate_shape = {"gdn": (B, T, case.HV), "kda": (B, T, case.HV, case.K)}.get(
        case.op, (B, T, case.HQ, case.K)
    )
    A_log = dt_bias = u = b = None
    if case.op == "rwkv6":
        gate = _log_gate(gate_shape, gates, device, g)
        u = 0.5 * _randn((case.HQ, case.K), device, g)
    else:
        make = _bounded_gate if case.gate == "bounded" else _softplus_gate
        gate, A_log, dt_bias = make(case, gate_shape, gates, device, g)
        b = _randn((B, T, case.HV), device, g).to(bf16)
    matrix = (case.K, case.V) if case.layout == "kv" else (case.V, case.K)
    # RWKV6 does not normalise: vectors of length about one keep its state in the same range.
    key_scale = case.K**-0.5 if case.op == "rwkv6" else 1.0
    cu_seqlens = None
    if case.is_packed:
        ends = torch.tensor(case.row_lengths, dtype=torch.int64).cumsum(0)
        cu_seqlens = torch.cat([torch.zeros(1, dtype=torch.int64), ends]).to(device)
    return Inputs(
        q=(_randn((B, T, case.HQ, case.K), device, g) * key_scale).to(bf16),
        k=(_randn((B, T, case.HQ, case.K), device, g) * key_scale).to(bf16),
        v=_randn((B, T, case.HV, case.V), device, g).to(bf16),
        gate=gate.to(bf16),
        b=b,
        A_log=A_log,
        dt_bias=dt_bias,
        u=u,
        state=0.3 * _randn((len(case.row_lengths), case.HV, *matrix), device, g),
        cu_seqlens=cu_seqlens,
        # Released RWKV-6 models do not scale.
        scale=1.0 if case.op == "rwkv6" else case.K**-0.5,
    )


def make_workload(
    case: Case, gates: str, device: str, num_sets: int, seed: int = 1, shuffle_slots: bool = True
) -> Workload:
    """Inputs in `num_sets` places, and a pool where the form has one."""
    first = make_inputs(case, gates, device, seed)
    sets = [first] + [first.copy() for _ in range(num_sets - 1)]
    work = Workload(case, gates, sets)
    if case.form == "functional":
        return work
    rows = len(case.row_lengths)
    per_row = case.T if case.form == "snapshots" else 1
    total = rows * per_row * num_sets
    order = torch.arange(total)
    if shuffle_slots:  # they lie in no order in an engine that has run for a while
        order = torch.randperm(total, generator=torch.Generator().manual_seed(seed))
    order = (order + 1).to(torch.int32).to(device)
    shape = (rows, per_row) if case.form == "snapshots" else (rows,)
    work.slots = [own_memory(part.reshape(shape)) for part in order.chunk(num_sets)]
    dtype = torch.bfloat16 if case.state == "bf16" else torch.float32
    work.pool = torch.zeros((total + 1, *first.state.shape[1:]), dtype=dtype, device=device)
    work.reset_pool()
    return work
