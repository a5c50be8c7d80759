# Tests of pages, ratios, goals and plots.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import copy
import json

import pytest

from bench import cli, record, report
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
