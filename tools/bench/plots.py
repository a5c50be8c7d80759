# Plots of latency against batch and length, made from the JSON of a run alone.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from .report import label, our_names, time_of

COLOURS = ("#4477aa", "#228833", "#ccbb44", "#aa3377", "#66ccee", "#bbbbbb")
COLUMNS = 4  # of panels, before there is a second band
OURS, FLOOR = "#ee6677", "#000000"

Curves = dict[str, list[tuple[float, float]]]  # by label: size and milliseconds


def panels_of(cases: list[dict[str, Any]], gates: str) -> dict[str, Curves]:
    """The curves of each panel; 'floor' is one of them. Rows with wrong results are left out."""
    panels: dict[str, Curves] = defaultdict(lambda: defaultdict(list))
    for case in cases:
        is_prefill = case["work"] == "prefill"
        if is_prefill and case["lengths"]:
            continue  # packed rows of different lengths have no place on the axis
        panel = panels[panel_name(case)]
        x = case["B"] if case["work"] == "decode" else case["T"]
        if case["floor"]:
            panel["floor"].append((x, case["floor"]["ms"]))
        for row in case["rows"]:
            ms = time_of(row, gates)
            if ms is not None and row["status"] == "ok":
                panel[label(row)].append((x, ms))
    return panels


def panel_name(case: dict[str, Any]) -> str:
    state = "[K, V]" if case["layout"] == "kv" else "[V, K]"
    heads = f"{case['HQ']}/{case['HV']}" if case["HQ"] != case["HV"] else f"{case['HQ']}"
    batch = f", B = {case['B']}" if case["work"] == "append" else ""
    return f"{case['form']}, {state}, {heads} heads{batch}"


def _draw_curves(axes: Any, curves: Curves, ours: set[str], over_floor: bool) -> None:
    floor = dict(curves.get("floor", []))
    colours = iter(COLOURS * 3)
    for name, points in sorted(curves.items(), key=lambda item: item[0]):
        points = sorted(points)
        xs = [x for x, _ in points]
        ys = [y / floor[x] if over_floor else y for x, y in points]
        if name == "floor":
            axes.plot(xs, ys, color=FLOOR, linestyle="--", linewidth=1, label="floor")
        else:
            is_ours = name.split(" ")[0] in ours
            colour = OURS if is_ours else next(colours)
            axes.plot(xs, ys, color=colour, marker="o", markersize=3,
                      linewidth=2 if is_ours else 1.2, label=name)  # fmt: skip


def draw(document: dict[str, Any], folder: Path, prefix: str) -> list[str]:
    """One picture per operator: latency above, latency over the floor below. Returns file names."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = prefix  # the same data give the same file
    matplotlib.rcParams["svg.fonttype"] = "none"
    from matplotlib import pyplot

    ours = our_names(document)
    names = []
    timed = document["arguments"].get("timed_gates", [])
    for op in dict.fromkeys(case["op"] for case in document["cases"]):
        cases = [case for case in document["cases"] if case["op"] == op and case["work"] != "log"]
        if not cases:
            continue
        several = len(timed) > 1 and cases[0]["work"] == "prefill"
        for gates in timed if several else timed[:1]:
            panels = {
                title: curves
                for title, curves in panels_of(cases, gates).items()
                if len(curves) > 1 and max(len(points) for points in curves.values()) > 1
            }
            if not panels:
                continue
            columns = min(len(panels), COLUMNS)
            bands = -(-len(panels) // columns)
            figure, axes = pyplot.subplots(
                2 * bands, columns, figsize=(3.6 * columns, 6 * bands), squeeze=False
            )
            work = cases[0]["work"]
            places = [(axes[2 * b][c], axes[2 * b + 1][c]) for b in range(bands)
                      for c in range(columns)]  # fmt: skip
            for (top, bottom), (title, curves) in zip(places, panels.items(), strict=False):
                _draw_panel(top, bottom, title, curves, ours)
                bottom.set_xlabel("batch" if work == "decode" else "tokens")
            for top, bottom in places[len(panels) :]:
                top.set_axis_off()
                bottom.set_axis_off()
            for band in range(bands):
                axes[2 * band][0].set_ylabel("ms per call")
                axes[2 * band + 1][0].set_ylabel("time over floor")
            strength = f", {gates} gates"
            figure.suptitle(f"{op} {work}, {document['environment']['device']}{strength}")
            figure.tight_layout()
            stem = prefix if op in prefix.split("-") else f"{prefix}-{op}"
            name = stem + (f"-{gates}" if several else "") + ".svg"
            figure.savefig(folder / name, metadata={"Date": None})
            pyplot.close(figure)
            names.append(name)
    return names


def _draw_panel(top: Any, bottom: Any, title: str, curves: Curves, ours: set[str]) -> None:
    from matplotlib.ticker import NullLocator, ScalarFormatter

    _draw_curves(top, curves, ours, over_floor=False)
    _draw_curves(bottom, curves, ours, over_floor=True)
    top.set_title(title, fontsize=9)
    top.set_yscale("log")
    sizes = sorted({x for points in curves.values() for x, _ in points})
    for axes in (top, bottom):
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes)
        axes.xaxis.set_major_formatter(ScalarFormatter())
        axes.xaxis.set_minor_locator(NullLocator())
        axes.grid(True, alpha=0.3)
    bottom.set_ylim(bottom=0)
    top.legend(fontsize=7)
