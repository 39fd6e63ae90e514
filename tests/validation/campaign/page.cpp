// SPDX-License-Identifier: Apache-2.0
// The campaign as one HTML file: the values that page.html has names for. What a page looks like is in page.html.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <kainjow/mustache.hpp>

#include "tests/validation/campaign/page_template.hpp"
#include "tests/validation/campaign/report.hpp"

namespace svp::campaign {

namespace {

using kainjow::mustache::data;
using Milliseconds = std::chrono::duration<double, std::milli>;

const char* yes_no(bool yes) { return yes ? "yes" : "no"; }

// The median of the runs, and the worst when there are several.
std::string time_of(const ScenarioReport& row, std::optional<Times::Duration> Times::* which) {
  std::vector<double> times;
  for (const Result& run : row.runs) {
    if (const auto time = run.times.*which) times.push_back(Milliseconds(*time).count());
  }
  if (times.empty()) return "–";
  std::ranges::sort(times);
  const std::string worst = times.size() > 1 ? fmt::format(" / {:.1f}", times.back()) : "";
  return fmt::format("{:.2f}{}", times[times.size() / 2], worst);
}

data proofs_of(const ScenarioReport& row) {
  data cells(data::type::list);
  for (const Proof proof : kProofs) {
    data cell;
    cell.set("yes_no", yes_no(row.holds(proof)));
    cell.set("mark", row.holds(proof) ? "✓" : "✗");
    cell.set("seen", row.runs.empty() ? std::string() : row.runs.back()[proof].seen);
    cells.push_back(cell);
  }
  return cells;
}

// ---- recovery times: a logarithmic axis from 0.1 ms to 100 s, a line per scenario, a dot per run

constexpr double kLeft = 60, kWidth = 900, kLine = 14, kTop = 24;
constexpr const char* kMarks[] = {"0.1 ms", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s"};

double x_of(double milliseconds) {
  const double decades = std::log10(std::max(milliseconds, 0.1)) + 1;
  return kLeft + std::min(decades / (std::size(kMarks) - 1), 1.0) * kWidth;
}

data axis() {
  data marks(data::type::list);
  double at = 0.1;
  for (const char* label : kMarks) {
    data mark;
    mark.set("label", label);
    mark.set("x", fmt::format("{:.1f}", x_of(at)));
    marks.push_back(mark);
    at *= 10;
  }
  return marks;
}

data dots_of(const ScenarioReport& row, double y) {
  data dots(data::type::list);
  for (const Result& run : row.runs) {
    if (!run.times.recover) continue;
    const double milliseconds = Milliseconds(*run.times.recover).count();
    data dot;
    dot.set("yes_no", yes_no(run.verdict() == Verdict::Passed));
    dot.set("x", fmt::format("{:.1f}", x_of(milliseconds)));
    dot.set("y", fmt::format("{:.1f}", y));
    dot.set("milliseconds", fmt::format("{:.2f}", milliseconds));
    dots.push_back(dot);
  }
  return dots;
}

// ---- the whole page

data scenario_of(const ScenarioReport& row, std::string_view& section, double y) {
  data scenario;
  const std::string_view its = name(row.scenario->section);
  // Its first row is headed by the section.
  scenario.set("section", its == section ? data(false) : data(std::string(its)));
  section = its;
  scenario.set("id", std::string(row.scenario->id));
  scenario.set("title", std::string(row.scenario->title));
  scenario.set("check", std::string(row.scenario->check));
  scenario.set("proofs", proofs_of(row));
  data times(data::type::list);
  for (const auto which : {&Times::detect, &Times::contain, &Times::recover}) times.push_back(time_of(row, which));
  scenario.set("times", times);
  scenario.set("yes_no", yes_no(row.verdict() == Verdict::Passed));
  scenario.set("verdict", std::string(name(row.verdict())));
  scenario.set("text_y", fmt::format("{:.1f}", y + 4));
  scenario.set("dots", dots_of(row, y));
  return scenario;
}

data page_of(const CampaignReport& report) {
  data page;
  page.set("passed", std::to_string(report.passed()));
  page.set("count", std::to_string(report.scenarios.size()));
  page.set("interrupted", data(report.interrupted));
  page.set("seed", std::to_string(report.seed));
  page.set("runs", fmt::format("{} run{}", report.repeat, report.repeat == 1 ? "" : "s"));
  page.set("seconds", fmt::format("{:.1f}", std::chrono::duration<double>(report.took).count()));
  data proofs(data::type::list);
  for (const Proof proof : kProofs) proofs.push_back(std::string(name(proof)));
  page.set("proofs", proofs);
  data scenarios(data::type::list);
  std::string_view section;
  double y = kTop + kLine / 2;
  for (const ScenarioReport& row : report.scenarios) {
    scenarios.push_back(scenario_of(row, section, y));
    y += kLine;
  }
  page.set("scenarios", scenarios);
  page.set("axis", axis());
  page.set("height", fmt::format("{:.0f}", y + 3));
  return page;
}

}  // namespace

std::string to_html(const CampaignReport& report) {
  kainjow::mustache::mustache page{std::string(kPageTemplate)};  // escapes &, <, >, " and '
  return page.render(page_of(report));
}

}  // namespace svp::campaign
