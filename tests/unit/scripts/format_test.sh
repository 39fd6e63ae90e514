#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every source is formatted, and the check would say so if one were not.
set -euo pipefail
root=$1
"$root/scripts/format" --check
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
cp "$root/.clang-format" "$planted"
printf 'int  main( ) { return 0 ; }\n' >"$planted/planted.cpp"
if "$root/scripts/format" --check "$planted/planted.cpp" 2>/dev/null; then
  echo "the check does not find a source that is not formatted" >&2
  exit 1
fi
