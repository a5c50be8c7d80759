# Operators of examples/ beside the first three: inputs, recurrences, and fla's functions for them.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An operator is what it draws as inputs, by the names of its spec, and its `Terms`: what one token
does, in the words that all of them share. Terms are made in fp64 for the reference, and in fp32 for
what another library wants to be given. Nothing here knows our kernels; key and value heads are as
many."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F

from .cases import Case
from .inputs import _log_gate, _softplus_gate, own_memory
from .reference import Result, l2norm

Tensors = dict[str, torch.Tensor]
CHUNK = 64  # of the chunk form whose arithmetic is counted, as in floors.py


@dataclass
class Update:
    """S <- S + key (share (value - S^T erase))^T; before_decay: S^T erase is read from the state as
    the token found it. key, erase: [B, T, H, K]; value: [B, T, H, V] or None for 0; share:
    [B, T, H]."""

    key: torch.Tensor
    value: torch.Tensor | None
    erase: torch.Tensor | None = None
    share: torch.Tensor | None = None
    before_decay: bool = False


@dataclass
class Terms:
    """S <- e^log_decay S, then the updates in turn; o = scale S^T q + skip, of the state after
    them, or after the decay alone with reads_first. log_decay: [B, T, H] or [B, T, H, K]."""

    q: torch.Tensor
    updates: list[Update]
    scale: float
    log_decay: torch.Tensor | None = None
    skip: torch.Tensor | None = None
    reads_first: bool = False


@dataclass
class Draw:
    """Random tensors of a case, bf16 but for parameters."""

    case: Case
    device: str
    generator: torch.Generator

    def normal(self, *shape: int) -> torch.Tensor:
        return torch.randn(shape, device=self.device, generator=self.generator)

    def uniform(self, low: float, high: float, *shape: int) -> torch.Tensor:
        noise = torch.rand(shape, device=self.device, generator=self.generator)
        return noise * (high - low) + low

    def key(self, factor: float = 1.0, shift: float = 0.0) -> torch.Tensor:
        c = self.case
        return (self.normal(c.B, c.T, c.HV, c.K) * factor + shift).bfloat16()

    def value(self) -> torch.Tensor:
        c = self.case
        return self.normal(c.B, c.T, c.HV, c.V).bfloat16()

    def head(self) -> torch.Tensor:
        c = self.case
        return self.normal(c.B, c.T, c.HV).bfloat16()

    def beside(self, key: torch.Tensor) -> torch.Tensor:
        """A key near another one: writing along one what was read along the other would blow up
        if they had nothing to do with each other."""
        return (key.float() + 0.5 * self.normal(*key.shape)).bfloat16()

    def gate(self, name: str, *axes: int) -> Tensors:
        """A raw gate with A_log and dt_bias, as weak as layers have them at the start."""
        shape = (self.case.B, self.case.T, *axes)
        a, A_log, bias = _softplus_gate(self.case, shape, "weak", self.device, self.generator)
        return {name: a.bfloat16(), "A_log": A_log, "dt_bias": bias.view(axes)}


def softplus_decay(x: Tensors, name: str = "a") -> tuple[torch.Tensor, torch.Tensor]:
    """The step softplus(a + dt_bias), and the log decay -exp(A_log) step."""
    step = F.softplus(x[name] + x["dt_bias"], threshold=100.0)
    return step, -x["A_log"].exp().view(-1, *[1] * (step.dim() - 3)) * step


def _scale(x: Tensors) -> float:
    return x["q"].shape[-1] ** -0.5


def _draw_deltanet(d: Draw) -> Tensors:
    return {"q": d.key(), "k": d.key(), "v": d.value(), "b": d.head()}


def _deltanet(x: Tensors) -> Terms:
    k = l2norm(x["k"])
    return Terms(l2norm(x["q"]), [Update(k, x["v"], k, torch.sigmoid(x["b"]))], _scale(x))


def _draw_gla(d: Draw) -> Tensors:
    return {"q": d.key(), "k": d.key(d.case.K**-0.5), "v": d.value(), "a": d.key()}


def _gla(x: Tensors) -> Terms:
    return Terms(x["q"], [Update(x["k"], x["v"])], _scale(x), F.logsigmoid(x["a"]) / 16)


def _draw_retnet(d: Draw) -> Tensors:
    # RetNet's decays: 1 - 1/32 in the first head to 1 - 1/512 in the last.
    powers = torch.linspace(math.log(1 / 32), math.log(1 / 512), d.case.HV, device=d.device)
    slope = -torch.log1p(-powers.exp())
    return {"q": d.key(), "k": d.key(d.case.K**-0.5), "v": d.value(), "slope": slope}


def _retnet(x: Tensors) -> Terms:
    decay = -x["slope"].expand(x["q"].shape[:3])
    return Terms(x["q"], [Update(x["k"], x["v"])], _scale(x), decay)


def _draw_mamba2(d: Draw) -> Tensors:
    # D is small: a large skip would hide what comes from the state.
    return {"q": d.key(d.case.K**-0.5), "k": d.key(), "v": d.value(), **d.gate("dt", d.case.HV),
            "D": d.uniform(0.0, 0.2, d.case.HV)}  # fmt: skip


def _mamba2(x: Tensors) -> Terms:
    step, decay = softplus_decay(x, "dt")
    updates = [Update(x["k"], step[..., None] * x["v"])]
    return Terms(x["q"], updates, 1.0, decay, skip=x["D"][:, None] * x["v"])


RWKV7_BOUND = -0.6065306597126334  # -e^-0.5, as fla's layer has it


def _draw_rwkv7(d: Draw) -> Tensors:
    small = d.case.K**-0.5
    return {"q": d.key(small), "k": d.key(small), "v": d.value(), "w": d.key(1.0, -3.0),
            "kappa": d.key(), "eta": d.key()}  # fmt: skip


def _rwkv7(x: Tensors) -> Terms:
    direction = l2norm(x["kappa"])
    moved = Update(direction * torch.sigmoid(x["eta"]), None, direction, before_decay=True)
    decay = -0.60653066 * torch.sigmoid(x["w"])
    return Terms(x["q"], [moved, Update(x["k"], x["v"])], 1.0, decay)


def _draw_deltaproduct(d: Draw) -> Tensors:
    steps = {f"{n}{i}": t for i in (0, 1) for n, t in
             (("k", d.key()), ("v", d.value()), ("b", d.head()))}  # fmt: skip
    return {"q": d.key(), **steps, **d.gate("a", d.case.HV)}


def _deltaproduct(x: Tensors) -> Terms:
    keys = [l2norm(x["k0"]), l2norm(x["k1"])]
    updates = [Update(k, x[f"v{i}"], k, torch.sigmoid(x[f"b{i}"])) for i, k in enumerate(keys)]
    return Terms(l2norm(x["q"]), updates, _scale(x), softplus_decay(x)[1])


def _draw_gdn2(d: Draw) -> Tensors:
    return {"q": d.key(), "k": d.key(), "v": d.value(), **d.gate("a", d.case.HV, d.case.K),
            "b": d.key(), "w": d.value()}  # fmt: skip


def _gdn2(x: Tensors) -> Terms:
    k = l2norm(x["k"])
    update = Update(k, torch.sigmoid(x["w"]) * x["v"], torch.sigmoid(x["b"]) * k)
    return Terms(l2norm(x["q"]), [update], _scale(x), softplus_decay(x)[1])


def _draw_comba(d: Draw) -> Tensors:
    k = d.key()
    return {"q": d.key(), "k": k, "p": d.beside(k), "v": d.value(), **d.gate("a", d.case.HV),
            "b": d.head(), "D": d.uniform(0.0, 0.1, d.case.HV)}  # fmt: skip


def _comba(x: Tensors) -> Terms:
    update = Update(l2norm(x["k"]), x["v"], l2norm(x["p"]), torch.sigmoid(x["b"]), True)
    q = l2norm(x["q"] - x["D"][:, None] * x["p"])
    return Terms(q, [update], _scale(x), softplus_decay(x)[1])


def _draw_hgrn2(d: Draw) -> Tensors:
    return {"q": d.key(), "f": d.key(1.0, 4.0), "v": d.value()}


def _hgrn2(x: Tensors) -> Terms:
    decay = F.logsigmoid(x["f"])
    return Terms(x["q"], [Update(-torch.expm1(decay), x["v"])], _scale(x), decay)


def _draw_two_key_delta(d: Draw) -> Tensors:
    k, c = d.key(), d.case
    g = _log_gate((c.B, c.T, c.HV, c.K), "weak", d.device, d.generator)
    return {"q": d.key(), "e": d.beside(k), "k": k, "v": d.value(), "b": d.head(), "g": g,
            "u": 0.5 * d.normal(c.HV, c.K)}  # fmt: skip


def _two_key_delta(x: Tensors) -> Terms:
    q, e, k = l2norm(x["q"]), l2norm(x["e"]), l2norm(x["k"])
    bonus = (q * x["u"] * k).sum(-1, keepdim=True)
    update = Update(k, x["v"], e, torch.sigmoid(x["b"]))
    skip = _scale(x) * bonus * x["v"]
    return Terms(q, [update], _scale(x), x["g"], skip, reads_first=True)


@dataclass(frozen=True)
class Fla:
    """fla's function that does the same, of fla.ops.`module`. `arguments` makes its keywords from
    the inputs and the terms in fp32; what they hold beyond raw inputs is not in its time. Gates per
    key channel are given in bf16, as its layers do."""

    module: str
    function: str
    arguments: Callable[[Tensors, Terms], dict[str, Any]]
    scope: str = "gates given"
    note: str = ""


def _bf16(*tensors: torch.Tensor | None) -> list[torch.Tensor]:
    return [t.bfloat16() for t in tensors if t is not None]


def _pick(x: Tensors, *names: str) -> dict[str, Any]:
    return {name: x[name] for name in names}


def _fla_deltanet(x: Tensors, t: Terms) -> dict[str, Any]:
    beta = t.updates[0].share
    return {**_pick(x, "q", "k", "v"), "beta": beta, "use_qk_l2norm_in_kernel": True}


def _fla_gla(x: Tensors, t: Terms) -> dict[str, Any]:
    k, g = _bf16(t.updates[0].key, t.log_decay)  # of HGRN2 k is made from its gate
    return {**_pick(x, "q", "v"), "k": k, "g": g}


def _fla_retnet(x: Tensors, t: Terms) -> dict[str, Any]:
    return {**_pick(x, "q", "k", "v"), "g_gamma": -x["slope"]}


def _fla_mamba2(x: Tensors, t: Terms) -> dict[str, Any]:
    (v,) = _bf16(t.updates[0].value)
    return {**_pick(x, "q", "k"), "v": v, "g": t.log_decay}


def _fla_rwkv7(x: Tensors, t: Terms) -> dict[str, Any]:
    a, b, w = _bf16(t.updates[0].erase, t.updates[0].key, t.log_decay)
    return {"r": x["q"], **_pick(x, "k", "v"), "w": w, "a": -a, "b": b,
            "safe_gate": True, "lower_bound": RWKV7_BOUND, "chunk_size": 64}  # fmt: skip


def _fla_deltaproduct(x: Tensors, t: Terms) -> dict[str, Any]:
    """The steps of a token are rows one after the other."""
    beta = [update.share for update in t.updates if update.share is not None]
    pairs: dict[str, list[torch.Tensor]] = {
        "k": [x["k0"], x["k1"]],
        "v": [x["v0"], x["v1"]],
        "beta": beta,
    }
    rows = {name: torch.stack(pair, 2).flatten(1, 2) for name, pair in pairs.items()}
    return {"q": x["q"], **rows, "g": t.log_decay, "num_householder": 2,
            "use_qk_l2norm_in_kernel": True}  # fmt: skip


def _fla_comba(x: Tensors, t: Terms) -> dict[str, Any]:
    (q,) = _bf16(x["q"].float() - x["D"][:, None] * x["p"].float())
    return {"q": q, **_pick(x, "k", "v", "p"), "g": t.log_decay, "beta": t.updates[0].share,
            "use_qk_l2norm_in_kernel": True}  # fmt: skip


def _fla_gdn2(x: Tensors, t: Terms) -> dict[str, Any]:
    b, w = _bf16(torch.sigmoid(x["b"].float()), torch.sigmoid(x["w"].float()))
    return {**_pick(x, "q", "k", "v", "A_log"), "g": x["a"], "b": b, "w": w,
            "dt_bias": x["dt_bias"].flatten(), "use_qk_l2norm_in_kernel": True,
            "use_gate_in_kernel": True}  # fmt: skip


@dataclass(frozen=True)
class Operator:
    draw: Callable[[Draw], Tensors]
    terms: Callable[[Tensors], Terms]
    fla: Fla | None = None


# fla's functions are timed in this order.
OPERATORS: dict[str, Operator] = {
    "rwkv7": Operator(_draw_rwkv7, _rwkv7, Fla("rwkv7", "chunk_rwkv7", _fla_rwkv7)),
    "gated_deltaproduct": Operator(
        _draw_deltaproduct,
        _deltaproduct,
        Fla("gated_delta_product", "chunk_gated_delta_product", _fla_deltaproduct),
    ),
    "deltanet": Operator(
        _draw_deltanet, _deltanet, Fla("delta_rule", "chunk_delta_rule", _fla_deltanet)
    ),
    "gla": Operator(_draw_gla, _gla, Fla("gla", "chunk_gla", _fla_gla)),
    "retnet": Operator(
        _draw_retnet, _retnet, Fla("simple_gla", "chunk_simple_gla", _fla_retnet, "fused")
    ),
    "mamba2": Operator(
        _draw_mamba2,
        _mamba2,
        Fla("simple_gla", "chunk_simple_gla", _fla_mamba2, note="without the skip"),
    ),
    "comba": Operator(
        _draw_comba, _comba, Fla("comba", "chunk_comba", _fla_comba, note="q - D p given")
    ),
    "hgrn2": Operator(_draw_hgrn2, _hgrn2, Fla("gla", "chunk_gla", _fla_gla, note="k given")),
    "gdn2": Operator(_draw_gdn2, _gdn2, Fla("gdn2", "chunk_gdn2", _fla_gdn2, "betas given")),
    "two_key_delta": Operator(_draw_two_key_delta, _two_key_delta),
}


def terms_of(op: str, x: Tensors, dtype: torch.dtype) -> Terms:
    """Terms from the inputs as rounded."""
    return OPERATORS[op].terms({name: tensor.to(dtype) for name, tensor in x.items()})


def recurrence(terms: Terms, S: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Token by token, in the type of the terms: outputs, and the state `S`, [N, H, K, V], updated
    in place."""
    decay = None
    if terms.log_decay is not None:
        decay = terms.log_decay.exp()
        decay = decay[..., None, None] if decay.dim() == 3 else decay[..., None]

    def read(key: torch.Tensor) -> torch.Tensor:
        return torch.matmul(key.unsqueeze(-2), S).squeeze(-2)

    outputs = []
    for t in range(terms.q.shape[1]):
        q = terms.q[:, t]
        early = [read(u.erase[:, t]) if u.erase is not None and u.before_decay else None
                 for u in terms.updates]  # fmt: skip
        if decay is not None:
            S.mul_(decay[:, t])
        if terms.reads_first:
            outputs.append(read(q))
        for update, old in zip(terms.updates, early, strict=True):
            if update.erase is not None and old is None:
                old = read(update.erase[:, t])
            value = torch.zeros_like(terms.q[:, t, :, :1])
            value = value if update.value is None else update.value[:, t]
            new = value if old is None else value - old
            if update.share is not None:
                new = update.share[:, t, :, None] * new
            S.add_(update.key[:, t].unsqueeze(-1) * new.unsqueeze(-2))
        if not terms.reads_first:
            outputs.append(read(q))
    o = terms.scale * torch.stack(outputs, 1)
    return (o if terms.skip is None else o + terms.skip), S


@dataclass
class Problem:
    """A case with its buffers: launch i works on inputs[i] and states[i], or, of decode, on the
    slots slots[i] of a pool; slot 0 stays unused. States have the layout of the case."""

    case: Case
    inputs: list[Tensors]
    states: list[torch.Tensor]
    pool: torch.Tensor | None = None
    slots: list[torch.Tensor] | None = None

    def reset(self) -> None:
        """Puts the initial states into the pool."""
        if self.pool is not None and self.slots is not None:
            for slots, state in zip(self.slots, self.states, strict=True):
                self.pool.index_copy_(0, slots.long(), state)

    def reference(self) -> Result:
        """The first set in fp64, states as [K, V]."""
        S = self.states[0].double()
        S = (S if self.case.layout == "kv" else S.transpose(2, 3)).contiguous()
        return Result(*recurrence(terms_of(self.case.op, self.inputs[0], torch.float64), S))

    def result(self, o: torch.Tensor, state: torch.Tensor | None) -> Result:
        """What a call on the first set returned, states as [K, V]."""
        if self.pool is not None and self.slots is not None:
            state = self.pool[self.slots[0].long()]
        if state is not None and self.case.layout == "vk":
            state = state.transpose(2, 3)
        return Result(o, state)


def make_problem(
    case: Case, device: str, num_sets: int, seed: int = 1, shuffle_slots: bool = True
) -> Problem:
    """The same numbers in `num_sets` places, with weak gates."""
    generator = torch.Generator(device=device)
    generator.manual_seed(seed)
    draw = Draw(case, device, generator)
    first = {n: own_memory(t) for n, t in OPERATORS[case.op].draw(draw).items()}
    matrix = (case.K, case.V) if case.layout == "kv" else (case.V, case.K)
    state = 0.3 * draw.normal(case.B, case.HV, *matrix)
    more = [{name: t.clone() for name, t in first.items()} for _ in range(num_sets - 1)]
    if case.form != "pool":
        return Problem(case, [first, *more], [state] + [state.clone() for _ in more])
    total = case.B * num_sets
    order = torch.arange(total)
    if shuffle_slots:
        order = torch.randperm(total, generator=torch.Generator().manual_seed(seed))
    slots = [own_memory(part) for part in (order + 1).to(torch.int32).to(device).chunk(num_sets)]
    pool = torch.zeros((total + 1, case.HV, *matrix), device=device)
    problem = Problem(case, [first, *more], [state] * num_sets, pool, slots)
    problem.reset()
    return problem


def cost_of(case: Case) -> tuple[int, int]:
    """Bytes of a token's inputs and outputs, and its flops per head: of the chunk form for prefill,
    else of the recurrence. Counted as floors.py counts the others."""
    generator = torch.Generator().manual_seed(1)
    tiny = replace(case, B=1, T=1)
    x = OPERATORS[case.op].draw(Draw(tiny, "cpu", generator))
    io = sum(t.nbytes for t in x.values() if t.shape[:2] == (1, 1)) + 2 * case.HV * case.V
    K, V, C = case.K, case.V, CHUNK if case.work == "prefill" else 0
    flops = 2 * K * V
    for update in terms_of(case.op, x, torch.float32).updates:
        flops += 2 * K * V + 2 * C * (K + V)
        if update.erase is not None:
            flops += 2 * K * V + 2 * C * (K + V) + 2 * C * C // 3
    return io, flops
