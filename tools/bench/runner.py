# Runs cases: checks every peer against fp64, then times it, within a budget.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from . import reference, timing
from .cases import VARIANTS, Case
from .floors import Ceilings, work_of
from .inputs import Workload, make_workload
from .peers import Call, Missing, Peer, load_peer
from .record import Record, Row

CPU_CACHE_BYTES = 1  # on a CPU nothing is rotated past a cache: times there are for tests
WATCHDOG_GRACE_S = 30.0


class TooSlow(Exception):
    """A first call exceeded its time limit."""


class DeviceLost(Exception):
    """The device answers no more, so nothing else can run in this process."""


@dataclass
class Options:
    """How to run. Times in seconds."""

    device: torch.device
    gates: tuple[str, ...] = ("weak", "strong")
    timed_gates: tuple[str, ...] = ("weak", "strong")
    budget: float = 3600.0
    first_call_limit: float = 180.0
    replays: int = timing.REPLAYS
    seed: int = 1
    shuffle_slots: bool = True
    check_tokens: tuple[int, ...] = (128,)  # of logs: after how many tokens errors are taken
    verbose: bool = True


def one_line(error: BaseException) -> str:
    """The first line that says something, with the kind of error."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else ""
    name = type(error).__name__
    return (f"{name}: {text}" if text else name)[:300]


@contextlib.contextmanager
def time_limit(seconds: float, on_hang: Any = None) -> Iterator[None]:
    """Raises TooSlow in the body after so many seconds.

    Python code and waits for compilers are interrupted. Code that does not come back to Python is
    not: `on_hang` is called from another thread some time later.
    """

    def raise_too_slow(signum: int, frame: Any) -> None:
        raise TooSlow(f"more than {seconds:.0f} s")

    watchdog = threading.Timer(seconds + WATCHDOG_GRACE_S, on_hang) if on_hang else None
    before = signal.signal(signal.SIGALRM, raise_too_slow)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    if watchdog:
        watchdog.daemon = True
        watchdog.start()
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if watchdog:
            watchdog.cancel()


def family_of(case: Case) -> tuple:
    """Cases in which a library is likely to fail in the same way: they differ in size only."""
    return (case.op, case.form, case.layout, case.K, case.V, case.is_packed)


@dataclass
class Runner:
    """Runs cases one after the other and keeps the record."""

    options: Options
    record: Record
    peers: list[Peer] = field(default_factory=list)
    # What failed or was too slow, by peer, family of cases and scope: not tried again.
    given_up: dict[tuple, Row] = field(default_factory=dict)
    log_errors: dict[tuple, dict[str, float]] = field(default_factory=dict)  # see logs.py
    lost: str = ""

    def __post_init__(self) -> None:
        environment = self.record.document["environment"]
        self.cache_bytes = environment["cache_bytes"] or CPU_CACHE_BYTES
        self.ceilings = Ceilings(self.options.device, self.cache_bytes)
        self.begin = time.monotonic()

    def say(self, text: str) -> None:
        if self.options.verbose:
            print(f"{self.record.seconds:7.1f} s  {text}", file=sys.stderr, flush=True)

    def remaining(self) -> float:
        return self.options.budget - (time.monotonic() - self.begin)

    def load(self, names: list[str]) -> None:
        """Imports the peers; those that cannot be had are recorded with the reason."""
        for name in names:
            begin = time.monotonic()
            entry = {"name": name, "version": "", "status": "ready", "reason": "",
                     "import_s": 0.0, "is_ours": False}  # fmt: skip
            try:
                with time_limit(min(self.options.first_call_limit, max(self.remaining(), 1))):
                    peer = load_peer(name)
                    entry.update(version=peer.version(), is_ours=peer.is_ours)
                self.peers.append(peer)
            except (Missing, ImportError) as error:
                entry.update(status="missing", reason=one_line(error))
            except Exception as error:  # whatever importing a library may raise
                entry.update(status="failed", reason=one_line(error))
            entry["import_s"] = round(time.monotonic() - begin, 3)
            self.record.document["peers"].append(entry)
            self.say(f"{name}: {entry['status']} {entry['version']}{entry['reason']}")
        self.record.write()

    def run(self, cases: list[Case]) -> None:
        """All cases, or as many as the budget allows. Always ends with a complete document."""
        variants = [case for case in cases if case.op in VARIANTS]
        if variants:
            self.run_variants(variants)
        for case in [case for case in cases if case.op not in VARIANTS]:
            entry = self.record.add_case(case, reference.limits_of(case))
            try:
                if not self.lost and self.remaining() > 0:
                    self.run_log(case, entry) if case.work == "log" else self.run_case(case, entry)
            except DeviceLost as error:
                self.lost = str(error)
            except torch.OutOfMemoryError as error:
                self.note_rest(entry, "failed", one_line(error))
            reason = self.lost or "the budget was used up"
            self.note_rest(entry, "not_run", reason)
            self.record.document["ceilings"] = self.ceilings.to_json()
            self.record.write()
        self.record.document["finished"] = True
        self.record.document["ended_by"] = self.lost or (
            "budget" if self.remaining() <= 0 else "all done"
        )
        self.record.write()

    def run_variants(self, cases: list[Case]) -> None:
        """Operators of variants.py, which have an order of their own; see variantrun.py."""
        from .variantrun import VariantRun

        try:
            VariantRun(self, cases).run()
        except DeviceLost as error:
            self.lost = str(error)

    def note_rest(self, entry: dict[str, Any], status: str, reason: str) -> None:
        """A row for every peer that has none yet in this case."""
        known = {row.peer for row in entry["rows"]}
        entry["rows"] += [
            Row(peer.name, status, reason) for peer in self.peers if peer.name not in known
        ]

    def run_case(self, case: Case, entry: dict[str, Any]) -> None:
        on_gpu = self.options.device.type == "cuda"
        inputs = work_of(case).bytes // 2  # about what one set holds without its outputs
        sets = timing.num_sets(inputs, self.cache_bytes) if on_gpu else 2
        entry["sets"] = sets
        entry["floor"] = self.ceilings.floor(case)
        rows: dict[tuple[str, str], Row] = {}
        entry["rows"] = []
        for gates in self.options.gates:
            is_timed = gates in self.options.timed_gates
            work = make_workload(
                case,
                gates,
                str(self.options.device),
                sets if is_timed else 1,
                self.options.seed,
                self.options.shuffle_slots,
            )
            want = reference.reference(case, work.sets[0])
            for peer in self.peers:
                if self.remaining() <= 0:
                    break
                self.run_peer(peer, work, want, rows, entry["rows"], is_timed)
        for row in entry["rows"]:
            left = [gates for gates in self.options.gates if gates not in row.errors]
            if row.status == "ok" and not row.times:
                row.status, row.reason = "not_run", "the budget was used up"
            elif row.status == "ok" and left:
                row.reason = f"{' and '.join(left)} gates not run: the budget was used up"

    def run_log(self, case: Case, entry: dict[str, Any]) -> None:
        """A case of states that are a base and a log; see logs.py."""
        from .logs import LogRun

        LogRun(self, case, entry).run()

    def run_peer(
        self,
        peer: Peer,
        work: Workload,
        want: reference.Result,
        rows: dict[tuple[str, str], Row],
        listed: list[Row],
        is_timed: bool,
    ) -> None:
        """One peer in one case with one kind of gates."""
        key = (peer.name, *family_of(work.case))
        why_not = peer.why_not(work.case)
        if why_not or key in self.given_up:
            if not any(row.peer == peer.name for row in listed):
                listed.append(self.skipped(key, Row(peer.name, "unsupported", why_not or "")))
            return
        row, begin = Row(peer.name, "ok"), time.monotonic()
        try:
            with self.limited(row):
                calls = peer.prepare(work)
        except Exception as error:  # a library may raise anything; the others shall go on
            listed.append(row)
            self.give_up(key, row, error)
            return
        prepare_s = time.monotonic() - begin
        for call in calls:
            row = rows.setdefault((peer.name, call.scope), Row(peer.name, "ok", scope=call.scope))
            if row not in listed:
                listed.append(row)
                row.note, row.first_call_s = call.note, prepare_s
            call_key = (*key, call.scope)
            if call_key in self.given_up:
                self.skipped(call_key, row)
                continue
            try:
                self.check_and_time(call, work, want, row, is_timed)
                self.say_row(row, work)
            except Exception as error:
                self.give_up(call_key, row, error)

    def skipped(self, key: tuple, row: Row) -> Row:
        """Says in a row that what it would show failed before, if it did."""
        before = self.given_up.get(key)
        if before is not None and before is not row:
            row.status, row.reason = before.status, f"not tried again: {before.reason}"
        return row

    def give_up(self, key: tuple, row: Row, error: Exception) -> None:
        """Notes an error, and that the like of it is not to be tried again."""
        row.status = "slow" if isinstance(error, TooSlow) else "failed"
        row.reason = one_line(error)
        self.given_up[key] = row
        self.say(f"{' '.join(map(str, key))}: {row.status}, {row.reason}")
        self.check_device(f"the device was lost when {row.peer} failed: {row.reason}")

    def limited(self, row: Row) -> contextlib.AbstractContextManager[None]:
        """The time limit of a first call; a call that never returns ends the run."""

        def on_hang() -> None:
            row.status, row.reason = "slow", "the first call did not return; the run was ended"
            self.record.document["ended_by"] = f"{row.peer} did not return from its first call"
            self.record.write()
            os._exit(3)

        limit = min(self.options.first_call_limit, max(self.remaining(), 0.001))
        return time_limit(limit, on_hang)

    def check_device(self, reason: str) -> None:
        if self.options.device.type != "cuda":
            return
        try:
            torch.cuda.synchronize()
            torch.ones(1, device=self.options.device).item()
        except Exception as error:
            raise DeviceLost(reason) from error

    def check_and_time(
        self, call: Call, work: Workload, want: reference.Result, row: Row, is_timed: bool
    ) -> None:
        device = self.options.device
        work.reset_pool()
        timing.synchronize(device)
        begin = time.monotonic()
        with self.limited(row):
            outputs = call.run(0)
            timing.synchronize(device)
        if not row.errors:
            row.first_call_s = round((row.first_call_s or 0) + time.monotonic() - begin, 4)
        errors = reference.errors_of(work.case, read_result(work, outputs), want)
        del outputs
        row.errors[work.gates] = errors
        row.reason = reference.judge(row.errors, self.limits_of(row, work.case))
        row.status = "wrong" if row.reason else "ok"
        if is_timed:
            row.times[work.gates] = self.time(call, len(work.sets))

    def limits_of(self, row: Row, case: Case) -> dict[str, float]:
        limits = reference.limits_of(case)
        is_ours = any(peer.is_ours for peer in self.peers if peer.name == row.peer)
        return limits if is_ours else reference.peer_limits(limits)

    def time(self, call: Call, sets: int) -> dict[str, Any]:
        device, replays = self.options.device, self.options.replays
        no_graph = ""
        if device.type != "cuda":
            method, samples = "cpu", timing.time_cpu(call.run, sets, replays)
        else:
            try:
                method, samples = "graph", timing.time_graph(call.run, sets, replays)
            except Exception as error:  # it waits for the device, say
                no_graph = one_line(timing.first_error(error))
                self.check_device(f"the device was lost in a capture: {no_graph}")
                self.say(f"no graph: {no_graph}")
                method, samples = "stream", timing.time_stream(call.run, sets, replays)
        eager = timing.time_eager(call.run, sets, device)
        return {
            "method": method,
            **({"no_graph": no_graph} if no_graph else {}),
            "device": samples.to_json(),
            "host_ms": eager.host_ms,
            "wall_ms": eager.wall_ms,
        }

    def say_row(self, row: Row, work: Workload) -> None:
        times = row.times.get(work.gates)
        text = ", ".join(f"{k} {v:.1e}" for k, v in row.errors[work.gates].items())
        if times:
            text = f"{times['device']['median']:.4f} ms, host {times['host_ms']:.4f}, {text}"
        self.say(f"{work.case.name} {work.gates} {row.peer} [{row.scope}]: {text} {row.reason}")


def read_result(work: Workload, outputs: tuple[torch.Tensor, torch.Tensor | None], i: int = 0):
    """Outputs and states of set i with states as [N, HV, K, V]."""
    o, state = outputs
    snapshots = []
    if work.pool is not None and work.slots is not None:
        if state is not None:  # which the pool would hide
            raise ValueError("the states of this form are in the pool, but the call returned some")
        slots = work.slots[i].long()
        if work.case.form == "snapshots":
            snapshots = [_as_kv(work, work.pool[slots[:, t]]) for t in range(work.case.T)]
        else:
            state = work.pool[slots]
    if state is not None:
        state = _as_kv(work, state)
    return reference.Result(o.view_as(work.sets[i].v), state, snapshots)


def _as_kv(work: Workload, state: torch.Tensor) -> torch.Tensor:
    return state if work.case.layout == "kv" else state.transpose(2, 3)
