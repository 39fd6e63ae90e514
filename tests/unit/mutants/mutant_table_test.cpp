// SPDX-License-Identifier: Apache-2.0
// The tables of tests/mutants by themselves. That every claim of the campaign is in one of them needs cards
// (tests/device/cli/campaign_test.cpp).
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/mutants/mutant.hpp"

namespace mutants {
namespace {

TEST(MutantTable, ARowIsOfOneClaimAndOneCheck) {
  std::set<std::string> names;
  for (const Mutant& row : all()) {
    EXPECT_TRUE(names.insert(name_of(row)).second) << name_of(row) << " stands there twice";
    EXPECT_FALSE(row.claim.empty()) << name_of(row);
    EXPECT_FALSE(row.what.empty()) << name_of(row);
    EXPECT_TRUE(needs_cover(row.proof)) << name_of(row);
    EXPECT_NE(row.card == fw::Mutant::None, row.driver == svp::HostMutant::None) << name_of(row);
  }
}

TEST(MutantTable, EachCheckThatCanBeLeftOutIs) {
  std::set<fw::Mutant> card;
  std::set<svp::HostMutant> driver;
  for (const Mutant& row : all()) {
    card.insert(row.card);
    driver.insert(row.driver);
  }
  EXPECT_EQ(card.size(), static_cast<std::size_t>(fw::Mutant::Last) + (card.contains(fw::Mutant::None) ? 1 : 0));
  EXPECT_EQ(driver.size(),
            static_cast<std::size_t>(svp::HostMutant::Last) + (driver.contains(svp::HostMutant::None) ? 1 : 0));
}

TEST(MutantTable, TheSameCheckIsARowsAndHasAReason) {
  for (const SameCheck& same : same_checks()) {
    ASSERT_EQ(find(same.row).size(), 1u) << same.row;
    const Mutant& row = *find(same.row).front();
    EXPECT_FALSE(same.why.empty()) << same.row;
    EXPECT_TRUE(same.apart || same.scenario == row.scenario) << same.row << " cannot fail " << same.claim;
    EXPECT_TRUE(same.proof == row.proof || same.apart || (row.also & only(same.proof)) != 0)
        << same.row << " may not fail " << same.claim;
  }
}

TEST(MutantTable, OneStarStandsForAnything) {
  const SameCheck same{.row = {}, .scenario = "F17", .proof = Proof::Detected, .claim = "queue-reset/*/1", .why = {}};
  EXPECT_TRUE(names(same, "F17", Proof::Detected, "queue-reset/10ms/1"));
  EXPECT_FALSE(names(same, "F17", Proof::Detected, "queue-reset/10ms/16"));
  EXPECT_FALSE(names(same, "F17", Proof::Detected, "queue-reset/1"));
  EXPECT_FALSE(names(same, "F17", Proof::Contained, "queue-reset/10ms/1"));
  EXPECT_FALSE(names(same, "F18", Proof::Detected, "queue-reset/10ms/1"));
}

TEST(MutantTable, AClaimThatNobodyNamesHasNoCover) {
  const Cover cover = cover_of("F7", Proof::Detected, "a claim that is new");
  EXPECT_EQ(cover.own, nullptr);
  EXPECT_EQ(cover.same, nullptr);
}

}  // namespace
}  // namespace mutants
