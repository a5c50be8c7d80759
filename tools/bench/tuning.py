# Shortens the first calls of Triton kernels: compiling in many processes, brief measurements.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiling is most of what autotuning takes, and one process does it kernel by kernel. Processes
that call a function once, each with its share of every kernel's configurations, fill Triton's cache
on disk; the times that they would take are worth nothing, so they take none and keep none."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from .cases import Case

# Of the calls that compile, and of those that check: 16 chunks of 64; long rows have a multiple of
# that, and Triton compiles anew for numbers that 16 does not divide.
TOKENS = 1024
RUN_MS = {"warmup": 5, "rep": 20}  # of a configuration's measurement; Triton's are 25 and 100
PROGRAM = "import sys; sys.path[0] = sys.argv.pop(); from bench import tuning; tuning.main()"


def _patch(before: Any) -> None:
    """Has autotuners call `before(autotuner, config)`, which gives results, or None to go on."""
    autotuner = importlib.import_module("triton.runtime.autotuner").Autotuner
    bench = autotuner._bench

    def patched(self: Any, *args: Any, config: Any, **meta: Any) -> Any:
        result = before(self, config)
        return bench(self, *args, config=config, **meta) if result is None else result

    autotuner._bench = patched


def shorten() -> None:
    """Measures configurations more briefly in this process."""
    testing = importlib.import_module("triton.testing")

    def brief(call: Any, quantiles: Any) -> Any:
        return testing.do_bench(call, **RUN_MS, quantiles=quantiles)

    def before(self: Any, config: Any) -> None:
        self._do_bench = brief

    _patch(before)


def share(part: int, parts: int) -> None:
    """Compiles every `parts`-th configuration of a kernel in this process, and times none."""

    def once(call: Any, quantiles: Any) -> list[float]:
        call()
        return [1.0] * len(quantiles)

    def before(self: Any, config: Any) -> list[float] | None:
        self._do_bench = once
        mine = self.configs.index(config) % parts == part if config in self.configs else True
        return None if mine else [float("inf")] * 3

    _patch(before)


def processes(ops: list[str], cores: int) -> list[tuple[str, int, int]]:
    """Operator, part and number of parts for each process; about as many as there are cores."""
    parts = max(1, cores // max(len(ops), 1))
    return [(op, part, parts) for op in ops for part in range(parts)]


def compile_all(ops: list[str], case: Case, seconds: float) -> int:
    """Compiles what fla needs for these operators with K, V and heads of a case, within a time.
    Returns how many processes were not done or failed: what they left is compiled later."""
    environment = {**os.environ, "FLA_CACHE_RESULTS": "0", "TRITON_CACHE_AUTOTUNING": "0"}
    begin = time.monotonic()
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, op, str(part), str(parts), str(case.HV), str(case.K),
             str(case.V), str(Path(__file__).resolve().parent.parent)],
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        for op, part, parts in processes(ops, os.cpu_count() or 1)
    ]  # fmt: skip
    left = 0
    for process in running:
        try:
            left += process.wait(max(seconds - (time.monotonic() - begin), 0.001)) != 0
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            left += 1
    return left


def main() -> None:
    """Arguments: operator, part, parts, heads, K, V."""
    import torch

    from .peers.fla import variant_call
    from .variants import make_problem

    op = sys.argv[1]
    part, parts, heads, K, V = map(int, sys.argv[2:7])
    share(part, parts)
    case = Case("prefill", op, "functional", "kv", 1, TOKENS, heads, heads, K, V)
    with torch.inference_mode():
        variant_call(make_problem(case, "cuda", 1)).run(0)
    torch.cuda.synchronize()
