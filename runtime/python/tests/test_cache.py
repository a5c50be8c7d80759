# test_cache.py - The cache of compiled packages (R056).
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
from __future__ import annotations

import os
import subprocess
import sys
import warnings

import pytest

import linattn
from linattn import _library, cache

CPU = _library.Device(_library.CPU, 0)


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """A cache of its own, and nothing in memory."""
    monkeypatch.setenv("LINATTN_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache, "_memory", {})
    monkeypatch.setattr(cache, "_warned", False)
    return tmp_path / "cache"


@pytest.fixture
def compilations(monkeypatch):
    """Counts runs of the compiler."""
    runs = []
    real = cache._run

    def counted(*arguments):
        runs.append(arguments)
        real(*arguments)

    monkeypatch.setattr(cache, "_run", counted)
    return runs


def small(**changes):
    return linattn.kernel("rwkv6", **{"key_dim": 16, "value_dim": 16, **changes})


def entries(folder):
    return sorted(folder.glob("*.dlk"))


def forget(monkeypatch):
    monkeypatch.setattr(cache, "_memory", {})


def test_compiled_once(folder, compilations, monkeypatch):
    first = small()
    assert small() is first and len(compilations) == 1 and len(entries(folder)) == 1
    forget(monkeypatch)
    assert small().package.path == str(entries(folder)[0]) and len(compilations) == 1
    assert not list(folder.glob("*.new"))


def test_what_a_key_depends_on(folder, compilations, monkeypatch, tmp_path):
    small()
    changes = [
        {"value_dim": 32},
        {"state_layout": "vk"},
        {"state_type": "bf16"},
        {"io_type": "f32"},
        {"index_type": "i64"},
        {"options": {"decay": "raw"}},
        {"types": {"w": "f32"}},
    ]
    for number, change in enumerate(changes, 2):
        small(**change)
        assert len(compilations) == number and len(entries(folder)) == number
    small(options={"decay": "log"}, types={"r": "bf16", "u": "f32"})  # the defaults
    assert len(compilations) == len(changes) + 1
    # Another compiler, by content: a wrapper is one.
    program = tmp_path / "dl-compile"
    program.write_text(f'#!/bin/sh\nexec "{cache.compiler()}" "$@"\n')
    program.chmod(0o755)
    monkeypatch.setenv("LINATTN_DL_COMPILE", str(program))
    small()
    assert len(compilations) == len(changes) + 2


@pytest.mark.parametrize("damage", ["truncated", "empty", "garbage", "one bit"])
def test_damaged_entries_are_built_again(folder, compilations, monkeypatch, damage):
    small()
    (path,) = entries(folder)
    data = path.read_bytes()
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 1
    bad = {"truncated": data[: len(data) // 2], "empty": b"", "garbage": b"garbage" * 1000}
    path.write_bytes(bad.get(damage, bytes(flipped)))
    forget(monkeypatch)
    small().prepare("cpu")
    assert len(compilations) == 2 and path.read_bytes() == data


def test_eight_processes(folder):
    code = """
import linattn, time, sys
time.sleep(max(0, float(sys.argv[1]) - time.time()))
kernel = linattn.kernel("gdn", key_dim=32, value_dim=32, io_type="f32")
kernel.prepare("cpu")
print(kernel.package.path)
"""
    import time

    start = str(time.time() + 1)
    command = [sys.executable, "-W", "error", "-c", code, start]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(8)
    ]
    results = [process.communicate() for process in running]
    assert all(process.returncode == 0 for process in running), results
    assert len(entries(folder)) == 1 and not list(folder.glob("*.new"))
    assert {output.strip() for output, _ in results} == {str(entries(folder)[0])}


def test_a_lock_that_is_never_let_go(folder, monkeypatch):
    import fcntl

    small()
    (path,) = entries(folder)
    path.unlink()
    forget(monkeypatch)
    monkeypatch.setattr(cache, "LOCK_SECONDS", 0.1)
    with open(path.with_suffix(".lock"), "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        small()
    assert path.exists()


def test_folder_that_cannot_be_used(monkeypatch, tmp_path, compilations):
    """Also as root, for whom nothing is read-only: the folder's place is taken by a file."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LINATTN_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(cache, "_memory", {})
    monkeypatch.setattr(cache, "_warned", False)
    with pytest.warns(RuntimeWarning, match="the cache folder .* cannot be used"):
        first = small()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # one warning only
        assert small() is first
        small(value_dim=32)
    assert len(compilations) == 2 and first.package.path == "<memory>"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_read_only_folder(folder, compilations, monkeypatch):
    small()
    folder.chmod(0o555)
    forget(monkeypatch)
    small()  # reading needs no right to write
    assert len(compilations) == 1
    with pytest.warns(RuntimeWarning, match="cannot be used"):
        small(value_dim=32)
    folder.chmod(0o755)


def test_compile_for_another_device(folder, compilations):
    package = linattn.compile("rwkv6", target="sm_90a", key_dim=32, value_dim=16)
    assert package.path == str(entries(folder)[0]) and package.kernels[0].targets == ("sm_90a",)
    assert linattn.compile("rwkv6", target="sm_90a", key_dim=32, value_dim=16) is package
    with pytest.raises(linattn.CompileError, match="--target: expected a target among .*sm_1"):
        linattn.compile("rwkv6", target="sm_1", key_dim=32, value_dim=16)
    assert len(compilations) == 2 and len(entries(folder)) == 1
    with pytest.raises(linattn.NotFound):
        package.kernels[0].prepare("cpu")


def test_off(monkeypatch, compilations, tmp_path):
    monkeypatch.setenv("LINATTN_CACHE", "off")
    monkeypatch.setattr(cache, "_memory", {})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert small() is small()
    assert len(compilations) == 1


def test_where_it_is(monkeypatch):
    monkeypatch.delenv("LINATTN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "some/where")
    assert str(cache.directory()) == "some/where/linattn"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "a/home")
    assert str(cache.directory()) == "a/home/.cache/linattn"


def test_what_the_compiler_refuses(folder, monkeypatch):
    with pytest.raises(linattn.CompileError, match=r"dl-compile: --dims: expected .*, got '15x16'"):
        small(key_dim=15)
    assert not entries(folder) and not list(folder.glob("*.new"))
    monkeypatch.setenv("LINATTN_DL_COMPILE", "no-such-program")
    with pytest.raises(linattn.NotFound, match="expected a program, got 'no-such-program'"):
        small(key_dim=24)


def test_targets():
    known = ("cpu", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100f", "sm_103a", "sm_120f", "sm_121a")
    chosen = {
        c: cache.choose_target(c, known) for c in (80, 86, 87, 89, 90, 100, 103, 110, 120, 121)
    }
    assert chosen == {
        80: "sm_80", 86: "sm_86", 87: "sm_86", 89: "sm_89", 90: "sm_90a", 100: "sm_100f",
        103: "sm_103a", 110: "sm_89", 120: "sm_120f", 121: "sm_121a",
    }  # fmt: skip
    assert cache.target_of(CPU) == "cpu"
    with pytest.raises(ValueError, match=r"expected compute capability 8\.0 or newer, got 7\.5"):
        cache.choose_target(75, known)
