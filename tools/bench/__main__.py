# Runs the package: python3 tools/bench ...
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import sys
from pathlib import Path

# Run as a folder, Python puts this folder first on the path, where `inputs` and the like would
# hide other modules: the package is imported from the folder above instead.
sys.path[0] = str(Path(__file__).resolve().parent.parent)

from bench.cli import main  # noqa: E402

sys.exit(main())
