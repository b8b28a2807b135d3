#!/usr/bin/env bash
# run.sh FUZZ_TIME: runs each fuzz target of each module, FUZZ_TIME in total, such as 10m.
#
# A failing input is written below the testdata/fuzz of its package. Commit it with the repair: from then on,
# `go test` runs it.
set -euo pipefail
cd "$(dirname "$0")/../.."

case $1 in
  *m) total=$((${1%m} * 60)) ;;
  *s) total=${1%s} ;;
  *) echo "fuzz: FUZZ_TIME=$1: want minutes or seconds, such as 10m or 90s" >&2; exit 2 ;;
esac

targets=()
while IFS=: read -r file name; do
  targets+=("$(dirname "$file") $name")
done < <(git ls-files -co --exclude-standard '*_test.go' |
  xargs -d '\n' grep -HoP '^func \KFuzz\w+(?=\(\w+ \*testing\.F\))' | sort -u)
each=$((total / ${#targets[@]}))
if ((each == 0)); then each=1; fi
echo "fuzz: ${#targets[@]} targets, ${each}s each"

# Until Go 1.27, a worker that is busy at the end of -fuzztime can fail a target without any failing input
# (https://go.dev/issue/75804). Such a target runs again: an input that fails is always written to a file.
output=$(mktemp)
trap 'rm -f "$output"' EXIT
fuzz() {
  for _ in 1 2 3; do
    (cd "$1" && "${GO:-go}" test -run='^$' -fuzz="^$2\$" -fuzztime="${each}s" .) 2>&1 | tee "$output" && return
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
