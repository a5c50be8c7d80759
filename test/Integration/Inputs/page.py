# page.py - Does what a page tells its reader to do, and compares what it shows with what happens.
#
#   page.py PAGE
#
# In one shell, in the order of the page:
# - A block ```mlir whose first line is "// NAME.mlir..." becomes the file NAME.mlir.
# - In a block ```console each line "$ COMMAND" is run. The lines below it, up to the next command or
#   the end of the block, are what it prints, errors included. It has to fail if one of these lines
#   holds "error:", else it has to succeed.
# Other blocks are left alone. A line "..." stands for any lines, "..." in a line for any text.
# Numbers with a point or an exponent (times, errors) stand for any such number, blanks for any number
# of them. All else has to be the same; a command with nothing below it prints nothing.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import re
import signal
import subprocess
import sys

NUMBER = re.compile(r"\d+\.\d+(?:e[-+]?\d+)?|\d+e[-+]?\d+")
MARK = "--- exit status"


class Shell:
    def __init__(self):
        self.process = subprocess.Popen(
            ["bash"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )

    def run(self, command):
        """What a command prints, and its exit status."""
        # The shell reads commands from where a command would read its input.
        self.process.stdin.write(f"{{ {command}\n}} </dev/null; printf '\\n{MARK} %d\\n' $?\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line.startswith(MARK):
                # What ends in a newline has an empty line behind it now.
                return "".join(lines)[:-1], int(line.rsplit(" ", 1)[1])
            lines.append(line)
        sys.exit(f"the shell ended in '{command}':\n{''.join(lines)}")


def plain(line):
    return " ".join(NUMBER.sub("1.0", line).split())


def same(shown, printed):
    """Whether a command printed what the page shows."""
    pattern = "".join(
        "(?:.*\n)*?" if line == "..." else ".*".join(map(re.escape, line.split("..."))) + "\n"
        for line in map(plain, shown)
    )
    return re.fullmatch(pattern, "".join(plain(line) + "\n" for line in printed))


def steps(path):
    """Yields (line number, command, lines shown) of each command, and of each file to write."""
    with open(path, encoding="utf-8") as file:
        lines = file.read().splitlines()
    number = 0
    while number < len(lines):
        fence, start = lines[number], number + 1
        number += 1
        if not fence.startswith("```"):
            continue
        end = lines.index("```", start)
        number = end + 1
        block = lines[start:end]
        if fence == "```mlir" and (name := re.match(r"// (\w+\.mlir)\b", block[0])):
            text = "\n".join(block)
            yield start, f"cat >{name[1]} <<'END_OF_BLOCK'\n{text}\nEND_OF_BLOCK", []
        elif fence == "```console":
            heads = [i for i in range(start, end) if lines[i].startswith("$ ")]
            if heads[:1] != [start]:
                sys.exit(f"{path}:{start + 1}: expected '$ COMMAND', got '{lines[start]}'")
            for head, following in zip(heads, [*heads[1:], end]):
                yield head + 1, lines[head][2:], lines[head + 1 : following]


def main():
    signal.alarm(600)  # what hangs is a failure
    path = sys.argv[1]
    shell = Shell()
    count = 0
    for number, command, shown in steps(path):
        printed, status = shell.run(command)
        printed = printed.splitlines()
        fails = any("error:" in line for line in shown)
        if not same(shown, printed) or fails != (status != 0):
            print(f"{path}:{number}: {command}")
            print("on the page:", *shown, f"({'fails' if fails else 'succeeds'})", sep="\n  ")
            print("printed:", *printed, f"(exit status {status})", sep="\n  ")
            sys.exit(1)
        count += 1
    if not count:
        sys.exit(f"{path}: expected commands, found none")
    print(f"{path}: {count} steps work as shown")


main()
