// SPDX-License-Identifier: Apache-2.0
// A campaign's result for people (table, page) and for programs (JSON).
#pragma once

#include <string>

#include "tests/validation/campaign/campaign.hpp"

namespace svp::campaign {

// One line per scenario and a sum. Times in milliseconds: the median of the runs, and the worst when there are several.
std::string to_table(const CampaignReport& report);
std::string to_table_line(const Scenario& scenario, const Result& result);
std::string table_head();
std::string to_sum(const CampaignReport& report);  // the last lines of the table
// {"schema_version", "seed", "repeat", "interrupted", "passed", "as_wanted", "seconds", "scenarios": [{"id", "title",
// "verdict", "fired", "detected", "contained", "recovered", "clean" (booleans), "seen": {proof: text} (of the last
// run), "times": {"detect", "contain", "recover"} (milliseconds: {"median", "worst", "runs"}), "not_passed": [{"seed",
// "verdict", "missing": {proof: text}, "trouble"}]}]}
std::string to_json(const CampaignReport& report);
// One HTML file that refers to nothing outside: the matrix of scenarios and proofs, and how long recovery took.
std::string to_html(const CampaignReport& report);

}  // namespace svp::campaign
