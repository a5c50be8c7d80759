"""fla's own tests of the recurrent and the chunkwise functions, with linattn's in their place.

--fla-tests names a folder with test_gdn.py, test_kda.py and test_rwkv6.py of fla's repository
(tests/ops); they are read, never copied. fla itself comes from its wheels. Of its tests those run
that call a replaced function and no other operator. Where such a test compares two calls of the
same function, it could not notice an error in both: so every call is also compared with fla's naive
function, and the test fails if they differ.

Tests run without gradients: the kernels have none. Where a test asks for some, as most do of the
chunkwise functions, backward() does nothing and all gradients are zeros, so only the rest counts.
test_rwkv6.py compares chunk_rwkv6 and its gradients with fused_recurrent_rwkv6, so there only the
parameters are taken, and forward results compared with the naive function within the test's own
tolerances.

A call that linattn refuses is no failure, but listed with its message. Where it refuses a state
that is not f32, the case is also run with the state in f32, and the result noted.

Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

from __future__ import annotations

import importlib
import inspect
import sys
import warnings
from collections.abc import Callable, Generator, Iterator
from itertools import pairwise
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F

import common
import linattn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # fla warns where there is no GPU
    import fla.utils
    from fla.ops.gated_delta_rule.gate import naive_gdn_gate
    from fla.ops.gated_delta_rule.naive import naive_recurrent_gated_delta_rule
    from fla.ops.kda.gate import naive_kda_gate, naive_kda_lowerbound_gate
    from fla.ops.kda.naive import naive_recurrent_kda
    from fla.ops.rwkv6.recurrent_naive import naive_recurrent_rwkv6

Call = dict[str, Any]
Result = tuple[torch.Tensor, torch.Tensor]

# Functions, and modules of fla that export them. It also has them in .fused_recurrent or .chunk.
GDN, KDA, RWKV6 = "fused_recurrent_gated_delta_rule", "fused_recurrent_kda", "fused_recurrent_rwkv6"
CHUNK_GDN, CHUNK_KDA, CHUNK_RWKV6 = "chunk_gated_delta_rule", "chunk_kda", "chunk_rwkv6"
FUNCTIONS = {
    GDN: "fla.ops.gated_delta_rule",
    KDA: "fla.ops.kda",
    RWKV6: "fla.ops.rwkv6",
    CHUNK_GDN: "fla.ops.gated_delta_rule",
    CHUNK_KDA: "fla.ops.kda",
    CHUNK_RWKV6: "fla.ops.rwkv6",
}
FILES = ("test_gdn.py", "test_kda.py", "test_rwkv6.py")
# On pools of states; its one test compares it with the naive function, so no judge is needed.
POOLS = "fused_recurrent_kda_fwd"
# What operators are called in fla's tests: one that uses another than ours is left out.
OPERATORS = ("chunk_", "fused_", "prepare_", "_flash", "naive_chunk")
# Tests of the texts of fla's refusals, of a chunk size that here changes nothing.
THEIR_MESSAGES = ("test_chunk_invalid_chunk_size",)
TOLERANCE = 0.005  # the widest of the tests' own; they apply theirs besides


# --------------------------------------------------------------------------------------------
# The judge: fla's naive functions, brought to the arguments of the recurrent ones
# --------------------------------------------------------------------------------------------


def by_row(call: Call, names: tuple[str, ...], naive: Callable[[Call, Any], Result]) -> Result:
    """The naive functions know no cu_seqlens: row by row, where there are any."""
    state = call["initial_state"]
    if call["cu_seqlens"] is None:
        return naive(call, state)
    starts = call["cu_seqlens"].tolist()
    results = []
    for n, (first, last) in enumerate(pairwise(starts)):
        row = {name: call[name][:, first:last] for name in names}
        results.append(naive(call | row, None if state is None else state[n : n + 1]))
    outputs, states = zip(*results, strict=True)
    return torch.cat(outputs, 1), torch.cat(states, 0)


def delta_inputs(call: Call) -> Call:
    """q, k and beta as the naive functions take them."""
    q, k, beta = call["q"], call["k"], call["beta"]
    if call["use_qk_l2norm_in_kernel"]:
        q, k = (F.normalize(x.float(), p=2, dim=-1) for x in (q, k))
    if call["use_beta_sigmoid_in_kernel"]:
        beta = beta.float().sigmoid() * (2 if call["allow_neg_eigval"] else 1)
    return {"q": q, "k": k, "beta": beta}


def naive_delta(call: Call, naive: Callable[[Call, Any], Result]) -> Result:
    call = call | delta_inputs(call)
    v_first = call["state_v_first"] or call.get("transpose_state_layout", False)
    if v_first and call["initial_state"] is not None:
        call["initial_state"] = call["initial_state"].transpose(2, 3)
    o, state = by_row(call, ("q", "k", "v", "g", "beta"), naive)
    return o, state.transpose(2, 3) if v_first else state


def naive_gdn(call: Call) -> Result:
    if call["use_gate_in_kernel"]:
        call = call | {"g": naive_gdn_gate(call["g"], call["A_log"], call["dt_bias"])}

    def naive(row: Call, state: Any) -> Result:
        q, k = (row[x].repeat_interleave(row["v"].shape[2] // row[x].shape[2], dim=2) for x in "qk")
        inputs = {name: row[name] for name in ("v", "beta", "g", "scale")}
        result: Result = naive_recurrent_gated_delta_rule(
            q=q, k=k, **inputs, initial_state=state, output_final_state=True
        )
        return result

    return naive_delta(call, naive)


def naive_kda(call: Call) -> Result:
    bound = call["lower_bound"]
    if call["use_gate_in_kernel"] and bound is not None:
        call = call | {
            "g": naive_kda_lowerbound_gate(call["g"], call["A_log"], call["dt_bias"], bound)
        }
    elif call["use_gate_in_kernel"]:
        call = call | {"g": naive_kda_gate(call["g"], call["A_log"], call["dt_bias"])}

    def naive(row: Call, state: Any) -> Result:
        inputs = {name: row[name] for name in ("q", "k", "v", "g", "beta", "scale")}
        result: Result = naive_recurrent_kda(**inputs, initial_state=state, output_final_state=True)
        return result

    return naive_delta(call, naive)


def naive_rwkv6(call: Call) -> Result:
    def naive(row: Call, state: Any) -> Result:
        r, k, v, w = (row[name].transpose(1, 2) for name in "rkvw")
        rest = {"scale": row["scale"], "initial_state": state, "output_final_state": True}
        o, last = naive_recurrent_rwkv6(r.float(), k, v, w, row["u"], **rest)
        return o.transpose(1, 2), last

    return by_row(call, ("r", "k", "v", "w"), naive)


JUDGES: dict[str, Callable[[Call], Result]] = {
    GDN: naive_gdn,
    KDA: naive_kda,
    RWKV6: naive_rwkv6,
    CHUNK_GDN: naive_gdn,
    CHUNK_KDA: naive_kda,
    CHUNK_RWKV6: naive_rwkv6,
}
# What chunkwise functions take without naming it.
UNNAMED: Call = {"use_gate_in_kernel": False, "A_log": None, "dt_bias": None}


class Judged:
    """A function of linattn whose every result is compared with that of fla's naive function."""

    def __init__(self, name: str, theirs: Callable[..., Any]) -> None:
        self.name, self.ours = name, cast(Callable[..., Any], getattr(linattn, name))
        self.judge, self.signature = JUDGES[name], inspect.signature(theirs)
        self.calls, self.unjudged, self.worst = 0, 0, {"o": 0.0, "ht": 0.0}
        self.refusals: list[str] = []

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        try:
            o, state = self.ours(*args, **keywords)
        except common.REFUSALS as error:
            self.refusals.append(f"{type(error).__name__}: {error}")
            raise
        bound = self.signature.bind(*args, **keywords)
        bound.apply_defaults()
        call = UNNAMED | bound.arguments | bound.arguments.get("kwargs", {})
        expected = dict(zip(("o", "ht"), self.judge(call), strict=True))
        if not all(x.isfinite().all() for x in expected.values()):
            # Some calls of fla's tests only look at a warning: long rows of keys of any length.
            self.unjudged += 1
            return o, state
        self.calls += 1
        for name, actual in (("o", o), ("ht", state)):
            if actual is None:
                continue
            found = common.difference(expected[name].float(), actual.float())
            self.worst[name] = max(self.worst[name], found["ratio"])
            if not found["ratio"] < TOLERANCE and not found["max"] < 1e-6:
                raise AssertionError(
                    f"{name}: expected a ratio below {TOLERANCE} to naive, got {found}"
                )
        return o, state


# --------------------------------------------------------------------------------------------
# fla's tests
# --------------------------------------------------------------------------------------------


def names_in(code: CodeType) -> set[str]:
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found |= names_in(constant)
    return found


def operators_of(item: pytest.Item) -> set[str]:
    function = getattr(item, "function", None)
    names = names_in(inspect.unwrap(function).__code__) if function else set()
    return {name for name in names if name.startswith(OPERATORS)}


def work_of(item: pytest.Item) -> int:
    """Multiplications of a call, up to a factor: for the limit of --max-work."""
    callspec = getattr(item, "callspec", None)
    size = dict(callspec.params) if callspec else {}
    return work(size)


def work(size: dict[str, Any]) -> int:
    tokens = size["cu_seqlens"][-1] if "cu_seqlens" in size else size.get("B", 1) * size.get("T", 1)
    return int(tokens * size.get("HV", size.get("H", 1)) * size.get("D", 1) ** 2)


class Tests:
    """A pytest plugin: selects tests, and notes what became of them."""

    def __init__(self, report: common.Report) -> None:
        self.report = report
        self.left_out: list[str] = []

    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        limit = self.report.options.max_work
        known = {*FUNCTIONS, POOLS}
        mine = [item for item in items if operators_of(item) and operators_of(item) <= known]
        mine = [item for item in mine if item.name not in THEIR_MESSAGES]
        self.left_out = [item.name for item in mine if limit and work_of(item) > limit]
        kept = [item for item in mine if item.name not in self.left_out]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self) -> Generator[None, None, None]:
        with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch.Tensor, "backward", lambda *args, **keywords: None)
            patch.setattr(torch.Tensor, "grad", property(torch.zeros_like, lambda *args: None))
            yield

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: Any) -> Generator[None, Any, None]:
        outcome = yield
        result = outcome.get_result()
        if call.when == "teardown" or (call.when == "setup" and result.outcome == "passed"):
            return
        facts: dict[str, Any] = {"outcome": result.outcome, "function": min(operators_of(item))}
        if call.excinfo and result.outcome == "failed":
            facts["message"] = f"{call.excinfo.typename}: {call.excinfo.value}"[:600]
            if call.excinfo.errisinstance(common.REFUSALS):
                facts["outcome"] = "refused"
        self.report.add(item.name, facts["outcome"] != "failed", **facts)


def run_tests(report: common.Report, files: list[Path]) -> list[str]:
    """Names of the tests that were left out as too large."""
    plugin = Tests(report)
    # The folder's conftest.py is for fla's kernels, and may not be there.
    arguments = [
        "-q",
        "-q",
        "--no-header",
        "--no-summary",
        "-p",
        "no:cacheprovider",
        "--noconftest",
    ]
    status = pytest.main(
        [*arguments, "--import-mode=importlib", *map(str, files)], plugins=[plugin]
    )
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        report.add("collection", False, outcome="failed", message=f"pytest: {status!r}")
    return plugin.left_out


# --------------------------------------------------------------------------------------------
# RWKV6: the parameters of fla's tests, forward only
# --------------------------------------------------------------------------------------------


def load(path: Path) -> ModuleType:
    specification = importlib.util.spec_from_file_location(f"fla_grid_{path.stem}", path)
    assert specification and specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def parameters(module: ModuleType) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and parameters of each test whose parameters are sizes."""
    for name, function in vars(module).items():
        for mark in getattr(function, "pytestmark", []):
            if name.startswith("test_") and mark.name == "parametrize":
                for values in mark.args[1]:
                    yield (
                        f"{name}[{values.id}]",
                        dict(zip(mark.args[0], values.values, strict=True)),
                    )


def rwkv6_call(size: dict[str, Any], device: str) -> Call:
    torch.manual_seed(42)
    heads, dim, dtype = size["H"], size["D"], size["dtype"]
    cu_seqlens = size.get("cu_seqlens")
    rows, (batch, tokens) = size.get("B", 1), (size.get("B", 1), size.get("T", 0))
    if cu_seqlens is not None:
        rows, batch, tokens = len(cu_seqlens) - 1, 1, cu_seqlens[-1]
        cu_seqlens = torch.tensor(cu_seqlens, dtype=torch.int32, device=device)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=dtype, device=device)

    r, k, v, w = (random(batch, tokens, heads, dim) for _ in range(4))
    w = F.logsigmoid(w) / size.get("gate_logit_normalizer", 1)
    call: Call = {"r": r, "k": k, "v": v, "w": w, "u": random(heads, dim)}
    return call | {"initial_state": random(rows, heads, dim, dim), "cu_seqlens": cu_seqlens}


def try_rwkv6(judged: Judged, call: Call) -> dict[str, Any]:
    facts: dict[str, Any] = {"outcome": "passed", "function": judged.name}
    try:
        o, _ = judged(**call, output_final_state=True)
        again, none = judged.ours(**call, output_final_state=False)
        if none is not None or not torch.equal(o, again):
            raise AssertionError("expected the same o and no state without output_final_state")
    except common.REFUSALS as error:
        facts |= {"outcome": "refused", "message": f"{type(error).__name__}: {error}"}
    except AssertionError as error:
        facts |= {"outcome": "failed", "message": str(error)}
    return facts


def run_rwkv6(report: common.Report, path: Path, judged: Judged) -> list[str]:
    left_out = []
    for name, size in parameters(load(path)):
        if report.options.max_work and work(size) > report.options.max_work:
            left_out.append(name)
            continue
        call = rwkv6_call(size, report.options.device)
        facts = try_rwkv6(judged, call)
        ok = facts["outcome"] != "failed"
        if facts["outcome"] == "refused" and call["initial_state"].dtype != torch.float32:
            call["initial_state"] = call["initial_state"].float()
            again = try_rwkv6(judged, call)
            ok = again["outcome"] == "passed"
            facts |= {"with_state_in_f32": again["outcome"], "then": again.get("message")}
        report.add(f"{judged.name} {name}", ok, **facts)
    return left_out


def install(device: str) -> dict[str, Judged]:
    """Puts the judged functions where the tests will import them from."""
    fla.utils.device = device.split(":")[0]
    result = {}
    for name, module in FUNCTIONS.items():
        own = f"{module}.{'chunk' if name.startswith('chunk') else 'fused_recurrent'}"
        result[name] = Judged(name, getattr(importlib.import_module(own), name))
        for place in (module, own):
            setattr(importlib.import_module(place), name, result[name])
    setattr(importlib.import_module("fla.ops.kda.fused_recurrent"), POOLS, getattr(linattn, POOLS))
    return result


def summarize(report: common.Report, name: str, judged: Judged | None) -> dict[str, Any]:
    """Counts of a function's tests, printed and returned."""
    cases = [case for case in report.cases if case.get("function") == name]
    outcomes = [case["outcome"] for case in cases]
    words = ("passed", "failed", "refused", "skipped")
    counts = ", ".join(f"{outcomes.count(word)} {word}" for word in words if word in outcomes)
    again = [case["with_state_in_f32"] for case in cases if "with_state_in_f32" in case]
    if again:
        counts += f" ({again.count('passed')} of {len(again)} pass with the state in f32)"
    result: dict[str, Any] = {"function": name, "counts": counts}
    line = f"      {name}: {counts or 'no tests'}"
    if judged:
        worst = ", ".join(f"{key} {value:.1e}" for key, value in judged.worst.items())
        line += f"; {judged.calls} calls judged, worst {worst}"
        result |= {"calls": judged.calls, "worst": judged.worst}
        result["calls_without_finite_reference"] = judged.unjudged
        result["refusals"] = sorted(set(judged.refusals))
    print(line)
    return result


def main() -> int:
    parser = common.parser(__doc__)
    parser.add_argument("--fla-tests", type=Path, required=True, help="folder with fla's tests/ops")
    parser.add_argument(
        "--max-work", type=int, default=0, help="leave out larger cases: tokens * HV * D^2"
    )
    options = parser.parse_args()
    files = [options.fla_tests / file for file in FILES]
    for file in files:
        if not file.exists():
            parser.error(f"--fla-tests: expected {file.name} in '{options.fla_tests}', got none")
    report = common.Report("fla_grid", options)
    judged = install(options.device)
    left_out = run_tests(report, files[:2])
    for name in (RWKV6, CHUNK_RWKV6):
        left_out += run_rwkv6(report, files[2], judged[name])
    summary = [summarize(report, name, judged.get(name)) for name in (*FUNCTIONS, POOLS)]
    return report.finish(f"{len(left_out)} left out", functions=summary, left_out=left_out)


if __name__ == "__main__":
    sys.exit(main())
