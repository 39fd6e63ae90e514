// SPDX-License-Identifier: Apache-2.0
// What the bench says: one row per figure, for people and as JSON.
//
// A row is measured in rounds; in each round ours and its limit stand side by side, and the ratio is taken within the
// round, so that a machine that slows down for a while moves both. The row's ratio is the median of the rounds' ratios.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace bench {

enum class Unit { Nanoseconds, BytesPerSecond, PerSecond, Bytes };

struct Goal {
  enum class Sense { AtMost, AtLeast } sense = Sense::AtMost;
  double bound = 0;  // of the ratio ours / limit
  bool met(double ratio) const { return sense == Sense::AtMost ? ratio <= bound : ratio >= bound; }
};
constexpr Goal at_most(double bound) { return {Goal::Sense::AtMost, bound}; }
constexpr Goal at_least(double bound) { return {Goal::Sense::AtLeast, bound}; }

struct Row {
  std::string id;  // "P2"
  std::string what;
  Unit unit = Unit::Nanoseconds;
  std::string limit;  // what it is held against; empty: a figure without a limit
  std::optional<Goal> goal{};
  std::string checked;  // how the data were checked
  std::vector<double> ours{};
  std::vector<double> limits{};  // as many as `ours`, or empty: the peer is missing
  // The same on cards without the compute array, measured behind it (Report::add_without_array()).
  std::vector<double> ours_without_array{};
  std::vector<double> limits_without_array{};

  void add(double ours_now, double limit_now) {
    ours.push_back(ours_now);
    limits.push_back(limit_now);
  }
  std::vector<double> ratios() const;
};

class Report {
 public:
  // A row without a single sample is not a row: throws std::logic_error.
  void add(Row row);
  // Adds the samples to the row of this name; throws std::logic_error when there is none.
  void add_without_array(Row row);
  // The measurement of `id` did not come to an end, or its data were wrong.
  void fail(std::string id, std::string why);
  // Said under the table: conditions, missing peers.
  void note(std::string text);

  bool failed() const { return !failures_.empty(); }
  std::string table() const;
  nlohmann::ordered_json json() const;

 private:
  struct Failure {
    std::string id;
    std::string why;
  };
  std::vector<Row> rows_;
  std::vector<Failure> failures_;
  std::vector<std::string> notes_;
};

std::string format_value(double value, Unit unit);
// One line for progress: what was found, while the next figure is being measured.
std::string summary(const Row& row);

}  // namespace bench
