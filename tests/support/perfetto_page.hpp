// SPDX-License-Identifier: Apache-2.0
// A page of `spyre trace` as a reader of the trace event format sees it, and whether it follows that format.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace svp::test {

class PerfettoPage {
 public:
  using Track = std::pair<std::uint64_t, std::uint64_t>;  // process, thread
  struct Interval {
    std::string name;
    double begin;  // microseconds
    double end;
    nlohmann::json arguments;
  };

  explicit PerfettoPage(const std::string& text);

  // What does not follow the format, a line each: members that are missing or of another type, intervals of a track
  // that neither nest nor follow each other, ends without beginnings, arrows outside of intervals.
  std::string problems() const;

  std::string process_name(std::uint64_t process) const;
  // The first track with that name; {0, 0}: none.
  Track track(const std::string& name) const;
  // All that begin so, of all processes.
  std::vector<Track> tracks(const std::string& beginning) const;
  // By their begin.
  std::vector<Interval> intervals(Track track) const;
  std::vector<Interval> intervals_named(const std::string& beginning) const;  // of all tracks
  std::vector<std::string> instants(Track track) const;
  // "s@thread 1 t@stream 4 f@stream 4", in the order of their numbers.
  std::vector<std::string> arrows() const;
  // Names of the intervals before blocks, by the order of the page.
  std::vector<std::string> waits() const;
  const nlohmann::json& other() const { return page_.at("otherData"); }

 private:
  static Track track_of(const nlohmann::json& event) { return {event.at("pid"), event.at("tid")}; }

  nlohmann::json page_;
  std::map<Track, std::string> names_;
  std::map<Track, std::vector<Interval>> intervals_;
};

}  // namespace svp::test
