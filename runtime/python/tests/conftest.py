# conftest.py - Where the tests find the library and the compiler; fixtures.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Run from anywhere: ``python -m pytest runtime/python``. The library and dl-compile come from
``LINATTN_LIBRARY`` and ``LINATTN_DL_COMPILE``, else from the project's build folder, else from the
installed package and ``PATH``."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

_PYTHON = Path(__file__).resolve().parents[1]
_BUILD = _PYTHON.parents[1] / "build"


def _default(variable: str, path: Path) -> None:
    if variable not in os.environ and path.exists():
        os.environ[variable] = str(path)


_default("LINATTN_DL_COMPILE", _BUILD / "bin" / "dl-compile")
if "LINATTN_INSTALLED" not in os.environ:  # else: test the installed package with its library
    _default("LINATTN_LIBRARY", _BUILD / "runtime" / "libdlk.so")
    sys.path.insert(0, str(_PYTHON))
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(_PYTHON), os.environ.get("PYTHONPATH", "")])
    )


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One cache for the whole session: kernels are compiled once."""
    folder = tmp_path_factory.mktemp("cache")
    os.environ["LINATTN_CACHE"] = str(folder)
    os.environ.pop("LINATTN_PACKAGES", None)
    os.environ.pop("LINATTN_CHECKED", None)
    yield folder


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    compiler = os.environ.get("LINATTN_DL_COMPILE") or shutil.which("dl-compile")
    if compiler is None:
        pytest.exit("linattn's tests: expected dl-compile on PATH or in LINATTN_DL_COMPILE", 2)


def pytest_report_header() -> str:
    try:
        import torch

        version = torch.__version__
    except ImportError:
        version = "absent: the tests that need it are skipped"
    return f"linattn: library {os.environ.get('LINATTN_LIBRARY', 'installed')}, torch {version}"
