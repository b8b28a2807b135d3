#!/usr/bin/env bash
# Finds the Go packages that differ from a base, and those that import them; checks their format, vets them, and builds their tests
# into bin/check for `testrun run`. Called by `make check`.
#
#   run.sh [BASE]     a commit; by default what the branch has in common with its upstream, else HEAD~1
#
#   MODULES=FOLDERS   modules of their own, which are checked whole if something in them has changed
#   PLAIN, LARGE_IN, LARGE: as for testrun build
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=$PWD/bin
rm -rf "$bin/check"

base=${1:-$(git merge-base HEAD '@{upstream}' 2>/dev/null || git rev-parse HEAD~1)}
mapfile -t files < <({ git diff --name-only --diff-filter=d "$base"; git ls-files -o --exclude-standard; } | grep '\.go$' | sort -u)
folders=$({ git diff --name-only --no-renames "$base"; git ls-files -o --exclude-standard; } |
  sed -E 's,/(testdata|api)/.*,/,; s,[^/]*$,,; s,/$,,; s,^$,.,' | sort -u)
echo "compared with $(git log -1 --format='%h %s' "$base"): ${#files[@]} Go files"

if ((${#files[@]})); then
  unformatted=$("$bin/lint/gofumpt" -l "${files[@]}")
  [ -z "$unformatted" ] || { echo "not gofumpt-ed:" >&2; echo "$unformatted" >&2; exit 1; }
fi

# A module of its own is checked whole.
modules=() packages=()
for module in ${MODULES-}; do
  ! grep -qE "^$module(/|$)" <<<"$folders" || modules+=("$module")
done
mapfile -t packages < <(go list -f '{{.Dir}} {{.ImportPath}} {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}' ./... |
  folders=$folders awk -v root="$PWD/" '
    BEGIN { n = split(ENVIRON["folders"], list, "\n"); for (i = 1; i <= n; i++) changed[list[i]] }
    { dir = $1; sub("^" root, "", dir); path[NR] = $2; line[NR] = $0; if (dir in changed) is[$2] }
    END { for (i = 1; i <= NR; i++) { n = split(line[i], words, " ")
      for (j = 2; j <= n; j++) if (words[j] in is) { print path[i]; break } } }')
if ((${#packages[@]} + ${#modules[@]} == 0)); then
  echo "no package has changed"
  exit
fi
((${#packages[@]} == 0)) || go vet "${packages[@]}"
for module in "${modules[@]}"; do (cd "$module" && go vet ./...); done
"$bin/testrun" build -dir "$bin/check" -plain "${PLAIN-}" -large "${LARGE_IN-}" -large-tests "${LARGE-}" \
  -modules "${modules[*]}" "${packages[@]}"
