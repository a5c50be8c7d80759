# The JSON that a run writes, as it goes on, and that pages are made of; see README.md.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from .cases import Case
from .reference import judge, peer_limits

SCHEMA = "dl-bench"
VERSION = 1

STATUSES = {
    "ok": "checked and timed",
    "wrong": "its error exceeds the limit; its time is no valid one",
    "unsupported": "the library has nothing for this case",
    "missing": "the library cannot be imported",
    "failed": "an error",
    "slow": "the first call exceeded its time limit",
    "not_run": "not reached",
}


@dataclass(eq=False)  # a row is itself, not its values
class Row:
    """What one peer did in one case. Seconds for the first call, milliseconds for the rest."""

    peer: str
    status: str
    reason: str = ""
    scope: str = "fused"
    note: str = ""
    first_call_s: float | None = None
    errors: dict[str, dict[str, float]] = field(default_factory=dict)  # by gates, then by name
    times: dict[str, dict[str, Any]] = field(default_factory=dict)  # by gates
    bytes: int = 0  # of logs: what the traffic model says of a launch


def driver_version() -> str:
    """The NVIDIA driver's version, or ''."""
    try:
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        answer = subprocess.run(query, capture_output=True, text=True, timeout=20, check=True)
        return answer.stdout.split("\n")[0].strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def environment(device: torch.device) -> dict[str, Any]:
    """The device and the versions of what all peers share."""
    facts: dict[str, Any] = {
        "device": platform.processor() or platform.machine(),
        "driver": "",
        "cuda": torch.version.cuda or "",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "multiprocessors": 0,
        "cache_bytes": 0,
    }
    try:
        import triton

        facts["triton"] = triton.__version__
    except ImportError:
        facts["triton"] = ""
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        facts["device"] = properties.name
        facts["driver"] = driver_version()
        facts["multiprocessors"] = properties.multi_processor_count
        facts["cache_bytes"] = properties.L2_cache_size
    return facts


class Record:
    """The document of a run. Every change that matters is written at once, so that a run that is
    cut short leaves what it had done."""

    def __init__(self, path: Path, arguments: dict[str, Any], device: torch.device):
        self.path = path
        self.begin = time.monotonic()
        self.document: dict[str, Any] = {
            "schema": SCHEMA,
            "version": VERSION,
            "time": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
            "finished": False,
            "ended_by": "",
            "seconds": 0.0,
            "arguments": arguments,
            "environment": environment(device),
            "peers": [],
            "ceilings": {"scales": [], "matmul_flops": None},
            "cases": [],
        }

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begin

    def add_case(self, case: Case, limits: dict[str, float]) -> dict[str, Any]:
        """`limits` are those of ours."""
        entry = {**asdict(case), "lengths": list(case.lengths), "name": case.name, "sets": 0,
                 "limits": limits, "peer_limits": peer_limits(limits), "floor": None,
                 "rows": []}  # fmt: skip
        self.document["cases"].append(entry)
        return entry

    def load_back(self) -> dict[str, Any]:
        """The document as a reader of the file gets it."""
        return load(self.path)

    def ours_is_right(self) -> bool:
        """Whether every row of ours that has a kernel was run and is right."""
        ours = {peer["name"] for peer in self.document["peers"] if peer["is_ours"]}
        fine = ("ok", "unsupported")
        rows = [row for case in self.document["cases"] for row in case["rows"]]
        return all(row.status in fine for row in rows if row.peer in ours)

    def write(self) -> None:
        """Replaces the file in one step."""
        self.document["seconds"] = round(self.seconds, 3)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        scratch = self.path.with_suffix(".tmp")
        scratch.write_text(json.dumps(_plain(self.document), indent=1, allow_nan=False) + "\n")
        os.replace(scratch, self.path)


def _plain(value: Any) -> Any:
    """Rows as dictionaries; numbers that JSON does not have as text."""
    if isinstance(value, Row):
        value = asdict(value)
    if isinstance(value, dict):
        return {key: _plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value


_NUMBER = (int, float)
_TIMES = {"method": str,
          "device": {"median": _NUMBER, "min": _NUMBER, "p90": _NUMBER, "replays": int,
                     "launches": int},
          "host_ms": _NUMBER, "wall_ms": _NUMBER}  # fmt: skip
_ROW = {"peer": str, "status": str, "reason": str, "scope": str, "note": str,
        "first_call_s": (int, float, type(None)), "errors": dict, "times": dict}  # fmt: skip
_CASE = {"work": str, "op": str, "form": str, "layout": str, "B": int, "T": int, "HQ": int,
         "HV": int, "K": int, "V": int, "gate": str, "lengths": list, "shape_name": str,
         "name": str, "sets": int, "limits": dict, "floor": (dict, type(None)),
         "rows": [_ROW]}  # fmt: skip
_FLOOR = {"state_bytes": int, "bytes": int, "flops": int, "scale_bytes": int, "scale_ms": _NUMBER,
          "memory_ms": _NUMBER, "tensor_ms": (int, float, type(None)), "ms": _NUMBER}  # fmt: skip
_DOCUMENT = {
    "schema": str, "version": int, "time": str, "finished": bool, "ended_by": str,
    "seconds": _NUMBER, "arguments": dict,
    "environment": {"device": str, "driver": str, "cuda": str, "torch": str, "triton": str,
                    "python": str, "multiprocessors": int, "cache_bytes": int},
    "peers": [{"name": str, "version": str, "status": str, "reason": str, "import_s": _NUMBER,
               "is_ours": bool}],
    "ceilings": {"scales": [{"bytes": int, "ms": _NUMBER}],
                 "matmul_flops": (int, float, type(None))},
    "cases": [_CASE],
}  # fmt: skip


def _check(value: Any, wanted: Any, where: str) -> list[str]:
    if isinstance(wanted, dict):
        if not isinstance(value, dict):
            return [f"{where}: expected an object"]
        missing = [f"{where}.{key}: missing" for key in wanted if key not in value]
        return missing + [
            fault
            for key, kind in wanted.items()
            if key in value
            for fault in _check(value[key], kind, f"{where}.{key}")
        ]
    if isinstance(wanted, list):
        if not isinstance(value, list):
            return [f"{where}: expected a list"]
        return [f for i, v in enumerate(value) for f in _check(v, wanted[0], f"{where}[{i}]")]
    return [] if isinstance(value, wanted) else [f"{where}: {value!r} has the wrong type"]


def faults_of(document: Any) -> list[str]:
    """What keeps a document from being one of this schema; nothing if it is one."""
    faults = _check(document, _DOCUMENT, "$")
    if faults:
        return faults
    if document["schema"] != SCHEMA or document["version"] != VERSION:
        return [f"$: expected {SCHEMA} {VERSION}, got {document['schema']} {document['version']}"]
    for c, case in enumerate(document["cases"]):
        if case["floor"] is not None:
            faults += _check(case["floor"], _FLOOR, f"$.cases[{c}].floor")
        for r, row in enumerate(case["rows"]):
            where = f"$.cases[{c}].rows[{r}]"
            if row["status"] not in STATUSES:
                faults.append(f"{where}.status: unknown '{row['status']}'")
            if row["status"] == "ok" and not row["times"]:
                faults.append(f"{where}: ok, but without times")
            for gates, times in row["times"].items():
                faults += _check(times, _TIMES, f"{where}.times.{gates}")
    return faults


def limits_of(document: dict[str, Any], case: dict[str, Any], peer: str) -> dict[str, float]:
    """A peer's limits in a case. Documents from before there were `peer_limits` get today's."""
    if any(entry["name"] == peer and entry["is_ours"] for entry in document["peers"]):
        return case["limits"]
    return case.get("peer_limits") or peer_limits(case["limits"])


def judge_again(document: dict[str, Any]) -> None:
    """Sets what was measured to ok or wrong by its errors, which say more than the word that was
    written beside them: limits may have been others then."""
    for case in document["cases"]:
        for row in case["rows"]:
            if row["status"] in ("ok", "wrong") and row["errors"] and row["times"]:
                reason = judge(row["errors"], limits_of(document, case, row["peer"]))
                if reason or row["status"] == "wrong":
                    row["status"], row["reason"] = "wrong" if reason else "ok", reason


def load(path: Path) -> dict[str, Any]:
    """Reads a document, checks it, and judges its rows by their errors."""
    document = json.loads(path.read_text())
    faults = faults_of(document)
    if faults:
        raise ValueError(f"{path}: {faults[0]}")
    judge_again(document)
    return document
