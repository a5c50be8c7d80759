# test_cuda.py - Streams, devices and graphs. Needs a GPU.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``LINATTN_TEST_DEVICE=cuda`` runs the other tests on a GPU too; these need one."""

from __future__ import annotations

import numpy as np
import pytest
from cases import Case, array, close, torch

import linattn
from linattn import cache, fused_recurrent_gated_delta_rule, fused_recurrent_kda, kernels

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
OPTIONS = {"gate": "precomputed", "beta": "value", "normalize": False}
NAMES = ("q", "k", "v", "g", "gk", "a", "b", "beta", "A_log", "dt_bias", "h0")


def on(device: str, **sizes) -> Case:
    case = Case(**{"K": 64, "V": 64, **sizes})
    for name in NAMES:
        setattr(case, name, getattr(case, name).to(device))
    return case


def gdn(case: Case, **changes):
    return fused_recurrent_gated_delta_rule(
        case.q, case.k, case.v, case.g, beta=case.beta, output_final_state=True, **changes
    )


def agrees(case: Case, o, h=None, *, initial=True) -> None:
    decay = np.exp(array(case.g))[..., None, None]
    state = "h0" if initial else None
    expected_o, expected_h, _ = case.delta(decay, array(case.beta), state=state)
    close(o, expected_o)
    if h is not None:
        close(h, expected_h, 1e-4)


@pytest.mark.parametrize("initial", [False, True])
def test_a_call(initial):
    case = on("cuda")
    agrees(case, *gdn(case, initial_state=case.h0 if initial else None), initial=initial)


def test_the_kernel_is_machine_code_for_this_chip():
    case = on("cuda")
    gdn(case)
    major, minor = torch.cuda.get_device_capability()
    target = cache.target_of(kernels.parse_device("cuda:0"))
    assert target.startswith(f"sm_{major}"), (target, major, minor)


def test_current_stream():
    """Work is ordered behind what its stream has to do first."""
    case = on("cuda")
    expected = gdn(case)[0]
    late = torch.zeros_like(case.v)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        late.copy_(case.v)
        o, _ = fused_recurrent_gated_delta_rule(case.q, case.k, late, case.g, beta=case.beta)
    stream.synchronize()
    assert torch.equal(o, expected)


def test_two_streams():
    cases = [on("cuda", seed=seed) for seed in range(2)]
    alone = [gdn(case)[0] for case in cases]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in cases]
    for _ in range(100):
        together = []
        for case, stream in zip(cases, streams):
            with torch.cuda.stream(stream):
                together.append(gdn(case)[0])
        torch.cuda.synchronize()
        assert all(torch.equal(a, b) for a, b in zip(alone, together))


def test_graph_of_a_function():
    case = on("cuda")
    gdn(case, initial_state=case.h0)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o, h = gdn(case, initial_state=case.h0)
    for seed in (3, 4):
        other = on("cuda", seed=seed)
        for name in NAMES:
            getattr(case, name).copy_(getattr(other, name))
        graph.replay()
        torch.cuda.synchronize()
        agrees(other, o, h)


def test_graph_of_a_size_that_never_ran():
    small = on("cuda", B=1, T=1)
    linattn.prepare(fused_recurrent_gated_delta_rule, small.q, small.k, small.v, small.g,
                    beta=small.beta)  # fmt: skip
    case = on("cuda", B=5, T=4, H=3, HV=6)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        o, _ = fused_recurrent_gated_delta_rule(case.q, case.k, case.v, case.g, beta=case.beta)
    graph.replay()
    torch.cuda.synchronize()
    agrees(case, o, initial=False)


def test_graph_of_a_step_serves_all_slots():
    case = on("cuda", B=4, T=1)
    pool = torch.randn(9, 4, 64, 64, device="cuda")
    slots = torch.tensor([1, 2, -1, -1], dtype=torch.int32, device="cuda")
    out = torch.empty_like(case.v)

    def step(into):
        return linattn.step(
            "gdn", options=OPTIONS, q=case.q, k=case.k, v=case.v, g=case.g, beta=case.beta, S=into,
            src_slots=slots, dst_slots=slots, o=out, first_slot=1,
        )  # fmt: skip

    step(pool.clone())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(pool)
    for numbers in ([1, 2, -1, -1], [8, 3, 5, 1], [0, 0, 0, 0]):
        slots.copy_(torch.tensor(numbers, dtype=torch.int32))
        eager = pool.clone()
        expected = step(eager).clone()
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, expected) and torch.equal(pool, eager)


def test_first_call_inside_a_capture():
    """Refused by name; the capture goes on, and the device is as usable as before."""
    case = on("cuda", K=36, V=20)  # sizes that no other test uses
    y = torch.ones(4, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        z = y + 1
        with pytest.raises(RuntimeError, match=r"linattn\.prepare"):
            gdn(case)
        z = z * 2
    graph.replay()
    torch.cuda.synchronize()
    assert (z == 4).all()
    agrees(case, *gdn(case), initial=False)


@pytest.mark.parametrize("function", ["recurrent", "step"])
def test_compiled_with_graphs(function):
    case = on("cuda")
    pool = torch.zeros(2, 4, 64, 64, device="cuda")

    def call(q):
        if function == "recurrent":
            return fused_recurrent_gated_delta_rule(q + 0, case.k, case.v, case.g, beta=case.beta)[
                0
            ]
        return linattn.step("gdn", options=OPTIONS, q=q + 0, k=case.k, v=case.v, g=case.g,
                            beta=case.beta, S=pool)  # fmt: skip

    compiled = torch.compile(call, fullgraph=True, mode="reduce-overhead")
    for _ in range(5):
        pool.zero_()
        o = compiled(case.q).clone()
        agrees(case, o, initial=False)


def test_errors_leave_the_device_usable():
    case = on("cuda")
    with pytest.raises(ValueError, match="argument 'k' device: expected cuda:0, got cpu"):
        fused_recurrent_gated_delta_rule(case.q, case.k.cpu(), case.v, case.g, beta=case.beta)
    with pytest.raises(ValueError, match="argument 'v' device: expected cuda:0, got cpu"):
        fused_recurrent_gated_delta_rule(case.q, case.k, case.v.cpu(), case.g, beta=case.beta)
    with pytest.raises(ValueError, match="argument 'k' dimension 1: expected T = 3"):
        fused_recurrent_gated_delta_rule(case.q, case.k[:, 1:], case.v, case.g, beta=case.beta)
    shifted = torch.empty(case.v.numel() + 1, dtype=case.v.dtype, device="cuda")[1:]
    shifted = shifted.view(case.v.shape).copy_(case.v)
    with pytest.warns(linattn.CopyWarning, match="'v': copied"):
        o, _ = fused_recurrent_gated_delta_rule(case.q, case.k, shifted, case.g, beta=case.beta)
    agrees(case, o, initial=False)
    agrees(case, *gdn(case), initial=False)


def test_checked_mode():
    case = on("cuda", B=2)
    kernel = linattn.kernel("gdn", key_dim=64, value_dim=64, options=OPTIONS, device="cuda")
    checked = kernel.prepare("cuda", checked=True)
    twice = torch.tensor([1, 1], dtype=torch.int32, device="cuda")
    arguments = dict(q=case.q, k=case.k, v=case.v, g=case.g, beta=case.beta, S=case.h0.clone())
    with pytest.raises(ValueError, match="'dst_slots' row 1: expected a slot of its own, got 1"):
        checked(**arguments, src_slots=twice, dst_slots=twice)
    agrees(case, checked(**arguments))


def test_programmatic_dependent_launch():
    if torch.cuda.get_device_capability()[0] < 9:
        pytest.skip("before sm_90")
    case = on("cuda", B=2)
    kernel = linattn.kernel("gdn", key_dim=64, value_dim=64, options=OPTIONS, device="cuda")
    early = kernel.prepare("cuda", pdl=True)
    pool, plain = case.h0.clone(), case.h0.clone()
    arguments = dict(q=case.q, k=case.k, v=case.v, g=case.g, beta=case.beta)
    for _ in range(20):  # each starts from what the one before leaves
        o = early(**arguments, S=pool)
        expected = kernel(**arguments, S=plain)
    assert torch.equal(o, expected) and torch.equal(pool, plain)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one CUDA device")
def test_another_device_than_the_current_one():
    case = on("cuda:1")
    assert torch.cuda.current_device() == 0
    o, h = gdn(case, initial_state=case.h0)
    assert o.device == h.device == torch.device("cuda:1")
    agrees(case, o, h)
    with pytest.raises(ValueError, match="argument 'q' device: expected cuda:1, got cuda:0"):
        fused_recurrent_gated_delta_rule(
            case.q.to("cuda:0"), case.k, case.v, case.g, beta=case.beta
        )


def test_foreign_tensors():
    """Any DLPack object on CUDA; torch's stand in for another library's."""

    class Foreign:
        def __init__(self, tensor):
            self.tensor, self.shape, self.dtype = tensor, tensor.shape, tensor.dtype

        def __dlpack__(self, **options):
            return self.tensor.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.tensor.__dlpack_device__()

    case = on("cuda")
    o = torch.empty_like(case.v)
    kernel = linattn.kernel("gdn", key_dim=64, value_dim=64, options=OPTIONS, device="cuda")
    tensors = dict(q=case.q, k=case.k, v=case.v, g=case.g, beta=case.beta, S=case.h0.clone(), o=o)
    kernel(**{name: Foreign(tensor) for name, tensor in tensors.items()})
    torch.cuda.synchronize()
    agrees(case, o)


def test_nothing_is_allocated_by_a_step():
    case = on("cuda")
    pool, out = case.h0.clone(), torch.empty_like(case.v)

    def step():
        linattn.step("gdn", options=OPTIONS, q=case.q, k=case.k, v=case.v, g=case.g,
                     beta=case.beta, S=pool, o=out)  # fmt: skip

    step()
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    free = torch.cuda.mem_get_info()[0]
    for _ in range(100):
        step()
    assert torch.cuda.memory_stats()["allocation.all.allocated"] == before
    torch.cuda.synchronize()
    assert torch.cuda.mem_get_info()[0] == free


def test_bf16_kda():
    case = on("cuda", K=128, V=128)
    o, h = fused_recurrent_kda(
        case.q, case.k, case.v, case.gk, case.beta, initial_state=case.h0, output_final_state=True
    )
    decay = np.exp(array(case.gk))[..., None]
    expected_o, expected_h, _ = case.delta(decay, array(case.beta))
    close(o, expected_o)
    close(h, expected_h, 1e-4)


def test_one_graph_of_a_log_serves_all_lengths():
    """Lengths, merges, drafts and fresh rows differ from replay to replay; the host only fills the
    arrays. Nothing is allocated in the capture, and its warm-up touches no slot."""
    import log_model

    spec = log_model.kernels_of("kda", device="cuda:0")
    pools = [
        linattn.LogPool(spec, slots=5, heads=(1, 2), layers=2, first_slot=1, device="cuda:0")
        for _ in range(2)
    ]
    generator = torch.Generator("cpu").manual_seed(0)

    def draw() -> dict:
        def normal(*shape: int):
            return torch.randn(shape, generator=generator, device="cpu").cuda()

        k = torch.nn.functional.normalize(normal(3, 2, 1, log_model.K), dim=-1)
        values = dict(q=normal(3, 2, 1, log_model.K), k=k, v=normal(3, 2, 2, log_model.V))
        values |= dict(g=-normal(3, 2, 2, log_model.K).abs(), beta=normal(3, 2, 2).sigmoid())
        return values

    inputs = draw()
    slots = torch.zeros(3, dtype=torch.int32, device="cuda")
    accepted = torch.zeros_like(slots)
    initial = torch.zeros(3, dtype=torch.uint8, device="cuda")
    outputs = [torch.empty_like(inputs["v"]) for _ in range(2)]

    def step(pool, outs) -> None:
        pool.plan(slots, slots, tokens=2, num_accepted_tokens=accepted, initial_state=initial)
        for layer, o in enumerate(outs):
            pool.append(layer, o=o, **inputs)

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):  # null rows
        step(pools[0], outputs)
    torch.cuda.synchronize()
    assert not pools[0].cursors.any() and not any(o.any() for o in outputs)
    graph = torch.cuda.CUDAGraph()
    before = torch.cuda.memory_allocated()
    with torch.cuda.graph(graph):
        step(pools[0], outputs)
    assert torch.cuda.memory_allocated() == before
    expected = [torch.empty_like(o) for o in outputs]
    for number in range(20):
        for name, value in draw().items():
            inputs[name].copy_(value)
        slots.copy_(torch.tensor([3, 1, 4 if number % 3 else 0], dtype=torch.int32))
        accepted.copy_(torch.tensor([number % 3, 1, 2], dtype=torch.int32))
        initial.copy_(torch.tensor([number > 0, number > 0, number > 1], dtype=torch.uint8))
        graph.replay()
        step(pools[1], expected)
        assert torch.equal(pools[0].cursors, pools[1].cursors)
        for got, want in zip(outputs, expected):
            assert torch.equal(got, want) and want[0].any()
