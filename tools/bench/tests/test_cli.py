# Tests of the command, from outside.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from bench import cli, record
from bench.cli import peer_names
from bench.peers import Missing, load_peer

from .fakes import TOOLS


def bench(*arguments: object) -> int:
    """Runs the command in this process."""
    try:
        return cli.main([*map(str, arguments), "--quiet"])
    except SystemExit as error:
        return int(error.code or 0)


SMALL = ("--device=cpu", "--heads=1/2", "--dims=16x16", "--replays=2")


@pytest.mark.parametrize(
    "work, more",
    [("decode", ["--batch=1,2"]), ("append", ["--batch=2", "--tokens=1,3"]),
     ("prefill", ["--shapes=1x5,1x9"])],
)  # fmt: skip
def test_times_and_renders(tmp_path, capsys, work, more):
    assert bench(f"--work={work}", "--peers=naive", f"--out={tmp_path}", *SMALL, *more) == 0
    printed = capsys.readouterr().out
    document = json.loads((tmp_path / f"{work}.json").read_text())
    assert record.faults_of(document) == []
    assert document["environment"]["torch"] and document["arguments"]["work"] == work
    rows = [row for case in document["cases"] for row in case["rows"]]
    assert {row["status"] for row in rows} <= {"ok", "unsupported"}
    assert f"### gdn {work}" in printed
    page = tmp_path / "page.md"
    assert bench("--render", tmp_path / f"{work}.json", f"--out={page}", "--no-plots") == 0
    assert page.read_text() == printed.removesuffix("\n")


def test_runs_as_a_folder(tmp_path):
    command = [sys.executable, str(TOOLS / "bench"), "--work=decode", "--op=kda", "--batch=1"]
    command += ["--peers=naive,engines", f"--out={tmp_path}", *SMALL]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd="/")
    assert done.returncode == 0, done.stderr
    assert "engines: missing" in done.stdout and "naive: ready" in done.stderr


@pytest.mark.parametrize("name", peer_names())
def test_every_peer_loads_or_says_why_not(name):
    try:
        peer = load_peer(name)
    except (ImportError, Missing) as error:
        assert str(error)
        return
    assert peer.name == name and peer.version()
    for work in ("decode", "append", "prefill"):
        parser = cli.make_parser()
        for case in cli.list_cases(parser.parse_args([f"--work={work}", "--out=x"])):
            reason = peer.why_not(case)
            assert reason is None or reason


def test_engines_that_are_there_are_named_and_not_imported(tmp_path, monkeypatch):
    (tmp_path / "vllm.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    peer = load_peer("engines")
    assert peer.there == ["vllm"] and peer.version() == "unknown"
    case = cli.list_cases(cli.make_parser().parse_args(["--work=decode", "--out=x"]))[0]
    assert peer.why_not(case) == "there, but not wired up"


@pytest.mark.skipif(not os.environ.get("LINATTN_LIBRARY"), reason="needs a built runtime")
@pytest.mark.parametrize(
    "work, more, count",
    [("decode", ["--batch=3"], 6), ("append", ["--batch=3", "--tokens=1,3"], 6),
     # With K = 16, KDA's errors with weak gates are 5.0e-3 to 5.3e-3, about the limit.
     ("prefill", ["--shapes=1x70,3x33", "--layout=kv,vk", "--heads=2,1/2", "--dims=32x32"], 34)],
)  # fmt: skip
def test_ours_is_right_on_the_cpu(tmp_path, capsys, work, more, count):
    pytest.importorskip("linattn")
    more = (*SMALL, *more)
    assert bench(f"--work={work}", "--peers=ours,naive", f"--out={tmp_path}", *more) == 0
    document = json.loads((tmp_path / f"{work}.json").read_text())
    ours = [row for case in document["cases"] for row in case["rows"] if row["peer"] == "ours"]
    assert sum(row["status"] == "ok" for row in ours) >= count
    assert {row["status"] for row in ours} <= {"ok", "unsupported"}


@pytest.mark.skipif(not os.environ.get("LINATTN_LIBRARY"), reason="needs a built runtime")
def test_what_has_no_prefill_kernel_is_not_timed_with_another(tmp_path, capsys):
    """chunk_* would call the recurrent kernel."""
    pytest.importorskip("linattn")
    more = ("--op=kda", "--shapes=1x5", "--peers=ours", f"--out={tmp_path}", *SMALL, "--dims=24x16")
    assert bench("--work=prefill", *more) == 1
    document = json.loads((tmp_path / "prefill.json").read_text())
    (row,) = document["cases"][0]["rows"]
    assert row["status"] == "failed" and "expected a multiple of 16" in row["reason"]
