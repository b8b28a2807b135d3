#!/usr/bin/env bash
# Compiles packages with the k8s.io modules of the minor versions before and after those of go.mod, and changes neither go.mod nor
# go.sum. Called by `make compat`. It takes the newest release of a minor version, or else the newest pre-release, whose modules can
# all be downloaded and are for this version of Go. It fails if the next minor version does not compile. Without a module proxy it
# compiles nothing, so that `make lint` works without a network.
#
#   run.sh PACKAGE...
set -euo pipefail
cd "$(dirname "$0")/../.."

say() {
	printf 'compat: %s\n' "$*"
}

modules=$(awk '$1 ~ /^k8s\.io\// && $2 ~ /^v0\.[1-9]/ { print $1 }' go.mod)
minor=$(sed -n 's/^.*k8s\.io\/api v0\.\([0-9]*\)\..*$/\1/p' go.mod)
if ! listed=$(go list -m -f '{{join .Versions "\n"}}' -versions k8s.io/client-go); then
	say 'nothing was compiled, because the versions of k8s.io cannot be listed'
	exit 0
fi

# candidates MINOR, the newest first; the go command lists versions in their order.
candidates() {
	local all
	all=$(grep -E "^v0\.$1\." <<<"$listed" | tac || true)
	grep -v -e - <<<"$all" || true
	grep -e - <<<"$all" || true
}

# fetch FOLDER VERSION PACKAGE... writes a go.mod with these modules, and downloads them.
fetch() {
	local folder=$1 version=$2 wanted=() module
	shift 2
	for module in $modules; do wanted+=("$module@$version"); done
	mkdir -p "$folder"
	cp go.mod go.sum "$folder"
	go get -modfile="$folder/go.mod" "${wanted[@]}" &&
		go list -modfile="$folder/go.mod" -mod=mod -deps "$@" >/dev/null
}

failed=
for each in $((minor - 1)) $((minor + 1)); do
	found=
	for version in $(candidates "$each"); do
		folder=$PWD/bin/compat/$version
		begin=$SECONDS
		if ! said=$(fetch "$folder" "$version" "$@" 2>&1); then
			say "k8s.io $version cannot be used: $(grep -v -e ': downloading' -e '^go: upgraded' <<<"$said" | head -1)"
			continue
		fi
		found=1
		# The go command has looked for a package in a newer version.
		missing=$(sed -n 's/^go: finding module for package //p' <<<"$said" | tr '\n' ' ')
		if [[ -n $missing ]]; then
			say "k8s.io $version: does not compile, because it has no package ${missing% }"
			failed+=" $each"
		elif go build -modfile="$folder/go.mod" -mod=mod "$@"; then
			say "k8s.io $version: compiles ($((SECONDS - begin)) s)"
		else
			say "k8s.io $version: does not compile ($((SECONDS - begin)) s)"
			failed+=" $each"
		fi
		break
	done
	[[ -n $found ]] || say "no version k8s.io 0.$each can be used"
done
[[ $failed != *" $((minor + 1))"* ]]
