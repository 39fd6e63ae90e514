// SPDX-License-Identifier: Apache-2.0
// `spyre fault campaign`: every scenario proves five things.
#include <gmock/gmock.h>

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

}  // namespace
}  // namespace flex
