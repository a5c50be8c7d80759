#!/usr/bin/env bash
# support.sh - What compiles: operators, targets, types, layouts and dims, tried out.
#
#   bash tools/support.sh            write examples/SUPPORT.md
#   bash tools/support.sh --check    write nothing; fail if the page is not what
#                                    would be written
#
# Needs a built dl-compile, takes a minute or two. Does not use ptxas, so that the page is
# the same with and without it: GPU kernels are compiled to PTX, the cpu's to machine
# code. Whether kernels assemble and compute the right thing is for the tests.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

parse_check "$@"
cd "$root"
page=examples/SUPPORT.md
dl_compile=$root/build/bin/dl-compile
[[ -x $dl_compile ]] || die "expected $dl_compile; build first"
export DL_PTXAS=
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

specs=(examples/*.mlir test/specs/*.mlir)
mapfile -t targets < <("$dl_compile" --list-targets)
swept=examples/gdn.mlir

# join WORD...: with commas.
join() {
  local IFS=,
  echo "$*"
}

# sweep: "16x256,20x252,...,256x16": each multiple of 4 once as K and once as V.
sweep() { seq 16 4 256 | awk '{ print $1 "x" 272 - $1 }' | paste -sd ,; }

# compile SPEC ARGUMENT...: leaves the table of kernels in $temporary/table, or messages in
# $temporary/errors.
compile() { "$dl_compile" "$@" -o "$temporary/out.dlk" >"$temporary/table" 2>"$temporary/errors"; }

# reason: why the last one failed, in a line that does not break a table.
reason() {
  sed -n 's/.*error: //p' "$temporary/errors" | head -n 1 | sed 's/|/\\|/g'
}

row() { printf '| %s ' "$@" && printf '|\n'; }
header() {
  row "$@"
  printf '|%.0s---' "$@" && printf '|\n'
}

# step_of SPEC: the class of the step of its state.
step_of() {
  "$dl_compile" "$1" --explain | sed -n 's/^  step of [^:]*: *\([^[]*[^ []\) *\[.*/\1/p' |
    paste -sd ' '
}

notes=()
# note TEXT: sets $mark to "no" and the number of a footnote; the same text has the same number.
note() {
  local i
  for i in "${!notes[@]}"; do
    if [[ ${notes[i]} == "$1" ]]; then break; fi
  done
  if ((${#notes[@]} == 0)) || [[ ${notes[i]} != "$1" ]]; then
    i=${#notes[@]}
    notes+=("$1")
  fi
  mark="no ($((i + 1)))"
}

write_operators() {
  local spec target cells threads
  header operator "step of the state" "${targets[@]}" threads
  for spec in "${specs[@]}"; do
    cells=()
    : >"$temporary/all"
    if compile "$spec" --target="$(join "${targets[@]}")"; then
      cells=("${targets[@]/*/yes}")
      cp "$temporary/table" "$temporary/all"
    else
      for target in "${targets[@]}"; do
        if compile "$spec" --target="$target"; then
          cells+=(yes)
          cat "$temporary/table" >>"$temporary/all"
        else
          note "$(reason)"
          cells+=("$mark")
        fi
      done
    fi
    threads=$(awk '$2 ~ /^sm_/ { print $3 }' "$temporary/all" | sort -nu | paste -sd /)
    row "[$(basename "$spec" .mlir)]($(link "$spec"))" "$(step_of "$spec")" "${cells[@]}" \
      "${threads:--}"
  done
}

# link PATH: as seen from the page.
link() {
  case $1 in
  examples/*) echo "${1#examples/}" ;;
  *) echo "../$1" ;;
  esac
}

io_types=(bf16 f16 f32)
write_types() {
  local spec layout state io cells works
  header operator {kv,vk}' '{f32,bf16,f16}
  for spec in "${specs[@]}"; do
    cells=()
    if compile "$spec" --target=sm_90a --state-layout=kv,vk --state-type=f32,bf16,f16 \
      --io-type="$(join "${io_types[@]}")" --index-type=i32,i64; then
      cells=({1..6})
      cells=("${cells[@]/*/${io_types[*]}}")
    else
      for layout in kv vk; do
        for state in f32 bf16 f16; do
          works=
          for io in "${io_types[@]}"; do
            if compile "$spec" --target=sm_90a --state-layout=$layout --state-type=$state \
              --io-type="$io" --index-type=i32,i64; then
              works+="$io "
            else
              note "$(reason)"
              works+="$io: $mark "
            fi
          done
          cells+=("${works% }")
        done
      done
    fi
    row "$(basename "$spec" .mlir)" "${cells[@]}"
  done
}

write_dims() {
  local spec layout dims refused
  local some=16x16,96x192,256x256
  header operator layout "K x V" "of these compile"
  for layout in kv vk; do
    if compile $swept --target=sm_90a --state-layout=$layout --dims="$(sweep)"; then
      refused=all
    else
      refused="all but"
      for dims in $(sweep | tr , ' '); do
        compile $swept --target=sm_90a --state-layout=$layout --dims="$dims" || {
          note "$(reason)"
          refused+=" $dims ${mark#no }"
        }
      done
    fi
    row "$(basename $swept .mlir)" $layout "16x256, 20x252, 24x248 ... 256x16" "$refused"
  done
  for spec in "${specs[@]}"; do
    if compile "$spec" --target=sm_90a --state-layout=kv,vk --dims=$some; then
      refused=all
    else
      note "$(reason)"
      refused="not all ${mark#no }"
    fi
    row "$(basename "$spec" .mlir)" "kv, vk" "${some//,/, }" "$refused"
  done
}

prefill_sizes=(32 64 96 128 192 256)
write_prefill() {
  local spec cells dims=() size works
  for size in "${prefill_sizes[@]}"; do dims+=("${size}x$size" "${size}x64" "96x$size"); done
  header operator "128 x 128" "kv and vk, states f32, bf16, f16, io bf16, f16, f32" \
    "K and V of $(join "${prefill_sizes[@]}")" "chunks of 16, 32, 64, 128 rows"
  for spec in "${specs[@]}"; do
    cells=()
    try_prefill "$spec" --target=cpu,sm_80,sm_90a
    if [[ ${cells[0]} == yes ]]; then
      try_prefill "$spec" --target=sm_90a --state-layout=kv,vk --state-type=f32,bf16,f16
      if [[ ${cells[-1]} == yes ]]; then
        unset 'cells[-1]'
        try_prefill "$spec" --target=sm_90a --io-type=f16,f32
      fi
      try_prefill "$spec" --target=sm_90a --dims="$(join "${dims[@]}")"
      works=
      for size in 16 32 64 128; do
        try_prefill "$spec" --target=sm_90a --chunk=$size
        works+=" ${cells[-1]/#yes/$size}"
        unset 'cells[-1]'
      done
      cells+=("${works# }")
    else
      cells+=(- - -)
    fi
    row "$(basename "$spec" .mlir)" "${cells[@]}"
  done
}

# try_prefill SPEC ARGUMENT...: adds "yes", or why not, to the cells of write_prefill.
try_prefill() {
  if compile "$@" --kernels=prefill; then
    cells+=(yes)
  else
    note "$(reason)"
    cells+=("$mark")
  fi
}

write_refused() {
  local arguments
  header arguments message
  for arguments in --dims=12x64 --dims=64x18 --dims=260x128 --dims=512x512 --state-type=f64 \
    --io-type=f64 --index-type=i16 --state-layout=kk --type=S=bf16 --type=q=i32 --target=sm_75 \
    --kernels=fill; do
    if compile $swept "$arguments"; then
      die "$arguments: expected an error, got a package"
    fi
    row "\`$arguments\`" "\`$(reason)\`"
  done
}

write_page() {
  cat <<'END'
<!-- Generated by tools/support.sh: change that, or what it tries, then run it. -->

# What compiles

Each line was tried with `dl-compile`: GPU kernels down to PTX, those of the `cpu` target down to
machine code. What has also been run and compared with fp64, and where, the [README](../README.md)
says. The kind of kernel is `decode` but where another one is named.

## Operators and targets

With the default options: 128 x 128, layout `kv`, states in f32, inputs and outputs in bf16. *Threads*
of a block on a GPU; with ptxas at hand the compiler may choose others that need fewer registers.

END
  write_operators
  cat <<'END'

## State layouts and types

For sm_90a, 128 x 128, with slot numbers in i32 and in i64. Columns: layout and type of the states.
Cells: `--io-type`. `--type NAME=TYPE` changes one input, output or per-head parameter more.

END
  write_types
  cat <<'END'

## Dims

K and V are any multiples of 4 from 16 to 256, equal or not.

END
  write_dims
  cat <<'END'

## Prefill

`--kernels=prefill`: chunks of tokens by matrix products, K a multiple of 16 from 16 to 256, V a
multiple of 4 from 4 to 256. Where an operator has none, its decode kernel takes any number of tokens.

END
  write_prefill
  cat <<'END'

## What is refused

With the message, after `dl-compile: error:`; for `examples/gdn.mlir`, and nothing is written.

END
  write_refused
  if ((${#notes[@]})); then
    printf '\n## Reasons\n\n'
    local i
    for i in "${!notes[@]}"; do echo "$((i + 1)). \`${notes[i]}\`"; done
  fi
}

write_page >"$temporary/page" || die "$page could not be generated"
if cmp -s "$temporary/page" $page; then
  echo "support: $page is up to date"
elif ((check)); then
  diff -u $page "$temporary/page" | sed -n '3,20p' || true
  die "$page is stale; run 'bash tools/support.sh' and commit what it writes"
else
  cat "$temporary/page" >$page
  echo "support: wrote $page"
fi
