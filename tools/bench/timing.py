# Times launches: CUDA-graph replay, and eager calls seen from the host.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""On a GPU a graph holds many launches, over buffer sets that together exceed twice the L2 cache;
its replays are timed by events. On a CPU calls are timed one by one."""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

# run(i) launches on buffer set i and returns its outputs.
Launch = Callable[[int], Any]

REPLAYS = 30
REPLAY_MS = 1.0  # a replay lasts at least about so long, so that the events' own time is small
MAX_NODES = 600  # launches in a graph
EAGER_CALLS = 30
CPU_CALLS = 5


@dataclass
class Samples:
    """Milliseconds per launch, one number per replay of `launches` launches."""

    ms: list[float]
    launches: int

    @property
    def median(self) -> float:
        return statistics.median(self.ms)

    def to_json(self) -> dict[str, float | int]:
        ordered = sorted(self.ms)
        return {
            "median": self.median,
            "min": ordered[0],
            "p90": ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))],
            "replays": len(ordered),
            "launches": self.launches,
        }


@dataclass
class Eager:
    """Milliseconds per call without a graph: what the host needs to issue a call to an idle
    device, and the time until all work is done, per call."""

    host_ms: float
    wall_ms: float


def num_sets(bytes_per_set: int, cache_bytes: int) -> int:
    """Buffer sets to rotate over so that they hold twice the cache; at least two."""
    return max(2, math.ceil(2 * cache_bytes / max(bytes_per_set, 1)))


def synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def first_error(error: BaseException) -> BaseException:
    """The error that the others followed from: when a capture fails, ending it fails too, and that
    is what arrives."""
    while error.__context__ is not None:
        error = error.__context__
    return error


@contextlib.contextmanager
def no_waiting() -> Iterator[None]:
    """Calls in which torch waits for the device raise in the body. They would break a capture, and
    a broken capture leaves traces in the process: a current stream that is not the one from before,
    and an allocator that keeps what is freed."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


class Graph:
    """A captured graph of `count` launches in turn over `sets` buffer sets.

    What the launches return is kept for one round: outputs that a call allocates itself get
    addresses of their own too, instead of one that stays in the cache.
    """

    def __init__(self, run: Launch, sets: int, count: int):
        self.count = count
        self.kept: deque[Any] = deque(maxlen=sets)
        self.graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for i in range(min(sets, 3)):  # what only a first call on a stream does
                run(i % sets)
            with no_waiting():
                run(0)
        current = torch.cuda.current_stream()
        current.wait_stream(stream)
        torch.cuda.synchronize()
        try:
            with torch.cuda.graph(self.graph):
                for i in range(count):
                    self.kept.append(run(i % sets))
        except Exception:
            torch.cuda.set_stream(current)  # which a capture that fails does not
            raise

    def replay(self, replays: int) -> Samples:
        """Times single replays one after the other."""
        self.graph.replay()
        events = [
            (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
            for _ in range(replays)
        ]
        torch.cuda.synchronize()
        for begin, end in events:
            begin.record()
            self.graph.replay()
            end.record()
        torch.cuda.synchronize()
        return Samples([b.elapsed_time(e) / self.count for b, e in events], self.count)


def time_graph(run: Launch, sets: int, replays: int = REPLAYS) -> Samples:
    """A first graph of one round tells how many rounds make a replay long enough."""
    graph = Graph(run, sets, sets)
    estimate = max(graph.replay(3).median, 1e-5)
    rounds = math.ceil(REPLAY_MS / (estimate * sets))
    rounds = max(1, min(rounds, MAX_NODES // sets))
    if rounds > 1:
        del graph
        graph = Graph(run, sets, sets * rounds)
    return graph.replay(replays)


def time_stream(run: Launch, sets: int, replays: int = REPLAYS) -> Samples:
    """For what cannot be captured: rounds of eager calls between events, host time included."""
    kept: deque[Any] = deque(maxlen=sets)
    events = []
    for replay in range(replays + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for i in range(sets):
            kept.append(run(i))
        end.record()
        if replay:
            events.append((begin, end))
    torch.cuda.synchronize()
    return Samples([b.elapsed_time(e) / sets for b, e in events], sets)


def time_eager(run: Launch, sets: int, device: torch.device, calls: int = EAGER_CALLS) -> Eager:
    """Issues calls to an idle device and waits for them only at the end."""
    for i in range(3):
        run(i % sets)
    synchronize(device)
    begin = time.perf_counter()
    for i in range(calls):
        run(i % sets)
    issued = time.perf_counter()
    synchronize(device)
    done = time.perf_counter()
    return Eager(1e3 * (issued - begin) / calls, 1e3 * (done - begin) / calls)


def time_cpu(run: Launch, sets: int, calls: int = CPU_CALLS) -> Samples:
    """Single calls on a CPU."""
    ms = []
    for i in range(calls + 1):
        begin = time.perf_counter()
        run(i % sets)
        ms.append(1e3 * (time.perf_counter() - begin))
    return Samples(ms[1:], 1)
