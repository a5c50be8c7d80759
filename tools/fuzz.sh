#!/usr/bin/env bash
# fuzz.sh - Feed damaged packages to the runtime and damaged specs to the compiler.
#
#   bash tools/fuzz.sh                   build, then both fuzzers side by side for 20 s
#   bash tools/fuzz.sh package           one of them: package or spec
#   bash tools/fuzz.sh --seconds=600 spec
#
# Built with ASan, UBSan and assertions in build-fuzz/ (the first time 1.5 minutes on
# two cores). First the inputs of test/Fuzz/regressions/ are run, then new ones are
# made from examples/, test/ and, in runs of a minute or more, from what such runs
# found worth keeping, which stays in build-fuzz/corpus/. On a finding the exit
# status is 1 and the input stays in build-fuzz/findings/: fix it, and move it to
# test/Fuzz/regressions/.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

seconds=20 fuzzers=()
for argument in "$@"; do
  case $argument in
  --seconds=*) seconds=${argument#*=} ;;
  package | spec) fuzzers+=("$argument") ;;
  -h | --help)
    usage_of "$0"
    exit 0
    ;;
  *) die "expected --seconds=N, package, spec or --help, got '$argument'" ;;
  esac
done
[[ $seconds =~ ^[1-9][0-9]*$ ]] || die "--seconds: expected a positive number, got '$seconds'"
((${#fuzzers[@]})) || fuzzers=(package spec)

build_preset fuzz "${fuzzers[@]/%/_fuzzer}" || die "the build failed"
cd "$root"
build="build-fuzz"
mkdir -p $build/{corpus,seeds,findings}/{package,spec}

# seeds_of FUZZER: prints the inputs it starts from, one a line.
seeds_of() {
  local file name
  rm -f $build/seeds/"$1"/*
  if [[ $1 == package ]]; then
    $build/bin/dl-write-fuzz-seeds $build/seeds/package
  else
    # Tests hold several specs in a file.
    for file in test/{Dialect,Transforms,Conversion}/{,*/}*.mlir; do
      [[ -f $file ]] || continue
      name=${file#test/}
      awk -v name="$build/seeds/spec/${name//\//-}" \
        '/^\/\/ -----/ { ++part; next } { print > (name "." part + 0) }' "$file"
    done
    printf '%s\n' examples/*.mlir test/specs/*.mlir test/Fuzz/generic/*.mlir
  fi
  printf '%s\n' $build/seeds/"$1"/*
}

# fuzz FUZZER: the regressions, then new inputs; says where a finding lies.
fuzz() {
  local name=$1 log=$build/$1.log list=$build/$1.seeds finding
  local options=(-timeout=20 -rss_limit_mb=4096 -artifact_prefix="$build/findings/$name/")
  local regressions more=() corpus=$build/corpus/$1
  # A short run would only read what is kept: it starts from the seeds alone.
  if ((seconds < 60)); then
    corpus=$build/corpus/$name.short
    rm -rf "$corpus"
    mkdir "$corpus"
  fi
  mapfile -t regressions < <(find "test/Fuzz/regressions/$name" -type f | sort)
  [[ $name != spec ]] || more=(-dict=test/Fuzz/spec.dict)
  seeds_of "$name" | paste -sd, >"$list"
  # Longer inputs than the longest seed find nothing more and are slow.
  if $build/bin/"$name"_fuzzer "${options[@]}" -runs=1 "${regressions[@]}" >"$log" 2>&1 &&
    $build/bin/"$name"_fuzzer "${options[@]}" "${more[@]}" -max_total_time="$seconds" \
      -max_len=16384 -seed_inputs=@"$list" "$corpus" >"$log" 2>&1; then
    echo "$name: $(sed -n 's/^Done \([0-9]* runs\).*/\1/p' "$log"), no finding"
    return
  fi
  tail -n 60 "$log"
  # A regression that fails again is its own reproducer.
  finding=$(sed -n "s/^.*Test unit written to //p" "$log" | tail -n 1)
  [[ -n $finding ]] || finding=$(sed -n 's/^Running: //p' "$log" | tail -n 1)
  echo "$name: FINDING; again: $build/bin/${name}_fuzzer ${finding:-(see $log)}"
  return 1
}

jobs=()
for name in "${fuzzers[@]}"; do
  fuzz "$name" &
  jobs+=($!)
done
failures=0
for job in "${jobs[@]}"; do
  wait "$job" || failures=$((failures + 1))
done
((failures == 0)) || exit 1
