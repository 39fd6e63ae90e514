#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The check that nothing outlives a test run sees what it must see, and only that.
set -euo pipefail
unset SPYRE_RUN_ID
source "$1/scripts/lib/leftovers.sh"
fail() { printf '%s\n' "$*"; exit 1; }
# A process shows no environment in the middle of its exec: waits, bounded, until the given one does.
await_process() {
  local try
  for try in {1..50}; do
    [[ " $(leftovers_processes | tr '\n' ' ')" == *" $1 "* ]] && return
    leftovers_pause
  done
  fail "process $1 did not show within 5 s (try $try)"
}
# Starts a process that nobody waits for and that holds no descriptor of ours; prints its id.
start_orphan() { setsid --fork sh -c 'echo $$; exec sleep 60 >/dev/null 2>&1' </dev/null; }

sleep 60 >/dev/null 2>&1 &  # started before the run: somebody else's
other=$!
leftovers_begin
trap 'leftovers_end; kill "$other" 2>/dev/null || true' EXIT

leftovers_check >/dev/null || fail "NothingLeftIsNothingFound"

orphan=$(start_orphan)
await_process "$orphan"
[[ $(leftovers_processes) == "$orphan" ]] || fail "AnOrphanOfTheRunIsFoundAndNothingElse: $(leftovers_processes)"
! leftovers_check >/dev/null || fail "AnOrphanIsAComplaint"
kill -KILL "$orphan"

touch "$XDG_RUNTIME_DIR/socket"
found=$(leftovers_check) && fail "AFileLeftInTheRuntimeFolderIsAComplaint"
[[ $found == *"$XDG_RUNTIME_DIR/socket"* ]] || fail "AComplaintNamesTheFile"
rm "$XDG_RUNTIME_DIR/socket"

# Ends in the middle of the check: what is about to end is given its moment.
sleep 1 >/dev/null 2>&1 &
await_process $!
leftovers_check >/dev/null || fail "WhatEndsWithinTheGraceIsNoComplaint"

await_process "$(start_orphan)"
leftovers_end
[[ ! $(leftovers_processes) && ! -e $leftovers_dir ]] || fail "TheEndOfTheRunEndsItsProcessesAndRemovesItsFolders"
kill -0 "$other" || fail "ProcessesOfOthersAreLeftAlone"
