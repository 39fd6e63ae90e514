#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/fresh-machines keeps what is needed to find out why a command failed, and nothing when all passed. The tools that
# make and enter a machine are stand-ins here: a "machine" is an empty folder, and a command ends as its user's name says.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { printf '%s\n' "$*"; [[ ! -e $dir/said ]] || cat "$dir/said"; exit 1; }

mkdir "$dir/tools" "$dir/tmp"
tool() { printf '#!/bin/bash\n%s\n' "$2" >"$dir/tools/$1"; chmod +x "$dir/tools/$1"; }
tool id 'echo 0'
tool debootstrap 'mkdir -p "$3/etc/apt/apt.conf.d" "$3/root"'
tool apt-config 'true'
tool apt-get 'echo "http://packages.invalid $(. /etc/os-release && echo "$VERSION_CODENAME") Debian"'
tool git 'case $1 in clone) mkdir -p "${!#}" ;; *) echo 0000000 ;; esac'
tool unshare 'case "$*" in *exec\ scripts/demo*) echo "passes" ;; *exec\ scripts/test*) echo "it broke here"; exit 1 ;; esac'

run() { PATH=$dir/tools:$PATH TMPDIR=$dir/tmp "$script" --suite trixie --user root "$@" >"$dir/table" 2>"$dir/said"; }
readonly script=$1/scripts/fresh-machines

run --command demo || fail "ACommandThatPassesIsASuccess"
[[ ! $(ls -A "$dir/tmp") ]] || fail "NothingIsLeftWhenAllPassed: $(ls "$dir/tmp")"

! run || fail "ACommandThatFailsIsAFailure"
log=$(sed -n 's/^  *trixie, root: scripts\/test: log \([^,]*\), machine .*/\1/p' "$dir/said")
machine=$(sed -n 's/^  *trixie, root: scripts\/test: log [^,]*, machine //p' "$dir/said")
[[ $log == "$dir"/tmp/* && $(cat "$log") == "it broke here" ]] || fail "TheLogOfAFailedCommandIsKeptAndNamed: '$log'"
[[ -d $machine/root/spyre-vp ]] || fail "TheMachineOfAFailedCommandIsKeptAndNamed: '$machine'"
[[ ! -e ${machine%/*}/trixie-base ]] || fail "BareSystemsAreNotKept"

! run --folder "$dir/mine" || fail "ACommandThatFailsIsAFailureInAGivenFolder"
[[ -s $dir/mine/trixie-root-test.log && -d $dir/mine/trixie-root ]] || fail "AGivenFolderKeepsThemToo"
run --folder "$dir/mine" --command demo || fail "AGivenFolderIsUsedAgain"
[[ -d $dir/mine/trixie-base && ! -e $dir/mine/trixie-root ]] || fail "AGivenFolderKeepsItsBareSystems"
