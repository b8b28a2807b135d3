#!/usr/bin/env bash
# Runs test binaries of `make test-binaries` many times beside stress-ng, which keeps twice as many threads busy as two cores have,
# and prints each test that failed. Called by `make test-stress`.
#
#   run.sh COUNT PATTERN   the number of runs, and which packages (a regular expression of import paths)
set -euo pipefail
cd "$(dirname "$0")/../.."
count=$1 pattern=$2 logs=$PWD/bin/logs
mkdir -p "$logs"
rm -f "$logs"/stress-*.json

if ! command -v stress-ng >/dev/null; then
  apt-get install -qq -y stress-ng >"$logs/stress-ng.log" 2>&1 || { cat "$logs/stress-ng.log"; exit 1; }
fi
stress-ng --quiet --cpu 4 &
trap 'kill %1' EXIT
for ((i = 1; i <= count; i++)); do
  began=$SECONDS code=0
  bin/testrun run -dir bin/tests -only "$pattern" -again . 3>&2 2>"$logs/stress-$i.err" >"$logs/stress-$i.json" || code=$?
  echo "run $i of $count: exit $code after $((SECONDS - began)) s"
done
bin/testrun summary "$logs"/stress-*.json
