#!/usr/bin/env bash
# Builds the site of the documentation from docs: build.sh BIN, the folder that gets site-tool (the
# generator) and site (the result).
#
#   SITE_BASE=/fxccm/   the path of the site on its host, with a slash at both ends
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=${1:?want a folder}
tool=$bin/site-tool
export FXCCM_ROOT=${here%/tools/site} SITE_OUT=$bin/site SITE_BASE=${SITE_BASE:-/fxccm/}
say() { printf 'site: %3d s  %s\n' "$SECONDS" "$*" >&2; }
die() { say "FAILED: $*"; exit 1; }

command -v npm >/dev/null || die "npm is missing; Debian's package npm has it, with Node"
mkdir -p "$tool/.vitepress"
if ! cmp -s "$here/package-lock.json" "$tool/.installed"; then
    say "installing the generator from the npm registry, about half a minute"
    cp "$here/package.json" "$here/package-lock.json" "$tool/"
    (cd "$tool" && npm ci --no-audit --no-fund --loglevel=error) || die "npm ci in $tool"
    cp "$here/package-lock.json" "$tool/.installed"
fi
cp "$here/config.mjs" "$tool/.vitepress/config.mjs"
say "building the pages, less than a minute"
"$tool/node_modules/.bin/vitepress" build "$tool" >"$tool/build.log" 2>&1 ||
    { cat "$tool/build.log" >&2; die "the build; a dead link is one of its errors"; }
say "built $bin/site"
