#!/usr/bin/env bash
# gpu.sh - Takes kernels to a machine that has a GPU but no compiler, and checks them there.
#
#   tools/gpu.sh pack [DIR] [--target=LIST] [--dims=LIST] [--variants | --schedules]
#       On the machine that built the project: compiles the examples' kernels into DIR
#       (default build/gpu) and copies there what the other commands need. --variants: only what
#       tools/bench --work=variants needs, decode and prefill of the examples that it times.
#       --schedules: only prefills, each by several schedules, for the command of that name.
#   tools/gpu.sh all DIR [--device=cuda:0] [--out=DIR]
#       Verifies all kernels, runs the tests and the examples, looks for memory errors and
#       races with compute-sanitizer where there is one, and times decode by tools/bench, beside
#       the libraries that python3 can import. One line per step; logs,
#       JSON and RESULTS.md go to --out (default: DIR/out). Timing needs a python3 with torch.
#       --device=cpu tries the script where there is no GPU, with kernels packed by --target=cpu.
#   tools/gpu.sh schedules DIR [--device=cuda:0]
#       Verifies each schedule of each prefill and times it at the shapes of the goals.
#   tools/gpu.sh verify|bench DIR [dl-run arguments]
#       Only that, for every package in DIR and one level below.
#
# DIR holds all that is needed, this script included: bash DIR/gpu.sh all DIR
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
operators=(gdn kda rwkv6)
# Of prefills: name, then dl-compile's arguments.
schedules=(
  "mma "
  "wgmma --schedule=prefill:chunkwise,products=wgmma"
  "mma-c64 --chunk=64"
  "wgmma-c64 --chunk=64 --schedule=prefill:chunkwise,products=wgmma"
)
variants=(deltanet gla retnet mamba2 rwkv7 gated_deltaproduct gdn2 comba hgrn2 two_key_delta)

usage() { sed -n '2,20s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }
die() {
  echo "gpu.sh: $*" >&2
  exit 2
}

#===------------------------------------------------------------------------===
# pack
#===------------------------------------------------------------------------===

# copy_test NAME GLOB: a test program and its packages, if they are built.
copy_test() {
  local program=$root/build/bin/$1 packages
  # shellcheck disable=SC2206 # the pattern shall expand
  packages=("$root"/build/test/Integration/$2)
  [[ -x $program && -f ${packages[0]} ]] || return 0
  mkdir -p "$dir/tests/$1"
  cp "$program" "$dir/"
  cp "${packages[@]}" "$dir/tests/$1/"
  echo "packed $1 with ${#packages[@]} packages"
}

# compile_to PACKAGE SPEC ARGUMENTS...
compile_to() {
  "$root/build/bin/dl-compile" "$root/examples/$2.mlir" -o "$1" "${@:3}" 2>"$dir/compile.log" >&2 || {
    cat "$dir/compile.log" >&2
    die "pack: $2.mlir does not compile into ${1#"$dir"/}"
  }
}

# The benchmark, and the package linattn as its wheel has it: with its specs and its library.
copy_python() {
  rm -rf "$dir/compile.log" "$dir/bench" "$dir/python"
  cp -r "$here/bench" "$dir/"
  rm -rf "$dir"/bench/{tests,.*_cache}
  mkdir -p "$dir/python"
  cp -r "$root/runtime/python/linattn" "$dir/python/"
  cp "$root"/examples/*.mlir "$dir/python/linattn/specs/"
  cp "$root/build/runtime/libdlk.so.0" "$dir/python/linattn/libdlk.so"
}

pack_variants() {
  local operator
  mkdir -p "$dir/variants"
  for operator in "${variants[@]}"; do
    echo "compiling $operator"
    compile_to "$dir/variants/$operator.dlk" "$operator" --kernels=decode,prefill \
      --state-layout=kv,vk --dims="${dims%%,*}" --target="$targets"
  done
  copy_python
  echo "packed into $dir: $(du -sh "$dir" | cut -f 1)"
}

# A schedule that an operator's registers or shared memory do not allow is left out.
pack_schedules() {
  local operator schedule name options=()
  mkdir -p "$dir/schedules"
  cp "$root/build/bin/dl-run" "$here/gpu.sh" "$dir/"
  for operator in gdn kda kda-bounded rwkv6 retnet mamba2; do
    for schedule in "${schedules[@]}"; do
      read -r name schedule <<<"$schedule"
      read -ra options <<<"$schedule"
      [[ $operator != *-bounded ]] || options+=(--set gate=bounded)
      "$root/build/bin/dl-compile" "$root/examples/${operator%-*}.mlir" --kernels=prefill \
        --state-layout=vk --dims="${dims%%,*}" --target="$targets" "${options[@]}" \
        -o "$dir/schedules/$operator-$name.dlk" 2>"$dir/compile.log" >&2 ||
        echo "left out $operator-$name: $(grep -m 1 error "$dir/compile.log")"
    done
  done
  rm -f "$dir/compile.log"
  echo "packed into $dir: $(du -sh "$dir" | cut -f 1)"
}

pack() {
  local root argument operator targets='' only=''
  local dims=128x128,64x64,96x192,192x96,256x128,128x64
  root=$(cd "$here/.." && pwd)
  dir=$root/build/gpu
  for argument in "$@"; do
    case $argument in
    --target=*) targets=${argument#*=} ;;
    --dims=*) dims=${argument#*=} ;;
    --variants | --schedules) only=${argument#--} ;;
    -*) die "pack: expected --target=LIST, --dims=LIST, --variants or --schedules, got '$argument'" ;;
    *) dir=$argument ;;
    esac
  done
  [[ -x $root/build/bin/dl-compile && -x $root/build/bin/dl-run ]] ||
    die "pack: expected dl-compile and dl-run in $root/build/bin; build first"
  # wgmma is sm_90a's alone.
  [[ $targets ]] || { [[ $only == schedules ]] && targets=sm_90a || targets=sm_80,sm_90a; }
  mkdir -p "$dir"
  if [[ $only ]]; then
    pack_"$only"
    return
  fi
  for operator in "${operators[@]}"; do
    echo "compiling $operator"
    compile_to "$dir/$operator.dlk" "$operator" --state-layout=kv,vk --state-type=f32,bf16 \
      --dims="$dims" --target="$targets"
  done
  # What tools/bench compares with libraries that are given log decays and betas.
  mkdir -p "$dir/given"
  for operator in gdn kda; do
    compile_to "$dir/given/$operator.dlk" "$operator" --state-layout=kv,vk --dims="${dims%%,*}" \
      --target="$targets" --set gate=precomputed --set beta=value --type=beta=f32
  done
  rm -rf "$dir/tests"
  cp "$root/build/bin/dl-run" "$here/gpu.sh" "$dir/"
  copy_python
  if [[ -x $root/build/examples/decode && -x $root/build/examples/decode_cpp ]]; then
    cp "$root"/build/examples/decode{,_cpp} "$root"/build/runtime/libdlk.so.0 "$dir/"
  fi
  copy_test tile_mma_test '*mma*.dlk'
  copy_test tile_gram_test 'gram.dlk'
  copy_test tile_rows_test 'tile_rows.dlk'
  copy_test tile_scan_test 'tile_scan/*.dlk'
  copy_test tile_copy_test 'tile_copy.dlk'
  copy_test decode_test 'decode/*.dlk'
  copy_test prefill_test 'prefill/*.dlk'
  copy_test log_plan_test 'log_plan/*.dlk'
  copy_test log_test 'log/*.dlk'
  echo "packed into $dir: $(du -sh "$dir" | cut -f 1)"
}

#===------------------------------------------------------------------------===
# Steps of all
#===------------------------------------------------------------------------===

# step NAME COMMAND...: runs it with its output in a log and says how it went.
step() {
  local name=$1 start=$SECONDS word=ok
  shift
  "$@" >"$out/$name.log" 2>&1 || word=FAIL
  [[ $word == ok ]] || failed=1
  printf '%-4s  %-14s %4d s  %s\n' "$word" "$name" $((SECONDS - start)) "$name.log"
}

skip() { printf '%-4s  %-14s %6s  %s\n' skip "$1" "" "$2"; }

# at_once LABEL COMMAND...: starts a command; finish_all waits for these and prints what they said.
labels=() pids=() parts=()
at_once() {
  local part
  part=$(mktemp)
  labels+=("$1")
  parts+=("$part")
  shift
  "$@" >"$part" 2>&1 &
  pids+=($!)
}
finish_all() {
  local i status=0 result
  for i in "${!pids[@]}"; do
    result=ok
    wait "${pids[i]}" || result=FAIL status=1
    echo "== ${labels[i]}: $result"
    cat "${parts[i]}"
    rm -f "${parts[i]}"
  done
  labels=() pids=() parts=()
  return $status
}

verify_all() {
  local package layout
  for package in "$dir"/*.dlk; do
    for layout in kv vk; do
      at_once "${package##*/} $layout" \
        "$dir/dl-run" verify "$package" --device="$device" --kernel=".$layout."
    done
  done
  finish_all
}

# run_test NAME PACKAGES...: the packages, or the folder that holds them.
run_test() {
  DL_TEST_DEVICE=$device "$dir/$1" "${@:2}"
}

# The C example launches on a stream and from a captured graph, and compares the two; the one in
# C++ decodes windows of drafts from one graph.
run_examples() {
  local package status=0
  for package in "$dir"/*.dlk; do
    LD_LIBRARY_PATH=$dir "$dir/decode" "$package" "$device" || status=1
  done
  LD_LIBRARY_PATH=$dir "$dir/decode_cpp" "$dir/gdn.dlk" "$device" || status=1
  return $status
}

find_sanitizer() {
  local candidate
  for candidate in "$(command -v compute-sanitizer || true)" \
    /usr/local/cuda/{bin,compute-sanitizer}/compute-sanitizer; do
    if [[ -x $candidate ]]; then
      echo "$candidate"
      return
    fi
  done
}

# All four tools on small problems, with dimensions that fit the tiles and that do not, and on the
# small tests of rows and slots.
run_sanitizer() {
  local sanitizer=$1 tool package dims status=0
  for tool in memcheck racecheck initcheck synccheck; do
    for package in "$dir"/*.dlk; do
      for dims in 128x128 96x192; do
        at_once "$tool ${package##*/} $dims" \
          "$sanitizer" --tool "$tool" --error-exitcode 9 --print-limit 20 \
          "$dir/dl-run" verify "$package" --device="$device" --kernel=".$dims." \
          --shape=B=2,T=2,HQ=1,HV=2 --gates=strong
      done
    done
    if [[ -x $dir/decode_test ]]; then
      at_once "$tool decode_test" env DL_TEST_DEVICE="$device" \
        "$sanitizer" --tool "$tool" --error-exitcode 9 --print-limit 20 \
        "$dir/decode_test" "$dir/tests/decode_test" \
        --gtest_filter='*R013R017:*R018:*R032:*R058:*R060:*R061:*R033:*R038:*R102'
    fi
    if [[ -x $dir/prefill_test ]]; then
      at_once "$tool prefill_test" env DL_TEST_DEVICE="$device" \
        "$sanitizer" --tool "$tool" --error-exitcode 9 --print-limit 20 \
        "$dir/prefill_test" "$dir/tests/prefill_test" \
        --gtest_filter='*R013R017R075:*R018:*R019:*R033R034:*R038:*R039'
    fi
    if [[ -x $dir/log_test ]]; then
      at_once "$tool log_test" env DL_TEST_DEVICE="$device" \
        "$sanitizer" --tool "$tool" --error-exitcode 9 --print-limit 20 \
        "$dir/log_test" "$dir/tests/log_test" --gtest_filter='*AllKindsAtOnce:*R058:*R061:*R068:*RowsWithoutTokens'
    fi
    if [[ -x $dir/log_plan_test ]]; then
      at_once "$tool log_plan_test" env DL_TEST_DEVICE="$device" \
        "$sanitizer" --tool "$tool" --error-exitcode 9 --print-limit 20 \
        "$dir/log_plan_test" "$dir/tests/log_plan_test" --gtest_filter='*R065:*R068:*Garbage*'
    fi
    finish_all || status=1
  done
  return $status
}

# Times the kernels of the packages beside other libraries.
time_decode() {
  local size=()
  [[ $device != cpu ]] || size=("--batch=1,2" "--heads=2")
  PYTHONPATH=$dir/python${PYTHONPATH:+:$PYTHONPATH} LINATTN_PACKAGES=$dir:$dir/given \
    python3 "$here/bench" --work=decode --device="$device" --out="$out" "${size[@]}"
}

run_all() {
  local argument program sanitizer
  device=cuda:0 out=$dir/out failed=0
  for argument in "$@"; do
    case $argument in
    --device=*) device=${argument#*=} ;;
    --out=*) out=${argument#*=} ;;
    *) die "all: expected --device= or --out=, got '$argument'" ;;
    esac
  done
  mkdir -p "$out"
  step verify verify_all
  for program in tile_mma_test tile_gram_test tile_rows_test tile_scan_test tile_copy_test; do
    if [[ -x $dir/$program ]]; then
      step "$program" run_test "$program" "$dir/tests/$program"/*.dlk
    else
      skip "$program" "not packed"
    fi
  done
  for program in decode_test prefill_test log_plan_test log_test; do
    if [[ -x $dir/$program ]]; then
      step "$program" run_test "$program" "$dir/tests/$program"
    else
      skip "$program" "not packed"
    fi
  done
  if [[ -x $dir/decode ]]; then step examples run_examples; else skip examples "not packed"; fi
  sanitizer=$(find_sanitizer)
  if [[ $device == cpu ]]; then
    skip sanitizer "for GPUs"
  elif [[ -n $sanitizer ]]; then
    step sanitizer run_sanitizer "$sanitizer"
  else
    skip sanitizer "no compute-sanitizer on this machine"
  fi
  if python3 -c 'import torch' 2>/dev/null; then
    step bench time_decode
    step page python3 "$here/bench" --render "$out"/decode*.json --out="$out/RESULTS.md"
  else
    skip bench "no python3 with torch"
  fi
  echo "logs and RESULTS.md in $out, after $SECONDS s"
  return "$failed"
}

# Errors first: a fast wrong kernel is none.
run_schedules() {
  local package shape status=0 shapes=("B=1,T=8192,HQ=32,HV=32" "B=1,T=8192,HQ=64,HV=64" "B=8,T=1024,HQ=64,HV=64")
  [[ $device != cpu ]] || shapes=("B=1,T=64,HQ=1,HV=1")
  for package in "$dir"/schedules/*.dlk; do
    # The kernel that prepares another one is verified with it.
    at_once "${package##*/}" "$dir/dl-run" verify "$package" --device="$device"
  done
  finish_all || status=1
  for package in "$dir"/schedules/*.dlk; do
    for shape in "${shapes[@]}"; do
      "$dir/dl-run" bench "$package" --device="$device" --shape="$shape" |
        awk -v name="${package##*/}" '/[.]prefill[.]/ && !/[.]prepare / { sub(/^[^ ]* */, ""); print name, $0 }'
    done
  done
  return $status
}

run_dl_run() {
  local command=$1 package status=0 default=()
  shift
  [[ " $* " == *" --device="* ]] || default=(--device=cuda:0)
  for package in "$dir"/*.dlk "$dir"/*/*.dlk; do
    [[ -f $package ]] || continue
    echo "== ${package#"$dir"/}"
    "$dir"/dl-run "$command" "$package" "${default[@]}" "$@" || status=1
  done
  return $status
}

command=${1:-}
case $command in
-h | --help) usage ;;
pack)
  shift
  pack "$@"
  ;;
all | schedules | verify | bench)
  (($# > 1)) || die "$command: expected a folder made by 'gpu.sh pack'; see --help"
  dir=$2
  shift 2
  [[ -x $dir/dl-run ]] || die "expected dl-run in '$dir'; 'gpu.sh pack' puts it there"
  case $command in
  all) run_all "$@" ;;
  schedules)
    device=${1:-cuda:0}
    device=${device#--device=}
    run_schedules
    ;;
  *) run_dl_run "$command" "$@" ;;
  esac
  ;;
*) die "expected pack, all, schedules, verify or bench, got '$command'; see --help" ;;
esac
