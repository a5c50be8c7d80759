# The least time that a case can take: bytes, arithmetic and the measured ceilings.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ceilings are measured in the same run: an in-place scale of as many bytes as the states hold,
with one 16-byte access per thread, and a large bf16 matrix product."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from .cases import Case
from .timing import num_sets, time_cpu, time_graph

STATE_BYTES = 4  # fp32
IO_BYTES = 2  # bf16
CHUNK = 64  # of the chunk form whose arithmetic is counted
MATMUL_SIZE = 8192
STREAM_BYTES = 1 << 30  # where states are small, traffic is compared with a scale of this size


@dataclass(frozen=True)
class Work:
    """bytes: each input read and each output written once; flops: of the chunk form."""

    state_bytes: int  # read and written
    bytes: int
    flops: int


def state_bytes(case: Case) -> int:
    """The bytes of all rows' states."""
    return len(case.row_lengths) * case.HV * case.K * case.V * STATE_BYTES


def work_of(case: Case) -> Work:
    """Counts a case. Queries and keys are counted per key head, all else per value head."""
    N, tokens = len(case.row_lengths), case.tokens
    states = state_bytes(case) * (1 + (case.T if case.form == "snapshots" else 1))
    key, value = case.HQ * case.K, case.HV * case.V
    gate = {"gdn": case.HV, "kda": case.HV * case.K}.get(case.op, key)
    beta = 0 if case.op == "rwkv6" else case.HV
    io = tokens * IO_BYTES * (2 * key + 2 * value + gate + beta)
    slots = {"functional": 0, "pool": 4 * N}.get(case.form, 4 * N * case.T)
    K, V, C = case.K, case.V, CHUNK
    if case.op == "rwkv6":
        per_token = 4 * K * V + 2 * C * K + 2 * C * V
    else:
        per_token = 6 * K * V + 4 * C * K + 4 * C * V + (2 * C * C) // 3
    if case.work != "prefill":  # a recurrence: a multiply and an add per element and product
        per_token = (4 if case.op == "rwkv6" else 6) * K * V
    return Work(states, states + io + slots, tokens * case.HV * per_token)


class Ceilings:
    """Measures a ceiling once and keeps it."""

    def __init__(self, device: torch.device, cache_bytes: int):
        self.device, self.cache_bytes = device, cache_bytes
        self.scales: dict[int, float] = {}
        self.matmul_flops: float | None = None

    def scale_ms(self, size: int) -> float:
        """Milliseconds of an in-place scale of `size` bytes."""
        if size not in self.scales:
            self.scales[size] = self._measure_scale(size)
        return self.scales[size]

    def _measure_scale(self, size: int) -> float:
        count = size // 4
        sets = num_sets(size, self.cache_bytes) if self.device.type == "cuda" else 2
        buffers = [torch.ones(count, device=self.device) for _ in range(sets)]
        if self.device.type != "cuda":
            return time_cpu(lambda i: buffers[i].mul_(1.0), sets).median
        from .scale import scale_in_place

        def launcher(warps: int) -> Callable[[int], None]:
            block = warps * 32 * 4  # four floats, 16 bytes, per thread
            grid = ((count + block - 1) // block,)

            def run(i: int) -> None:
                scale_in_place[grid](buffers[i], count, 1.0, BLOCK=block, num_warps=warps)

            run(0)
            return run

        return min(time_graph(launcher(w), sets, 15).median for w in (4, 8, 16, 32))

    def bandwidth(self, size: int) -> float:
        """Bytes per second of the scale, counting bytes read and written."""
        return 2 * size / (1e-3 * self.scale_ms(size))

    def flops(self) -> float:
        """Flop per second of a large bf16 matrix product; of a small fp32 one on a CPU."""
        if self.matmul_flops is None:
            on_gpu = self.device.type == "cuda"
            n = MATMUL_SIZE if on_gpu else 256
            dtype = torch.bfloat16 if on_gpu else torch.float32
            a = torch.randn(n, n, device=self.device).to(dtype)
            b = torch.randn(n, n, device=self.device).to(dtype)
            timer = time_graph if on_gpu else time_cpu
            ms = timer(lambda i: a @ b, 2).median
            self.matmul_flops = 2 * n**3 / (1e-3 * ms)
        return self.matmul_flops

    def floor(self, case: Case) -> dict[str, Any]:
        """The floor of a case: the larger of its bytes and its arithmetic at the ceilings.

        Decode and append move hardly more than states: their ceiling is a scale of the same size,
        with what launching it costs. Prefill is compared with a scale of 1 GiB.
        """
        work = work_of(case)
        is_prefill = case.work == "prefill"
        on_gpu = self.device.type == "cuda"
        size = (STREAM_BYTES if on_gpu else 1 << 24) if is_prefill else state_bytes(case)
        bandwidth = self.bandwidth(size)
        memory_ms = 1e3 * work.bytes / bandwidth
        tensor_ms = 1e3 * work.flops / self.flops() if is_prefill else None
        return {
            **asdict(work),
            "scale_bytes": size,
            "scale_ms": self.scale_ms(size),
            "memory_ms": memory_ms,
            "tensor_ms": tensor_ms,
            "ms": max(memory_ms, tensor_ms or 0.0),
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "scales": [{"bytes": size, "ms": ms} for size, ms in sorted(self.scales.items())],
            "matmul_flops": self.matmul_flops,
        }
