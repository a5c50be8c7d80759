# common.sh - What the scripts of this folder share. Sourced, not run.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

# shellcheck shell=bash
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# The sloppiness flags are what lets ccache reuse results behind a precompiled
# header. The same list stands in CMakePresets.json for `cmake --build --preset`.
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime

die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

step() { printf '\n== %s\n' "$*"; }

# usage_of SCRIPT: prints the comment block at its top, without the licence.
usage_of() {
  sed -n '2,/^# Part of/{s/^# \{0,1\}//p}' "$1" | sed '/^Part of/d'
}

# parse_check ARGUMENT...: for scripts that write a page, or with --check compare; sets check.
parse_check() {
  local argument
  check=0
  for argument in "$@"; do
    case $argument in
    --check) check=1 ;;
    -h | --help)
      usage_of "$0"
      exit 0
      ;;
    *) die "expected --check or --help, got '$argument'" ;;
    esac
  done
}

require_cmake() {
  local version
  command -v cmake >/dev/null ||
    die "expected cmake 3.25 or newer, found none; run 'bash tools/setup.sh'"
  version=$(cmake --version | sed -n '1s/[^0-9]*//p')
  if [[ $(printf '%s\n' 3.25 "$version" | sort -V | head -n 1) != 3.25 ]]; then
    die "expected cmake 3.25 or newer, found $version: CMakePresets.json needs it"
  fi
}

# build_preset PRESET [TARGET...]: configures and builds, quietly unless it fails.
build_preset() {
  local preset=$1
  shift
  require_cmake
  (
    cd "$root" || exit
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    if ! cmake --preset "$preset" >"$log" 2>&1; then
      cat "$log"
      exit 1
    fi
    cmake --build --preset "$preset" ${1:+--target "$@"}
  )
}
