# test_torch_ops.py - Under torch.compile and its kin; gradients.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading

import pytest
from cases import DEVICE, Case, torch

import linattn
import linattn._specs
import linattn.cache
from linattn import fused_recurrent_gated_delta_rule, fused_recurrent_kda, fused_recurrent_rwkv6

OPTIONS = {"gate": "precomputed", "beta": "value", "normalize": False}
FORM = "gdn|kv|gate=precomputed,beta=value,normalize=false|q,k,v,g=0,beta|scale"
BACKENDS = ["eager", "aot_eager"]
if DEVICE != "cpu" or shutil.which("c++") or shutil.which("g++"):
    BACKENDS.append("inductor")


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield


def kernel():
    return linattn.kernel("gdn", key_dim=32, value_dim=48, options=OPTIONS, device=DEVICE)


@pytest.mark.parametrize("initial", [False, True])
@pytest.mark.parametrize("final", [False, True])
def test_opcheck_recurrent(initial, final):
    case = Case()
    inputs = [case.q, case.k, case.v, case.g if initial else None, case.beta]
    state = case.h0 if initial else None
    arguments = (FORM, inputs, state, None, [0.5], final)
    torch.library.opcheck(torch.ops.linattn.recurrent.default, arguments)


def test_opcheck_packed():
    case = Case(T=7, starts=[0, 4, 4, 7])
    inputs = [case.q, case.k, case.v, None, case.beta]
    arguments = (FORM, inputs, case.h0, case.cu_seqlens(), [0.5], True)
    torch.library.opcheck(torch.ops.linattn.recurrent.default, arguments)


def test_opcheck_step():
    case = Case()
    slots = torch.tensor([1, 0], dtype=torch.int32)
    inputs = [case.q, case.k, case.v, case.g, case.beta]
    arguments = (FORM.replace("|scale", "|"), inputs, case.h0.clone())
    torch.library.opcheck(
        torch.ops.linattn.step.default,
        (*arguments, torch.empty_like(case.v), None, slots, slots),
    )
    torch.library.opcheck(torch.ops.linattn.step_new.default, (*arguments, None, slots, slots))


def test_opcheck_kernel():
    case = Case()
    o, slots = torch.empty_like(case.v), torch.tensor([1, 0], dtype=torch.int32)
    arguments = (case.q, case.k, case.v, case.g, case.beta, o, case.h0.clone())
    op = kernel().op.default
    torch.library.opcheck(op, arguments)
    torch.library.opcheck(op, (*arguments, None, slots, slots), {"first_slot": 1, "scale": 0.5})


def test_schema_says_what_is_written():
    text = str(kernel().op.default._schema)
    assert "Tensor(a!) o, Tensor(b!) S, Tensor? S_in=None" in text
    assert text.startswith("linattn::gdn_decode_") and text.endswith("-> ()")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("function", ["gdn", "kda", "rwkv6"])
def test_compiled_functions(backend, function):
    case = Case(H=4)

    def call(q, k, v, h0):
        if function == "gdn":
            return fused_recurrent_gated_delta_rule(
                q * 2,
                k,
                v,
                case.a,
                beta=case.b,
                initial_state=h0,
                output_final_state=True,
                use_gate_in_kernel=True,
                A_log=case.A_log,
                use_beta_sigmoid_in_kernel=True,
                use_qk_l2norm_in_kernel=True,
            )
        if function == "kda":
            return fused_recurrent_kda(
                q * 2,
                k,
                v,
                case.ak,
                case.beta,
                dt_bias=case.dt_bias_k.flatten(),
                use_gate_in_kernel=True,
                lower_bound=-5.0,
                scale=0.5,
            )
        return fused_recurrent_rwkv6(q * 2, k, v, case.gk, case.u, 1.0, h0, True)

    arguments = (case.q, case.k, case.v, case.h0)
    compiled = torch.compile(call, fullgraph=True, backend=backend)(*arguments)
    eager = call(*arguments)
    for ours, theirs in zip(compiled, eager):
        assert (theirs is None and ours is None) or torch.equal(ours, theirs)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("way", ["step", "kernel", "package", "kda_fwd"])
def test_compiled_steps(backend, way):
    case = Case()
    slots = torch.tensor([3, 1], dtype=torch.int32)
    found = kernel()
    selector = found.package.decode

    def call(q, pool):
        arguments = dict(q=q * 2, k=case.k, v=case.v, g=case.g, beta=case.beta)
        places = dict(S=pool, src_slots=slots, dst_slots=slots)
        if way == "step":
            return linattn.step("gdn", options=OPTIONS, **arguments, **places) + 1
        if way == "kda_fwd":
            o, _ = linattn.fused_recurrent_kda_fwd(
                q * 2, case.k, case.v, case.gk, case.beta, None, None, pool, ssm_state_indices=slots
            )
            return o + 1
        return (found if way == "kernel" else selector)(**arguments, **places) + 1

    pools = [torch.ones(5, 4, 32, 48) for _ in range(2)]
    compiled = torch.compile(call, fullgraph=True, backend=backend)(case.q, pools[0])
    assert torch.equal(compiled, call(case.q, pools[1])) and torch.equal(*pools)
    assert not torch.equal(pools[0], torch.ones(5, 4, 32, 48))


def test_compiled_choice_among_kernels():
    options = ["gate=precomputed", "beta=value", "normalize=false"]
    words = [word for option in options for word in ("--set", option)]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "gdn.dlk")
        arguments = ["--dims=32x48,32x64", f"--target={linattn.cache.target_of(where())}", *words]
        source = linattn._specs.find("gdn").path
        program = linattn.cache.compiler()
        subprocess.run([program, source, *arguments, "-o", path], check=True, capture_output=True)
        decode = linattn.load(path).decode
    case = Case()
    beta = case.beta

    def call(q, pool):
        return decode(q=q + 0, k=case.k, v=case.v, g=case.g, beta=beta, S=pool)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    pools = [case.h0.clone() for _ in range(2)]
    assert torch.equal(compiled(case.q, pools[0]), call(case.q, pools[1]))
    assert torch.equal(*pools)


def where():
    from linattn import kernels

    return kernels.parse_device(DEVICE)


def test_dynamic_batch():
    def call(q, k, v, g, beta):
        return fused_recurrent_gated_delta_rule(q, k, v, g, beta=beta, output_final_state=True)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager", dynamic=True)
    for batch in (2, 3, 5):
        case = Case(B=batch)
        arguments = (case.q, case.k, case.v, case.g, case.beta)
        for ours, theirs in zip(compiled(*arguments), call(*arguments)):
            assert torch.equal(ours, theirs)


def test_fake_tensors():
    from torch._subclasses.fake_tensor import FakeTensorMode

    case = Case()
    with FakeTensorMode(allow_non_fake_inputs=False) as mode:
        q, k, v, gk, beta = (
            mode.from_tensor(t) for t in (case.q, case.k, case.v, case.gk, case.beta)
        )
        o, h = fused_recurrent_kda(q, k, v, gk, beta, output_final_state=True, state_v_first=True)
    assert o.shape == case.v.shape and h.shape == (2, 4, 48, 32) and h.dtype == torch.float32


def test_no_backward():
    case = Case()
    q = case.q.clone().requires_grad_()
    o, h = fused_recurrent_gated_delta_rule(
        q, case.k, case.v, case.g, beta=case.beta, output_final_state=True
    )
    assert o.requires_grad and h.requires_grad
    with pytest.raises(NotImplementedError, match="no backward pass"):
        o.float().sum().backward()
    with torch.no_grad():
        o, _ = fused_recurrent_gated_delta_rule(q, case.k, case.v, case.g, beta=case.beta)
    assert not o.requires_grad


def test_steps_refuse_gradients():
    case = Case()
    arguments = dict(k=case.k, v=case.v, g=case.g, beta=case.beta, S=case.h0)
    q = case.q.clone().requires_grad_()
    found = kernel()
    for call in (
        lambda: found(q=q, **arguments),
        lambda: linattn.step("gdn", options=OPTIONS, q=q, **arguments),
        lambda: found.op(q=q, o=torch.empty_like(case.v), **arguments),
    ):
        with pytest.raises(NotImplementedError, match="expected tensors without requires_grad"):
            call()
        with torch.no_grad():
            call()


def test_prepare_launches_nothing():
    case = Case()
    pool = case.h0.clone()
    linattn.prepare(
        linattn.fused_recurrent_kda_fwd,
        case.q,
        case.k,
        case.v,
        case.gk,
        case.beta,
        initial_state=pool,
    )
    u = torch.nn.Parameter(case.u)  # parameters require gradients, usually
    linattn.prepare(fused_recurrent_rwkv6, case.r, case.keys, case.v, case.gk, u)
    assert torch.equal(pool, case.h0)
    linattn.prepare(kernel(), DEVICE)


def test_capture_needs_preparation(monkeypatch):
    """What a first call inside a capture says, as far as that can be seen without a GPU."""
    from linattn import kernels

    monkeypatch.setattr(kernels, "is_capturing", lambda: True)
    with pytest.raises(RuntimeError, match=r"linattn\.prepare"):
        kernels.refuse_capture("kernel 'x'")
    case = Case()  # bound already: nothing asks
    fused_recurrent_kda(case.q, case.k, case.v, case.gk, case.beta)


def test_threads():
    """One kernel from several threads at once, each on its own tensors."""
    cases = [Case(seed=seed) for seed in range(4)]
    alone = [fused_recurrent_kda(c.q, c.k, c.v, c.gk, c.beta)[0] for c in cases]
    failures = []

    def work(case, expected):
        for _ in range(50):
            o, _ = fused_recurrent_kda(case.q, case.k, case.v, case.gk, case.beta)
            if not torch.equal(o, expected):
                failures.append(case)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(cases, alone)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
