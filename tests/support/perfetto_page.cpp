// SPDX-License-Identifier: Apache-2.0
#include "tests/support/perfetto_page.hpp"

#include <algorithm>
#include <set>

namespace svp::test {

using nlohmann::json;

namespace {

// Times are written with three digits behind the point.
constexpr double kRounding = 0.0021;

bool has_numbers(const json& event, std::initializer_list<const char*> members) {
  return std::ranges::all_of(members,
                             [&](const char* member) { return event.contains(member) && event[member].is_number(); });
}

std::string problem_of(const json& event) {
  if (!event.is_object() || !event.contains("ph") || !event["ph"].is_string()) return "no phase";
  const std::string phase = event["ph"];
  if (!event.contains("name") || !event["name"].is_string()) return "no name";
  if (!has_numbers(event, {"pid"})) return "no process";
  if (phase == "M") return event.contains("args") ? "" : "a name without arguments";
  if (!has_numbers(event, {"tid", "ts"})) return "no track or no time";
  if (event["ts"] < 0) return "before the first entry";
  if (phase == "X") return has_numbers(event, {"dur"}) && event["dur"] >= 0 ? "" : "no duration";
  if (phase == "i") return event.value("s", "") == "t" ? "" : "no scope";
  if (phase == "b" || phase == "e" || phase == "s" || phase == "t" || phase == "f") {
    return has_numbers(event, {"id"}) && event.contains("cat") ? "" : "no id or no category";
  }
  return "unknown phase";
}

}  // namespace

PerfettoPage::PerfettoPage(const std::string& text) : page_(json::parse(text)) {
  for (const json& event : page_.at("traceEvents")) {
    if (!problem_of(event).empty()) continue;
    const std::string phase = event["ph"];
    if (phase == "M" && event["name"] == "thread_name") names_[track_of(event)] = event["args"]["name"];
    if (phase != "X") continue;
    const double begin = event["ts"];
    intervals_[track_of(event)].push_back({event["name"], begin, begin + event["dur"].get<double>(), event["args"]});
  }
  for (auto& [track, intervals] : intervals_) {
    std::ranges::sort(intervals, [](const Interval& a, const Interval& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
    });
  }
}

std::string PerfettoPage::problems() const {
  std::string found;
  std::map<std::uint64_t, int> open;
  for (const json& event : page_.at("traceEvents")) {
    if (const std::string problem = problem_of(event); !problem.empty()) {
      found += problem + ": " + event.dump() + "\n";
      continue;
    }
    const std::string phase = event["ph"];
    if (phase == "b") ++open[event["id"]];
    if (phase == "e") --open[event["id"]];
    if (phase != "s" && phase != "t" && phase != "f") continue;
    const double at = event["ts"];
    const auto on_track = intervals_.find(track_of(event));
    const bool inside = on_track != intervals_.end() && std::ranges::any_of(on_track->second, [&](const Interval& i) {
                          return i.begin - kRounding <= at && at <= i.end + kRounding;
                        });
    if (!inside) found += "an arrow outside of an interval: " + event.dump() + "\n";
  }
  for (const auto& [id, count] : open) {
    if (count != 0) found += "interval " + std::to_string(id) + " does not end once\n";
  }
  for (const auto& [track, intervals] : intervals_) {
    std::vector<double> ends;
    for (const Interval& interval : intervals) {
      while (!ends.empty() && ends.back() <= interval.begin + kRounding) ends.pop_back();
      if (!ends.empty() && interval.end > ends.back() + kRounding) {
        const auto name = names_.find(track);
        found += "\"" + interval.name + "\" overlaps another interval of " +
                 (name != names_.end() ? name->second : "a track without a name") + "\n";
      }
      ends.push_back(interval.end);
    }
  }
  return found;
}

std::string PerfettoPage::process_name(std::uint64_t process) const {
  for (const json& event : page_.at("traceEvents")) {
    if (event["ph"] == "M" && event["name"] == "process_name" && event["pid"] == process) return event["args"]["name"];
  }
  return {};
}

PerfettoPage::Track PerfettoPage::track(const std::string& name) const {
  for (const auto& [track, its_name] : names_) {
    if (its_name == name) return track;
  }
  return {0, 0};
}

std::vector<PerfettoPage::Track> PerfettoPage::tracks(const std::string& beginning) const {
  std::vector<Track> found;
  for (const auto& [track, name] : names_) {
    if (name.starts_with(beginning)) found.push_back(track);
  }
  return found;
}

std::vector<PerfettoPage::Interval> PerfettoPage::intervals(Track track) const {
  const auto found = intervals_.find(track);
  return found != intervals_.end() ? found->second : std::vector<Interval>{};
}

std::vector<PerfettoPage::Interval> PerfettoPage::intervals_named(const std::string& beginning) const {
  std::vector<Interval> found;
  for (const auto& [track, intervals] : intervals_) {
    for (const Interval& interval : intervals) {
      if (interval.name.starts_with(beginning)) found.push_back(interval);
    }
  }
  return found;
}

std::vector<std::string> PerfettoPage::instants(Track track) const {
  std::vector<std::string> found;
  for (const json& event : page_.at("traceEvents")) {
    if (event["ph"] == "i" && track_of(event) == track) found.push_back(event["name"]);
  }
  return found;
}

std::vector<std::string> PerfettoPage::arrows() const {
  std::map<std::uint64_t, std::string> found;
  for (const json& event : page_.at("traceEvents")) {
    const std::string phase = event["ph"];
    if (phase != "s" && phase != "t" && phase != "f") continue;
    const auto name = names_.find(track_of(event));
    std::string& arrow = found[event["id"]];
    arrow += (arrow.empty() ? "" : " ") + phase + "@" + (name != names_.end() ? name->second : "?");
  }
  std::vector<std::string> all;
  for (auto& [id, arrow] : found) all.push_back(std::move(arrow));
  return all;
}

std::vector<std::string> PerfettoPage::waits() const {
  std::vector<std::string> found;
  for (const json& event : page_.at("traceEvents")) {
    if (event["ph"] == "b") found.push_back(event["name"]);
  }
  return found;
}

}  // namespace svp::test
