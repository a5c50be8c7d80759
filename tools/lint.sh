#!/usr/bin/env bash
# lint.sh - Formatting, licence headers, house rules; clang-tidy when asked.
#
#   bash tools/lint.sh               everything but clang-tidy, in seconds
#   bash tools/lint.sh --fix         reformat, and repair white space, in place
#   bash tools/lint.sh --tidy        clang-tidy too, on the files that differ from
#                                    the parent of the last commit (about 20 s each;
#                                    needs a configured and built build/)
#   bash tools/lint.sh --tidy --all  clang-tidy too, on all files
#   --only-tidy                      nothing but clang-tidy
#   --at-most=N                      no clang-tidy if more than N files are due
#
# Looks at tracked files and at new ones that git does not ignore.
#
# Part of the dl project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

set -euo pipefail
# shellcheck source-path=SCRIPTDIR source=common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

fix=0 rules=1 tidy=0 all=0 at_most=
for argument in "$@"; do
  case $argument in
  --fix) fix=1 ;;
  --tidy) tidy=1 ;;
  --only-tidy) tidy=1 rules=0 ;;
  --all) all=1 ;;
  --at-most=*) at_most=${argument#*=} ;;
  -h | --help)
    usage_of "$0"
    exit 0
    ;;
  *) die "expected --fix, --tidy, --only-tidy, --all, --at-most=N or --help, got '$argument'" ;;
  esac
done
[[ -z $at_most || $at_most =~ ^[0-9]+$ ]] || die "--at-most: expected a number, got '$at_most'"
cd "$root"

jobs=$(nproc)
failures=0
fail() {
  printf 'lint: %s\n' "$1"
  failures=$((failures + 1))
}

# files GLOB...: existing project files whose path matches one of the globs.
in_git() { git rev-parse --is-inside-work-tree >/dev/null 2>&1; }
files() {
  local file
  if in_git; then
    git ls-files --cached --others --exclude-standard -- "$@"
  else
    local glob names=()
    for glob in "$@"; do names+=(-o -name "$glob"); done
    find . -path './build*' -prune -o -type f \( "${names[@]:1}" \) -printf '%P\n'
  fi | sort -u | while IFS= read -r file; do
    if [[ -f $file ]]; then printf '%s\n' "$file"; fi
  done
}

# report MESSAGE LINES: fails with the lines, if there are any.
report() {
  if [[ -n $2 ]]; then
    printf '%s\n' "$2"
    fail "$1"
  fi
}

# search OPTION... PATTERN: greps all text files; no match is no error.
search() { grep -nI "$@" "${text[@]}" /dev/null || true; }

check_format() {
  command -v clang-format-22 >/dev/null ||
    die "expected clang-format-22; run 'bash tools/setup.sh'"
  if ((fix)); then
    clang-format-22 -i "${cxx[@]}"
  else
    report "not formatted; run 'bash tools/lint.sh --fix'" \
      "$(clang-format-22 --dry-run --ferror-limit=1 "${cxx[@]}" 2>&1 |
        sed -nE 's/^([^ ]+:[0-9]+):[0-9]+: (warning|error):.*/\1: not as clang-format has it/p')"
  fi
}

# The first line names the file, and the licence follows close behind.
licence='SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception'
find_bad_headers() {
  local file
  for file in "${cxx[@]}" "${tablegen[@]}"; do
    [[ $(head -n 1 "$file") =~ ^(//|/\*)===-\ ${file##*/}\ .*===(//|\*/|\*|\*\\)$ ]] ||
      echo "$file:1: expected '//===- ${file##*/} - What it is ---===//'"
    head -n 8 "$file" | grep -qF "$licence" || echo "$file:1: expected the licence header"
  done
  for file in "${scripts[@]}"; do
    head -n 30 "$file" | grep -qF "$licence" || echo "$file:1: expected the licence header"
  done
}

find_open_ends() {
  local file
  for file in "${text[@]}"; do
    if [[ -s $file && -n $(tail -c 1 "$file") ]]; then
      if ((fix)); then echo >>"$file"; else echo "$file: no newline at the end"; fi
    fi
  done
}

find_long_files() {
  local file lines
  for file in "${cxx[@]}" "${tablegen[@]}" "${scripts[@]}"; do
    lines=$(wc -l <"$file")
    if ((lines > 600)); then echo "$file: $lines lines"; fi
  done
}

# A compiler that knows an operator by its name is a defect: whatever a pass needs
# to know it reads from the operator's region. Comments may name operators.
find_operator_names() {
  local file operators='gdn|kda|rwkv[0-9]*|mamba[0-9]*|deltanet|retnet|gla'
  for file in "${cxx[@]}"; do
    case $file in
    compiler/* | passes/* | dialects/* | runtime/*)
      sed 's,//.*,,' "$file" | grep -niE "\b($operators)" | sed "s,^,$file:," || true
      ;;
    esac
  done
}

check_rules() {
  report "headers" "$(find_bad_headers)"
  if ((fix)); then sed -i 's/[[:blank:]]*$//' "${text[@]}"; fi
  report "trailing white space" "$(search -E '[[:blank:]]+$')"
  report "files end in a newline" "$(find_open_ends)"
  report "files have at most 600 lines" "$(find_long_files)"
  # The text speaks of the project alone: no machine's folders, no unfinished
  # marks. (The patterns are split so that they do not find themselves.)
  report "paths of one machine" \
    "$(search -E '(^|[^[:alnum:]_.])/(wor''k|roo''t|hom''e|User''s|tm''p)/')"
  report "unfinished marks" "$(search -wE 'TO''DO|FIX''ME|XX''X')"
  report "operator names in code that must not know operators" "$(find_operator_names)"
}

# Files whose commands are known and that are due.
tidy_files() {
  local changed
  if ((all)) || ! in_git; then
    changed=$(files '*.cpp')
  else
    changed=$({
      git diff --name-only --diff-filter=d HEAD~ -- '*.cpp' 2>/dev/null ||
        git ls-files -- '*.cpp'
      git ls-files --others --exclude-standard -- '*.cpp'
    } | sort -u)
  fi
  while IFS= read -r file; do
    if [[ -n $file ]] && grep -qF "\"$root/$file\"" build/compile_commands.json; then
      printf '%s\n' "$file"
    fi
  done <<<"$changed"
}

check_tidy() {
  command -v clang-tidy-22 >/dev/null || die "expected clang-tidy-22; run 'bash tools/setup.sh'"
  [[ -f build/compile_commands.json ]] ||
    die "expected build/compile_commands.json; run 'cmake --preset default' and build"
  local due
  mapfile -t due < <(tidy_files)
  if [[ -n $at_most ]] && ((${#due[@]} > at_most)); then
    echo "clang-tidy: skipped, ${#due[@]} files changed, more than $at_most;" \
      "run 'bash tools/lint.sh --tidy'"
    return
  fi
  echo "clang-tidy: ${#due[@]} files"
  ((${#due[@]})) || return 0
  printf '%s\0' "${due[@]}" |
    xargs -0 -r -P "$jobs" -n 1 clang-tidy-22 --quiet --warnings-as-errors='*' -p build ||
    fail "clang-tidy"
}

if ((rules)); then
  mapfile -t cxx < <(files '*.cpp' '*.hpp' '*.h' '*.c')
  mapfile -t tablegen < <(files '*.td')
  mapfile -t scripts < <(files '*.sh' '*.py' | grep -v 'lit\.cfg\.py$')
  mapfile -t text < <(files '*.cpp' '*.hpp' '*.h' '*.c' '*.td' '*.mlir' '*.sh' '*.py' '*.cmake' '*.txt' \
    '*.json' '*.md' '*.toml' '*.in' '*/run')
  check_format
  check_rules
fi
if ((tidy)); then
  check_tidy
fi

((failures == 0)) || exit 1
if ((rules)); then
  echo "lint: ${#text[@]} files are clean"
fi
