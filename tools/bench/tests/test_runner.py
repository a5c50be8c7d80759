# Tests of what peers' faults turn into, of limits and of budgets.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import pytest

from bench import record, report, runner, timing

from .fakes import TOOLS, Failing, Wrong, rows_of, run_fakes, small_cases


def test_right_peers_are_checked_with_both_gates_and_timed_with_one(monkeypatch, tmp_path):
    document = run_fakes(monkeypatch, tmp_path, ["ours", "right"])
    assert document["finished"] and document["ended_by"] == "all done"
    assert len(document["cases"]) == 4
    for row in rows_of(document, "right") + rows_of(document, "ours"):
        assert row["status"] == "ok" and row["reason"] == ""
        assert set(row["errors"]) == {"weak", "strong"}
        assert set(row["times"]) == {"weak"}
        assert row["times"]["weak"]["device"]["median"] > 0
        assert row["first_call_s"] >= 0
        assert 0 < row["errors"]["weak"]["output"] < 5e-3
        assert row["errors"]["weak"]["state"] < 1e-5


def test_both_gates_are_timed_when_asked(monkeypatch, tmp_path):
    document = run_fakes(monkeypatch, tmp_path, ["right"], timed_gates=("weak", "strong"))
    assert "Times with strong gates differ from these by at most" in report.render([document], None)
    assert all(set(row["times"]) == {"weak", "strong"} for row in rows_of(document, "right"))


@pytest.mark.parametrize("name", ["wrong", "nan"])
def test_wrong_results_are_marked(monkeypatch, tmp_path, name):
    document = run_fakes(monkeypatch, tmp_path, [name, "right"])
    for row in rows_of(document, name):
        assert row["status"] == "wrong"
        assert "output error" in row["reason"] and "exceeds 7.5e-03" in row["reason"]
        assert row["times"]  # timed, but never as a valid number
    assert all(row["status"] == "ok" for row in rows_of(document, "right"))


def test_other_libraries_may_be_half_as_far_off_again(monkeypatch, tmp_path):
    monkeypatch.setitem(runner.reference.LIMITS, "decode", {"output": 0.08, "state": 1e-4})
    document = run_fakes(monkeypatch, tmp_path, ["wrong", "right"], small_cases(ops=("gdn",)))
    assert document["cases"][0]["limits"]["output"] == 0.08
    assert document["cases"][0]["peer_limits"]["output"] == 0.12  # the error is 0.1
    assert all(row["status"] == "ok" for row in rows_of(document, "wrong"))
    monkeypatch.setattr(Wrong, "is_ours", True)
    document = run_fakes(monkeypatch, tmp_path, ["wrong", "right"], small_cases(ops=("gdn",)))
    assert all(row["status"] == "wrong" for row in rows_of(document, "wrong"))
    reason = rows_of(document, "wrong")[0]["reason"]
    assert reason.startswith("weak gates: ") and "; strong gates: " in reason


def test_the_first_of_several_errors_is_told():
    with pytest.raises(RuntimeError) as caught:
        try:
            raise ValueError("it waits")
        finally:
            raise RuntimeError("operation failed due to a previous error during capture")
    assert str(timing.first_error(caught.value)) == "it waits"


def test_a_failure_is_a_row_and_is_not_repeated(monkeypatch, tmp_path):
    Failing.calls = 0
    document = run_fakes(monkeypatch, tmp_path, ["failing", "right"])
    rows = rows_of(document, "failing")
    assert [row["status"] for row in rows] == ["failed"] * 4
    assert rows[0]["reason"] == "RuntimeError: no such kernel"
    assert rows[1]["reason"] == "not tried again: RuntimeError: no such kernel"
    assert Failing.calls == 2  # once per operator
    assert all(row["status"] == "ok" for row in rows_of(document, "right"))


def test_libraries_that_cannot_be_had_are_reported(monkeypatch, tmp_path):
    document = run_fakes(monkeypatch, tmp_path, ["absent", "gone", "broken", "right"])
    states = {peer["name"]: (peer["status"], peer["reason"]) for peer in document["peers"]}
    assert states["absent"] == ("missing", "Missing: not on this machine")
    assert states["gone"][0] == "missing" and "no_such_library" in states["gone"][1]
    assert states["broken"] == ("failed", "OSError: libbroken.so: cannot open")
    assert states["right"] == ("ready", "")
    assert {row["peer"] for case in document["cases"] for row in case["rows"]} == {"right"}


def test_a_slow_first_call_is_cut_short(monkeypatch, tmp_path):
    begin = time.monotonic()
    document = run_fakes(
        monkeypatch, tmp_path, ["slow", "right"], small_cases(ops=("gdn",)), first_call_limit=0.3
    )
    assert time.monotonic() - begin < 10
    rows = rows_of(document, "slow")
    assert [row["status"] for row in rows] == ["slow", "slow"]
    assert not rows[0]["times"]
    assert all(row["status"] == "ok" for row in rows_of(document, "right"))


def test_unsupported_cases_say_why(monkeypatch, tmp_path):
    document = run_fakes(monkeypatch, tmp_path, ["partial"])
    assert [(row["status"], row["reason"]) for row in rows_of(document, "partial")] == [
        ("ok", ""),
        ("ok", ""),
        ("unsupported", "gdn only"),
        ("unsupported", "gdn only"),
    ]


def test_every_scope_has_a_row(monkeypatch, tmp_path):
    document = run_fakes(monkeypatch, tmp_path, ["scopes"], small_cases(ops=("gdn",)))
    rows = document["cases"][0]["rows"]
    assert [(row["scope"], row["note"]) for row in rows] == [
        ("kernels", "a note"),
        ("with torch", ""),
    ]
    assert all(set(row["errors"]) == {"weak", "strong"} for row in rows)


def test_a_way_that_fails_leaves_the_others(monkeypatch, tmp_path):
    document = run_fakes(monkeypatch, tmp_path, ["half"], small_cases(ops=("gdn",)))
    for case in document["cases"]:
        assert [(row["scope"], row["status"]) for row in case["rows"]] == [
            ("fused", "ok"),
            ("kernels", "failed"),
        ]
        assert case["rows"][0]["times"] and not case["rows"][1]["times"]
    assert document["cases"][1]["rows"][1]["reason"].startswith("not tried again")


def test_the_budget_ends_a_run_with_a_whole_document(monkeypatch, tmp_path):
    many = small_cases(batches=range(1, 40))
    begin = time.monotonic()
    document = run_fakes(monkeypatch, tmp_path, ["lazy", "right"], many, budget=1.5)
    assert time.monotonic() - begin < 12  # what had begun was finished
    assert document["finished"] and document["ended_by"] == "budget"
    assert len(document["cases"]) == len(many)
    left = [row for row in rows_of(document, "right") if row["status"] == "not_run"]
    assert left and all(row["reason"] == "the budget was used up" for row in left)


def test_pools_hold_the_states(monkeypatch, tmp_path):
    todo = small_cases(forms=("pool",), layouts=("kv", "vk"), batches=(3,))
    document = run_fakes(monkeypatch, tmp_path, ["right"], todo)
    rows = rows_of(document, "right")
    assert len(rows) == 4 and all(row["status"] == "ok" for row in rows)


def test_states_beside_the_pool_are_a_fault(monkeypatch, tmp_path):
    todo = small_cases(ops=("gdn",), forms=("functional", "pool"), batches=(3,))
    document = run_fakes(monkeypatch, tmp_path, ["aside"], todo)
    functional, pool = rows_of(document, "aside")
    assert functional["status"] == "ok"
    assert pool["status"] == "failed" and "are in the pool" in pool["reason"]


HANGING = """
import signal, sys, time
sys.path.insert(0, {tools!r})
import torch
from pathlib import Path
from bench import runner, record
from bench.peers import Call
from bench.tests import fakes

class Deaf(fakes.Right):
    name = "deaf"
    def prepare(self, work):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        time.sleep(60)

runner.WATCHDOG_GRACE_S = 0.3
runner.load_peer = lambda name: Deaf()
device = torch.device("cpu")
one = runner.Runner(
    runner.Options(device, first_call_limit=0.2, verbose=False),
    record.Record(Path({path!r}), {{"work": "decode"}}, device),
)
one.load(["deaf"])
one.run(fakes.small_cases())
"""


def test_a_call_that_never_returns_ends_the_run_with_a_document(tmp_path):
    path = tmp_path / "decode.json"
    code = HANGING.format(tools=str(TOOLS), path=str(path))
    environment = {**os.environ, "PYTHONPATH": str(TOOLS)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, timeout=50)
    assert done.returncode == 3
    document = json.loads(path.read_text())
    assert record.faults_of(document) == []
    assert document["ended_by"] == "deaf did not return from its first call"
    assert not document["finished"]
