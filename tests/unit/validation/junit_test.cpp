// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/campaign/junit.hpp"

#include <gmock/gmock.h>

namespace svp::campaign {
namespace {

using testing::HasSubstr;
using testing::Not;

Result run_of(bool fired, bool recovered, std::string seen) {
  Result run;
  run.seed = 7;
  for (const Proof proof : kProofs) run[proof] = {.given = true, .holds = true, .seen = {}};
  run[Proof::Fired].holds = fired;
  run[Proof::Recovered] = {.given = true, .holds = recovered, .seen = std::move(seen)};
  run.took = std::chrono::milliseconds(250);
  return run;
}

TEST(Junit, CountsRunsByVerdictAndEscapesWhatTheySaw) {
  CampaignReport report;
  report.repeat = 3;
  report.took = std::chrono::seconds(2);
  const Scenario& scenario = *find_scenario("F14");
  report.scenarios.push_back(
      {&scenario, {run_of(true, true, ""), run_of(true, false, "a < b & \"c\"\x01"), run_of(false, false, "")}});
  report.scenarios.push_back({find_scenario("F15"), {}});
  report.interrupted = true;
  const std::string text = to_junit(report);
  EXPECT_THAT(text, HasSubstr("tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\" time=\"2.000\""));
  EXPECT_THAT(text, HasSubstr("a &lt; b &amp; &quot;c&quot;?"));
  EXPECT_THAT(text, HasSubstr("name=\"F14 "));
  EXPECT_THAT(text, HasSubstr("(seed 7)"));
  EXPECT_THAT(text, HasSubstr("<failure type=\"failed\""));
  EXPECT_THAT(text, HasSubstr("<error type=\"invalid\""));
  EXPECT_THAT(text, HasSubstr("<skipped/>"));
  EXPECT_THAT(text, Not(HasSubstr("\x01")));
}

}  // namespace
}  // namespace svp::campaign
