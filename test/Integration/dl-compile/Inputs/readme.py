# readme.py - Compares what a page shows of a command with what it prints.
#
#   COMMAND | readme.py PAGE.md "COMMAND"
#
# In the page the command stands behind "$ "; lines up to an empty one are its output, in order, with
# "..." where some are left out.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import sys

page = open(sys.argv[1], encoding="utf-8").read().splitlines()
output = sys.stdin.read().splitlines()
shown = page[page.index("$ " + sys.argv[2]) + 1 :]
shown = shown[: shown.index("")]
assert len(shown) > 10, "expected output behind the command"
position, may_skip = 0, False
for line in shown:
    if line.strip() == "...":
        may_skip = True
        continue
    if line not in output[position:]:
        sys.exit(f"expected this line among what is left of the output, got none: {line}")
    found = output.index(line, position)
    if found != position and not may_skip:
        sys.exit(f"expected '...' for what is left out before: {line}")
    position, may_skip = found + 1, False
if position != len(output) and not may_skip:
    sys.exit("expected '...' for what is left out at the end")
