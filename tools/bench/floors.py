# The least time that a case can take: bytes, arithmetic and the measured ceilings.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ceilings are measured in the same run: an in-place scale of as many bytes as the states hold,
with one 16-byte access per thread, and a large bf16 matrix product."""

from __future__ import annotations

import dataclasses
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
    size = STATE_BYTES if case.state == "f32" else 2
    return len(case.row_lengths) * case.HV * case.K * case.V * size


def work_of(case: Case) -> Work:
    """Counts a case. Queries and keys are counted per key head, all else per value head."""
    N, tokens = len(case.row_lengths), case.tokens
    states = state_bytes(case) * (1 + (case.T if case.form == "snapshots" else 1))
    io = io_bytes(case)
    slots = {"functional": 0, "pool": 4 * N}.get(case.form, 4 * N * case.T)
    K, V, C = case.K, case.V, CHUNK
    if case.op == "rwkv6":
        per_token = 4 * K * V + 2 * C * K + 2 * C * V
    else:
        per_token = 6 * K * V + 4 * C * K + 4 * C * V + (2 * C * C) // 3
    if case.work != "prefill":  # a recurrence: a multiply and an add per element and product
        per_token = (4 if case.op == "rwkv6" else 6) * K * V
    return Work(states, states + io + slots, tokens * case.HV * per_token)


def io_bytes(case: Case) -> int:
    """Inputs and outputs of all tokens."""
    key, value = case.HQ * case.K, case.HV * case.V
    gate = {"gdn": case.HV, "kda": case.HV * case.K}.get(case.op, key)
    beta = 0 if case.op == "rwkv6" else case.HV
    return case.tokens * IO_BYTES * (2 * key + 2 * value + gate + beta)


@dataclass(frozen=True)
class LogTraffic:
    """What a step does to a row's log on average: entries read and written, and how often the base
    is written."""

    read: float
    written: float
    merges: float


def cycle_traffic(window: int) -> LogTraffic:
    """Single tokens, as the traffic model of dl-compile --explain counts them."""
    return LogTraffic((window - 1) / 2, 1.0, 1 / window)


def log_work(case: Case, entry: float, traffic: LogTraffic) -> Work:
    """A step of states that are a base and a log. `entry`: bytes of an entry per value head."""
    states = state_bytes(case)
    entries = case.B * case.HV * entry * (traffic.read + traffic.written)
    flops = work_of(dataclasses.replace(case, work="decode", form="pool")).flops
    moved = states * (1 + traffic.merges) + entries + io_bytes(case)
    return Work(states, round(moved), flops)


class Ceilings:
    """Measures a ceiling once and keeps it."""

    def __init__(self, device: torch.device, cache_bytes: int):
        self.device, self.cache_bytes = device, cache_bytes
        self.scales: dict[int, float] = {}
        self.reads: dict[int, float] = {}
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

    def floor(self, case: Case, work: Work | None = None) -> dict[str, Any]:
        """The floor of a case: the larger of its bytes and its arithmetic at the ceilings.

        Decode and append move hardly more than states: their ceiling is a scale of the same size,
        with what launching it costs. Prefill is compared with a scale of 1 GiB.
        """
        work = work or work_of(case)
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

    def read_ms(self, size: int) -> float:
        """Milliseconds of reading `size` bytes."""
        if size not in self.reads:
            self.reads[size] = self._measure_read(size)
        return self.reads[size]

    def _measure_read(self, size: int) -> float:
        count = size // 4
        sets = num_sets(size, self.cache_bytes) if self.device.type == "cuda" else 2
        buffers = [torch.ones(count, device=self.device) for _ in range(sets)]
        if self.device.type != "cuda":
            return time_cpu(lambda i: buffers[i].sum(), sets).median
        from .scale import read

        out = torch.zeros(1, device=self.device)

        def launcher(warps: int, vectors: int) -> Callable[[int], None]:
            block = warps * 32 * 4 * vectors
            grid = ((count + block - 1) // block,)

            def run(i: int) -> None:
                read[grid](buffers[i], out, count, BLOCK=block, num_warps=warps)

            run(0)
            return run

        choices = [(w, v) for w in (4, 8) for v in (1, 2, 4)]
        return min(time_graph(launcher(*choice), sets, 15).median for choice in choices)

    def log_floor(self, case: Case, entry: float, traffic: LogTraffic) -> dict[str, Any]:
        """The floor of a step on bases and logs: the bytes of `log_work` at the rate of a pass that
        only reads as many bytes as the states hold."""
        work = log_work(case, entry, traffic)
        size = state_bytes(case)
        memory_ms = self.read_ms(size) * work.bytes / size
        return {
            **asdict(work),
            "entry_bytes": entry,
            "log": asdict(traffic),
            "scale_bytes": size,
            "scale_ms": self.scale_ms(size),
            "read_ms": self.read_ms(size),
            "memory_ms": memory_ms,
            "tensor_ms": None,
            "ms": memory_ms,
        }

    def to_json(self) -> dict[str, Any]:
        return {
            "scales": [{"bytes": size, "ms": ms} for size, ms in sorted(self.scales.items())],
            "matmul_flops": self.matmul_flops,
        }
