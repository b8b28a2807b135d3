#!/usr/bin/env bash
# Makes ready what the tests of pages need: Chromium, from the system's packages if it is missing,
# and the accessibility checks of axe-core, from the npm registry, in the folder that is given.
set -euo pipefail
dir=${1:?want a folder}
version=4.10.3
checksum=0f2b4d7dcdf7d1219df8d1959ad68e565f51d14c3f0d88bb71cd59abeb956292
say() { printf 'browser: %3d s  %s\n' "$SECONDS" "$*" >&2; }
die() { say "FAILED: $*"; exit 1; }

mkdir -p "$dir"
if ! command -v chromium chromium-browser google-chrome >/dev/null; then
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null ||
        die "install Chromium: this script installs it only as root, with apt-get"
    say "installing Chromium, about a minute"
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -q && apt-get install -y -q --no-install-recommends chromium; } \
        >"$dir/apt.log" 2>&1 || die "apt-get install chromium, see $dir/apt.log"
fi
if [ ! -f "$dir/axe-$version.min.js" ]; then
    command -v npm >/dev/null || die "npm is missing; it fetches axe-core"
    say "fetching axe-core $version"
    (cd "$dir" && npm pack --silent "axe-core@$version" >/dev/null) ||
        die "npm pack axe-core@$version"
    echo "$checksum  $dir/axe-core-$version.tgz" | sha256sum --check --quiet - ||
        die "the checksum of axe-core $version is wrong"
    tar -xzOf "$dir/axe-core-$version.tgz" package/axe.min.js >"$dir/axe.tmp"
    mv "$dir/axe.tmp" "$dir/axe-$version.min.js"
    rm "$dir/axe-core-$version.tgz"
fi
say "ready"
