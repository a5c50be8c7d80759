# The command line.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import argparse
import pkgutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from . import cases

DEFAULT_GOALS = Path(__file__).resolve().with_name("goals.csv")

EPILOG = """\
examples:
  python3 tools/bench --work=decode --out=build/bench --budget=240
  python3 tools/bench --work=decode --peers=ours,flashinfer --op=gdn --name=flashinfer --out=...
  python3 tools/bench --work=prefill --op=kda --heads=32 --shapes=1x8192 --out=build/bench
  python3 tools/bench --render build/bench/*.json --out=page.md
"""


def peer_names() -> list[str]:
    """The modules in peers/, found without importing any, or torch."""
    folder = Path(__file__).resolve().parent / "peers"
    return sorted(module.name for module in pkgutil.iter_modules([str(folder)]))


def one_of(allowed: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """A comma-separated list of these words."""

    def parse(text: str) -> tuple[str, ...]:
        words = tuple(text.split(","))
        for word in words:
            if word not in allowed:
                wanted = ", ".join(allowed)
                raise argparse.ArgumentTypeError(f"expected some of {wanted}; got '{word}'")
        return words

    return parse


def numbers(text: str) -> tuple[int, ...]:
    words = text.split(",")
    if not all(word.isdigit() and int(word) > 0 for word in words):
        raise argparse.ArgumentTypeError(f"expected numbers above 0, got '{text}'")
    return tuple(int(word) for word in words)


def heads(text: str) -> tuple[tuple[int, int], ...]:
    """'32' or key heads / value heads, '16/64'."""
    pairs = []
    for word in text.split(","):
        parts = word.split("/")
        if len(parts) > 2 or not all(part.isdigit() and int(part) > 0 for part in parts):
            raise argparse.ArgumentTypeError(f"expected HEADS or HQ/HV, got '{word}'")
        hq, hv = int(parts[0]), int(parts[-1])
        if hv % hq:
            raise argparse.ArgumentTypeError(f"expected HV to be a multiple of HQ, got '{word}'")
        pairs.append((hq, hv))
    return tuple(pairs)


def dims(text: str) -> tuple[tuple[int, int], ...]:
    """'128x128,64x64': K and V of the states."""
    pairs = []
    for word in text.split(","):
        parts = word.split("x")
        if len(parts) != 2 or not all(part.isdigit() and int(part) > 0 for part in parts):
            raise argparse.ArgumentTypeError(f"expected KxV, got '{word}'")
        pairs.append((int(parts[0]), int(parts[1])))
    return tuple(pairs)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench",
        description="Times ours against every library that imports, side by side.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--work", choices=cases.WORKS, help="what to time")
    add("--op", type=one_of(cases.OPERATORS + cases.VARIANTS), help="operators (default: all)")
    add("--form", type=one_of(cases.FORMS), help="how states are passed (default: by the work)")
    add(
        "--layout",
        type=one_of(cases.LAYOUTS),
        help="state layouts (default: kv,vk; prefill vk, rwkv6 kv)",
    )
    add("--batch", type=numbers, help="rows, decode and append (default: 1,8,64,256,512)")
    add("--tokens", type=numbers, help="tokens per row, append (default: 1,2,4,8) and log (1)")
    add("--window", type=int, default=16, help="log: entries before a merge (default: 16)")
    add("--state", type=one_of(("f32", "bf16")), default=("f32",), help="log: how bases are stored")
    add("--check-tokens", type=numbers,
        help="log: tokens after which errors are taken (default: 128); variants: tokens of the row "
        "that a prefill is checked with (1024)")  # fmt: skip
    add("--shapes", help="prefill: " + ", ".join(cases.PREFILL_LENGTHS) + ", or ROWSxTOKENS")
    add("--heads", type=heads, help="HEADS or HQ/HV (default: 32; prefill 32,64)")
    add("--dims", type=dims, default=((128, 128),), help="KxV (default: 128x128)")
    add("--kda-gate", choices=("softplus", "bounded"), help="default: bounded for prefill only")
    add("--gates", type=one_of(cases.GATES), default=cases.GATES, help="gates to check with")
    add("--timed-gates", type=one_of(cases.GATES), help="gates to time with (default: --gates)")
    add(
        "--slots", choices=("shuffled", "ordered"), default="shuffled", help="rows' places in pools"
    )
    add("--peers", type=one_of(peer_names()), help="default: all but naive")
    add("--device", default="", help="cuda:N or cpu (default: cuda:0 if there is one)")
    add("--budget", type=float, default=3600.0, help="seconds after which nothing is begun")
    add("--first-call-limit", type=float, default=180.0, help="seconds for a peer's first call")
    add("--replays", type=int, default=0, help="measurements per number (default: 30; cpu 5)")
    add("--seed", type=int, default=1)
    add("--name", default="", help="of the JSON file (default: the work)")
    add("--out", type=Path, required=True, help="folder for JSON; with --render, the page")
    add("--goals", type=Path, default=DEFAULT_GOALS,
        help="a table of goals (default: goals.csv beside this program)")  # fmt: skip
    add("--render", nargs="+", type=Path, metavar="JSON", help="only make a page, from these")
    add("--no-plots", action="store_true", help="with --render: no plots")
    add("--quiet", action="store_true", help="no progress")
    return parser


def list_cases(arguments: argparse.Namespace) -> list[cases.Case]:
    """The cases that the arguments ask for."""
    a = argparse.Namespace(**vars(arguments))
    allowed = cases.VARIANTS if a.work == "variants" else cases.OPERATORS
    a.op = a.op or allowed
    wrong = [op for op in a.op if op not in allowed]
    if wrong:
        raise ValueError(f"--op: expected some of {', '.join(allowed)}; got '{wrong[0]}'")
    if a.work == "variants":
        return list_variants(a)
    if a.work == "prefill":
        shapes = (a.shapes or "1x2048,1x8192,8x1024,mixed6").split(",")
        heads = a.heads or ((32, 32), (64, 64))
        usual = {"rwkv6": ("kv",)}  # what most libraries have; the others' is [V, K]
        return [
            case
            for size in a.dims
            for op in a.op
            for case in cases.prefill_cases(
                (op,), a.layout or usual.get(op, ("vk",)), shapes, heads, size,
                a.kda_gate or "bounded",
            )
        ]  # fmt: skip
    if a.work == "log":
        return [
            case
            for size in a.dims
            for pair in a.heads or ((32, 32),)
            for case in cases.log_cases(
                a.op, a.layout or cases.LAYOUTS, a.batch or (64, 256, 512), pair, size,
                a.kda_gate or "softplus", a.tokens or (1,), a.window, a.state,
            )
        ]  # fmt: skip
    if a.work == "append":
        forms, tokens = a.form or ("functional", "snapshots"), a.tokens or (1, 2, 4, 8)
    else:
        forms, tokens = a.form or ("functional", "pool"), (1,)
    return [
        case
        for size in a.dims
        for pair in a.heads or ((32, 32),)
        for case in cases.decode_cases(
            a.op, a.layout or cases.LAYOUTS, forms, a.batch or (1, 8, 64, 256, 512), pair, size,
            a.kda_gate or "softplus", tokens, a.work,
        )
    ]  # fmt: skip


def list_variants(a: argparse.Namespace) -> list[cases.Case]:
    """Operators of variants.py: decode first, then prefill."""
    pairs = a.heads or ((32, 32),)
    if any(hq != hv for hq, hv in pairs):
        raise ValueError("--heads: expected as many key as value heads for variants")
    return [
        case
        for size in a.dims
        for hv, _ in pairs
        for case in cases.variant_cases(
            a.op, a.layout or cases.LAYOUTS, a.layout or ("kv",), a.batch or (128, 256, 512),
            (a.shapes or "1x8192").split(","), hv, size,
        )
    ]  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Times, and prints the tables. 0: all rows of ours are right; 1: not, or not all were run."""
    import torch

    from .goals import Goals
    from .record import Record
    from .report import render
    from .runner import Options, Runner

    a = arguments
    device = torch.device(a.device or ("cuda:0" if torch.cuda.is_available() else "cpu"))
    if device.type == "cuda":
        torch.cuda.set_device(device)
    timed = a.timed_gates or (a.gates[:1] if a.work == "log" else a.gates)
    is_variants = a.work == "variants"
    if is_variants:  # which have weak gates only
        timed = ("weak",)
    usual_tokens = (1024,) if is_variants else (128,)
    options = Options(
        device,
        a.gates,
        timed,
        a.budget,
        a.first_call_limit,
        a.replays or (30 if device.type == "cuda" else 5),
        a.seed,
        a.slots == "shuffled",
        a.check_tokens or usual_tokens,
        not a.quiet,
    )
    facts: dict[str, Any] = {
        key: str(value) if isinstance(value, Path) else value
        for key, value in vars(a).items()
        if key not in ("out", "render", "goals", "quiet", "no_plots") and value is not None
    }
    record = Record(a.out / f"{a.name or a.work}.json", {**facts, "timed_gates": timed}, device)
    record.write()
    runner = Runner(options, record)
    names = a.peers or [name for name in peer_names() if name != "naive"]
    if is_variants and not a.peers:
        names = ["ours", "fla"]
    with torch.inference_mode():
        runner.load(list(names))
        runner.run(list_cases(a))
    print(render([record.load_back()], Goals.read(a.goals)))
    return 0 if record.ours_is_right() else 1


def main(argv: Sequence[str] | None = None) -> int:
    parser = make_parser()
    arguments = parser.parse_args(argv)
    if arguments.render:
        from .report import write_page

        try:
            write_page(arguments.render, arguments.out, arguments.goals, not arguments.no_plots)
        except (OSError, ValueError) as error:
            print(f"bench: {error}", file=sys.stderr)
            return 2
        return 0
    if not arguments.work:
        parser.error("expected --work or --render")
    try:
        list_cases(arguments)
    except ValueError as error:
        parser.error(str(error))
    return run(arguments)
