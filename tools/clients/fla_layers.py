"""fla's layers with random weights: linattn's recurrent functions in place of fla's Triton kernels.

Small language models of an embedding, two layers of fla and a head read a prompt and generate 64
tokens, step by step with fla's cache: 'theirs' with fla's kernels, 'ours' with those of linattn,
'exact' with a recurrence in f64 inside the same layer. Tokens of theirs and ours have to be equal,
or differ first where theirs wavers between two. Then all are fed the tokens of theirs, and logits
are compared with exact; so are the outputs for longer rows and for packed ones (cu_seqlens).

With --device=cpu Triton's interpreter runs fla's kernels: slow; try this script with --quick.

Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

import common
import linattn

Rule = Callable[..., tuple[torch.Tensor, torch.Tensor | None]]


@dataclass(frozen=True)
class Operator:
    """A layer of fla, the function it calls and where it looks that up."""

    layer: str
    module: str
    function: str


KDA = Operator("KimiDeltaAttention", "fla.layers.kda", "fused_recurrent_kda")
RWKV6 = Operator("RWKV6Attention", "fla.layers.rwkv6", "fused_recurrent_rwkv6")
GDN = Operator("GatedDeltaNet", "fla.layers.gated_deltanet", "fused_recurrent_gated_delta_rule")

# Name, operator, arguments of the layer.
Variant = tuple[str, Operator, dict[str, Any]]
VARIANTS: list[Variant] = [
    ("kda 128x128", KDA, {"hidden_size": 1024, "num_heads": 8, "head_dim": 128}),
    (
        "kda 128x64 grouped bounded negative",
        KDA,
        {
            "hidden_size": 512,
            "num_heads": 2,
            "num_v_heads": 8,
            "head_dim": 128,
            "expand_v": 0.5,
            "safe_gate": True,
            "lower_bound": -5.0,
            "allow_neg_eigval": True,
        },
    ),
    ("rwkv6 64x64", RWKV6, {"hidden_size": 512, "num_heads": 8, "expand_k": 1.0}),
    ("rwkv6 128x256", RWKV6, {"hidden_size": 1024, "num_heads": 4}),
    ("gdn 128x256", GDN, {"hidden_size": 1024, "num_heads": 4, "head_dim": 128, "expand_v": 2}),
]
QUICK: list[Variant] = [
    ("kda 32x32", KDA, {"hidden_size": 64, "num_heads": 2, "head_dim": 32}),
    (
        "kda 32x16 grouped bounded negative",
        KDA,
        {
            "hidden_size": 64,
            "num_heads": 1,
            "num_v_heads": 2,
            "head_dim": 32,
            "expand_v": 0.5,
            "safe_gate": True,
            "lower_bound": -5.0,
            "allow_neg_eigval": True,
        },
    ),
    ("rwkv6 16x32", RWKV6, {"hidden_size": 64, "num_heads": 2}),
    ("gdn 16x32", GDN, {"hidden_size": 64, "num_heads": 2, "head_dim": 16, "expand_v": 2}),
]


# --------------------------------------------------------------------------------------------
# The exact arm: what the layers pass, computed in f64
# --------------------------------------------------------------------------------------------


def exact_delta(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    beta: torch.Tensor,
    *,
    A_log: torch.Tensor,
    dt_bias: torch.Tensor,
    output_final_state: bool,
    use_qk_l2norm_in_kernel: bool,
    use_gate_in_kernel: bool,
    use_beta_sigmoid_in_kernel: bool,
    allow_neg_eigval: bool = False,
    lower_bound: float | None = None,
    **rest: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    if use_gate_in_kernel:
        g = common.gate(g, A_log, dt_bias, lower_bound)
    if use_beta_sigmoid_in_kernel:
        beta = beta.double().sigmoid() * (2 if allow_neg_eigval else 1)
    o, state = common.delta_rule(q, k, v, g, beta, normalize=use_qk_l2norm_in_kernel, **rest)
    return o.to(v.dtype), state if output_final_state else None


def exact_rwkv6(
    *, v: torch.Tensor, output_final_state: bool, **rest: Any
) -> tuple[torch.Tensor, torch.Tensor | None]:
    o, state = common.rwkv6(v=v, **rest)
    return o.to(v.dtype), state if output_final_state else None


@contextmanager
def arm(name: str, operator: Operator) -> Iterator[common.Counted]:
    """fla's layers with another function; counts the calls of all but 'theirs'."""
    module = importlib.import_module(operator.module)
    exact: Rule = exact_rwkv6 if operator is RWKV6 else exact_delta
    functions = {
        "theirs": getattr(module, operator.function),
        "ours": getattr(linattn, operator.function),
        "exact": exact,
    }
    counted = common.Counted(functions[name])
    with common.replaced((module, operator.function, counted)):
        yield counted


# --------------------------------------------------------------------------------------------
# Model
# --------------------------------------------------------------------------------------------


class Model(nn.Module):
    """The least that generates tokens with a layer."""

    def __init__(
        self, operator: Operator, arguments: dict[str, Any], vocabulary: int = 512
    ) -> None:
        super().__init__()
        layer = getattr(importlib.import_module(operator.module), operator.layer)
        width = arguments["hidden_size"]
        self.embedding = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(
            layer(mode="fused_recurrent", layer_idx=index, **arguments) for index in range(2)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor, cache: Any = None, **keywords: Any) -> torch.Tensor:
        hidden = self.embedding(tokens)
        for layer in self.layers:
            step = layer(
                self.norm(hidden), past_key_values=cache, use_cache=cache is not None, **keywords
            )
            hidden = hidden + step[0]
        logits: torch.Tensor = self.head(self.norm(hidden))
        return logits


def build(operator: Operator, arguments: dict[str, Any], dtype: torch.dtype, device: str) -> Model:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = Model(operator, arguments)
    for parameter in model.parameters():
        # Layers begin training with zeros in some places; an untested zero proves nothing.
        if not parameter.data.any():
            parameter.data.normal_(std=0.2)
    return model.to(dtype).to(device).eval()


def new_cache() -> Any:
    return importlib.import_module("fla.models.utils").Cache()


Generated = tuple[torch.Tensor, torch.Tensor]


@torch.no_grad()
def generate(
    model: Model, prompt: torch.Tensor, count: int, tokens: torch.Tensor | None
) -> Generated:
    """Greedy tokens [B, count], or the given ones, and the logits [B, count, vocabulary]."""
    cache = new_cache()
    logits = [model(prompt, cache)[:, -1]]
    chosen = []
    for step in range(count):
        best = logits[-1].argmax(-1, keepdim=True)
        chosen.append(best if tokens is None else tokens[:, step : step + 1])
        if step + 1 < count:
            logits.append(model(chosen[-1], cache)[:, -1])
    return torch.cat(chosen, 1), torch.stack(logits, 1).double()


# --------------------------------------------------------------------------------------------
# Checks
# --------------------------------------------------------------------------------------------


def judge(arms: dict[str, torch.Tensor], floor: float) -> tuple[bool, dict[str, Any]]:
    """Ours may be as far from exact as theirs, with a factor of two for luck."""
    exact, theirs, ours = (arms[name] for name in ("exact", "theirs", "ours"))
    facts = {
        "ours": common.difference(exact, ours),
        "theirs": common.difference(exact, theirs),
        "apart": common.difference(theirs, ours),
    }
    return facts["ours"]["ratio"] <= 2 * facts["theirs"]["ratio"] + floor, facts


def tie(theirs: Generated, ours: Generated) -> dict[str, Any]:
    """Whether tokens are equal, and if not, whether theirs was undecided where they part."""
    rows = []
    for row in range(theirs[0].shape[0]):
        steps = (theirs[0][row] != ours[0][row]).nonzero().flatten().tolist()
        if steps:
            best = theirs[1][row, steps[0]].topk(2).values
            gap = (theirs[1][row, steps[0]] - ours[1][row, steps[0]]).abs().max().item()
            rows.append(
                {"row": row, "first": steps[0], "lead": (best[0] - best[1]).item(), "gap": gap}
            )
    return {
        "equal": not rows,
        "tie": all(row["lead"] <= 2 * row["gap"] for row in rows),
        "rows": rows,
    }


def check(report: common.Report, variant: Variant, dtype: torch.dtype) -> None:
    name, operator, arguments = variant
    options = report.options
    label = f"{name} {str(dtype).removeprefix('torch.')}"
    floor = 2e-6 if dtype == torch.float32 else 1e-3
    model = build(operator, arguments, dtype, options.device)
    torch.manual_seed(1)
    prompt = torch.randint(0, 512, (2, 7)).to(options.device)
    long = torch.randint(0, 512, (2, 9 if options.quick else 100)).to(options.device)
    starts = [0, 1, 4, 9] if options.quick else [0, 1, 17, 80, 100]
    cu_seqlens = torch.tensor(starts, device=options.device)
    greedy: dict[str, Generated] = {}
    results: dict[str, dict[str, torch.Tensor]] = {"decode": {}, "rows": {}, "packed": {}}
    calls = 0
    for which in ("theirs", "ours", "exact"):
        with arm(which, operator) as counted, torch.no_grad():
            if which != "exact":
                greedy[which] = generate(model, prompt, options.tokens, None)
            results["decode"][which] = generate(model, prompt, options.tokens, greedy["theirs"][0])[
                1
            ]
            results["rows"][which] = model(long)
            results["packed"][which] = model(long[:1], cu_seqlens=cu_seqlens)
        calls = counted.calls if which == "ours" else calls
    # Two layers; two times the tokens, of which the first come from the prompt; two long calls.
    wanted = 2 * (2 * options.tokens + 2)
    parting = tie(greedy["theirs"], greedy["ours"])
    good = (parting["equal"] or parting["tie"]) and calls == wanted
    distinct = len(set(greedy["theirs"][0].flatten().tolist()))
    report.add(
        f"{label} generate", good, calls=calls, calls_expected=wanted, distinct=distinct, **parting
    )
    for kind, arms in results.items():
        ok, facts = judge(arms, floor)
        report.add(f"{label} {kind}", ok, **facts)


def prepare(device: str) -> None:
    """Before Triton is imported: without a GPU its interpreter has to run fla's kernels."""
    if device != "cpu":
        return
    os.environ["TRITON_INTERPRET"] = "1"
    autotuner = importlib.import_module("triton.runtime.autotuner")
    # There is no device whose time could be taken: the first configuration will do.
    autotuner.Autotuner._bench = lambda self, *args, config, **meta: (0.0, 0.0, 0.0)
    # The interpreter subtracts numbers in bf16 as if they were integers.
    shift = importlib.import_module("fla.modules.token_shift")
    setattr(importlib.import_module(RWKV6.module), "token_shift", shift.token_shift_ref)  # noqa: B010


def main() -> int:
    parser = common.parser(__doc__)
    parser.add_argument("--tokens", type=int, help="to generate: default 64, with --quick 6")
    parser.add_argument("--only", default="", help="only variants whose name has this in it")
    options = parser.parse_args()
    options.tokens = options.tokens or (6 if options.quick else 64)
    prepare(options.device)
    warnings.simplefilter("ignore")
    report = common.Report("fla_layers", options)
    for variant in QUICK if options.quick else VARIANTS:
        for dtype in (torch.float32, torch.bfloat16):
            if options.only in variant[0]:
                check(report, variant, dtype)
    generated = [case for case in report.cases if "equal" in case]
    equal = sum(case["equal"] for case in generated)
    worst = max(
        (case["ours"]["ratio"], case["theirs"]["ratio"]) for case in report.cases if "ours" in case
    )
    line = f"{options.tokens} tokens equal in {equal} of {len(generated)}"
    return report.finish(
        f"{line}, worst error of ours {worst[0]:.1e}, of theirs there {worst[1]:.1e}"
    )


if __name__ == "__main__":
    sys.exit(main())
