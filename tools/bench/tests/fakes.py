# Peers that do what tests want, and runs with them on the CPU.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import importlib
import time
from pathlib import Path
from typing import Any

import torch

from bench import cases, runner
from bench.inputs import Workload
from bench.peers import Call, Missing, Peer, naive
from bench.record import Record, load

TOOLS = Path(__file__).resolve().parents[2]


class Right(Peer):
    """Gives the right results."""

    name = "right"

    def why_not(self, case: cases.Case) -> str | None:
        return naive.Library().why_not(case)

    def prepare(self, work: Workload) -> list[Call]:
        return naive.Library().prepare(work)


class Ours(Right):
    name = "ours"
    is_ours = True


class Wrong(Right):
    """Its outputs are 10 % too large."""

    name = "wrong"

    def prepare(self, work: Workload) -> list[Call]:
        (call,) = super().prepare(work)

        def run(i: int):
            o, state = call.run(i)
            return 1.1 * o, state

        return [Call(run)]


class NotANumber(Right):
    """Leaves one output out."""

    name = "nan"

    def prepare(self, work: Workload) -> list[Call]:
        (call,) = super().prepare(work)

        def run(i: int):
            o, state = call.run(i)
            o = o.clone()
            o.view(-1)[-1] = float("nan")
            return o, state

        return [Call(run)]


class Slow(Right):
    """Takes its time for the first call."""

    name = "slow"

    def prepare(self, work: Workload) -> list[Call]:
        (call,) = super().prepare(work)

        def run(i: int):
            time.sleep(30)
            return call.run(i)

        return [Call(run)]


class Failing(Right):
    name = "failing"
    calls = 0

    def prepare(self, work: Workload) -> list[Call]:
        Failing.calls += 1
        raise RuntimeError("\n  no such kernel\nmore lines")


class Aside(Right):
    """Updates copies of the states instead of the pool."""

    name = "aside"

    def prepare(self, work: Workload) -> list[Call]:
        def run(i: int):
            inputs = work.sets[i]
            return naive.recurrence(work.case, inputs, inputs.state)

        return [Call(run)]


class Partial(Right):
    """Has nothing for kda."""

    name = "partial"

    def why_not(self, case: cases.Case) -> str | None:
        return "gdn only" if case.op != "gdn" else None


class TwoScopes(Right):
    name = "scopes"

    def prepare(self, work: Workload) -> list[Call]:
        (call,) = super().prepare(work)
        return [Call(call.run, "kernels", "a note"), Call(call.run, "with torch")]


class HalfFailing(Right):
    """The second of its ways fails."""

    name = "half"

    def prepare(self, work: Workload) -> list[Call]:
        (call,) = super().prepare(work)

        def fail(i: int):
            raise RuntimeError("not this way")

        return [Call(call.run), Call(fail, "kernels")]


class Lazy(Right):
    """Sleeps 0.1 s in every call."""

    name = "lazy"

    def prepare(self, work: Workload) -> list[Call]:
        (call,) = super().prepare(work)

        def run(i: int):
            time.sleep(0.1)
            return call.run(i)

        return [Call(run)]


def load_fake(name: str) -> Peer:
    """Stands for bench.peers.load_peer."""
    if name == "absent":
        raise Missing("not on this machine")
    if name == "gone":
        importlib.import_module("no_such_library")
    if name == "broken":
        raise OSError("libbroken.so: cannot open")
    kinds = [Right, Ours, Wrong, NotANumber, Slow, Failing, Partial, TwoScopes, HalfFailing, Lazy]
    return {kind.name: kind for kind in [*kinds, Aside]}[name]()


def small_cases(**changes: Any) -> list[cases.Case]:
    """Decode of both delta rules with two batches, in tiny sizes."""
    arguments: dict[str, Any] = {
        "ops": ("gdn", "kda"),
        "layouts": ("kv",),
        "forms": ("functional",),
        "batches": (1, 2),
        "heads": (1, 2),
        "dims": (16, 16),
    }
    return cases.decode_cases(**{**arguments, **changes})


def run_fakes(
    monkeypatch: Any,
    path: Path,
    names: list[str],
    todo: list[cases.Case] | None = None,
    arguments: dict[str, Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Runs fake peers and returns the document as it was written."""
    monkeypatch.setattr(runner, "load_peer", load_fake)
    device = torch.device("cpu")
    timed = options.setdefault("timed_gates", ("weak",))
    facts = {"work": "decode", "timed_gates": timed, **(arguments or {})}
    record = Record(path / "decode.json", facts, device)
    settings = runner.Options(device, replays=2, verbose=False, **options)
    one = runner.Runner(settings, record)
    with torch.inference_mode():
        one.load(names)
        one.run(todo if todo is not None else small_cases())
    return load(record.path)


def rows_of(document: dict[str, Any], peer: str) -> list[dict[str, Any]]:
    return [row for case in document["cases"] for row in case["rows"] if row["peer"] == peer]
