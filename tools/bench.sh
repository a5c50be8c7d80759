#!/usr/bin/env bash
# bench.sh - Times the packages of a folder and prints one page of results.
#
#   tools/bench.sh DIR [dl-run bench arguments] > RESULTS.md
#
# DIR holds *.dlk; dl-run is taken from DIR, from this checkout's build/ or from PATH.
# Kernels are verified first; one that fails is reported and not timed, and the exit
# status is then 1. Unless told otherwise times the 128 x 128 kernels with 32 heads for
# batches from 1 to 512, and those of 64 x 64 and 96 x 192 for three of them, on the GPU if
# there is one. Needs nothing but bash and dl-run.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

die() {
  echo "bench.sh: $*" >&2
  exit 2
}

if [[ ${1:-} == --help || ${1:-} == -h ]]; then
  sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
  exit 0
fi
(($#)) || die "expected a folder with packages; see --help"
dir=$1
shift
packages=("$dir"/*.dlk)
[[ -f ${packages[0]} ]] || die "expected packages (*.dlk) in '$dir', found none"

dl_run=
for candidate in "$dir/dl-run" "$here/../build/bin/dl-run" "$(command -v dl-run || true)"; do
  if [[ -z $dl_run && -x $candidate && -f $candidate ]]; then dl_run=$candidate; fi
done
[[ -n $dl_run ]] || die "expected dl-run in '$dir', in build/bin or on PATH, found none"

arguments=(--best --verify --markdown "$@")
passes=("")
if [[ " $* " != *" --shape="* && " $* " != *" --kernel="* ]]; then
  passes=("--kernel=128x128 --shape=B=1+8+64+128+256+512,T=1,HQ=32,HV=32"
    "--kernel=64x64 --shape=B=8+64+256,T=1,HQ=32,HV=32"
    "--kernel=96x192 --shape=B=8+64+256,T=1,HQ=32,HV=32")
elif [[ " $* " != *" --shape="* ]]; then
  passes=("--shape=B=1+8+64+128+256+512,T=1,HQ=32,HV=32")
elif [[ " $* " != *" --kernel="* ]]; then
  passes=("--kernel=128x128")
fi
if [[ -f $here/bench-goals.csv ]]; then arguments+=(--goals="$here/bench-goals.csv"); fi

cat <<'END'
# Results

Made by `tools/bench.sh`, not by hand. Medians of repeated measurements, per launch. Every launch
works on other slots of the pool, and together these exceed the L2 cache. *GB/s* counts each state
read and written once and all other arguments once. The *ceiling* is an in-place scale of as many
bytes as the states hold, 16 bytes per thread, measured in the same run; *share* is its time over
the kernel's. *Errors* are the worst relative RMS errors against a token-by-token computation in
fp64, on a small problem with random states and weak, strong and extreme gates; a kernel beyond the
limits (runtime/README.md) is not timed.
END
if [[ " $* " == *" --pdl "* ]]; then
  cat <<'END'

Launches are programmatic dependent ones: a kernel may start while the one before it still runs.
END
fi

# has_kernels PACKAGE --kernel=TEXT...: a pass over what the package does not hold is left out.
has_kernels() {
  [[ ${2:-} != --kernel=* ]] || "$dl_run" info "$1" "$2" >/dev/null 2>&1
}

status=0
for package in "${packages[@]}"; do
  for pass in "${passes[@]}"; do
    # shellcheck disable=SC2086 # words are arguments
    has_kernels "$package" $pass || continue
    echo
    # shellcheck disable=SC2086
    "$dl_run" bench "$package" "${arguments[@]}" $pass || status=1
  done
done
exit $status
