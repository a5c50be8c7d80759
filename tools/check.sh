#!/usr/bin/env bash
# check.sh - Set up, lint, check the generated pages, build and run all tests:
# what CI runs.
#
#   bash tools/check.sh               everything
#   bash tools/check.sh --sanitize    the same tests under ASan and UBSan instead,
#                                     built apart in build-sanitize/
#   bash tools/check.sh --no-setup    do not look at installed packages
#   bash tools/check.sh --no-lint     build and test only: no lint, no pages
#
# Needs no GPU: the cpu target runs the kernels. Kernels are also assembled where
# ptxas is on PATH. clang-tidy looks at changed files only, and only if they are
# few; 'bash tools/lint.sh --tidy --all' looks at all of them. The runtime's tests
# also run under ASan and UBSan, and both fuzzers for 10 s (tools/fuzz.sh). The
# Python package is tested with packages from PyPI, torch among them (tools/python.sh).
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

setup=1 lint=1 preset=default
for argument in "$@"; do
  case $argument in
  --sanitize) preset=sanitize ;;
  --no-setup) setup=0 ;;
  --no-lint) lint=0 ;;
  -h | --help)
    usage_of "$0"
    exit 0
    ;;
  *) die "expected --sanitize, --no-setup, --no-lint or --help, got '$argument'" ;;
  esac
done
[[ $preset == default ]] || lint=0

SECONDS=0
failed=()

if ((setup)); then
  step "Set-up"
  bash "$root/tools/setup.sh"
fi

if ((lint)); then
  step "Lint"
  bash "$root/tools/lint.sh" || failed+=(lint)

  step "Reference pages"
  bash "$root/tools/docs.sh" --check || failed+=(docs)
fi

step "Build (preset $preset)"
build_preset "$preset" || die "the build failed"
echo "built after $SECONDS s"

if ((lint)); then
  step "clang-tidy on changed files"
  bash "$root/tools/lint.sh" --only-tidy --at-most=12 || failed+=(clang-tidy)

  step "Support page"
  bash "$root/tools/support.sh" --check || failed+=(support)
fi

step "Tests"
(cd "$root" && ctest --preset "$preset" -j "$(nproc)") || failed+=(tests)

if [[ $preset == default ]]; then
  step "Python"
  options=(--torch)
  ((lint)) || options+=(--no-lint)
  bash "$root/tools/python.sh" "${options[@]}" || failed+=(python)

  step "The runtime's tests with sanitizers"
  build_preset sanitize-runtime || die "the build failed"
  (cd "$root" && ctest --preset sanitize-runtime -j "$(nproc)") || failed+=("sanitized runtime")

  step "Fuzzing"
  bash "$root/tools/fuzz.sh" --seconds=10 || failed+=(fuzzing)
fi

if ((${#failed[@]})); then
  printf '\ncheck: FAILED (%s) after %d s\n' "${failed[*]}" "$SECONDS"
  exit 1
fi
printf '\ncheck: all passed in %d s\n' "$SECONDS"
