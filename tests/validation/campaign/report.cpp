// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/campaign/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "host_driver/cli/output.hpp"

namespace svp::campaign {

namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;
using TimeOf = std::optional<Times::Duration> Times::*;

struct Spread {
  double median = 0;
  double worst = 0;
  std::vector<double> runs;  // milliseconds
};

std::optional<Spread> spread(const ScenarioReport& report, TimeOf which) {
  Spread result;
  for (const Result& run : report.runs) {
    if (const auto time = run.times.*which) result.runs.push_back(Milliseconds(*time).count());
  }
  if (result.runs.empty()) return std::nullopt;
  std::ranges::sort(result.runs);
  result.median = result.runs[result.runs.size() / 2];
  result.worst = result.runs.back();
  return result;
}

std::string milliseconds(const std::optional<Spread>& time, bool several) {
  if (!time) return several ? "            –" : "       –";
  if (!several) return fmt::format("{:8.2f}", time->median);
  return fmt::format("{:6.2f}/{:6.1f}", time->median, time->worst);
}

std::string line_of(const ScenarioReport& report) {
  const bool several = report.runs.size() > 1;
  std::string line = fmt::format("{:<4} {:<58}", report.scenario->id, report.scenario->title);
  for (const Proof proof : kProofs) line += report.holds(proof) ? "  +" : "  -";
  for (const TimeOf which : {&Times::detect, &Times::contain, &Times::recover}) {
    line += " " + milliseconds(spread(report, which), several);
  }
  return line + "  " + std::string(name(report.verdict())) + "\n";
}

// What did not hold, for the line below.
std::string complaints(const ScenarioReport& report) {
  std::string text;
  for (const Result& run : report.runs) {
    if (run.verdict() == Verdict::Passed) continue;
    text += fmt::format("       seed {}: ", run.seed);
    for (const Proof proof : kProofs) {
      if (!run[proof].holds)
        text += fmt::format("{}: {}. ", name(proof), run[proof].given ? run[proof].seen : "not proved");
    }
    if (!run.trouble.empty()) text += "broken off: " + run.trouble;
    text += "\n";
  }
  return text;
}

nlohmann::json json_of_failure(const Result& run) {
  nlohmann::json json = {{"seed", run.seed}, {"verdict", name(run.verdict())}, {"missing", nlohmann::json::object()}};
  for (const Proof proof : kProofs) {
    if (!run[proof].holds) json["missing"][std::string(name(proof))] = run[proof].seen;
  }
  if (!run.trouble.empty()) json["trouble"] = run.trouble;
  return json;
}

nlohmann::json json_of(const ScenarioReport& report) {
  nlohmann::json json = {{"id", report.scenario->id},
                         {"title", report.scenario->title},
                         {"section", name(report.scenario->section)},
                         {"check", report.scenario->check},
                         {"verdict", name(report.verdict())},
                         {"times", nlohmann::json::object()},
                         {"seen", nlohmann::json::object()},
                         {"not_passed", nlohmann::json::array()}};
  for (const Proof proof : kProofs) {
    json[std::string(name(proof))] = report.holds(proof);
    if (!report.runs.empty()) json["seen"][std::string(name(proof))] = report.runs.back()[proof].seen;
  }
  const std::pair<const char*, TimeOf> times[] = {
      {"detect", &Times::detect}, {"contain", &Times::contain}, {"recover", &Times::recover}};
  for (const auto& [key, which] : times) {
    const auto time = spread(report, which);
    if (time) json["times"][key] = {{"median", time->median}, {"worst", time->worst}, {"runs", time->runs}};
  }
  json["claims"] = nlohmann::json::array();
  if (!report.runs.empty()) {
    for (const Claim& claim : report.runs.back().claims) {
      json["claims"].push_back({{"proof", name(claim.proof)}, {"name", claim.name}, {"holds", claim.holds}});
    }
  }
  for (const Result& run : report.runs) {
    if (run.verdict() != Verdict::Passed) json["not_passed"].push_back(json_of_failure(run));
  }
  return json;
}

}  // namespace

std::string table_head() {
  return fmt::format("{:<4} {:<58}  f  d  c  r  k   detect  contain  recover  verdict\n", "id", "scenario");
}

std::string to_table_line(const Scenario& scenario, const Result& result) {
  const ScenarioReport one{&scenario, {result}};
  return line_of(one) + (result.verdict() == Verdict::Passed ? "" : complaints(one));
}

std::string to_table(const CampaignReport& report) {
  std::string text = table_head();
  std::string_view section;
  for (const ScenarioReport& row : report.scenarios) {
    if (const auto its = name(row.scenario->section); its != section) text += fmt::format("{}\n", section = its);
    text += line_of(row);
    text += complaints(row);
  }
  return text + to_sum(report);
}

std::string to_sum(const CampaignReport& report) {
  std::string text;
  text += fmt::format("f fired, d detected, c contained, r recovered, k clean; times in ms{}\n",
                      report.repeat > 1 ? fmt::format(": median/worst of {} runs", report.repeat) : "");
  if (report.interrupted) text += "interrupted: not every scenario has run\n";
  text += fmt::format("{} of {} passed (seed {}, {:.1f} s)\n", report.passed(), report.scenarios.size(), report.seed,
                      std::chrono::duration<double>(report.took).count());
  return text;
}

std::string to_json(const CampaignReport& report) {
  nlohmann::json json = {{"schema_version", cli::kSchemaVersion},
                         {"seed", report.seed},
                         {"repeat", report.repeat},
                         {"interrupted", report.interrupted},
                         {"passed", report.passed()},
                         {"as_wanted", report.all_passed()},
                         {"seconds", std::chrono::duration<double>(report.took).count()},
                         {"scenarios", nlohmann::json::array()}};
  for (const ScenarioReport& row : report.scenarios) json["scenarios"].push_back(json_of(row));
  return json.dump(2);
}

}  // namespace svp::campaign
