// SPDX-License-Identifier: Apache-2.0
#include "host_driver/bundle/figures.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace svp::bundle {

namespace {

const Figure* find(const Figures& figures, std::string_view group, std::string_view name) {
  const auto found =
      std::ranges::find_if(figures, [&](const Figure& one) { return one.group == group && one.name == name; });
  return found == figures.end() ? nullptr : &*found;
}

std::optional<Value> value_of(const Figure* figure) {
  return figure == nullptr ? std::nullopt : std::optional(figure->value);
}

Row judged(const Figure& figure, const Figure* before, const Figure* now, const RuleOf& rule_of) {
  Row row{.group = figure.group,
          .name = figure.name,
          .before = value_of(before),
          .now = value_of(now),
          .match = Match::Differs,
          .reason = "no rule for this figure"};
  if (const auto rule = rule_of(figure.group, figure.name)) {
    row.reason = rule->reason;
    if (!rule->exact) {
      row.match = Match::NotComparable;
    } else if (row.before == row.now) {
      row.match = Match::Same;
    }
  }
  return row;
}

// Long texts (an error with its advice) are for the file; a table has room for so much of one.
std::string cell(const std::optional<Value>& value, std::size_t width) {
  std::string text = value ? to_string(*value) : "-";
  std::ranges::replace_if(text, [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  if (text.size() > width) text = text.substr(0, width - 3) + "...";
  return text;
}

}  // namespace

std::string to_string(const Value& value) {
  if (const auto* number = std::get_if<std::uint64_t>(&value)) return std::to_string(*number);
  return std::get<std::string>(value);
}

std::vector<Row> compare(const Figures& before, const Figures& now, const RuleOf& rule_of) {
  std::vector<Row> rows;
  for (const Figure& figure : now) {
    rows.push_back(judged(figure, find(before, figure.group, figure.name), &figure, rule_of));
  }
  for (const Figure& figure : before) {
    if (find(now, figure.group, figure.name) == nullptr) rows.push_back(judged(figure, &figure, nullptr, rule_of));
  }
  return rows;
}

bool same(const std::vector<Row>& rows) {
  const auto is = [](Match match) { return [match](const Row& row) { return row.match == match; }; };
  return std::ranges::none_of(rows, is(Match::Differs)) && std::ranges::any_of(rows, is(Match::Same));
}

std::string to_table(const std::vector<Row>& rows) {
  constexpr std::size_t kName = 60, kValue = 20;
  std::string text = fmt::format("{:<60}  {:<20}  {:<20}  {}\n", "figure", "before", "now", "");
  for (const Row& row : rows) {
    text += fmt::format("{:<60}  {:<20}  {:<20}  {}: {}\n", cell(row.group + ": " + row.name, kName),
                        cell(row.before, kValue), cell(row.now, kValue), name(row.match), row.reason);
  }
  return text;
}

}  // namespace svp::bundle
