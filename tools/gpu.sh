#!/usr/bin/env bash
# Verifies and times packages on a machine with a GPU that has no compiler of ours: needs only dl-run and the packages.
#   tools/gpu.sh verify|bench DIR [dl-run arguments]     DIR holds dl-run and *.dlk
set -euo pipefail
if [[ ${1:-} == --help || $# -lt 2 ]]; then
  sed -n '2,3s/^# \{0,1\}//p' "$0"
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
