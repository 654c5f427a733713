#!/usr/bin/env bash
# Every script parses, answers --help, and refuses an argument that it does not know.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

fail() { echo "FAILED: $*" >&2; exit 1; }

shell_scripts=()
for file in scripts/* .ci/run tests/scripts/*.sh; do
  if [[ -f $file ]] && head -n 1 "$file" | grep -q bash; then
    shell_scripts+=("$file")
  fi
done
[[ ${#shell_scripts[@]} -ge 4 ]] || fail "found only ${#shell_scripts[@]} shell scripts"
for file in "${shell_scripts[@]}"; do
  bash -n "$file" || fail "$file does not parse"
done
if command -v shellcheck >/dev/null; then
  shellcheck --severity=warning "${shell_scripts[@]}" || fail "shellcheck"
fi

for file in scripts/*; do
  [[ -f $file && -x $file ]] || continue
  "$file" --help </dev/null >/dev/null || fail "$file --help"
  code=0
  "$file" --no-such-argument </dev/null >/dev/null 2>&1 || code=$?
  [[ $code -eq 2 ]] || fail "$file --no-such-argument exits $code, not 2"
done
echo "${#shell_scripts[@]} shell scripts are well formed"
