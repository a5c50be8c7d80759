# Tests of states as a base and a log: traffic, steps, checks, tables, goals.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import copy
import json
import os

import pytest
import torch

from bench import cli, logreport, logs, record, report
from bench.cases import Case, log_cases
from bench.floors import Ceilings, LogTraffic, cycle_traffic, log_work
from bench.goals import Goals
from bench.record import Record, Row

from .test_cli import SMALL, bench

NEEDS_RUNTIME = pytest.mark.skipif(
    not os.environ.get("LINATTN_LIBRARY"), reason="needs a built runtime"
)


def case_of(op: str = "gdn", B: int = 256, T: int = 1, heads: tuple[int, int] = (32, 32)) -> Case:
    (case,) = log_cases((op,), ("kv",), (B,), heads, tokens=(T,))
    return case


@pytest.mark.parametrize("op, entry, dense, amortised", [
    ("gdn", 772, 132_100, 77_222), ("kda", 1280, 132_354, 81_794), ("rwkv6", 1024, 132_352, 79_616),
])  # fmt: skip
def test_the_traffic_is_what_explain_prints(op, entry, dense, amortised):
    case = case_of(op)
    work = log_work(case, entry, cycle_traffic(16))
    assert work.bytes == 256 * 32 * amortised
    assert work.state_bytes == 256 * 32 * 65536
    nothing = log_work(case, entry, LogTraffic(0, 0, 1))
    assert nothing.bytes == 256 * 32 * dense
    assert log_work(case_of(T=4), 772, LogTraffic(7.5, 4, 0)).bytes == 256 * 32 * (
        65536 + 4 * 1028 + 11.5 * 772
    )


def test_a_narrow_base_has_half_the_bytes():
    (wide, narrow) = log_cases(("kda",), ("vk",), (1,), (1, 1), states=("f32", "bf16"))
    none = LogTraffic(0, 0, 0)
    assert log_work(wide, 0, none).bytes - log_work(narrow, 0, none).bytes == 32768
    assert wide.name == "kda pool vk B=1,T=1 1/1 W=16 f32" and "bf16" in narrow.name


def test_the_floor_is_at_the_rate_of_reading():
    ceilings = Ceilings(torch.device("cpu"), 1)
    case = case_of(B=1, heads=(1, 2))
    ceilings.reads[2 * 65536], ceilings.scales[2 * 65536] = 2.0, 3.0
    floor = ceilings.log_floor(case, 100.0, LogTraffic(1, 1, 0.5))
    assert floor["ms"] == pytest.approx(2.0 * floor["bytes"] / (2 * 65536))
    assert (floor["entry_bytes"], floor["read_ms"], floor["scale_ms"]) == (100.0, 2.0, 3.0)
    assert floor["log"] == {"read": 1, "written": 1, "merges": 0.5}


def test_descriptors_say_what_moves():
    def rows(*entries: tuple[int, int, int]) -> torch.Tensor:
        made = torch.zeros(len(entries), 12, dtype=torch.int32)
        made[:, [logs.TOKENS, logs.LENGTH, logs.MERGE]] = torch.tensor(entries, dtype=torch.int32)
        return made

    steps = [rows((4, 0, 0), (4, 10, 0)), rows((4, 14, 1), (1, 15, 2))]
    assert logs.traffic_of(steps) == LogTraffic(39 / 4, 12 / 4, 0.5)
    logs.expect(rows((1, 3, 0), (1, 3, 1)), logs.LENGTH, 3)
    with pytest.raises(ValueError, match=r"column 7: expected 0, got \[0, 1\]"):
        logs.expect(rows((1, 3, 0), (1, 3, 1)), logs.MERGE, 0)


def test_cases_of_the_command():
    arguments = ["--work=log", "--op=kda", "--tokens=1,4", "--state=bf16", "--out=x"]
    cases = cli.list_cases(cli.make_parser().parse_args(arguments))
    assert {case.B for case in cases} == {64, 256, 512} and len(cases) == 12
    assert all((case.work, case.form, case.window) == ("log", "pool", 16) for case in cases)
    assert {case.state for case in cases} == {"bf16"}


@NEEDS_RUNTIME
def test_ours_is_right_on_the_cpu(tmp_path, capsys):
    """Cycles and drafts, all that is timed beside them, and the page."""
    pytest.importorskip("linattn")
    more = ("--batch=3", "--tokens=1,3", "--window=6", "--check-tokens=24", "--layout=vk")
    peers = "--peers=ours,naive"
    assert bench("--work=log", peers, f"--out={tmp_path}", *more, *SMALL) == 0
    printed = capsys.readouterr().out
    document = record.load(tmp_path / "log.json")
    by_name = {}
    for case in document["cases"]:
        rows = {(row["peer"], row["scope"]): row for row in case["rows"]}
        by_name[case["op"], case["T"]] = rows
        for (peer, _), row in rows.items():
            assert row["status"] in ("ok", "unsupported"), row
            assert peer != "ours" or row["times"]["weak"]["device"]["median"] > 0
        errors = rows["ours", "fused"]["errors"]
        assert set(errors) == {"weak", "strong"} and set(errors["weak"]) == {"output", "state"}
        assert case["floor"]["log"]["merges"] > 0 and case["floor"]["read_ms"] > 0
    assert set(by_name) == {("gdn", 1), ("gdn", 3), ("kda", 1), ("kda", 3)}  # rwkv6: equal heads
    single = {s for p, s in by_name["kda", 1] if p == "ours"}
    assert single == {
        "fused", "append at 0", "append at 3", "append at 5", "merging launch", "plan", "dense"
    }  # fmt: skip
    drafts = {s for p, s in by_name["kda", 3] if p == "ours"}
    assert {"fused", "append at 3", "merging launch", "plan", "snapshots"} <= drafts
    assert by_name["kda", 3]["naive", "fused"]["reason"] == "no snapshots"
    assert ("naive", "pool") in by_name["kda", 1]
    row = by_name["gdn", 1]["ours", "append at 3"]
    heads, state, entry, io = 3 * 2, 1024, 32 / 2 + 64 + 4, (32 + 32) / 2 + 32 + 32 + 2 + 2
    assert row["bytes"] == heads * (state + 4 * entry + io)
    assert "### kda log, single tokens, W = 6, f32 base [V, K] of 16 x 16, softplus" in printed
    assert "| kda      | f32  | drafts of 3 | strong |     24 |" in printed


@NEEDS_RUNTIME
def test_errors_after_more_tokens_and_of_narrow_bases(tmp_path, capsys):
    pytest.importorskip("linattn")
    more = ("--batch=2", "--window=5", "--check-tokens=8,128,100", "--layout=kv", "--state=bf16")
    out = f"--out={tmp_path}"
    assert bench("--work=log", "--op=rwkv6", "--peers=ours", out, *more, *SMALL, "--heads=2") == 0
    printed = capsys.readouterr().out
    (case,) = record.load(tmp_path / "log.json")["cases"]
    errors = case["rows"][0]["errors"]["strong"]
    kinds = {"output", "state", "output 128", "state 128", "output 100", "state 100"}
    assert set(errors) == kinds and 1e-4 < errors["output"] < 1e-2
    assert 1e-4 < errors["state 128"] < 1e-2
    assert "| rwkv6    | bf16 | single | strong |    128 |" in printed


@pytest.fixture
def document(tmp_path):
    """A run with known times: single tokens and drafts of four, with a rival."""
    arguments = {"work": "log", "timed_gates": ("weak",), "check_tokens": (128,)}
    made = Record(tmp_path / "log.json", arguments, torch.device("cpu"))
    peers = [("ours", True), ("fla", False)]
    made.document["peers"] = [
        {"name": name, "version": "1", "status": "ready", "reason": "", "import_s": 0.0,
         "is_ours": is_ours} for name, is_ours in peers
    ]  # fmt: skip

    def row(peer: str, scope: str, ms: float, size: int = 0) -> Row:
        device = {"median": ms, "min": ms, "p90": ms, "replays": 1, "launches": 1}
        times = {"method": "graph", "device": device, "host_ms": 0.0, "wall_ms": 0.0}
        errors = {"weak": {"output": 1e-3, "state": 1e-6}} if scope == "fused" else {}
        return Row(peer, "ok", scope=scope, errors=errors, times={"weak": times}, bytes=size)

    ceilings = Ceilings(torch.device("cpu"), 1)
    for T, rows in (
        (1, [row("ours", "fused", 0.2), row("ours", "append at 8", 0.1, 4 << 20),
             row("ours", "dense", 0.3), row("ours", "plan", 0.01), row("fla", "fused", 0.4)]),
        (4, [row("ours", "fused", 0.24), row("ours", "append at 8", 0.13, 4 << 20),
             row("fla", "snapshots", 0.8)]),
    ):  # fmt: skip
        case = case_of("kda", 64, T, (1, 1))
        entry = made.add_case(case, {"output": 5e-3, "state": 1e-4})
        ceilings.reads[4 << 20] = ceilings.scales[4 << 20] = 0.08
        entry["floor"] = ceilings.log_floor(case, 1280, cycle_traffic(16))
        entry["rows"] = rows
    made.document.update(finished=True, ended_by="all done")
    made.write()
    return made.load_back()


GOALS = """kernel,B,T,HQ,HV,goal
kda.log.128x128.kv.f32.bf16.w16,64,1,1,1,0.19
kda.log.128x128.kv.f32.bf16.w16,*,4,1,1,1.25x T=1
kda.log.128x128.kv.f32.bf16.w16,64,4,1,1,fla [snapshots]/3.5
kda.append.128x128.kv.f32.bf16.w16,*,4,1,1,1.15x T=1
"""


def test_tables_and_goals_of_logs(document, tmp_path):
    (tmp_path / "goals.csv").write_text(GOALS)
    text = report.render([document], Goals.read(tmp_path / "goals.csv"))
    tables = [line for line in text.splitlines() if line.startswith("| 64 ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in tables]
    assert cells[0][:4] == ["64", "1", "81,794", f"{0.08 * 81794 / 65536:.4f}"]
    assert cells[0][4] == "0.2000" and cells[0][6] == "0.1900, missed by 5.3%"
    assert cells[0][7:9] == ["0.3000", "1.50"] and cells[0][9:11] == ["0.4000", "2.00"]
    assert cells[0][11:] == ["0.1000", "80", "0.0100"]
    assert cells[1][:3] == ["64", "4", "1"] and cells[1][5] == "0.2400"
    assert cells[1][7] == "1.20"
    assert cells[1][8] == "0.2286, missed by 5.0%; 0.2500, met"
    assert cells[1][9:11] == ["0.8000", "3.33"]
    assert cells[1][11:] == ["0.1300", "62", "1.30", "0.1150, missed by 13.0%", ""]
    assert "| kda      | f32  | single      | weak  |    128 | 1.0e-03 |     4.5e-03 |" in text


def test_goals_that_depend_on_what_is_missing_say_nothing(document, tmp_path):
    (tmp_path / "goals.csv").write_text(GOALS)
    goals = Goals.read(tmp_path / "goals.csv")
    drafts = copy.deepcopy(document)["cases"][1]
    mine = logreport.find(drafts, "ours")
    assert goals.verdict(drafts, mine, "weak", None) == "0.2286, missed by 5.0%"
    logreport.find(drafts, "fla", "snapshots")["status"] = "wrong"
    assert goals.verdict(drafts, mine, "weak", None) == ""
    assert goals.verdict(drafts, logreport.find(drafts, "ours", "plan"), "weak") == ""


def test_the_goals_that_are_kept_are_read():
    goals = Goals.read(cli.DEFAULT_GOALS)
    wanted = {key: goal for key, goal in goals.goals.items() if ".log." in key[0]}
    assert len(wanted) == 18 + 6 + 4
    (goal,) = goals.goals["kda.log.128x128.vk.f32.bf16.w16", (256, 1, 32, 32)]
    assert (goal.value, goal.kind) == (0.165, "ms")


def test_documents_without_logs_are_as_before(document):
    document = json.loads(json.dumps(document))
    document["cases"] = []
    assert logreport.sections(document, Goals([]), "weak") == []
