# Tests of the arguments; they need no torch.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import sys

import pytest

from bench import cli


def bench(*arguments: object) -> int:
    """Runs the command in this process."""
    try:
        return cli.main([*map(str, arguments), "--quiet"])
    except SystemExit as error:
        return int(error.code or 0)


@pytest.mark.parametrize(
    "arguments, text",
    [(["--out=x"], "expected --work or --render"),
     (["--work=decode", "--op=gla", "--out=x"], "got 'gla'"),
     (["--work=decode", "--peers=nobody", "--out=x"], "got 'nobody'"),
     (["--work=decode", "--batch=0", "--out=x"], "expected numbers above 0"),
     (["--work=decode", "--heads=4/6", "--out=x"], "multiple of HQ"),
     (["--work=decode", "--dims=128", "--out=x"], "expected KxV"),
     (["--work=prefill", "--shapes=lots", "--out=x"], "ROWSxTOKENS"),
     (["--work=decode"], "--out"),
     (["--render", "/nowhere.json", "--out=x"], "/nowhere.json")],
)  # fmt: skip
def test_errors_name_what_is_wrong(capsys, arguments, text):
    assert bench(*arguments) == 2
    assert text in capsys.readouterr().err


def test_the_default_lists():
    parser = cli.make_parser()
    decode = cli.list_cases(parser.parse_args(["--work=decode", "--out=x"]))
    assert len(decode) == 3 * 2 * 2 * 5 and {case.B for case in decode} == {1, 8, 64, 256, 512}
    append = cli.list_cases(parser.parse_args(["--work=append", "--out=x", "--batch=64"]))
    assert {case.T for case in append} == {1, 2, 4, 8}
    assert {case.form for case in append} == {"functional", "snapshots"}
    prefill = cli.list_cases(parser.parse_args(["--work=prefill", "--out=x", "--heads=16/64"]))
    assert {case.op for case in prefill} == {"gdn", "kda"}
    sizes = cli.list_cases(parser.parse_args(["--work=decode", "--out=x", "--dims=64x64,96x192"]))
    assert {(case.K, case.V) for case in sizes} == {(64, 64), (96, 192)}


def test_peers_are_found_without_importing_them():
    assert {"ours", "fla", "flashinfer", "flash_kda", "naive"} <= set(cli.peer_names())
    assert "fla" not in sys.modules and "flashinfer" not in sys.modules
