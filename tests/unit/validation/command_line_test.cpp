// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/command_line.hpp"

#include <gtest/gtest.h>

#include <CLI/Error.hpp>
#include <memory>
#include <vector>

namespace validation {
namespace {

std::unique_ptr<CommandLine> parsed(std::vector<const char*> words) {
  words.insert(words.begin(), "spyre-validation");
  auto command = std::make_unique<CommandLine>();
  command->parse(static_cast<int>(words.size()), words.data());
  return command;
}

TEST(ValidationCommandLine, TakesTheWordsOfSpyre) {
  const auto campaign = parsed({"fault", "campaign", "--seed", "7", "--only", "F14,F31", "--repeat", "2", "--json",
                                "--html", "page", "--bundles", "b"});
  EXPECT_EQ(campaign->fault_campaign.seed, 7u);
  EXPECT_EQ(campaign->fault_campaign.only, (std::vector<std::string>{"F14", "F31"}));
  EXPECT_EQ(campaign->fault_campaign.repeat, 2u);
  EXPECT_TRUE(campaign->fault_campaign.json);
  EXPECT_EQ(campaign->fault_campaign.html, "page");
  EXPECT_EQ(campaign->fault_campaign.bundles, "b");
  const auto soak = parsed({"soak", "--minutes", "0.5", "--seed", "3", "--until-complaint", "--bundles", "b"});
  EXPECT_EQ(soak->soak.minutes, 0.5);
  EXPECT_EQ(soak->soak.seed, 3u);
  EXPECT_TRUE(soak->soak.until_complaint);
  EXPECT_EQ(soak->soak.bundles, "b");
  EXPECT_EQ(parsed({"replay", "file"})->bundle, "file");
}

TEST(ValidationCommandLine, RefusesWhatItDoesNotKnow) {
  const std::vector<std::vector<const char*>> wrong = {
      {},       {"fault"},  {"fault", "campaign", "--repeat", "0"}, {"soak", "--minutes", "0"},
      {"boot"}, {"replay"}, {"soak", "--no-such-option"},           {"fault-tenant", "card", "VF1", "sleep", "1"}};
  for (const auto& words : wrong) EXPECT_THROW(parsed(words), CLI::ParseError);
}

}  // namespace
}  // namespace validation
