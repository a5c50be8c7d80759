# Without torch only what needs none is tested.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import importlib.util

collect_ignore = []
if importlib.util.find_spec("torch") is None:
    collect_ignore += [f"test_{name}.py" for name in ("cases", "cli", "logs", "reference")]
    collect_ignore += [f"test_{name}.py" for name in ("report", "flashinfer", "runner", "variants")]
