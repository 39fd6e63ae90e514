// SPDX-License-Identifier: Apache-2.0
// How the command line writes: colours, characters, JSON; suggestions, manual pages and completion.
#include "host_driver/cli/output.hpp"

#include <gmock/gmock.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "host_driver/cli/command_line.hpp"
#include "host_driver/cli/manual.hpp"
#include "host_driver/cli/progress.hpp"
#include "host_driver/cli/suggestions.hpp"
#include "host_driver/cli/timeline.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace cli {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(Style, ColorsFollowTheOptionThenNoColorThenTheTerminal) {
  const OutputEnvironment terminal{.terminal = true};
  EXPECT_TRUE(style_for(ColorMode::Auto, terminal).color);
  EXPECT_FALSE(style_for(ColorMode::Never, terminal).color);
  EXPECT_FALSE(style_for(ColorMode::Auto, {.terminal = false}).color);
  EXPECT_TRUE(style_for(ColorMode::Always, {.terminal = false, .no_color = "1"}).color);
  EXPECT_FALSE(style_for(ColorMode::Auto, {.terminal = true, .no_color = "1"}).color);
  EXPECT_TRUE(style_for(ColorMode::Auto, {.terminal = true, .no_color = ""}).color) << "empty means: not set";
  EXPECT_FALSE(style_for(ColorMode::Auto, {.terminal = true, .term = "dumb"}).color);
}

TEST(Style, WithoutUtf8ThereIsOnlyAscii) {
  const auto unicode = [](const char* locale) { return style_for(ColorMode::Auto, {.locale = locale}).unicode; };
  EXPECT_TRUE(unicode("C.UTF-8"));
  EXPECT_TRUE(unicode("de_DE.utf8@euro"));
  EXPECT_FALSE(unicode("C"));
  EXPECT_FALSE(unicode("de_DE.ISO-8859-1"));
  EXPECT_FALSE(unicode(nullptr));
  const Style ascii{};
  const std::vector<Bar> bars = {{.name = "DMA 0", .end_us = 10, .bytes = 4096},
                                 {.name = "Compute 0", .start_us = 10, .end_us = 11, .wide = true}};
  const std::string text = draw_timeline(bars, 40, ascii) + draw_boot({{"memory", 1}, {"ready", 2}}, 3, ascii);
  for (const char c : text) EXPECT_LT(static_cast<unsigned char>(c), 0x80) << text;
  EXPECT_THAT(text, HasSubstr("us"));
}

TEST(Json, ErrorsHaveTheMembersThatTheTextHas) {
  const auto json = error_json(svp::refused_by_driver("card0", "there is no card0", "boot it"));
  EXPECT_EQ(json["error"]["source"], "card0");
  EXPECT_EQ(json["error"]["message"], "there is no card0");
  EXPECT_EQ(json["error"]["next_step"], "boot it");
  EXPECT_EQ(json["error"]["outcome"], "REJECTED");
  const char* const asked[] = {"spyre", "devices", "--json"};
  const char* const of_another[] = {"spyre", "exec", "--", "spyre", "--json"};
  EXPECT_TRUE(asks_for_json(3, asked));
  EXPECT_FALSE(asks_for_json(5, of_another));
}

TEST(Suggestions, ANearWordIsFoundAndAFarOneIsNot) {
  const std::vector<std::string> known = {"devices", "debug", "reset", "replay"};
  EXPECT_EQ(nearest("devics", known), "devices");
  EXPECT_EQ(nearest("dbeug", known), "debug");
  EXPECT_EQ(nearest("resett", known), "reset");
  EXPECT_EQ(nearest("x", known), std::nullopt);
  EXPECT_EQ(nearest("", known), std::nullopt);
  EXPECT_EQ(nearest("matmul", known), std::nullopt);
}

std::string unknown(const std::vector<std::string>& words) {
  const auto line = std::make_unique<CommandLine>();
  return unknown_word(line->app(), words);
}

TEST(Suggestions, TheFirstUnknownWordOfACommandLineIsNamed) {
  EXPECT_THAT(unknown({"devics"}), HasSubstr("did you mean 'devices'"));
  EXPECT_THAT(unknown({"run", "matmull", "--m", "3"}), HasSubstr("did you mean 'matmul'"));
  EXPECT_THAT(unknown({"run", "matmul", "--cors", "3"}), HasSubstr("did you mean '--cores'"));
  EXPECT_THAT(unknown({"boot", "--name", "devics", "--vfss", "3"}), HasSubstr("'--vfss'; did you mean '--vfs'"));
  EXPECT_THAT(unknown({"fault", "run", "--color", "never", "x.json"}), IsEmpty()) << "known everywhere";
  EXPECT_THAT(unknown({"stop", "anything"}), IsEmpty()) << "a positional";
  EXPECT_THAT(unknown({"exec", "--", "--nonsense"}), IsEmpty()) << "somebody else's words";
}

TEST(Help, IsACommandToo) {
  const auto message = [](std::vector<const char*> words) {
    words.insert(words.begin(), "spyre");
    const auto line = std::make_unique<CommandLine>();
    try {
      line->parse(static_cast<int>(words.size()), words.data());
    } catch (const CLI::CallForHelp& help) {
      return line->app().help();
    }
    return std::string("parsed");
  };
  EXPECT_THAT(message({"help"}), HasSubstr("devices"));
  EXPECT_THAT(message({"help", "run", "matmul"}), HasSubstr("--seed"));
  EXPECT_THAT(message({"run", "matmul", "--help"}), HasSubstr("--seed"));
}

TEST(Completion, KnowsCommandsOptionsAndCards) {
  const auto line = std::make_unique<CommandLine>();
  const std::vector<std::string> cards = {"card0", "other"};
  const auto of = [&](const std::vector<std::string>& words) { return complete(line->app(), words, cards); };
  EXPECT_THAT(of({"re"}), testing::UnorderedElementsAre("reset", "replay"));
  EXPECT_THAT(of({"fault", "r"}), ElementsAre("run"));
  EXPECT_THAT(of({"stop", "c"}), ElementsAre("card0"));
  EXPECT_THAT(of({"logs", "card0", "--f"}), ElementsAre("--follow"));
  EXPECT_THAT(of({"devices", ""}), IsEmpty());
  EXPECT_THAT(of({""}), Not(Contains("__complete"))) << "hidden";
}

TEST(Manual, EveryCommandHasAPageWithItsOptions) {
  const qemu::test::TemporaryFolder folder;
  const auto line = std::make_unique<CommandLine>();
  const std::string others[] = {"spyre-soak"};
  write_manual(line->app(), folder.path(), others);
  const auto page = [&](const char* name) {
    std::ostringstream text;
    text << std::ifstream(folder.path() / name).rdbuf();
    return text.str();
  };
  EXPECT_THAT(page("spyre.1"), HasSubstr("devices"));
  EXPECT_THAT(page("spyre-run-matmul.1"), HasSubstr("\\-\\-seed"));
  EXPECT_THAT(page("spyre-boot.1"), HasSubstr("spyre boot \\-\\-name card0 \\-\\-detach"));
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "spyre-soak.1"));
  for (const auto& command : command_names(line->app())) {
    if (command == "soak") continue;
    EXPECT_THAT(page(("spyre-" + command + ".1").c_str()), HasSubstr(".SH SYNOPSIS")) << command;
  }
  EXPECT_THROW(write_manual(line->app(), folder.path() / "nowhere"), svp::Error);
}

TEST(ProgressLine, IsCutToTheWidthOfATerminal) {
  EXPECT_EQ(Progress::line("booting the card", std::chrono::seconds(3)), "booting the card ... 3 s");
  EXPECT_EQ(Progress::line(std::string(200, 'x'), std::chrono::seconds(12)).size(), 78u);
}

}  // namespace
}  // namespace cli
