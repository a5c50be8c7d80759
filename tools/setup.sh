#!/usr/bin/env bash
# setup.sh - Install the Debian packages that the build and the tests need.
#
#   bash tools/setup.sh            install what is missing, if anything
#   bash tools/setup.sh --check    install nothing; fail if something is missing
#   bash tools/setup.sh --list     print the packages, one a line
#
# Made for Debian 12, whose security archive has LLVM 22. Installs through apt,
# as root or with sudo, and touches nothing else. Takes no time if all is there.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

packages=(
  # Compiler, linker, build.
  clang-22 lld-22 cmake ninja-build ccache git
  # LLVM and MLIR as libraries, and mlir-tblgen. Their CMake files refer to zstd and zlib.
  libmlir-22-dev mlir-22-tools llvm-22-dev libzstd-dev zlib1g-dev
  # The package format (hashes, manifest) and the command line of dl-run.
  libxxhash-dev nlohmann-json3-dev libcli11-dev
  # Tests: lit and FileCheck, GoogleTest, the sanitizers' run time.
  llvm-22-tools python3 libgtest-dev libclang-rt-22-dev
  # tools/python.sh.
  python3-venv
  # tools/lint.sh.
  clang-format-22 clang-tidy-22
)

mode=install
for argument in "$@"; do
  case $argument in
  --check) mode=check ;;
  --list) mode=list ;;
  -h | --help)
    usage_of "$0"
    exit 0
    ;;
  *) die "expected --check, --list or --help, got '$argument'" ;;
  esac
done

if [[ $mode == list ]]; then
  printf '%s\n' "${packages[@]}"
  exit 0
fi

command -v dpkg-query >/dev/null ||
  die "expected a Debian system (no dpkg-query here); elsewhere install by hand: ${packages[*]}"

# "ii" is installed; dpkg-query fails, and prints nothing, for unknown packages.
installed=$(dpkg-query --show --showformat='${binary:Package} ${db:Status-Abbrev}\n' \
  "${packages[@]}" 2>/dev/null | sed -n 's/^\([^ :]*\)[^ ]* ii *$/\1/p') || true
missing=()
for package in "${packages[@]}"; do
  grep -qxF -- "$package" <<<"$installed" || missing+=("$package")
done

if ((${#missing[@]} == 0)); then
  echo "setup: all ${#packages[@]} packages are installed"
  exit 0
fi
[[ $mode == install ]] || die "missing: ${missing[*]}"
echo "setup: missing: ${missing[*]}"

command -v apt-get >/dev/null || die "expected apt-get to install them with, found none"
as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null ||
    die "expected to be root or to have sudo; as root run: apt-get install ${missing[*]}"
  as_root=(sudo)
fi
apt_get() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" </dev/null
}

apt_get update || die "apt-get update failed: is the network there?"
apt_get install --no-install-recommends "${missing[@]}" ||
  die "apt could not install: ${missing[*]} (LLVM 22 comes from Debian 12's security archive)"
echo "setup: installed ${#missing[@]} packages"
