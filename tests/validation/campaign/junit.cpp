// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/campaign/junit.hpp"

#include <fmt/format.h>

#include <chrono>
#include <string_view>

#include "tests/validation/campaign/markup.hpp"

namespace svp::campaign {

namespace {

double seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

// What did not hold, a line each.
std::string missing(const Result& run) {
  std::string text;
  for (const Proof proof : kProofs) {
    if (!run[proof].holds)
      text += fmt::format("{}: {}\n", name(proof), run[proof].given ? run[proof].seen : "not proved");
  }
  if (!run.trouble.empty()) text += "broken off: " + run.trouble + "\n";
  return text;
}

std::string test_case(const ScenarioReport& row, const Result& run, bool several) {
  const std::string title =
      fmt::format("{} {}{}", row.scenario->id, row.scenario->title, several ? fmt::format(" (seed {})", run.seed) : "");
  std::string text = fmt::format("  <testcase classname=\"spyre.fault.{}\" name=\"{}\" time=\"{:.3f}\"",
                                 escaped(name(row.scenario->section)), escaped(title), seconds(run.took));
  if (run.verdict() == Verdict::Passed) return text + "/>\n";
  const char* const element = run.verdict() == Verdict::Invalid ? "error" : "failure";
  return text + fmt::format(">\n    <{0} type=\"{1}\" message=\"{1}, seed {2}\">{3}</{0}>\n  </testcase>\n", element,
                            name(run.verdict()), run.seed, escaped(missing(run)));
}

}  // namespace

std::string to_junit(const CampaignReport& report) {
  std::string cases;
  unsigned tests = 0, failures = 0, errors = 0, skipped = 0;
  for (const ScenarioReport& row : report.scenarios) {
    if (row.runs.empty()) {
      ++tests, ++skipped;
      cases +=
          fmt::format("  <testcase classname=\"spyre.fault.{}\" name=\"{} {}\"><skipped/></testcase>\n",
                      escaped(name(row.scenario->section)), escaped(row.scenario->id), escaped(row.scenario->title));
    }
    for (const Result& run : row.runs) {
      ++tests;
      failures += run.verdict() == Verdict::Failed ? 1 : 0;
      errors += run.verdict() == Verdict::Invalid ? 1 : 0;
      cases += test_case(row, run, report.repeat > 1);
    }
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"spyre fault campaign\" tests=\"{}\" "
      "failures=\"{}\" "
      "errors=\"{}\" skipped=\"{}\" time=\"{:.3f}\">\n{}</testsuite>\n",
      tests, failures, errors, skipped, seconds(report.took), cases);
}

}  // namespace svp::campaign
