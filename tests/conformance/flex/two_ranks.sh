#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a program as rank 0 and rank 1 at the same time, as torchrun does. Fails when one of them fails.
LOCAL_RANK=0 "$1" --gtest_brief=1 &
other=$!
LOCAL_RANK=1 "$1" --gtest_brief=1
status=$?
# bounded: the program's tests are, and the time-out of the test ends both
wait "$other" && exit "$status"
