// SPDX-License-Identifier: Apache-2.0
// Two runs side by side: what is exact must be equal, what is not is only shown.
#include "host_driver/bundle/figures.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace svp::bundle {
namespace {

using testing::HasSubstr;

std::optional<Rule> rule_of(std::string_view group, std::string_view name) {
  if (group != "run") return std::nullopt;
  return Rule{name != "rounds", name != "rounds" ? "decided" : "as threads were scheduled"};
}

Figures run(std::uint64_t wrong, std::uint64_t rounds) {
  return {{"run", "verdict", "FAILED"}, {"run", "wrong", wrong}, {"run", "rounds", rounds}};
}

Match match_of(const std::vector<Row>& rows, std::string_view name) {
  for (const Row& row : rows) {
    if (row.name == name) return row.match;
  }
  ADD_FAILURE() << name;
  return Match::Differs;
}

TEST(Figures, EqualRunsAreTheSame) { EXPECT_TRUE(same(compare(run(1, 8), run(1, 8), rule_of))); }

TEST(Figures, WhatDependsOnThreadsIsShownAndNotJudged) {
  const auto rows = compare(run(1, 8), run(1, 9), rule_of);
  EXPECT_EQ(match_of(rows, "rounds"), Match::NotComparable);
  EXPECT_TRUE(same(rows));
  EXPECT_THAT(to_table(rows), HasSubstr("not comparable: as threads were scheduled"));
}

TEST(Figures, AnExactFigureThatDiffersIsAnotherRun) {
  const auto rows = compare(run(1, 8), run(2, 8), rule_of);
  EXPECT_EQ(match_of(rows, "wrong"), Match::Differs);
  EXPECT_EQ(match_of(rows, "verdict"), Match::Same);
  EXPECT_FALSE(same(rows));
}

TEST(Figures, AnExactFigureOfOneRunOnlyDiffers) {
  auto less = run(1, 8);
  less.erase(less.begin() + 1);
  EXPECT_FALSE(same(compare(less, run(1, 8), rule_of)));
  EXPECT_FALSE(same(compare(run(1, 8), less, rule_of)));
}

TEST(Figures, ANumberIsNotItsText) {
  const Figures before = {{"run", "wrong", "1"}};
  const Figures now = {{"run", "wrong", std::uint64_t{1}}};
  EXPECT_FALSE(same(compare(before, now, rule_of)));
}

TEST(Figures, AFigureWithoutARuleDiffers) {
  Figures more = run(1, 8);
  more.push_back({"elsewhere", "wrong", std::uint64_t{1}});
  EXPECT_FALSE(same(compare(more, more, rule_of)));
}

TEST(Figures, RunsWithNothingToCompareAreNotTheSame) {
  EXPECT_FALSE(same(compare({}, {}, rule_of)));
  const Figures rounds = {{"run", "rounds", std::uint64_t{8}}};
  EXPECT_FALSE(same(compare(rounds, rounds, rule_of)));
}

}  // namespace
}  // namespace svp::bundle
