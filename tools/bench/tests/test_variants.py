# Tests of the operators of examples/ that are timed by --work=variants.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import json
import os
import sys
import types
from dataclasses import replace

import pytest
import torch

from bench import record, reference, tuning, variants
from bench.cases import VARIANTS, Case, variant_cases
from bench.inputs import Inputs
from bench.peers import load_peer
from bench.peers.fla import variant_call, why_not_variant
from bench.variants import OPERATORS, Terms, Update, make_problem, recurrence

from . import fakes
from .test_cli import bench

TIMED = [op for op in OPERATORS if OPERATORS[op].fla]
SMALL = ("--work=variants", "--device=cpu", "--heads=2", "--dims=16x16", "--replays=2",
         "--batch=2", "--shapes=1x7")  # fmt: skip


def small(op: str, work: str = "prefill", layout: str = "kv", T: int = 9) -> Case:
    form = "functional" if work == "prefill" else "pool"
    return Case(work, op, form, layout, 2, T, 2, 2, 16, 32, gate="")


def test_all_operators_are_known():
    assert set(OPERATORS) == set(VARIANTS)
    folder = fakes.TOOLS.parent / "examples"
    assert all((folder / f"{op}.mlir").is_file() for op in VARIANTS)


@pytest.mark.parametrize("op", VARIANTS)
@pytest.mark.parametrize("work", ["decode", "prefill"])
def test_inputs_are_the_specs(op, work):
    problem = make_problem(small(op, work, T=1 if work == "decode" else 9), "cpu", 2)
    spec = (fakes.TOOLS.parent / "examples" / f"{op}.mlir").read_text()
    first, second = problem.inputs
    for name, tensor in first.items():
        assert f"%{name}: " in spec and torch.isfinite(tensor).all()
        assert tensor.is_contiguous() and tensor.equal(second[name])
        assert tensor.data_ptr() != second[name].data_ptr()
    want = problem.reference()
    assert torch.isfinite(want.o).all() and want.o.shape[1:] == (problem.case.T, 2, 32)
    assert want.o.square().mean() > 1e-6


def test_two_layouts_hold_the_same_states():
    kv, vk = (make_problem(small("rwkv7", layout=layout), "cpu", 1) for layout in ("kv", "vk"))
    vk.states[0] = kv.states[0].transpose(2, 3).contiguous()
    assert torch.equal(kv.reference().o, vk.reference().o)


def test_a_product_of_one_step_is_the_gated_delta_rule():
    """The recurrence of reference.py, written apart from this one."""
    case = small("gated_deltaproduct")
    problem = make_problem(case, "cpu", 1)
    x = problem.inputs[0]
    x["b1"] = torch.full_like(x["b1"], -1e4)  # the second step does nothing
    got = problem.reference()
    inputs = Inputs(
        x["q"], x["k0"], x["v0"], x["a"], x["b0"], x["A_log"], x["dt_bias"], None,
        problem.states[0], None, case.K**-0.5,
    )  # fmt: skip
    want = reference.reference(replace(case, op="gdn", gate="softplus"), inputs)
    torch.testing.assert_close(got.o, want.o)
    torch.testing.assert_close(got.state, want.state)


def norm(x: torch.Tensor, wanted: bool) -> torch.Tensor:
    return reference.l2norm(x.float()) if wanted else x.float()


def chunk_rwkv7(r, w, k, v, a, b, safe_gate, lower_bound, chunk_size, **common):
    assert lower_bound < w.min() and w.max() < 0 and safe_gate and chunk_size == 64
    updates = [Update(b, None, -a, before_decay=True), Update(k, v)]
    return run_fake(Terms(r, updates, 0.0, w), **common)


def chunk_gated_delta_product(q, k, v, g, beta, num_householder, use_qk_l2norm_in_kernel, **common):
    n, k = num_householder, norm(k, use_qk_l2norm_in_kernel)
    updates = [Update(k[:, i::n], v[:, i::n], k[:, i::n], beta[:, i::n]) for i in range(n)]
    return run_fake(Terms(norm(q, use_qk_l2norm_in_kernel), updates, 0.0, g), **common)


def chunk_delta_rule(q, k, v, beta, use_qk_l2norm_in_kernel, **common):
    k = norm(k, use_qk_l2norm_in_kernel)
    q = norm(q, use_qk_l2norm_in_kernel)
    return run_fake(Terms(q, [Update(k, v, k, beta)], 0.0), **common)


def chunk_gla(q, k, v, g, **common):
    return run_fake(Terms(q, [Update(k, v)], 0.0, g), **common)


def chunk_simple_gla(q, k, v, g=None, g_gamma=None, **common):
    assert (g is None) != (g_gamma is None)
    g = g_gamma.expand(q.shape[:3]) if g is None else g
    return run_fake(Terms(q, [Update(k, v)], 0.0, g), **common)


def chunk_comba(q, k, v, p, g, beta, use_qk_l2norm_in_kernel, **common):
    q, k, p = (norm(x, use_qk_l2norm_in_kernel) for x in (q, k, p))
    return run_fake(Terms(q, [Update(k, v, p, beta, before_decay=True)], 0.0, g), **common)


def chunk_gdn2(q, k, v, g, b, w, A_log, dt_bias, use_gate_in_kernel, use_qk_l2norm_in_kernel,
               **common):  # fmt: skip
    assert use_gate_in_kernel and dt_bias.dim() == 1
    q, k = (norm(x, use_qk_l2norm_in_kernel) for x in (q, k))
    g = -A_log.exp()[:, None] * torch.nn.functional.softplus(g + dt_bias.view(g.shape[2:]))
    return run_fake(Terms(q, [Update(k, w * v, b * k)], 0.0, g), **common)


def run_fake(terms, scale, initial_state, output_final_state):
    """What fla's functions have in common, in fp32, with the outputs' type."""
    assert output_final_state
    updates = [
        Update(*(v.float() if isinstance(v, torch.Tensor) else v for v in vars(u).values()))
        for u in terms.updates
    ]
    g = None if terms.log_decay is None else terms.log_decay.float()
    o, S = recurrence(Terms(terms.q.float(), updates, scale, g), initial_state.clone())
    return o.bfloat16(), S


FAKES = [chunk_rwkv7, chunk_gated_delta_product, chunk_delta_rule, chunk_gla, chunk_simple_gla,
         chunk_comba, chunk_gdn2]  # fmt: skip


@pytest.fixture
def fake_fla(monkeypatch):
    """fla's functions with the names and the meaning of 0.6.0."""
    for entry in filter(None, (op.fla for op in OPERATORS.values())):
        module = types.ModuleType(f"fla.ops.{entry.module}")
        for function in FAKES:
            if function.__name__ == entry.function:
                setattr(module, function.__name__, function)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    for name in ("fla", "fla.ops"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    for name in ("gated_delta_rule", "kda", "rwkv6", "kda.fused_recurrent"):
        name = f"fla.ops.{name}"
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))


@pytest.mark.parametrize("op", TIMED)
def test_fla_is_asked_for_the_same(fake_fla, op):
    problem = make_problem(small(op), "cpu", 1)
    call = variant_call(problem)
    o, state = call.run(0)
    assert call.finish is not None and OPERATORS[op].fla.function in call.note
    got = problem.result(call.finish(o, problem.inputs[0]), state)
    errors = reference.errors_of(problem.case, got, problem.reference())
    assert not reference.too_large(errors, reference.peer_limits(reference.LIMITS["prefill"]))


def test_fla_says_what_it_has_not():
    assert why_not_variant(small("two_key_delta")) == "no such operator"
    assert why_not_variant(small("gla", "decode")) == "timed for prefill only"
    assert "[K, V]" in str(why_not_variant(small("gla", layout="vk")))
    assert why_not_variant(small("gla")) is None


def test_times_and_renders(tmp_path, capsys, fake_fla):
    ops = "--op=mamba2,two_key_delta"
    assert bench(*SMALL, ops, "--peers=naive,fla", f"--out={tmp_path}") == 0
    printed = capsys.readouterr().out
    document = json.loads((tmp_path / "variants.json").read_text())
    assert record.faults_of(document) == [] and document["ended_by"] == "all done"
    assert [case["work"] for case in document["cases"]] == ["decode"] * 4 + ["prefill"] * 2
    rows = [(case["work"], row["peer"], row["status"])
            for case in document["cases"] for row in case["rows"]]  # fmt: skip
    assert (
        rows.count(("decode", "naive", "ok")) == 4 and rows.count(("prefill", "naive", "ok")) == 2
    )
    assert rows.count(("prefill", "fla", "ok")) == 1
    assert rows.count(("prefill", "fla", "unsupported")) == 1 and len(rows) == 8
    assert "### mamba2 prefill, functional" in printed and "fla [gates given]" in printed
    page = tmp_path / "page.md"
    assert bench("--render", tmp_path / "variants.json", f"--out={page}", "--no-plots") == 0
    assert page.read_text() == printed.removesuffix("\n")


def test_a_library_that_is_missing_is_said(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "fla", None)
    assert bench(*SMALL, "--op=gla", "--peers=naive,fla", f"--out={tmp_path}") == 0
    assert "fla: missing" in capsys.readouterr().out


def test_what_fails_or_is_wrong_is_a_row(tmp_path, capsys, fake_fla, monkeypatch):
    module = sys.modules["fla.ops.gla"]

    def fail(**arguments):
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(module, "chunk_gla", fail)
    monkeypatch.setattr(
        sys.modules["fla.ops.rwkv7"],
        "chunk_rwkv7",
        lambda **a: tuple(1.1 * t for t in chunk_rwkv7(**a)),
    )
    assert bench(*SMALL, "--op=gla,rwkv7,hgrn2", "--peers=fla", f"--out={tmp_path}") == 0
    document = json.loads((tmp_path / "variants.json").read_text())
    rows = {c["op"]: c["rows"][0] for c in document["cases"] if c["work"] == "prefill"}
    assert rows["gla"]["status"] == rows["hgrn2"]["status"] == "failed"
    assert "no such kernel" in rows["gla"]["reason"]
    assert rows["rwkv7"]["status"] == "wrong" and rows["rwkv7"]["times"]


def test_the_budget_holds(tmp_path, capsys):
    assert bench(*SMALL, "--budget=0", "--peers=naive", f"--out={tmp_path}") == 0
    document = json.loads((tmp_path / "variants.json").read_text())
    assert document["ended_by"] == "budget" and len(document["cases"]) == 30
    assert {row["status"] for case in document["cases"] for row in case["rows"]} == {"not_run"}


@pytest.mark.parametrize(
    "more, text",
    [(["--op=gdn"], "expected some of deltanet"), (["--heads=1/2"], "as many key as value heads"),
     (["--shapes=mixed6"], "ROWSxTOKENS")],
)  # fmt: skip
def test_wrong_arguments(tmp_path, capsys, more, text):
    assert bench(*SMALL, *more, f"--out={tmp_path}") == 2
    assert text in capsys.readouterr().err


def test_costs():
    (case,) = variant_cases(["gla"], ["kv"], [], [8], ["1x64"], 4, (32, 16))
    assert case.work == "decode" and case.B == 8
    io, flops = variants.cost_of(case)
    assert io == 2 * 4 * (3 * 32 + 2 * 16) and flops == 4 * 32 * 16


def test_processes_that_compile():
    assert tuning.processes(["a", "b"], 5) == [("a", 0, 2), ("a", 1, 2), ("b", 0, 2), ("b", 1, 2)]
    assert len(tuning.processes(["a"] * 9, 2)) == 9


@pytest.mark.skipif(not os.environ.get("LINATTN_LIBRARY"), reason="needs a built runtime")
def test_ours_is_right_on_the_cpu(tmp_path, capsys):
    pytest.importorskip("linattn")
    more = ("--dims=32x32", "--shapes=1x70", "--layout=kv,vk", "--peers=ours", f"--out={tmp_path}")
    assert bench(*SMALL, *more) == 0
    document = json.loads((tmp_path / "variants.json").read_text())
    rows = [row for case in document["cases"] for row in case["rows"]]
    assert len(rows) == 40 and {row["status"] for row in rows} == {"ok"}
    assert load_peer("ours").why_not_variant(small("gla")) is None
