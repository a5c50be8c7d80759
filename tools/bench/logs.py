# Steps on states that are a base and a log: cycles of single tokens, and drafts.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What an engine does with linattn.LogPool, with the descriptors that its plans write. Buffer sets
are the layers of one pool, so one plan serves all of them, as in a model; in a graph the launches
of one step on all layers come before the next step's.

Steps of one token are timed by cycles: W launches, from an empty log up to and including the merge.
Steps of drafts are timed over many steps, with as many of each row's drafts accepted as a random
number says, from one to all."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from . import logcheck, reference, timing
from .cases import Case
from .floors import LogTraffic, cycle_traffic, log_work
from .inputs import Inputs, make_inputs, make_workload
from .peers import Call, Peer
from .peers.ours import options_of, tensors_of
from .record import Row

if TYPE_CHECKING:
    from .runner import Runner

MAX_TOKENS = (1, 4, 8, 16)  # what kernels are compiled for: the first that is enough
STEPS = 128  # of drafts in a graph, if it does not get too many launches
FIRST_SLOT = 1  # slot 0 is for padding
FUSED = "fused"
BASE_ONLY = 2  # of initial_state: the base is the whole state

# Columns of a descriptor.
TOKENS, LENGTH, MERGE = 3, 5, 7
NO_MERGE, MERGE_BEFORE, MERGE_AFTER = 0, 1, 2


class Kernels:
    """Our kernels of a log for a case, and pools of them."""

    def __init__(self, case: Case, device: torch.device):
        linattn = importlib.import_module("linattn")
        self.unsupported: type[Exception] = linattn.Unsupported
        self.case, self.device = case, device
        self.max_tokens = next(n for n in MAX_TOKENS if n >= case.T)
        self.where = "cpu" if device.type == "cpu" else f"cuda:{device.index or 0}"
        self.make_pool = linattn.LogPool
        self.kernels = linattn.log_kernels(
            case.op, key_dim=case.K, value_dim=case.V, window=case.window,
            max_tokens=self.max_tokens, state_layout=case.layout, state_type=case.state,
            options=options_of(case, False), device=self.where,
        )  # fmt: skip
        self.parameters = {p.name for p in self.kernels.append.parameters if p.role == "param"}

    def pool(self, inputs: Sequence[Inputs], pdl: bool | None = None) -> Any:
        """A pool with a layer for each of these inputs, their states not yet in it. What stays the
        same in all calls of a layer is given here. `pdl`: programmatic dependent launch."""
        parameters: list[dict[str, Any]] = []
        for s in inputs:
            tensors = tensors_of(self.case, s, None)
            parameters.append({n: t for n, t in tensors.items() if n in self.parameters})
            parameters[-1]["scale"] = s.scale
        return self.make_pool(
            self.kernels, slots=len(inputs[0].state) + FIRST_SLOT,
            heads=(self.case.HQ, self.case.HV), layers=len(inputs), first_slot=FIRST_SLOT,
            device=self.where, parameters=parameters, pdl=pdl,
        )  # fmt: skip

    def activations(self, inputs: Inputs) -> dict[str, torch.Tensor]:
        """A launch's inputs by name."""
        tensors = tensors_of(self.case, inputs, None)
        return {n: t for n, t in tensors.items() if n not in self.parameters}

    def entry_bytes(self) -> float:
        """Bytes of a log's entry per value head."""
        total = 0.0
        for p in self.kernels.append.parameters:
            if p.role == "log":
                size = 4 if p.dtype == "f32" else 2
                for extent in p.shape[3:]:
                    size *= int(extent)
                total += size * (self.case.HQ / self.case.HV if p.shape[1] == "HQ" else 1)
        return total


class Bed:
    """A pool with its states, a layer per buffer set, and the launches on it."""

    def __init__(
        self,
        kernels: Kernels,
        inputs: Sequence[Inputs],
        shuffle: bool,
        seed: int,
        pdl: bool | None = None,
    ):
        self.case, self.device, self.inputs = kernels.case, kernels.device, inputs
        self.pool = kernels.pool(inputs, pdl)
        rows = len(inputs[0].state)
        order = torch.arange(rows)
        if shuffle:
            order = torch.randperm(rows, generator=torch.Generator().manual_seed(seed))
        self.slots = (order + FIRST_SLOT).to(torch.int32).to(self.device)
        for layer, s in enumerate(inputs):
            base = self.pool.layers[layer].states["S"]
            base.index_copy_(0, self.slots.long(), s.state.to(base.dtype))
        self.calls = [kernels.activations(s) for s in inputs]
        self.outputs = [torch.empty_like(s.v) for s in inputs]
        self.whole = torch.full((rows,), BASE_ONLY, dtype=torch.uint8, device=self.device)

    @property
    def layers(self) -> int:
        return len(self.inputs)

    def plan(
        self,
        accepted: torch.Tensor | int | None = None,
        anew: bool = False,
        final: bool = False,
    ) -> torch.Tensor:
        """The descriptors of a real plan, in memory of their own. `anew`: the bases are the whole
        states, as after a prefill."""
        rows = len(self.slots)
        descriptors = torch.zeros((rows, 12), dtype=torch.int32, device=self.device)
        if isinstance(accepted, int):
            accepted = torch.full((rows,), accepted, dtype=torch.int32, device=self.device)
        self.pool.plan(
            self.slots, self.slots, tokens=self.case.T, final=final, descriptors=descriptors,
            initial_state=self.whole if anew else None, num_accepted_tokens=accepted,
        )  # fmt: skip
        return descriptors

    def launch(self, descriptors: torch.Tensor) -> Callable[[int], torch.Tensor]:
        """The launch of a step on a layer."""

        def run(layer: int) -> torch.Tensor:
            return self.pool.append(
                layer, descriptors=descriptors, o=self.outputs[layer], **self.calls[layer]
            )

        return run

    def at_length(self, length: int, final: bool = False) -> torch.Tensor:
        """Descriptors of a step that finds so many entries in each row's log; they are written."""
        descriptors, there = self.plan(anew=True), 0
        while there < length:
            for layer in range(self.layers):
                self.launch(descriptors)(layer)
            accepted = min(self.case.T, length - there)
            there += accepted
            descriptors = self.plan(accepted, final=final and there == length)
        expect(descriptors, LENGTH, length)
        return descriptors

    def cycle(self) -> list[torch.Tensor]:
        """Single tokens from an empty log up to and including the merge."""
        W = self.case.window
        steps = [self.plan(anew=step == 0, final=True) for step in range(W)]
        for step, descriptors in enumerate(steps):
            expect(descriptors, LENGTH, step)
            expect(descriptors, MERGE, NO_MERGE if step < W - 1 else MERGE_AFTER)
        return steps

    def drafts(self, count: int, seed: int) -> list[torch.Tensor]:
        """So many steps, with 1 to T tokens of each row accepted."""
        generator = torch.Generator().manual_seed(seed)
        steps = [self.plan(anew=True)]
        for _ in range(count - 1):
            accepted = torch.randint(1, self.case.T + 1, (len(self.slots),), generator=generator)
            steps.append(self.plan(accepted.to(torch.int32).to(self.device)))
        return steps


def expect(descriptors: torch.Tensor, column: int, number: int) -> None:
    """Raises where a plan did not decide what a timing is about."""
    found = descriptors[:, column].unique().tolist()
    if found != [number]:
        raise ValueError(f"descriptors, column {column}: expected {number}, got {found}")


def traffic_of(steps: Sequence[torch.Tensor]) -> LogTraffic:
    """What steps do to a row's log on average, by their descriptors."""
    rows = torch.cat(list(steps)).double()
    merge = rows[:, MERGE]
    written = rows[:, TOKENS] * (merge != MERGE_AFTER)
    means = [rows[:, LENGTH].mean(), written.mean(), (merge != NO_MERGE).double().mean()]
    return LogTraffic(*(mean.item() for mean in means))


class LogRun:
    """One case: checked, then timed."""

    def __init__(self, runner: Runner, case: Case, entry: dict[str, Any]):
        self.runner, self.case, self.entry = runner, case, entry
        self.options, self.device = runner.options, runner.options.device
        self.rows: dict[tuple[str, str], Row] = {}
        entry["rows"] = []

    def run(self) -> None:
        case, runner = self.case, self.runner
        row = self.row(FUSED, "a cycle's time per token" if case.T == 1 else "per step")
        try:
            with runner.limited(row):
                self.kernels = Kernels(case, self.device)
            self.entry_bytes = self.kernels.entry_bytes()
            self.set_floor(cycle_traffic(case.window))
            per_set = self.entry["floor"]["bytes"]
            on_gpu = self.device.type == "cuda"
            self.sets = timing.num_sets(per_set, runner.cache_bytes) if on_gpu else 2
            self.entry["sets"] = self.sets
            for gates in self.options.gates:
                self.check(gates, row)
            for gates in self.options.timed_gates:
                if runner.remaining() > 0:
                    self.time_steps(gates)
        except Exception as error:
            row.status, row.reason = "failed", _text(error)
            runner.check_device(f"the device was lost in a log: {row.reason}")
        for gates in self.options.timed_gates:
            self.compare(gates)
        for row in self.entry["rows"]:
            if row.status == "ok" and not row.times:
                row.status, row.reason = "not_run", "the budget was used up"

    def set_floor(self, traffic: LogTraffic) -> None:
        self.entry["floor"] = self.runner.ceilings.log_floor(self.case, self.entry_bytes, traffic)

    def row(self, scope: str, note: str = "", peer: str = "ours") -> Row:
        """The row of a scope, new the first time."""
        key = (peer, scope)
        if key not in self.rows:
            self.rows[key] = Row(peer, "ok", scope=scope, note=note)
            self.entry["rows"].append(self.rows[key])
        return self.rows[key]

    def check(self, gates: str, row: Row) -> None:
        """Errors against fp64: the same for all batches of an operator, layout and step length."""
        case, known = self.case, self.runner.log_errors
        key = (*case.series, case.HQ, case.HV, case.T, gates)
        if key not in known:
            known[key] = logcheck.errors_of(
                self.kernels, gates, self.options.check_tokens, self.options.seed,
                self.runner.remaining,
            )  # fmt: skip
            text = ", ".join(f"{name} {value:.1e}" for name, value in known[key].items())
            self.runner.say(f"{case.name} {gates} ours: {text}")
        row.errors[gates] = known[key]
        row.reason = reference.judge(row.errors, reference.limits_of(case))
        row.status = "wrong" if row.reason else "ok"

    def time_steps(self, gates: str) -> None:
        """The steps that count, and their kinds of launches apart."""
        case, W, sets = self.case, self.case.window, self.sets
        seed = self.options.seed
        first = make_inputs(case, gates, str(self.device), seed)
        inputs = [first] + [first.copy() for _ in range(sets - 1)]
        bed = Bed(self.kernels, inputs, self.options.shuffle_slots, seed)
        steps, lengths = self.steps(bed, seed), [0, W // 2, W - 1]
        if case.T > 1:
            traffic = traffic_of(steps)
            self.set_floor(traffic)
            # Rows that merge find more entries than those that only append.
            lengths = [n for n in (W // 2, round(traffic.read)) if n + case.T <= W]
        self.time_launches(FUSED, gates, bed, steps)
        for length in dict.fromkeys(lengths):
            self.time_launches(f"append at {length}", gates, bed, [bed.at_length(length)])
        merging = bed.at_length(W - 1, final=True) if case.T == 1 else bed.at_length(W)
        expect(merging, MERGE, MERGE_AFTER if case.T == 1 else MERGE_BEFORE)
        self.time_launches("merging launch", gates, bed, [merging])
        accepted = torch.ones_like(bed.slots)
        self.time("plan", gates, lambda i: bed.pool.plan(
            bed.slots, bed.slots, tokens=case.T, num_accepted_tokens=accepted), 1)  # fmt: skip

        if self.device.type == "cuda":
            del bed
            self.overlapped(gates, inputs)

    def overlapped(self, gates: str, inputs: Sequence[Inputs]) -> None:
        """The steps that count by programmatic dependent launch, where there is that."""
        seed, shuffle = self.options.seed, self.options.shuffle_slots
        try:
            bed = Bed(self.kernels, inputs, shuffle, seed, pdl=True)
        except self.kernels.unsupported:
            return
        self.time_launches("pdl", gates, bed, self.steps(bed, seed))

    def steps(self, bed: Bed, seed: int) -> list[torch.Tensor]:
        """The descriptors of the steps that count."""
        if self.case.T == 1:
            return bed.cycle()
        return bed.drafts(max(8, min(STEPS, timing.MAX_NODES // self.sets)), seed)

    def time_launches(
        self, scope: str, gates: str, bed: Bed, steps: Sequence[torch.Tensor]
    ) -> None:
        """Times steps, per launch."""
        launches, layers = [bed.launch(descriptors) for descriptors in steps], bed.layers
        row = self.row(scope)
        row.bytes = log_work(self.case, self.entry_bytes, traffic_of(steps)).bytes
        self.time(scope, gates, lambda i: launches[i // layers](i % layers), len(steps) * layers)

    def time(self, scope: str, gates: str, run: Callable[[int], Any], sets: int) -> None:
        row = self.row(scope)
        try:
            row.times[gates] = self.runner.time(Call(run, scope), sets)
        except Exception as error:
            row.status, row.reason = "failed", _text(error)
            self.runner.check_device(f"the device was lost in {scope}: {row.reason}")
        else:
            ms = row.times[gates]["device"]["median"]
            share = ""
            if row.bytes:
                share = f", {row.bytes / (1e9 * ms):.2f} TB/s by the model"
            self.runner.say(f"{self.case.name} {gates} ours [{scope}]: {ms:.4f} ms{share}")

    def compare(self, gates: str) -> None:
        """Dense kernels of ours and of others that do the same step, checked and timed as decode
        and append are. Drafts of theirs leave the state after each token in a slot of its own."""
        for peer in self.runner.peers:
            forms: tuple[str, ...] = ("functional", "pool")
            if self.case.T > 1:
                forms = ("snapshots",)
            elif peer.is_ours:
                forms = ("pool",)
            for form in forms:
                work = "decode" if self.case.T == 1 else "append"
                state = self.case.state if form == "pool" else "f32"
                dense = dataclasses.replace(self.case, work=work, form=form, window=0, state=state)
                if self.runner.remaining() > 0:
                    self.compare_one(peer, dense, gates)

    def _unsupported(self, peer: Peer, reason: str) -> None:
        """Says why another library has nothing here, if it has no other form either."""
        if not any(name == peer.name for name, _ in self.rows):
            self.row(FUSED, peer=peer.name).status = "unsupported"
            self.row(FUSED, peer=peer.name).reason = reason

    def compare_one(self, peer: Peer, case: Case, gates: str) -> None:
        runner, options = self.runner, self.options
        scope = FUSED if case.form == "functional" else case.form
        if peer.is_ours and case.T == 1:
            scope = "dense"
        why_not = peer.why_not(case)
        if why_not:
            self._unsupported(peer, why_not)
            return
        bare = self.rows.get((peer.name, FUSED))
        if bare is not None and bare.status == "unsupported":  # another form said so
            self.entry["rows"].remove(self.rows.pop((peer.name, FUSED)))
        row = self.row(scope, f"{case.work}, {case.form}, {case.state} states", peer.name)
        try:
            seed, shuffle = options.seed, options.shuffle_slots
            work = make_workload(case, gates, str(self.device), self.sets, seed, shuffle)
            want = reference.reference(case, work.sets[0])
            with runner.limited(row):
                call = next(c for c in peer.prepare(work) if c.scope == FUSED)
            runner.check_and_time(call, work, want, row, True)
            runner.say_row(row, work)
        except Exception as error:
            row.status, row.reason = "failed", _text(error)
            runner.check_device(f"the device was lost when {row.peer} failed: {row.reason}")


def _text(error: BaseException) -> str:
    from .runner import one_line

    return one_line(error)
