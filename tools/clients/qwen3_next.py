"""Qwen3-Next of transformers, random weights: generates with linattn in place of its own functions.

Every arm has the same weights and prompts. 'torch' is the model as it is where fla is missing: its
fallback in PyTorch. 'ours' has fused_recurrent_gated_delta_rule of linattn for the prompt and for
each token. 'grouped' is the same without the repeated key heads which some versions of transformers
pass. 'exact' is the model in f64 with a reference in f64.

Greedy tokens of torch and ours have to be equal, or differ first where torch itself wavers between
two. Then all arms are fed the tokens of torch, and their logits compared with those of 'exact'.

Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""

from __future__ import annotations

import copy
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import transformers
from transformers.models.qwen3_next import modeling_qwen3_next as modeling

import common
import linattn

# What versions 5.x call the two functions: in the module, and in the layer (older ones).
FUNCTIONS = ("torch_recurrent_gated_delta_rule", "torch_chunk_gated_delta_rule")
ATTRIBUTES = ("recurrent_gated_delta_rule", "chunk_gated_delta_rule")
Rule = Callable[..., tuple[torch.Tensor, torch.Tensor | None]]


def build(dtype: torch.dtype, device: str, quick: bool) -> Any:
    """The head dims and head counts of the released model; narrower, and with few experts."""
    width = 256 if quick else 1024
    config = transformers.Qwen3NextConfig(
        vocab_size=1024 if quick else 8192,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=128,
        linear_num_key_heads=16,
        linear_num_value_heads=32,
        linear_key_head_dim=128,
        linear_value_head_dim=128,
        num_experts=8,
        num_experts_per_tok=2,
        moe_intermediate_size=width // 2,
        shared_expert_intermediate_size=width // 2,
        max_position_embeddings=1024,
        initializer_range=0.05,
    )
    layers = set(config.layer_types or ())
    assert layers == {"linear_attention", "full_attention"}, layers
    torch.manual_seed(0)
    model: Any = transformers.Qwen3NextForCausalLM(config)
    if hasattr(model, "set_experts_implementation"):
        # The default one multiplies groups of matrices, which torch cannot in f64.
        model.set_experts_implementation("eager")
    model = model.to(dtype).to(device).eval()
    for name in ("eos_token_id", "bos_token_id", "pad_token_id"):
        setattr(model.generation_config, name, None)
    model.generation_config.pad_token_id = 0
    return model


def linear_layers(model: Any) -> list[Any]:
    return [
        layer for layer in model.modules() if isinstance(layer, modeling.Qwen3NextGatedDeltaNet)
    ]


def accepted(keywords: dict[str, Any]) -> dict[str, Any]:
    """What the layer passes, without what is meant for other implementations."""
    names = (
        "g",
        "beta",
        "initial_state",
        "output_final_state",
        "use_qk_l2norm_in_kernel",
        "cu_seqlens",
    )
    return {name: keywords[name] for name in names if name in keywords}


def ours(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **keywords: Any) -> Any:
    # For prompts the layer passes transposes, whose last stride is the number of tokens: fla's
    # function copies them, ours refuses them.
    query, key, value = (x if x.stride(-1) == 1 else x.contiguous() for x in (query, key, value))
    return linattn.fused_recurrent_gated_delta_rule(query, key, value, **accepted(keywords))


def grouped(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **keywords: Any) -> Any:
    """With 16 key heads for 32 value heads: leaves repeated heads out again, as views."""
    repeats = query.shape[2] // 16
    return ours(query[:, :, ::repeats], key[:, :, ::repeats], value, **keywords)


def exact(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, **keywords: Any) -> Any:
    given = accepted(keywords)
    keep, normalize = (
        given.pop("output_final_state", False),
        given.pop("use_qk_l2norm_in_kernel", False),
    )
    o, state = common.delta_rule(query, key, value, normalize=normalize, **given)
    return o.to(value.dtype), state if keep else None


@contextmanager
def implementation(model: Any, rule: Rule | None) -> Iterator[common.Counted | None]:
    """The model with another rule in its linear layers; None leaves it as it is."""
    if rule is None:
        yield None
        return
    counted = common.Counted(rule)
    places: list[tuple[Any, str, Any]] = []
    for name in FUNCTIONS:
        if hasattr(modeling, name):
            places.append((modeling, name, counted))
    for layer in linear_layers(model):
        places += [(layer, name, counted) for name in ATTRIBUTES if hasattr(layer, name)]
    with common.replaced(*places):
        yield counted


@torch.inference_mode()
def generate(
    model: Any, prompt: torch.Tensor, tokens: int, rule: Rule | None
) -> tuple[Any, Any, int]:
    """Tokens [B, tokens], logits [B, tokens, vocabulary] and the number of calls of the rule."""
    with implementation(model, rule) as counted:
        result = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            max_new_tokens=tokens,
            output_logits=True,
            return_dict_in_generate=True,
        )
    calls = counted.calls if counted else 0
    return result.sequences[:, prompt.shape[1] :], torch.stack(result.logits, 1), calls


@torch.inference_mode()
def forced(
    model: Any, prompt: torch.Tensor, tokens: torch.Tensor, rule: Rule | None
) -> torch.Tensor:
    """Logits [B, tokens, vocabulary] where each step is given its token, not the best one."""
    # Its name from 5.2x on, and the one before.
    name = (
        "cache"
        if "cache" in inspect.signature(type(model).forward).parameters
        else "past_key_values"
    )
    with implementation(model, rule):
        result = model(prompt, use_cache=True)
        logits = [result.logits[:, -1].double()]
        for step in range(tokens.shape[1] - 1):
            cache = {name: result.past_key_values}
            result = model(tokens[:, step : step + 1], use_cache=True, **cache)
            logits.append(result.logits[:, -1].double())
    return torch.stack(logits, 1)


def first_divergence(a: tuple[Any, Any, int], b: tuple[Any, Any, int]) -> dict[str, Any]:
    """Per row the first step where greedy tokens differ, and whether a tie explains it."""
    facts: dict[str, Any] = {"equal": bool((a[0] == b[0]).all()), "tie": True, "rows": []}
    for row in range(a[0].shape[0]):
        steps = (a[0][row] != b[0][row]).nonzero().flatten().tolist()
        last = steps[0] if steps else a[0].shape[1] - 1
        gaps = (a[1][row, : last + 1].double() - b[1][row, : last + 1].double()).abs().amax(-1)
        entry = {"first": steps[0] if steps else None, "largest_gap": gaps.max().item()}
        if steps:
            best = a[1][row, last].double().topk(2).values
            entry |= {"lead": (best[0] - best[1]).item(), "gap": gaps[last].item()}
            facts["tie"] = facts["tie"] and entry["lead"] <= 2 * entry["gap"]
        facts["rows"].append(entry)
    return facts


def check(report: common.Report, dtype: torch.dtype, tokens: int) -> None:
    device, quick = report.options.device, report.options.quick
    name = str(dtype).removeprefix("torch.")
    model = build(dtype, device, quick)
    torch.manual_seed(1)
    prompt = torch.randint(0, model.config.vocab_size, (2, 9 if quick else 37)).to(device)
    plain, replaced = (generate(model, prompt, tokens, rule) for rule in (None, ours))
    calls = len(linear_layers(model)) * tokens
    greedy = first_divergence(plain, replaced)
    report.add(
        f"{name} generate",
        (greedy["equal"] or greedy["tie"]) and replaced[2] == calls,
        calls=replaced[2],
        calls_expected=calls,
        distinct_tokens=plain[0].unique().numel(),
        **greedy,
    )
    judge = forced(copy.deepcopy(model).double(), prompt, plain[0], exact)
    spread = judge.std().item()
    errors: dict[str, dict[str, float]] = {}
    steps: dict[str, list[float]] = {}
    arms: dict[str, Rule | None] = {"torch": None, "ours": ours, "grouped": grouped}
    logits = {arm: forced(model, prompt, plain[0], rule) for arm, rule in arms.items()}
    for arm, values in logits.items():
        errors[arm] = common.difference(judge, values)
        steps[arm] = (judge - values).abs().amax((0, 2)).tolist()
    apart = common.difference(logits["torch"], logits["ours"])
    best = (logits["torch"].argmax(-1) == logits["ours"].argmax(-1)).flatten().tolist()
    agree = {"best_token_agrees": sum(best), "of": len(best)}
    # Both arms round in the same places but for the rule itself; a factor of two is for luck.
    floor = 1e-5 if dtype == torch.float32 else 1e-3
    for arm in ("ours", "grouped"):
        ok = errors[arm]["ratio"] <= 2 * errors["torch"]["ratio"] + floor
        facts: dict[str, Any] = {"error": errors[arm], "error_of_torch": errors["torch"]}
        facts |= {"spread_of_logits": spread, "against_torch": apart}
        facts |= agree if arm == "ours" else {}
        report.add(f"{name} forced {arm}", ok, **facts, largest_per_step=steps[arm])


def main() -> int:
    parser = common.parser(__doc__)
    parser.add_argument("--tokens", type=int, help="to generate: default 64, with --quick 6")
    options = parser.parse_args()
    options.tokens = options.tokens or (6 if options.quick else 64)
    transformers.utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    found = importlib.util.find_spec("fla")
    if found and found.origin:
        # transformers would take fla's kernels, and there would be no fallback to compare with.
        parser.error(
            "expected a PYTHONPATH without fla, whose functions transformers prefers to its own"
        )
    report = common.Report("qwen3_next", options)
    for dtype in (torch.float32, torch.bfloat16):
        check(report, dtype, options.tokens)
    greedy = [case for case in report.cases if "equal" in case]
    equal = sum(case["equal"] for case in greedy)
    compared = [case for case in report.cases if case["name"].endswith("forced ours")]
    gaps = ", ".join(f"{case['against_torch']['max']:.1e}" for case in compared)
    agree = ", ".join(f"{case['best_token_agrees']}/{case['of']}" for case in compared)
    line = (
        f"{options.tokens} greedy tokens equal in {equal} of {len(greedy)} types, or part at a tie"
    )
    return report.finish(f"{line}; fed the same tokens, best agrees {agree}, logits within {gaps}")


if __name__ == "__main__":
    sys.exit(main())
