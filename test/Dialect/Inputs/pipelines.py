# pipelines.py - Checks that a page has every pipeline of dl-opt, and no other, in its table.
#
#   pipelines.py HELP PAGE
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import re
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    section = re.search(r"^Pipelines,.*:\n((?:  .*\n)+)", file.read(), re.MULTILINE)
names = set(re.findall(r"^  (--[\w-]+)", section[1], re.MULTILINE))
with open(sys.argv[2], encoding="utf-8") as file:
    listed = set(re.findall(r"^\| `(--[\w-]+)` \|", file.read(), re.MULTILINE))
if not names or names != listed:
    sys.exit(f"expected the pipelines {sorted(names)} in {sys.argv[2]}, got {sorted(listed)}")
