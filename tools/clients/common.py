"""What the clients share: arguments, a reference in double precision, comparisons, reports.

Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

# Convolutions of f32 would be rounded to TF32 on a GPU, but not those of the reference.
torch.backends.cudnn.allow_tf32 = False

REFUSALS = (ValueError, TypeError, NotImplementedError)


def parser(description: str | None) -> argparse.ArgumentParser:
    """The options of every client."""
    result = argparse.ArgumentParser(description=(description or "").split("\n\n")[0])
    result.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    result.add_argument("--out", type=Path, help="file for the results, JSON")
    result.add_argument(
        "--quick", action="store_true", help="small sizes, for a machine without a GPU"
    )
    return result


def environment(device: str) -> dict[str, Any]:
    """What a reader of the results has to know of the machine."""
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    for name in ("triton", "transformers", "fla", "linattn"):
        if name in sys.modules:
            versions[name] = str(getattr(sys.modules[name], "__version__", "?"))
    chip = torch.cuda.get_device_name(device) if device.startswith("cuda") else platform.machine()
    return {"device": device, "chip": chip, "versions": versions}


class Report:
    """Collects the results of a client, writes them as JSON and prints one line."""

    def __init__(self, client: str, options: argparse.Namespace) -> None:
        self.client, self.options = client, options
        self.start = time.monotonic()
        self.cases: list[dict[str, Any]] = []

    def add(self, name: str, ok: bool, **facts: Any) -> None:
        self.cases.append({"name": name, "ok": bool(ok), **facts})
        if not ok:
            print(
                f"{self.client}: FAIL {name}: {json.dumps(facts, default=str)[:900]}",
                file=sys.stderr,
            )

    def finish(self, line: str, **facts: Any) -> int:
        """The exit status: 0 if there were cases and all went well."""
        failed = sum(not case["ok"] for case in self.cases)
        ok = bool(self.cases) and not failed
        seconds = round(time.monotonic() - self.start, 1)
        result = {"client": self.client, "ok": ok, "seconds": seconds, **facts}
        result |= {"environment": environment(self.options.device), "cases": self.cases}
        if self.options.out:
            self.options.out.parent.mkdir(parents=True, exist_ok=True)
            self.options.out.write_text(json.dumps(result, indent=1, default=str) + "\n")
        word = "ok  " if ok else "FAIL"
        passed = len(self.cases) - failed
        print(
            f"{word}  {self.client}: {passed} of {len(self.cases)} cases, {line}, {seconds} s",
            flush=True,
        )
        return 0 if ok else 1


# --------------------------------------------------------------------------------------------
# Reference
# --------------------------------------------------------------------------------------------


def _rows(
    batch: int, tokens: int, cu_seqlens: torch.Tensor | None
) -> Iterator[tuple[int, int, int, int]]:
    """Row, its entry of the batch, first token and the one after the last."""
    if cu_seqlens is None:
        yield from ((n, n, 0, tokens) for n in range(batch))
    else:
        starts = cu_seqlens.tolist()
        yield from ((n, 0, starts[n], starts[n + 1]) for n in range(len(starts) - 1))


def _normalized(x: torch.Tensor) -> torch.Tensor:
    return x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt()


def _heads(x: torch.Tensor, heads: int) -> torch.Tensor:
    return x.double().repeat_interleave(heads // x.shape[2], dim=2)


def delta_rule(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    *,
    gv: torch.Tensor | None = None,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    normalize: bool = False,
    state_v_first: bool = False,
    cu_seqlens: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gated delta rule in f64: GDN with g [B, T, HV], KDA with g [B, T, HV, K]; g is a log, and
    so is gv [B, T, HV, V]. beta is [B, T, HV] or [B, T, HV, V]."""
    heads, key_dim, value_dim = v.shape[2], k.shape[3], v.shape[3]
    scale = key_dim**-0.5 if scale is None else scale
    qs, ks = (_heads(x, heads) for x in (q, k))
    if normalize:
        qs, ks = _normalized(qs), _normalized(ks)
    decay = g.double().exp()
    decay = (decay.unsqueeze(-1) if g.dim() == 3 else decay).unsqueeze(-1)
    if gv is not None:
        decay = decay * gv.double().exp().unsqueeze(-2)
    beta = beta.unsqueeze(-1) if beta.dim() == 3 else beta
    rows = list(_rows(q.shape[0], q.shape[1], cu_seqlens))
    states = torch.zeros(len(rows), heads, key_dim, value_dim, dtype=torch.float64, device=q.device)
    if initial_state is not None:
        states += (
            initial_state.double().transpose(2, 3) if state_v_first else initial_state.double()
        )
    o = torch.zeros(v.shape, dtype=torch.float64, device=v.device)
    for n, b, first, last in rows:
        for t in range(first, last):
            states[n] *= decay[b, t]
            old = torch.einsum("hkv,hk->hv", states[n], ks[b, t])
            u = beta[b, t].double() * (v[b, t].double() - old)
            states[n] += ks[b, t].unsqueeze(-1) * u.unsqueeze(-2)
            o[b, t] = scale * torch.einsum("hkv,hk->hv", states[n], qs[b, t])
    return o, states.transpose(2, 3) if state_v_first else states


def rwkv6(
    r: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    w: torch.Tensor,
    u: torch.Tensor,
    *,
    scale: float | None = None,
    initial_state: torch.Tensor | None = None,
    cu_seqlens: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """RWKV-6 in f64; w is the logarithm of the decay."""
    heads, key_dim, value_dim = v.shape[2], k.shape[3], v.shape[3]
    scale = key_dim**-0.5 if scale is None else scale
    rows = list(_rows(r.shape[0], r.shape[1], cu_seqlens))
    states = torch.zeros(len(rows), heads, key_dim, value_dim, dtype=torch.float64, device=r.device)
    if initial_state is not None:
        states += initial_state.double()
    o = torch.zeros(v.shape, dtype=torch.float64, device=v.device)
    for n, b, first, last in rows:
        for t in range(first, last):
            new = k[b, t].double().unsqueeze(-1) * v[b, t].double().unsqueeze(-2)
            seen = states[n] + u.double().unsqueeze(-1) * new
            o[b, t] = scale * torch.einsum("hkv,hk->hv", seen, r[b, t].double())
            states[n] = states[n] * w[b, t].double().exp().unsqueeze(-1) + new
    return o, states


def gate(
    g: torch.Tensor,
    A_log: torch.Tensor | None,
    dt_bias: torch.Tensor | None,
    lower_bound: float | None = None,
) -> torch.Tensor:
    """The log decay of a raw gate, [B, T, HV] or [B, T, HV, K]; bounded where there is a bound."""
    heads = g.shape[2]
    per_head = (heads,) if g.dim() == 3 else (heads, 1)
    x = g.double()
    if dt_bias is not None:
        x = x + dt_bias.double().view(g.shape[2:])
    rate = None if A_log is None else A_log.double().view(per_head).exp()
    if lower_bound is not None:
        return lower_bound * torch.sigmoid(x if rate is None else rate * x)
    if rate is None:
        raise ValueError("A_log: expected a tensor without lower_bound, got None")
    return -rate * torch.nn.functional.softplus(x)


# --------------------------------------------------------------------------------------------
# Comparison
# --------------------------------------------------------------------------------------------


def difference(expected: torch.Tensor, actual: torch.Tensor) -> dict[str, float]:
    """max: the largest difference; ratio: its root mean square over that of expected."""
    if expected.shape != actual.shape:
        raise AssertionError(f"expected shape {tuple(expected.shape)}, got {tuple(actual.shape)}")
    a, b = expected.detach().double(), actual.detach().double().to(expected.device)
    gap = (a - b).abs()
    ratio = gap.square().mean().sqrt() / (a.square().mean().sqrt() + 1e-12)
    return (
        {"max": gap.max().item(), "ratio": ratio.item()}
        if gap.numel()
        else {"max": 0.0, "ratio": 0.0}
    )


def synchronize(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize(device)


@contextmanager
def replaced(*places: tuple[Any, str, Any]) -> Iterator[None]:
    """Attributes with other values for a while: (object, name, value)."""
    before = [(where, name, getattr(where, name)) for where, name, _ in places]
    try:
        for where, name, value in places:
            setattr(where, name, value)
        yield
    finally:
        for where, name, value in before:
            setattr(where, name, value)


class Counted:
    """A function that counts its calls, so that a client can tell that it was used at all."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.calls = function, 0
        # transformers passes on only the keywords which it finds in the signature.
        self.__wrapped__ = function
        self.__name__ = getattr(function, "__name__", "function")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        return self.function(*args, **kwargs)
