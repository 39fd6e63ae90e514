// SPDX-License-Identifier: Apache-2.0
#include "host_driver/cli/command_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/App.hpp>
#include <CLI/Error.hpp>
#include <CLI/Option.hpp>
#include <memory>
#include <set>

#include "qemu/memory_budget.hpp"
#include "shared/units.hpp"

namespace cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<CommandLine> parsed(std::vector<const char*> words) {
  words.insert(words.begin(), "spyre");
  auto line = std::make_unique<CommandLine>();
  line->parse(static_cast<int>(words.size()), words.data());
  return line;
}

void expect_refused(const std::vector<const char*>& words, const std::string& because) {
  try {
    parsed(words);
    ADD_FAILURE() << words.back() << " was accepted";
  } catch (const CLI::ParseError& error) {
    EXPECT_NE(error.get_exit_code(), 0);
    EXPECT_THAT(error.what(), HasSubstr(because));
  }
}

// Debian 13's CLI11 refuses such a pair when the option is added, Debian 12's does not.
void expect_no_positional_named_like_an_option(CLI::App& app) {
  std::set<std::string> options;
  std::vector<CLI::App*> groups{&app};
  std::vector<std::string> positionals;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (CLI::Option* option : groups[g]->get_options()) {
      options.insert(option->get_lnames().begin(), option->get_lnames().end());
      options.insert(option->get_snames().begin(), option->get_snames().end());
      if (option->get_positional()) positionals.push_back(option->get_name(true));
    }
    for (CLI::App* nested : groups[g]->get_subcommands(nullptr)) {
      // An option group is an application without a name; its options are those of the command around it.
      if (nested->get_name().empty())
        groups.push_back(nested);
      else
        expect_no_positional_named_like_an_option(*nested);
    }
  }
  for (const std::string& name : positionals) {
    EXPECT_FALSE(options.contains(name)) << app.get_name() << ": positional " << name << " and --" << name;
  }
}

TEST(CommandLine, NoPositionalHasTheNameOfAnOption) {
  CommandLine line;
  expect_no_positional_named_like_an_option(line.app());
}

TEST(CommandLine, NumbersAndIntegersOfAnOperationAreExplainedApart) {
  CommandLine line;
  const auto text = [&](const char* op, const char* option) {
    return line.app().get_subcommand("run")->get_subcommand(op)->get_option(option)->get_description();
  };
  EXPECT_EQ(text("attention", "--number"), "in order: scale (1/sqrt(E))");
  EXPECT_EQ(text("attention", "--integer"), "in order: causal (0)");
  EXPECT_EQ(text("topk", "--integer"), "in order: k, dim (-1), index (0: int64)");
  EXPECT_EQ(text("topk", "--number"), "it takes none");
  EXPECT_EQ(text("clip", "--number"), "in order: low (-inf), high (inf)");
  EXPECT_EQ(text("clip", "--integer"), "it takes none");
  EXPECT_EQ(text("linear_fp8", "--number"), "in order: scale of x (1), scale of weight (1)");
}

TEST(CommandLine, SizesAreBinaryWithAnyCommonSuffix) {
  const auto memory = [](const char* text) {
    return parsed({"boot", "--name", "c", "--memory", text})->serve.shape.memory_bytes;
  };
  EXPECT_EQ(memory("98G"), 98 * wire::kGiB);
  EXPECT_EQ(memory("98g"), 98 * wire::kGiB);
  EXPECT_EQ(memory("98GiB"), 98 * wire::kGiB);
  EXPECT_EQ(memory("98 GB"), 98 * wire::kGiB);
  EXPECT_EQ(memory("4096M"), 4 * wire::kGiB);
  EXPECT_EQ(memory("1T"), 1024 * wire::kGiB);
  EXPECT_EQ(memory("4294967296"), 4 * wire::kGiB);
}

TEST(CommandLine, SizesThatAreNoneAreRefused) {
  for (const char* text : {"", "G", "-1G", "1.5G", "98X", "98GG", "1e9", "99999999999999999999", "99999999999E"}) {
    expect_refused({"boot", "--memory", text}, "--memory");
  }
  expect_refused({"boot", "--memory", "1k"}, "whole MiB");
  expect_refused({"boot", "--memory", "2.5G"}, "is not a whole number of a unit");
  for (const char* text : {"1M", "1G", "2G", "2049M"}) expect_refused({"boot", "--memory", text}, "too few");
  EXPECT_EQ(parsed({"boot", "--memory", "2050M"})->boot.shape.memory_bytes, svp::kLeastMemoryBytes);
  expect_refused({"boot", "--quota", "3M"}, "granules of 2 MiB");
  EXPECT_EQ(parsed({"boot", "--quota", "4M"})->serve.shape.quota_bytes, 4 * wire::kMiB);
}

TEST(CommandLine, AShapeBecomesTheCardsOptions) {
  const auto line = parsed({"boot", "--name", "card0", "--vfs", "7", "--cores", "3", "--memory", "50G", "--spares", "9",
                            "--quota", "2G", "--budget", "512M", "--array", "auto"});
  EXPECT_EQ(line->serve.name, "card0");
  const auto options = card_options(line->serve.shape, 1);
  EXPECT_EQ(options.virtual_functions, 7u);
  EXPECT_EQ(options.cores, 3u);
  EXPECT_EQ(options.memory_bytes, 50 * wire::kGiB);
  EXPECT_EQ(options.spare_slots, 9u);
  EXPECT_EQ(options.boot_arguments, "quota_mib=2048");
  EXPECT_EQ(options.populated_budget_bytes, 512 * wire::kMiB);
  EXPECT_EQ(options.array, "auto");
  EXPECT_TRUE(card_options(parsed({"boot"})->serve.shape, 1).array.empty()) << "the variable decides";
  EXPECT_EQ(parsed({"boot", "--slots", "3"})->serve.shape.spare_slots, 3u) << "its other name";
}

TEST(CommandLine, WithoutABudgetCardsShareTheMachine) {
  const auto line = parsed({"boot"});
  const auto one = card_options(line->serve.shape, 1).populated_budget_bytes;
  EXPECT_GT(one, 0u);
  EXPECT_LT(card_options(line->serve.shape, 8).populated_budget_bytes, one / 2);
}

TEST(CommandLine, NumbersOutOfRangeAreRefused) {
  expect_refused({"boot", "--vfs", "17"}, "--vfs");
  expect_refused({"boot", "--cores", "65"}, "--cores");
  expect_refused({"boot", "--spares", "201"}, "--spares");
  expect_refused({"exec", "--cards", "9", "--", "true"}, "--cards");
  expect_refused({"exec", "--cards", "0", "--", "true"}, "--cards");
}

TEST(CommandLine, BootWithoutANameIsTheEmbeddedCard) {
  const auto line = parsed({"boot", "--selftest", "--cores", "2", "--vfs", "1"});
  EXPECT_TRUE(line->boot.self_test);
  EXPECT_EQ(line->boot.shape.cores, 2u);
  EXPECT_EQ(line->boot.shape.virtual_functions, 1u);
  expect_refused({"boot", "--selftest", "--name", "card0"}, "--name");
}

TEST(CommandLine, ExecTakesEverythingBehindTheFirstDashes) {
  const auto line = parsed({"exec", "--cards", "2", "--vfs", "3", "--", "pytest", "--cards", "7", "--", "boot"});
  EXPECT_EQ(line->exec.cards, 2u);
  EXPECT_TRUE(line->exec.vfs_given);
  EXPECT_EQ(line->exec.shape.virtual_functions, 3u);
  EXPECT_THAT(line->exec.command, ElementsAre("pytest", "--cards", "7", "--", "boot"));
  EXPECT_FALSE(parsed({"exec", "--", "true"})->exec.vfs_given);
  expect_refused({"exec"}, "--");
  expect_refused({"exec", "--"}, "--");
  expect_refused({"exec", "true"}, "true");
}

TEST(CommandLine, StopAndResetNeedExactlyOneTarget) {
  EXPECT_EQ(parsed({"stop", "card0"})->stop.card, "card0");
  EXPECT_TRUE(parsed({"stop", "--all"})->stop.all);
  expect_refused({"stop"}, "");
  expect_refused({"stop", "card0", "--all"}, "");
  EXPECT_EQ(parsed({"reset", "card0", "--function", "VF2"})->reset.function, "VF2");
  EXPECT_TRUE(parsed({"reset", "card0", "--power-cycle"})->reset.power_cycle);
  EXPECT_TRUE(parsed({"reset", "card0", "--firmware"})->reset.firmware);
  EXPECT_TRUE(parsed({"reset", "card0", "--card"})->reset.card_reset);
  expect_refused({"reset", "card0", "--firmware", "--card"}, "");
  expect_refused({"reset", "card0"}, "");
  expect_refused({"reset", "card0", "--function", "PF", "--power-cycle"}, "");
  expect_refused({"reset", "--power-cycle"}, "card");
}

TEST(CommandLine, EveryRunThatCanFailLeavesABundleWhenAsked) {
  EXPECT_EQ(parsed({"fault", "run", "script.json", "--bundles", "b"})->fault_run.bundles, "b");
  EXPECT_EQ(parsed({"fault", "run", "script.json"})->fault_run.bundles, "");
  EXPECT_EQ(parsed({"replay", "file"})->replay.bundle, "file");
  expect_refused({"replay"}, "bundle");
}

TEST(CommandLine, CampaignAndSoakHandTheirWordsOn) {
  const std::vector<std::string> campaign = {"fault", "campaign", "--only", "F14,F31", "--no-such-option"};
  EXPECT_EQ(parsed({"fault", "campaign", "--only", "F14,F31", "--no-such-option"})->validation, campaign);
  EXPECT_EQ(parsed({"soak", "--help"})->validation, (std::vector<std::string>{"soak", "--help"}));
  EXPECT_EQ(parsed({"soak"})->validation, std::vector<std::string>{"soak"});
}

TEST(CommandLine, RunMatmulKnowsWhetherACardOfItsOwnWasAskedFor) {
  EXPECT_FALSE(parsed({"run", "matmul", "--m", "64"})->matmul.own_card);
  EXPECT_TRUE(parsed({"run", "matmul", "--vf", "0"})->matmul.own_card);
  EXPECT_TRUE(parsed({"run", "matmul", "--cores", "2"})->matmul.own_card);
}

}  // namespace
}  // namespace cli
