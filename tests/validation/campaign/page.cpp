// SPDX-License-Identifier: Apache-2.0
// The campaign as one HTML file.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tests/validation/campaign/markup.hpp"
#include "tests/validation/campaign/report.hpp"

namespace svp::campaign {

namespace {

using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --ok: #1a7f37; --bad: #cf222e; --dim: #8c959f; }
body { font: 14px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.05rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .2rem .5rem; text-align: left; border-bottom: 1px solid #8883; vertical-align: top; }
td.p { text-align: center; width: 4.5rem; } td.t { text-align: right; font-variant-numeric: tabular-nums; }
.yes { color: var(--ok); } .no { color: var(--bad); font-weight: 700; } .section td { font-weight: 600; padding-top: 1rem; }
.seen { color: var(--dim); font-size: 12px; } svg text { font: 11px system-ui, sans-serif; fill: currentColor; }
)";

std::string time_cell(const ScenarioReport& row, std::optional<Times::Duration> Times::* which) {
  std::vector<double> times;
  for (const Result& run : row.runs) {
    if (const auto time = run.times.*which) times.push_back(Milliseconds(*time).count());
  }
  if (times.empty()) return "<td class=t>–</td>";
  std::ranges::sort(times);
  const std::string worst = times.size() > 1 ? fmt::format(" / {:.1f}", times.back()) : "";
  return fmt::format("<td class=t>{:.2f}{}</td>", times[times.size() / 2], worst);
}

std::string matrix_row(const ScenarioReport& row) {
  std::string html = fmt::format("<tr id={0}><td>{0}</td><td>{1}<div class=seen>detector: {2}</div></td>",
                                 row.scenario->id, escaped(row.scenario->title), escaped(row.scenario->detector));
  for (const Proof proof : kProofs) {
    const std::string seen = row.runs.empty() ? std::string() : row.runs.back()[proof].seen;
    html += fmt::format("<td class=\"p {}\" title=\"{}\">{}</td>", row.holds(proof) ? "yes" : "no", escaped(seen),
                        row.holds(proof) ? "✓" : "✗");
  }
  for (const auto which : {&Times::detect, &Times::contain, &Times::recover}) html += time_cell(row, which);
  html +=
      fmt::format("<td class={}>{}</td></tr>\n", row.verdict() == Verdict::Passed ? "yes" : "no", name(row.verdict()));
  return html;
}

std::string matrix(const CampaignReport& report) {
  std::string html = "<table><thead><tr><th>id<th>scenario";
  for (const Proof proof : kProofs) html += fmt::format("<th>{}", name(proof));
  html += "<th>detect ms<th>contain ms<th>recover ms<th>verdict</tr></thead><tbody>\n";
  std::string_view section;
  for (const ScenarioReport& row : report.scenarios) {
    if (const auto its = name(row.scenario->section); its != section) {
      html += fmt::format("<tr class=section><td colspan=11>{}</td></tr>\n", section = its);
    }
    html += matrix_row(row);
  }
  return html + "</tbody></table>\n";
}

// Recovery times on a logarithmic axis from 0.1 ms to 100 s: a dot per run, a line of its own per scenario.
std::string recovery_picture(const CampaignReport& report) {
  constexpr double kLeft = 60, kWidth = 900, kLine = 14, kTop = 24;
  constexpr double kDecades = 6;
  const auto x_of = [](double ms) {
    return kLeft + std::clamp((std::log10(std::max(ms, 0.1)) + 1) / kDecades, 0.0, 1.0) * kWidth;
  };
  const double height = kTop + kLine * static_cast<double>(report.scenarios.size()) + 10;
  std::string svg =
      fmt::format("<svg viewBox=\"0 0 {:.0f} {:.0f}\" width=\"100%\" role=img>", kLeft + kWidth + 40, height);
  constexpr const char* kMarks[] = {"0.1 ms", "1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s"};
  double at = 0.1;
  for (const char* mark : kMarks) {
    svg += fmt::format(
        "<line x1={0:.1f} x2={0:.1f} y1={1} y2={2:.0f} stroke=\"#8884\"/><text x={0:.1f} y=14 "
        "text-anchor=middle>{3}</text>",
        x_of(at), kTop - 4, height, mark);
    at *= 10;
  }
  double y = kTop + kLine / 2;
  for (const ScenarioReport& row : report.scenarios) {
    svg += fmt::format("<text x=4 y={:.1f}>{}</text>", y + 4, row.scenario->id);
    for (const Result& run : row.runs) {
      if (!run.times.recover) continue;
      const double ms = Milliseconds(*run.times.recover).count();
      svg += fmt::format(
          "<circle cx={:.1f} cy={:.1f} r=3.2 fill=\"{}\" fill-opacity=.6><title>{}: {:.2f} ms</title></circle>",
          x_of(ms), y, run.verdict() == Verdict::Passed ? "#1a7f37" : "#cf222e", row.scenario->id, ms);
    }
    y += kLine;
  }
  return svg + "</svg>\n";
}

}  // namespace

std::string to_html(const CampaignReport& report) {
  std::string html = "<!doctype html><html lang=en><meta charset=utf-8><title>spyre fault campaign</title><style>";
  html += kStyle;
  html += fmt::format(
      "</style><h1>spyre fault campaign: {} of {} passed</h1>\n<p>seed {}, {} run{} of each, {:.1f} s.</p>\n",
      report.passed(), report.scenarios.size(), report.seed, report.repeat, report.repeat == 1 ? "" : "s",
      std::chrono::duration<double>(report.took).count());
  html += "<h2>Five proofs</h2>\n" + matrix(report);
  html += "<h2>From the fault to the first good job</h2>\n" + recovery_picture(report);
  return html + "</html>\n";
}

}  // namespace svp::campaign
