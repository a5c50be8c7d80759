#!/usr/bin/env bash
# run.sh - Checks linattn with its real clients, on a machine with a GPU and no network.
#
#   tools/clients/run.sh pack DIR --wheels=DIR --fla-tests=DIR [--build=DIR] [--python=DIR]
#       On the machine that built the project: copies into DIR what the clients need: themselves,
#       linattn, libdlk.so, the specs, dl-compile (compressed; libraries beside it), the wheels of
#       fla-core and flash-linear-attention, and fla's test_gdn.py, test_kda.py, test_rwkv6.py.
#       --build: the build folder (default: build). --python: runtime/python of another tree.
#   tools/clients/run.sh all DIR [--device=cuda] [--out=DIR] [--only=NAMES] [--serial]
#                            [--limit=SECONDS] [-- ARGS]
#       Runs all clients, at once unless --serial. One line for each; logs and JSON go to --out
#       (default: DIR/out). --only: names of clients, with commas. --limit: for each, default 500.
#       ARGS go to every client.
#
# The machine needs Python 3 with torch, Triton, transformers, einops and pytest (PYTHON names
# another interpreter), and ptxas on its PATH or in /usr/local/cuda/bin for dl-compile. Kernels are
# compiled when they are first called; LINATTN_PACKAGES may name packages made before.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=${PYTHON:-python3}
clients=(qwen3_next fla_layers fla_grid contract)

usage() { sed -n '2,18s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
die() {
  echo "run.sh: $*" >&2
  exit 2
}

#===------------------------------------------------------------------------===
# pack
#===------------------------------------------------------------------------===

# needs FOLDER FILE...: dies unless the folder has all of them.
needs() {
  local folder=$1 file
  for file in "${@:2}"; do
    compgen -G "$folder/$file" >/dev/null || die "pack: expected $file in '$folder', got none"
  done
}

# Libraries of dl-compile that a machine may lack; those of the C library it has.
copy_libraries() {
  local library
  ldd "$1" | sed -n 's/.*=> \(\/[^ ]*lib\(z\|zstd\|stdc++\|gcc_s\)\.so[^ ]*\) .*/\1/p' |
    while IFS= read -r library; do cp -L "$library" "$2/"; done
}

pack() {
  local root argument build wheels='' tests='' source=''
  root=$(cd "$here/../.." && pwd)
  build=$root/build dir=
  for argument in "$@"; do
    case $argument in
    --build=*) build=${argument#*=} ;;
    --wheels=*) wheels=${argument#*=} ;;
    --fla-tests=*) tests=${argument#*=} ;;
    --python=*) source=${argument#*=} ;;
    -*) die "pack: expected --wheels=, --fla-tests=, --build= or --python=, got '$argument'" ;;
    *) dir=$argument ;;
    esac
  done
  [[ -n $dir && -n $wheels && -n $tests ]] || die "pack: expected DIR, --wheels= and --fla-tests="
  source=${source:-$root/runtime/python}
  needs "$wheels" 'fla_core-*.whl' 'flash_linear_attention-*.whl'
  needs "$tests" test_{gdn,kda,rwkv6}.py
  needs "$build" bin/dl-compile runtime/libdlk.so
  needs "$source" linattn/__init__.py
  rm -rf "$dir"/{clients,runtime,examples,lib,compiler-lib,wheels,fla-tests}
  mkdir -p "$dir"/{clients,runtime/python,examples,lib,compiler-lib,wheels,fla-tests}
  cp "$here"/{*.py,run.sh} "$dir/clients/"
  cp -r "$source/linattn" "$dir/runtime/python/"
  find "$dir" -name __pycache__ -prune -exec rm -rf {} +
  cp "$root"/examples/*.mlir "$dir/examples/" # where a linattn that is not installed looks for specs
  cp -L "$build/runtime/libdlk.so" "$dir/lib/"
  cp "$wheels"/{fla_core,flash_linear_attention}-*.whl "$dir/wheels/"
  cp "$tests"/test_{gdn,kda,rwkv6}.py "$dir/fla-tests/"
  copy_libraries "$build/bin/dl-compile" "$dir/compiler-lib"
  strip -o "$dir/dl-compile" "$build/bin/dl-compile"
  gzip -9 -f "$dir/dl-compile"
  echo "packed into $dir: $(du -sh "$dir" | cut -f 1)"
}

#===------------------------------------------------------------------------===
# all
#===------------------------------------------------------------------------===

# dl-compile, with its own libraries if the machine's do not do.
unpack_compiler() {
  local program=$work/dl-compile.bin
  gzip -dc "$dir/dl-compile.gz" >"$program"
  chmod +x "$program"
  if "$program" --list-targets >/dev/null 2>&1; then
    mv "$program" "$work/dl-compile"
  else
    printf '#!/bin/sh\nexec env LD_LIBRARY_PATH="%s" "%s" "$@"\n' "$dir/compiler-lib" "$program" >"$work/dl-compile"
    chmod +x "$work/dl-compile"
  fi
  "$work/dl-compile" --list-targets >/dev/null || die "all: dl-compile does not run on this machine"
}

prepare() {
  unpack_compiler
  "$python" -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --disable-pip-version-check \
    --root-user-action=ignore --target "$work/fla" "$dir"/wheels/*.whl
  if ! command -v ptxas >/dev/null && [[ -d /usr/local/cuda/bin ]]; then PATH=$PATH:/usr/local/cuda/bin; fi
  [[ $device == cpu ]] || command -v ptxas >/dev/null || echo "run.sh: no ptxas: the driver compiles the kernels"
  export LINATTN_LIBRARY=$dir/lib/libdlk.so LINATTN_DL_COMPILE=$work/dl-compile LINATTN_CACHE=$work/cache
  export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 FLA_FLASH_KDA=0 FLA_FLASH_QLA=0
}

# run_client NAME: transformers must not find fla, whose kernels it would take for its fallback.
run_client() {
  local path=$dir/runtime/python extra=()
  [[ $1 == qwen3_next || $1 == contract ]] || path+=:$work/fla
  [[ $1 != fla_grid ]] || extra=(--fla-tests="$dir/fla-tests")
  PYTHONPATH=$path timeout "$limit" "$python" "$dir/clients/$1.py" --device="$device" --out="$out/$1.json" \
    ${extra[@]+"${extra[@]}"} ${arguments[@]+"${arguments[@]}"} >"$out/$1.log" 2>&1
}

# tell NAME: the client's last line, or that it broke off.
tell() {
  grep -E '^      (fused|chunk)_' "$out/$1.log" || true
  grep -E "^(ok|FAIL) +$1:" "$out/$1.log" || { echo "FAIL  $1: broke off, see $1.log" && tail -n 5 "$out/$1.log"; }
}

run_all() {
  local name only='' serial=0 failed=0 pids=()
  device=cuda out=$dir/out limit=500 arguments=()
  while (($#)); do
    case $1 in
    --device=*) device=${1#*=} ;;
    --out=*) out=${1#*=} ;;
    --only=*) only=${1#*=} ;;
    --limit=*) limit=${1#*=} ;;
    --serial) serial=1 ;;
    --) arguments=("${@:2}") && break ;;
    *) die "all: expected --device=, --out=, --only=, --limit=, --serial or --, got '$1'" ;;
    esac
    shift
  done
  if [[ -n $only ]]; then IFS=, read -ra clients <<<"$only"; fi
  mkdir -p "$out"
  out=$(cd "$out" && pwd)
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  prepare
  for name in "${clients[@]}"; do
    if ((serial)); then
      run_client "$name" || failed=1
      tell "$name"
    else
      run_client "$name" &
      pids+=($!)
    fi
  done
  for name in "${!pids[@]}"; do
    wait "${pids[name]}" || failed=1
    tell "${clients[name]}"
  done
  echo "$(find "$work/cache" -name '*.dlk' | wc -l) kernels compiled; JSON and logs in $out, after $SECONDS s"
  return "$failed"
}

command=${1:-}
case $command in
-h | --help) usage ;;
pack)
  shift
  pack "$@"
  ;;
all)
  (($# > 1)) || die "all: expected a folder made by 'run.sh pack'; see --help"
  dir=$(cd "$2" && pwd)
  shift 2
  [[ -f $dir/dl-compile.gz ]] || die "all: expected dl-compile.gz in '$dir'; 'run.sh pack' puts it there"
  run_all "$@"
  ;;
*) die "expected pack or all, got '$command'; see --help" ;;
esac
