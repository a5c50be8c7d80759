#!/usr/bin/env bash
# python.sh - Set up Python, install the package linattn, check and test it.
#
#   bash tools/python.sh            everything; the tests that need torch only
#                                   where it can be imported
#   bash tools/python.sh --torch    install torch from PyPI too, if that works: with
#                                   its CUDA libraries 5.5 GB and a minute or two
#   bash tools/python.sh --no-lint  no ruff, no mypy
#   bash tools/python.sh ARG...     other arguments go to pytest
#
# Makes an environment in build/python, with packages from PyPI, the first time.
# PYTHON names the interpreter (default python3, 3.10 or newer); the environment
# sees its packages, so a torch that is there is used. Needs build/bin/dl-compile.
# Works without a network if PYTHON has pytest, numpy, matplotlib and scikit-build-core.
# Also lints and tests tools/bench, the benchmarks against other libraries.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

lint=1 torch=0 arguments=()
for argument in "$@"; do
  case $argument in
  --no-lint) lint=0 ;;
  --torch) torch=1 ;;
  -h | --help)
    usage_of "$0"
    exit 0
    ;;
  *) arguments+=("$argument") ;;
  esac
done

base=${PYTHON:-python3}
package=$root/runtime/python
environment=$root/build/python
python=$environment/bin/python

[[ -x $root/build/bin/dl-compile ]] ||
  die "expected build/bin/dl-compile; run 'cmake --preset default' and build"
"$base" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
  die "expected Python 3.10 or newer as PYTHON, got $("$base" --version)"
if [[ ! -x $python ]]; then
  "$base" -m venv --system-site-packages "$environment" ||
    die "expected the module venv; run 'bash tools/setup.sh'"
fi

pip_install() { "$python" -m pip install -q --disable-pip-version-check "$@"; }
has() { "$python" -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$1') is None)"; }

# need MODULE[:REQUIREMENT]...: installs what cannot be imported.
need() {
  local entry missing=()
  for entry in "$@"; do
    has "${entry%%:*}" || missing+=("${entry##*:}")
  done
  ((${#missing[@]} == 0)) || pip_install "${missing[@]}" || die "pip could not install: ${missing[*]}"
}

need pytest numpy matplotlib scikit_build_core:scikit-build-core
if ((torch)) && ! has torch; then
  echo "python: installing torch"
  pip_install --no-compile --no-cache-dir torch || echo "python: torch could not be installed"
fi

if ((lint)); then
  need ruff mypy
  (cd "$package" && "$python" -m ruff check -q . && "$python" -m ruff format -q --check . &&
    "$python" -m mypy --cache-dir "$root/build/mypy") ||
    die "ruff or mypy complain; 'ruff format' and 'ruff check --fix' in runtime/python repair much"
  (cd "$root/tools" && "$python" -m ruff check -q bench clients &&
    "$python" -m mypy --cache-dir "$root/build/mypy" --config-file bench/pyproject.toml) ||
    die "ruff or mypy complain of tools/bench or tools/clients"
fi

if command -v ccache >/dev/null; then export CMAKE_CXX_COMPILER_LAUNCHER=ccache; fi
pip_install --no-build-isolation --no-deps --force-reinstall "$package" ||
  die "'pip install ./runtime/python' failed"
if ! "$python" -c 'import torch' 2>/dev/null; then
  echo "python: no torch here: the tests that need it are SKIPPED ('--torch' installs it)"
fi
# The installed package is tested, so from elsewhere.
cd "$root/build"
unset LINATTN_LIBRARY LINATTN_PACKAGES PYTHONPATH
LINATTN_INSTALLED=1 LINATTN_DL_COMPILE=$root/build/bin/dl-compile \
  "$python" -m pytest -q -p no:cacheprovider "$package" "$root/tools/bench/tests" "${arguments[@]}"
