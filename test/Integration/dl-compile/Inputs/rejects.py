# rejects.py - Runs dl-compile on bad input and checks how it says no.
#
#   rejects.py SCRATCH MESSAGE ARGUMENT...
#
# SCRATCH is a path to work under. Expected: status 1, nothing on standard output, exactly one line
# on standard error, `dl-compile: error: MESSAGE`, apart from the progress of kernels that had to be
# tried; no output file, and one that was there before as it was.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os
import re
import subprocess
import sys

scratch, message, arguments = sys.argv[1], sys.argv[2], sys.argv[3:]
folder = scratch + ".rejects"
os.makedirs(folder, exist_ok=True)
output = os.path.join(folder, "out.dlk")
if not any(argument == "-o" for argument in arguments):
    arguments += ["-o", output]


def check(condition, what, run):
    if not condition:
        sys.exit(f"{what}\nstatus {run.returncode}\nstdout: {run.stdout}\nstderr: {run.stderr}")


for before in (None, b"kept"):
    if os.path.exists(output):
        os.remove(output)
    if before is not None:
        with open(output, "wb") as file:
            file.write(before)
    run = subprocess.run(
        ["dl-compile", *arguments], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    lines = run.stderr.decode(errors="replace").splitlines()
    lines = [line for line in lines if not re.match(r"\[\d+/\d+\] ", line)]
    check(run.returncode == 1, "expected status 1", run)
    check(lines == [f"dl-compile: error: {message}"], f"expected the one line: {message}", run)
    check(run.stdout == b"", "expected nothing on standard output", run)
    names = os.listdir(folder)
    check(names == ([] if before is None else ["out.dlk"]), f"expected no new file: {names}", run)
    if before is not None:
        with open(output, "rb") as file:
            check(file.read() == before, "expected the old file as it was", run)
