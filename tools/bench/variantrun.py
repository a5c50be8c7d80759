# Runs the operators of variants.py: ours in all cases first, then other libraries.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs may be cut short, and other libraries compile for minutes: so all of ours comes first, then
they, operator by operator, and the JSON is complete after each row. A prefill is checked on rows of
`check_tokens` tokens, by the same kernels, since the recurrence takes long."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import torch

from . import reference, timing, tuning
from .cases import Case
from .floors import Work, state_bytes
from .peers import Call, Peer
from .record import Row
from .variants import OPERATORS, Problem, cost_of, make_problem


def work_of(case: Case) -> Work:
    """Each input read and each output written once."""
    io, flops = cost_of(case)
    states = 2 * state_bytes(case)
    slots = 4 * case.B if case.form == "pool" else 0
    return Work(states, states + case.tokens * io + slots, case.tokens * case.HV * flops)


def in_order(cases: list[Case]) -> list[Case]:
    """As fla's functions are to be timed."""
    places = list(OPERATORS)
    return sorted(cases, key=lambda case: places.index(case.op))


class VariantRun:
    """All cases, in a runner's time."""

    def __init__(self, runner: Any, cases: list[Case]):
        self.runner, self.cases = runner, cases
        self.options, self.record = runner.options, runner.record
        self.device = self.options.device
        self.entries: dict[Case, dict[str, Any]] = {}

    def run(self) -> None:
        ours = [peer for peer in self.runner.peers if peer.is_ours]
        others = [peer for peer in self.runner.peers if not peer.is_ours]
        for case in self.cases:
            self.entries[case] = self.record.add_case(case, reference.limits_of(case))
        try:
            for case in self.cases:
                self.begin(case)
                for peer in ours:
                    self.row(peer, case)
            prefill = in_order([case for case in self.cases if case.work == "prefill"])
            for peer in others:
                todo = prefill if peer.name == "fla" else self.cases
                if peer.name == "fla" and self.device.type == "cuda":
                    self.compile(todo)
                for case in todo:
                    self.row(peer, case)
        finally:
            for case, entry in self.entries.items():
                peers = [p for p in self.runner.peers if p.name != "fla" or case.work == "prefill"]
                known = {row.peer for row in entry["rows"]}
                reason = self.runner.lost or "the budget was used up"
                entry["rows"] += [Row(p.name, "not_run", reason) for p in peers
                                  if p.name not in known]  # fmt: skip
            self.save()

    def save(self) -> None:
        self.record.document["ceilings"] = self.runner.ceilings.to_json()
        self.record.write()

    def begin(self, case: Case) -> None:
        """The floor, while there is time for it."""
        if self.runner.remaining() > 0:
            self.entries[case]["floor"] = self.runner.ceilings.floor(case, work_of(case))
            self.entries[case]["sets"] = self.sets(case)

    def sets(self, case: Case) -> int:
        if self.device.type != "cuda":
            return 2
        return timing.num_sets(work_of(case).bytes // 2, self.runner.cache_bytes)

    def compile(self, cases: list[Case]) -> None:
        """fla's kernels at once, in processes of their own; then tuning only has to time them."""
        # By what makes the arguments: operators that share it share their kernels.
        kinds = {f.arguments: case for case in cases if (f := OPERATORS[case.op].fla)}
        todo = list(kinds.values())
        seconds = min(self.options.first_call_limit, self.runner.remaining() / 2)
        if not todo or seconds < 1:
            return
        begin = time.monotonic()
        left = tuning.compile_all([case.op for case in todo], todo[0], seconds)
        self.runner.say(f"fla: compiled in {time.monotonic() - begin:.0f} s, {left} unfinished")
        tuning.shorten()

    def row(self, peer: Peer, case: Case) -> None:
        """Checks and times one library in one case."""
        if self.runner.remaining() <= 0 or self.runner.lost:
            return
        row = Row(peer.name, "ok")
        self.entries[case]["rows"].append(row)
        why_not = peer.why_not_variant(case)
        if why_not:
            row.status, row.reason = "unsupported", why_not
        else:
            try:
                self.check_and_time(peer, case, row)
            except Exception as error:  # a library may raise anything; the others shall go on
                self.fail(row, case, error)
        self.save()

    def fail(self, row: Row, case: Case, error: Exception) -> None:
        """Another process would be needed to go on if the device is lost."""
        from .runner import TooSlow, one_line

        row.status = "slow" if isinstance(error, TooSlow) else "failed"
        row.reason, row.times = one_line(error), {}
        self.runner.say(f"{case.name} {row.peer}: {row.status}, {row.reason}")
        self.runner.check_device(f"the device was lost when {row.peer} failed: {row.reason}")

    def problem(self, case: Case, sets: int) -> Problem:
        options = self.options
        return make_problem(case, str(self.device), sets, options.seed, options.shuffle_slots)

    def prepare(self, peer: Peer, problem: Problem, row: Row) -> tuple[Call, Any]:
        """The call and what it returned the first time."""
        begin = time.monotonic()
        problem.reset()
        with self.runner.limited(row):
            call = peer.variant(problem)
            outputs = call.run(0)
            timing.synchronize(self.device)
        row.first_call_s = round((row.first_call_s or 0) + time.monotonic() - begin, 4)
        row.scope, row.note = call.scope, call.note
        return call, outputs

    def check_and_time(self, peer: Peer, case: Case, row: Row) -> None:
        tokens = max(self.options.check_tokens)
        short = replace(case, T=min(case.T, tokens))
        problem = self.problem(short, 1)
        call, (o, state) = self.prepare(peer, problem, row)
        got = problem.result(call.finish(o, problem.inputs[0]) if call.finish else o, state)
        row.errors["weak"] = reference.errors_of(short, got, problem.reference())
        row.reason = reference.judge(row.errors, self.runner.limits_of(row, case))
        row.status = "wrong" if row.reason else "ok"
        del problem, call, o, state, got
        problem = self.problem(case, self.sets(case))
        call, outputs = self.prepare(peer, problem, row)
        finite = bool(torch.isfinite(outputs[0]).all())
        del outputs
        row.times["weak"] = self.runner.time(call, len(problem.inputs))
        if not finite:
            row.status, row.reason = "wrong", "outputs of the timed size are not finite"
            row.errors["weak"]["output"] = float("inf")
        self.say(case, row)

    def say(self, case: Case, row: Row) -> None:
        ms = row.times["weak"]["device"]["median"]
        floor = self.entries[case]["floor"]
        share = f", floor {100 * floor['ms'] / ms:.1f}%" if floor else ""
        errors = ", ".join(f"{name} {value:.1e}" for name, value in row.errors["weak"].items())
        self.runner.say(
            f"{case.name} {case.work} {row.peer}: {ms:.4f} ms{share}, {errors} {row.reason}"
        )
