# Goals: a table of kernels and what they shall reach.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Goal:
    """What a kernel shall reach: `value` milliseconds; with the kind "share" that much of the
    ceiling in percent; with "single" so many times what steps of one token take; with the label of
    another row as kind that row's time over so much."""

    kernel: str
    sizes: tuple[int, int, int, int]  # B (0: any), T, HQ, HV
    value: float
    kind: str

    def wanted(
        self, case: dict[str, Any], gates: str, scope: str, single: dict[str, Any] | None
    ) -> float | None:
        """The milliseconds that this goal allows, if what it depends on was measured."""
        if self.kind == "ms":
            return self.value
        if self.kind == "share":
            return 100 * case["floor"]["scale_ms"] / self.value
        if self.kind == "single":
            row = _row(single, "ours", scope) if single else None
            ms = _median(row, gates)
            return self.value * ms if ms else None
        peer, _, other = self.kind.partition(" ")
        ms = _median(_row(case, peer, other.strip("[]") or "fused"), gates)
        return ms / self.value if ms else None


def _row(case: dict[str, Any], peer: str, scope: str) -> dict[str, Any] | None:
    rows = case["rows"]
    return next((row for row in rows if (row["peer"], row["scope"]) == (peer, scope)), None)


def _median(row: dict[str, Any] | None, gates: str) -> float | None:
    times = row["times"].get(gates) if row and row["status"] == "ok" else None
    return times["device"]["median"] if times else None


def _parsed(text: str) -> tuple[float, str]:
    """'0.26', '96%', '1.25x T=1' (times what single tokens take), 'fla [snapshots]/3.5'."""
    if text.endswith("%"):
        return float(text[:-1]), "share"
    if text.endswith("x T=1"):
        return float(text.removesuffix("x T=1")), "single"
    if "/" in text:
        label, _, number = text.rpartition("/")
        return float(number), label
    return float(text), "ms"


class Goals:
    """Goals hold for states in a pool, which is what the kernels are named for. A log's amortised
    steps are OP.log..., its launches without merges OP.append..., both with the window at the end:
    gdn.log.128x128.kv.f32.bf16.w16."""

    def __init__(self, goals: list[Goal]):
        self.goals: dict[tuple, list[Goal]] = {}
        for goal in goals:
            self.goals.setdefault((goal.kernel, goal.sizes), []).append(goal)

    @classmethod
    def read(cls, path: Path) -> Goals:
        """Columns kernel,B,T,HQ,HV,goal; B may be *; lines that begin with # are comments."""
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        goals = []
        for entry in csv.DictReader(lines):
            try:
                batch = 0 if entry["B"] == "*" else int(entry["B"])
                sizes = (batch, *(int(entry[name]) for name in ("T", "HQ", "HV")))
                value, kind = _parsed(entry["goal"])
            except (KeyError, TypeError, ValueError, AttributeError):
                raise ValueError(
                    f"{path}: expected kernel,B,T,HQ,HV,goal, got {dict(entry)}"
                ) from None
            goals.append(Goal(entry["kernel"], sizes, value, kind))  # type: ignore[arg-type]
        return cls(goals)

    def verdict(
        self,
        case: dict[str, Any],
        row: dict[str, Any] | None,
        gates: str,
        single: dict[str, Any] | None = None,
    ) -> str:
        """'0.2620, met' or '0.2620, missed by 1.2%'; '' where there is no goal or no time.
        `single`: the case of single tokens that one of drafts is compared with."""
        if row is None or row["status"] != "ok" or case["form"] != "pool" or not case["floor"]:
            return ""
        ms = _median(row, gates)
        if not ms:
            return ""
        words = []
        for goal in self._of(case, row["scope"]):
            wanted = goal.wanted(case, gates, row["scope"], single)
            if wanted:
                over = f"missed by {100 * (ms / wanted - 1):.1f}%"
                words.append(f"{wanted:.4f}, {'met' if ms <= wanted else over}")
        return "; ".join(words)

    def _of(self, case: dict[str, Any], scope: str) -> list[Goal]:
        work, types = case["work"], "f32.bf16"
        if work == "log":
            if scope != "fused" and not scope.startswith("append"):
                return []
            work = "log" if scope == "fused" else "append"
            types = f"{case['state']}.bf16.w{case['window']}"
        kernel = f"{case['op']}.{work}.{case['K']}x{case['V']}.{case['layout']}.{types}"
        sizes = (case["T"], case["HQ"], case["HV"])
        keys = [(kernel, (case["B"], *sizes)), (kernel, (0, *sizes))]
        return [goal for key in keys for goal in self.goals.get(key, [])]
