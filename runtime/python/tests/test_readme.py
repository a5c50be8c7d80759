# test_readme.py - The README's examples run.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import re
import shutil
from pathlib import Path

from cases import DEVICE, Case, torch

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
