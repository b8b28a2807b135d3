#!/usr/bin/env bash
# Puts kube-apiserver and etcd, in the versions that go.mod beside this file names, into bin/controlplane of the project.
# The tests and the demo start them (package ccm/ccmtest/controlplane). Called by `make controlplane`.
# It downloads a release of the same minor version if the network allows, and builds them if not.
#
#   build.sh v1.31.14        build kube-apiserver of exactly this version into bin/kubernetes/v1.31.14, beside a link to the etcd of
#                            `make controlplane`. Called by `make test-kubernetes`. If `make controlplane` has this version, it is used.
#
#   ENVTEST_INDEX=URL        download from this index of releases (default: that of controller-runtime's envtest); none: always build
#   KUBEBUILDER_ASSETS=DIR   use the kube-apiserver and etcd in DIR and build nothing (the convention of controller-runtime's envtest)
#
# It uses only what bash 3.2 knows, which is the bash of macOS.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
version=${1:-}
out=$root/bin/controlplane
[[ -z $version ]] || out=$root/bin/kubernetes/$version
stamp=$out/.stamp

die() {
	printf 'controlplane: %s\n' "$*" >&2
	exit 1
}

say() {
	printf 'controlplane: %s\n' "$*" >&2
}

# An explicit but wrong setting is an error and not a reason to build: the tests would follow the setting, too, and fail.
if [[ -n ${KUBEBUILDER_ASSETS:-} ]]; then
	for name in kube-apiserver etcd; do
		[[ -x $KUBEBUILDER_ASSETS/$name ]] ||
			die "KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS holds no executable $name: put it there, or unset KUBEBUILDER_ASSETS to build it"
	done
	if [[ -z $version ]]; then
		say "using kube-apiserver and etcd from KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS, nothing to build"
		exit 0
	fi
fi

command -v go >/dev/null || die "the go command is not in PATH: install Go as go.mod says, or set KUBEBUILDER_ASSETS"

# The binaries run on this machine whatever the caller compiles for. A go.work of the user must not change what is built.
cd "$here"
unset GOOS GOARCH
export GOWORK=off CGO_ENABLED=0

hash_stdin() {
	if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi
}

want=$({
	go env GOVERSION GOOS GOARCH
	if [[ -n $version ]]; then printf '%s\n' "$version"; else cat go.mod go.sum build.sh; fi
} | hash_stdin | cut -d' ' -f1)

if [[ -x $out/kube-apiserver && -x $out/etcd && -f $stamp && $(<"$stamp") == "$want" ]]; then
	exit 0
fi

# progress LABEL TOTAL reads the output of the go command and shows how far it is: in place on a terminal, otherwise one line about
# every ten seconds. Other lines, such as a compiler's error, pass through.
progress() {
	local label=$1 total=$2 line downloads=0 built=0 percent text left shown=-10
	local begin=$SECONDS tty=
	[[ -t 2 ]] && tty=1
	while IFS= read -r line; do
		case $line in
		"go: downloading "*) downloads=$((downloads + 1)) ;;
		"#"* | *" "* | "") # package paths have no space
			[[ -n $tty ]] && printf '\r\033[K' >&2
			printf '%s\n' "$line" >&2
			continue
			;;
		*) built=$((built + 1)) ;;
		esac
		if ((total == 0)); then
			text="$label: $downloads modules downloaded"
		else
			percent=$((built * 100 / total))
			((percent > 100)) && percent=100
			left=
			# Packages differ too much for an estimate from the first ones.
			((built < 20)) || left=", about $(((SECONDS - begin) * (total - built) / built)) s left"
			text="$label: $percent% ($built of $total packages, $((SECONDS - begin)) s$left)"
			((built >= total)) && text="$label: linking"
		fi
		if [[ -n $tty ]]; then
			printf '\r\033[Kcontrolplane: %s' "$text" >&2
		elif ((SECONDS - shown >= 10)); then
			say "$text"
			shown=$SECONDS
		fi
	done
	[[ -n $tty ]] && printf '\r\033[K' >&2
	return 0
}

# build NAME PACKAGE LDFLAGS
build() {
	local name=$1 package=$2 ldflags=$3 begin=$SECONDS total new=$out/.$1.$$
	# Downloads what is missing, and says how many packages the build cache lacks: on a warm cache only the link remains.
	{ go list -trimpath -deps -f '{{.Stale}}' "$package" >"$new.stale"; } 2>&1 | progress "$name" 0
	total=$(grep -c true "$new.stale" || true)
	say "building $name ($total packages to compile)"
	{ go build -v -trimpath -ldflags "$ldflags" -o "$new" "$package"; } 2>&1 | progress "$name" "$((total > 0 ? total : 1))"
	# In one step, so that neither an interrupted build nor a control plane that runs the old file gets half a binary.
	mv -f "$new" "$out/$name"
	say "built $out/$name in $((SECONDS - begin)) s"
}

# build_apiserver VERSION
build_apiserver() {
	local version=$1 major minor ldflags="-s -w" package
	IFS=. read -r major minor _ <<<"${version#v}"
	# As the release build of Kubernetes sets them: without, /version and the emulation version are those of an unknown build.
	for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
		ldflags+=" -X $package.gitVersion=$version -X $package.gitMajor=$major -X $package.gitMinor=$minor"
	done
	build kube-apiserver k8s.io/kubernetes/cmd/kube-apiserver "$ldflags"
}

# module_of VERSION prints a go.mod that builds a Kubernetes version. It takes three things from the go.mod of that version: the
# language and the runtime settings, which belong to the main module, and the names of the staging modules (see go.mod).
module_of() {
	local version=$1 gomod
	# Outside a module, because otherwise the download would count as a change of that module.
	gomod=$(cd / && go mod download -json "k8s.io/kubernetes@$version" | sed -n 's/^.*"GoMod": "\(.*\)".*$/\1/p') ||
		die "cannot download the module k8s.io/kubernetes $version"
	printf 'module kubernetes\n\n'
	sed -n -e '/^go /p' -e '/^godebug [^(]/p' -e '/^godebug (/,/^)/p' "$gomod"
	printf 'require k8s.io/kubernetes %s\n\nreplace (\n' "$version"
	sed -n "s|^[[:space:]]*\\(k8s.io/[a-z0-9-]*\\) => ./staging/.*|	\\1 => \\1 v0.${version#v1.}|p" "$gomod"
	printf ')\n'
}

mkdir -p "$out"
rm -f "$stamp"
trap 'rm -f "$out"/.*.$$ "$out"/.*.$$.stale' EXIT

if [[ -n $version ]]; then
	etcd=${KUBEBUILDER_ASSETS:-$root/bin/controlplane}/etcd
	[[ -x $etcd ]] || die "there is no etcd in ${etcd%/etcd}: run make controlplane first"
	ln -sfn "$etcd" "$out/etcd"
	if [[ $("${etcd%/etcd}/kube-apiserver" --version) == "Kubernetes $version" ]]; then
		ln -sfn "${etcd%/etcd}/kube-apiserver" "$out/kube-apiserver"
		printf '%s\n' "$want" >"$stamp"
		exit 0
	fi
	mkdir -p "$out/module"
	module_of "$version" >"$out/module/go.mod"
	cd "$out/module"
	export GOFLAGS="${GOFLAGS:-} -mod=mod"
	# Gigabytes that nothing else uses. The cache stays after a failure, so that the next try continues; an interrupted go command
	# leaves its work behind.
	export GOCACHE=$out/cache GOTMPDIR=$out/work
	rm -rf "$GOTMPDIR"
	mkdir -p "$GOTMPDIR"
	build_apiserver "$version"
	rm -rf "$GOCACHE" "$GOTMPDIR"
	printf '%s\n' "$want" >"$stamp"
	exit 0
fi

version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
if (cd "$here/../envtest" && go run . "${version#v}" "$out"); then
	printf '%s\n' "$want" >"$stamp"
	exit 0
fi
say "cannot download kube-apiserver and etcd, so they are built, which takes minutes"
build etcd go.etcd.io/etcd/server/v3 "-s -w"
build_apiserver "$version"
printf '%s\n' "$want" >"$stamp"
say "built both in $SECONDS s"
