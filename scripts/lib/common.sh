# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the scripts: the repository's root and plain messages on stderr (stdout belongs to results).
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck disable=SC2034  # used by whoever sources this
readonly root

script_name=$(basename "$0")
say() { printf '%s: %s\n' "$script_name" "$*" >&2; }
die() { say "$*"; exit 1; }
