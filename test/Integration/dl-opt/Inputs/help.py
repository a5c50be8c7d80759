# help.py - Checks that dl-opt --help lists the passes, and what it lists.
#
#   help.py HELP
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import re
import subprocess
import sys

OPTION = re.compile(r"^ *(--[\w-]+)", re.MULTILINE)


def dl_opt(option):
    """What dl-opt prints for an option."""
    return subprocess.run(["dl-opt", option], capture_output=True, check=True, text=True).stdout


def expect(condition, message):
    if not condition:
        sys.exit(f"dl-opt --help: expected {message}")


with open(sys.argv[1], encoding="utf-8") as file:
    page = file.read()
sections = {}
for title, body in re.findall(r"^([A-Z].*):\n((?:  .*\n)+)", page, re.MULTILINE):
    sections[title] = OPTION.findall(body)
others = sections.pop("Other passes", [])
listed = [name for names in sections.values() for name in names] + others

every = dl_opt("--help-hidden")
passes = every[every.index("Compiler passes to run") :]
passes = re.findall(r"^      (--[\w-]+)", passes, re.MULTILINE)
expect(len(passes) > 10, "--help-hidden to list passes")
expect(not set(passes) - set(listed), f"all passes, got none of {set(passes) - set(listed)}")
expect(len(listed) == len(set(listed)), f"each name once, got {listed}")
expect(all(name.startswith("--test-") for name in others), f"a stage for each of {others}")
known = set(OPTION.findall(every))
expect(not set(listed) - known, f"no options that do not exist, got {set(listed) - known}")
expect(page.count("\n") < 80, f"less than 80 lines, got {page.count(chr(10))}")
