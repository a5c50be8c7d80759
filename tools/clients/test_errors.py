"""What linattn says to wrong arguments, and that it works as before afterwards.

Every case is a good call with one thing wrong. It has to raise ValueError or TypeError, with the
argument, what was expected and what was given in one line; then the good call is made again and has
to return the same bits: no launch failed behind our back, and the CUDA context is usable.

Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import common
import operators
from operators import ALL, GDN, KDA, RWKV6, Call, Operator

DEVICE = os.environ.get("LINATTN_TEST_DEVICE", "cpu")
Change = Callable[[Call, Operator], None]
# Name of the case, the change, and the arguments of which the message has to name one.
Case = tuple[str, Change, tuple[str, ...]]


def put(name: str, change: Callable[[Any], Any]) -> Change:
    """Changes an argument; 'query' is q or r."""

    def apply(call: Call, operator: Operator) -> None:
        key = operator.query if name == "query" else name
        call[key] = change(call.get(key))

    return apply


def give(**arguments: Any) -> Change:
    return lambda call, operator: call.update(arguments)


def heads(count: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """The tensor with another number of heads."""
    return lambda x: x[:, :, :1].repeat(1, 1, count, *[1] * (x.ndim - 3))


def narrow(dim: int, size: int) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: x.narrow(dim, 0, size).contiguous()


def key_dim(size: int) -> Change:
    """All tensors of a call with another K."""

    def apply(call: Call, operator: Operator) -> None:
        for name, x in call.items():
            if isinstance(x, torch.Tensor) and 64 in x.shape:
                shape = [size if n == 64 else n for n in x.shape]
                call[name] = torch.zeros(shape, dtype=x.dtype, device=DEVICE)

    return apply


def starts(*values: Any, dtype: torch.dtype = torch.int64) -> Change:
    """Packs the batch of two into one and gives row starts."""

    def apply(call: Call, operator: Operator) -> None:
        for name, x in call.items():
            if isinstance(x, torch.Tensor) and name not in ("u", "initial_state"):
                call[name] = x.flatten(0, 1).unsqueeze(0)
        call["cu_seqlens"] = torch.tensor(values, dtype=dtype, device=DEVICE)

    return apply


def starts_as(change: Callable[[torch.Tensor], Any]) -> Change:
    def apply(call: Call, operator: Operator) -> None:
        starts(0, 5, 10)(call, operator)
        call["cu_seqlens"] = change(call["cu_seqlens"])

    return apply


ELSEWHERE = "cpu" if DEVICE.startswith("cuda") else "meta"

ZEROS = {size: torch.zeros(size, device=DEVICE) for size in (3, 4)}

SHARED: list[Case] = [
    ("query int", put("query", torch.Tensor.int), ("query",)),
    ("query list", put("query", torch.Tensor.tolist), ("query",)),
    ("query numpy", put("query", lambda x: x.cpu().numpy()), ("query",)),
    ("query None", put("query", lambda x: None), ("query",)),
    ("query rank 3", put("query", lambda x: x[0]), ("query",)),
    ("query rank 5", put("query", lambda x: x[None]), ("query",)),
    ("query sparse", put("query", torch.Tensor.to_sparse), ("query",)),
    ("query elsewhere", put("query", lambda x: x.to(ELSEWHERE)), ("query", "k", "v")),
    ("k double", put("k", torch.Tensor.double), ("k",)),
    ("k bool", put("k", torch.Tensor.bool), ("k",)),
    ("k rank 3", put("k", lambda x: x[0]), ("k",)),
    ("k heads", put("k", heads(3)), ("k", "query")),
    ("k tokens", put("k", narrow(1, 4)), ("k", "query")),
    ("k batch", put("k", narrow(0, 1)), ("k", "query")),
    ("k dim", put("k", narrow(3, 32)), ("k", "query")),
    ("k elsewhere", put("k", lambda x: x.to(ELSEWHERE)), ("k",)),
    ("v complex", put("v", lambda x: x.to(torch.complex64)), ("v",)),
    ("v None", put("v", lambda x: None), ("v",)),
    ("v tokens", put("v", narrow(1, 4)), ("v",)),
    ("v batch", put("v", narrow(0, 1)), ("v",)),
    ("v rank 3", put("v", lambda x: x[:, :, 0]), ("v",)),
    ("v elsewhere", put("v", lambda x: x.to(ELSEWHERE)), ("v",)),
    ("v heads", put("v", heads(3)), ("v", "HV", "beta", "g")),
    ("K 18", key_dim(18), ("K", "dims", "key_dim", "k", "query")),
    ("K 8", key_dim(8), ("K", "dims", "key_dim", "k", "query")),
    ("K 512", key_dim(512), ("K", "dims", "key_dim", "k", "query")),
    ("scale text", give(scale="large"), ("scale",)),
    (
        "state transposed",
        put("initial_state", lambda x: x.transpose(2, 3).contiguous()),
        ("initial_state",),
    ),
    ("state rows", put("initial_state", narrow(0, 1)), ("initial_state",)),
    ("state heads", put("initial_state", narrow(1, 3)), ("initial_state",)),
    ("state rank 3", put("initial_state", lambda x: x[0]), ("initial_state",)),
    ("state int", put("initial_state", torch.Tensor.int), ("initial_state",)),
    ("state list", put("initial_state", torch.Tensor.tolist), ("initial_state",)),
    ("state elsewhere", put("initial_state", lambda x: x.to(ELSEWHERE)), ("initial_state",)),
    (
        "starts with a batch",
        give(cu_seqlens=torch.tensor([0, 5, 10], device=DEVICE)),
        ("query", "cu_seqlens"),
    ),
    ("starts float", starts(0, 5, 10, dtype=torch.float32), ("cu_seqlens",)),
    ("starts int16", starts(0, 5, 10, dtype=torch.int16), ("cu_seqlens",)),
    ("starts rank 2", starts([0, 5, 10]), ("cu_seqlens",)),
    ("starts rank 0", starts_as(lambda x: x[0]), ("cu_seqlens",)),
    ("starts empty", starts(), ("cu_seqlens", "initial_state")),
    ("starts and states", starts(0, 3, 5, 10), ("cu_seqlens", "initial_state")),
    ("starts list", starts_as(lambda x: x.tolist()), ("cu_seqlens",)),
    ("starts elsewhere", starts_as(lambda x: x.to(ELSEWHERE)), ("cu_seqlens",)),
    ("unknown keyword", give(chunk=3), ("chunk",)),
]
DELTA: list[Case] = [
    ("g heads", put("g", heads(2)), ("g",)),
    ("g tokens", put("g", narrow(1, 4)), ("g",)),
    ("g int", put("g", torch.Tensor.int), ("g",)),
    ("g elsewhere", put("g", lambda x: x.to(ELSEWHERE)), ("g",)),
    ("g number", give(g=-0.5), ("g",)),
    ("beta heads", put("beta", heads(2)), ("beta",)),
    ("beta int", put("beta", torch.Tensor.int), ("beta",)),
    ("beta vector", put("beta", lambda x: x[..., None].repeat(1, 1, 1, 16)), ("beta",)),
    ("negative without sigmoid", give(allow_neg_eigval=True), ("allow_neg_eigval",)),
    (
        "two names of a flag",
        give(state_v_first=True, transpose_state_layout=True),
        ("transpose_state_layout",),
    ),
    ("state not transposed", give(state_v_first=True), ("initial_state",)),
    ("gate without A_log", give(use_gate_in_kernel=True), ("A_log",)),
    ("A_log heads", give(use_gate_in_kernel=True, A_log=ZEROS[3]), ("A_log",)),
    (
        "dt_bias size",
        give(use_gate_in_kernel=True, A_log=ZEROS[4], dt_bias=ZEROS[3]),
        ("dt_bias",),
    ),
]
OWN: dict[Operator, list[Case]] = {
    GDN: [
        *DELTA,
        ("g of channels", put("g", lambda x: x[..., None].repeat(1, 1, 1, 64)), ("g",)),
        ("gate without g", give(g=None, use_gate_in_kernel=True, A_log=ZEROS[4]), ("g",)),
    ],
    KDA: [
        *DELTA,
        ("g of heads", put("g", lambda x: x[..., 0].contiguous()), ("g",)),
        ("bound too low", give(use_gate_in_kernel=True, lower_bound=-7.0), ("lower_bound",)),
        ("bound positive", give(use_gate_in_kernel=True, lower_bound=0.5), ("lower_bound",)),
    ],
    RWKV6: [
        ("w heads", put("w", heads(2)), ("w",)),
        ("w int", put("w", torch.Tensor.int), ("w",)),
        ("u heads", put("u", lambda x: x[:3].contiguous()), ("u",)),
        ("u rank 1", put("u", lambda x: x[0]), ("u",)),
        ("u elsewhere", put("u", lambda x: x.to(ELSEWHERE)), ("u",)),
        ("reverse", give(reverse=True), ("reverse",)),
    ],
}
CASES = [(operator, *case) for operator in ALL for case in [*SHARED, *OWN[operator]]]
GOOD: dict[Operator, tuple[Call, Any]] = {}


def good(operator: Operator) -> tuple[Call, Any]:
    """A call, and what it returned the first time: f32, compared with f64."""
    if operator not in GOOD:
        call = operator.call(DEVICE)
        GOOD[operator] = call, operator.function(**call)
        operators.check(operator, call, GOOD[operator][1])
    return GOOD[operator]


@pytest.mark.parametrize(
    ("operator", "case", "change", "names"), CASES, ids=[f"{case[0]} {case[1]}" for case in CASES]
)
def test_refused(operator: Operator, case: str, change: Change, names: tuple[str, ...]) -> None:
    call, expected = good(operator)
    wrong = dict(call)
    change(wrong, operator)
    with pytest.raises((ValueError, TypeError)) as caught:
        operator.function(**wrong)
    common.synchronize(DEVICE)
    operators.same(operator.function(**call), expected, "the good call after the wrong one")
    text = str(caught.value)
    wanted = [operator.query if name == "query" else name for name in names]
    assert any(re.search(rf"(?<!\w){name}(?!\w)", text) for name in wanted), (
        f"names none of {wanted}: {text}"
    )
    if case != "unknown keyword":  # said in Python's own words
        assert "got" in text and "expected" in text, f"without expected and given: {text}"
    assert "\n" not in text, f"of more than a line: {text}"


def test_context_after_all() -> None:
    """After all these refusals other programs' work on the device goes on too."""
    if DEVICE.startswith("cuda"):
        x = torch.randn(512, 512, device=DEVICE)
        assert torch.allclose(x @ torch.eye(512, device=DEVICE), x)
        torch.cuda.synchronize(DEVICE)
    for operator in ALL:
        call, expected = good(operator)
        operators.same(operator.function(**call), expected)


@pytest.mark.parametrize("operator", ALL, ids=str)
def test_gradient(operator: Operator) -> None:
    """There is no backward pass: to ask for one raises, under no_grad nothing is asked."""
    call, expected = good(operator)
    leaf = {**call, "v": call["v"].clone().requires_grad_()}
    with torch.no_grad():
        operators.same(operator.function(**leaf), expected)
    with torch.inference_mode():
        operators.same(operator.function(**leaf), expected)
    with pytest.raises(NotImplementedError, match=r"gradient|backward"):
        operator.function(**leaf)[0].sum().backward()
    operators.same(operator.function(**call), expected)
