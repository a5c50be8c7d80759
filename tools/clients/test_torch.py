"""linattn among the rest of torch: numbers, views, torch.compile, CUDA graphs, streams, devices.

Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch

import common
import linattn
import operators
from operators import ALL, GDN, KDA, Call, Operator, Sizes

DEVICE = os.environ.get("LINATTN_TEST_DEVICE", "cpu")
ON_CUDA = DEVICE.startswith("cuda")
TYPES = (torch.float32, torch.float16, torch.bfloat16)
cuda_only = pytest.mark.skipif(not ON_CUDA, reason="needs a CUDA device")
each_operator = pytest.mark.parametrize("operator", ALL, ids=str)


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


# --------------------------------------------------------------------------------------------
# Numbers
# --------------------------------------------------------------------------------------------

SIZES = {
    "batch": Sizes(),
    "decode": Sizes(B=9, T=1, H=2, HV=4, K=128, V=128),
    "packed": Sizes(lengths=(1, 0, 7, 3)),
    "wide values": Sizes(B=1, T=3, H=1, HV=3, K=32, V=100),
}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("dtype", TYPES, ids=dtype_name)
@each_operator
def test_numbers(operator: Operator, dtype: torch.dtype, sizes: Sizes) -> None:
    call = operator.call(DEVICE, sizes, dtype)
    operators.check(operator, call, operator.function(**call))
    if operator.gated:
        gated = operator.gated(call)
        operators.check(operator, gated, operator.function(**gated), "gated")


@pytest.mark.parametrize("operator", (GDN, KDA), ids=str)
def test_v_first(operator: Operator) -> None:
    call = operator.call(DEVICE)
    call["initial_state"] = call["initial_state"].transpose(2, 3).contiguous()
    call["state_v_first"] = True
    operators.check(operator, call, operator.function(**call))


@each_operator
def test_defaults(operator: Operator) -> None:
    """No state in, none out; scales of several kinds."""
    call = operator.call(DEVICE)
    del call["initial_state"]
    operators.check(operator, call, operator.function(**call))
    call["output_final_state"] = False
    for scale in (None, 1, 0.25):
        operators.check(operator, call | {"scale": scale}, operator.function(**call, scale=scale))


def test_gdn_gates() -> None:
    """Gates of key and of value channels, which fla's GDN takes, and a beta of value channels."""
    call = GDN.call(DEVICE)
    gk, gv = (-torch.rand(*call["g"].shape, n, device=DEVICE) for n in (64, 32))
    beta = torch.rand(*call["g"].shape, 32, device=DEVICE)
    options: list[Call] = [{"g": None, "gk": gk}, {"gv": gv}, {"gk": gk, "gv": gv}, {"beta": beta}]
    for option in options:
        changed = call | option
        operators.check(GDN, changed, GDN.function(**changed), str([*option]))


def test_kda_gates() -> None:
    call = KDA.call(DEVICE)
    gated = _gated_with_bound(call)
    for left_out in ({}, {"A_log": None}, {"dt_bias": None}):
        changed = gated | left_out
        operators.check(KDA, changed, KDA.function(**changed), str(left_out))


def _gated_with_bound(call: Call) -> Call:
    assert KDA.gated
    return KDA.gated(call) | {"lower_bound": -5.0}


@each_operator
def test_empty(operator: Operator) -> None:
    """No sequence, or none with a token: states pass through."""
    for sizes in (Sizes(B=0), Sizes(T=0), Sizes(lengths=(0, 0))):
        call = operator.call(DEVICE, sizes)
        o, state = operator.function(**call)
        assert o.shape == call["v"].shape and torch.equal(state, call["initial_state"]), sizes


# --------------------------------------------------------------------------------------------
# Views and ownership
# --------------------------------------------------------------------------------------------


def in_wider(x: torch.Tensor) -> torch.Tensor:
    """A column block of a wider tensor, as projections give."""
    wide = torch.zeros(*x.shape[:-1], x.shape[-1] + 24, dtype=x.dtype, device=x.device)
    part = wide[..., 8 : 8 + x.shape[-1]]
    return part.copy_(x)


def odd_start(x: torch.Tensor) -> torch.Tensor:
    """Memory that begins where no wide load can."""
    flat = torch.zeros(x.numel() + 1, dtype=x.dtype, device=x.device)
    return flat[1:].view(x.shape).copy_(x)


VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "column block": in_wider,
    "heads first": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "every second": lambda x: x.repeat_interleave(2, dim=2)[:, :, ::2],
    "tokens last": lambda x: x.movedim(1, -1).contiguous().movedim(-1, 1),
    "odd start": odd_start,
}
COPIES = ("tokens last", "odd start")  # fla copies these: to refuse them is all right too


def refused_or(check: Callable[[Any], None], operator: Operator, call: Call, names: str) -> None:
    """A result that passes the check, or an error that names one of the arguments."""
    try:
        result = operator.function(**call)
    except (ValueError, TypeError) as error:
        assert re.search(rf"'({names})' .*expected .*got ", str(error)), error
    else:
        check(result)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16), ids=dtype_name)
@each_operator
def test_views(operator: Operator, dtype: torch.dtype, view: str) -> None:
    """Tensors as projections, splits and transposes give them: the bits of packed ones."""
    call = operator.call(DEVICE, dtype=dtype)
    expected = operator.function(**call)
    names = [name for name, x in call.items() if isinstance(x, torch.Tensor) and x.ndim >= 3]
    strided = {name: VIEWS[view](call[name]) for name in names if name != "initial_state"}
    if view not in COPIES:
        operators.same(operator.function(**call | strided), expected, view)
        return
    check = partial(operators.same, expected, what=view)
    refused_or(check, operator, call | strided, f"{operator.query}|k|v|w|g|beta")


@each_operator
def test_expanded(operator: Operator) -> None:
    """The same tokens for every sequence, by a stride of 0; then a state that is a transpose."""
    call = operator.call(DEVICE, Sizes(B=3))
    names = [name for name in call if name in ("q", "r", "k", "v", "g", "w", "beta")]
    expanded = {name: call[name][:1].expand_as(call[name]) for name in names}
    call |= expanded
    operators.check(operator, call, operator.function(**call))
    call["initial_state"] = call["initial_state"].transpose(2, 3).contiguous().transpose(2, 3)
    refused_or(partial(operators.check, operator, call), operator, call, "initial_state")


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16), ids=dtype_name)
@each_operator
def test_state_types(operator: Operator, dtype: torch.dtype) -> None:
    """fla takes states of any type, and returns them in f32; to refuse them is all right too."""
    call = operator.call(DEVICE, dtype=dtype)
    call["initial_state"] = call["initial_state"].to(dtype)
    refused_or(partial(operators.check, operator, call), operator, call, "initial_state")


@each_operator
def test_nothing_modified(operator: Operator) -> None:
    call = operator.call(DEVICE)
    before = {name: x.clone() for name, x in call.items() if isinstance(x, torch.Tensor)}
    o, state = operator.function(**call)
    for name, x in before.items():
        assert torch.equal(call[name], x), f"{name} was modified"
        for result in (o, state):
            assert result.data_ptr() != call[name].data_ptr()
    again = operator.function(**call)
    assert again[0].data_ptr() != o.data_ptr() and again[1].data_ptr() != state.data_ptr()
    operators.same(again, (o, state), "a second call")


# --------------------------------------------------------------------------------------------
# torch.compile
# --------------------------------------------------------------------------------------------


@each_operator
def test_compile(operator: Operator) -> None:
    """In one graph, for several sizes, with other operations around it."""

    def step(call: Call) -> Any:
        doubled = call | {"v": call["v"] * 2}
        o, state = operator.function(**doubled)
        return o + 1, state * 0.5

    torch._dynamo.reset()
    # inductor needs a compiler of C++ on a CPU, and that takes long
    compiled = torch.compile(step, fullgraph=True, backend="inductor" if ON_CUDA else "aot_eager")
    for sizes in (Sizes(), Sizes(B=3, T=1), Sizes(B=5, T=1), Sizes(B=6, T=4)):
        call = operator.call(DEVICE, sizes)
        operator.function(**call)
        with torch.no_grad():
            operators.same(compiled(call), step(call), f"compiled {sizes}")


@each_operator
def test_compile_packed(operator: Operator) -> None:
    torch._dynamo.reset()
    call = operator.call(DEVICE, Sizes(lengths=(4, 1, 5)))
    expected = operator.function(**call)
    compiled = torch.compile(operator.function, fullgraph=True, backend="aot_eager", dynamic=True)
    with torch.no_grad():
        operators.same(compiled(**call), expected)


@cuda_only
@each_operator
def test_compile_reduce_overhead(operator: Operator) -> None:
    """inductor's own CUDA graphs."""
    torch._dynamo.reset()

    def step(call: Call) -> Any:
        return operator.function(**call)[0] * 2

    compiled = torch.compile(step, fullgraph=True, mode="reduce-overhead")
    for seed in range(4):
        call = operator.call(DEVICE, Sizes(T=1), seed=seed)
        with torch.no_grad():
            found = compiled(call).clone()
        assert torch.equal(found, step(call))


# --------------------------------------------------------------------------------------------
# CUDA graphs and streams
# --------------------------------------------------------------------------------------------


def new_stream() -> torch.cuda.Stream:
    return torch.cuda.Stream(DEVICE)  # type: ignore[no-untyped-call]


def fill(call: Call, other: Call) -> None:
    for name, x in other.items():
        if isinstance(x, torch.Tensor):
            call[name].copy_(x)


@cuda_only
@each_operator
def test_graph(operator: Operator) -> None:
    """A captured call, replayed with other inputs: the bits of eager calls."""
    sizes = Sizes(B=4, T=1, K=128, V=128)
    call = operator.call(DEVICE, sizes)
    operator.function(**call)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = operator.function(**call)
    for seed in range(1, 5):
        other = operator.call(DEVICE, sizes, seed=seed)
        fill(call, other)
        graph.replay()
        operators.same(result, operator.function(**other), f"replay {seed}")


@cuda_only
def test_graph_of_decoding() -> None:
    """A state that lives in place of the graph: its steps are those of eager decoding."""
    sizes = Sizes(B=4, T=1, K=128, V=128)
    for operator in ALL:
        call = operator.call(DEVICE, sizes)
        operator.function(**call)
        pool, state = call["initial_state"], call["initial_state"].clone()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            o, after = operator.function(**call)
            pool.copy_(after)
        pool.copy_(state)
        for seed in range(1, 9):
            other = operator.call(DEVICE, sizes, seed=seed) | {"initial_state": state}
            fill(call, {name: x for name, x in other.items() if name != "initial_state"})
            graph.replay()
            expected, state = operator.function(**other)
            assert torch.equal(o, expected) and torch.equal(pool, state), f"{operator} step {seed}"


class Pool:
    """Rows of a pool that decode one token a step, in place; the same call again and again."""

    def __init__(self, operator: Operator, slots: int = 11) -> None:
        self.operator, self.sizes = operator, Sizes(B=4, T=1, K=128, V=128)
        self.call = self.operator.call(DEVICE, self.sizes)
        torch.manual_seed(9)
        self.states = torch.randn(slots, self.sizes.HV, 128, 128, device=DEVICE)
        self.slots = torch.arange(4, dtype=torch.int32, device=DEVICE)
        self.o = torch.empty_like(self.call["v"])

    def load(self, seed: int) -> None:
        """Other inputs and other rows of the pool, in the same memory; the last row is padding."""
        fill(self.call, self.operator.call(DEVICE, self.sizes, seed=seed))
        slots = torch.randperm(len(self.states))[:4].int()
        slots[3] = -1
        self.slots.copy_(slots)

    def step(self) -> None:
        names = ("q", "r", "k", "v", "w", "u", "g", "beta")
        inputs = {name: self.call[name] for name in names if name in self.call}
        gated = {"gate": "precomputed", "beta": "value"}
        linattn.step(
            self.operator.name,
            options=gated if self.operator.gated else None,
            S=self.states,
            src_slots=self.slots,
            dst_slots=self.slots,
            o=self.o,
            **inputs,
        )


@each_operator
def test_pool(operator: Operator) -> None:
    """Steps in place are those of the functions, row by row; padding is left alone."""
    pool = Pool(operator)
    for seed in range(3):
        pool.load(seed)
        rows = pool.slots[:3].long()
        before = pool.states.clone()
        pool.step()
        state = torch.cat([before[rows], before[:1]])
        o, after = operator.function(**pool.call | {"initial_state": state})
        assert torch.equal(pool.o[:3], o[:3]) and not pool.o[3].any()
        before[rows] = after[:3]
        assert torch.equal(pool.states, before)


@cuda_only
@each_operator
def test_graph_of_pool(operator: Operator) -> None:
    """A step on a pool, captured once: inputs and slots change, and bits are those of eager."""
    eager, captured = Pool(operator), Pool(operator)
    captured.step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured.step()
    captured.states.copy_(eager.states)
    for seed in range(8):
        for pool in (eager, captured):
            pool.load(seed)
        eager.step()
        graph.replay()
        assert torch.equal(captured.o, eager.o), f"step {seed}"
        assert torch.equal(captured.states, eager.states), f"step {seed}"


@cuda_only
def test_first_call_in_capture() -> None:
    """A kernel that is not loaded yet: an error that says so; never a broken context."""
    call = GDN.call(DEVICE, Sizes(K=48, V=80))
    graph = torch.cuda.CUDAGraph()
    failure: Exception | None = None
    with torch.cuda.graph(graph):
        try:
            GDN.function(**call)
        except Exception as error:  # whatever it is, its text is looked at below
            failure = error
    assert failure is None or "captur" in str(failure), failure
    operators.check(GDN, call, GDN.function(**call))


@contextmanager
def late(stream: torch.cuda.Stream, call: Call, other: Call) -> Iterator[None]:
    """Inputs which arrive on a stream long after the host has gone on."""
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)  # type: ignore[no-untyped-call]
        fill(call, other)
        yield


@cuda_only
@each_operator
def test_current_stream(operator: Operator) -> None:
    call, other = operator.call(DEVICE), operator.call(DEVICE, seed=3)
    expected = operator.function(**other)
    torch.cuda.synchronize()
    stream = new_stream()
    with late(stream, call, other):
        result = operator.function(**call)
    stream.synchronize()
    operators.same(result, expected, "on a side stream")


def decode(operator: Operator, call: Call, stream: Any) -> Any:
    call = dict(call)
    with torch.cuda.stream(stream) if stream else torch.no_grad():
        for _ in range(40):
            o, call["initial_state"] = operator.function(**call)
    if stream:
        stream.synchronize()
    return o, call["initial_state"]


@each_operator
def test_threads(operator: Operator) -> None:
    """Threads that decode at once, on streams of their own, as one after the other."""
    calls = [operator.call(DEVICE, Sizes(B=3, T=1), seed=seed) for seed in range(4)]
    expected = [decode(operator, call, None) for call in calls]
    common.synchronize(DEVICE)
    streams = [new_stream() if ON_CUDA else None for _ in calls]
    with ThreadPoolExecutor(len(calls)) as pool:
        found = list(pool.map(lambda call, stream: decode(operator, call, stream), calls, streams))
    for result, wanted in zip(found, expected, strict=True):
        operators.same(result, wanted, "a thread")


# --------------------------------------------------------------------------------------------
# Several devices
# --------------------------------------------------------------------------------------------

two_devices = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")


@two_devices
@each_operator
def test_other_device(operator: Operator) -> None:
    """Tensors of cuda:1 while cuda:0 is current; both devices agree to the bit."""
    first = operator.call("cuda:0")
    second = {
        name: x.to("cuda:1") if isinstance(x, torch.Tensor) else x for name, x in first.items()
    }
    with torch.cuda.device(0):
        here, there = operator.function(**first), operator.function(**second)
        assert torch.cuda.current_device() == 0
    assert all(x.device == torch.device("cuda:1") for x in there)
    operators.same([x.to("cuda:0") for x in there], here, "the second device")


@two_devices
@each_operator
def test_devices_mixed(operator: Operator) -> None:
    call = operator.call("cuda:0")
    expected = operator.function(**call)
    with pytest.raises(ValueError, match=r"\bk\b.*expected.*got"):
        operator.function(**call | {"k": call["k"].to("cuda:1")})
    operators.same(operator.function(**call), expected)
