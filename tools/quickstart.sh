#!/usr/bin/env bash
# quickstart.sh - From a fresh checkout to verified kernels.
#
#   bash tools/quickstart.sh               set up, build, compile the three example
#                                          operators, run and verify their kernels
#   bash tools/quickstart.sh --no-setup    do not look at installed packages
#   bash tools/quickstart.sh --no-build    use build/ as it is
#
# Verifies on the CPU, and on the first NVIDIA GPU if there is one. The packages
# stay in build/packages/. The table at the end is what dl-run measured.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

setup=1 build=1
for argument in "$@"; do
  case $argument in
  --no-setup) setup=0 ;;
  --no-build) setup=0 build=0 ;;
  -h | --help)
    usage_of "$0"
    exit 0
    ;;
  *) die "expected --no-setup, --no-build or --help, got '$argument'" ;;
  esac
done
operators=(gdn kda rwkv6)
bin=$root/build/bin
packages=$root/build/packages
SECONDS=0

# The driver library alone is no GPU: ask it for one.
has_gpu() {
  if command -v nvidia-smi >/dev/null; then
    nvidia-smi -L 2>/dev/null | grep -q '^GPU '
  else
    [[ -e /dev/nvidia0 ]] && ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'
  fi
}

if ((setup)); then
  step "1/4 Set-up"
  bash "$root/tools/setup.sh"
fi
if ((build)); then
  step "2/4 Build (a few minutes the first time)"
  build_preset default || die "the build failed"
fi
for tool in dl-compile dl-run; do
  [[ -x $bin/$tool ]] || die "expected $bin/$tool; run without --no-build"
done

step "3/4 Compile: one package of kernels per operator"
mkdir -p "$packages"
for operator in "${operators[@]}"; do
  echo "dl-compile examples/$operator.mlir"
  "$bin/dl-compile" "$root/examples/$operator.mlir" -o "$packages/$operator.dlk"
done

devices=(cpu)
if has_gpu; then devices+=(cuda:0); fi
step "4/4 Verify: every kernel against a token-by-token computation in fp64 (${devices[*]})"
results=$packages/results
rm -rf "$results"
mkdir -p "$results"
verified=1
for operator in "${operators[@]}"; do
  for device in "${devices[@]}"; do
    echo "dl-run verify build/packages/$operator.dlk --device=$device"
    "$bin/dl-run" verify "$packages/$operator.dlk" --device="$device" --json \
      >"$results/$operator.$device.json" || verified=0
  done
done

# One line per kernel, worst case over all shapes and gates. A file without JSON
# belongs to a run that could not start: dl-run has said why.
step "Kernels against fp64: worst relative errors"
python3 - "$results"/*.json <<'PYTHON'
import json
import sys

header = ("operator", "kernel", "ran on", "cases", "output error", "state error", "allowed", "result")
rows = [header]
for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if not text.strip():
        continue
    run = json.loads(text)
    place = run.get("device_name", run["device"])
    for kernel in run["kernels"]:
        cases = kernel["cases"]

        def worst(key):
            errors = [case[key] for case in cases]
            if not errors or None in errors:
                return "-"
            return f"{max(errors):.1e}"

        allowed = f"{kernel['output_limit']:.0e} / {kernel['state_limit']:.0e}"
        name = kernel["name"].removeprefix(run["operator"] + ".")
        rows.append((run["operator"], name, place, str(len(cases)), worst("output_error"),
                     worst("state_error"), allowed, kernel["result"]))
widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
for row in rows:
    print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
PYTHON

((verified)) || die "not every kernel was verified: see above; 'build/bin/dl-run verify PACKAGE' says more"
cat <<END

All kernels agree with fp64. Done in $SECONDS s. The packages are in build/packages/.
Next: examples/README.md, an operator of your own in ten minutes; or build/bin/dl-run info build/packages/gdn.dlk.
END
