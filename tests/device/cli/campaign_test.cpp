// SPDX-License-Identifier: Apache-2.0
// `spyre fault campaign`: every scenario proves five things.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/device/cli/cli_fixture.hpp"

namespace flex {
namespace {

using test::Finished;
using testing::HasSubstr;

constexpr const char* kProofs[] = {"fired", "detected", "contained", "recovered", "clean"};

class Campaign : public test::Cli {};

TEST_F(Campaign, FortyScenariosProveFiveThingsEach) {
  const Finished ran = run_spyre({"fault", "campaign", "--json"});
  ASSERT_TRUE(ran.code.has_value());
  const auto json = nlohmann::json::parse(ran.output, nullptr, false);
  ASSERT_TRUE(json.is_object()) << ran.output;
  ASSERT_EQ(json["scenarios"].size(), 40u);
  for (const auto& scenario : json["scenarios"]) {
    EXPECT_EQ(scenario["verdict"], "passed") << scenario.dump(2);
    for (const char* proof : kProofs) EXPECT_EQ(scenario[proof], true) << scenario["id"] << " " << proof;
    EXPECT_TRUE(scenario["times"].contains("detect") && scenario["times"].contains("recover")) << scenario["id"];
  }
  EXPECT_EQ(ran.code, 0);
}

// What is shipped leaves no check out, whoever asks.
TEST_F(Campaign, MutantsAreAnotherBuild) {
  const Finished ran = run_spyre({"fault", "campaign", "--mutate"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.output, HasSubstr("spyre-mutant"));
}

TEST_F(Campaign, WhatDoesNotExistIsRefusedByName) {
  const Finished ran = run_spyre({"fault", "campaign", "--only", "F41"});
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.output, HasSubstr("F41"));
}

TEST_F(Campaign, AFailureBundleIsReplayedToTheSameOutcomes) {
  const auto folder = runtime().parent_path();
  const auto file = folder / "F14-seed-7.spyre-bundle.json";
  // As a run that failed would have left it, with what a run that passes shows: the comparison is what is tested.
  std::ofstream(file) << R"({"format": "spyre-failure-bundle", "format_version": 1, "scenario": "F14", "seed": 7,
    "verdict": "passed", "proofs": "+++++", "outcomes": {"OK, none": 3, "TIMEOUT, watchdog expired": 1,
    "FAULT, stopped by its owner": 1}})";
  const Finished same = run_spyre({"replay", file.string()});
  EXPECT_EQ(same.code, 0) << same.output;
  std::ofstream(file, std::ios::trunc) << R"({"format": "spyre-failure-bundle", "format_version": 1, "scenario": "F14",
    "seed": 7, "verdict": "failed", "proofs": "+-+++", "outcomes": {}})";
  const Finished other = run_spyre({"replay", file.string()});
  EXPECT_EQ(other.code, 1) << other.output;
  std::ofstream(file, std::ios::trunc) << "{}";
  EXPECT_EQ(run_spyre({"replay", file.string()}).code, 2);
}

}  // namespace
}  // namespace flex
