// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/card/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tests/bench/card/statistics.hpp"

namespace bench {

namespace {

std::string scaled(double value, std::array<const char*, 4> units, double step) {
  std::size_t unit = 0;
  while (unit + 1 < units.size() && value >= step) {
    value /= step;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, units[unit]);
}

std::string format_ratio(double ratio) { return fmt::format("{:.{}f}x", ratio, ratio < 0.1 ? 4 : ratio < 10 ? 2 : 1); }

std::string format_spread(const std::vector<double>& ratios) {
  if (ratios.empty()) return "";
  const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
  return fmt::format("{}..{}", format_ratio(*low), format_ratio(*high));
}

std::string format_goal(const std::optional<Goal>& goal) {
  if (!goal) return "";
  return fmt::format("{} {:g}x", goal->sense == Goal::Sense::AtMost ? "<=" : ">=", goal->bound);
}

std::string verdict(const Row& row) {
  if (!row.limit.empty() && row.limits.empty()) return "no peer";
  if (!row.goal) return "";
  return row.goal->met(median(row.ratios())) ? "met" : "MISSED";
}

const char* name(Unit unit) {
  switch (unit) {
    case Unit::Nanoseconds: return "ns";
    case Unit::BytesPerSecond: return "B/s";
    case Unit::PerSecond: return "1/s";
    case Unit::Bytes: return "B";
  }
  return "";
}

std::vector<double> ratios_of(const std::vector<double>& ours, const std::vector<double>& limits) {
  std::vector<double> out;
  for (std::size_t i = 0; i < std::min(ours.size(), limits.size()); ++i) out.push_back(ours[i] / limits[i]);
  return out;
}

std::string format_without_array(const Row& row) {
  if (row.ours_without_array.empty()) return "";
  const std::string ours = format_value(median(row.ours_without_array), row.unit);
  const auto ratios = ratios_of(row.ours_without_array, row.limits_without_array);
  return ratios.empty() ? ours : fmt::format("{}, {}", ours, format_ratio(median(ratios)));
}

using Cells = std::array<std::string, 10>;

Cells cells_of(const Row& row) {
  const auto ratios = row.ratios();
  const std::string limit =
      row.limits.empty() ? row.limit : fmt::format("{} ({})", format_value(median(row.limits), row.unit), row.limit);
  return {row.id,
          row.what,
          format_value(median(row.ours), row.unit),
          limit,
          ratios.empty() ? "" : format_ratio(median(ratios)),
          format_goal(row.goal),
          verdict(row),
          format_spread(ratios),
          format_without_array(row),
          row.checked};
}

}  // namespace

std::string format_value(double value, Unit unit) {
  switch (unit) {
    case Unit::Nanoseconds: return scaled(value, {"ns", "us", "ms", "s"}, 1000);
    case Unit::BytesPerSecond: return scaled(value / 1e6, {"MB/s", "GB/s", "TB/s", "PB/s"}, 1000);
    case Unit::PerSecond: return scaled(value, {"/s", "k/s", "M/s", "G/s"}, 1000);
    case Unit::Bytes: return scaled(value, {"B", "KiB", "MiB", "GiB"}, 1024);
  }
  return "";
}

std::vector<double> Row::ratios() const { return ratios_of(ours, limits); }

void Report::add(Row row) {
  if (row.ours.empty()) throw std::logic_error("no sample of " + row.what);
  rows_.push_back(std::move(row));
}
void Report::add_without_array(Row row) {
  const auto same = [&](const Row& other) {
    return other.id == row.id && other.what == row.what && other.limit == row.limit;
  };
  const auto found = std::ranges::find_if(rows_, same);
  if (found == rows_.end() || row.ours.empty()) throw std::logic_error("nothing to compare with: " + row.what);
  found->ours_without_array = std::move(row.ours);
  found->limits_without_array = std::move(row.limits);
}
void Report::fail(std::string id, std::string why) { failures_.push_back({std::move(id), std::move(why)}); }
void Report::note(std::string text) {
  if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(std::move(text));
}

std::string summary(const Row& row) {
  const auto cells = cells_of(row);
  return fmt::format("{} {}: {}{} {}", cells[0], cells[1], cells[2], cells[4].empty() ? "" : ", " + cells[4], cells[6]);
}

std::string Report::table() const {
  std::vector<Cells> lines{{"id", "what", "ours", "limit or peer, same run", "ratio", "goal", "", "spread",
                            "without array", "data checked"}};
  for (const Row& row : rows_) lines.push_back(cells_of(row));
  std::array<std::size_t, std::tuple_size_v<Cells>> width{};
  for (const Cells& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) width[c] = std::max(width[c], line[c].size());
  }
  std::string text;
  const auto rule = [&] {
    for (const std::size_t w : width) text += "|" + std::string(w + 2, '-');
    text += "|\n";
  };
  for (const Cells& line : lines) {
    for (std::size_t c = 0; c < line.size(); ++c) text += fmt::format("| {:<{}} ", line[c], width[c]);
    text += "|\n";
    if (&line == &lines.front()) rule();
  }
  for (const Failure& failure : failures_) text += fmt::format("\nFAILED {}: {}\n", failure.id, failure.why);
  text += "\n";
  for (const std::string& note : notes_) text += "* " + note + "\n";
  return text;
}

nlohmann::ordered_json Report::json() const {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Row& row : rows_) {
    nlohmann::ordered_json out{{"id", row.id},           {"what", row.what},
                               {"unit", name(row.unit)}, {"ours", median(row.ours)},
                               {"rounds", row.ours},     {"checked", row.checked}};
    if (!row.limit.empty()) out["limit"] = row.limit;
    if (!row.ours_without_array.empty()) {
      out["without_array"] = {{"rounds", row.ours_without_array}, {"limit_rounds", row.limits_without_array}};
    }
    if (!row.limits.empty()) {
      out["limit_value"] = median(row.limits);
      out["limit_rounds"] = row.limits;
      out["ratio"] = median(row.ratios());
      out["ratio_rounds"] = row.ratios();
    }
    if (row.goal) {
      out["goal"] = {{"sense", row.goal->sense == Goal::Sense::AtMost ? "at most" : "at least"},
                     {"ratio", row.goal->bound}};
      if (!row.limits.empty()) out["met"] = row.goal->met(median(row.ratios()));
    }
    rows.push_back(std::move(out));
  }
  nlohmann::ordered_json failures = nlohmann::ordered_json::array();
  for (const Failure& failure : failures_) failures.push_back({{"id", failure.id}, {"why", failure.why}});
  return {{"rows", std::move(rows)}, {"failures", std::move(failures)}, {"notes", notes_}};
}

}  // namespace bench
