#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a program as rank 0 and rank 1 of one card at the same time, as torchrun does. Fails when one of them fails.
#   spyre exec --vfs 2 -- two_ranks.sh SPYRE PROGRAM        (exec calls its card card0)
rank() {
  LOCAL_RANK=$1 SPYRE_FLEX_RESET="$2 reset card0 --function VF$(($1 + 1))" "$3" --gtest_brief=1
}
rank 0 "$1" "$2" &
other=$!
rank 1 "$1" "$2"
status=$?
# bounded: the tests of the program are, and the time-out of this test ends both
wait "$other" && exit "$status"
