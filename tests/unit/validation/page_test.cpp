// SPDX-License-Identifier: Apache-2.0
// The campaign as a page: every value is text, whatever is in it, and the page needs no other file.
#include <gmock/gmock.h>

#include <regex>

#include "tests/validation/campaign/page_template.hpp"
#include "tests/validation/campaign/report.hpp"

namespace svp::campaign {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::string_view kHostile = "</td><script>alert('x')</script>\" onload=\"y\" & {{passed}} {{{seed}}} <!--";

Result run_of(bool recovered, std::chrono::milliseconds recovery, std::string_view seen = "3 claims") {
  Result run;
  for (const Proof proof : kProofs) run[proof] = {.given = true, .holds = true, .seen = std::string(seen)};
  run[Proof::Recovered].holds = recovered;
  run.times.recover = recovery;
  return run;
}

std::size_t count(const std::string& text, const std::string& pattern) {
  const std::regex regex(pattern);
  return static_cast<std::size_t>(std::distance(std::sregex_iterator(text.begin(), text.end(), regex), {}));
}

TEST(Page, HostileTextStaysText) {
  const Scenario scenario{.id = kHostile, .title = kHostile, .check = kHostile};
  CampaignReport report;
  report.scenarios.push_back({&scenario, {run_of(true, std::chrono::milliseconds(3), kHostile)}});
  const std::string page = to_html(report);
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("<!--")));
  EXPECT_THAT(page, Not(HasSubstr("\" onload")));
  EXPECT_THAT(page, HasSubstr("&lt;/td&gt;&lt;script&gt;alert(&apos;x&apos;)&lt;/script&gt;&quot; onload="));
  EXPECT_THAT(page, HasSubstr("{{passed}} {{{seed}}}")) << "a value is no template";
  // As many elements as with harmless text.
  const Scenario harmless{.id = "F1", .title = "a", .check = "b"};
  report.scenarios[0].scenario = &harmless;
  EXPECT_EQ(count(page, "<"), count(to_html(report), "<"));
}

TEST(Page, HasARowPerScenarioAndADotPerRun) {
  CampaignReport report;
  report.seed = 41;
  report.repeat = 2;
  report.took = std::chrono::milliseconds(1250);
  using std::chrono::milliseconds;
  report.scenarios.push_back({find_scenario("F1"), {run_of(true, milliseconds(1)), run_of(false, milliseconds(1000))}});
  report.scenarios.push_back({find_scenario("F2"), {run_of(true, milliseconds(10))}});
  report.scenarios.push_back({find_scenario("F14"), {}});
  report.interrupted = true;
  const std::string page = to_html(report);
  EXPECT_THAT(page, HasSubstr("1 of 3 passed (interrupted)"));
  EXPECT_THAT(page, HasSubstr("seed 41, 2 runs of each, 1.2 s."));
  EXPECT_EQ(count(page, "<tr id=\"F(1|2|14)\">"), 3u);
  EXPECT_EQ(count(page, "<tr class=\"section\">"), 2u) << "F1 and F2 are of one section";
  EXPECT_EQ(count(page, "<td class=\"proof (yes|no)\""), 15u);
  EXPECT_EQ(count(page, "<td class=\"time\">"), 9u);
  EXPECT_EQ(count(page, "<circle class=\"yes\""), 2u);
  EXPECT_EQ(count(page, "<circle class=\"no\""), 1u);
  EXPECT_THAT(page, HasSubstr("cx=\"210.0\"")) << "1 ms: one decade of six";
  EXPECT_THAT(page, HasSubstr("cx=\"660.0\"")) << "1 s: four";
}

TEST(Page, EveryNameOfTheTemplateHasAValue) {
  const Scenario scenario{.id = "F1", .title = "a", .check = "b"};
  CampaignReport report;
  report.scenarios.push_back({&scenario, {run_of(true, std::chrono::milliseconds(3))}});
  const std::string page = to_html(report);
  EXPECT_THAT(std::string(kPageTemplate), HasSubstr("{{"));
  EXPECT_THAT(page, Not(HasSubstr("{{")));
  for (const char* empty : {"x=\"\"", "y=\"\"", "class=\"\"", "<td></td>", "<th></th>", "title></title>"}) {
    EXPECT_THAT(page, Not(HasSubstr(empty)));
  }
}

TEST(Page, RefersToNothingOutside) {
  EXPECT_EQ(count(std::string(kPageTemplate), "(src=|href=|url\\(|@import|https?:|<script|<link)"), 0u);
  EXPECT_EQ(count(std::string(kPageTemplate), "\\{\\{[{&]"), 0u) << "a value that is not escaped";
}

}  // namespace
}  // namespace svp::campaign
