#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Verifies a Promela model exhaustively, or shows that a mutant of it is caught.
#
#   check_model.sh model.pml work-folder holds|fails safety|liveness [define...]
#
# "holds": no error, and the search was complete (no depth or memory bound was met). "fails": the verifier must find an
# error; a model that also holds without what it models proves nothing.
set -euo pipefail

model=$(realpath "$1")
folder=$2
expected=$3
kind=$4
shift 4
defines=("${@/#/-D}")

for tool in spin cc; do
  command -v "$tool" >/dev/null || { echo "$tool is not installed: run scripts/bootstrap" >&2; exit 1; }
done

rm -rf "$folder"
mkdir -p "$folder"
cd "$folder"
spin -a "${defines[@]}" "$model" >spin.log 2>&1 || { cat spin.log >&2; exit 1; }
# A variable of the model that is called like one of the verifier's own (`t`) takes its place without a word, or with an
# error, as the compiler's version has it: always an error.
compile() {
  cc -O0 -Werror=int-conversion "$@" -o pan pan.c 2>cc.log || { cat cc.log >&2; exit 1; }
}
# The limits are far above what the models need (a few seconds): meeting one is a failure, not a result.
if [[ $kind == liveness ]]; then
  compile -DNFAIR=3 -DMEMLIM=2048
  ./pan -a -f -m1000000 >pan.log 2>&1 || true
else
  compile -DSAFETY -DNOCLAIM -DMEMLIM=2048
  ./pan -m1000000 >pan.log 2>&1 || true
fi

errors=$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.log | tail -n 1)
states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' pan.log | tail -n 1)
if [[ -z $errors ]]; then
  echo "the verifier gave no result" >&2
  cat pan.log >&2
  exit 1
fi
if [[ $expected == holds ]]; then
  if [[ $errors != 0 ]] || grep -qE 'max search depth too small|out of memory|search was not completed' pan.log; then
    echo "$(basename "$model") ${defines[*]}: does not hold" >&2
    cat pan.log >&2
    [[ ! -e $(basename "$model").trail ]] || spin -t -p -g -l "${defines[@]}" "$model" | tail -n 80 >&2
    exit 1
  fi
elif [[ $errors == 0 ]]; then
  echo "$(basename "$model") ${defines[*]}: the mutant was not caught" >&2
  exit 1
fi
echo "$(basename "$model") ${defines[*]}: $expected as expected, $states states"
