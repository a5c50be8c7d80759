# Tests of pages, ratios, goals and plots.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import copy
import json

import pytest

from bench import cli, record, report
from bench.cases import prefill_cases
from bench.goals import Goals

from .fakes import TOOLS, run_fakes, small_cases


def timed(document, case, peer, ms, status="ok"):
    """Gives a row a known time."""
    row = next(row for row in document["cases"][case]["rows"] if row["peer"] == peer)
    row["times"]["weak"]["device"]["median"] = ms
    row["status"] = status
    return row


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        return run_fakes(
            patch,
            tmp_path_factory.mktemp("run"),
            ["ours", "right", "wrong", "absent", "failing", "partial"],
            small_cases(forms=("pool",)),
        )


def test_ratios_are_theirs_over_ours(document):
    document = copy.deepcopy(document)
    ours, theirs = timed(document, 0, "ours", 0.25), timed(document, 0, "right", 0.5)
    assert report.ratio(theirs, ours, "weak") == 2
    assert report.ratio(theirs, ours, "strong") is None
    theirs["status"] = "wrong"
    assert report.ratio(theirs, ours, "weak") is None
    text = report.render([document], None)
    line = next(line for line in text.splitlines() if line.startswith("| 1 |"))
    assert " 0.2500 |" in line and "(0.5000)" in line


def test_ratios_compare_with_ours_of_the_same_scope(document):
    entry = copy.deepcopy(document["cases"][0])
    ours = next(row for row in entry["rows"] if row["peer"] == "ours")
    given = {**ours, "scope": "gates given"}
    entry["rows"].append(given)
    assert report.ours_like(entry, "right", {"ours"}) is ours
    assert report.ours_like(entry, "right [gates given]", {"ours"}) is given
    assert report.ours_like(entry, "right [with torch]", {"ours"}) is ours


def test_our_errors_are_compared_with_the_best(document):
    document = copy.deepcopy(document)
    for case in document["cases"]:
        for row in case["rows"]:
            for errors in row["errors"].values():
                errors.update(output=1e-3 if row["peer"] == "ours" else 2e-3, state=1e-8)
    row = next(row for row in document["cases"][1]["rows"] if row["peer"] == "ours")
    row["errors"]["strong"]["output"] = 3e-3
    note = report.error_note(document)
    assert (
        note == "Errors of ours over the best other library's, at most: output 1.50, state 1.00.\n"
    )


def test_the_page_names_everything(document):
    text = report.render([document], None)
    assert "### gdn decode, pool, [K, V] of 16 x 16, weak gates" in text
    assert "### kda decode, pool, [K, V] of 16 x 16, softplus gate, weak gates" in text
    assert "- absent: missing. Missing: not on this machine" in text
    assert "- failing: failed (an error)" in text and "no such kernel" in text
    assert "- partial: gdn only (2 cases)" in text
    assert "- wrong: wrong (its error exceeds the limit" in text
    assert "| gdn      | wrong" in text and "1.0e-01" in text
    assert "First calls" in text


def test_goals_are_compared_with(document, tmp_path):
    document = copy.deepcopy(document)
    timed(document, 0, "ours", 0.2)
    document["cases"][0]["floor"]["scale_ms"] = 0.1
    table = tmp_path / "goals.csv"
    name = "gdn.decode.16x16.kv.f32.bf16"
    table.write_text(f"# goals\nkernel,B,T,HQ,HV,goal\n{name},1,1,1,2,0.16\n{name},2,1,1,2,50%\n")
    goals = Goals.read(table)
    row = document["cases"][0]["rows"][0]
    assert goals.verdict(document["cases"][0], row, "weak") == "0.1600, missed by 25.0%"
    document["cases"][1]["floor"]["scale_ms"] = 0.1
    row = timed(document, 1, "ours", 0.2)
    assert goals.verdict(document["cases"][1], row, "weak") == "0.2000, met"
    assert goals.verdict(document["cases"][2], row, "weak") == ""
    assert "0.1600, missed by 25.0%" in report.render([document], goals)
    table.write_text("kernel,B,T,HQ,HV,goal\nx,1,1,1,2,fast\n")
    with pytest.raises(ValueError, match="expected kernel,B,T"):
        Goals.read(table)


def test_a_page_is_made_from_json_alone_and_always_the_same(document, tmp_path):
    pytest.importorskip("matplotlib")
    source = tmp_path / "decode.json"
    source.write_text(json.dumps(document))
    pages = []
    for name in ("a", "b"):
        report.write_page([source], tmp_path / name / "PAGE.md", None, True)
        files = [file for file in (tmp_path / name).rglob("*") if file.is_file()]
        pages.append({file.name: file.read_bytes() for file in files})
    assert pages[0] == pages[1]
    assert set(pages[0]) == {"PAGE.md", "decode-gdn.svg", "decode-kda.svg"}
    assert b"![decode-gdn](page/decode-gdn.svg)" in pages[0]["PAGE.md"]
    assert (tmp_path / "a/page/decode-gdn.svg").exists()
    assert b"floor" in pages[0]["decode-gdn.svg"]
    assert b"wrong" not in pages[0]["decode-gdn.svg"]  # no curve for what is not right


EXAMPLES = TOOLS.parent / "examples"


@pytest.mark.skipif(not (EXAMPLES / "results").exists(), reason="no results are kept yet")
def test_the_page_that_is_kept_is_the_one_its_json_gives(tmp_path):
    sources = sorted((EXAMPLES / "results").glob("*.json"))
    report.write_page(sources, tmp_path / "RESULTS.md", cli.DEFAULT_GOALS, False)
    made = (tmp_path / "RESULTS.md").read_text().splitlines()
    kept = (EXAMPLES / "RESULTS.md").read_text().splitlines()
    assert [line for line in kept if line and line[:2] != "!["] == [line for line in made if line]


def test_rows_are_judged_by_their_errors_when_read(document, tmp_path):
    """A document from before other libraries had limits of their own."""
    document = copy.deepcopy(document)
    for case in document["cases"]:
        del case["peer_limits"]
        for row in case["rows"]:
            if row["peer"] in ("ours", "right"):
                row["errors"]["weak"]["output"] = 6e-3  # the limit of ours is 5e-3
                row.update(status="wrong", reason="weak gates: output error 6.0e-03 exceeds 5e-03")
    path = tmp_path / "old.json"
    path.write_text(json.dumps(document))
    rows = {row["peer"]: row for row in record.load(path)["cases"][0]["rows"]}
    assert (rows["right"]["status"], rows["right"]["reason"]) == ("ok", "")
    assert rows["ours"]["status"] == rows["wrong"]["status"] == "wrong"
    assert rows["ours"]["reason"] == "weak gates: output error 6.0e-03 exceeds 5.0e-03"
    document["cases"][0]["peer_limits"] = {"output": 5.5e-3, "state": 1e-4}
    path.write_text(json.dumps(document))
    rows = {row["peer"]: row for row in record.load(path)["cases"][0]["rows"]}
    assert rows["right"]["status"] == "wrong"  # what a run says of its limits holds


@pytest.fixture(scope="module")
def prefill(tmp_path_factory):
    """Prefill without ours, with both gates timed."""
    with pytest.MonkeyPatch.context() as patch:
        return run_fakes(
            patch,
            tmp_path_factory.mktemp("prefill"),
            ["right", "wrong", "failing"],
            prefill_cases(("gdn",), ("vk",), ("1x9", "1x7"), [(1, 2)], (16, 16)),
            {"work": "prefill"},
            timed_gates=("weak", "strong"),
        )


def test_prefill_has_a_line_per_case_and_library(prefill):
    document = copy.deepcopy(prefill)
    entry = document["cases"][0]
    entry["floor"]["ms"] = 0.1
    row = timed(document, 0, "right", 0.55)
    row["errors"]["weak"]["window"], row["first_call_s"] = 1.21e-2, 12.34
    del row["times"]["strong"]
    text = report.render([document], None)
    lines = [line for line in text.splitlines() if line.startswith("| 1x9 ")]
    cells = [cell.strip() for cell in lines[0].strip("|").split("|")]
    assert cells[:7] == ["1x9", "1/2", "0.1000", "right", "0.5500", "not run", "5.5"]
    assert cells[9:11] == ["1.2e-02", "12.34"]
    assert " (1.0e-01) |" in text  # wrong
    assert " failed |" in text and "- failing: failed (an error)" in text
    assert "- right: strong gates not run (the budget was used up) in gdn functional vk 1x9" in text
    assert "| prefill | gdn      | functional | right" in text.split("## prefill")[0]


def test_prefill_of_others_is_divided_by_ours(monkeypatch, tmp_path):
    todo = prefill_cases(("gdn",), ("vk",), ("1x9",), [(1, 2)], (16, 16))
    document = run_fakes(
        monkeypatch, tmp_path, ["ours", "right"], todo, {"work": "prefill"},
        timed_gates=("weak", "strong"),
    )  # fmt: skip
    assert document["cases"][0]["limits"] == {"output": 5e-3, "state": 5e-3, "window": 2e-2}
    timed(document, 0, "ours", 0.5), timed(document, 0, "right", 0.75)
    lines = report.render([document], None).splitlines()
    heading = next(line for line in lines if line.startswith("| rows x tokens"))
    place = [cell.strip() for cell in heading.split("|")].index("x")
    line = next(line for line in lines if "| right " in line and line.count("|") > 10)
    assert line.split("|")[place].strip() == "1.50"


def test_what_a_graph_could_not_hold_says_why(prefill):
    document = copy.deepcopy(prefill)
    row = next(row for row in document["cases"][1]["rows"] if row["peer"] == "right")
    row["times"]["weak"].update(method="stream", no_graph="RuntimeError: it waits")
    text = report.render([document], None)
    assert " no graph |" in text
    assert "called one by one. RuntimeError: it waits. Seen in gdn functional vk 1x7 1/2" in text


def test_medians_far_from_the_least_replay_are_named(prefill):
    document = copy.deepcopy(prefill)
    for case in document["cases"]:
        for row in case["rows"]:
            for times in row["times"].values():
                times["device"].update(median=1.0, min=0.99)
    timed(document, 1, "right", 1.1)
    text = report.render([document], None)
    assert "of their replays, which is: right, gdn functional vk 1x7 1/2: 0.9900." in text


def test_names_of_shapes_are_explained():
    entries = [{"shape_name": "few", "lengths": [5, 5, 3]}, {"shape_name": "2x7", "lengths": [7]}]
    assert report.shape_note(entries) == "*few*: packed rows of 2 of 5, 3 tokens.\n"


def test_clients_and_runs_stand_in_order(document, prefill, tmp_path):
    client = {
        "client": "layers", "ok": False, "seconds": 3.2,
        "environment": {"chip": "a chip", "versions": {"python": "3.12", "fla": "0.6"}},
        "cases": [
            {"name": "one", "ok": True, "ours": {"ratio": 3e-3}, "theirs": {"ratio": 2e-3}},
            {"name": "two", "ok": False},
        ],
    }  # fmt: skip
    sources = []
    for name, content in (("a-prefill", prefill), ("b", client), ("c-decode", document)):
        sources.append(tmp_path / f"{name}.json")
        sources[-1].write_text(json.dumps(content))
    report.write_page(sources, tmp_path / "PAGE.md", None, False)
    text = (tmp_path / "PAGE.md").read_text()
    assert text.index("\n## decode") < text.index("\n## prefill") < text.index("\n## clients")
    line = next(line for line in text.splitlines() if line.startswith("| b "))
    assert [cell.strip() for cell in line.strip("|").split("|")] == [
        "b", "a chip", "fla 0.6", "1 of 2", "1.50", "3",
    ]  # fmt: skip
    assert "- b: two is wrong" in text


def test_documents_are_checked(document):
    assert record.faults_of(document) == []
    broken = copy.deepcopy(document)
    del broken["cases"][0]["rows"][0]["status"]
    assert record.faults_of(broken) == ["$.cases[0].rows[0].status: missing"]
    broken = copy.deepcopy(document)
    broken["version"] = 99
    assert "expected dl-bench 1, got dl-bench 99" in record.faults_of(broken)[0]
    broken = copy.deepcopy(document)
    broken["cases"][0]["rows"][0]["times"] = {}
    assert "without times" in record.faults_of(broken)[0]
    broken["cases"][0]["rows"][0]["status"] = "fine"
    assert "unknown 'fine'" in record.faults_of(broken)[0]


def test_numbers_that_json_lacks_are_text(tmp_path, monkeypatch):
    document = run_fakes(monkeypatch, tmp_path, ["nan"], small_cases(ops=("gdn",)))
    row = document["cases"][0]["rows"][0]
    assert row["errors"]["weak"]["output"] == "inf"
    assert "inf" in report.error_table(document)
