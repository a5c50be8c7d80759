# test_readme.py - The README's examples run, and the tutorial's.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from cases import DEVICE, Case, array, close, torch

import linattn


def test_examples(tmp_path, monkeypatch):
    text = (Path(__file__).parents[1] / "README.md").read_text()
    first, second, third = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names: dict = {}
    exec(first.replace('"cuda"', repr(DEVICE)), names)
    assert names["o"].shape == (4, 1, 32, 128) and names["state"].any()

    kernel = linattn.kernel("gdn", key_dim=128, value_dim=128, state_layout="vk", device=DEVICE)
    shutil.copy(kernel.package.path, tmp_path / "gdn.dlk")
    monkeypatch.chdir(tmp_path)
    case = Case(B=3, T=1, H=16, HV=32, K=128, V=128)
    slots = torch.tensor([3, -1, 2], dtype=torch.int32)
    names = {"linattn": linattn, "slots": slots, "pool": torch.zeros(4, 32, 128, 128)}
    names |= {name: getattr(case, name) for name in ("q", "k", "v", "a", "b", "A_log", "dt_bias")}
    names["o"] = torch.empty_like(case.v)
    exec(second, names)
    assert names["pool"][[2, 3]].any() and not names["pool"][[0, 1]].any()

    names |= {"device": DEVICE, "T": 1, "slots": torch.tensor([3, 0, 2], dtype=torch.int32)}
    names |= {"accepted": None, "initial": torch.zeros(3, dtype=torch.bool)}
    exec(third, names)
    assert names["o"].shape == (3, 1, 32, 128) and names["o"][[0, 2]].any()
    assert not names["o"][1].any() and names["dense"].shape == (3, 32, 128, 128)


def test_tutorial(tmp_path, monkeypatch):
    """The lines of Python of examples/README.md, with the package that it makes."""
    text = (Path(__file__).parents[3] / "examples" / "README.md").read_text(encoding="utf-8")
    (spec,) = re.findall(r"^```mlir\n(// erase\.mlir.*?)^```", text, re.DOTALL | re.MULTILINE)
    (command,) = re.findall(r"^\$ dl-compile (erase\.mlir -o erase\.dlk .*)$", text, re.MULTILINE)
    (block,) = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    Path("erase.mlir").write_text(spec, encoding="utf-8")
    compiler = os.environ.get("LINATTN_DL_COMPILE") or "dl-compile"
    subprocess.run([compiler, *command.split()], check=True)

    B, T, HQ, HV, K, V = 2, 3, 1, 2, 32, 64
    names = {"linattn": linattn, "torch": torch, "B": B, "HV": HV}
    shapes = {"q": (HQ, K), "k": (HQ, K), "v": (HV, V), "a": (HV, K), "b": (HV,), "z": (HV, V)}
    for name, shape in shapes.items():
        names[name] = torch.randn(B, T, *shape, device="cpu").bfloat16()
    names["w"] = torch.randn(HQ, K, device="cpu")
    with torch.device("cpu"):  # the page's package has kernels for the CPU alone
        exec(block, names)

    # What the page says that the operator does, in double precision.
    x = {name: names[name].double() for name in (*shapes, "w")}
    S, o = torch.zeros(B, HV, K, V, dtype=torch.double, device="cpu"), []
    key = torch.nn.functional.normalize
    for t in range(T):
        k, e = key(x["k"][:, t], dim=-1), key(x["w"].sigmoid() * x["k"][:, t], dim=-1)
        S = S * (-torch.nn.functional.softplus(x["a"][:, t])).exp()[..., None]
        u = x["b"][:, t].sigmoid()[..., None] * (x["v"][:, t] - (S * e[..., None]).sum(-2))
        S = S + k[..., None] * u[..., None, :]
        o.append(x["z"][:, t].sigmoid() * (S * x["q"][:, t, ..., None]).sum(-2))
    close(names["o"], array(torch.stack(o, 1)))
    close(names["S"], array(S))
