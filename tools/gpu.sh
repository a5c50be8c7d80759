#!/usr/bin/env bash
# gpu.sh - Verifies or times packages on a machine with a GPU but without the compiler.
#
#   tools/gpu.sh verify|bench DIR [dl-run arguments]    DIR holds dl-run and *.dlk
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

set -euo pipefail
if [[ ${1:-} == --help || $# -lt 2 ]]; then
  sed -n '2,4s/^# \{0,1\}//p' "$0"
  exit $(( $# < 2 ))
fi
command=$1 dir=$2
shift 2
status=0
for package in "$dir"/*.dlk "$dir"/*/*.dlk; do
  [[ -f $package ]] || continue
  echo "== ${package#"$dir"/}"
  "$dir"/dl-run "$command" "$package" --device=cuda:0 "$@" || status=1
done
exit $status
