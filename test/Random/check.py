# check.py - Compiles operators drawn at random and compares their kernels with fp64 recurrences.
#
#   check.py [OPTION...]
#     --seeds=A-B,C   the operators of these seeds (default 1-12)
#     --seconds=S     as many more as there is time for
#     --all           every schedule and chunk of each operator, not two
#     --no-launch     only what dl-run does: where libdlk cannot be loaded, as with sanitizers
#     --jobs=N        operators at a time (default: the number of processors)
#     --keep=FOLDER   specs and packages stay there (default: a folder that is removed)
#     --spoil         reads count a hundredth more here: everything must be found
#     --print         print the specs, do nothing else
#     --build=FOLDER  where dl-compile, dl-run and libdlk were built (default: build/)
#
# A seed gives the same operator, problems and choice of kernels everywhere: what fails is found
# again by --seeds=N. For hundreds of them: nice python3 test/Random/check.py --seeds=1000-1500
#
# Each operator (drawing.py) is compiled for the cpu. Its decode kernel has to work; prefill and log
# kernels too, or be refused in one line for the very conditions (A1.., B1..) which the operator was
# drawn to break. Kernels are then compared twice: by dl-run with the evaluator that travels in the
# package, made from the spec, with weak, strong and extreme gates; and here (launch.py, logs.py)
# with the drawn equations themselves in double precision.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "runtime" / "python")]

import drawing  # noqa: E402
import operators  # noqa: E402

DIMS = (32, 16), (64, 32), (48, 20), (16, 36)  # K a multiple of 16, as products of chunks want it
ODD_DIMS = (20, 16), (36, 44)
LOGS = "plan,append,merge,materialize"
# Random operators may have more to cancel than those that dl-run's limits are made for.
MARGIN = 2.0
TOO_MANY = re.compile(
    r"error: kernel '\w+': expected at most \d+ tensors as arguments, got \d+$", re.M
)


class Check:
    """One seed: its operator, the kernels chosen for it, and what was wrong."""

    def __init__(self, seed: int, folder: Path, options: argparse.Namespace) -> None:
        self.seed, self.folder, self.options = seed, folder, options
        self.op = drawing.draw(seed)
        self.random = random.Random(f"choices of {seed}")
        self.spec = folder / f"{self.op.name}.mlir"
        self.spec.write_text(self.op.spec())
        self.findings: list[str] = []
        self.done: list[str] = []

    def find(self, what: str, text: str) -> None:
        self.findings.append(f"seed {self.seed}: {what}: {text}")

    def tool(self, name: str, *arguments: str) -> subprocess.CompletedProcess:
        command = [str(Path(self.options.build) / "bin" / name), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)

    def compile(
        self, name: str, kernels: str, *more: str
    ) -> tuple[Path, subprocess.CompletedProcess]:
        package = self.folder / f"{self.op.name}.{name}.dlk"
        command = [
            "dl-compile",
            str(self.spec),
            "-o",
            str(package),
            "--target=cpu",
            f"--kernels={kernels}",
            "-j",
            "1",
        ]
        return package, self.tool(*command, *more)

    # --- what is to be

    def refused(self, name: str, schedule: str, result: subprocess.CompletedProcess) -> None:
        """A refusal names the conditions that are broken, one line each, and nothing else."""
        expected = self.op.refusals(schedule)
        errors = re.findall(r"^[^\n]*error: [^\n]*", result.stderr, re.MULTILINE)
        named = set(re.findall(r"\(([AB][1-9])\): expected ", "\n".join(errors)))
        if result.returncode != 1 or not errors or named != expected:
            self.find(
                name,
                f"expected to be refused for {sorted(expected)}, got status {result.returncode}\n"
                + result.stderr,
            )
        self.done.append(f"{name} refused")

    def served(self, name: str, kind: str, kernels: str, *more: str) -> None:
        """Kernels which exist, and are right."""
        package, result = self.compile(name, kernels, *more)
        if TOO_MANY.search(result.stderr) and result.returncode == 1 and not package.exists():
            self.done.append(f"{name} refused for its arguments")
            return
        if result.returncode != 0:
            return self.find(f"{name} {' '.join(more)}", f"does not compile\n{result.stderr}")
        if kind != "log":
            self.verify(name, kind, package, more)
        if not self.options.no_launch:
            self.launch(name, kind, package, more)
        self.done.append(name)

    def verify(self, name: str, kind: str, package: Path, more: tuple[str, ...]) -> None:
        shapes = (
            "B=2,T=1,HQ=1,HV=2",
            f"B=1,T={self.random.choice([37, 130])},HQ=2,HV=2",
            "B=3,T=33,HQ=1,HV=2",
        )
        for shape in shapes:
            command = (
                "dl-run",
                "verify",
                str(package),
                "--device=cpu",
                f"--shape={shape}",
                f"--seed={self.seed}",
                "--json",
            )
            result = self.tool(*command)
            if result.returncode not in (0, 1) or not result.stdout:
                self.find(name, f"dl-run ended with {result.returncode}\n{result.stderr}")
                continue
            for kernel in json.loads(result.stdout)["kernels"]:
                for case in kernel["cases"]:
                    if case["failure"] and not self.is_near(case, kernel):
                        self.find(
                            f"{name} {' '.join(more)}", f"{case['failure']}\n  {shape} {case}"
                        )

    @staticmethod
    def is_near(case: dict, kernel: dict) -> bool:
        """Whether it misses its limit by so little that the numbers drawn explain it."""
        errors = (
            (case["output_error"], kernel["output_limit"]),
            (case["state_error"], kernel["state_limit"]),
        )
        return "relative error" in case["failure"] and all(
            x is not None and x <= MARGIN * most for x, most in errors
        )

    def launch(self, name: str, kind: str, package: Path, more: tuple[str, ...]) -> None:
        import linattn

        import launch
        import logs

        opened = linattn.load(package)
        kernel = opened.kernels[0]
        problem = launch.Problem(self.op, kernel.key_dim, kernel.value_dim, self.seed)
        if kind == "log":
            texts = logs.run(opened, problem, MARGIN)
        else:
            shape = launch.Shape([37, 0, 20] if self.random.random() < 0.7 else [48, 48])
            shape.packed = shape.rows[1] == 0
            texts = launch.run_dense(kernel, problem, shape, MARGIN)
        for text in texts:
            self.find(f"{name} {' '.join(more)}", f"launched: {text}")

    # --- the choice

    def types(self) -> list[str]:
        """Mostly f32, where errors are small enough to show."""
        options = [f"--io-type={self.random.choice(['f32', 'f32', 'f32', 'bf16', 'f16'])}"]
        if self.random.random() < 0.15:
            options.append(f"--state-type={self.random.choice(['bf16', 'f16'])}")
        if self.random.random() < 0.1:
            options.append("--index-type=i64")
        return options

    def shape(self, dims: tuple) -> list[str]:
        K, V = self.random.choice(dims)
        return [f"--dims={K}x{V}", f"--state-layout={self.random.choice(['kv', 'vk'])}"]

    def run(self) -> None:
        self.served("decode", "decode", "decode", *self.shape(DIMS + ODD_DIMS), *self.types())
        if self.op.refusals("chunkwise"):
            self.refused("prefill", "chunkwise", self.compile("prefill", "prefill")[1])
        else:
            for name, more in self.prefills():
                self.served(name, "prefill", "prefill", *self.shape(DIMS), *self.types(), *more)
        if self.op.refusals("log"):
            self.refused("append", "log", self.compile("log", LOGS)[1])
        else:
            limits = [f"--window={self.random.choice([1, 4, 6])}", "--max-tokens=3"]
            more = [*self.shape(DIMS + ODD_DIMS), *self.types(), *limits]
            self.served("log", "log", LOGS, *more)

    def prefills(self) -> list[tuple[str, list[str]]]:
        writes = len(self.op.writes)
        chunks = [c for c in (16, 32, 64, 128) if c >= 16 * writes]
        forms = []
        for chunk in chunks:
            for form in ("chunkwise", "chunkwise,part-blocks=4", "fused"):
                name = f"{form.replace(',part-blocks=4', '-parts')}-c{chunk}"
                forms.append((name, [f"--schedule=prefill:{form}", f"--chunk={chunk}"]))
        if self.options.all:
            return forms
        cheap = [f for f in forms if "c128" not in f[0]] or forms
        return self.random.sample(cheap, min(2, len(cheap)))


def check_seed(seed: int, folder: Path, options: argparse.Namespace) -> int:
    if options.spoil:
        read = operators.read
        operators.read = lambda state, key: [1.01 * x for x in read(state, key)]
    check = Check(seed, folder, options)
    check.run()
    for finding in check.findings:
        print(f"FINDING {finding}")
    print(f"seed {seed}: {', '.join(check.done)}")
    return 1 if check.findings else 0


def run_seed(seed: int, folder: Path, argv: list[str]) -> tuple[int, str]:
    """In a process of its own: a kernel that crashes is a finding, and not the end."""
    command = [sys.executable, __file__, *argv, f"--keep={folder}", f"--one={seed}"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    except subprocess.TimeoutExpired:
        return 1, f"FINDING seed {seed}: takes more than ten minutes\n"
    text = result.stdout
    status = result.returncode
    if status not in (0, 1) or result.stderr:
        status = status or 1
        text += f"FINDING seed {seed}: ended with {result.returncode}\n{result.stderr}\n"
    return status, text


def seeds_of(text: str) -> list[int]:
    """1-3,7 is 1, 2, 3 and 7."""
    seeds = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


def run_all(options: argparse.Namespace, argv: list[str], folder: Path) -> int:
    seeds = seeds_of(options.seeds)
    more = range(max(seeds) + 1, max(seeds) + 100000) if options.seconds else ()
    deadline = time.monotonic() + options.seconds
    failed = []

    def work(seed: int) -> None:
        if seed not in seeds and time.monotonic() > deadline:
            return
        status, text = run_seed(seed, folder, argv)
        print(text, end="", flush=True)
        if status:
            failed.append(seed)
        work_done.append(seed)

    work_done: list[int] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(work, [*seeds, *more]))
    print(f"{len(work_done)} operators, {len(failed)} with findings {sorted(failed) or ''}")
    return 1 if failed or not work_done else 0


def main() -> int:
    parser = argparse.ArgumentParser(add_help=True)
    parser.add_argument("--seeds", default="1-12")
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--no-launch", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--keep")
    parser.add_argument("--spoil", action="store_true")
    parser.add_argument("--print", action="store_true")
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ.setdefault("LINATTN_LIBRARY", str(Path(options.build) / "runtime" / "libdlk.so"))
    if options.one is not None:
        return check_seed(options.one, Path(options.keep), options)
    if options.print:
        for seed in seeds_of(options.seeds):
            print(drawing.draw(seed).spec())
        return 0
    argv = [
        a for a in sys.argv[1:] if not a.startswith(("--seeds", "--seconds", "--keep", "--jobs"))
    ]
    if options.keep:
        Path(options.keep).mkdir(parents=True, exist_ok=True)
        return run_all(options, argv, Path(options.keep))
    with tempfile.TemporaryDirectory() as folder:
        return run_all(options, argv, Path(folder))


if __name__ == "__main__":
    sys.exit(main())
