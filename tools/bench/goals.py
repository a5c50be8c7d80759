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
    """ms, or the share of the ceiling in percent."""

    kernel: str
    sizes: tuple[int, int, int, int]  # B, T, HQ, HV
    value: float
    is_share: bool


class Goals:
    """Goals hold for states in a pool, which is what the kernels are named for."""

    def __init__(self, goals: list[Goal]):
        self.goals = {(goal.kernel, goal.sizes): goal for goal in goals}

    @classmethod
    def read(cls, path: Path) -> Goals:
        """Columns kernel,B,T,HQ,HV,goal; lines that begin with # are comments."""
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        goals = []
        for entry in csv.DictReader(lines):
            try:
                sizes = tuple(int(entry[name]) for name in ("B", "T", "HQ", "HV"))
                text = entry["goal"]
                value = float(text.rstrip("%"))
            except (KeyError, TypeError, ValueError):
                raise ValueError(
                    f"{path}: expected kernel,B,T,HQ,HV,goal, got {dict(entry)}"
                ) from None
            goals.append(Goal(entry["kernel"], sizes, value, text.endswith("%")))  # type: ignore
        return cls(goals)

    def verdict(self, case: dict[str, Any], row: dict[str, Any] | None, gates: str) -> str:
        """'0.2620, met' or '0.2620, missed by 1.2%'; '' where there is no goal or no time."""
        if row is None or row["status"] != "ok" or case["form"] != "pool" or not case["floor"]:
            return ""
        kernel = f"{case['op']}.{case['work']}.{case['K']}x{case['V']}.{case['layout']}.f32.bf16"
        goal = self.goals.get((kernel, (case["B"], case["T"], case["HQ"], case["HV"])))
        times = row["times"].get(gates)
        if not goal or not times:
            return ""
        ms = times["device"]["median"]
        wanted = 100 * case["floor"]["scale_ms"] / goal.value if goal.is_share else goal.value
        word = "met" if ms <= wanted else f"missed by {100 * (ms / wanted - 1):.1f}%"
        return f"{wanted:.4f}, {word}"
