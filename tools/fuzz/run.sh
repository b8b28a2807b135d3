#!/usr/bin/env bash
# run.sh FUZZ_TIME: runs each fuzz target of each module, FUZZ_TIME in total, such as 10m, or for a number of inputs each, such as
# 1000x: on a slow machine that takes longer, where a short time would end before the first input.
#
# A failing input is written below the testdata/fuzz of its package. Commit it with the repair: from then on,
# `go test` runs it.
set -euo pipefail
cd "$(dirname "$0")/../.."

inputs='' total=0
case $1 in
  *m) total=$((${1%m} * 60)) ;;
  *s) total=${1%s} ;;
  *x) inputs=$1 ;;
  *) echo "fuzz: FUZZ_TIME=$1: want minutes, seconds or inputs, such as 10m, 90s or 1000x" >&2; exit 2 ;;
esac

targets=()
while IFS=: read -r file name; do
  targets+=("$(dirname "$file") $name")
done < <(git ls-files -co --exclude-standard '*_test.go' |
  xargs -d '\n' grep -HoP '^func \KFuzz\w+(?=\(\w+ \*testing\.F\))' | sort -u)
each=$inputs
if [[ -z $each ]]; then each=$((total / ${#targets[@]} + 1))s; fi
echo "fuzz: ${#targets[@]} targets, $each each"

# Until Go 1.27, a worker that is busy at the end of -fuzztime can fail a target without any failing input
# (https://go.dev/issue/75804). Such a target runs again: an input that fails is always written to a file.
output=$(mktemp)
trap 'rm -f "$output"' EXIT
fuzz() {
  for _ in 1 2 3; do
    (cd "$1" && "${GO:-go}" test -run='^$' -fuzz="^$2\$" -fuzztime="$each" .) 2>&1 | tee "$output" && return
    grep -qx '    context deadline exceeded' "$output" || return 1
    ! grep -q 'Failing input written to' "$output" || return 1
    echo "fuzz: $2 ended at its time without a failing input, so it runs again"
  done
  return 1
}

failed=()
for target in "${targets[@]}"; do
  read -r folder name <<<"$target"
  echo "==> $folder $name"
  fuzz "$folder" "$name" || failed+=("$folder $name")
done
if ((${#failed[@]} > 0)); then
  echo "fuzz: failed:"
  for target in "${failed[@]}"; do
    read -r folder name <<<"$target"
    echo "  $name: inputs in $folder/testdata/fuzz/$name"
  done
  exit 1
fi
echo "fuzz: ok"
