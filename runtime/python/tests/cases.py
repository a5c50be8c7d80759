# cases.py - Random inputs as torch tensors, and the references on what they hold.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import reference

torch = pytest.importorskip("torch", reason="torch is not installed")

# Where the tests run: "cpu", or "cuda" for a machine that has one.
DEVICE = os.environ.get("LINATTN_TEST_DEVICE", "cpu")
if DEVICE != "cpu":
    torch.set_default_device(DEVICE)

LIMITS = {torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 5e-3}


def array(tensor: Any) -> np.ndarray:
    """What a tensor holds, in double precision."""
    return tensor.detach().cpu().double().numpy()


def close(actual: Any, expected: np.ndarray, limit: float | None = None) -> None:
    limit = LIMITS[actual.dtype] if limit is None else limit
    found = reference.error(array(actual), expected)
    assert found <= limit, f"relative error {found:.2e}, expected at most {limit:.0e}"


class Case:
    """Tensors of a call; ``seed`` fixes them."""

    def __init__(
        self,
        B: int = 2,
        T: int = 3,
        H: int = 2,
        HV: int = 4,
        K: int = 32,
        V: int = 48,
        dtype: Any = torch.bfloat16,
        starts: list[int] | None = None,
        seed: int = 0,
    ) -> None:
        generator = torch.Generator("cpu").manual_seed(seed)

        def normal(*shape: int, as_: Any = torch.float32) -> Any:
            return torch.randn(*shape, generator=generator, device="cpu").to(as_).to(DEVICE)

        if starts is not None:
            B = 1
        self.sizes = (B, T, H, HV, K, V)
        self.starts = starts
        self.rows = B if starts is None else len(starts) - 1
        self.q, self.r = normal(B, T, H, K, as_=dtype), normal(B, T, HV, K, as_=dtype)
        self.k = torch.nn.functional.normalize(normal(B, T, H, K), dim=-1).to(dtype)
        self.keys = normal(B, T, HV, K, as_=dtype) * 0.3
        self.v = normal(B, T, HV, V, as_=dtype)
        self.g, self.gk = -normal(B, T, HV).abs(), -normal(B, T, HV, K).abs()
        self.gv = -normal(B, T, HV, V).abs() * 0.3
        self.a, self.ak = normal(B, T, HV, as_=dtype), normal(B, T, HV, K, as_=dtype)
        self.beta = normal(B, T, HV).sigmoid().to(dtype)
        self.b, self.betas = normal(B, T, HV, as_=dtype), normal(B, T, HV, V).sigmoid().to(dtype)
        self.A_log, self.dt_bias = normal(HV) * 0.5, normal(HV)
        self.dt_bias_k, self.u = normal(HV, K), normal(HV, K)
        self.h0 = normal(self.rows, HV, K, V)

    def cu_seqlens(self, dtype: Any = torch.int64) -> Any:
        return None if self.starts is None else torch.tensor(self.starts, dtype=dtype)

    def delta(
        self,
        decay: np.ndarray,
        beta: np.ndarray,
        *,
        normalize: bool = False,
        scale: float | None = None,
        state: Any = "h0",
    ) -> tuple:
        """The delta rule on this case's q, k, v."""
        q, k = array(self.q), array(self.k)
        if normalize:
            q, k = reference.l2norm(q), reference.l2norm(k)
        states = array(self.h0) if isinstance(state, str) else state
        if state is None:
            states = np.zeros(self.h0.shape)
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        beta = beta if beta.ndim == 4 else beta[..., None]
        return reference.delta_rule(q, k, array(self.v), decay, beta, states, scale, self.starts)
