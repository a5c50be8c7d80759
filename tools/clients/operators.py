"""The three recurrent functions, with inputs to call them and results in f64 to compare with.

Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F

import common
import linattn

Call = dict[str, Any]
Result = tuple[torch.Tensor, torch.Tensor]


@dataclass(frozen=True)
class Sizes:
    """B sequences of T tokens, or packed ones of the lengths; K and V tell transposes apart."""

    B: int = 2
    T: int = 5
    H: int = 2
    HV: int = 4
    K: int = 64
    V: int = 32
    lengths: tuple[int, ...] = ()

    @property
    def rows(self) -> int:
        return len(self.lengths) or self.B


def _packed(sizes: Sizes) -> Sizes:
    return replace(sizes, B=1, T=sum(sizes.lengths)) if sizes.lengths else sizes


def _shared(call: Call, sizes: Sizes, device: str, heads: int, v_first: bool = False) -> Call:
    """Adds the state, and cu_seqlens where rows are packed."""
    matrix = (sizes.V, sizes.K) if v_first else (sizes.K, sizes.V)
    call["initial_state"] = torch.randn(sizes.rows, heads, *matrix, device=device)
    call["output_final_state"] = True
    if sizes.lengths:
        ends = torch.tensor([0, *sizes.lengths]).cumsum(0)
        call["cu_seqlens"] = ends.to(device)
    return call


def _delta(sizes: Sizes, device: str, dtype: torch.dtype, channels: bool) -> Call:
    size = _packed(sizes)
    tokens = (size.B, size.T)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*tokens, *shape, device=device)

    q, k, v = random(size.H, size.K), random(size.H, size.K), random(size.HV, size.V)
    g = F.logsigmoid(random(size.HV, size.K) if channels else random(size.HV))
    call: Call = {"q": q.to(dtype), "k": k.to(dtype), "v": v.to(dtype), "g": g}
    call["beta"] = random(size.HV).sigmoid().to(dtype)
    call["use_qk_l2norm_in_kernel"] = True
    return _shared(call, size, device, size.HV)


def _gated(call: Call, channels: bool) -> Call:
    """The same with raw gates and logits, whose functions the kernel has to compute."""
    device, dtype = call["v"].device, call["v"].dtype
    heads, key_dim = call["v"].shape[2], call["k"].shape[3]
    call["g"] = torch.randn(call["g"].shape, device=device).to(dtype)
    call["beta"] = torch.randn(call["beta"].shape, device=device).to(dtype)
    call["A_log"] = torch.rand(heads, device=device)
    call["dt_bias"] = torch.randn(heads * key_dim if channels else heads, device=device)
    call |= {
        "use_gate_in_kernel": True,
        "use_beta_sigmoid_in_kernel": True,
        "allow_neg_eigval": True,
    }
    return call


def _exact_delta(call: Call) -> Result:
    g, beta = call["g"], call["beta"]
    if call.get("use_gate_in_kernel"):
        g = common.gate(g, call.get("A_log"), call.get("dt_bias"), call.get("lower_bound"))
    if call.get("use_beta_sigmoid_in_kernel"):
        beta = beta.double().sigmoid() * (2 if call.get("allow_neg_eigval") else 1)
    if call.get("gk") is not None:
        g = call["gk"] if g is None else call["gk"] + g.unsqueeze(-1)
    names = ("gv", "scale", "initial_state", "state_v_first", "cu_seqlens")
    rest = {name: call[name] for name in names if name in call}
    normalize = call.get("use_qk_l2norm_in_kernel", False)
    return common.delta_rule(call["q"], call["k"], call["v"], g, beta, normalize=normalize, **rest)


def _rwkv6(sizes: Sizes, device: str, dtype: torch.dtype) -> Call:
    size = _packed(sizes)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device=device)

    keys = (size.B, size.T, size.HV, size.K)
    call: Call = {
        "r": random(*keys),
        "k": random(*keys),
        "v": random(size.B, size.T, size.HV, size.V),
    }
    call |= {"w": F.logsigmoid(random(*keys)), "u": random(size.HV, size.K)}
    return _shared({name: tensor.to(dtype) for name, tensor in call.items()}, size, device, size.HV)


def _exact_rwkv6(call: Call) -> Result:
    return common.rwkv6(
        **{name: value for name, value in call.items() if name != "output_final_state"}
    )


@dataclass(frozen=True)
class Operator:
    """A function of linattn: its calls and what they should return."""

    name: str
    function: Callable[..., Any]
    query: str
    build: Callable[[Sizes, str, torch.dtype], Call]
    exact: Callable[[Call], Result]
    gated: Callable[[Call], Call] | None = None

    def call(
        self, device: str, sizes: Sizes = Sizes(), dtype: torch.dtype = torch.float32, seed: int = 0
    ) -> Call:
        torch.manual_seed(seed)
        return self.build(sizes, device, dtype)

    def __str__(self) -> str:
        return self.name


GDN = Operator(
    "gdn",
    linattn.fused_recurrent_gated_delta_rule,
    "q",
    lambda sizes, device, dtype: _delta(sizes, device, dtype, False),
    _exact_delta,
    lambda call: _gated(call, False),
)
KDA = Operator(
    "kda",
    linattn.fused_recurrent_kda,
    "q",
    lambda sizes, device, dtype: _delta(sizes, device, dtype, True),
    _exact_delta,
    lambda call: _gated(call, True),
)
RWKV6 = Operator("rwkv6", linattn.fused_recurrent_rwkv6, "r", _rwkv6, _exact_rwkv6)
ALL = (GDN, KDA, RWKV6)

# Of outputs, by their type: a rounding of the output, and some of a sum in f32. States are f32.
TOLERANCE = {torch.float32: 5e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}


def check(operator: Operator, call: Call, result: Any, what: str = "") -> None:
    """Compares a result with the one in f64, and its form with what fla returns."""
    o, state = result
    expected_o, expected_state = operator.exact(call)
    assert o.shape == call["v"].shape, f"{what} o: expected the shape of v, got {tuple(o.shape)}"
    assert o.dtype == call["v"].dtype, f"{what} o: expected the type of v, got {o.dtype}"
    assert o.device == call["v"].device
    found = common.difference(expected_o, o)
    assert found["ratio"] < TOLERANCE[o.dtype], f"{what} o: {found}"
    if not call.get("output_final_state"):
        assert state is None, f"{what}: expected no final state, got one"
        return
    assert state.dtype == torch.float32 and state.is_contiguous()
    found = common.difference(expected_state, state)
    assert found["ratio"] < TOLERANCE[torch.float32], f"{what} final state: {found}"


def same(a: Any, b: Any, what: str = "results") -> None:
    """Two results, bit by bit."""
    for name, x, y in zip(("o", "final state"), a, b, strict=True):
        assert (x is None) == (y is None), f"{what}: {name} in one of the two only"
        assert x is None or torch.equal(x, y), f"{what}: expected the same bits in {name}"
