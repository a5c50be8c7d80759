# reference.py - The recurrences in double precision, as plainly as they can be written.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Token by token and head by head, from the papers: arXiv:2412.06464 (GDN), arXiv:2510.26692 (KDA),
arXiv:2404.05892 (RWKV-6). Arrays are numpy's, [B, T, heads, dim]; states are [N, HV, K, V]."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Array = np.ndarray


def softplus(x: Array) -> Array:
    return np.logaddexp(0.0, x)


def sigmoid(x: Array) -> Array:
    return 1.0 / (1.0 + np.exp(-x))


def l2norm(x: Array) -> Array:
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)


def delta_step(S: Array, q: Array, k: Array, v: Array, decay: Array, beta: Array) -> tuple:
    """One token of one head; decay is what S is multiplied by, any shape that fits K x V."""
    S = S * decay
    u = beta * (v - S.T @ k)
    S = S + np.outer(k, u)
    return S, S.T @ q


def rwkv6_step(S: Array, r: Array, k: Array, v: Array, w: Array, u: Array) -> tuple:
    output = S.T @ r + (r * u * k).sum() * v
    return S * np.exp(w)[:, None] + np.outer(k, v), output


def rows_of(batch: int, tokens: int, starts: Sequence[int] | None) -> list[tuple[int, int, int]]:
    """(batch entry, first token, end) of each sequence."""
    if starts is None:
        return [(b, 0, tokens) for b in range(batch)]
    return [(0, a, b) for a, b in zip(starts, starts[1:])]


def walk(
    step: Callable[[Array, int, int, int], tuple],
    shape: tuple[int, int, int, int],
    states: Array,
    starts: Sequence[int] | None = None,
) -> tuple[Array, Array, list[Array]]:
    """Runs step(S, b, t, head) over all sequences. Returns outputs [B, T, HV, V], final states, and
    for each sequence the states after each of its tokens [tokens, HV, K, V]."""
    outputs, final, kept = np.zeros(shape), states.astype(np.float64).copy(), []
    for n, (b, first, end) in enumerate(rows_of(shape[0], shape[1], starts)):
        history = np.zeros((end - first, *states.shape[1:]))
        for t in range(first, end):
            for h in range(shape[2]):
                final[n, h], outputs[b, t, h] = step(final[n, h], b, t, h)
            history[t - first] = final[n]
        kept.append(history)
    return outputs, final, kept


def delta_rule(
    q: Array,
    k: Array,
    v: Array,
    decay: Array,
    beta: Array,
    states: Array,
    scale: float,
    starts: Sequence[int] | None = None,
) -> tuple[Array, Array, list[Array]]:
    """decay [B, T, HV, K or 1, V or 1]; beta [B, T, HV, V or 1]."""
    group = v.shape[2] // q.shape[2]

    def step(S: Array, b: int, t: int, h: int) -> tuple:
        key = h // group
        S, o = delta_step(
            S, scale * q[b, t, key], k[b, t, key], v[b, t, h], decay[b, t, h], beta[b, t, h]
        )
        return S, o

    return walk(step, v.shape, states, starts)


def rwkv6(
    r: Array,
    k: Array,
    v: Array,
    w: Array,
    u: Array,
    states: Array,
    scale: float,
    starts: Sequence[int] | None = None,
) -> tuple[Array, Array, list[Array]]:
    def step(S: Array, b: int, t: int, h: int) -> tuple:
        S, o = rwkv6_step(S, r[b, t, h], k[b, t, h], v[b, t, h], w[b, t, h], u[h])
        return S, scale * o

    return walk(step, v.shape, states, starts)


def error(actual: Array, expected: Array) -> float:
    """Relative RMS error; infinite if anything is not finite."""
    actual = np.asarray(actual, dtype=np.float64)
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    if not np.isfinite(actual).all():
        return float("inf")
    return (
        float(np.sqrt(((actual - expected) ** 2).mean()) / (np.sqrt((expected**2).mean()) + 1e-8))
        if actual.size
        else 0.0
    )
