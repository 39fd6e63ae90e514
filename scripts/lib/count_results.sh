# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# count_results JUNIT_FILE RESULTS_DIR: prints "passed failed skipped" for one ctest run.
# Cases are counted from the GoogleTest report of each program; a program without a report (a script test, or one that
# crashed, hung or was never built) counts as one. A program that failed though no case did counts one failure.

# shellcheck disable=SC2016  # $0 is awk's
xml_attribute='function attribute(name) {
  if (!match($0, " " name "=\"[^\"]*\"")) return ""
  return substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 4)
}'

count_gtest_report() {
  awk "$xml_attribute"' /<testsuite / {
      tests += attribute("tests"); failed += attribute("failures") + attribute("errors")
      skipped += attribute("skipped") + attribute("disabled")
    } END { print tests - failed - skipped, failed + 0, skipped + 0 }' "$1"
}

count_results() {
  local junit=$1 results_dir=$2 name status passed=0 failed=0 skipped=0 p f s
  while read -r name status; do
    p=0 f=0 s=0
    if [[ -s $results_dir/$name.xml ]]; then read -r p f s < <(count_gtest_report "$results_dir/$name.xml"); fi
    case $status in
      run) ((p + f + s)) || p=1 ;;
      disabled | skipped) ((p + f + s)) || s=1 ;;
      *) ((f)) || f=1 ;;
    esac
    ((passed += p, failed += f, skipped += s)) || true
  done < <(awk "$xml_attribute"' /<testcase / { if (name) print name, status; name = attribute("name"); status = attribute("status") }
             /<skipped/ && status == "notrun" && /SKIP_RETURN_CODE|SKIP_REGULAR/ { status = "skipped" }
             END { if (name) print name, status }' "$junit")
  printf '%s %s %s\n' "$passed" "$failed" "$skipped"
}

# The five test programs of these ctest JUnit files that took longest, "seconds name" per line.
slowest_tests() {
  python3 - "$@" <<'PYTHON'
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

cases = [case for file in sys.argv[1:] if Path(file).is_file() for case in xml.parse(file).iter("testcase")]
cases.sort(key=lambda case: float(case.get("time", 0)), reverse=True)
for case in cases[:5]:
    print(f"{float(case.get('time', 0)):6.0f} s  {case.get('name')}")
PYTHON
}
