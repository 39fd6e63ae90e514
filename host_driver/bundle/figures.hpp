// SPDX-License-Identifier: Apache-2.0
// What a run showed, as named figures, and the comparison of two runs of the same script and seed.
//
// A run is a real card with real threads. A figure that the script and the seed decide is *exact*: a second run shows
// the same value, or it was another run. A figure that also depends on how threads were scheduled (times, occurrences
// counted, rounds until the end) is shown beside the other run's and never judged. Which is which is decided by the
// code of each kind of run, figure by figure and with a reason, never by the file that is replayed.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace svp::bundle {

using Value = std::variant<std::uint64_t, std::string>;
std::string to_string(const Value& value);

struct Figure {
  std::string group;  // "run", "fault 0", "VF1 blocks"
  std::string name;   // unique in its group
  Value value;
};
using Figures = std::vector<Figure>;

struct Rule {
  bool exact = false;
  std::string_view reason;  // why; static storage
};
// Empty: this kind of run has no such figure.
using RuleOf = std::function<std::optional<Rule>(std::string_view group, std::string_view name)>;

enum class Match : std::uint8_t { Same, Differs, NotComparable };
constexpr std::string_view name(Match match) {
  constexpr std::string_view kNames[] = {"same", "differs", "not comparable"};
  return kNames[static_cast<std::size_t>(match)];
}

struct Row {
  std::string group;
  std::string name;
  std::optional<Value> before;  // empty: this run did not show it
  std::optional<Value> now;
  Match match = Match::Differs;
  std::string_view reason;
};

// One row per figure of either run, in the order of `now`, then those of `before` alone. An exact figure that one of
// the runs does not have differs. A figure without a rule differs: nobody has said that it may.
std::vector<Row> compare(const Figures& before, const Figures& now, const RuleOf& rule_of);
// No row differs, and at least one was compared.
bool same(const std::vector<Row>& rows);
std::string to_table(const std::vector<Row>& rows);

}  // namespace svp::bundle
