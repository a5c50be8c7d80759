# Pages in Markdown, made from the JSON of runs alone.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import importlib.util
import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from . import logreport
from .cases import WORKS
from .goals import Goals
from .record import STATUSES, limits_of, load
from .reference import PEER_ALLOWANCE

Document = dict[str, Any]
Entry = dict[str, Any]  # of a case
RowEntry = dict[str, Any]

ABOUT = """\
# Results

Made by `tools/bench`, not by hand, from the JSON in the folder beside it, which was written on the
device; tools/bench/README.md says how. A section is one run: all its libraries in one process on
the same inputs, bf16 activations, fp32 states, raw gates and beta logits, queries and keys not
normalised. All times are medians.

- **ms**: milliseconds per call, of CUDA-graph replays that rotate over buffers which together
  exceed twice the L2 cache; "no graph": of calls one by one, which the host may hold up.
- **x**: a library's time over ours, of the same scope where there is one. Above 1 ours is faster.
- **floor**: the least time: the fewest bytes at the rate of an in-place scale of as many bytes as
  the states hold (of 1 GiB for prefill), or, if larger, the arithmetic of the chunk form (chunks of
  64) at the rate of a large bf16 matrix product, both measured in the same run.
- **host**: microseconds that issuing a call without a graph costs the host.
- **[gates given]**: log decays and betas are inputs, in fp32; **[norms, gates given]**: normalised
  queries and keys too; **[with torch]**: torch computes them, in the time; **[pdl]**: programmatic
  dependent launch. Without brackets: everything, from raw inputs.
- **weak**, **strong** gates: as layers are initialised, and -3.3 per token on average.
- **errors** are relative RMS against a token-by-token recurrence in fp64, computed before the time
  was taken; *window* is the worst one of any 64 tokens of a row and head. (Brackets): over the
  limit, so the time counts for nothing. Other libraries' limits are PEER_ALLOWANCE times ours.
- **slow**: the first call, which compiles and tunes, was over its time limit; **failed**: an error;
  **not run**: the run's time was up before; **-**: the library has nothing for this case.
"""


SUMMARY = """\
## In short

Ranges over all cases and layouts of a section, of calls that do everything from raw inputs. *Over
the floor*: a time over the least possible one.
"""


def markdown_table(heading: list[str], rows: Iterable[list[str]], left: int = 1) -> str:
    """A table whose first `left` columns are aligned to the left."""
    rows = list(rows)
    widths = [max(len(r[i]) for r in [heading, *rows]) for i in range(len(heading))]

    def line(cells: list[str]) -> str:
        padded = [
            cell.ljust(w) if i < left else cell.rjust(w)
            for i, (cell, w) in enumerate(zip(cells, widths, strict=True))
        ]
        return "| " + " | ".join(padded) + " |"

    rule = [
        ":" + "-" * max(w - 1, 1) if i < left else "-" * max(w - 1, 1) + ":"
        for i, w in enumerate(widths)
    ]
    return "\n".join([line(heading), "| " + " | ".join(rule) + " |", *map(line, rows)]) + "\n"


def time_of(row: RowEntry, gates: str) -> float | None:
    """Milliseconds, or None if the row has none."""
    times = row["times"].get(gates)
    return times["device"]["median"] if times else None


def show_ms(row: RowEntry | None, gates: str) -> str:
    """A time; what is said instead of one; brackets around one that does not count."""
    if row is None:
        return ""
    ms = time_of(row, gates)
    if ms is None:
        if row["status"] in ("unsupported", "missing"):
            return "-"
        # What was not reached with these gates may be right with others.
        return "not run" if row["status"] in ("ok", "not_run") else str(row["status"])
    text = f"{ms:.4f}" if ms < 1 else f"{ms:.3f}"
    if row["times"][gates]["method"] == "stream":
        text += " no graph"
    return text if row["status"] == "ok" else f"({text})"


def ratio(row: RowEntry | None, ours: RowEntry | None, gates: str) -> float | None:
    """A row's time over that of ours, if both are right."""
    if not row or not ours or row["status"] != "ok" or ours["status"] != "ok":
        return None
    mine, theirs = time_of(ours, gates), time_of(row, gates)
    return theirs / mine if mine and theirs else None


def label(row: RowEntry) -> str:
    return row["peer"] if row["scope"] == "fused" else f"{row['peer']} [{row['scope']}]"


def our_names(document: Document) -> set[str]:
    return {peer["name"] for peer in document["peers"] if peer["is_ours"]}


def series_of(document: Document) -> dict[tuple, list[Entry]]:
    """Cases by table."""
    tables: dict[tuple, list[Entry]] = defaultdict(list)
    for case in document["cases"]:
        if case["work"] == "log":
            continue  # see logreport.py
        key = ("work", "op", "form", "layout", "gate", "K", "V")
        tables[tuple(case[name] for name in key)].append(case)
    return tables


def size_cells(entries: list[Entry]) -> tuple[list[str], list[list[str]]]:
    """What tells the cases of a table apart: the heading, and the cells for each case."""
    columns = ["shape_name"] if entries[0]["shape_name"] else ["B"]
    if entries[0]["work"] == "append":
        columns.append("T")
    heading = ["rows x tokens" if column == "shape_name" else column for column in columns]
    cells = [[str(entry[column]) for column in columns] for entry in entries]
    heads = [f"{e['HQ']}/{e['HV']}" if e["HQ"] != e["HV"] else str(e["HQ"]) for e in entries]
    return [*heading, "heads"], [[*cell, head] for cell, head in zip(cells, heads, strict=True)]


def ours_like(entry: Entry, name: str, ours: set[str]) -> RowEntry | None:
    """The row of ours to compare a label with: of its scope if there is one, else the fused one."""
    _, bracket, scope = name.partition(" [")
    rows = [_find(entry, f"{own}{bracket}{scope}") or _find(entry, own) for own in sorted(ours)]
    return next((row for row in rows if row is not None), None)


def latency_table(document: Document, entries: list[Entry], gates: str, goals: Goals) -> str:
    """One line per case: the floor, ours, the goal, then the others with their ratios; '' if no
    library has anything for these cases."""
    ours = our_names(document)
    labels = list(dict.fromkeys(label(row) for e in entries for row in e["rows"]))
    present = [n for n in labels if any(_find(e, n) and _is_shown(_find(e, n)) for e in entries)]
    mine = next((n for n in present if n.split(" ")[0] in ours), None)
    others = [name for name in present if name != mine]
    if not present:
        return ""
    heading, cells = size_cells(entries)
    left = len(heading)
    heading += ["floor ms"] + ([mine, "floor/it", "goal"] if mine else [])
    heading += [text for name in others for text in (name, *(["x"] if mine else []))]
    fused = [name for name in present if "[" not in name]
    heading += [f"host us {name}" for name in fused]
    rows = []
    for entry, cell in zip(entries, cells, strict=True):
        floor = entry["floor"]["ms"] if entry["floor"] else None
        our_row = _find(entry, mine) if mine else None
        line = [*cell, f"{floor:.4f}" if floor else ""]
        if mine:
            ms = time_of(our_row, gates) if our_row else None
            share = f"{100 * floor / ms:.1f}%" if floor and ms else ""
            line += [show_ms(our_row, gates), share, goals.verdict(entry, our_row, gates)]
        for name in others:
            row = _find(entry, name)
            line.append(show_ms(row, gates))
            if mine:
                like = our_row if name.split(" ")[0] in ours else ours_like(entry, name, ours)
                times = ratio(row, like, gates)
                line.append(f"{times:.2f}" if times else "")
        line += [_host(_find(entry, name), gates) for name in fused]
        rows.append(line)
    if mine and not any(line[left + 3] for line in rows):
        del heading[left + 3]
        for line in rows:
            del line[left + 3]
    return markdown_table(heading, rows, left)


def _find(entry: Entry, name: str | None) -> RowEntry | None:
    return next((row for row in entry["rows"] if label(row) == name), None)


def _is_shown(row: RowEntry | None) -> bool:
    return row is not None and row["status"] not in ("unsupported", "missing")


def _host(row: RowEntry | None, gates: str) -> str:
    times = row["times"].get(gates) if row else None
    return f"{1e3 * times['host_ms']:.0f}" if times else ""


def prefill_table(document: Document, entries: list[Entry], timed: list[str]) -> str:
    """A line per case and library, with all that there is to say of both; '' if there is nothing:
    these cases differ too much for the libraries to stand side by side."""
    ours = our_names(document)
    labels = list(dict.fromkeys(label(row) for e in entries for row in e["rows"]))
    present = [n for n in labels if any(_is_shown(_find(e, n)) for e in entries)]
    if not present:
        return ""
    has_ours = any(name.split(" ")[0] in ours for name in present)
    kinds = list(entries[0]["limits"])
    heading, cells = size_cells(entries)
    left = len(heading) + 2
    heading = [*heading, "floor ms", "library", *(f"ms, {gates}" for gates in timed), "over floor"]
    heading += ["x"] if has_ours else []
    heading += [*(f"{kind} error" for kind in kinds), "first call s", "host us"]
    rows = []
    for entry, cell in zip(entries, cells, strict=True):
        floor = entry["floor"]["ms"] if entry["floor"] else None
        begin = [*cell, f"{floor:.4f}" if floor else ""]
        for name in present:
            row = _find(entry, name)
            if row is None:
                continue
            ms = time_of(row, timed[0])
            line = [*begin, name, *(show_ms(row, gates) for gates in timed)]
            line.append(f"{ms / floor:.1f}" if ms and floor and row["status"] == "ok" else "")
            if has_ours:
                times = ratio(row, ours_like(entry, name, ours), timed[0])
                line.append(f"{times:.2f}" if times else "")
            line += _worst_errors(row, kinds, limits_of(document, entry, row["peer"]))
            first = row["first_call_s"] if row["errors"] else None
            line.append("" if first is None else f"{first:.2f}")
            rows.append([*line, _host(row, timed[0])])
            begin = [""] * len(begin)
    return markdown_table(heading, rows, left)


def _worst_errors(row: RowEntry, kinds: list[str], limits: dict[str, float]) -> list[str]:
    """The largest error of each kind over all gates."""
    cells = []
    for kind in kinds:
        values = [float(errors[kind]) for errors in row["errors"].values() if kind in errors]
        worst = max(values, default=None)
        cells.append("" if worst is None else show_error(worst, limits[kind]))
    return cells


def show_error(value: float, limit: float) -> str:
    """An error; in brackets if it is over its limit."""
    return f"{value:.1e}" if value <= limit else f"({value:.1e})"


def shape_note(entries: list[Entry]) -> str:
    """The lengths behind names of shapes that are not 'ROWSxTOKENS'."""
    named = {
        e["shape_name"]: e["lengths"] for e in entries if not e["shape_name"][:1].isdigit()
    }  # fmt: skip
    lines = []
    for name, lengths in named.items():
        runs: list[list[int]] = []
        for length in lengths:
            if runs and runs[-1][1] == length:
                runs[-1][0] += 1
            else:
                runs.append([1, length])
        text = ", ".join(f"{n} of {length}" if n > 1 else str(length) for n, length in runs)
        lines.append(f"*{name}*: packed rows of {text} tokens.")
    return "\n".join(lines) + "\n" if lines else ""


def error_table(document: Document) -> str:
    """The worst errors of each peer by operator and gates, and ours over the best other one's."""
    worst: dict[tuple[str, str, str, str], float] = {}
    limits: dict[str, dict[str, float]] = {}  # by library
    for case in document["cases"]:
        for row in case["rows"]:
            limits.setdefault(row["peer"], {}).update(limits_of(document, case, row["peer"]))
            for gates, errors in row["errors"].items():
                for kind, value in errors.items():
                    if kind not in limits[row["peer"]]:
                        continue  # of logs, after more tokens
                    key = (case["op"], label(row), gates, kind)
                    worst[key] = max(worst.get(key, 0.0), float(value))
    if not worst:
        return ""
    columns = list(dict.fromkeys((gates, kind) for _, _, gates, kind in worst))
    rows = []
    for op, name in dict.fromkeys((op, name) for op, name, _, _ in worst):
        bounds = limits[name.split(" ")[0]]
        values = [(worst.get((op, name, *column)), bounds[column[1]]) for column in columns]
        rows.append([op, name] + ["" if v is None else show_error(v, most) for v, most in values])
    heading = ["operator", "library", *(f"{kind}, {gates}" for gates, kind in columns)]
    ours = our_names(document)
    for whose, names in (("ours", limits.keys() & ours), ("others", limits.keys() - ours)):
        for bounds in [limits[name] for name in sorted(names)][:1]:
            line = [f"{bounds[kind]:.1e}" for _, kind in columns]
            rows.append(["", f"limit of {whose}", *line])
    return markdown_table(heading, rows, 2)


def error_note(document: Document) -> str:
    """How our errors compare with the smallest ones of other libraries on the same inputs."""
    ours = our_names(document)
    worst: dict[str, float] = {}
    for case in document["cases"]:
        if case["work"] == "log":
            continue  # ours went through more tokens than the others
        for own in (row for row in case["rows"] if row["peer"] in ours):
            for gates, errors in own["errors"].items():
                for kind, value in errors.items():
                    others = [
                        float(row["errors"][gates][kind])
                        for row in case["rows"]
                        if row["peer"] not in ours and kind in row["errors"].get(gates, {})
                    ]
                    if others and min(others) > 0:
                        over = float(value) / min(others)
                        worst[kind] = max(worst.get(kind, 0.0), over)
    if not worst:
        return ""
    text = ", ".join(f"{kind} {value:.2f}" for kind, value in worst.items())
    return f"Errors of ours over the best other library's, at most: {text}.\n"


def first_call_table(document: Document) -> str:
    """Seconds of first calls by peer and operator: the longest one, and all of them."""
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    for case in document["cases"]:
        for row in case["rows"]:
            if row["first_call_s"] is not None and row["errors"]:
                seconds[(row["peer"], case["op"])].append(row["first_call_s"])
    rows = [
        [peer, op, str(len(values)), f"{max(values):.2f}", f"{sum(values):.1f}"]
        for (peer, op), values in sorted(seconds.items())
    ]
    if not rows:
        return ""
    return markdown_table(["library", "operator", "cases", "longest, s", "together, s"], rows, 2)


def exceptions_list(document: Document) -> str:
    """Libraries that are missing, and rows that are not plainly right, with their reasons."""
    lines = []
    for peer in document["peers"]:
        if peer["status"] != "ready":
            lines.append(f"- {peer['name']}: {peer['status']}. {peer['reason']}")
    groups: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    timed = document["arguments"].get("timed_gates", [])
    halves: dict[tuple[str, str], list[str]] = defaultdict(list)
    for case in document["cases"]:
        for row in case["rows"]:
            left = [gates for gates in timed if gates not in row["times"]]
            if left and row["times"] and row["status"] in ("ok", "wrong"):
                what = f"{' and '.join(left)} gates not run (the budget was used up)"
                halves[(label(row), what)].append(case["name"])
            for times in row["times"].values():
                if times["method"] == "stream":
                    why = f" {times['no_graph']}." if times.get("no_graph") else ""
                    what = f"cannot be captured in a graph, so it was called one by one.{why} Seen"
                    halves[(label(row), what)].append(case["name"])
    for case in document["cases"]:
        for row in case["rows"]:
            if row["status"] != "ok":
                reason = row["reason"].removeprefix("not tried again: ")
                groups[(label(row), row["status"], reason)].append(case["name"])
    for (name, what), names in halves.items():
        lines.append(f"- {name}: {what} in {', '.join(dict.fromkeys(names))}")
    for (name, status, reason), names in groups.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        if status == "unsupported":
            lines.append(f"- {name}: {reason} ({len(names)} cases)")
        else:
            word = status.replace("_", " ")
            lines.append(f"- {name}: {word} ({STATUSES[status]}) in {names[0]}{more}. {reason}")
    return "\n".join(lines) + "\n" if lines else ""


def facts_of(document: Document) -> str:
    """One paragraph: the device and all versions."""
    e = document["environment"]
    driver = f", driver {e['driver']}" if e["driver"] else ""
    software = f"CUDA {e['cuda']}, " if e["cuda"] else ""
    libraries = [
        f"{p['name']}: {p['version']}" for p in document["peers"] if p["status"] == "ready"
    ]
    ceilings = document["ceilings"]
    rates = [f"{2 * s['bytes'] / s['ms'] / 1e9:.2f}" for s in ceilings["scales"]]
    sizes = [f"{s['bytes'] / 1e6:.0f}" for s in ceilings["scales"]]
    measured = ""
    if rates:
        measured = f" Scale in place: {', '.join(rates)} TB/s for {', '.join(sizes)} MB."
    if ceilings["matmul_flops"]:
        measured += f" Matrix product: {ceilings['matmul_flops'] / 1e12:.0f} TFLOP/s."
    end = "" if document["ended_by"] == "all done" else f" Ended early: {document['ended_by']}."
    return (
        f"{e['device']}{driver}, {software}torch {e['torch']}, Triton {e['triton'] or '-'}, "
        f"Python {e['python']}. {document['time']}, {document['seconds']:.0f} s. "
        f"{'; '.join(libraries)}.{measured}{end}\n"
    )


def gate_note(entries: list[Entry], timed: list[str]) -> str:
    """How far the times with other gates are from those of the first, in a sentence; decode and
    append kernels do the same work for all numbers."""
    if len(timed) < 2:
        return ""
    worst, where = 0.0, ""
    for entry in entries:
        for row in entry["rows"]:
            first = time_of(row, timed[0])
            for gates in timed[1:]:
                other = time_of(row, gates)
                if row["status"] == "ok" and first and other and abs(other / first - 1) >= worst:
                    worst, where = abs(other / first - 1), f"{label(row)}, {entry['name']}"
    if not where:
        return ""
    names = " and ".join(timed[1:])
    return f"Times with {names} gates differ from these by at most {100 * worst:.1f}% ({where}).\n"


SPREAD = 1.05  # a median over the least of its replays that is worth a note


def spread_note(entries: list[Entry], gates: str) -> str:
    """Times whose median is far from the least of their replays. What saturates memory has replays
    of two kinds, some 11 % apart, and the median is now of one kind, now of the other."""
    wide = []
    for entry in entries:
        for row in entry["rows"]:
            times = row["times"].get(gates)
            device = times["device"] if times else {}
            if device and device["median"] > SPREAD * device["min"]:
                wide.append(f"{label(row)}, {entry['name']}: {device['min']:.4f}")
    if not wide:
        return ""
    return f"Medians over 5% above the least of their replays, which is: {'; '.join(wide)}.\n"


def section(document: Document, goals: Goals, plots: list[str]) -> str:
    """All that one run has to say."""
    arguments = document["arguments"]
    timed = arguments.get("timed_gates", [])
    parts = [f"## {arguments.get('name') or arguments.get('work', '')}\n", facts_of(document)]
    if timed:
        parts += logreport.sections(document, goals, timed[0])
    for (work, op, form, layout, gate, K, V), entries in series_of(document).items():
        state = "[K, V]" if layout == "kv" else "[V, K]"
        also = f", {gate} gate" if op == "kda" else ""
        title = f"### {op} {work}, {form}, {state} of {K} x {V}{also}"
        if work == "prefill":
            table, note = prefill_table(document, entries, timed), shape_note(entries)
        else:
            title += f", {timed[0]} gates"
            table = latency_table(document, entries, timed[0], goals)
            note = gate_note(entries, timed)
        if table:
            notes = [note, spread_note(entries, timed[0])]
            parts += [f"{title}\n", table, *filter(None, notes)]
    parts += [f"![{Path(plot).stem}]({plot})\n" for plot in plots]
    for title, text in (
        (
            "Worst relative RMS errors against fp64",
            "\n".join(filter(None, [error_table(document), error_note(document)])),
        ),
        ("First calls: loading, compiling, tuning", first_call_table(document)),
        ("Not timed, or not right", exceptions_list(document)),
    ):
        if text:
            parts += [f"### {title}\n", text]
    return "\n".join(parts)


def _range(values: list[float], digits: int) -> str:
    low, high = (f"{value:.{digits}f}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def summary(documents: list[Document]) -> str:
    """A line per operator, form and other library: how it compares with ours and the floor."""
    rows = []
    for document in documents:
        ours = our_names(document)
        groups: dict[tuple[str, str, str], list[Entry]] = defaultdict(list)
        for case in document["cases"]:
            groups[(case["work"], case["op"], case["form"])].append(case)
        for group, cases in groups.items():
            over_floor: dict[str, list[float]] = defaultdict(list)
            over_ours: dict[str, list[float]] = defaultdict(list)
            for case in cases:
                mine = next((_find(case, n) for n in sorted(ours) if _find(case, n)), None)
                for row in (r for r in case["rows"] if r["scope"] == "fused"):
                    ms = [time_of(row, g) for g in row["times"] if row["status"] == "ok"]
                    over_floor[row["peer"]] += [m / case["floor"]["ms"] for m in ms if m]
                    ratios = [ratio(row, mine, gates) for gates in row["times"]]
                    over_ours[row["peer"]] += [r for r in ratios if r]
            names = [name for name, values in over_floor.items() if values]
            own = [value for name in names if name in ours for value in over_floor[name]]
            for name in [n for n in names if n not in ours] or [n for n in names if n in ours]:
                theirs = over_floor[name] if name not in ours else []
                rows.append([
                    *group, name if theirs else "(only ours)",
                    _range(over_ours[name], 2) if theirs and over_ours[name] else "",
                    _range(theirs, 2) if theirs else "", _range(own, 2) if own else "",
                ])  # fmt: skip
    if not rows:
        return ""
    heading = ["work", "operator", "form", "library", "x (its time over ours)"]
    heading += ["its time over the floor", "ours over the floor"]
    return "\n".join([SUMMARY, markdown_table(heading, rows, 4)])


def client_section(clients: dict[str, Document]) -> str:
    """What tools/clients found, by the names of its files."""
    if not clients:
        return ""
    rows, faults = [], []
    for name, client in clients.items():
        cases, versions = client["cases"], client["environment"]["versions"]
        used = ", ".join(f"{key} {versions[key]}" for key in versions if key != "python")
        over = [
            case["ours"]["ratio"] / case["theirs"]["ratio"]
            for case in cases
            if case.get("ours") and case.get("theirs") and case["theirs"]["ratio"] > 0
        ]
        right = f"{sum(case['ok'] for case in cases)} of {len(cases)}"
        rows.append([
            name, client["environment"]["chip"], used, right,
            f"{max(over):.2f}" if over else "", f"{client['seconds']:.0f}",
        ])  # fmt: skip
        faults += [f"- {name}: {case['name']} is wrong" for case in cases if not case["ok"]]
    heading = ["client", "device", "with", "cases right"]
    heading += ["our error over theirs, at most", "seconds"]
    about = (
        "Programs that call linattn where they called another library, and compare what comes "
        "out,\nand both libraries' errors against f64; tools/clients/README.md says how.\n"
    )
    table = markdown_table(heading, rows, 3)
    return "\n".join(["## clients\n", about, table, *faults])


def render(
    documents: list[Document],
    goals: Goals | None,
    plots: dict[int, list[str]] | None = None,
    clients: dict[str, Document] | None = None,
) -> str:
    """The page; `plots` names the pictures of each document."""
    sections = [
        section(document, goals or Goals([]), (plots or {}).get(i, []))
        for i, document in enumerate(documents)
    ]
    about = ABOUT.replace("PEER_ALLOWANCE", str(PEER_ALLOWANCE))
    parts = [about, summary(documents), *sections, client_section(clients or {})]
    return "\n".join(filter(None, parts))


def read_sources(sources: list[Path]) -> tuple[dict[str, Document], dict[str, Document]]:
    """Runs and what clients found, by the names of the files; runs in the order of their work."""
    runs: dict[str, Document] = {}
    clients: dict[str, Document] = {}
    for path in sources:
        content = json.loads(path.read_text())
        if isinstance(content, dict) and "client" in content:
            clients[path.stem] = content
        else:
            runs[path.stem] = load(path)

    def place(name: str) -> tuple[int, str]:
        work = runs[name]["arguments"].get("work")
        return (WORKS.index(work) if work in WORKS else len(WORKS), name)

    return {name: runs[name] for name in sorted(runs, key=place)}, clients


def write_page(sources: list[Path], out: Path, goals_path: Path | None, with_plots: bool) -> None:
    """Reads JSON and writes the page. Plots go to a folder beside it that has its name in small
    letters, where the JSON of a page that is kept lies too."""
    runs, clients = read_sources(sources)
    documents = list(runs.values())
    goals = Goals.read(goals_path) if goals_path else None
    plots: dict[int, list[str]] = {}
    out.parent.mkdir(parents=True, exist_ok=True)
    if with_plots and importlib.util.find_spec("matplotlib") is None:
        print("bench: no matplotlib here, so no plots; --no-plots says that it is meant")
    elif with_plots:
        from .plots import draw

        folder = out.with_suffix("").with_name(out.stem.lower())
        folder.mkdir(exist_ok=True)
        for i, (stem, document) in enumerate(runs.items()):
            drawn = draw(document, folder, stem)
            plots[i] = [f"{folder.name}/{name}" for name in drawn]
    out.write_text(render(documents, goals, plots, clients))
