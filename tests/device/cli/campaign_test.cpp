// SPDX-License-Identifier: Apache-2.0
// `spyre fault campaign`: every scenario proves five things.
#include <gmock/gmock.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "tests/device/cli/cli_fixture.hpp"
#include "tests/mutants/mutant.hpp"

namespace svp {
namespace {

using test::Finished;
using testing::HasSubstr;

constexpr const char* kProofs[] = {"fired", "detected", "contained", "recovered", "clean"};

class Campaign : public test::Cli {};

// Each claim has a mutant, or is said to be the same check as one that has; and what the tables name is claimed.
void expect_all_covered(const nlohmann::json& scenarios) {
  std::set<std::string> rows;
  std::set<const mutants::SameCheck*> same;
  for (const auto& scenario : scenarios) {
    const std::string id = scenario["id"];
    for (const auto& claim : scenario["claims"]) {
      const auto proof = std::ranges::find(campaign::kProofs, claim["proof"].get<std::string>(),
                                           [](campaign::Proof one) { return campaign::name(one); });
      ASSERT_NE(proof, campaign::kProofs.end());
      if (!mutants::needs_cover(*proof)) continue;
      const mutants::Cover cover = mutants::cover_of(id, *proof, claim["name"].get<std::string>());
      EXPECT_TRUE(cover.own != nullptr || cover.same != nullptr)
          << id << " " << claim << ": write a mutant (tests/mutants/mutants.cpp) that this claim alone notices";
      if (cover.own != nullptr) rows.insert(mutants::name_of(*cover.own));
      if (cover.same != nullptr) same.insert(cover.same);
    }
  }
  for (const mutants::Mutant& row : mutants::all()) {
    EXPECT_TRUE(rows.contains(mutants::name_of(row))) << mutants::name_of(row) << " is no claim";
  }
  for (const mutants::SameCheck& one : mutants::same_checks()) {
    EXPECT_TRUE(same.contains(&one)) << one.scenario << " " << one.claim << " is no claim";
  }
}

void expect_passed(const nlohmann::json& scenario) {
  EXPECT_EQ(scenario["verdict"], "passed") << scenario.dump(2);
  for (const char* proof : kProofs) EXPECT_EQ(scenario[proof], true) << scenario["id"] << " " << proof;
}

TEST_F(Campaign, EveryScenarioProvesFiveThings) {
  const Finished ran = run_spyre({"fault", "campaign", "--json"}, {}, test_bounds::kCampaign);
  ASSERT_TRUE(ran.code.has_value());
  const auto json = nlohmann::json::parse(ran.output, nullptr, false);
  ASSERT_TRUE(json.is_object()) << ran.output;
  ASSERT_EQ(json["scenarios"].size(), 51u);
  for (const auto& scenario : json["scenarios"]) {
    expect_passed(scenario);
    EXPECT_TRUE(scenario["times"].contains("detect") && scenario["times"].contains("recover")) << scenario["id"];
  }
  EXPECT_EQ(ran.code, 0);
  expect_all_covered(json["scenarios"]);
}

// Those in which the engine computes.
TEST_F(Campaign, ScenariosOfTheEngineHoldOnCardsWithoutArray) {
  const Finished ran =
      run_spyre({"fault", "campaign", "--json", "--only", "F41,F42,F43,F44,F45,F46,F47,F48,F49,F50,F51"},
                {{"SPYRE_ARRAY", "off"}}, test_bounds::kCampaign);
  const auto json = nlohmann::json::parse(ran.output, nullptr, false);
  ASSERT_TRUE(json.is_object()) << ran.output;
  EXPECT_EQ(json["scenarios"].size(), 11u);
  for (const auto& scenario : json["scenarios"]) expect_passed(scenario);
  EXPECT_EQ(ran.code, 0);
}

// What is shipped leaves no check out, whoever asks.
TEST_F(Campaign, MutantsAreAnotherBuild) {
  const Finished ran = run_spyre({"fault", "campaign", "--mutate"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.output, HasSubstr("spyre-mutant"));
}

TEST_F(Campaign, WhatDoesNotExistIsRefusedByName) {
  const Finished ran = run_spyre({"fault", "campaign", "--only", "F99"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.output, HasSubstr("F99"));
}

TEST_F(Campaign, AnInterruptPrintsWhatThereIsAndAJunitFile) {
  const std::filesystem::path junit = runtime().parent_path() / "campaign.xml";
  test::Program program(spyre({"fault", "campaign", "--repeat", "100", "--only", "F2,F14", "--junit", junit.string()}),
                        environment());
  EXPECT_THAT(program.wait_for_line("F2 "), HasSubstr("passed")) << program.output();
  program.send(SIGINT);
  EXPECT_EQ(program.wait_exit(), 130);
  EXPECT_THAT(program.output(), HasSubstr("interrupted: not every scenario has run"));
  std::ostringstream text;
  text << std::ifstream(junit).rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("<testsuite name=\"spyre fault campaign\""));
  EXPECT_THAT(text.str(), HasSubstr("name=\"F2 "));
  EXPECT_THAT(left_in_runtime_folder(), testing::IsEmpty());
}

}  // namespace
}  // namespace svp
