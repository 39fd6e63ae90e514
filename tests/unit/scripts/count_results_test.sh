#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The sum that scripts/test prints: every kind of outcome of a test program counts exactly as it should.
set -euo pipefail
source "$1/scripts/lib/count_results.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# junit NAME STATUS [EXTRA]...: a report as ctest writes it, for one program per triple.
junit() {
  printf '<?xml version="1.0"?>\n<testsuite name="x"\n\ttests="1"\n\t>\n'
  while (($#)); do
    printf '\t<testcase name="%s" classname="%s" time="0.1" status="%s">\n\t\t%s\n\t</testcase>\n' "$1" "$1" "$2" "$3"
    shift 3
  done
  printf '</testsuite>\n'
}
# gtest NAME TESTS FAILURES DISABLED SKIPPED: a report as GoogleTest writes it.
gtest() {
  printf '<testsuites tests="%s" failures="%s" disabled="%s" errors="0" time="0.1" name="AllTests">\n' "$2" "$3" "$4"
  printf '  <testsuite name="A" tests="%s" failures="%s" disabled="%s" skipped="%s" errors="0" time="0.1">\n' \
    "$2" "$3" "$4" "$5"
  printf '  </testsuite>\n</testsuites>\n'
} >"$dir/$1.xml"

expect() {  # property wanted JUNIT-ARGUMENTS...
  local property=$1 wanted=$2 got; shift 2
  junit "$@" >"$dir/ctest.junit"
  got=$(count_results "$dir/ctest.junit" "$dir")
  [[ $got == "$wanted" ]] || { printf '%s: wanted "%s", got "%s"\n' "$property" "$wanted" "$got"; exit 1; }
}

gtest seven 7 0 0 0
gtest mixed 6 2 1 1
expect CasesOfAProgramAreCounted '7 0 0' seven run ''
expect SkippedAndDisabledCasesDoNotPass '2 2 2' mixed fail '<failure message=""/>'
expect AProgramWithoutAReportCountsOnce '1 0 0' script run ''
expect ACrashCountsOnce '0 1 0' crashed fail '<failure message=""/>'
expect AFailureAfterGoodCasesIsNotLost '7 1 0' seven fail '<failure message=""/>'
expect ASkippedProgramCountsOnce '0 0 1' s notrun '<skipped message="SKIP_RETURN_CODE=77"/>'
expect AProgramThatWasNotBuiltFails '0 1 0' s notrun '<skipped message="Unable to find executable"/>'
expect ProgramsAddUp '10 3 2' seven run '' mixed fail '<failure message=""/>' script run '' crashed fail ''
