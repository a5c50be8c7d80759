# Tables of states that are a base and a log.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .goals import Goals

Document = dict[str, Any]
Entry = dict[str, Any]  # of a case
RowEntry = dict[str, Any]

# Errors over 128 tokens that the paper on logs of updates reports: output, state.
PAPER = {"gdn": (0.0030, 8e-7), "kda": (0.0045, 5e-4), "rwkv6": (0.0038, 3e-7)}

ABOUT = """\
*log*: states as a dense base and a log of updates. For one token per step: time per token of whole
cycles of W launches, from an empty log up to and including the merge; for drafts: time per step,
one to T of each row's drafts being accepted. *Append at L*: a launch that finds L entries in every
row's log and merges none; *merging launch*: one in which every row merges. *Floor*: the traffic
model's bytes at the rate of a pass that only reads as many bytes as the states hold, measured in
the same run; in %, what a launch has of it, by its own bytes. *Dense*: our decode kernel, states
updated in place in a pool.
"""


def series_of(document: Document) -> dict[tuple, list[Entry]]:
    """Cases of logs by table."""
    tables: dict[tuple, list[Entry]] = {}
    for case in document["cases"]:
        if case["work"] == "log":
            names = ("op", "layout", "state", "window", "gate", "K", "V")
            key = tuple(case[name] for name in names)
            tables.setdefault((*key, case["T"] > 1), []).append(case)
    return tables


def sections(document: Document, goals: Goals, gates: str) -> list[str]:
    """Titles and tables."""
    parts = []
    for (op, layout, state, window, gate, K, V, is_drafts), entries in series_of(document).items():
        table = _table(document, entries, gates, goals, is_drafts)
        if table:
            shape = "[K, V]" if layout == "kv" else "[V, K]"
            also = f", {gate} gate" if op == "kda" else ""
            what = "drafts" if is_drafts else "single tokens"
            parts += [
                f"### {op} log, {what}, W = {window}, {state} base {shape} of {K} x {V}{also}, "
                f"{gates} gates\n",
                table,
            ]
    if parts:
        parts = [ABOUT, *parts]
        parts += ["### Errors of logs\n", error_table(document)]
    return parts


def find(entry: Entry | None, peer: str, scope: str = "fused") -> RowEntry | None:
    """A row of a case."""
    rows = entry["rows"] if entry else []
    return next((row for row in rows if (row["peer"], row["scope"]) == (peer, scope)), None)


def single_of(document: Document, entry: Entry) -> Entry | None:
    """The case of single tokens that a case of drafts is compared with."""
    names = ("work", "op", "layout", "state", "window", "gate", "K", "V", "B", "HQ", "HV")
    wanted = [entry[name] for name in names]
    for case in document["cases"]:
        if case["work"] == "log" and case["T"] == 1 and [case[n] for n in names] == wanted:
            return case
    return None


def _table(
    document: Document, entries: list[Entry], gates: str, goals: Goals, is_drafts: bool
) -> str:
    from .report import markdown_table, our_names, ratio, show_ms, time_of

    own = next(iter(sorted(our_names(document))), "ours")
    scopes: dict[tuple[str, str], None] = {}
    for entry in entries:
        for row in entry["rows"]:
            if row["times"]:
                scopes[(row["peer"], row["scope"])] = None
    if not any(peer == own for peer, _ in scopes):
        return ""
    parts = [s for p, s in scopes if p == own and s.startswith(("append at", "merging"))]
    beside = [(p, s) for p, s in scopes if p != own or s in ("pdl", "dense", "snapshots")]
    heading = ["B", *(["T"] if is_drafts else []), "heads", "bytes/head", "floor ms", own]
    left = 3 if is_drafts else 2
    heading += ["floor/it", *(["x of T = 1"] if is_drafts else []), "goal"]
    for peer, scope in beside:
        heading += [_label(peer, scope), "x"]
    for scope in parts:
        heading += [scope, "%"]
        heading += ["x of T = 1", "goal"] if is_drafts and "append" in scope else []
    heading.append("plan ms")
    lines = []
    for entry in entries:
        mine = find(entry, own)
        floor, single = entry["floor"], single_of(document, entry) if is_drafts else None
        ms = time_of(mine, gates) if mine else None
        heads = f"{entry['HQ']}/{entry['HV']}" if entry["HQ"] != entry["HV"] else str(entry["HQ"])
        line = [str(entry["B"]), *([str(entry["T"])] if is_drafts else []), heads]
        line += [f"{floor['bytes'] / entry['B'] / entry['HV']:,.0f}" if floor else ""]
        line += [f"{floor['ms']:.4f}" if floor else "", show_ms(mine, gates)]
        line.append(f"{100 * floor['ms'] / ms:.1f}%" if floor and ms else "")
        if is_drafts:
            line.append(_number(ratio(mine, find(single, own), gates)))
        line.append(goals.verdict(entry, mine, gates, single))
        for peer, scope in beside:
            row = find(entry, peer, scope)
            line += [show_ms(row, gates), _number(ratio(row, mine, gates))]
        for scope in parts:
            row = find(entry, own, scope)
            line += [show_ms(row, gates), _share(entry, row, gates)]
            if is_drafts and "append" in scope:
                line.append(_number(ratio(row, find(single, own, scope), gates)))
                line.append(goals.verdict(entry, row, gates, single))
        line.append(show_ms(find(entry, own, "plan"), gates))
        lines.append(line)
    kept = [i for i, name in enumerate(heading) if name != "goal" or any(r[i] for r in lines)]
    lines = [[line[i] for i in kept] for line in lines]
    return markdown_table([heading[i] for i in kept], lines, left)


def _label(peer: str, scope: str) -> str:
    return peer if scope == "fused" else f"{peer} [{scope}]"


def _number(value: float | None) -> str:
    return f"{value:.2f}" if value else ""


def _share(entry: Entry, row: RowEntry | None, gates: str) -> str:
    """What a launch has of the rate of reading, by the traffic model's bytes."""
    times = row["times"].get(gates) if row else None
    if not times or not row or not row.get("bytes") or not entry["floor"]:
        return ""
    rate = entry["floor"]["scale_bytes"] / entry["floor"]["read_ms"]
    return f"{100 * row['bytes'] / rate / times['device']['median']:.0f}"


def error_table(document: Document) -> str:
    """Errors of ours by number of tokens: the worst of all cases, beside the paper's."""
    from .report import markdown_table, our_names

    ours = our_names(document)
    worst: dict[tuple, dict[str, float]] = {}
    for case, row in _rows(document):
        if row["peer"] in ours and row["scope"] == "fused":
            for gates, errors in row["errors"].items():
                for name, value in errors.items():
                    kind, _, tokens = name.partition(" ")
                    first = (document["arguments"].get("check_tokens") or [128])[0]
                    kind_of = "single" if case["T"] == 1 else f"drafts of {case['T']}"
                    count = int(tokens) if tokens else first
                    key = (case["op"], case["state"], kind_of, count, gates)
                    values = worst.setdefault(key, {})
                    values[kind] = max(values.get(kind, 0.0), float(value))
    lines = []
    for (op, state, kind, tokens, gates), values in sorted(worst.items()):
        paper = PAPER.get(op) if (state, kind, tokens) == ("f32", "single", 128) else None
        line = [op, state, kind, gates, str(tokens)]
        for i, name in enumerate(("output", "state")):
            line += [f"{values[name]:.1e}" if name in values else ""]
            line += [f"{paper[i]:.1e}" if paper else ""]
        lines.append(line)
    heading = ["operator", "base", "steps", "gates", "tokens"]
    heading += ["output", "the paper's", "state", "the paper's"]
    note = (
        "Relative RMS, rms(got - want) / rms(want), against the recurrence in fp64 on the same "
        "inputs: of all outputs up to that token, and of the states after it.\n"
    )
    return f"{note}\n{markdown_table(heading, lines, 4)}" if lines else ""


def _rows(document: Document) -> Iterable[tuple[Entry, RowEntry]]:
    for case in document["cases"]:
        if case["work"] == "log":
            for row in case["rows"]:
                yield case, row
