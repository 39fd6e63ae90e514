#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every source and page is formatted, and the check would say so if one were not.
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
# Text is wrapped; tables and code are left alone, and what was wrapped stays as it is.
word='word word word word word word word word word word '
printf '* %s%s%s\n\n| %s%s%s |\n\n```\n%s%s%s\n```\n' "$word" "$word" "$word" "$word" "$word" "$word" "$word" "$word" "$word" \
  >"$planted/planted.md"
if "$root/scripts/format" --check "$planted/planted.md" >/dev/null; then
  echo "the check does not find a line of text that is too long" >&2
  exit 1
fi
"$root/scripts/format" "$planted/planted.md"
"$root/scripts/format" --check "$planted/planted.md"
[[ $(awk 'length > 120' "$planted/planted.md" | wc -l) == 2 && $(grep -c '^  word' "$planted/planted.md") == 1 ]] || {
  echo "tables and code are to be left alone, and an item is to be indented" >&2
  exit 1
}
